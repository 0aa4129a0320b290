//! Attention of prompts on GPUs whose subgroups multiply matrices: `prompt_matrix.wgsl`, in the shapes of [`Matrices`].
//!
//! Queries, keys, weights and values are rounded to f16 where the matrices are of f16, as for products of many rows; caches of f32 never
//! are. Scores, sums and the softmax are f32. Heads whose elements are not whole matrices, or whose blocks do not fit into shared memory, are
//! for the kernel without matrices.

use super::gpu::{Body, MANY_WORKGROUPS, PROMPT_ROWS, WHOLE, Written, check, output, push};
use super::{Attend, Extents};
use crate::matmul::matrix::{Factors, HALVES_8, HALVES_16, Matrices, SINGLES_8, SUBGROUPS};
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan, Tolerance};
use silicide_hal::{DeviceInfo, Snippet};
use smallvec::SmallVec;

static PROMPT_MATRIX: Snippet = Snippet {
    name: "attention prompt_matrix.wgsl",
    text: concat!(include_str!("prompt_matrix.wgsl"), include_str!("prompt_matrix_main.wgsl")),
};

/// Most matrices of columns of the values that a subgroup has, as the text declares.
const MOST_TILES: usize = 4;
/// Most fours of scores of an invocation.
const MOST_FOURS: usize = 4;

