//! Sessions of a graph executor: they run dispatches, or record them for the passes.

use super::ComputeGraph;
use crate::error::{Result, refuse};
use crate::hazard::MemRanges;
use crate::metal::DeviceRef;
use crate::ops::{self, elementwise};
use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};
use std::time::Instant;

/// Makes sessions on a device.
#[derive(Debug)]
pub struct GraphExecutor {
    device: MlxDevice,
}

impl GraphExecutor {
    /// Returns an executor on `device`.
    pub fn new(device: MlxDevice) -> GraphExecutor {
        GraphExecutor { device }
    }

    /// Returns the device.
    pub fn device(&self) -> &MlxDevice {
        &self.device
    }

    /// Returns a session that runs dispatches in the order of the calls.
    pub fn begin(&self) -> Result<GraphSession<'_>> {
        Ok(GraphSession {
            device: &self.device,
            encoder: self.device.command_encoder()?,
            tracker: MemRanges::new(),
            barriers: 0,
        })
    }

    /// Returns a session that records dispatches, for the passes of its `finish` functions.
    pub fn begin_recorded(&self) -> Result<GraphSession<'_>> {
        let mut session = self.begin()?;
        session.encoder.start_capture();
        Ok(session)
    }
}

/// One encoder, and the ranges that were touched since the last barrier.
pub struct GraphSession<'a> {
    device: &'a MlxDevice,
    encoder: CommandEncoder,
    tracker: MemRanges,
    barriers: usize,
}

impl GraphSession<'_> {
    /// Sets a barrier.
    pub fn barrier(&mut self) {
        self.encoder.memory_barrier();
        self.tracker.reset();
        self.barriers += 1;
    }

    /// Sets a barrier if a dispatch that touches these buffers conflicts with those since the last barrier, and notes the buffers. While
    /// recording they become the ranges of the next dispatch.
    pub fn barrier_between(&mut self, reads: &[&MlxBuffer], writes: &[&MlxBuffer]) {
        let ranges = |buffers: &[&MlxBuffer]| buffers.iter().map(|buffer| buffer.range()).collect();
        if !self.tracker.check_dispatch(reads, writes) {
            self.barrier();
        }
        self.tracker.add_dispatch(reads, writes);
        if self.encoder.is_capturing() {
            self.encoder.set_pending_buffer_ranges(ranges(reads), ranges(writes));
        }
    }

    /// Notes the buffers of a dispatch.
    pub fn track_dispatch(&mut self, reads: &[&MlxBuffer], writes: &[&MlxBuffer]) {
        self.tracker.add_dispatch(reads, writes);
    }

    /// Returns the encoder.
    pub fn encoder_mut(&mut self) -> &mut CommandEncoder {
        &mut self.encoder
    }

    /// Returns whether dispatches are recorded.
    pub fn is_recording(&self) -> bool {
        self.encoder.is_capturing()
    }

    /// Returns the number of barriers that were set.
    pub fn barrier_count(&self) -> usize {
        self.barriers
    }

    /// Encodes what was recorded, if anything was, in order.
    fn replay(&mut self) {
        if let Some(nodes) = self.encoder.take_capture() {
            ComputeGraph::from_nodes(nodes).encode_sequential(&mut self.encoder);
        }
    }

    /// Submits and waits.
    pub fn finish(mut self) -> Result<()> {
        self.replay();
        self.encoder.commit_and_wait()
    }

    /// Submits, and returns the encoder to wait with.
    pub fn commit(mut self) -> CommandEncoder {
        self.replay();
        self.encoder.commit();
        self.encoder
    }

    /// Submits and waits. Returns the ns from `session_begin` to the submission, and from there to the end.
    pub fn finish_with_timing(mut self, session_begin: Instant) -> Result<(u64, u64)> {
        let ns = |time: Instant| u64::try_from(time.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.replay();
        let encoded = ns(session_begin);
        let submitted = Instant::now();
        self.encoder.commit_and_wait()?;
        Ok((encoded, ns(submitted)))
    }

    /// Submits, waits, and returns how long the device worked, in ns.
    pub fn finish_with_gpu_time(mut self) -> Result<u64> {
        self.replay();
        self.encoder.commit_wait_with_gpu_time()?;
        Ok(self.encoder.completed_gpu_interval_ns())
    }

    /// Takes the recorded graph and refuses one whose ranges are not all known, where they are needed.
    fn graph(&mut self, ranges: bool) -> Result<ComputeGraph> {
        let graph = ComputeGraph::from_nodes(self.encoder.take_capture().unwrap_or_default());
        let unknown = graph.unannotated_dispatch_count();
        if ranges && unknown > 0 {
            refuse!("{unknown} dispatches lack complete buffer ranges; call barrier_between before each");
        }
        Ok(graph)
    }

    /// Reorders what was recorded, encodes it with the barriers that it needs, submits and waits. Returns the dispatches that were moved
    /// and the barriers.
    pub fn finish_with_reorder(mut self) -> Result<(u32, u32)> {
        let mut graph = self.graph(true)?;
        let moved = graph.reorder();
        let barriers = graph.encode_with_barriers(&mut self.encoder);
        self.encoder.commit_and_wait()?;
        Ok((moved, barriers))
    }

    /// Fuses what was recorded, submits and waits. Returns the number of fusions.
    pub fn finish_with_fusion(mut self, registry: &mut KernelRegistry, device: &DeviceRef) -> Result<u32> {
        let mut graph = self.graph(false)?;
        let fused = graph.fuse(registry, device)?;
        graph.encode_sequential(&mut self.encoder);
        self.encoder.commit_and_wait()?;
        Ok(fused)
    }

    /// Fuses, reorders, submits and waits. Returns the fusions and the dispatches that were moved.
    pub fn finish_with_fusion_and_reorder(
        mut self,
        registry: &mut KernelRegistry,
        device: &DeviceRef,
    ) -> Result<(u32, u32)> {
        let mut graph = self.graph(true)?;
        let (fused, moved) = (graph.fuse(registry, device)?, graph.reorder());
        graph.encode_with_barriers(&mut self.encoder);
        self.encoder.commit_and_wait()?;
        Ok((fused, moved))
    }

    /// Fuses, reorders, encodes on two command buffers, submits and waits. Returns fusions, moved dispatches, and the barriers of
    /// each command buffer.
    pub fn finish_optimized(
        mut self,
        registry: &mut KernelRegistry,
        device: &DeviceRef,
    ) -> Result<(u32, u32, u32, u32)> {
        let mut graph = self.graph(true)?;
        let (fused, moved) = (graph.fuse(registry, device)?, graph.reorder());
        let mut second = self.device.command_encoder()?;
        let (first_barriers, second_barriers) = graph.encode_dual_buffer(&mut self.encoder, &mut second);
        second.commit_and_wait()?;
        self.encoder.wait_until_completed()?;
        Ok((fused, moved, first_barriers, second_barriers))
    }
}

