//! What functions refuse: extents of zero, buffers that are too small, wrong types, strides, ids and parameters. A call that is refused encodes
//! nothing.

// What they share may panic as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod files;
mod handles;
mod ops;
mod products;

use mlx_native::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice, Result};

/// An encoder, and an output that no refused call writes.
struct Refusals {
    device: MlxDevice,
    encoder: CommandEncoder,
    registry: KernelRegistry,
    output: MlxBuffer,
}

impl Refusals {
    fn new() -> Refusals {
        let device = MlxDevice::new().unwrap();
        let encoder = device.command_encoder().unwrap();
        let mut refusals = Refusals {
            encoder,
            registry: KernelRegistry::new(),
            output: of(&device, DType::F32, 1024),
            device,
        };
        refusals.output.as_mut_slice().unwrap().fill(5.0f32);
        refusals
    }

    /// Returns a buffer of zeros.
    fn buffer(&self, dtype: DType, count: usize) -> MlxBuffer {
        of(&self.device, dtype, count)
    }

    /// Calls `call`, which must be refused with a text that holds `text`.
    fn refused<T>(
        &mut self,
        text: &str,
        call: impl FnOnce(&mut CommandEncoder, &mut KernelRegistry, &MlxDevice, &MlxBuffer) -> Result<T>,
    ) {
        match call(&mut self.encoder, &mut self.registry, &self.device, &self.output) {
            Ok(_) => panic!("not refused: {text}"),
            Err(error) => assert!(error.to_string().contains(text), "{error}, expected {text}"),
        }
    }

    /// Submits, and checks that nothing was written.
    fn end(mut self) {
        self.encoder.commit_and_wait().unwrap();
        assert!(self.output.as_slice::<f32>().unwrap().iter().all(|value| *value == 5.0));
    }
}

fn of(device: &MlxDevice, dtype: DType, count: usize) -> MlxBuffer {
    device.alloc_buffer(count * dtype.size_of(), dtype, vec![count]).unwrap()
}
