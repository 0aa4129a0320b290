//! `top_k` on the CPU: a row is read once, block by block. Elements above the least of the best so far are kept; when room
//! for them runs out, all but the best are dropped. Blocks without such an element, soon nearly all, cost one comparison
//! per element.

use super::{MOST, TopK};
use crate::cpu::element::{code, size, view_coded};
use crate::cpu::needs::in_tiles_of;
use crate::cpu::{CHUNK, Simd, TILE, native_kernel};
use crate::elementwise::fits_cpu;
use crate::rowwise::lanes::{key, largest_key};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};

/// Tiles of rows.
pub(super) struct CpuTopK;

impl Kernel for CpuTopK {
    type Op = TopK;

    fn name(&self) -> &'static str {
        "top_k.rows.cpu"
    }

    fn fits(&self, _op: &TopK, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if u32::try_from(io.input(0).shape.rows()).is_err() {
            return Err(Decline("takes at most 4294967295 rows"));
        }
        fits_cpu(on)
    }

    fn plan(&self, op: &TopK, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let x = io.input(0);
        let (rows, columns) = (x.shape.rows(), x.shape.last());
        let together = (TILE / columns.max(1)).max(1);
        let words = [rows, columns, op.k, together].map(|word| word as u32);
        let [rows_word, columns, k, together_word] = words;
        let params = [rows_word, columns, k, together_word, code(x.dtype)];
        let args = [Arg::slot(0), Arg::slot(1), Arg::slot(2)];
        let grid = [rows.div_ceil(together) as u32, 1, 1];
        Plan::launch(Program::Native(&ROWS), &args, &params, grid)
    }
}

// SAFETY: a tile reads its own rows of x and writes as many places of values and indices as it has rows, `k` for each.
native_kernel!(unsafe ROWS, "top_k.rows.cpu", run::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [rows, columns, k, together] = [0, 1, 2, 3].map(|i| launch.count(i));
    let size = size(launch.param(4));
    in_tiles_of(launch, rows, together)?;
    if k == Count(0) || k > columns || k > Count::from(MOST) {
        return None;
    }
    let kept = rows * k * 4u32;
    Some(Needs::new().read(rows * columns * size, size).write(kept, 4).write(kept, 4))
}

/// The best elements so far: first their keys, then, in reverse, their places, in one number each.
struct Best {
    kept: [u64; 2 * MOST],
    count: usize,
    k: usize,
    /// Elements up to this key are not among the best k.
    least: i32,
}

impl Best {
    #[inline(always)]
    fn new(k: usize) -> Best {
        Best { kept: [0; 2 * MOST], count: 0, k, least: i32::MIN }
    }

    #[inline(always)]
    fn add(&mut self, key: i32, column: usize) {
        if let Some(place) = self.kept.get_mut(self.count) {
            // Keys ordered as numbers without sign.
            *place = u64::from(key as u32 ^ 0x8000_0000) << 32 | u64::from(!(column as u32));
            self.count += 1;
        }
        if self.count >= (2 * self.k).max(64).min(self.kept.len()) {
            self.drop_worst();
        }
    }

    /// Keeps the best k. Later elements equal to the last of them come after it, so they are not among the best k.
    #[cold]
    fn drop_worst(&mut self) {
        let kept = self.kept.get_mut(..self.count).unwrap_or_default();
        let (_, last, _) = kept.select_nth_unstable_by(self.k - 1, |a, b| b.cmp(a));
        self.least = ((*last >> 32) as u32 ^ 0x8000_0000) as i32;
        self.count = self.k;
    }

    /// The columns of the best k, in order.
    #[inline(always)]
    fn columns(&mut self) -> impl Iterator<Item = u32> {
        let kept = self.kept.get_mut(..self.count).unwrap_or_default();
        kept.sort_unstable_by(|a, b| b.cmp(a));
        kept.iter().take(self.k).map(|packed| !(*packed as u32))
    }
}

/// Bindings: x, values, indices. Parameters: rows, their elements, k, rows of a tile, the type of x.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let [rows, columns, k, together] = [0, 1, 2, 3].map(|i| tile.param(i) as usize);
    let code = tile.param(4);
    let first = tile.index[0] as usize * together;
    for row in first..(first + together).min(rows) {
        let mut best = Best::new(k);
        for start in (0..columns).step_by(CHUNK) {
            let mut room = [0.0; CHUNK];
            let room = room.get_mut(..(columns - start).min(CHUNK)).unwrap_or_default();
            // SAFETY: the block lies in the row; `needs` requires all rows of x, which is only read.
            let values = unsafe { view_coded::<S>(tile, 0, code, row * columns + start, room) };
            if largest_key(values) <= best.least {
                continue;
            }
            for (i, &value) in values.iter().enumerate() {
                let key = key(value);
                if key > best.least {
                    best.add(key, start + i);
                }
            }
        }
        // SAFETY: `needs` requires `k` values and indices for each row, and every row is in one tile.
        let (to_values, to_indices) = unsafe {
            (tile.write::<f32>(1, row * k..(row + 1) * k), tile.write::<u32>(2, row * k..(row + 1) * k))
        };
        for ((value, index), column) in to_values.iter_mut().zip(to_indices).zip(best.columns()) {
            let mut one = [0.0];
            // SAFETY: the element lies in the row.
            let read = unsafe { view_coded::<S>(tile, 0, code, row * columns + column as usize, &mut one) };
            *value = read.first().copied().unwrap_or(0.0);
            *index = column;
        }
    }
}
