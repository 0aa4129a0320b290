//! Cases chosen by risk, for devices that are too slow for all of them: software drivers, emulators.
//!
//! A case is worth its time where it runs a program that no other case runs, or runs it in another way. For each
//! program of a device, two cases are kept: the smallest, whose extents end inside a tile, and the largest within
//! `most`, which takes several workgroups. What the two leave out is the same program over other numbers.

use crate::{Call, Effort, layouts, programs};
use rustc_hash::FxHashMap;
use silicide_core::DeviceInfo;
use silicide_ops::Case;

/// The smallest and the largest case of a program, by index.
#[derive(Clone, Copy, Debug)]
struct Ends {
    smallest: (u64, usize),
    largest: (u64, usize),
}

/// Returns the cases that together run every program of `cases` on a device, each in its smallest case and in its largest one
/// of at most `most` bytes and operations. Cases that cannot be made are kept, so that a run reports them.
pub fn by_risk(cases: Vec<Case>, on: &DeviceInfo, most: u64) -> Vec<Case> {
    let mut ends: FxHashMap<_, Ends> = FxHashMap::default();
    let mut kept = vec![false; cases.len()];
    for (index, case) in cases.iter().enumerate() {
        let Ok(call) = Call::of(case) else {
            kept[index] = true;
            continue;
        };
        let here = (call.amount(), index);
        for layout in layouts(&call, Effort::Quick) {
            for program in programs(&layout.place(&call), on) {
                let ends = ends.entry(program).or_insert(Ends { smallest: here, largest: here });
                ends.smallest = ends.smallest.min(here);
                if here.0 <= most && (ends.largest.0 > most || here.0 > ends.largest.0) {
                    ends.largest = here;
                }
            }
        }
    }
    for ends in ends.values() {
        kept[ends.smallest.1] = true;
        kept[ends.largest.1] |= ends.largest.0 <= most;
    }
    cases.into_iter().zip(kept).filter_map(|(case, kept)| kept.then_some(case)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;
    use rustc_hash::FxHashSet;

    fn programs_of(cases: &[Case], on: &DeviceInfo) -> FxHashSet<String> {
        let calls = cases.iter().filter_map(|case| Call::of(case).ok());
        calls.flat_map(|call| programs(&call, on)).map(|program| format!("{program:?}")).collect()
    }

    #[test]
    fn every_program_of_every_op_keeps_a_case_and_most_cases_go() {
        let on = reference::full_gpu();
        let (mut before, mut after) = (0, 0);
        for (op, cases) in silicide_ops::all() {
            let all = programs_of(&cases, &on);
            before += cases.len();
            let kept = by_risk(cases, &on, 1 << 20);
            after += kept.len();
            assert_eq!(programs_of(&kept, &on), all, "{op}");
        }
        assert!(after * 4 < before * 3, "{after} of {before} cases are kept");
    }
}
