//! The loops of a copy, made as few and as long as they can be: axes of one element dropped, the rest in the order
//! of the target's strides, neighbours that step as one joined.

use super::Layout;
use silicide_quant::{MAX_RANK, Shape};
use smallvec::SmallVec;

/// One loop: how often, and how far apart in source and target, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) extent: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// Nested loops, outermost first, and where they start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) axes: SmallVec<[Axis; MAX_RANK]>,
}

impl Walk {
    /// The loops over a tensor of `shape`.
    pub(crate) fn new(shape: &Shape, from: &Layout, to: &Layout) -> Walk {
        let mut axes: SmallVec<[Axis; MAX_RANK]> = shape
            .axes()
            .iter()
            .zip(from.strides.iter().zip(&to.strides))
            .map(|(&extent, (&from, &to))| Axis { extent, from, to })
            .filter(|axis| axis.extent > 1)
            .collect();
        axes.sort_by_key(|axis| std::cmp::Reverse(axis.to));
        let mut joined: SmallVec<[Axis; MAX_RANK]> = SmallVec::new();
        for axis in axes {
            match joined.last_mut() {
                Some(outer) if outer.from == axis.from * axis.extent && outer.to == axis.to * axis.extent => {
                    *outer = Axis { extent: outer.extent * axis.extent, ..axis };
                }
                _ => joined.push(axis),
            }
        }
        Walk { from: from.offset, to: to.offset, axes: joined }
    }

    /// How many elements are copied.
    pub(crate) fn elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.extent).product()
    }

    /// Whether both sides are one run without gaps.
    pub(crate) fn is_dense(&self) -> bool {
        match self.axes.as_slice() {
            [] => true,
            [axis] => axis.from == 1 && axis.to == 1,
            _ => false,
        }
    }

    /// Elements from the first to the last touched, in the source and in the target.
    pub(crate) fn reach(&self) -> (usize, usize) {
        self.axes.iter().fold((1, 1), |(from, to), axis| {
            (from + (axis.extent - 1) * axis.from, to + (axis.extent - 1) * axis.to)
        })
    }

    /// Walks that together are this one, none of which reaches over more than `most` elements on either side.
    pub(crate) fn split(&self, most: usize) -> Vec<Walk> {
        let mut whole = vec![self.clone()];
        let mut done = Vec::new();
        while let Some(walk) = whole.pop() {
            let (from, to) = walk.reach();
            if from.max(to) <= most.max(1) {
                done.push(walk);
                continue;
            }
            // Halving the loop that covers most of the longer side is the quickest way down.
            let cover = |axis: &Axis| (axis.extent - 1) * if from > to { axis.from } else { axis.to };
            let Some(k) = (0..walk.axes.len()).max_by_key(|&k| walk.axes.get(k).map_or(0, cover)) else {
                done.push(walk);
                continue;
            };
            let (mut first, mut second) = (walk.clone(), walk);
            if let (Some(a), Some(b)) = (first.axes.get_mut(k), second.axes.get_mut(k)) {
                let half = a.extent / 2;
                (second.from, second.to) = (second.from + half * a.from, second.to + half * a.to);
                (a.extent, b.extent) = (half, b.extent - half);
            }
            for part in [&mut first, &mut second] {
                part.axes.retain(|axis| axis.extent > 1);
            }
            whole.extend([second, first]);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(extents: &[usize], from: &[usize], to: &[usize]) -> Walk {
        Walk::new(&Shape::new(extents).unwrap(), &Layout::new(0, from), &Layout::new(0, to))
    }

    /// Every pair of places, in order of the target.
    fn places(walk: &Walk) -> Vec<(usize, usize)> {
        let mut all = vec![(walk.to, walk.from)];
        for axis in &walk.axes {
            let steps = all.iter().flat_map(|&(to, from)| {
                (0..axis.extent).map(move |i| (to + i * axis.to, from + i * axis.from))
            });
            all = steps.collect();
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn loops_are_joined_and_ordered() {
        assert!(walk(&[2, 3, 4], &[12, 4, 1], &[12, 4, 1]).is_dense());
        assert!(walk(&[1, 1], &[7, 9], &[3, 3]).is_dense());
        let rows = walk(&[5, 2, 3], &[10, 3, 1], &[6, 3, 1]);
        assert_eq!(
            rows.axes.as_slice(),
            [Axis { extent: 5, from: 10, to: 6 }, Axis { extent: 6, from: 1, to: 1 }]
        );
        let turned = walk(&[4, 3], &[3, 1], &[1, 4]);
        assert_eq!(turned.axes.first().map(|axis| axis.to), Some(4));
    }

    #[test]
    fn splitting_keeps_every_place() {
        for (extents, from, to) in [
            (vec![40, 30], vec![30, 1], vec![1, 40]),
            (vec![7, 5, 9], vec![0, 100, 3], vec![45, 9, 1]),
            (vec![1000], vec![1], vec![1]),
            (vec![3, 1], vec![5000, 1], vec![1, 1]),
        ] {
            let whole = walk(&extents, &from, &to);
            for most in [1, 16, 100, 100_000] {
                let parts = whole.split(most);
                let mut got: Vec<_> = parts.iter().flat_map(places).collect();
                got.sort_unstable();
                assert_eq!(got, places(&whole));
                assert!(parts.iter().all(|part| part.reach().0.max(part.reach().1) <= most));
            }
        }
    }
}
