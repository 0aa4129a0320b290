//! Splitting a call so that every window of every argument fits a binding of the device.

use silicide_hal::DeviceInfo;
use std::ops::Range;

/// Element indices are `u32` in kernels; windows stay well below, so that sums of an index and an offset do too.
const MOST_ELEMENTS: usize = 1 << 30;

/// Like [`spans`], over rows of `row` elements each: runs are of whole rows. `None` where not even one row fits.
pub(crate) fn row_spans(
    rows: usize,
    row: usize,
    widest: usize,
    on: &DeviceInfo,
) -> Option<impl Iterator<Item = Range<usize>> + use<>> {
    let step = most(widest, on) / row.max(1);
    (step > 0).then(|| (0..rows.div_ceil(step)).map(move |i| i * step..((i + 1) * step).min(rows)))
}

/// Returns the most elements, of `widest` bytes each, whose window fits a binding even when it starts in the middle of an
/// alignment step.
pub(crate) fn most(widest: usize, on: &DeviceInfo) -> usize {
    // A bound window starts at an alignment boundary before the first element and ends on a whole word.
    let slack = on.limits.binding_alignment + 4;
    (on.limits.max_binding.saturating_sub(slack) / widest.max(1)).min(MOST_ELEMENTS)
}

/// Runs of elements that together are `0..elements`, each of which, with `widest` bytes per element at most, fits a
/// binding. Nearly always one run.
pub(crate) fn spans(elements: usize, widest: usize, on: &DeviceInfo) -> impl Iterator<Item = Range<usize>> {
    let step = most(widest, on);
    // Runs of whole alignment steps keep later windows as aligned as the first.
    let step = if step >= 256 { step & !255 } else { step.max(1) };
    (0..elements.div_ceil(step)).map(move |i| i * step..((i + 1) * step).min(elements))
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_hal::Backend;

    #[test]
    fn spans_tile_the_call_and_fit() {
        let mut on = DeviceInfo::new(Backend::Null, "null", "null");
        assert!(spans(1000, 4, &on).eq(std::iter::once(0..1000)));
        for (max_binding, alignment) in [(4096, 256), (300, 256), (128 << 20, 16)] {
            on.limits.max_binding = max_binding;
            on.limits.binding_alignment = alignment;
            for (elements, widest) in [(1, 8), (255, 4), (257, 2), (5000, 8), (5000, 1)] {
                let mut next = 0;
                for run in spans(elements, widest, &on) {
                    assert_eq!(run.start, next);
                    assert!(run.end > run.start && run.len() * widest + alignment + 4 <= max_binding);
                    next = run.end;
                }
                assert_eq!(next, elements);
            }
        }
    }

    #[test]
    fn rows_stay_whole_or_are_refused() {
        let mut on = DeviceInfo::new(Backend::Null, "null", "null");
        on.limits.max_binding = 1260;
        let runs = |rows, row| row_spans(rows, row, 4, &on).map(Iterator::collect::<Vec<_>>);
        assert_eq!(runs(5, 100), Some(vec![0..2, 2..4, 4..5]));
        assert_eq!(runs(2, 250), Some(vec![0..1, 1..2]));
        assert_eq!(runs(2, 251), None);
    }
}
