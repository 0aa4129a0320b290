//! Every op over live rows: a graph is planned for more rows than a case has, and replayed at the rows of the case. The outputs must be
//! those of the reference. Rows that are not live hold NaN, or numbers that no index is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use conformance::{Call, Cover, PRODUCTS, Subject, Target, by_risk, covering, open};
use silicide_core::kernel::{DynOp, Io, TensorInfo};
use silicide_core::{
    Buffer, Device, Error, GraphBuilder, GraphExecutor, GraphOptions, GraphSession, GraphValue, LiveExtent,
    Parameter, Result,
};
use silicide_ops::quantize_q8::QuantizeQ8;
use silicide_ops::{Case, add, cast, quantize_q8};
use silicide_quant::{DType, Shape, decode};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The largest case, in bytes and operations.
const MOST: u64 = 1 << 20;

/// Ops without live rows. `fill` has no input; patterns of `strided_copy` and sets of `interleave` have a fixed size.
const FIXED: [&str; 3] = ["fill", "interleave", "strided_copy"];

/// An op that is not tried: its codes are bytes, which no parameter has.
const OF_BYTES: &str = "codebook_decode";

/// The planned rows for `rows` live ones.
fn planned(rows: usize) -> usize {
    2 * rows + 1
}

/// A parameter that follows the extent, and its values: those of the case.
struct LiveInput {
    parameter: Parameter,
    dtype: DType,
    values: Vec<f64>,
    /// Elements at the planned rows.
    most: usize,
}

impl LiveInput {
    /// Declares an input. Parameters are words, so other types follow from one by an op.
    fn declare(
        builder: &mut GraphBuilder,
        extent: LiveExtent,
        info: &TensorInfo,
        bytes: &[u8],
    ) -> Result<(LiveInput, GraphValue)> {
        let (dtype, k, values) = match info.dtype {
            word @ (DType::F32 | DType::U32 | DType::I32) => (word, info.shape.last(), decode(word, bytes)),
            half @ (DType::F16 | DType::BF16) => (DType::F32, info.shape.last(), decode(half, bytes)),
            DType::U8 => dequantized(info, bytes)?,
            other => return Err(refused(format!("live rows of {other}"))),
        };
        let live = info.shape.with_last(k).map_err(|error| refused(error.to_string()))?;
        let mut axes = live.axes().to_vec();
        axes[0] = planned(axes[0]);
        let most = Shape::new(&axes).map_err(|error| refused(error.to_string()))?;
        let (parameter, value) = builder.live_parameter("live", TensorInfo::new(dtype, most), extent)?;
        let value = match info.dtype {
            half @ (DType::F16 | DType::BF16) => cast(builder, &value, half)?,
            DType::U8 => quantize_q8(builder, &value)?,
            _ => value,
        };
        Ok((LiveInput { parameter, dtype, values, most: most.elements() }, value))
    }

    /// Sets all planned rows to `garbage`, or the live ones to the values of the case.
    fn set(&self, session: &mut GraphSession, garbage: bool) -> Result<()> {
        let count = if garbage { self.most } else { self.values.len() };
        let value = |i: usize| if garbage { f64::NAN } else { self.values[i] };
        match self.dtype {
            DType::F32 => {
                session.set(self.parameter, &(0..count).map(|i| value(i) as f32).collect::<Vec<_>>())
            }
            DType::I32 => {
                let of = |i| if garbage { i32::MAX } else { value(i) as i32 };
                session.set(self.parameter, &(0..count).map(of).collect::<Vec<_>>())
            }
            _ => {
                let of = |i| if garbage { u32::MAX } else { value(i) as u32 };
                session.set(self.parameter, &(0..count).map(of).collect::<Vec<_>>())
            }
        }
    }
}

fn refused(what: String) -> Error {
    Error::BadParameter { op: "live", what }
}

