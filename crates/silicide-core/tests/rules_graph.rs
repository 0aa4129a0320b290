//! Rules that only graphs have: identity of builders, rewrites by passes, and buffers that come with a session.

use crate::common::ops::{Accumulate, Add, Scale};
use crate::common::pairs::{Bits, Quadruple, Sized, Split};
use crate::common::{ForwardingAllocator, count, devices, vector};
use silicide_core::graph::{COMMON_SUBEXPRESSIONS, Fusion, Operand};
use silicide_core::kernel::{Op, TensorInfo};
use silicide_core::{
    Buffer, BufferOptions, CommandEncoder, ComputeGraph, Device, Error, GraphBuilder, GraphExecutor,
    GraphOptions, GraphSession, GraphValue, MappedFile, Pass, Recorder, Result,
};
use silicide_quant::{DType, Shape};
use std::sync::Arc;

const LEN: usize = 300;

fn shape(elements: usize) -> Shape {
    Shape::new(&[elements]).unwrap()
}

fn info() -> TensorInfo {
    TensorInfo::new(DType::F32, shape(LEN))
}

fn bind(builder: GraphBuilder, outputs: &[&GraphValue]) -> Result<GraphSession> {
    GraphExecutor::new(builder.finish(outputs)?, &GraphOptions::default())?.session(&[])
}

/// A value of another builder names a tensor of its own number here, perhaps of another type and size.
#[test]
fn values_of_another_builder_are_refused_everywhere() {
    let device = Device::cpu().unwrap();
    let (large, small) = (vector(&device, &count(LEN)), Buffer::new(&device, DType::U8, [LEN]).unwrap());
    let (mut one, mut other) = (GraphBuilder::new(&device), GraphBuilder::new(&device));
    let foreign = other.constant(&large);
    let (_, own) = (one.constant(&small), one.constant(&large));
    assert_error!(one.run(Scale(2.0), &[&foreign]), Error::WrongGraph { what: "scale" });
    assert_error!(one.run_into(Scale(2.0), &[&own], &[&foreign]), Error::WrongGraph { .. });
    assert_error!(one.run_into(Scale(2.0), &[&foreign], &[&own]), Error::WrongGraph { .. });
    assert_error!(one.reshape(&foreign, shape(LEN)), Error::WrongGraph { what: "reshape" });
    let text = assert_error!(one.finish(&[&own, &foreign]), Error::WrongGraph { what: "finish" });
    assert!(text.contains("another graph"), "{text}");
}

#[test]
fn parameters_of_another_graph_can_not_be_set() {
    let device = Device::cpu().unwrap();
    let graph = || {
        let mut builder = GraphBuilder::new(&device);
        let (parameter, value) = builder.parameter("p", info()).unwrap();
        let y = builder.run_one(Scale(2.0), &[&value]).unwrap();
        (bind(builder, &[&y]).unwrap(), parameter)
    };
    let ((mut session, own), (_other, foreign)) = (graph(), graph());
    assert_error!(session.set(foreign, &[1f32; LEN]), Error::WrongGraph { what: "parameter" });
    session.set(own, &[1f32; LEN]).unwrap();
    session.replay().unwrap().wait().unwrap();
    assert_eq!(session.output(0).unwrap().read::<f32>().unwrap()[7], 2.0);
}

/// Views that overlap are different tensors of a builder, and the same bytes.
#[test]
fn overlapping_views_are_refused_as_the_encoder_refuses_them() {
    let device = Device::cpu().unwrap();
    let memory = vector(&device, &count(3 * LEN));
    let view = |start: usize| memory.slice(start..start + LEN).unwrap();
    fn refused<R: Recorder>(recorder: &mut R, [x, y, far]: [&Buffer; 3]) -> Vec<String> {
        let bits = y.reinterpret(DType::U32).unwrap();
        let far_bits = far.reinterpret(DType::U32).unwrap();
        let [x, y, far, bits, far_bits] = [x, y, far, &bits, &far_bits].map(|view| recorder.constant(view));
        recorder.run_into(Bits, &[&x], &[&far_bits]).unwrap();
        let results = [
            recorder.run_into(Scale(2.0), &[&x], &[&y]),
            recorder.run_into(Add, &[&x, &far], &[&y]),
            recorder.run_into(Accumulate, &[&x], &[&y]),
            recorder.run_into(Bits, &[&y], &[&bits]),
            recorder.run_into(Split, &[&far], &[&x, &y]),
            recorder.run_into(Split, &[&far], &[&x, &x]),
        ];
        results.map(|result| assert_error!(result, Error::Aliasing { .. })).to_vec()
    }
    let views = [&view(0), &view(64), &view(2 * LEN)];
    let encoded = refused(&mut CommandEncoder::new(&device), views);
    assert_eq!(refused(&mut GraphBuilder::new(&device), views), encoded);
}

