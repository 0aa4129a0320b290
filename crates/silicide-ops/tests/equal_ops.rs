//! Graphs compute equal ops once, so ops whose results differ are not equal.
#![allow(clippy::unwrap_used)]

use silicide_core::kernel::DynOp;
use silicide_core::{Buffer, Device, GraphBuilder, GraphExecutor, GraphOptions, Recorder};
use silicide_ops::delta_net::{DeltaNet, KeyHeads};
use silicide_ops::fill::Fill;
use silicide_ops::route::Route;
use silicide_ops::unary::Unary;
use silicide_quant::{DType, Shape};

fn is_same(a: &dyn DynOp, b: &dyn DynOp) -> bool {
    a.is_same(b)
}

#[test]
fn parameters_that_differ_in_the_sign_of_zero_are_different() {
    let unary = [0.0, -0.0].map(|factor| Unary::Scale { factor });
    let fill = [0.0, -0.0].map(|value| Fill { dtype: DType::F32, shape: Shape::new(&[2]).unwrap(), value });
    let route = [0.0, -0.0].map(|scale| Route { scale, ..Route::softmax(2) });
    let delta_net = [0.0, -0.0].map(|scale| DeltaNet { scale, key_heads: KeyHeads::Grouped });
    let pairs: [[&dyn DynOp; 2]; 4] = [
        [&unary[0], &unary[1]],
        [&fill[0], &fill[1]],
        [&route[0], &route[1]],
        [&delta_net[0], &delta_net[1]],
    ];
    for [positive, negative] in pairs {
        assert!(is_same(positive, positive) && is_same(negative, negative), "{positive:?}");
        assert!(!is_same(positive, negative), "{positive:?} is the same as {negative:?}");
    }
}

#[test]
fn a_graph_computes_products_with_both_zeros() {
    let device = Device::cpu().unwrap();
    let mut builder = GraphBuilder::new(&device);
    let x = Buffer::from_slice(&device, [2], &[1.0f32, -1.0]).unwrap();
    let x = builder.constant(&x);
    let scaled = [0.0, -0.0].map(|factor| silicide_ops::unary::scale(&mut builder, &x, factor).unwrap());
    let graph = builder.finish(&[&scaled[0], &scaled[1]]).unwrap();
    let executor = GraphExecutor::new(graph, &GraphOptions::default()).unwrap();
    let mut session = executor.session(&[]).unwrap();
    session.replay().unwrap().wait().unwrap();
    let bits = [0, 1].map(|output| {
        let values = session.output(output).unwrap().to_vec::<f32>().unwrap();
        values.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    });
    let [positive, negative] = [0.0f32, -0.0].map(f32::to_bits);
    assert_eq!(bits, [[positive, negative], [negative, positive]].map(Vec::from));
}
