//! `expert_linear` on the CPU: a tile is some outputs of one expert for a strip of the pairs that go to it ([`strips`]).
//!
//! ```text
//! group:     pairs by expert, in strips of at most 128, unless the call has groups
//! order:     activations in the order of strips: rows of f32, or quantized rows for integer products
//! multiply:  for each strip and some outputs: staged[pair][output] = sum over k of x[pair][k] * weight[expert][output][k]
//!            y[pair][output] = staged[pair][output]
//! ```
//!
//! | file | weights |
//! |---|---|
//! | `integer` | blocks and affine planes, plain and interleaved, in integers |
//! | this one | elements in f32, and any encoding decoded to f32 |
//! | `weights` | where the weights of an expert are, and how rows are decoded |
//! | `strips` | strips of grouped pairs |
//! | `gated` | two products and what gates them, as one launch |
//!
//! Every output is summed in an order of its own, so neither the number of threads nor the other pairs of a strip change its bits.

mod gated;
mod integer;
mod strips;
mod weights;

use super::{ExpertLinear, Problem};
use crate::cpu::native_kernel;
use crate::elementwise::fits_cpu;
use crate::product::dense::{DecodedWorkspace, compute_decoded};
use crate::product::needs::check_alignment;
use gated::{Multiply, Programs};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::f32::{DenseGemm, DenseWorkspace, F32Kernels, NC};
use silicide_gemm::{Matrix, MatrixMut};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Tile};
use silicide_quant::{DType, Encoding, RowEncoding};
use std::mem::MaybeUninit;
use std::ops::Range;
use strips::{ACTIVATIONS, Cut, Ids, OUTPUTS, Order, STRIP, Strip};
use weights::ExpertWeights;

// SAFETY: a tile is a strip of pairs of its own ([`Strip::of`] checks it) and some outputs: it reads their rows and the weights of
// their expert, which is checked against the experts, and writes their outputs.
native_kernel!(unsafe DENSE, "expert_linear.dense.cpu", dense::<S>, needs dense_need, workspace size_of::<Staged<DenseWorkspace>>());
// SAFETY: a tile is a strip of pairs of its own ([`Strip::of`] checks it) and some outputs: it reads their rows and the weights of
// their expert, which is checked against the experts, and writes their outputs.
native_kernel!(unsafe DECODE, "expert_linear.decoded.cpu", decoded::<S>, needs decoded_need, workspace size_of::<Staged<DecodedWorkspace>>());
// SAFETY: as for one product, for two whose outputs have memory of their own.
native_kernel!(unsafe DENSE_GATED, "expert_linear.gated.dense.cpu", dense_gated::<S>, needs dense_gated_need, workspace size_of::<Staged<DenseWorkspace>>());
// SAFETY: as for one product, for two whose outputs have memory of their own.
native_kernel!(unsafe DECODE_GATED, "expert_linear.gated.decoded.cpu", decoded_gated::<S>, needs decoded_gated_need, workspace size_of::<Staged<DecodedWorkspace>>());
// SAFETY: a tile reads the rows of its own places, which are checked against the pairs, and writes those places.
native_kernel!(
    /// Activations in the order of strips.
    unsafe ORDER,
    "expert_linear.order.cpu",
    order,
    needs order_need
);

fn order_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let row = launch.count(4) * 4u32;
    strips::order_need(launch, row, row, 4)
}

/// The parameters state the encoding: elements, interleaved or not, that are aligned to themselves.
fn dense_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    dense_needs(launch, 1)
}

/// As [`dense_need`], for two weights.
fn dense_gated_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    dense_needs(launch, 2)
}

fn dense_needs(launch: &LaunchShape<'_>, count: usize) -> Option<Needs> {
    let encoding = weights::stated(launch)?;
    let RowEncoding::Element(dtype) = encoding.of() else { return None };
    // Tiles begin between sets of interleaved rows.
    if !launch.param(6).is_multiple_of(encoding.interleaved_rows() as u32) {
        return None;
    }
    multiply_need(launch, encoding, dtype.alignment(), count)
}

/// The parameters state the encoding: any that [`weight::Rows`] decodes.
fn decoded_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    decoded_needs(launch, 1)
}

/// As [`decoded_need`], for two weights.
fn decoded_gated_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    decoded_needs(launch, 2)
}

fn decoded_needs(launch: &LaunchShape<'_>, count: usize) -> Option<Needs> {
    let encoding = weights::stated(launch).filter(|encoding| !matches!(encoding, Encoding::Element(_)))?;
    multiply_need(launch, encoding, 1, count)
}