#[test]
fn constants_of_another_device_are_refused() {
    let mut all = devices();
    all.push(Device::cpu().unwrap());
    for (i, own) in all.iter().enumerate() {
        for other in all.iter().skip(i + 1).chain(all.iter().take(i)) {
            let (x, y) = (vector(own, &count(LEN)), vector(other, &count(LEN)));
            let mut builder = GraphBuilder::new(own);
            let (x, y) = (builder.constant(&x), builder.constant(&y));
            assert_error!(builder.run(Scale(2.0), &[&y]), Error::WrongDevice { what: "scale", .. });
            assert_error!(builder.run_into(Scale(2.0), &[&x], &[&y]), Error::WrongDevice { .. });
            // Also where no op takes it.
            assert_error!(bind(builder, &[&y]), Error::WrongDevice { what: "graph", .. });
        }
    }
}

#[test]
fn a_constant_that_is_allocated_at_an_odd_address_is_refused() {
    let device = Device::cpu().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![0u8; 4 * LEN + 1]).unwrap();
    // SAFETY: the test has just made this temporary file, and nothing changes it while it is mapped.
    let mapped = unsafe { MappedFile::open(file.path()) }.unwrap();
    let bytes = Buffer::from_mapped(&device, &mapped, 1..4 * LEN + 1, DType::U8, [4 * LEN]).unwrap();
    let mut options = BufferOptions::default();
    options.allocator = Some(Arc::new(ForwardingAllocator(Arc::clone(bytes.allocator()))));
    let odd = || Buffer::with(&device, DType::F32, [LEN], &options).unwrap();
    let mut encoder = CommandEncoder::new(&device);
    let encoded = assert_error!(encoder.run(Scale(2.0), &[&odd()]), Error::Misaligned { .. });
    let mut builder = GraphBuilder::new(&device);
    let constant = odd();
    let x = builder.constant(&constant);
    let y = builder.run_one(Scale(2.0), &[&x]).unwrap();
    assert!(!constant.is_allocated(), "capturing takes no memory");
    assert_eq!(assert_error!(bind(builder, &[&y]), Error::Misaligned { .. }), encoded);
}

/// A pass may not look at a value in a shape that is not its own.
#[test]
fn fusions_keep_the_sizes_of_values() {
    let device = Device::cpu().unwrap();
    let mut builder = GraphBuilder::new(&device);
    let x = builder.constant(&vector(&device, &count(16)));
    let a = builder.run_one(Scale(2.0), &[&x]).unwrap();
    let b = builder.run_one(Scale(3.0), &[&a]).unwrap();
    let graph = builder.finish(&[&a, &b]).unwrap();
    fn stretch(graph: &mut ComputeGraph) -> Result<usize> {
        let node = graph.nodes()[1].clone();
        let all = |operand: &Operand| Operand { shape: shape(1 << 20), ..*operand };
        let (inputs, outputs) = (&node.inputs, &node.outputs);
        let (inputs, outputs) = (inputs.iter().map(all).collect(), outputs.iter().map(all).collect());
        Ok(usize::from(graph.fuse(&[1], Fusion { op: node.op.clone(), inputs, outputs })))
    }
    let mut options = GraphOptions::default();
    options.passes = vec![Pass { name: "stretch", run: stretch }];
    let executor = GraphExecutor::new(graph, &options).unwrap();
    assert_eq!(executor.report().passes[0].rewrites, 0);
    let mut session = executor.session(&[]).unwrap();
    session.replay().unwrap().wait().unwrap();
    assert_eq!(session.output(1).unwrap().read::<f32>().unwrap()[5], 30.0);
}

/// [`Sized`] that compares without the number of words that it makes.
#[derive(Clone, Copy, Debug)]
struct Hidden(usize);

impl PartialEq for Hidden {
    fn eq(&self, _: &Hidden) -> bool {
        true
    }
}

mod hidden {
    use super::*;
    use silicide_core::DeviceInfo;
    use silicide_core::kernel::{Cost, Decline, Host, Io, Kernel, Outputs, Plan, Slot};

