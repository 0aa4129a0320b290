//! The weights of experts among the bindings of a tile: the bytes of their planes, and the weight of one expert.

use super::gated::gates_need;
use super::strips::{HEADER, WEIGHTS};
use crate::expert_linear::{ExpertLinear, Problem};
use crate::needs::bytes;
use crate::product::dense;
use crate::weight::{self, Rows};
use silicide_gemm::f32::DenseWeights;
use silicide_gemm::q8::Q8Weights;
use silicide_hal::{Count, LaunchShape, Needs, Tile};
use silicide_quant::{DType, Encoding, MlxPlanes, RowEncoding};

/// Words after the [`HEADER`] that say where weights are.
pub(super) const WORDS: usize = 2;

/// Returns the parameters after the [`HEADER`]: the code of the encoding, and the weight rows from one expert to the next.
pub(super) fn words(op: &ExpertLinear, problem: &Problem) -> [u32; WORDS] {
    [weight::code(op.encoding).unwrap_or(u32::MAX), problem.pitch as u32]
}

/// Returns the encoding that the parameters of a launch state: the word after the [`HEADER`].
pub(super) fn stated(launch: &LaunchShape<'_>) -> Option<Encoding> {
    weight::from_code(launch.param(HEADER))
}

/// Adds the planes of all experts to the needs of a launch; `None` where rows end inside of a group. Elements and blocks are aligned to
/// `align`.
fn read_planes(needs: Needs, encoding: Encoding, align: usize, launch: &LaunchShape<'_>) -> Option<Needs> {
    let [experts, n, k, pitch] = [1, 4, 5, HEADER + 1].map(|i| launch.count(i));
    // Of the last expert, padding is not read.
    let rows = Count(experts.0.saturating_sub(1)) * pitch + n;
    let is_whole =
        k > Count(0) && k.0.is_multiple_of(encoding.group_len() as u64) && encoding.takes_rows(n.0 as usize);
    let is_apart = pitch >= n && (pitch == n || encoding.interleaved_rows() == 1);
    if !is_whole || !is_apart {
        return None;
    }
    Some(match encoding.of() {
        RowEncoding::Element(dtype) => needs.read(rows * bytes(dtype, k)?, align),
        RowEncoding::Block(format) => needs.read(rows * bytes(DType::Block(format), k)?, align),
        RowEncoding::Planes(format) => {
            let (scale, groups) = (format.scale_dtype().size(), Count(k.0 / format.group() as u64));
            // Interleaved planes are bytes, which may begin anywhere.
            let is_plain = encoding.interleaved_rows() == 1;
            let [word_align, scale_align] = if is_plain { [size_of::<u32>(), scale] } else { [1, 1] };
            let needs = needs.read(rows * Count(k.0 / 8) * format.bits(), word_align);
            let needs = needs.read(rows * groups * scale, scale_align);
            if format.has_biases() { needs.read(rows * groups * scale, scale_align) } else { needs }
        }
        _ => return None,
    })
}

/// Adds the planes of `count` weights, and for two of them the memory for gates before them, to the needs of a launch.
pub(super) fn read_weights(
    needs: Needs,
    encoding: Encoding,
    align: usize,
    launch: &LaunchShape<'_>,
    count: usize,
) -> Option<Needs> {
    let needs = if count > 1 { gates_need(needs, launch) } else { needs };
    (0..count).try_fold(needs, |needs, _| read_planes(needs, encoding, align, launch))
}

/// The weights of all experts, as a tile has them bound.
pub(super) struct ExpertWeights<'a, 'b> {
    tile: &'a Tile<'b>,
    encoding: Encoding,
    n: usize,
    k: usize,
    /// Weight rows from one expert to the next.
    pitch: usize,
}

impl<'a, 'b> ExpertWeights<'a, 'b> {
    /// Returns the weights that the parameters of a multiplying kernel state.
    #[inline(always)]
    pub(super) fn of(tile: &'a Tile<'b>) -> Option<ExpertWeights<'a, 'b>> {
        let encoding = weight::from_code(tile.param(HEADER))?;
        let [n, k, pitch] = [4, 5, HEADER + 1].map(|i| tile.param(i) as usize);
        Some(ExpertWeights { tile, encoding, n, k, pitch })
    }

    /// Returns the first weight row of an expert.
    #[inline(always)]
    pub(super) fn row(&self, expert: usize) -> usize {
        expert * self.pitch
    }

    /// Returns a view of the weights of an expert for integer products; `None` where the encoding has none.
    ///
    /// # Safety
    ///
    /// The bindings hold the planes of more than `expert` experts, which nothing writes while the view is used.
    #[inline(always)]
    pub(super) unsafe fn q8(&self, expert: usize) -> Option<Q8Weights<'b>> {
        let (n, k, rows) = (self.n, self.k, self.row(expert));
        let start = |plane: usize, row_bytes: usize| {
            self.tile.start(WEIGHTS + plane).cast_const().wrapping_add(rows * row_bytes)
        };
        // SAFETY: planes have `n` rows for each expert, and `expert` is one of them (`# Safety`): its rows begin at `row(expert)`.
        let weights = unsafe {
            match self.encoding {
                Encoding::Block(format) => {
                    Q8Weights::blocks_from_raw(format, start(0, weight::row_bytes(self.encoding, k)), [n, k])
                }
                Encoding::Interleaved { of: RowEncoding::Block(format), .. } => {
                    Q8Weights::interleaved_from_raw(
                        format,
                        start(0, weight::row_bytes(self.encoding, k)),
                        [n, k],
                    )
                }
                Encoding::Planes(format) | Encoding::Interleaved { of: RowEncoding::Planes(format), .. }
                    if format.has_biases() =>
                {
                    let scales = k / format.group() * format.scale_dtype().size();
                    let planes = MlxPlanes {
                        packed: start(0, weight::row_bytes(self.encoding, k)),
                        scales: start(1, scales),
                        biases: start(2, scales),
                    };
                    match self.encoding.interleaved_rows() {
                        1 => Q8Weights::affine_from_raw(format, planes, [n, k]),
                        _ => Q8Weights::interleaved_affine_from_raw(format, planes, [n, k]),
                    }
                }
                _ => return None,
            }
        };
        weights.ok()
    }

    /// Returns the weights of an expert, of single elements; `None` of any other encoding.
    ///
    /// # Safety
    ///
    /// As for [`ExpertWeights::q8`].
    #[inline(always)]
    pub(super) unsafe fn dense(&self, expert: usize) -> Option<DenseWeights<'b>> {
        let RowEncoding::Element(dtype) = self.encoding.of() else { return None };
        let (n, k) = (self.n, self.k);
        // SAFETY: the plane has `n * k` elements for each expert, from `row(expert)` on, and `expert` is one of them (`# Safety`).
        unsafe {
            let start = self.tile.start(WEIGHTS).add(self.row(expert) * k * dtype.size());
            dense::weights(dtype, start, [n, k], self.encoding.interleaved_rows())
        }
    }

    /// Returns the weight rows of all experts, to be decoded.
    #[inline(always)]
    pub(super) fn rows(&self) -> Option<Rows<'a, 'b>> {
        Rows::new(self.tile, WEIGHTS, self.tile.param(HEADER), [self.pitch, self.k])
    }
}
