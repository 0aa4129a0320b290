//! Two products with the experts of the same pairs as one launch, and the activation of the first times the second:
//!
//! ```text
//! gates[pair] = weight[id] · x      y[pair] = up[id] · x      y[pair] = activation(gates[pair]) * y[pair]
//! ```
//!
//! A tile runs the tile that each product would have in a launch of its own, by the same code, so that results have the bits of the separate
//! ops. Its outputs of both products are still in the caches when they are multiplied.
//!
//! Bindings: activations, places, outputs, memory for the gates, and the planes of both weights. The last parameter is the activation.

use super::strips::{ACTIVATIONS, HEADER, OUTPUTS, PLACES, Strip, WEIGHTS};
use super::weights;
use crate::cpu::Simd;
use crate::elementwise::activation::activate;
use crate::expert_linear::{ExpertLinear, Problem};
use crate::weight;
use silicide_core::kernel::{Access, Arg, Plan};
use silicide_hal::{LaunchShape, NativeKernel, Needs, Program, Tile, TileBinding};
use silicide_quant::MAX_PLANES;
use smallvec::SmallVec;

/// The binding of gated kernels with the memory for the first product; the planes of both weights follow.
const GATES: usize = WEIGHTS;
/// The parameter with the code of the activation.
const ACTIVATION: usize = HEADER + weights::WORDS;

/// The programs of an encoding: of one product, and of two that are gated.
pub(super) struct Programs {
    pub(super) one: &'static NativeKernel,
    pub(super) gated: &'static NativeKernel,
}

/// A multiplying launch: activations and places, the [`HEADER`], and tiles across and down.
pub(super) struct Multiply {
    pub(super) rows: [Arg; 2],
    pub(super) header: [u32; HEADER],
    pub(super) tiles: [usize; 2],
}

impl Multiply {
    /// Appends the launch that computes `op`.
    pub(super) fn push(self, plan: &mut Plan, op: &ExpertLinear, problem: &Problem, programs: &Programs) {
        let mut args: SmallVec<[Arg; 10]> = SmallVec::from_slice(&self.rows);
        args.push(super::output(op));
        let mut params: SmallVec<[u32; 12]> = SmallVec::from_slice(&self.header);
        params.extend(weights::words(op, problem));
        let mut program = programs.one;
        if let Some(activation) = op.gate {
            let gates = plan.scratch(problem.pairs * problem.n * 4);
            args.push(Arg::scratch(gates, Access::Write));
            params.push(activation.code());
            program = programs.gated;
        }
        args.extend((1..=op.plane_count() as u8).map(Arg::slot));
        let [across, down] = self.tiles;
        plan.push(Program::Native(program), &args, &params, [across as u32, down as u32, 1]);
    }
}

/// Adds the memory for gates to the needs of a launch.
pub(super) fn gates_need(needs: Needs, launch: &LaunchShape<'_>) -> Needs {
    needs.write(launch.count(0) * launch.count(4) * 4u32, 4)
}

/// A tile of two products that are gated. `multiply` is a tile of one.
///
/// # Safety
///
/// The CPU has `S`. Parameters and bindings are those of a gated kernel, and no other tile has the pairs of the strip and these outputs.
/// `multiply` computes its tile's outputs under the same conditions, with the bindings and parameters of a multiplying kernel.
#[inline(always)]
pub(super) unsafe fn gated<S: Simd>(tile: &Tile<'_>, multiply: impl Fn(&Tile<'_>)) {
    let Some(encoding) = weight::from_code(tile.param(HEADER)) else { return };
    let planes = encoding.planes();
    for (outputs, first) in [(GATES, GATES + 1), (OUTPUTS, GATES + 1 + planes)] {
        let mut bindings = [TileBinding { start: std::ptr::null_mut(), bytes: 0 }; WEIGHTS + MAX_PLANES];
        let numbers = [ACTIVATIONS, PLACES, outputs].into_iter().chain(first..first + planes);
        for (binding, number) in bindings.iter_mut().zip(numbers) {
            *binding = TileBinding { start: tile.start(number), bytes: tile.bytes(number) };
        }
        let bound = bindings.get(..WEIGHTS + planes).unwrap_or_default();
        let inner = Tile::new(tile.index, tile.grid, tile.params, bound);
        // SAFETY: this tile keeps nothing in its workspace, which is as large as that of one product.
        multiply(&unsafe { inner.with_workspace_of(tile) });
    }
    // SAFETY: the parameters are those of a multiplying kernel (`# Safety`), and `strips::multiply_need` stated the places.
    let Some(strip) = (unsafe { Strip::of(tile) }) else { return };
    let [n, outputs, activation] = [4, 6, ACTIVATION].map(|i| tile.param(i) as usize);
    let first = tile.index[0] as usize * outputs;
    let end = (first + outputs).min(n);
    for pair in strip.pairs() {
        let part = pair * n + first..pair * n + end;
        // SAFETY: `gates_need` and `strips::multiply_need` stated `n` outputs of every pair in both; these are of this tile alone, and both
        // products have written them.
        unsafe {
            let gates = tile.write::<f32>(GATES, part.clone());
            activate::<S>(activation as u32, gates);
            let y = tile.write::<f32>(OUTPUTS, part);
            y.iter_mut().zip(gates).for_each(|(y, gate)| *y *= *gate);
        }
    }
}
