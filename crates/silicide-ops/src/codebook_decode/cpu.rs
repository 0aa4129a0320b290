//! `codebook_decode` on the CPU: a tile is a row.

use super::CodebookDecode;
use crate::codebook_encode::MOST_LEVELS;
use crate::cpu::native_kernel;
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};

/// Tiles of a row.
pub(super) struct CpuDecode;

impl Kernel for CpuDecode {
    type Op = CodebookDecode;

    fn name(&self) -> &'static str {
        "codebook_decode.rows.cpu"
    }

    fn fits(&self, _op: &CodebookDecode, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if u32::try_from(io.output(0).elements()).is_err() {
            return Err(Decline("takes extents of at most 32 bits"));
        }
        fits_cpu(on)
    }

    fn plan(&self, op: &CodebookDecode, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let y = io.output(0);
        let codebook = &op.codebook;
        let [rows, n, block, levels] =
            [y.shape.rows(), y.shape.last(), codebook.block, io.input(2).elements()].map(|word| word as u32);
        let params = [rows, n, block, levels, u32::from(codebook.nibbles), codebook.factor.to_bits()];
        Plan::launch(Program::Native(&ROWS), &[0, 1, 2, 3].map(Arg::slot), &params, [rows, 1, 1])
    }
}

// SAFETY: a tile reads its row's codes and norms and the levels, of which it takes one that is there, and writes its row.
native_kernel!(unsafe ROWS, "codebook_decode.rows.cpu", run, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [rows, n, block, levels] = [0, 1, 2, 3].map(|i| launch.count(i));
    let blocks = n.div_ceil(block)?;
    let nibbles = launch.param(4) != 0;
    let whole = blocks * block == n && (!nibbles || n.0.is_multiple_of(2));
    let fits = whole && launch.line()? == rows && (1..=MOST_LEVELS as u64).contains(&levels.0);
    let codes = if nibbles { Count(n.0 / 2) } else { n };
    let needs = Needs::new().read(rows * codes, 1).read(rows * blocks * 4u32, 4).read(levels * 4u32, 4);
    fits.then(|| needs.write(rows * n * 4u32, 4))
}

/// Bindings: codes, norms, levels, y. Parameters: rows, their elements, elements of a block, levels, whether codes are nibbles, the factor.
///
/// # Safety
/// Parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run(tile: &Tile<'_>) {
    let [n, block, count, nibbles] = [1, 2, 3, 4].map(|i| tile.param(i) as usize);
    let row = tile.index[0] as usize;
    let codes = if nibbles != 0 { n / 2 } else { n };
    // SAFETY: `needs` requires codes, norms and rows of these extents; this row is of this tile alone.
    let (codes, norms, levels, y) = unsafe {
        (
            tile.read_part::<u8>(0, row * codes..(row + 1) * codes),
            tile.read_part::<f32>(1, row * (n / block)..(row + 1) * (n / block)),
            tile.read_part::<f32>(2, 0..count),
            tile.write::<f32>(3, row * n..(row + 1) * n),
        )
    };
    // A level for every code there can be.
    let mut table = [0f32; MOST_LEVELS];
    for (i, place) in table.iter_mut().enumerate() {
        *place = levels[i.min(count - 1)];
    }
    for (i, (y, norm)) in y.chunks_exact_mut(block).zip(norms).enumerate() {
        let scale = norm / tile.param_f32(5);
        for (j, y) in y.iter_mut().enumerate() {
            let at = i * block + j;
            let code = if nibbles != 0 { codes[at / 2] >> (at % 2 * 4) & 15 } else { codes[at] };
            *y = table[usize::from(code)] * scale;
        }
    }
}
