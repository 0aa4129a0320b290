//! Cases chosen by risk, for devices that are too slow for all of them: software drivers, emulators.
//!
//! A case is worth its time where it runs a program that no other case runs, or runs it in another way. For each
//! program of a device, two cases are kept: the smallest, whose extents end inside a tile, and the largest within
//! `most`, which takes several workgroups. What the two leave out is the same program over other numbers.
//!
//! The programs of matrix products and of attention are every kernel with every constant and every format, and a slow device compiles
//! each for a second or more. [`covering`] keeps what they are made of, not every combination of it: [`Cover::Kernels`] for
//! drivers, [`Cover::Parts`] for translators. With [`Cover::Kernels`] most block formats and endings of products run on a
//! driver only with `--all`; translators run each of them once.

use crate::{Call, Effort, layouts, programs};
use rustc_hash::{FxHashMap, FxHashSet};
use silicide_core::DeviceInfo;
use silicide_hal::Program;
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

/// Matrix products and attention: ops whose programs are every kernel with every format.
pub const PRODUCTS: [&str; 4] = ["matmul", "expert_linear", "linear", "attention"];

/// The programs that a choice of cases covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// Every kernel with each of its constants, with any texts.
    Kernels,
    /// Every kernel with each of its constants, and every text with any kernel.
    Parts,
}

/// A part of a program that a choice of cases covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Trait {
    /// The kernel that launches it.
    Kernel(&'static str),
    /// A constant of a kernel.
    Constant(&'static str, &'static str, u32),
    /// A text: the code of a block format, of a loop, of an entry point.
    Text(&'static str),
}

/// Returns cases whose programs together have what `cover` says of the programs of `cases` on a device:
/// the smallest case that has one of them first, and for each kernel its largest case of at most `most` bytes and
/// operations. Cases that cannot be made are kept, so that a run reports them.
pub fn covering(cases: Vec<Case>, on: &DeviceInfo, most: u64, cover: Cover) -> Vec<Case> {
    let mut kept = vec![false; cases.len()];
    let mut calls: Vec<(u64, usize, FxHashSet<Trait>)> = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        match Call::of(case) {
            Ok(call) => calls.push((call.amount(), index, traits(&call, on, cover))),
            Err(_) => kept[index] = true,
        }
    }
    calls.sort_by_key(|(amount, index, _)| (*amount, *index));
    let mut seen: FxHashSet<&Trait> = FxHashSet::default();
    let mut largest: FxHashMap<&'static str, usize> = FxHashMap::default();
    for (amount, index, traits) in &calls {
        let before = seen.len();
        seen.extend(traits);
        kept[*index] |= seen.len() > before;
        for name in traits.iter().filter_map(Trait::kernel).filter(|_| *amount <= most) {
            largest.insert(name, *index);
        }
    }
    largest.into_values().for_each(|index| kept[index] = true);
    cases.into_iter().zip(kept).filter_map(|(case, kept)| kept.then_some(case)).collect()
}

/// Returns the traits of all programs of a call.
fn traits(call: &Call, on: &DeviceInfo, cover: Cover) -> FxHashSet<Trait> {
    let mut traits = FxHashSet::default();
    for layout in layouts(call, Effort::Quick) {
        for (kernel, program) in programs(&layout.place(call), on) {
            traits.insert(Trait::Kernel(kernel));
            let Program::Wgsl(program) = program else { continue };
            let constants = program.constants().iter();
            traits.extend(constants.map(|(name, value)| Trait::Constant(kernel, name, *value)));
            let texts = program.parts().iter().filter(|_| cover == Cover::Parts);
            traits.extend(texts.map(|part| Trait::Text(part.snippet.name)));
        }
    }
    traits
}

impl Trait {
    fn kernel(&self) -> Option<&'static str> {
        match self {
            Trait::Kernel(name) => Some(name),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;

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

    #[test]
    fn covers_of_products_have_every_part_in_few_programs() {
        let on = reference::full_gpu();
        let products: Vec<_> =
            silicide_ops::all().into_iter().filter(|(op, _)| PRODUCTS.contains(op)).collect();
        assert_eq!(products.len(), PRODUCTS.len());
        let mut programs = [0; 3];
        for (op, cases) in products {
            programs[0] += programs_of(&cases, &on).len();
            for (cover, sum) in [(Cover::Kernels, 1), (Cover::Parts, 2)] {
                let all = |cases: &[Case]| -> FxHashSet<Trait> {
                    let calls = cases.iter().filter_map(|case| Call::of(case).ok());
                    calls.flat_map(|call| traits(&call, &on, cover)).collect()
                };
                let kept = covering(cases.clone(), &on, 1 << 20, cover);
                assert_eq!(all(&kept), all(&cases), "{op}, {cover:?}");
                programs[sum] += programs_of(&kept, &on).len();
                println!("{op}, {cover:?}: {} of {} cases, {programs:?}", kept.len(), cases.len());
            }
        }
        let [all, kernels, parts] = programs;
        assert!(kernels * 3 < all && parts * 3 < all * 2, "{kernels} and {parts} of {all} programs");
    }
}