/// The needs of products of rows of f32 with `count` weights, whose elements and blocks are aligned to `align`.
fn multiply_need(launch: &LaunchShape<'_>, encoding: Encoding, align: usize, count: usize) -> Option<Needs> {
    let needs = strips::multiply_need(launch, launch.count(5) * 4u32, 4)?;
    weights::read_weights(needs, encoding, align, launch, count)
}

/// Puts rows of f32, or of quantized rows as words, in the order of strips.
///
/// # Safety
///
/// Parameters and bindings are those of [`strips::sort`], for rows of `k` f32.
#[inline(always)]
unsafe fn order(tile: &Tile<'_>) {
    let k = tile.param(4) as usize;
    // SAFETY: the planner made the grid for these extents; tiles have different places.
    unsafe {
        for (place, row) in strips::places(tile) {
            let from = tile.read_part::<f32>(0, row * k..(row + 1) * k);
            tile.write::<f32>(2, place * k..(place + 1) * k).copy_from_slice(from);
        }
    }
}

/// Workspace of a tile: the outputs of a strip, up to [`NC`] of each pair, and what the product needs.
#[repr(C, align(64))]
struct Staged<T> {
    outputs: [f32; STRIP * NC],
    product: MaybeUninit<T>,
}

/// Writes zeros where the outputs of `rows` pairs are staged, and returns them.
///
/// # Safety
/// The memory can be written, and nothing else touches it for `'a`.
#[inline(always)]
unsafe fn zeroed<'a>(outputs: *mut [f32; STRIP * NC], rows: usize) -> &'a mut [f32] {
    let count = rows.min(STRIP) * NC;
    // SAFETY: `outputs` points to `STRIP * NC` numbers of the tile's own workspace (`# Safety`); zeros initialize `count` of them.
    unsafe {
        outputs.cast::<f32>().write_bytes(0, count);
        std::slice::from_raw_parts_mut(outputs.cast::<f32>(), count)
    }
}

/// The work of a tile: a strip, and outputs of its expert.
struct Part<'a, 'b> {
    tile: &'a Tile<'b>,
    strip: Strip<'b>,
    /// All outputs of an expert, and their depth.
    n: usize,
    k: usize,
    outputs: Range<usize>,
}

impl<'a, 'b> Part<'a, 'b> {
    /// Returns the part of a tile, if there is one left for it.
    ///
    /// # Safety
    ///
    /// Parameters and bindings are those of a multiplying kernel, and no other tile has the pairs of the strip and these outputs.
    #[inline(always)]
    unsafe fn of(tile: &'a Tile<'b>) -> Option<Part<'a, 'b>> {
        let [n, k, outputs] = [4, 5, 6].map(|i| tile.param(i) as usize);
        let first = tile.index[0] as usize * outputs;
        // SAFETY: the parameters are those of a multiplying kernel (`# Safety`), and `strips::multiply_need` stated the places.
        let strip = unsafe { Strip::of(tile)? };
        Some(Part { tile, strip, n, k, outputs: first..(first + outputs).min(n) })
    }

    /// Returns the activations of the strip.
    #[inline(always)]
    fn activations(&self) -> Matrix<'a, f32> {
        // SAFETY: binding [`ACTIVATIONS`] of a multiplying kernel (`Part::of`) has the rows of the strip.
        unsafe {
            let start = self.tile.start(ACTIVATIONS).cast::<f32>().add(self.strip.row * self.k);
            Matrix::from_raw_parts(start, [self.strip.len(), self.k], self.k)
        }
    }

    /// Returns the outputs of the tile, [`NC`] of them at a time.
    #[inline(always)]
    fn outputs(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let end = self.outputs.end;
        self.outputs.clone().step_by(NC).map(move |first| first..(first + NC).min(end))
    }

    /// Writes staged outputs, `[pairs, outputs]`, where they belong; NaN where none are staged. Outputs of other tiles are left alone.
    #[inline(always)]
    fn put(&self, outputs: Range<usize>, staged: &[f32]) {
        let outputs = outputs.start.max(self.outputs.start)..outputs.end.min(self.outputs.end);
        let mut staged = staged.chunks_exact(outputs.len().max(1));
        for pair in self.strip.pairs() {
            let start = pair * self.n;
            // SAFETY: binding [`OUTPUTS`] of a multiplying kernel (`Part::of`) has `n` outputs of every pair, and these are this tile's.
            let to = unsafe { self.tile.write::<f32>(OUTPUTS, start + outputs.start..start + outputs.end) };
            match staged.next() {
                Some(staged) => to.copy_from_slice(staged),
                None => to.fill(f32::NAN),
            }
        }
    }
}