/// Many queries in matrices.
pub(super) struct MatrixAttention(&'static Matrices);

/// The kernels of attention in matrices.
pub(super) const MATRIX: [&dyn Kernel<Op = Attend>; 3] =
    [&MatrixAttention(&HALVES_16), &MatrixAttention(&HALVES_8), &MatrixAttention(&SINGLES_8)];

/// The sizes of a workgroup.
struct PromptLayout {
    /// Queries, and keys of a block.
    rows: usize,
    keys: usize,
    /// Matrices of columns of the values for a subgroup.
    tiles: usize,
    /// Elements of shared memory for keys or values.
    cells: usize,
    shared_bytes: usize,
}

impl PromptLayout {
    fn of(matrices: &Matrices, extents: &Extents) -> PromptLayout {
        let (side, element) = (matrices.side, matrices.element_bytes());
        // 16 bytes after each row, as in the text.
        let pad = 16 / element;
        let (rows, keys) = (4 * side, 2 * side);
        let tiles = extents.value_dim.div_ceil(rows);
        let cells = (keys * (extents.dim + pad)).max(tiles * rows * (keys + pad));
        let elements = rows * (extents.dim + pad) + cells + rows * (keys + pad);
        // Scores; what is kept, bounds and starts of rows; what subgroups found and the hull.
        let shared_bytes = elements * element + rows * (keys + 4) * 4 + rows * 16 + 32;
        PromptLayout { rows, keys, tiles, cells, shared_bytes }
    }
}

impl MatrixAttention {
    fn body(&self, op: &Attend, extents: &Extents, on: &DeviceInfo) -> Body {
        let matrices = self.0;
        let layout = PromptLayout::of(matrices, extents);
        let size = Matrices::subgroup(on).unwrap_or(1);
        let constants = [
            ("SUBGROUP", size),
            ("TILES", layout.tiles as u32),
            ("CELLS", layout.cells as u32),
            ("CAPPED", u32::from(op.rule.softcap.is_some())),
        ];
        Body {
            name: matrices.names[3],
            parts: SmallVec::from_slice(&[matrices.elements, &PROMPT_ROWS, &PROMPT_MATRIX, &WHOLE]),
            constants: SmallVec::from_slice(&constants),
            workgroup: SUBGROUPS * size,
            rows: layout.rows,
            subgroup: on.features.takes_subgroup(size).then_some(size),
            portable: None,
        }
    }

    /// Whether the heads are whole matrices, and invocations share rows evenly.
    fn check_shape(&self, extents: &Extents, on: &DeviceInfo) -> Result<PromptLayout, Decline> {
        let side = self.0.side;
        if !extents.dim.is_multiple_of(side) || !extents.value_dim.is_multiple_of(side) {
            return Err(Decline("takes heads of whole matrices"));
        }
        let layout = PromptLayout::of(self.0, extents);
        if layout.tiles > MOST_TILES {
            return Err(Decline("takes shorter values"));
        }
        let share = Matrices::subgroup(on).unwrap_or(0) as usize / side;
        let fours = (layout.keys / 4).checked_div(share).unwrap_or(0);
        if share * fours * 4 != layout.keys || fours == 0 || fours > MOST_FOURS {
            return Err(Decline("takes subgroups that share rows evenly"));
        }
        if layout.shared_bytes > on.limits.max_workgroup_bytes {
            return Err(Decline("needs more shared memory than the device has"));
        }
        Ok(layout)
    }
}

impl Kernel for MatrixAttention {
    type Op = Attend;

    fn name(&self) -> &'static str {
        self.0.names[3]
    }

    fn fits(&self, op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let extents = check(op, io, on)?;
        let factors = [1, 2].map(|i| Factors { weights: io.input(i).dtype.into(), exact: false });
        self.0.check(&factors, on)?;
        let layout = self.check_shape(&extents, on)?;
        let rows = extents.tokens * extents.group();
        let workgroups = rows.div_ceil(layout.rows) * extents.kv_heads;
        // A workgroup has four subgroups where one of the kernel without matrices has one or two.
        let is_wide = workgroups >= MANY_WORKGROUPS / 2;
        let is_filled = rows >= layout.rows * 3 / 4;
        Ok(self.0.cost(is_wide && is_filled, Cost::FALLBACK))
    }

    fn plan(&self, op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let Some(extents) = Extents::of(io) else { return plan };
        let body = self.body(op, &extents, on);
        push(&mut plan, op, io, on, &Written { out: output(op), items: None }, &body);
        plan
    }

    fn tolerance(&self) -> Option<Tolerance> {
        // A score of rounded factors is off by 2^-11 of its terms, and its exponential by as much relative to itself.
        (self.0.element_bytes() == 2).then_some(Tolerance { nmse: 1e-4, max: 3e-2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_hal::{Backend, MatrixShape};

    /// A device with every shape and subgroups of 32 to 64.
    fn device() -> DeviceInfo {
        let mut on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "test");
        on.limits.max_workgroup_bytes = 64 << 10;
        (on.features.f16, on.features.f16_rounding, on.features.subgroups) = (true, true, true);
        on.features.subgroup_size = (32, 64);
        on.features.required_subgroup_size = (32, 64);
        on.features.matrices = MatrixShape::ALL.into_iter().collect();
        on
    }

    fn extents(dim: usize, value_dim: usize) -> Extents {
        let (tokens, heads, kv_heads, capacity) = (64, 4, 2, 256);
        Extents { tokens, heads, kv_heads, dim, value_dim, capacity, items: 0, in_lanes: false }
    }

    #[test]
    fn heads_of_whole_matrices_that_fit_are_taken() {
        let takes = |side: &'static Matrices, dim, value_dim| {
            MatrixAttention(side).check_shape(&extents(dim, value_dim), &device()).is_ok()
        };
        assert!(takes(&HALVES_16, 64, 64) && takes(&HALVES_16, 128, 128) && takes(&HALVES_16, 192, 128));
        assert!(!takes(&HALVES_16, 72, 64) && !takes(&HALVES_16, 64, 24));
        // Shared memory, and matrices of sums.
        assert!(!takes(&HALVES_16, 256, 256) && !takes(&HALVES_16, 64, 272));
    }

    #[test]
    fn subgroups_must_share_rows_evenly() {
        let mut on = device();
        let takes =
            |on: &DeviceInfo, matrices| MatrixAttention(matrices).check_shape(&extents(64, 64), on).is_ok();
        assert!(takes(&on, &HALVES_16) && !takes(&on, &HALVES_8));
        (on.features.subgroup_size, on.features.required_subgroup_size) = ((32, 32), (32, 32));
        assert!(takes(&on, &HALVES_16) && takes(&on, &HALVES_8));
        (on.features.subgroup_size, on.features.required_subgroup_size) = ((8, 8), (8, 8));
        assert!(!takes(&on, &HALVES_16));
    }

    #[test]
    fn devices_with_little_shared_memory_are_declined() {
        let mut on = device();
        on.limits.max_workgroup_bytes = 32 << 10;
        let takes = |dim| MatrixAttention(&HALVES_16).check_shape(&extents(dim, dim), &on).is_ok();
        assert!(takes(64) && !takes(128));
    }
}
