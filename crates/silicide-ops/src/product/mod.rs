//! Common code of the matrix products on the CPU: sizes of tiles and panels, and the weights that a tile streams. The products
//! themselves are in `silicide-gemm`.
//!
//! | file | what |
//! |---|---|
//! | `compose` | plans that are made of the plans of other ops |
//! | `decoded` | products in f32 of weights that are decoded |
//! | `dense` | tiles of products in f32 |
//! | `integer` | tiles of products in integers |
//! | `needs` | what programs of products need of their bindings |

pub(crate) mod compose;
pub(crate) mod decoded;
pub(crate) mod dense;
pub(crate) mod integer;
pub(crate) mod needs;

use silicide_hal::{PrefetchRange, Tile};

/// Up to this many rows, weights are read as a stream.
const STREAM_ROWS: usize = 16;
/// Bytes of weights that one tile of a kernel for few rows reads, at least: about a microsecond.
const STREAM_BYTES: usize = 16 << 10;
/// Tiles into which large weights are cut, about.
const STREAM_TILES: usize = 64;
/// Tiles that keep many threads busy.
const ENOUGH_TILES: usize = 32;

/// Columns of a tile for few rows, from the bytes of one and the number of all.
pub(crate) fn stream_columns(bytes: usize, all: usize) -> usize {
    (STREAM_BYTES / bytes).max(all / STREAM_TILES).clamp(1, 4096)
}

/// The weights of a tile of some columns, where there are few rows: all kernels that stream have the number of rows, of columns, and
/// of a tile's columns in the same places.
pub(crate) fn streamed(tile: &Tile<'_>) -> [PrefetchRange; 2] {
    let [rows, columns, tile_columns] = [0, 1, 3].map(|i| tile.param(i) as usize);
    let ([x, _, batch], [_, _, batches]) = (tile.index, tile.grid);
    let first = x as usize * tile_columns;
    let all = tile.bytes(1) / batches.max(1) as usize;
    // Rounded where columns are not whole bytes of all, which a hint may be.
    let bytes = |column: usize| (all as u128 * column.min(columns) as u128 / columns.max(1) as u128) as usize;
    if rows > STREAM_ROWS {
        return Default::default();
    }
    let start = tile.start(1).addr() + batch as usize * all + bytes(first);
    [PrefetchRange { start, bytes: bytes(first + tile_columns) - bytes(first) }, PrefetchRange::default()]
}

/// Returns the number of parts into which the rows of each of `tiles` tiles should be cut.
pub(crate) fn enough_tiles(tiles: usize) -> usize {
    ENOUGH_TILES.div_ceil(tiles)
}
