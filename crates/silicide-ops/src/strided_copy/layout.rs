//! Where the elements of a tensor lie in a buffer.

use silicide_quant::{MAX_RANK, Shape};

/// Element `(i, j, ..)` of a tensor lies at `offset + i * strides[0] + j * strides[1] + ..`, counted in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Of the first element.
    pub offset: usize,
    /// One per axis; those past the tensor's rank do not matter.
    pub strides: [usize; MAX_RANK],
}

impl Layout {
    /// A layout of given strides, outermost first; axes past them have stride 0.
    pub fn new(offset: usize, strides: &[usize]) -> Layout {
        let mut all = [0; MAX_RANK];
        all.iter_mut().zip(strides).for_each(|(to, from)| *to = *from);
        Layout { offset, strides: all }
    }

    /// Row-major without gaps.
    pub fn dense(shape: &Shape) -> Layout {
        let mut strides = [0; MAX_RANK];
        let mut step = 1usize;
        let used = strides.get_mut(..shape.rank()).unwrap_or_default();
        for (stride, &extent) in used.iter_mut().zip(shape.axes()).rev() {
            *stride = step;
            step = step.saturating_mul(extent);
        }
        Layout { offset: 0, strides }
    }

    /// The place of the last element of a tensor of `shape`; none when it can't be counted.
    pub(super) fn last(&self, shape: &Shape) -> Option<usize> {
        shape.axes().iter().zip(&self.strides).try_fold(self.offset, |at, (&extent, &stride)| {
            at.checked_add(extent.saturating_sub(1).checked_mul(stride)?)
        })
    }

    /// The place of the `i`-th element, in row-major order, of a tensor of `shape`.
    pub(crate) fn at(&self, shape: &Shape, i: usize) -> usize {
        let (mut at, mut rest) = (self.offset, i);
        let used = self.strides.get(..shape.rank()).unwrap_or_default();
        for (&extent, &stride) in shape.axes().iter().zip(used).rev() {
            at += rest % extent.max(1) * stride;
            rest /= extent.max(1);
        }
        at
    }

    /// Whether no two elements share a place. Says no to a few intricate layouts that would do.
    pub(super) fn is_injective(&self, shape: &Shape) -> bool {
        let mut axes: Vec<(usize, usize)> = self
            .strides
            .iter()
            .copied()
            .zip(shape.axes().iter().copied())
            .filter(|axis| axis.1 > 1)
            .collect();
        axes.sort_unstable();
        let mut reach = 0usize;
        for (stride, extent) in axes {
            if stride <= reach {
                return false;
            }
            reach = reach.saturating_add((extent - 1).saturating_mul(stride));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_layouts_count_up() {
        let shape = Shape::new(&[2, 3, 4]).unwrap();
        let dense = Layout::dense(&shape);
        assert_eq!(dense, Layout::new(0, &[12, 4, 1]));
        assert!((0..24).all(|i| dense.at(&shape, i) == i));
        assert_eq!(dense.last(&shape), Some(23));
        assert_eq!(Layout::new(5, &[usize::MAX, 0]).last(&shape), None);
    }

    #[test]
    fn shared_places_are_seen() {
        let shape = Shape::new(&[2, 3]).unwrap();
        assert!(Layout::new(0, &[3, 1]).is_injective(&shape));
        assert!(Layout::new(9, &[1, 2]).is_injective(&shape));
        assert!(!Layout::new(0, &[0, 1]).is_injective(&shape));
        assert!(!Layout::new(0, &[2, 1]).is_injective(&shape));
        assert!(Layout::new(0, &[0, 1]).is_injective(&Shape::new(&[1, 3]).unwrap()));
    }
}
