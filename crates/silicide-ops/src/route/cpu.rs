//! `route` on the CPU: tiles of rows, each of which fits L1 many times over.

use super::{Gate, LEAST, MOST, Route};
use crate::cpu::math::{exp_down, sigmoid};
use crate::cpu::needs::in_tiles_of;
use crate::cpu::{Simd, native_kernel};
use crate::elementwise::fits_cpu;
use crate::rowwise::lanes::{key, largest_of};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};

/// Logits of a tile, about.
const TILE_LOGITS: usize = 1 << 10;

/// Tiles of rows.
pub(super) struct CpuRoute;

impl Kernel for CpuRoute {
    type Op = Route;

    fn name(&self) -> &'static str {
        "route.rows.cpu"
    }

    fn fits(&self, _op: &Route, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if u32::try_from(io.input(0).shape.rows()).is_err() {
            return Err(Decline("takes at most 4294967295 rows"));
        }
        fits_cpu(on)
    }

    fn plan(&self, op: &Route, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let (rows, experts) = (io.input(0).shape.rows(), io.input(0).shape.last());
        let together = (TILE_LOGITS / experts.max(1)).max(1);
        let [rows_word, experts, used, together_word] =
            [rows, experts, op.used, together].map(|word| word as u32);
        let [gate, normalized, biased, scale] = op.words();
        let params = [rows_word, experts, used, together_word, gate, normalized, biased, scale];
        // Without a bias, the logits stand in for it.
        let args = match op.biased {
            true => [Arg::slot(0), Arg::slot(1), Arg::slot(2), Arg::slot(3)],
            false => [Arg::slot(0), Arg::slot(0), Arg::slot(1), Arg::slot(2)],
        };
        Plan::launch(Program::Native(&ROWS), &args, &params, [rows.div_ceil(together) as u32, 1, 1])
    }
}

// SAFETY: a tile reads its own rows of logits and all of bias, and writes as many places of ids and weights as it has rows,
// `used` for each. At most `MOST` experts fit the local arrays.
native_kernel!(unsafe ROWS, "route.rows.cpu", run::<S>, needs needs);

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [rows, experts, used, together] = [0, 1, 2, 3].map(|i| launch.count(i));
    in_tiles_of(launch, rows, together)?;
    if used == Count(0) || used > experts || experts > Count::from(MOST) {
        return None;
    }
    let chosen = rows * used * 4u32;
    Some(
        Needs::new().read(rows * experts * 4u32, 4).read(experts * 4u32, 4).write(chosen, 4).write(chosen, 4),
    )
}

/// Replaces a row by its softmax; zeros where all of it is -infinity.
#[inline(always)]
fn softmax<S: Simd>(row: &mut [f32]) {
    let largest = largest_of(row, |x| x, f32::MIN);
    let mut sum = 0f64;
    for value in row.iter_mut() {
        *value = exp_down::<S>(*value - largest);
        sum += f64::from(*value);
    }
    let share = if sum == 0.0 { 0.0 } else { (1.0 / sum) as f32 };
    row.iter_mut().for_each(|value| *value *= share);
}

/// Bindings: logits, bias, ids, weights. Parameters: rows, experts, those used, rows of a tile, then [`Route::words`].
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `needs` returned needs.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>) {
    let [rows, experts, used, together] = [0, 1, 2, 3].map(|i| tile.param(i) as usize);
    let (gate, normalized, biased, scale) =
        (tile.param(4), tile.param(5) != 0, tile.param(6) != 0, tile.param_f32(7));
    let first = tile.index[0] as usize * together;
    let (mut values, mut order) = ([0f32; MOST], [0u64; MOST]);
    let values = values.get_mut(..experts).unwrap_or_default();
    let order = order.get_mut(..experts).unwrap_or_default();
    for row in first..(first + together).min(rows) {
        // SAFETY: `needs` requires rows of these lengths; the outputs of a row are of this tile alone.
        let (logits, bias, ids, weights) = unsafe {
            (
                tile.read_part::<f32>(0, row * experts..(row + 1) * experts),
                tile.read_part::<f32>(1, 0..experts),
                tile.write::<u32>(2, row * used..(row + 1) * used),
                tile.write::<f32>(3, row * used..(row + 1) * used),
            )
        };
        values.copy_from_slice(logits);
        if gate == Gate::Softmax.code() {
            softmax::<S>(values);
        } else if gate == Gate::Sigmoid.code() {
            values.iter_mut().for_each(|value| *value = sigmoid::<S>(*value));
        }
        for (i, place) in order.iter_mut().enumerate() {
            let score = match (biased, values.get(i), bias.get(i), logits.get(i)) {
                (true, Some(value), Some(bias), _) => value + bias,
                (_, _, _, Some(logit)) => *logit,
                _ => 0.0,
            };
            // Ordered as numbers without sign: scores, and for equal ones the lowest place above all.
            *place = u64::from(key(score) as u32 ^ 0x8000_0000) << 32 | u64::from(!(i as u32));
        }
        if used < experts {
            order.select_nth_unstable_by(used - 1, |a, b| b.cmp(a));
        }
        let best = order.get_mut(..used).unwrap_or_default();
        best.sort_unstable_by(|a, b| b.cmp(a));
        for ((id, weight), place) in ids.iter_mut().zip(weights.iter_mut()).zip(best) {
            *id = !(*place as u32);
            *weight = values.get(*id as usize).copied().unwrap_or(0.0);
        }
        if gate == Gate::SoftmaxOfChosen.code() {
            softmax::<S>(weights);
        }
        let mut factor = scale;
        if normalized {
            let sum: f32 = weights.iter().sum();
            factor /= if sum < LEAST { LEAST } else { sum };
        }
        weights.iter_mut().for_each(|weight| *weight *= factor);
    }
}
