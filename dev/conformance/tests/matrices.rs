//! Large products are fused on devices with subgroup matrices too.

#![allow(clippy::unwrap_used, clippy::panic)]

use silicide_core::kernel::TensorInfo;
use silicide_core::{Device, DeviceOptions, GraphBuilder, GraphExecutor, GraphOptions};
use silicide_hal::wgsl::MslTarget;
use silicide_ops::fuse::{GATED_LINEARS, LINEAR_BIAS, SHARED_LINEARS};
use silicide_ops::glu::Activation;
use silicide_quant::{DType, Shape};

/// A device in Metal's language. Without clang tests say so and pass, but not in continuous integration.
fn device(target: MslTarget) -> Option<Device> {
    match msl::open(&DeviceOptions::default(), target) {
        Ok(device) => Some(device),
        Err(what) => {
            samples::not_tested(what);
            None
        }
    }
}

/// Returns the number of rewrites in a graph of products with a bias, with a gate, and of one input, of `rows` rows.
fn rewrites(device: &Device, rows: usize) -> usize {
    let info = |axes: &[usize]| TensorInfo::new(DType::F32, Shape::new(axes).unwrap());
    let mut builder = GraphBuilder::new(device);
    let [x, other] = ["x", "other"].map(|name| builder.input(name, info(&[rows, 64])));
    let weight = builder.input("weight", info(&[96, 64]));
    let [gate, up] = ["gate", "up"].map(|name| builder.input(name, info(&[96, 64])));
    let bias = builder.input("bias", info(&[96]));
    let product = silicide_ops::linear(&mut builder, &x, &weight, None).unwrap();
    let sum = silicide_ops::add(&mut builder, &product, &bias).unwrap();
    let gate = silicide_ops::linear(&mut builder, &other, &gate, None).unwrap();
    let up = silicide_ops::linear(&mut builder, &other, &up, None).unwrap();
    let gated = silicide_ops::glu(&mut builder, Activation::Silu, &gate, &up).unwrap();
    let mut options = GraphOptions::default();
    options.passes = vec![LINEAR_BIAS, GATED_LINEARS, SHARED_LINEARS];
    let executor = GraphExecutor::new(builder.finish(&[&sum, &gated]).unwrap(), &options).unwrap();
    executor.report().passes.iter().map(|pass| pass.rewrites).sum()
}

#[test]
fn products_in_matrices_are_fused() {
    let (Some(with), Some(without)) = (device(msl::NEWEST), device(msl::OLDEST)) else { return };
    for device in [&with, &without] {
        assert_eq!((rewrites(device, 40), rewrites(device, 41)), (2, 2));
    }
}
