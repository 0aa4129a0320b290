//! How far numbers are from the reference, by the op's tolerance.
//!
//! NaN and infinities must stand exactly where the reference has them. What is left is held against the largest
//! single difference and the normalised mean square error. Zeros are equal whatever their signs.

use serde::Serialize;
use silicide_core::kernel::Tolerance;

/// Numbers that are too far from the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mismatch {
    /// The worst element.
    pub index: usize,
    /// What it should be.
    pub expected: f64,
    /// What it is.
    pub got: f64,
    /// How many elements are outside the tolerance for single elements; 0 when only their sum is.
    pub wrong: usize,
    /// Normalised mean square error over the finite elements.
    pub nmse: f64,
}

/// Holds numbers against the reference. `None`: they are near enough.
pub fn compare(expected: &[f64], got: &[f64], tolerance: Tolerance) -> Option<Mismatch> {
    let largest = expected.iter().filter(|x| x.is_finite()).fold(0.0, |max: f64, x| max.max(x.abs()));
    let allowed = tolerance.max * largest;
    let (mut worst, mut wrong): (Option<(f64, usize)>, usize) = (None, 0);
    let (mut error, mut signal) = (0.0, 0.0);
    for (i, (&e, &g)) in expected.iter().zip(got).enumerate() {
        let difference = difference(e, g);
        if difference.is_finite() && e.is_finite() {
            error += difference * difference;
            signal += e * e;
        }
        wrong += usize::from(difference > allowed);
        if worst.is_none_or(|(most, _)| difference > most) {
            worst = Some((difference, i));
        }
    }
    let nmse = if error == 0.0 { 0.0 } else { error / signal };
    let missing = expected.len() != got.len();
    if wrong == 0 && nmse <= tolerance.nmse && !missing {
        return None;
    }
    let index = if missing { expected.len().min(got.len()) } else { worst.map_or(0, |(_, i)| i) };
    let at = |values: &[f64]| values.get(index).copied().unwrap_or(f64::NAN);
    Some(Mismatch { index, expected: at(expected), got: at(got), wrong, nmse })
}

/// The difference of one element; infinite where no difference could be small enough.
fn difference(expected: f64, got: f64) -> f64 {
    if expected.is_nan() && got.is_nan() || expected == got {
        0.0
    } else if !expected.is_finite() || !got.is_finite() {
        f64::INFINITY
    } else {
        (expected - got).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOSE: Tolerance = Tolerance { nmse: 1e-4, max: 0.1 };

    #[test]
    fn near_enough_is_near_enough() {
        assert_eq!(compare(&[1.0, -10.0], &[1.01, -10.0], LOOSE), None);
        assert_eq!(compare(&[0.0, 0.0], &[0.0, -0.0], LOOSE), None);
        assert_eq!(compare(&[], &[], LOOSE), None);
    }

    #[test]
    fn one_far_element_is_found() {
        let mismatch = compare(&[1.0, 2.0, 10.0], &[1.0, 3.5, 10.5], LOOSE).unwrap();
        assert_eq!((mismatch.index, mismatch.expected, mismatch.got, mismatch.wrong), (1, 2.0, 3.5, 1));
    }

    #[test]
    fn many_small_differences_add_up() {
        let expected = vec![1.0; 100];
        let mismatch = compare(&expected, &[1.05; 100], LOOSE).unwrap();
        assert_eq!(mismatch.wrong, 0);
        assert!((mismatch.nmse - 0.0025).abs() < 1e-9);
    }

    #[test]
    fn special_values_stay_in_place() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        assert_eq!(compare(&[nan, inf, -inf, 1.0], &[-nan, inf, -inf, 1.0], LOOSE), None);
        for (expected, got) in [(nan, 1.0), (1.0, nan), (inf, -inf), (inf, 1e300), (1.0, inf), (nan, inf)] {
            let mismatch = compare(&[5.0, expected], &[5.0, got], LOOSE).unwrap();
            assert_eq!((mismatch.index, mismatch.wrong), (1, 1), "{expected} {got}");
        }
    }

    #[test]
    fn exact_means_exact() {
        assert_eq!(compare(&[1.0, 0.0], &[1.0, 0.0], Tolerance::EXACT), None);
        assert_eq!(compare(&[1.0, 0.0], &[1.0, -0.0], Tolerance::EXACT), None);
        assert!(compare(&[0.0, 0.0], &[0.0, 5e-324], Tolerance::EXACT).is_some());
        assert!(compare(&[1e9], &[1e9 + 1.0], Tolerance::EXACT).is_some());
    }

    #[test]
    fn anything_but_zero_is_far_from_zeros() {
        assert!(compare(&[0.0, 0.0], &[0.0, 1e-30], LOOSE).is_some());
    }

    #[test]
    fn lengths_must_agree() {
        assert_eq!(compare(&[1.0, 2.0], &[1.0], LOOSE).unwrap().index, 1);
    }
}
