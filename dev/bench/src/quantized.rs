//! Matmul with the shapes of a model of 135M parameters: all matrices for one row, against reading as many bytes; and
//! one layer for 512 rows, against the machine's peak of 8-bit dot products.

use crate::limits;
use crate::measure::{alternate, ratio};
use crate::report::{Report, Target};
use silicide_core::{Buffer, CommandEncoder, Device, DeviceOptions};
use silicide_ops::matmul;
use silicide_quant::{DType, Format};
use std::time::Duration;

pub(crate) const LAYERS: usize = 30;
const ROWS: usize = 512;
/// Columns and depth of a layer's matrices: query, key, value, output; gate, up, down.
pub(crate) const LAYER: [(usize, usize); 7] =
    [(576, 576), (192, 576), (192, 576), (576, 576), (1536, 576), (1536, 576), (576, 1536)];
pub(crate) const HEAD: (usize, usize) = (49152, 576);

/// One product: activations, weights, outputs.
pub(crate) struct Product {
    a: Buffer,
    pub(crate) b: Buffer,
    y: Buffer,
}

impl Product {
    pub(crate) fn new(
        device: &Device,
        dtype: DType,
        m: usize,
        n: usize,
        k: usize,
    ) -> anyhow::Result<Product> {
        // Depths of whole blocks, so that formats of longer ones can be measured too.
        let k = k.next_multiple_of(dtype.block_len());
        let values: Vec<f32> = (0..m * k).map(|i| ((i * 37) % 101) as f32 / 101.0 - 0.5).collect();
        // A few columns, again and again: encoding takes longer than measuring.
        let some: Vec<f64> = (0..8 * k).map(|i| ((i * 53) % 211) as f64 / 211.0 - 0.5).collect();
        let some = silicide_quant::encode(dtype, &some);
        let bytes: Vec<u8> = some.iter().copied().cycle().take(some.len() / 8 * n).collect();
        let b = Buffer::from_slice(device, bytes.len(), &bytes)?.reinterpret(dtype)?.reshape([n, k])?;
        let a = Buffer::from_slice(device, [m, k], &values)?;
        Ok(Product { a, b, y: Buffer::allocate(device, DType::F32, [m, n])? })
    }
}

pub(crate) fn multiply(device: &Device, products: &[Product]) -> anyhow::Result<()> {
    let mut encoder = CommandEncoder::new(device);
    for Product { a, b, y } in products {
        matmul::matmul_into(&mut encoder, a, b, y)?;
    }
    Ok(encoder.submit()?.wait()?)
}

pub(crate) fn run(report: &mut Report, formats: &[String]) -> anyhow::Result<()> {
    let memory = vec![1u64; 32 << 20];
    for threads in [1, 2] {
        let mut options = DeviceOptions::default();
        options.threads = Some(threads);
        let device = Device::open_with("cpu", &options)?;
        report.heading(&format!("Matmul by weight format, {threads} threads"));
        for name in formats {
            let dtype = DType::from_name(name).ok_or_else(|| anyhow::anyhow!("no format {name}"))?;
            one_row(report, &device, dtype, &memory, threads)?;
            many_rows(report, &device, dtype, threads)?;
        }
    }
    Ok(())
}

fn one_row(
    report: &mut Report,
    device: &Device,
    dtype: DType,
    memory: &[u64],
    threads: usize,
) -> anyhow::Result<()> {
    let shapes = (0..LAYERS).flat_map(|_| LAYER).chain([HEAD]);
    let model: anyhow::Result<Vec<Product>> =
        shapes.map(|(n, k)| Product::new(device, dtype, 1, n, k)).collect();
    let model = model?;
    let bytes: usize = model.iter().map(|product| product.b.size()).sum();
    let memory = memory.get(..bytes / 8).unwrap_or(memory);
    let mut read = || {
        limits::read(memory, threads);
        Ok(())
    };
    let times = alternate(Duration::from_secs(1), &mut [&mut read, &mut || multiply(device, &model)])?;
    let [read, model] = times.as_slice() else { return Ok(()) };
    let (speed, spread) = ratio(read, model);
    report.row(&format!("{dtype}, 1 row, of reading as much"), speed, spread, "x", Target::None);
    let (median, spread) = (model.median(), model.spread());
    report.row(&format!("{dtype}, 1 row, whole model"), median * 1e3, spread * 1e3, "ms", Target::None);
    report.row(&format!("{dtype}, 1 row, weights"), bytes as f64 / median / 1e9, 0.0, "GB/s", Target::None);
    Ok(())
}

fn many_rows(report: &mut Report, device: &Device, dtype: DType, threads: usize) -> anyhow::Result<()> {
    let layer: anyhow::Result<Vec<Product>> =
        LAYER.into_iter().map(|(n, k)| Product::new(device, dtype, ROWS, n, k)).collect();
    let layer = layer?;
    let operations: usize = LAYER.iter().map(|(n, k)| 2 * ROWS * n * k).sum();
    let mut measured = false;
    let mut peak = || {
        measured = limits::dots(limits::best(), operations, threads);
        Ok(())
    };
    let times = alternate(Duration::from_secs(1), &mut [&mut peak, &mut || multiply(device, &layer)])?;
    let [peak, layer] = times.as_slice() else { return Ok(()) };
    if measured {
        let (speed, spread) = ratio(peak, layer);
        report.row(
            &format!("{dtype}, {ROWS} rows, of the peak of 8-bit products"),
            speed,
            spread,
            "x",
            Target::None,
        );
    }
    let speed = operations as f64 / layer.median() / 1e9;
    report.row(&format!("{dtype}, {ROWS} rows, a layer"), speed, 0.0, "GOP/s", Target::None);
    Ok(())
}

/// Returns the formats that are measured by default.
pub(crate) fn formats() -> Vec<String> {
    let blocks = [Format::Q4_0, Format::Q4_1, Format::Q8_0].map(|format| format.name().to_owned());
    blocks.into_iter().chain([DType::F16.name().to_owned()]).collect()
}
