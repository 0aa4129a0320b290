//! The limits of a device, measured with its own kernels: a sum over more data than the caches hold, and a large product.

use crate::error::Result;
use silicide_core::{Buffer, CommandEncoder, Device, Roofline};
use silicide_ops::{self as ops, fill, reduce};
use silicide_quant::{DType, Shape};
use std::time::{Duration, Instant};

/// Bytes that are read.
const BYTES: usize = 256 << 20;
/// Rows, columns and depth of the product.
const ROWS: usize = 256;
const SIDE: usize = 2048;
/// How often each is tried; the best counts.
const TRIES: usize = 4;

/// Measures a device: some tenths of a second on a CPU.
pub fn roofline(device: &Device) -> Result<Roofline> {
    let room = device.usage().limit.min(device.info().memory.available) / 8;
    let bytes = if device.info().software { BYTES / 8 } else { BYTES }.min(room).max(1 << 20);
    let columns = 4096;
    let shape = Shape::new(&[bytes / 4 / columns, columns]);
    let shape = shape.map_err(|source| silicide_core::Error::BadShape { what: "roofline", source })?;
    // Memory that was never written is one shared page of zeros, which stays in the L1 cache.
    let mut encoder = CommandEncoder::new(device);
    let x = fill::fill(&mut encoder, DType::F32, shape, 1.0)?;
    encoder.submit()?.wait()?;
    let read = best(|| {
        let mut encoder = CommandEncoder::new(device);
        drop(reduce::sum(&mut encoder, &x)?);
        Ok(encoder.submit()?.wait()?)
    })?;
    drop(x);
    let rows = if device.info().software { ROWS / 8 } else { ROWS };
    let a = Buffer::allocate(device, DType::F32, [rows, SIDE])?;
    let b = Buffer::allocate(device, DType::Block(silicide_quant::Format::Q8_0), [SIDE, SIDE])?;
    let multiplied = best(|| {
        let mut encoder = CommandEncoder::new(device);
        drop(ops::matmul(&mut encoder, &a, &b)?);
        Ok(encoder.submit()?.wait()?)
    })?;
    let operations = 2 * rows * SIDE * SIDE;
    Ok(Roofline {
        bandwidth: bytes as f64 / read.as_secs_f64(),
        speed: operations as f64 / multiplied.as_secs_f64(),
    })
}

/// The shortest time.
fn best(mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
    work()?;
    let mut shortest = Duration::MAX;
    for _ in 0..TRIES {
        let begin = Instant::now();
        work()?;
        shortest = shortest.min(begin.elapsed());
    }
    Ok(shortest.max(Duration::from_nanos(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers() {
        let roofline = roofline(&Device::cpu().unwrap()).unwrap();
        assert!(roofline.bandwidth > 1e7 && roofline.bandwidth.is_finite());
        assert!(roofline.speed > 1e7 && roofline.speed.is_finite());
    }
}
