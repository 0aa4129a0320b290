//! Staging: a bounded way into memory that the host can't see.
//!
//! Two buffers alternate: the host fills one while the device copies from the other. A buffer is filled again only
//! when its copy is done, so no more than both are ever on their way.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Result;
use crate::memory::{Purpose, Request};
use crate::record::{CommandEncoder, Submission};
use silicide_hal::MemoryKind;
use silicide_quant::{DType, Shape};
use std::sync::Arc;

/// The number of staging buffers.
const BUFFERS: usize = 2;
/// Pieces are at least this long, however little staging memory is requested.
const SMALLEST: usize = 4096;

/// The two buffers, made when first needed.
pub(super) struct Staging {
    /// Bytes of each.
    piece: usize,
    buffers: [Option<StagingBuffer>; BUFFERS],
    next: usize,
}

struct StagingBuffer {
    buffer: Buffer,
    /// The copy out of it, until it was waited for.
    copying: Option<Submission>,
}

impl Staging {
    pub(super) fn new(bytes: usize) -> Staging {
        Staging { piece: (bytes / BUFFERS).max(SMALLEST), buffers: [None, None], next: 0 }
    }

    /// The bytes that go at once.
    pub(super) fn piece(&self) -> usize {
        self.piece
    }

    /// Fills a buffer and begins its copy into bytes of `to`, which are no more than a piece.
    pub(super) fn send(
        &mut self,
        device: &Device,
        to: &Buffer,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let piece = self.piece;
        self.next = (self.next + 1) % BUFFERS;
        let Some(slot) = self.buffers.get_mut(self.next) else { return Ok(()) };
        let staging = match slot {
            Some(staging) => staging,
            None => slot.insert(StagingBuffer { buffer: make(device, piece)?, copying: None }),
        };
        if let Some(copying) = staging.copying.take() {
            copying.wait()?;
        }
        let from = staging.buffer.view(0, to.size())?;
        fill(&mut from.write::<u8>()?)?;
        let mut encoder = CommandEncoder::new(device);
        encoder.copy(&from, to)?;
        staging.copying = Some(encoder.submit()?);
        Ok(())
    }

    /// Waits for the copies that are on their way.
    pub(super) fn finish(&mut self) -> Result<()> {
        for staging in self.buffers.iter_mut().flatten() {
            if let Some(copying) = staging.copying.take() {
                copying.wait()?;
            }
        }
        Ok(())
    }
}

fn make(device: &Device, bytes: usize) -> Result<Buffer> {
    let request = Request { bytes, purpose: Purpose::Staging, kind: MemoryKind::Shared, zeroed: false };
    let shape = Shape::try_from(bytes).map_err(|error| crate::Error::bad_shape("staging", error))?;
    Buffer::from_request(device, Arc::<_>::clone(device.memory()) as _, DType::U8, shape, request)
}
