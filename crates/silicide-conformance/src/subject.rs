//! A case made ready to be tried: the types and shapes of its arguments ([`Call`]), and with their contents and what
//! must come out a [`Subject`].

use crate::compare::{Mismatch, compare};
use rustc_hash::FxHasher;
use silicide_core::kernel::{Access, DynOp, Host, Io, Slot, TensorInfo, Tolerance};
use silicide_hal::DeviceInfo;
use silicide_ops::{Case, Input};
use silicide_quant::{DType, decode, encode};
use std::hash::Hasher;
use std::sync::Arc;

/// An op with the types and shapes of its arguments.
#[derive(Clone, Debug)]
pub struct Call {
    /// The op.
    pub op: Arc<dyn DynOp>,
    /// Its inputs, as if each began an allocation.
    pub inputs: Vec<TensorInfo>,
    /// Its outputs, likewise.
    pub outputs: Vec<TensorInfo>,
}

impl Call {
    /// The call that a case makes, or what is wrong with the case.
    pub fn of(case: &Case) -> Result<Call, String> {
        let info = |input: &Input| TensorInfo::new(input.dtype, input.shape);
        let inputs: Vec<TensorInfo> = case.inputs.iter().map(info).collect();
        let (read, written) = slots(&*case.op);
        if inputs.len() != read.len() {
            return Err(format!("{} inputs for {} slots", inputs.len(), read.len()));
        }
        let inferred = case.op.infer(&inputs).map_err(|error| error.to_string())?;
        let outputs: Vec<TensorInfo> =
            if case.outputs.is_empty() { inferred.to_vec() } else { case.outputs.iter().map(info).collect() };
        if outputs.len() != written.len() {
            return Err(format!("{} outputs for {} slots", outputs.len(), written.len()));
        }
        if case.outputs.is_empty() && written.iter().any(|slot| slot.access.reads()) {
            return Err("an updated output whose old contents the case does not give".to_owned());
        }
        case.op.check_outputs(&inferred, &outputs).map_err(|error| error.to_string())?;
        Ok(Call { op: Arc::clone(&case.op), inputs, outputs })
    }

    /// The arguments as selection and planning see them.
    pub fn io(&self) -> Io<'_> {
        Io { inputs: &self.inputs, outputs: &self.outputs }
    }

    /// Returns the bytes that the call moves plus the operations that it computes.
    pub fn amount(&self) -> u64 {
        let work = self.op.work(&self.io());
        work.bytes.saturating_add(work.flops)
    }

    /// All arguments, inputs first.
    pub fn arguments(&self) -> impl Iterator<Item = &TensorInfo> {
        self.inputs.iter().chain(&self.outputs)
    }

    /// The slots of the outputs.
    pub fn output_slots(&self) -> Vec<Slot> {
        slots(&*self.op).1
    }

    /// The element types: `f32, f16 -> f32`.
    pub fn types(&self) -> String {
        let names =
            |infos: &[TensorInfo]| infos.iter().map(|info| info.dtype.name()).collect::<Vec<_>>().join(", ");
        format!("{} -> {}", names(&self.inputs), names(&self.outputs)).trim_start().to_owned()
    }
}

/// The slots of an op's inputs and of its outputs.
fn slots(op: &dyn DynOp) -> (Vec<Slot>, Vec<Slot>) {
    op.slots().iter().partition(|slot| slot.access == Access::Read)
}

/// A case with contents and results.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The case's label.
    pub label: String,
    /// The op and its arguments.
    pub call: Call,
    /// The bytes of each argument before the call, inputs first; `None` for outputs whose old contents must not
    /// matter.
    pub contents: Vec<Option<Vec<u8>>>,
    /// Whether the outputs follow from the inputs, so that a caller need not bring them.
    pub inferred: bool,
    /// What must be in each output after the call.
    expected: Vec<Expected>,
}

#[derive(Clone, Debug)]
struct Expected {
    dtype: DType,
    values: Vec<f64>,
    tolerance: Tolerance,
}

