//! The rules of buffers that a session binds to the inputs of a graph.
//!
//! The schedule of a graph takes each input for memory of its own. So an input that is written shares no bytes with another
//! input or a constant, and an input shares no bytes with a constant that is written. [`Program::is_refused`] states this
//! a second time, in the simplest words, and every session must agree with it. Inputs that a session accepts lead to the bytes
//! that the encoder computes. `scripts/check-rules` shows that this test notices when the check is missing.

use crate::common::count;
use crate::common::ops::{Accumulate, Add, Scale};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use silicide_core::kernel::{Op, TensorInfo};
use silicide_core::{
    Buffer, CommandEncoder, Device, Error, GraphBuilder, GraphExecutor, GraphOptions, GraphSession, Recorder,
    Result,
};
use silicide_quant::{DType, Shape};

/// Elements of a memory, and of a tensor.
const MEMORY: usize = 256;
const LEN: usize = 64;

/// A tensor: part of one of two memories.
#[derive(Clone, Copy, Debug)]
struct Tensor {
    memory: usize,
    start: usize,
    /// The session binds it; otherwise it is a constant of the graph.
    is_input: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Callee {
    Add,
    Scale,
    Accumulate,
}

/// An op over tensors, by number; without an output, the recorder makes one.
#[derive(Clone, Debug)]
struct Call {
    op: Callee,
    inputs: [usize; 2],
    output: Option<usize>,
}

/// Calls in the order in which they are recorded.
#[derive(Clone, Debug)]
struct Program {
    tensors: Vec<Tensor>,
    calls: Vec<Call>,
}

fn programs() -> impl Strategy<Value = Program> {
    let start = prop_oneof![Just(0usize), Just(64), Just(128), Just(192), Just(8)];
    let tensor = (0..2usize, start, prop_oneof![2 => Just(true), 1 => Just(false)])
        .prop_map(|(memory, start, is_input)| Tensor { memory, start, is_input });
    let op = prop_oneof![Just(Callee::Add), Just(Callee::Scale), Just(Callee::Accumulate)];
    let index = || 0..3usize;
    let call = (op, [index(), index()], proptest::option::of(index())).prop_map(|(op, inputs, output)| {
        // An output that is read has contents before the call.
        let output = if op == Callee::Accumulate { output.or(Some(0)) } else { output };
        Call { op, inputs, output }
    });
    (proptest::collection::vec(tensor, 3), proptest::collection::vec(call, 1..5))
        .prop_map(|(tensors, calls)| Program { tensors, calls })
}

impl Tensor {
    fn overlaps(&self, other: &Tensor) -> bool {
        self.memory == other.memory && self.start < other.start + LEN && other.start < self.start + LEN
    }
}

impl Call {
    fn inputs(&self) -> &[usize] {
        let count = if self.op == Callee::Add { 2 } else { 1 };
        &self.inputs[..count]
    }

    fn record<R: Recorder>(&self, recorder: &mut R, tensors: &[R::Value]) -> Result<Option<R::Value>> {
        fn one<R: Recorder, O: Op>(
            recorder: &mut R,
            op: O,
            inputs: &[&R::Value],
            output: Option<&R::Value>,
        ) -> Result<Option<R::Value>> {
            match output {
                Some(output) => recorder.run_into(op, inputs, &[output]).map(|()| None),
                None => recorder.run_one(op, inputs).map(Some),
            }
        }
        let inputs: Vec<&R::Value> = self.inputs().iter().map(|&input| &tensors[input]).collect();
        let output = self.output.map(|output| &tensors[output]);
        match self.op {
            Callee::Add => one(recorder, Add, &inputs, output),
            Callee::Scale => one(recorder, Scale(0.5), &inputs, output),
            Callee::Accumulate => one(recorder, Accumulate, &inputs, output),
        }
    }
}

impl Program {
    /// Whether a call, or what is bound, is against a rule of aliasing.
    fn is_refused(&self) -> bool {
        let written = self.calls.iter().filter_map(|call| call.output);
        let hidden = |written: usize| {
            let output = &self.tensors[written];
            self.tensors.iter().enumerate().any(|(other, tensor)| {
                other != written && output.overlaps(tensor) && (output.is_input || tensor.is_input)
            })
        };
        let in_a_call = |call: &Call| {
            let Some(output) = call.output.map(|output| &self.tensors[output]) else { return false };
            call.inputs().iter().enumerate().any(|(slot, &input)| {
                let input = &self.tensors[input];
                let in_place = call.op == Callee::Add && slot == 0 && input.start == output.start;
                output.overlaps(input) && !in_place
            })
        };
        written.into_iter().any(hidden) || self.calls.iter().any(in_a_call)
    }

