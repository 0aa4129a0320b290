//! MLX weights on the CPU: runs of elements decoded to f32.

use silicide_hal::Tile;
use silicide_quant::{MlxFormat, MlxPlanes};
use std::ops::Range;

/// The planes of a weight among the bindings of a tile.
pub(crate) struct Planes<'a, 'b> {
    pub(crate) tile: &'a Tile<'b>,
    /// The binding of the codes; scales and biases follow.
    pub(crate) first: usize,
    pub(crate) format: MlxFormat,
}

impl Planes<'_, '_> {
    /// Decodes elements from `start` on, as many as `to` takes; both are whole groups.
    ///
    /// # Safety
    /// The bindings hold these elements, and nothing writes them now.
    #[inline(always)]
    pub(crate) unsafe fn decode(&self, start: usize, to: &mut [f32]) {
        let format = self.format;
        let packed = |element: usize| element / 8 * format.bits();
        let scales = |element: usize| element / format.group() * format.scale_dtype().size();
        let end = start + to.len();
        // SAFETY: by the caller, the bindings hold elements `start..end`, which nothing writes; `bytes` are those elements'
        // in each plane.
        let part = |plane: usize, bytes: Range<usize>| unsafe {
            self.tile.read_part::<u8>(self.first + plane, bytes)
        };
        let planes = MlxPlanes {
            packed: part(0, packed(start)..packed(end)),
            scales: part(1, scales(start)..scales(end)),
            biases: if format.has_biases() { part(2, scales(start)..scales(end)) } else { &[] },
        };
        // Lengths agree by construction, so decoding can't fail.
        let _ = format.decode(planes, to);
    }
}
