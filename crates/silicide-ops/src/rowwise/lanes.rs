//! Reductions of f32 values on the CPU, always in the same order: 32 lanes, then a tree of f64, whatever vectors the
//! instruction set has. Callers hand in a few thousand values at most and add the results up in f64, so that errors
//! stay near one rounding however long the row.

/// Independent sums: two of the widest vectors, so that one addition need not wait for the other.
const LANES: usize = 32;

/// Takes every value into one of the lanes, in turn.
#[inline(always)]
fn fold<T: Copy>(values: &[f32], start: T, step: impl Fn(T, f32) -> T) -> [T; LANES] {
    let mut lanes = [start; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for chunk in whole {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = step(*lane, value);
        }
    }
    // The rest as a whole chunk of which some lanes do not count: lanes picked one by one would have to be kept in
    // memory throughout.
    let mut last = [0.0; LANES];
    for (last, value) in last.iter_mut().zip(rest) {
        *last = *value;
    }
    for (i, (lane, &value)) in lanes.iter_mut().zip(&last).enumerate() {
        *lane = if i < rest.len() { step(*lane, value) } else { *lane };
    }
    lanes
}

/// All lanes to one, halving their number at each step.
#[inline(always)]
fn join<T: Copy>(mut lanes: [T; LANES], pair: impl Fn(T, T) -> T) -> T {
    for width in [16, 8, 4, 2, 1] {
        let (low, high) = lanes.split_at_mut(width);
        for (low, high) in low.iter_mut().zip(high) {
            *low = pair(*low, *high);
        }
    }
    let [result, ..] = lanes;
    result
}

/// The sum of `term(value)` over all values. The term must be short: long ones are better computed into an array.
#[inline(always)]
pub(crate) fn sum_of(values: &[f32], term: impl Fn(f32) -> f32) -> f64 {
    let lanes = fold(values, 0f32, |sum, value| sum + term(value));
    let mut wide = [0f64; LANES];
    for (wide, lane) in wide.iter_mut().zip(lanes) {
        *wide = f64::from(lane);
    }
    join(wide, |a, b| a + b)
}

/// The largest `term(value)`, at least `least`; NaN is passed over.
#[inline(always)]
pub(crate) fn largest_of(values: &[f32], term: impl Fn(f32) -> f32, least: f32) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    join(fold(values, least, |largest, value| larger(largest, term(value))), larger)
}

/// A number ordered as the floats are: both zeros alike, every NaN above infinity.
#[inline(always)]
pub(crate) fn key(value: f32) -> i32 {
    // Adding zero makes -0 of +0 and nothing else.
    let bits = (value + 0.0).to_bits() as i32;
    let ordered = bits ^ ((bits >> 31) as u32 >> 1) as i32;
    if value.is_nan() { i32::MAX } else { ordered }
}

/// The float of a [`key`].
#[inline(always)]
pub(crate) fn value_of(key: i32) -> f32 {
    f32::from_bits((key ^ ((key >> 31) as u32 >> 1) as i32) as u32)
}

/// The largest [`key`]; `i32::MIN` of nothing.
#[inline(always)]
pub(crate) fn largest_key(values: &[f32]) -> i32 {
    join(fold(values, i32::MIN, |largest, value| key(value).max(largest)), i32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_floats_and_return() {
        let ordered = [f32::NEG_INFINITY, f32::MIN, -1.5, -1e-45, 0.0, 1e-45, 1.5, f32::MAX, f32::INFINITY];
        for pair in ordered.windows(2) {
            assert!(key(pair[0]) < key(pair[1]), "{pair:?}");
        }
        for value in ordered {
            assert_eq!(value_of(key(value)).to_bits(), value.to_bits());
        }
        assert_eq!(key(-0.0), key(0.0));
        assert!(key(f32::NAN) > key(f32::INFINITY) && key(-f32::NAN) == key(f32::NAN));
        assert!(value_of(key(-f32::NAN)).is_nan());
    }

    #[test]
    fn reductions_see_every_value_once() {
        for count in [0, 1, 31, 32, 33, 64, 1000] {
            let values: Vec<f32> = (1..=count).map(|i| i as f32).collect();
            assert_eq!(sum_of(&values, |x| x), f64::from(count * (count + 1) / 2), "{count}");
            assert_eq!(largest_of(&values, |x| x, -1.0), if count == 0 { -1.0 } else { count as f32 });
            let reversed: Vec<f32> = values.iter().rev().map(|x| -x).collect();
            assert_eq!(largest_key(&reversed), if count == 0 { i32::MIN } else { key(-1.0) });
        }
    }
}