impl Subject {
    /// Makes the contents and runs the reference.
    pub fn new(case: &Case) -> Result<Subject, String> {
        let call = Call::of(case)?;
        let seed = seed(&case.label);
        let host = |(i, input): (usize, &Input)| Host {
            dtype: input.dtype,
            shape: input.shape,
            values: input.values(seed.wrapping_add(i as u64)),
        };
        let inputs: Vec<Host> = case.inputs.iter().enumerate().map(host).collect();
        let mut outputs: Vec<Host> = Vec::new();
        // The stored bytes, not the decoded values: most block formats can't be encoded back.
        let bytes = |(i, input): (usize, &Input)| Some(input.bytes(seed.wrapping_add(i as u64)));
        let mut contents: Vec<Option<Vec<u8>>> = case.inputs.iter().enumerate().map(bytes).collect();
        for (i, (info, slot)) in call.outputs.iter().zip(call.output_slots()).enumerate() {
            let old = case.outputs.get(i).filter(|_| slot.access.reads());
            let filled = old.map(|input| host((case.inputs.len() + i, input)));
            contents.push(filled.as_ref().map(stored));
            let (dtype, shape) = (info.dtype, info.shape);
            outputs.push(filled.unwrap_or(Host { dtype, shape, values: vec![0.0; shape.elements()] }));
        }
        call.op.reference(&inputs, &mut outputs);
        let mut expected = Vec::new();
        for (host, info) in outputs.iter().zip(&call.outputs) {
            if host.values.len() != info.elements() {
                return Err(format!("the reference gives {} values for {info}", host.values.len()));
            }
            let stored = encode(info.dtype, &host.values);
            let decoded = call.op.decode_output(&call.io(), expected.len(), &stored);
            let exact = !info.dtype.is_float() && !info.dtype.is_compressed() && decoded.is_none();
            let tolerance = if exact { Tolerance::EXACT } else { call.op.tolerance(&call.io(), info) };
            let values = decoded.unwrap_or_else(|| decode(info.dtype, &stored));
            expected.push(Expected { dtype: info.dtype, values, tolerance });
        }
        let inferred = case.outputs.is_empty();
        Ok(Subject { label: case.label.clone(), call, contents, inferred, expected })
    }

    /// Returns the name of the kernel that a device prefers for the call, or nothing if none fits.
    pub fn preferred(&self, on: &DeviceInfo) -> &'static str {
        let (op, io) = (&self.call.op, self.call.io());
        let fitting = (0..op.kernel_count()).filter_map(|i| Some((op.kernel_fits(i, &io, on).ok()?, i)));
        fitting.min().map_or("", |(_, i)| op.kernel_name(i))
    }

    /// Holds the bytes of output `i` of a kernel against the reference.
    pub fn check(&self, i: usize, bytes: &[u8], kernel: &str) -> Option<Mismatch> {
        let expected = self.expected.get(i)?;
        let decoded = self.call.op.decode_output(&self.call.io(), i, bytes);
        let got = decoded.unwrap_or_else(|| decode(expected.dtype, bytes));
        compare(&expected.values, &got, self.tolerance(i, kernel))
    }

    /// The tolerance of output `i`: the kernel's own if it has one.
    pub fn tolerance(&self, i: usize, kernel: &str) -> Tolerance {
        let op = &self.call.op;
        let known = (0..op.kernel_count()).find(|&number| op.kernel_name(number) == kernel);
        let own = known.and_then(|number| op.kernel_tolerance(number));
        let widened = |expected: &Expected| match own {
            Some(own) if expected.tolerance != Tolerance::EXACT => own,
            _ => expected.tolerance,
        };
        self.expected.get(i).map_or(Tolerance::EXACT, widened)
    }
}

fn stored(host: &Host) -> Vec<u8> {
    encode(host.dtype, &host.values)
}

/// Returns the seed of the contents: a hash of the label, the same on every machine.
fn seed(label: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(label.as_bytes());
    hasher.finish()
}