/// The numbers of quantized rows, which quantize to the same codes again, and their count per row.
fn dequantized(info: &TensorInfo, bytes: &[u8]) -> Result<(DType, usize, Vec<f64>)> {
    for k in (32..=info.shape.last()).step_by(32) {
        let rows = info.shape.with_last(k).map_err(|error| refused(error.to_string()))?;
        let rows = [TensorInfo::new(DType::F32, rows)];
        if DynOp::infer(&QuantizeQ8, &rows)?[0].shape == info.shape {
            let io = Io { inputs: &rows, outputs: &[] };
            let values = DynOp::decode_output(&QuantizeQ8, &io, 0, bytes);
            return Ok((DType::F32, k, values.ok_or_else(|| refused("rows of bytes".to_owned()))?));
        }
    }
    Err(refused("rows of bytes that are not quantized".to_owned()))
}

/// A captured case.
struct Captured {
    executor: GraphExecutor,
    /// An extent for each number of rows of live inputs.
    extents: BTreeMap<usize, LiveExtent>,
    live: Vec<LiveInput>,
    /// The other inputs, and outputs that are updated.
    fixed: Vec<Buffer>,
}

impl Captured {
    /// Captures a case whose inputs in `mask` are live. An error says why these inputs can't be.
    fn new(device: &Device, subject: &Subject, mask: u32) -> Result<Captured> {
        let Call { op, inputs, outputs } = &subject.call;
        let is_live = |i: usize| mask >> i & 1 == 1;
        // Which keys queries see is listed for these queries.
        if op.slots().iter().enumerate().any(|(i, slot)| slot.name == "work" && !is_live(i)) {
            return Err(refused("queries without their list".to_owned()));
        }
        let mut builder = GraphBuilder::new(device);
        let mut extents = BTreeMap::new();
        let first = |info: &TensorInfo| info.shape.axes().first().copied().unwrap_or(0);
        for (_, info) in inputs.iter().enumerate().filter(|(i, _)| is_live(*i)) {
            let rows = first(info);
            if rows == 0 {
                return Err(refused("a scalar".to_owned()));
            }
            if let Entry::Vacant(entry) = extents.entry(rows) {
                entry.insert(builder.extent("rows", planned(rows))?);
            }
        }
        let (mut live, mut values, mut fixed) = (Vec::new(), Vec::new(), Vec::new());
        let mut bring = |builder: &mut GraphBuilder, info: &TensorInfo, contents: Option<&Vec<u8>>| {
            let zeros = vec![0; info.bytes()];
            let bytes = contents.unwrap_or(&zeros);
            let buffer = Buffer::from_slice(device, [bytes.len()], bytes)?;
            fixed.push(buffer.reinterpret(info.dtype)?.reshape(info.shape)?);
            Ok::<_, Error>(builder.input("fixed", TensorInfo::new(info.dtype, info.shape)))
        };
        for (i, (info, contents)) in inputs.iter().zip(&subject.contents).enumerate() {
            if is_live(i) {
                let bytes = contents.as_deref().unwrap_or_default();
                let (input, value) = LiveInput::declare(&mut builder, extents[&first(info)], info, bytes)?;
                live.push(input);
                values.push(value);
            } else {
                values.push(bring(&mut builder, info, contents.as_ref())?);
            }
        }
        let given: Vec<&GraphValue> = values.iter().collect();
        let results = if subject.inferred {
            builder.record(op.clone(), &given)?.into_vec()
        } else {
            let old = &subject.contents[inputs.len()..];
            let mut updated = Vec::new();
            for (info, old) in outputs.iter().zip(old) {
                let extent = extents.get(&first(info)).filter(|_| old.is_none() && info.dtype == DType::F32);
                updated.push(match extent {
                    // Live rows are not written to memory from outside.
                    Some(extent) => {
                        let zeros = vec![0; info.bytes()];
                        let (_, value) = LiveInput::declare(&mut builder, *extent, info, &zeros)?;
                        add(&mut builder, &value, &value)?
                    }
                    None => bring(&mut builder, info, old.as_ref())?,
                });
            }
            builder.record_into(op.clone(), &given, &updated.iter().collect::<Vec<_>>())?;
            updated
        };
        let graph = builder.finish(&results.iter().collect::<Vec<_>>())?;
        let executor = GraphExecutor::new(graph, &GraphOptions::default())?;
        Ok(Captured { executor, extents, live, fixed })
    }