/// A tile for weights of single elements, interleaved or not.
///
/// # Safety
///
/// The CPU has `S`; bindings are activations, places, outputs and planes of the extents and the encoding in the parameters.
#[inline(always)]
unsafe fn dense<S: F32Kernels>(tile: &Tile<'_>) {
    let Some(weights) = ExpertWeights::of(tile) else { return };
    // SAFETY: the launch is one of a multiplying kernel (`# Safety`); the grid has a tile for each strip and range of outputs.
    let Some(part) = (unsafe { Part::of(tile) }) else { return };
    let Some(expert) = part.strip.expert else {
        return part.put(part.outputs.clone(), &[]);
    };
    // SAFETY: the CPU has `S` (`# Safety`). `dense_need` states the weights of every expert, and `Strip::of` checked this one. This is
    // the only reference into the workspace, whose fields lie apart.
    let (isa, lhs, rhs, staged, product) = unsafe {
        let workspace = tile.workspace::<Staged<DenseWorkspace>>().as_mut_ptr();
        (
            S::assume(),
            part.activations(),
            weights.dense(expert),
            zeroed(&raw mut (*workspace).outputs, part.strip.len()),
            DenseWorkspace::from_uninit(&mut (*workspace).product),
        )
    };
    let Some(rhs) = rhs else { return };
    for outputs in part.outputs() {
        // There is room for the outputs of a strip, NC of each pair.
        let extents = [lhs.rows(), outputs.len()];
        let done = MatrixMut::new("staged", staged, extents, outputs.len()).and_then(|out| {
            DenseGemm { lhs, rhs, outputs: outputs.clone(), accumulate: false }.compute(isa, out, product)
        });
        // The extents are those of the expert, so the product is not refused. If it were, the outputs would be NaN.
        debug_assert_eq!(done, Ok(()));
        part.put(outputs, if done.is_ok() { staged } else { &[] });
    }
}

/// As [`dense`], for two weights that are gated.
///
/// # Safety
///
/// As for [`dense`], with the bindings of [`gated`].
#[inline(always)]
unsafe fn dense_gated<S: F32Kernels>(tile: &Tile<'_>) {
    // SAFETY: `dense_gated_need` states what `gated` and the tile of each product need; the CPU has `S` (`# Safety`).
    unsafe { gated::gated::<S>(tile, |tile| dense::<S>(tile)) }
}

/// As [`decoded`], for two weights that are gated.
///
/// # Safety
///
/// As for [`dense_gated`].
#[inline(always)]
unsafe fn decoded_gated<S: F32Kernels>(tile: &Tile<'_>) {
    // SAFETY: `decoded_gated_need` states what `gated` and the tile of each product need; the CPU has `S` (`# Safety`).
    unsafe { gated::gated::<S>(tile, |tile| decoded::<S>(tile)) }
}

/// A tile for weights of any other encoding: rows are decoded to f32 by the decoder of the encoding, and multiplied as dense ones.
///
/// # Safety
///
/// As for [`dense`].
#[inline(always)]
unsafe fn decoded<S: F32Kernels>(tile: &Tile<'_>) {
    let Some(weights) = ExpertWeights::of(tile) else { return };
    let Some(rows) = weights.rows() else { return };
    // SAFETY: the launch is one of a multiplying kernel (`# Safety`); the grid has a tile for each strip and range of outputs.
    let Some(part) = (unsafe { Part::of(tile) }) else { return };
    let Some(expert) = part.strip.expert else {
        return part.put(part.outputs.clone(), &[]);
    };
    // SAFETY: the CPU has `S` (`# Safety`). This is the only reference into the workspace, whose fields lie apart.
    let (isa, lhs, staged, product) = unsafe {
        let workspace = tile.workspace::<Staged<DecodedWorkspace>>().as_mut_ptr();
        (
            S::assume(),
            part.activations(),
            zeroed(&raw mut (*workspace).outputs, part.strip.len()),
            DecodedWorkspace::from_uninit(&mut (*workspace).product),
        )
    };
    for outputs in part.outputs() {
        // There is room for the outputs of a strip, NC of each pair.
        let extents = [lhs.rows(), outputs.len()];
        let Ok(out) = MatrixMut::new("staged", staged, extents, outputs.len()) else {
            return part.put(part.outputs.clone(), &[]);
        };
        let first = weights.row(expert) + outputs.start;
        compute_decoded(isa, lhs, out, product, |output, at, to| {
            // SAFETY: `decoded_need` states the planes of every expert, and `Strip::of` checked this one.
            unsafe { rows.decode(first + output, at, to) };
        });
        part.put(outputs, staged);
    }
}

