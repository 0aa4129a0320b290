//! Matmul on the GPU with the shapes of a model of 135M parameters: all its matrices for one row and for few, one layer
//! for many.

use crate::measure::repeat;
use crate::quantized::{HEAD, LAYER, LAYERS, Product, multiply};
use crate::report::{Report, Target};
use silicide_core::Device;
use silicide_quant::DType;
use std::time::Duration;

/// Rows that read every matrix of the model.
const FEW: [usize; 2] = [1, 4];
/// Rows that read one layer.
const MANY: usize = 64;

pub(crate) fn run(report: &mut Report, formats: &[String]) -> anyhow::Result<()> {
    let device = Device::open(crate::gpu::NAME)?;
    report.heading(&format!("Matmul by weight format: {}", device.info().name));
    for name in formats {
        let dtype = DType::from_name(name).ok_or_else(|| anyhow::anyhow!("no format {name}"))?;
        for rows in FEW {
            let model: anyhow::Result<Vec<Product>> = (0..LAYERS)
                .flat_map(|_| LAYER)
                .chain([HEAD])
                .map(|(n, k)| Product::new(&device, dtype, rows, n, k))
                .collect();
            let model = model?;
            let bytes: usize = model.iter().map(|product| product.b.size()).sum();
            let times = repeat(Duration::from_secs(2), || multiply(&device, &model))?;
            let (median, spread) = (times.median(), times.spread());
            let label = format!("{dtype}, {rows} rows, whole model");
            report.row(&label, median * 1e3, spread * 1e3, "ms", Target::None);
            let label = format!("{dtype}, {rows} rows, weights");
            report.row(&label, bytes as f64 / median / 1e9, 0.0, "GB/s", Target::None);
        }
        let layer: anyhow::Result<Vec<Product>> =
            LAYER.into_iter().map(|(n, k)| Product::new(&device, dtype, MANY, n, k)).collect();
        let layer = layer?;
        let operations: usize = layer.iter().map(|product| 2 * MANY * product.b.elements()).sum();
        let times = repeat(Duration::from_secs(1), || multiply(&device, &layer))?;
        let label = format!("{dtype}, {MANY} rows, a layer");
        report.row(&label, operations as f64 / times.median() / 1e9, 0.0, "GOP/s", Target::None);
    }
    Ok(())
}
