//! Calls of `cache_write`: every type of cache, odd sizes, slots that wrap, that do not exist, that several tokens have.

use super::CacheWrite;
use crate::attention::KEY_LANES;
use crate::case::{Case, Data, Input};
use silicide_quant::turbo::TurboFormat;
use silicide_quant::{DType, Format};

/// The block formats of caches.
const BLOCKS: [Format; 6] =
    [Format::Q8_0, Format::Q4_0, Format::Q4_1, Format::Q5_0, Format::Q5_1, Format::Iq4Nl];

/// The calls to try.
pub fn cases() -> Vec<Case> {
    use DType::{BF16, F16, F32, I32, U32};
    let mut cases = Vec::new();
    let mut add =
        |label: &str, [tokens, heads, dim, capacity]: [usize; 4], cache: DType, slots: (DType, Vec<f64>)| {
            let label = format!("{label}, {tokens} x {heads} x {dim} to {cache} of {capacity}");
            let rows = Input::gaussian(F32, &[tokens, heads, dim]);
            let slots = Input::of(slots.0, &[tokens], Data::Values(slots.1));
            let mut case = Case::new(label, CacheWrite, vec![rows, slots]);
            case.outputs.push(Input::gaussian(cache, &[heads, capacity, dim]));
            if !cache.is_compressed() && capacity.is_multiple_of(KEY_LANES) {
                let mut lanes = case.clone();
                lanes.label.push_str(", in lanes");
                lanes.outputs = vec![Input::gaussian(cache, &[heads, capacity / KEY_LANES, dim, KEY_LANES])];
                cases.push(lanes);
            }
            cases.push(case);
        };
    let from = |start: usize, count: usize, capacity: usize| -> Vec<f64> {
        (start..start + count).map(|position| (position % capacity) as f64).collect()
    };
    for dtype in [F32, F16, BF16] {
        add("one token", [1, 3, 64, 17], dtype, (U32, from(5, 1, 17)));
        add("a ring", [9, 2, 24, 13], dtype, (I32, from(10, 9, 13)));
        add("odd", [5, 3, 7, 6], dtype, (U32, vec![3.0, 0.0, 5.0, 1.0, 4.0]));
        let outside = vec![-1.0, 0.0, 7.0, 6.0, -2_147_483_648.0, 2_147_483_647.0, 3.0];
        add("outside", [7, 2, 5, 7], dtype, (I32, outside));
        add("more than there is room for", [23, 2, 8, 5], dtype, (U32, from(3, 23, 5)));
        add("sets", [1, 3, 64, 32], dtype, (U32, from(21, 1, 32)));
        add("a ring of sets", [70, 2, 300, 48], dtype, (I32, from(35, 70, 48)));
        add("outside of sets", [4, 2, 7, 16], dtype, (I32, vec![-1.0, 15.0, 16.0, 0.0]));
    }
    for dtype in BLOCKS.map(DType::Block) {
        add("one token", [1, 3, 64, 17], dtype, (U32, from(5, 1, 17)));
        add("a ring", [9, 2, 96, 13], dtype, (I32, from(10, 9, 13)));
        add("more than there is room for", [23, 2, 32, 5], dtype, (U32, from(3, 23, 5)));
        add("outside", [4, 1, 128, 3], dtype, (I32, vec![-1.0, 2.0, 3.0, 0.0]));
    }
    for format in TurboFormat::ALL {
        let len = format.block_len();
        let dim = if len == 256 { 512 } else { len };
        add("one token", [1, 3, dim, 17], format.into(), (U32, from(5, 1, 17)));
        add("a ring", [9, 2, len, 13], format.into(), (I32, from(10, 9, 13)));
    }
    add("outside", [3, 2, 8, 4], F32, (U32, vec![4_294_967_295.0, 3.0, 2_147_483_648.0]));
    add("a prompt", [300, 2, 128, 512], F16, (U32, from(100, 300, 512)));
    cases
}