/// Returns the problem, on the CPU.
fn on_cpu(op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Result<Problem, Decline> {
    fits_cpu(on)?;
    if io.input(0).dtype == DType::BF16 || op.bf16 {
        return Err(Decline("takes and gives no rows of bf16"));
    }
    Problem::of(op, io).ok_or(Decline("takes extents of at most 32 bits"))
}

/// The ids of a call, and their groups if it has them.
fn ids(op: &ExpertLinear) -> Ids {
    let slot = op.plane_count() as u8 + 1;
    Ids { ids: Arg::slot(slot), groups: op.grouped.then(|| Arg::slot(slot + 1)) }
}

/// The output of a call.
fn output(op: &ExpertLinear) -> Arg {
    Arg::slot(op.plane_count() as u8 + 2 + u8::from(op.grouped))
}

/// Whether `x` is quantized rows.
fn is_quantized(io: &Io<'_>) -> bool {
    io.input(0).dtype == DType::U8
}

/// Declines rows that are not of f32.
fn check_f32(io: &Io<'_>) -> Result<(), Decline> {
    if io.input(0).dtype == DType::F32 { Ok(()) } else { Err(Decline("takes rows of f32")) }
}

/// The programs for single elements.
static DENSE_PROGRAMS: Programs = Programs { one: &DENSE, gated: &DENSE_GATED };
/// The programs for all other encodings.
static DECODE_PROGRAMS: Programs = Programs { one: &DECODE, gated: &DECODE_GATED };

/// Returns the plan of a kernel that takes activations as they are.
fn plan(op: &ExpertLinear, problem: &Problem, programs: &Programs) -> Plan {
    let (cut, mut plan) = (Cut::of(problem), Plan::default());
    let (mut activations, mut places) = (Arg::slot(0), ids(op).ids);
    if !cut.is_single() {
        let order = Order { program: &ORDER, row_bytes: problem.k * 4, extent: problem.k };
        let sorted = strips::sort(&mut plan, problem, ids(op), &order);
        (activations, places) = (sorted.activations, sorted.places);
    }
    let header = cut.params(problem, NC);
    let tiles = [problem.n.div_ceil(NC), cut.tiles()];
    Multiply { rows: [activations, places], header, tiles }.push(&mut plan, op, problem, programs);
    plan
}

/// Blocks and affine planes, in integers.
pub(super) struct Integer;

/// Weights of single elements, in f32.
pub(super) struct Dense;

/// Any other encoding, decoded to f32.
pub(super) struct Decoded;

/// The kernel in integers.
pub(super) static INTEGER: Integer = Integer;
/// The kernel for single elements.
pub(super) static ELEMENTS: Dense = Dense;
/// The kernel for all other encodings.
pub(super) static DECODED: Decoded = Decoded;

impl Kernel for Integer {
    type Op = ExpertLinear;

    fn name(&self) -> &'static str {
        integer::NAME
    }

    fn fits(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = on_cpu(op, io, on)?;
        if is_quantized(io) {
            check_alignment(&io.input(0))?;
        } else if op.exact {
            return Err(Decline("quantizes activations"));
        }
        integer::declines(op, &problem).map_or(Ok(Cost::BEST), |why| Err(Decline(why)))
    }

    fn plan(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        Problem::of(op, io)
            .map_or(Plan::default(), |problem| integer::plan(op, &problem, is_quantized(io), on))
    }
}

impl Kernel for Dense {
    type Op = ExpertLinear;

    fn name(&self) -> &'static str {
        DENSE.name
    }

    fn fits(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        on_cpu(op, io, on)?;
        check_f32(io)?;
        match op.encoding.of() {
            // Interleaved elements are bytes, which may begin anywhere.
            RowEncoding::Element(dtype)
                if (1..=op.plane_count())
                    .all(|plane| io.input(plane).alignment as usize >= dtype.alignment()) =>
            {
                Ok(Cost::GOOD)
            }
            RowEncoding::Element(_) => Err(Decline("needs weights that are aligned to elements")),
            _ => Err(Decline("is for weights of single elements")),
        }
    }

    fn plan(&self, op: &ExpertLinear, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        Problem::of(op, io).map_or(Plan::default(), |problem| plan(op, &problem, &DENSE_PROGRAMS))
    }
}

impl Kernel for Decoded {
    type Op = ExpertLinear;

    fn name(&self) -> &'static str {
        DECODE.name
    }

    fn fits(&self, op: &ExpertLinear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        on_cpu(op, io, on)?;
        check_f32(io)?;
        match op.encoding {
            Encoding::Element(_) => Err(Decline("is for weights that are decoded")),
            _ => Ok(Cost::FALLBACK),
        }
    }

    fn plan(&self, op: &ExpertLinear, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        Problem::of(op, io).map_or(Plan::default(), |problem| plan(op, &problem, &DECODE_PROGRAMS))
    }
}
