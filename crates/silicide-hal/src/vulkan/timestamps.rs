//! Device times of marks: a timestamp where each mark stands and one at the end, read once the list was reached.
//!
//! A timestamp is written when everything before it has finished, so a span is the time in which the commands after
//! its mark finished.

use super::adapter::Clock;
use super::gpu::Gpu;
use crate::{Result, Span};
use ash::vk;
use std::sync::Arc;

/// Timestamps in a pool.
const QUERIES: usize = 128;

/// The timestamps of one command buffer.
pub(super) struct Timestamps {
    gpu: Arc<Gpu>,
    pools: Vec<vk::QueryPool>,
    /// One per mark so far.
    labels: Vec<&'static str>,
    /// Timestamps written: one more than labels when the list is complete.
    written: usize,
    ticks: Vec<u64>,
}

impl Timestamps {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Timestamps {
        Timestamps { gpu: gpu.clone(), pools: Vec::new(), labels: Vec::new(), written: 0, ticks: Vec::new() }
    }

    /// Removes all marks.
    pub(super) fn reset(&mut self) {
        self.labels.clear();
        self.written = 0;
    }

    /// Returns whether there is something to read.
    pub(super) fn has_marks(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Lets the same command buffer write its timestamps again, which the device is through with.
    pub(super) fn rearm(&mut self) {
        for pool in self.pools.iter().take(self.written.div_ceil(QUERIES)) {
            // SAFETY: host resets are enabled with timestamps, and the device is through with the pool.
            unsafe { self.gpu.device.reset_query_pool(*pool, 0, QUERIES as u32) };
        }
    }

    /// Writes a mark's timestamp.
    pub(super) fn mark(&mut self, buffer: vk::CommandBuffer, label: &'static str) -> Result<()> {
        if !self.gpu.adapter.info.features.timestamps {
            return Ok(());
        }
        self.write(buffer)?;
        self.labels.push(label);
        Ok(())
    }

    /// Writes the last timestamp of a list that has marks.
    pub(super) fn finish(&mut self, buffer: vk::CommandBuffer) -> Result<()> {
        if self.has_marks() { self.write(buffer) } else { Ok(()) }
    }

    fn write(&mut self, buffer: vk::CommandBuffer) -> Result<()> {
        let (pool, query) = (self.written / QUERIES, self.written % QUERIES);
        let pool = match self.pools.get(pool) {
            Some(pool) => *pool,
            None => self.grow()?,
        };
        if query == 0 {
            // SAFETY: host resets are enabled with timestamps, and the device is through with the pool.
            unsafe { self.gpu.device.reset_query_pool(pool, 0, QUERIES as u32) };
        }
        let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
        // SAFETY: the buffer is being recorded, the query is reset and unused.
        unsafe { self.gpu.device.cmd_write_timestamp(buffer, stage, pool, query as u32) };
        self.written += 1;
        Ok(())
    }

    fn grow(&mut self) -> Result<vk::QueryPool> {
        let create = vk::QueryPoolCreateInfo::default()
            .query_type(vk::QueryType::TIMESTAMP)
            .query_count(QUERIES as u32);
        // SAFETY: `gpu` keeps the device alive.
        let pool = unsafe { self.gpu.device.create_query_pool(&create, None) }
            .map_err(|result| self.gpu.error("vkCreateQueryPool", result))?;
        self.pools.push(pool);
        Ok(pool)
    }

    /// The spans of a list that was reached, into `spans`; nothing if the device reports no times.
    pub(super) fn read(&mut self, spans: &mut Vec<Span>) {
        self.ticks.clear();
        self.ticks.resize(self.written, 0);
        for (pool, ticks) in self.pools.iter().zip(self.ticks.chunks_mut(QUERIES)) {
            // SAFETY: the pool's first queries were written by a list that was reached.
            let read = unsafe {
                self.gpu.device.get_query_pool_results(*pool, 0, ticks, vk::QueryResultFlags::TYPE_64)
            };
            if read.is_err() {
                return;
            }
        }
        let (Some(first), clock) = (self.ticks.first(), self.gpu.adapter.clock) else { return };
        for (label, pair) in self.labels.iter().zip(self.ticks.windows(2)) {
            if let [from, to] = pair {
                spans.push(Span {
                    label,
                    start_ns: clock.between(*first, *from),
                    duration_ns: clock.between(*from, *to),
                });
            }
        }
    }
}

impl Drop for Timestamps {
    fn drop(&mut self) {
        for pool in self.pools.drain(..) {
            // SAFETY: no list in flight uses the pool: `VulkanDevice::drop` waits for an idle device, `RawDevice::unbake` demands that
            // its replays were reached, and a recording that failed was not submitted.
            unsafe { self.gpu.device.destroy_query_pool(pool, None) };
        }
    }
}

impl Clock {
    /// Nanoseconds from one timestamp to another.
    fn between(&self, from: u64, to: u64) -> u64 {
        ((to.wrapping_sub(from) & self.mask) as f64 * self.nanoseconds_per_tick) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_wrap() {
        let clock = Clock { nanoseconds_per_tick: 2.0, mask: 0xffff };
        assert_eq!(clock.between(10, 15), 10);
        assert_eq!(clock.between(0xfff0, 0x10), 64);
    }
}
