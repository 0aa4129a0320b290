//! `codebook_encode` on the CPU: a tile is a row.

use super::{CodebookEncode, LEAST_NORM, MOST_LEVELS};
use crate::cpu::{Simd, native_kernel};
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};

/// Sums of squares: one vector of AVX-512.
const LANES: usize = 16;

/// Tiles of a row.
pub(super) struct CpuEncode;

impl Kernel for CpuEncode {
    type Op = CodebookEncode;

    fn name(&self) -> &'static str {
        "codebook_encode.rows.cpu"
    }

    fn fits(&self, _op: &CodebookEncode, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if u32::try_from(io.input(0).elements()).is_err() {
            return Err(Decline("takes extents of at most 32 bits"));
        }
        fits_cpu(on)
    }

    fn plan(&self, op: &CodebookEncode, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let (rows, n, levels) = (io.input(0).shape.rows(), io.input(0).shape.last(), io.input(1).elements());
        let codebook = &op.codebook;
        let [rows, n, block, levels] = [rows, n, codebook.block, levels].map(|word| word as u32);
        let flags = [u32::from(codebook.mean), u32::from(codebook.nibbles)];
        let params = [rows, n, block, levels, flags[0], flags[1], codebook.factor.to_bits()];
        Plan::launch(Program::Native(&ROWS), &[0, 1, 2, 3].map(Arg::slot), &params, [rows, 1, 1])
    }
}

// SAFETY: a tile reads its row of x and the levels, and writes its row's codes and norms.
native_kernel!(unsafe ROWS, "codebook_encode.rows.cpu", run::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [rows, n, block, levels] = [0, 1, 2, 3].map(|i| launch.count(i));
    let blocks = n.div_ceil(block)?;
    let nibbles = launch.param(5) != 0;
    let whole = blocks * block == n && (!nibbles || n.0.is_multiple_of(2));
    let fits = whole && launch.line()? == rows && (1..=MOST_LEVELS as u64).contains(&levels.0);
    let codes = if nibbles { Count(n.0 / 2) } else { n };
    let needs = Needs::new().read(rows * n * 4u32, 4).read(levels * 4u32, 4);
    fits.then(|| needs.write(rows * codes, 1).write(rows * blocks * 4u32, 4))
}

/// Bindings: x, levels, codes, norms. Parameters: rows, their elements, elements of a block, levels, whether norms are of means, whether codes
/// are nibbles, the factor.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let [n, block, count, mean, nibbles] = [1, 2, 3, 4, 5].map(|i| tile.param(i) as usize);
    let row = tile.index[0] as usize;
    let codes = if nibbles != 0 { n / 2 } else { n };
    // SAFETY: `needs` requires rows, codes and norms of these extents; this row's are of this tile alone.
    let (x, levels, codes, norms) = unsafe {
        (
            tile.read_part::<f32>(0, row * n..(row + 1) * n),
            tile.read_part::<f32>(1, 0..count),
            tile.write::<u8>(2, row * codes..(row + 1) * codes),
            tile.write::<f32>(3, row * (n / block)..(row + 1) * (n / block)),
        )
    };
    let mut midpoints = [f32::INFINITY; MOST_LEVELS];
    for (midpoint, pair) in midpoints.iter_mut().zip(levels.windows(2)) {
        *midpoint = (pair[0] + pair[1]) * 0.5;
    }
    let midpoints = &midpoints[..count - 1];
    codes.fill(0);
    for (i, (x, norm)) in x.chunks_exact(block).zip(norms).enumerate() {
        let mut sums = [0f32; LANES];
        let (whole, rest) = x.as_chunks::<LANES>();
        for x in whole {
            sums.iter_mut().zip(x).for_each(|(sum, x)| *sum = S::mul_add(*x, *x, *sum));
        }
        sums.iter_mut().zip(rest).for_each(|(sum, x)| *sum = S::mul_add(*x, *x, *sum));
        let sum: f32 = sums.iter().sum();
        *norm = (if mean != 0 { sum / block as f32 } else { sum }).sqrt();
        let scale = if *norm > LEAST_NORM { tile.param_f32(6) / *norm } else { 0.0 };
        for (j, x) in x.iter().enumerate() {
            let code = midpoints.partition_point(|midpoint| *midpoint < x * scale) as u8;
            let at = i * block + j;
            if nibbles != 0 {
                codes[at / 2] |= code << (at % 2 * 4);
            } else {
                codes[at] = code;
            }
        }
    }
}