/// Declares functions of a session that call those of `ops` with its encoder.
macro_rules! session_ops {
    ($($(#[$doc:meta])* $name:ident = $function:path, $device:ty, ($($argument:ident: $type:ty),*);)*) => {
        impl GraphSession<'_> {$(
            $(#[$doc])*
            pub fn $name(
                &mut self,
                registry: &mut KernelRegistry,
                device: &$device,
                $($argument: $type),*
            ) -> Result<()> {
                $function(&mut self.encoder, registry, device, $($argument),*)
            }
        )*}
    };
}

session_ops! {
    /// [`elementwise::elementwise_add`].
    elementwise_add = elementwise::elementwise_add, DeviceRef,
        (a: &MlxBuffer, b: &MlxBuffer, output: &MlxBuffer, n_elements: usize, dtype: DType);
    /// [`elementwise::elementwise_mul`].
    elementwise_mul = elementwise::elementwise_mul, DeviceRef,
        (a: &MlxBuffer, b: &MlxBuffer, output: &MlxBuffer, n_elements: usize, dtype: DType);
    /// [`ops::rms_norm::dispatch_rms_norm`].
    rms_norm = ops::rms_norm::dispatch_rms_norm, DeviceRef,
        (input: &MlxBuffer, weight: &MlxBuffer, output: &MlxBuffer, params_buf: &MlxBuffer, rows: u32, dim: u32);
    /// [`ops::quantized_matmul_ggml::quantized_matmul_ggml`].
    quantized_matmul_ggml = ops::quantized_matmul_ggml::quantized_matmul_ggml, MlxDevice,
        (input: &MlxBuffer, weight: &MlxBuffer, output: &MlxBuffer,
         params: &ops::quantized_matmul_ggml::GgmlQuantizedMatmulParams);
    /// [`ops::quantized_matmul_id_ggml::quantized_matmul_id_ggml`].
    quantized_matmul_id_ggml = ops::quantized_matmul_id_ggml::quantized_matmul_id_ggml, MlxDevice,
        (input: &MlxBuffer, weight: &MlxBuffer, ids: &MlxBuffer, output: &MlxBuffer,
         params: &ops::quantized_matmul_id_ggml::GgmlQuantizedMatmulIdParams);
    /// [`ops::softmax::dispatch_softmax`].
    softmax = ops::softmax::dispatch_softmax, DeviceRef,
        (input: &MlxBuffer, output: &MlxBuffer, params_buf: &MlxBuffer, rows: u32, cols: u32);
    /// [`ops::softcap::dispatch_softcap`].
    softcap = ops::softcap::dispatch_softcap, DeviceRef,
        (input: &MlxBuffer, output: &MlxBuffer, params_buf: &MlxBuffer, cap: f32);
    /// [`ops::gelu::dispatch_gelu`].
    gelu = ops::gelu::dispatch_gelu, DeviceRef, (input: &MlxBuffer, output: &MlxBuffer);
    /// [`ops::sdpa::sdpa`].
    sdpa = ops::sdpa::sdpa, MlxDevice,
        (q: &MlxBuffer, k: &MlxBuffer, v: &MlxBuffer, output: &MlxBuffer, params: &ops::sdpa::SdpaParams,
         batch_size: u32);
    /// [`ops::rope::dispatch_rope`].
    rope = ops::rope::dispatch_rope, DeviceRef,
        (input: &MlxBuffer, output: &MlxBuffer, params_buf: &MlxBuffer, positions_buf: &MlxBuffer, seq_len: u32,
         head_dim: u32);
    /// [`ops::embedding_q4_0::embedding_gather_q4_0`].
    embedding_gather_q4_0 = ops::embedding_q4_0::embedding_gather_q4_0, MlxDevice,
        (weight: &MlxBuffer, token_ids: &MlxBuffer, output: &MlxBuffer,
         params: &ops::embedding_q4_0::EmbeddingQ4_0Params);
}
