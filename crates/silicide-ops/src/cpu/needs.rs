//! Common code of the `needs` functions of CPU programs: extents from lengths and words, and the grids of tiles.

use super::TILE;
use silicide_hal::{Count, LaunchShape};

/// Whole elements of `size` bytes in binding `i`; `size` is not 0.
pub(crate) fn elements(launch: &LaunchShape<'_>, i: usize, size: usize) -> Count {
    Count(launch.bytes(i).0 / size.max(1) as u64)
}

/// Words `i` and `i + 1` as one number, low word first.
pub(crate) fn wide(launch: &LaunchShape<'_>, i: usize) -> Count {
    Count(u64::from(launch.param(i)) | u64::from(launch.param(i + 1)) << 32)
}

/// Whether the grid is [`tiles`](super::tiles) of `elements`.
pub(crate) fn in_tiles(launch: &LaunchShape<'_>, elements: Count) -> Option<()> {
    in_tiles_of(launch, elements, Count::from(TILE))
}

/// Whether the grid is a line of tiles that take `together` items each, of `items` in all.
pub(crate) fn in_tiles_of(launch: &LaunchShape<'_>, items: Count, together: Count) -> Option<()> {
    let tiles = items.div_ceil(together)?.max(Count(1));
    (launch.line()? == tiles).then_some(())
}
