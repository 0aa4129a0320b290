//! Calls of `rope_cache`: both styles, every type of cache, parts of heads, slots that wrap, do not exist, or occur twice.

use super::RopeCache;
use crate::attention::KEY_LANES;
use crate::case::{Case, Data, Input};
use crate::rope::RopeStyle;
use silicide_quant::turbo::{TurboBits, TurboFormat};
use silicide_quant::{DType, Format};
use std::sync::Arc;

/// Extents of a case: tokens, heads, heads of the cache, elements of a head and of a value, pairs.
type Sizes = [usize; 6];

/// The calls to try.
pub fn cases() -> Vec<Case> {
    use DType::{BF16, F16, F32, I32, U32};
    let mut cases = Vec::new();
    for style in [RopeStyle::Interleaved, RopeStyle::Halves] {
        let mut add = |sizes: Sizes, capacity: usize, types: [DType; 2], slots: (DType, Vec<f64>)| {
            cases.extend(calls(style, sizes, capacity, types, slots));
        };
        let q8_0 = DType::Block(Format::Q8_0);
        add([1, 9, 3, 64, 64, 32], 17, [F16, F16], (U32, vec![5.0]));
        add([1, 8, 8, 128, 128, 64], 40, [F32, BF16], (U32, vec![39.0]));
        add([5, 4, 2, 80, 48, 16], 6, [BF16, F16], (U32, vec![3.0, 0.0, 5.0, 1.0, 4.0]));
        add([3, 2, 1, 7, 5, 2], 4, [F32, F32], (I32, vec![-1.0, 3.0, 4.0]));
        add([7, 6, 3, 10, 10, 5], 2, [F16, F32], (U32, vec![0.0, 1.0, 0.0, 1.0, 1.0, 9.0, 0.0]));
        add([1, 3, 3, 64, 96, 32], 9, [q8_0, q8_0], (U32, vec![8.0]));
        add([1, 9, 3, 64, 64, 32], 32, [F16, F16], (U32, vec![21.0]));
        add(
            [18, 4, 2, 576, 512, 32],
            16,
            [BF16, q8_0],
            (U32, (5..23).map(|slot| f64::from(slot % 16)).collect()),
        );
        let ring = |start: usize, count: usize, capacity: usize| -> (DType, Vec<f64>) {
            (U32, (start..start + count).map(|position| (position % capacity) as f64).collect())
        };
        for dtype in [F32, F16, BF16] {
            add([70, 4, 2, 40, 24, 12], 48, [dtype, F16], ring(35, 70, 48));
        }
        add([300, 9, 3, 64, 64, 32], 512, [F16, F16], ring(100, 300, 512));
        add([2, 1, 1, 2, 1, 1], 3, [F16, F16], (U32, vec![2.0, 1.0]));
        let turbo = |bits, len| TurboFormat::for_head(bits, len).map_or(F16, DType::Turbo);
        let (tq4, tq3) = (turbo(TurboBits::B4, 64), turbo(TurboBits::B3, 32));
        for (types, rotated) in [
            ([tq4, tq3], [true; 2]),
            ([F16, tq3], [false, true]),
            ([tq4, F32], [true, false]),
            ([F16; 2], [true; 2]),
        ] {
            let first = cases.len();
            for (sizes, capacity, slots) in [
                ([1, 9, 3, 64, 32, 32], 17, (U32, vec![5.0])),
                ([40, 6, 2, 64, 32, 16], 32, ring(20, 40, 32)),
            ] {
                cases.extend(calls(style, sizes, capacity, types, slots));
            }
            for case in &mut cases[first..] {
                case.label += &format!(", rotated {rotated:?}");
                case.op = Arc::new(RopeCache { style, rotated });
            }
        }
    }
    cases
}

/// A call with keys row by row, and, where slots are whole sets, one with keys in lanes.
fn calls(
    style: RopeStyle,
    sizes: Sizes,
    capacity: usize,
    [keys, values]: [DType; 2],
    slots: (DType, Vec<f64>),
) -> Vec<Case> {
    let [tokens, heads, kv_heads, dim, value_dim, pairs] = sizes;
    let label = format!("{style:?} {sizes:?}, {keys} and {values} of {capacity}");
    let turns = Data::Uniform { low: -1.0, high: 1.0 };
    let inputs = vec![
        Input::gaussian(DType::F32, &[tokens, heads, dim]),
        Input::gaussian(DType::F32, &[tokens, kv_heads, dim]),
        Input::gaussian(DType::F32, &[tokens, kv_heads, value_dim]),
        Input::of(DType::F32, &[tokens, pairs, 2], turns),
        Input::of(slots.0, &[tokens], Data::Values(slots.1)),
    ];
    let mut case = Case::new(label, RopeCache::new(style), inputs);
    case.outputs = vec![
        Input::gaussian(DType::F32, &[tokens, heads, dim]),
        Input::gaussian(keys, &[kv_heads, capacity, dim]),
        Input::gaussian(values, &[kv_heads, capacity, value_dim]),
    ];
    let mut cases = Vec::new();
    if capacity.is_multiple_of(KEY_LANES) && !keys.is_compressed() {
        let mut lanes = case.clone();
        lanes.label.push_str(", keys in lanes");
        lanes.outputs[1] = Input::gaussian(keys, &[kv_heads, capacity / KEY_LANES, dim, KEY_LANES]);
        cases.push(lanes);
    }
    cases.push(case);
    cases
}
