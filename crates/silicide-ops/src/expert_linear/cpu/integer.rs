//! Experts multiplied in integers: quantized activations of a [`Strip`] lie together, and a tile is some outputs of one expert for a
//! strip. Blocks and affine planes, plain and interleaved, share the program: their rows differ only in the view of the weights.

use super::ORDER;
use super::gated::{Multiply, Programs, gated};
use super::strips::{self, ACTIVATIONS, Cut, OUTPUTS, Order, STRIP, Strip};
use super::weights::{self, ExpertWeights};
use crate::cpu::native_kernel;
use crate::expert_linear::{ExpertLinear, Problem};
use crate::product::integer::{FEW_ROWS, panel_columns};
use crate::product::{needs, stream_columns};
use crate::quantize_q8::{BoundRow, quantize_launch, quantize_row};
use crate::weight::{self, has_integer_product};
use silicide_core::kernel::{Access, Arg, Plan, Step};
use silicide_gemm::MatrixMut;
use silicide_gemm::q8::{
    Blocking, GROUP, MAX_NC, MIN_OUTPUTS, NR, Q8Gemm, Q8Kernels, Q8Workspace, QuantizedRows,
    quantized_row_bytes,
};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Tile};

/// The kernel's name.
pub(super) const NAME: &str = "expert_linear.integer.cpu";

/// Returns why the kernel does not take a problem.
pub(super) fn declines(op: &ExpertLinear, problem: &Problem) -> Option<&'static str> {
    if !has_integer_product(op.encoding) {
        return Some("is for encodings with integer products");
    }
    if !problem.k.is_multiple_of(GROUP) {
        return Some("needs a depth of whole groups of 32");
    }
    (problem.n < MIN_OUTPUTS).then_some("needs more outputs")
}

// SAFETY: a tile is a strip of pairs of its own ([`Strip::of`] checks it) and some outputs: it reads their rows and the weights of
// their expert, which is checked against the experts, and writes their outputs.
native_kernel!(unsafe MULTIPLY, NAME, tile::<S: Q8Kernels>, needs multiply_need, workspace size_of::<ExpertWorkspace>());
// SAFETY: a tile reads the rows of its own places, which are checked against the pairs, and writes those places.
native_kernel!(
    /// Activations to quantized rows, in the order of strips.
    unsafe QUANTIZE,
    "expert_linear.activations.cpu",
    quantize,
    needs quantize_need
);

fn quantize_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let groups = launch.param(4);
    let row = Count::from(groups) * (GROUP * 4);
    strips::order_need(launch, row, needs::quantized(Count(1), groups), needs::ROW_ALIGN)
}

// SAFETY: as for one product, for two whose outputs have memory of their own.
native_kernel!(unsafe MULTIPLY_GATED, "expert_linear.gated.integer.cpu", tile_gated::<S: Q8Kernels>, needs gated_need, workspace size_of::<ExpertWorkspace>());

/// The programs of products in integers.
static PROGRAMS: Programs = Programs { one: &MULTIPLY, gated: &MULTIPLY_GATED };

/// The needs of one product.
fn multiply_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    multiply_needs(launch, 1)
}

/// The needs of two products that are gated.
fn gated_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    multiply_needs(launch, 2)
}

/// Outputs of a tile are whole panels, and at least as many as a vector has lanes.
fn multiply_needs(launch: &LaunchShape<'_>, count: usize) -> Option<Needs> {
    let encoding = weights::stated(launch).filter(|encoding| has_integer_product(*encoding))?;
    let (n, k, outputs) = (launch.param(4), launch.param(5), launch.param(6));
    let is_whole = k.is_multiple_of(GROUP as u32) && outputs.is_multiple_of(NR as u32);
    if !is_whole || (n as usize) < MIN_OUTPUTS {
        return None;
    }
    let row = needs::quantized(Count(1), k / GROUP as u32);
    let needs = strips::multiply_need(launch, row, needs::ROW_ALIGN)?;
    weights::read_weights(needs, encoding, 1, launch, count)
}

/// Quantizes rows, in the order of strips.
///
/// # Safety
///
/// Parameters and bindings are those of [`strips::sort`], for quantized rows.
#[inline(always)]
unsafe fn quantize(tile: &Tile<'_>) {
    let groups = tile.param(4) as usize;
    // SAFETY: the planner made the grid for these extents; tiles have different places.
    unsafe {
        for (place, row) in strips::places(tile) {
            let (from, to) = (BoundRow { binding: 0, row }, BoundRow { binding: 2, row: place });
            quantize_row(tile, from, to, groups);
        }
    }
}

/// Workspace of a tile.
#[repr(C)]
struct ExpertWorkspace {
    product: Q8Workspace,
    /// The outputs of a strip, up to [`MAX_NC`] of each pair.
    outputs: [f32; STRIP * MAX_NC],
}

/// As [`tile`], for two weights that are gated.
///
/// # Safety
///
/// As for [`tile`], with the bindings of [`gated`](super::gated).
#[inline(always)]
unsafe fn tile_gated<S: Q8Kernels>(outer: &Tile<'_>) {
    // SAFETY: `gated_need` states what `gated` and the tile of each product need; the CPU has `S` (`# Safety`).
    unsafe { gated::<S>(outer, |inner| tile::<S>(inner)) }
}