    fn buffers(&self, memories: &[Buffer; 2]) -> Vec<Buffer> {
        let buffer = |tensor: &Tensor| memories[tensor.memory].slice(tensor.start..tensor.start + LEN);
        self.tensors.iter().map(|tensor| buffer(tensor).unwrap()).collect()
    }

    fn capture(&self, device: &Device, buffers: &[Buffer]) -> Result<GraphSession> {
        let mut builder = GraphBuilder::new(device);
        // Views begin at any multiple of 8 elements.
        let (shape, alignment) = (Shape::new(&[LEN]).unwrap(), 32);
        let info = TensorInfo { alignment, ..TensorInfo::new(DType::F32, shape) };
        let tensors = self.tensors.iter().zip(buffers);
        let values: Vec<_> = tensors
            .map(|(tensor, buffer)| match tensor.is_input {
                true => builder.input("input", info),
                false => builder.constant(buffer),
            })
            .collect();
        let calls = self.calls.iter().map(|call| call.record(&mut builder, &values));
        let made: Vec<_> = calls.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        let graph = builder.finish(&made.iter().collect::<Vec<_>>())?;
        let bound = self.tensors.iter().zip(buffers).filter(|(tensor, _)| tensor.is_input);
        let bound: Vec<&Buffer> = bound.map(|(_, buffer)| buffer).collect();
        GraphExecutor::new(graph, &GraphOptions::default())?.session(&bound)
    }
}

/// Gives memories their first contents, small numbers that stay exact.
fn reset(memories: &[Buffer; 2]) {
    memories.iter().for_each(|memory| memory.copy_in(&count(MEMORY)).unwrap());
}

fn contents(memories: &[Buffer; 2], made: &[Buffer]) -> Vec<Vec<f32>> {
    memories.iter().chain(made).map(|buffer| buffer.to_vec::<f32>().unwrap()).collect()
}

#[test]
fn a_session_refuses_inputs_that_alias_what_is_written() {
    let device = Device::cpu().unwrap();
    let memories = [(); 2].map(|()| Buffer::new(&device, DType::F32, [MEMORY]).unwrap());
    let config =
        Config { cases: 1000, failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    let (accepted, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let run = |program: Program| {
        let buffers = program.buffers(&memories);
        reset(&memories);
        let mut session = match program.capture(&device, &buffers) {
            Ok(session) => session,
            Err(error) => {
                refused.set(refused.get() + 1);
                let aliasing = matches!(error, Error::Aliasing { .. });
                prop_assert!(aliasing && program.is_refused(), "refused: {error}");
                return Ok(());
            }
        };
        accepted.set(accepted.get() + 1);
        prop_assert!(!program.is_refused(), "accepted");
        session.replay().unwrap().wait().unwrap();
        let made: Vec<Buffer> = (0..).map_while(|i| session.output(i).cloned()).collect();
        let replayed = contents(&memories, &made);
        reset(&memories);
        let mut encoder = CommandEncoder::new(&device);
        let calls = program.calls.iter().map(|call| call.record(&mut encoder, &buffers).unwrap());
        let made: Vec<Buffer> = calls.flatten().collect();
        encoder.submit().unwrap().wait().unwrap();
        prop_assert!(replayed == contents(&memories, &made), "bytes differ");
        Ok(())
    };
    TestRunner::new(config).run(&programs(), run).unwrap();
    let (accepted, refused) = (accepted.get(), refused.get());
    assert!(accepted > 100 && refused > 100, "{accepted} programs were accepted, {refused} refused");
}