    impl Op for Hidden {
        fn name(&self) -> &'static str {
            "hidden"
        }
        fn slots(&self) -> &'static [Slot] {
            Op::slots(&Sized(0))
        }
        fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
            Op::infer(&Sized(self.0), inputs)
        }
        fn reference(&self, _: &[Host], _: &mut [Host]) {}
        fn kernels() -> &'static [&'static dyn Kernel<Op = Hidden>] {
            const KERNELS: &[&dyn Kernel<Op = Hidden>] = &[&Words];
            KERNELS
        }
    }

    struct Words;

    impl Kernel for Words {
        type Op = Hidden;
        fn name(&self) -> &'static str {
            "hidden.fill"
        }
        fn fits(&self, _: &Hidden, _: &Io<'_>, _: &DeviceInfo) -> Result<Cost, Decline> {
            Ok(Cost::GOOD)
        }
        fn plan(&self, op: &Hidden, io: &Io<'_>, on: &DeviceInfo) -> Plan {
            Sized::kernels()[0].plan(&Sized(op.0), io, on)
        }
    }
}

/// Two equal ops are one only if their outputs have the same type and shape.
#[test]
fn values_of_different_sizes_are_never_merged() {
    let device = Device::cpu().unwrap();
    let mut builder = GraphBuilder::new(&device);
    let x = builder.constant(&vector(&device, &count(16)));
    let (small, large) = (Hidden(16), Hidden(1 << 20));
    let values = [small, small, large].map(|op| builder.run_one(op, &[&x]).unwrap());
    let mut graph = builder.finish(&values.each_ref()).unwrap();
    assert_eq!(graph.optimise(&[COMMON_SUBEXPRESSIONS]).unwrap()[0].rewrites, 1);
    let mut session = GraphExecutor::new(graph, &GraphOptions::default()).unwrap().session(&[]).unwrap();
    session.replay().unwrap().wait().unwrap();
    assert_eq!([0, 1, 2].map(|i| session.output(i).unwrap().elements()), [16, 16, 1 << 20]);
}

/// A call has arguments of its own; its steps may reuse memory of the arena, and the rules see values there.
#[test]
fn an_output_may_lie_where_an_input_was_that_later_steps_do_not_read() {
    let device = Device::cpu().unwrap();
    let mut builder = GraphBuilder::new(&device);
    let x = builder.constant(&vector(&device, &count(LEN)));
    let y = builder.run_one(Scale(2.0), &[&x]).unwrap();
    let z = builder.run_one(Quadruple, &[&y]).unwrap();
    let executor = GraphExecutor::new(builder.finish(&[&z]).unwrap(), &GraphOptions::default()).unwrap();
    let one = (LEN * 4usize).next_multiple_of(256);
    assert_eq!(executor.arena_bytes(), 2 * one, "two of three values live at once");
    let mut session = executor.session(&[]).unwrap();
    session.replay().unwrap().wait().unwrap();
    assert_eq!(session.output(0).unwrap().read::<f32>().unwrap()[3], 24.0);
}

/// The schedule took inputs for memory of their own.
#[test]
fn an_input_that_is_written_is_no_other_buffer_of_the_graph() {
    let device = Device::cpu().unwrap();
    let memory = vector(&device, &count(2 * LEN));
    let constant = memory.slice(64..64 + LEN).unwrap();
    let mut builder = GraphBuilder::new(&device);
    let (read, written) = (builder.input("read", info()), builder.input("written", info()));
    let constant = builder.constant(&constant);
    let y = builder.run_one(Scale(2.0), &[&read]).unwrap();
    let z = builder.run_one(Scale(2.0), &[&constant]).unwrap();
    builder.run_into(Add, &[&y, &z], &[&written]).unwrap();
    let graph = builder.finish(&[&written]).unwrap();
    let executor = GraphExecutor::new(graph, &GraphOptions::default()).unwrap();
    let (a, b) = (vector(&device, &count(LEN)), vector(&device, &count(LEN)));
    assert_error!(executor.session(&[&a, &a]), Error::Aliasing { op: "graph", .. });
    let over = memory.slice(0..LEN).unwrap();
    assert_error!(executor.session(&[&a, &over]), Error::Aliasing { op: "graph", .. });
    executor.session(&[&over, &b]).unwrap().replay().unwrap().wait().unwrap();
    assert_eq!(b.read::<f32>().unwrap()[3], 2.0 * 3.0 + 2.0 * 67.0);
}