/// A tile: some outputs of an expert, and a strip.
///
/// # Safety
///
/// The instruction set is present; bindings are quantized activations, places, outputs and the planes of the extents in the
/// parameters, with at least as many outputs as there are lanes.
#[inline(always)]
unsafe fn tile<S: Q8Kernels>(tile: &Tile<'_>) {
    let [n, k, tile_outputs] = [4, 5, 6].map(|i| tile.param(i) as usize);
    let Some(weights) = ExpertWeights::of(tile) else { return };
    let first = tile.index[0] as usize * tile_outputs;
    let (end, groups) = ((first + tile_outputs).min(n), k / GROUP);
    // SAFETY: the parameters are those of a multiplying kernel (`# Safety`), and `strips::multiply_need` stated the places.
    let Some(strip) = (unsafe { Strip::of(tile) }) else { return };
    let Some(expert) = strip.expert else {
        for pair in strip.pairs() {
            // SAFETY: no other tile has this pair and these outputs.
            unsafe { tile.write::<f32>(OUTPUTS, pair * n + first..pair * n + end) }.fill(f32::NAN);
        }
        return;
    };
    let rows = strip.len();
    // SAFETY: `Strip::of` checked the expert against the experts whose planes are bound; nothing writes them.
    let Some(rhs) = (unsafe { weights.q8(expert) }) else { return };
    let blocking = if rows <= FEW_ROWS { Blocking::FEW_ROWS } else { Blocking::MANY_ROWS };
    // SAFETY: the CPU has `S`, and binding `ACTIVATIONS` the quantized rows of every strip (`# Safety`); this is the only reference into
    // the workspace, whose fields lie apart.
    let (isa, lhs, workspace, staged) = unsafe {
        let all = tile.workspace::<ExpertWorkspace>().as_mut_ptr();
        let lhs = tile.start(ACTIVATIONS).add(strip.row * quantized_row_bytes(groups));
        (
            S::assume(),
            QuantizedRows::from_raw_parts(lhs, rows, groups),
            Q8Workspace::from_uninit(&mut *(&raw mut (*all).product).cast()),
            (&raw mut (*all).outputs).cast::<f32>(),
        )
    };
    // One pair has its outputs where they belong; others are staged, as many outputs as there is room for.
    let one = if rows == 1 { strip.pairs().next() } else { None };
    let step = if one.is_some() { tile_outputs } else { MAX_NC };
    for first in (first..end).step_by(step) {
        let outputs = first..(first + step).min(end);
        let (y, stride) = match one {
            Some(pair) => (tile.start(OUTPUTS).cast::<f32>().wrapping_add(pair * n + first), n),
            None => (staged, outputs.len()),
        };
        // SAFETY: outputs of this pair that no other tile has; or staging memory for STRIP rows of MAX_NC.
        let y = unsafe { MatrixMut::from_raw_parts(y, [rows, outputs.len()], stride) };
        // The planner made tiles of these extents, so the product is not refused.
        let done = Q8Gemm { lhs, rhs, outputs: outputs.clone(), blocking }.compute(isa, y, workspace);
        debug_assert_eq!(done, Ok(()));
        if one.is_none() && done.is_ok() {
            for (i, pair) in strip.pairs().enumerate() {
                // SAFETY: the product has written these outputs; no other tile has this pair and these outputs.
                unsafe {
                    let from = std::slice::from_raw_parts(staged.add(i * outputs.len()), outputs.len());
                    tile.write::<f32>(OUTPUTS, pair * n + outputs.start..pair * n + outputs.end)
                        .copy_from_slice(from);
                }
            }
        }
    }
}

/// Returns the plan of a problem that is not declined, whose activations are quantized rows or f32.
pub(super) fn plan(op: &ExpertLinear, problem: &Problem, is_quantized: bool, on: &DeviceInfo) -> Plan {
    let (cut, mut plan) = (Cut::of(problem), Plan::default());
    let (groups, n, k) = (problem.k / GROUP, problem.n, problem.k);
    let (row_bytes, mut activations) = (quantized_row_bytes(groups), Arg::slot(0));
    let mut places = super::ids(op).ids;
    if !is_quantized && cut.is_single() {
        let scratch = plan.scratch(problem.rows() * row_bytes);
        let to = Arg::scratch(scratch, Access::Write);
        plan.steps.push(Step::Dispatch(quantize_launch([problem.rows(), groups], activations, to)));
        activations = Arg::scratch(scratch, Access::Read);
    }
    if !cut.is_single() {
        let order = match is_quantized {
            // Rows are whole words.
            true => Order { program: &ORDER, row_bytes, extent: row_bytes / 4 },
            false => Order { program: &QUANTIZE, row_bytes, extent: groups },
        };
        let sorted = strips::sort(&mut plan, problem, super::ids(op), &order);
        (activations, places) = (sorted.activations, sorted.places);
    }
    // Few rows to an expert: its weights are read as a stream.
    let outputs = if cut.usual() <= FEW_ROWS {
        stream_columns(weight::row_bytes(op.encoding, k), n * cut.tiles()).next_multiple_of(NR)
    } else {
        panel_columns(on)
    };
    let header = cut.params(problem, outputs);
    let tiles = [n.div_ceil(outputs), cut.tiles()];
    Multiply { rows: [activations, places], header, tiles }.push(&mut plan, op, problem, &PROGRAMS);
    plan
}
