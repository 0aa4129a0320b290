//! What this crate does where mlx-native panics, races or reads memory that is not the caller's.

// What they share may panic as tests do.
#![allow(clippy::unwrap_used)]

mod buffers;
mod encoder;
mod graph;
mod left_out;

use mlx_native::{DType, MlxBuffer, MlxDevice};

/// Returns the device, and a buffer for each row of values.
fn buffers<const N: usize>(values: [&[f32]; N]) -> (MlxDevice, [MlxBuffer; N]) {
    let device = MlxDevice::new().unwrap();
    let buffers = values.map(|values| {
        let mut buffer = device.alloc_buffer(values.len() * 4, DType::F32, vec![values.len()]).unwrap();
        buffer.as_mut_slice().unwrap().copy_from_slice(values);
        buffer
    });
    (device, buffers)
}