    /// Returns the bytes of the outputs of a replay at the rows of the case. Where outputs are not updated, a replay of all planned rows
    /// comes first, over NaN.
    fn replay(&self, subject: &Subject) -> Result<Vec<Vec<u8>>> {
        let mut session = self.executor.session(&self.fixed.iter().collect::<Vec<_>>())?;
        self.live.iter().try_for_each(|input| input.set(&mut session, true))?;
        if subject.inferred {
            session.replay()?.wait()?;
        }
        for (rows, extent) in &self.extents {
            session.set_extent(*extent, *rows)?;
        }
        self.live.iter().try_for_each(|input| input.set(&mut session, false))?;
        session.replay()?.wait()?;
        let bytes = |(i, info): (usize, &TensorInfo)| {
            let all = session.output(i).unwrap().reinterpret(DType::U8)?.to_vec::<u8>()?;
            Ok(all[..info.bytes()].to_vec())
        };
        subject.call.outputs.iter().enumerate().map(bytes).collect()
    }
}

/// Replays a case with each choice of live inputs that its op takes. Returns how many there were.
fn try_case(target: &Target, op: &str, case: &Case) -> usize {
    let subject = Subject::new(case).unwrap();
    let inputs = subject.call.inputs.len();
    let mut taken = 0;
    for mask in 1..1u32 << inputs.min(6) {
        let Ok(captured) = Captured::new(&target.main, &subject, mask) else { continue };
        taken += 1;
        let place = format!("{op} on {}, {}, live inputs {mask:b}", target.label, case.label);
        let results = captured.replay(&subject).unwrap_or_else(|error| panic!("{place}: {error}"));
        let kernel = subject.preferred(target.main.info());
        for (i, bytes) in results.iter().enumerate() {
            let wrong = subject.check(i, bytes, kernel);
            assert!(wrong.is_none(), "{place}: {wrong:?}");
        }
    }
    taken
}

fn check(device: &str) {
    let (targets, missing) = open(&[device.to_owned()], None);
    assert!(missing.is_empty(), "{missing:?}");
    for target in &targets {
        let on = target.main.info();
        let mut without = BTreeSet::new();
        for (op, cases) in silicide_ops::all().into_iter().filter(|(op, _)| *op != OF_BYTES) {
            let cases = match on.is_gpu() {
                _ if PRODUCTS.contains(&op) && (on.is_gpu() || op != "attention") => {
                    covering(cases, on, MOST, Cover::Kernels)
                }
                true => by_risk(cases, on, MOST),
                false => cases,
            };
            let small = |case: &&Case| Call::of(case).is_ok_and(|call| call.amount() <= MOST);
            let taken: usize = cases.iter().filter(small).map(|case| try_case(target, op, case)).sum();
            println!("{op} on {}: {taken} live calls of {} cases", target.label, cases.len());
            if taken == 0 {
                without.insert(op);
            }
        }
        let elsewhere = |op: &&str| on.is_gpu() && silicide_ops::is_for_cpu(op);
        without.retain(|op| !elsewhere(op));
        let fixed: BTreeSet<_> = FIXED.into_iter().filter(|op| !elsewhere(op)).collect();
        assert_eq!(without, fixed, "{}", target.label);
    }
}

#[test]
fn live_rows_on_the_cpu_are_those_of_the_reference() {
    check("cpu");
}

#[test]
fn live_rows_on_vulkan_are_those_of_the_reference() {
    check("vulkan:0");
}
