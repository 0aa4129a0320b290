//! The needs of a launch: bytes, alignment and access of each binding, and which bindings may alias.
//!
//! A program runs without bounds checks. It states its needs as a function of parameters, grid and bound lengths
//! ([`NeedsFn`]). `silicide-core` calls that function once for each launch that it lowers, and refuses a launch whose
//! bindings have less. So safe code can make plans, which are plain data. The proof is with the program:
//! [`NativeKernel::new`](crate::NativeKernel::new) and [`WgslKernel::unchecked`](crate::WgslKernel::unchecked) are unsafe.

use smallvec::SmallVec;
use std::ops::{Add, Mul};

/// Access to an argument. Hazards, lifetimes and aliasing rules follow from it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read only.
    Read,
    /// Wholly overwritten; earlier contents do not matter.
    Write,
    /// Read and written, or written in part.
    ReadWrite,
}

impl Access {
    /// Returns whether bytes are read.
    pub const fn reads(self) -> bool {
        matches!(self, Access::Read | Access::ReadWrite)
    }
    /// Returns whether bytes are written.
    pub const fn writes(self) -> bool {
        matches!(self, Access::Write | Access::ReadWrite)
    }
}

/// A number of elements or bytes whose sums and products saturate. No binding has `u64::MAX` bytes, so an overflow
/// refuses the launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u64);

impl From<u32> for Count {
    fn from(count: u32) -> Count {
        Count(u64::from(count))
    }
}
impl From<u64> for Count {
    fn from(count: u64) -> Count {
        Count(count)
    }
}
impl From<usize> for Count {
    fn from(count: usize) -> Count {
        Count(count as u64)
    }
}
impl<T: Into<Count>> Add<T> for Count {
    type Output = Count;
    fn add(self, other: T) -> Count {
        Count(self.0.saturating_add(other.into().0))
    }
}
impl<T: Into<Count>> Mul<T> for Count {
    type Output = Count;
    fn mul(self, other: T) -> Count {
        Count(self.0.saturating_mul(other.into().0))
    }
}
impl Count {
    /// Returns the quotient, rounded up; `None` if `by` is zero.
    pub fn div_ceil(self, by: impl Into<Count>) -> Option<Count> {
        let by = by.into().0;
        (by != 0).then(|| Count(self.0.div_ceil(by)))
    }
}

/// A launch as [`NeedsFn`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct LaunchShape<'a> {
    /// The program's own parameter words; for WGSL without the offset words.
    pub params: &'a [u32],
    /// Tiles or workgroups.
    pub grid: [u32; 3],
    /// Bytes of each binding: for programs that take an extent from the length of a binding.
    pub bound: &'a [u64],
    /// The words given to [`WgslKernel::unchecked`](crate::WgslKernel::unchecked); none for native programs.
    pub facts: &'a [u32],
}

impl LaunchShape<'_> {
    /// Returns parameter word `i`, or 0, as [`Tile::param`](crate::Tile::param) does.
    pub fn param(&self, i: usize) -> u32 {
        self.params.get(i).copied().unwrap_or(0)
    }

    /// Returns parameter word `i` as a count.
    pub fn count(&self, i: usize) -> Count {
        Count::from(self.param(i))
    }

    /// Returns fact `i`, or 0.
    pub fn fact(&self, i: usize) -> u32 {
        self.facts.get(i).copied().unwrap_or(0)
    }

    /// Returns the bytes of binding `i`, or 0, as [`Tile::bytes`](crate::Tile::bytes) does.
    pub fn bytes(&self, i: usize) -> Count {
        Count(self.bound.get(i).copied().unwrap_or(0))
    }

    /// Returns the length of a grid of one axis, or `None` if the grid has more: tiles that differ in another axis only would
    /// write the same bytes at the same time.
    pub fn line(&self) -> Option<Count> {
        let [x, y, z] = self.grid;
        (y == 1 && z == 1).then(|| Count::from(x))
    }

    /// Returns both lengths of a grid of two axes, or `None` if the grid has three.
    pub fn plane(&self) -> Option<[Count; 2]> {
        let [x, y, z] = self.grid;
        (z == 1).then(|| [x, y].map(Count::from))
    }
}

/// The need of one binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingNeed {
    /// Bytes that are touched, from the start of the binding.
    pub bytes: u64,
    /// Alignment of the first byte, in bytes.
    pub align: u32,
    /// Unit of the binding's offset word in bytes. Only WGSL programs have offset words, and tables have none.
    pub unit: u32,
    /// Access to the bytes; [`Access::Write`] may leave some of them unchanged.
    pub access: Access,
    /// Other bindings, as bits, that may be exactly the same bytes even if one of the two is written.
    pub shares: u32,
    /// Whether the program takes an extent from the length of this binding: fewer bytes are less work, not an error.
    pub is_extent: bool,
}

/// The needs of a launch, one for each binding, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    bindings: SmallVec<[BindingNeed; 8]>,
}

/// Returns the needs of a launch, or `None` for parameters and grids that the program can't run.
pub type NeedsFn = fn(&LaunchShape<'_>) -> Option<Needs>;

impl Needs {
    /// Returns needs without bindings.
    pub fn new() -> Needs {
        Needs::default()
    }

    /// Returns the need of each binding.
    pub fn bindings(&self) -> &[BindingNeed] {
        &self.bindings
    }

    /// Adds a binding.
    pub fn and(mut self, access: Access, bytes: impl Into<Count>, align: usize) -> Needs {
        let align = u32::try_from(align).unwrap_or(u32::MAX);
        let bytes = bytes.into().0;
        self.bindings.push(BindingNeed { bytes, align, unit: align, access, shares: 0, is_extent: false });
        self
    }

    /// Adds a binding that is read.
    pub fn read(self, bytes: impl Into<Count>, align: usize) -> Needs {
        self.and(Access::Read, bytes, align)
    }

    /// Adds a binding that is written and not read.
    pub fn write(self, bytes: impl Into<Count>, align: usize) -> Needs {
        self.and(Access::Write, bytes, align)
    }

    /// Adds a binding that is read and written.
    pub fn update(self, bytes: impl Into<Count>, align: usize) -> Needs {
        self.and(Access::ReadWrite, bytes, align)
    }

    /// Requires that the last binding begins at a multiple of `align` bytes, whatever the unit of its offset word.
    pub fn aligned(mut self, align: u32) -> Needs {
        if let Some(last) = self.bindings.last_mut() {
            last.align = last.align.max(align);
        }
        self
    }

    /// Sets the unit of the last binding's offset word to one byte, instead of its alignment.
    pub fn in_bytes(mut self) -> Needs {
        if let Some(last) = self.bindings.last_mut() {
            last.unit = 1;
        }
        self
    }

    /// Allows the last binding to be the same bytes as one of `bindings`, given as bits.
    pub fn over(mut self, bindings: u32) -> Needs {
        if let Some(last) = self.bindings.last_mut() {
            last.shares |= bindings;
        }
        self
    }

    /// Marks the length of the last binding as an extent.
    pub fn extent(mut self) -> Needs {
        if let Some(last) = self.bindings.last_mut() {
            last.is_extent = true;
        }
        self
    }

    /// Returns whether bindings `i` and `j` may be the same bytes even if one of them is written.
    pub fn may_share(&self, i: usize, j: usize) -> bool {
        let bit = |of: usize, other: usize| {
            let other = u32::try_from(other).ok().and_then(|other| 1u32.checked_shl(other)).unwrap_or(0);
            self.bindings.get(of).is_some_and(|need| need.shares & other != 0)
        };
        bit(i, j) || bit(j, i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_saturate_instead_of_wrapping() {
        let most = Count::from(u32::MAX);
        assert_eq!(most * most * most, Count(u64::MAX));
        assert_eq!(Count(u64::MAX) + 1u32, Count(u64::MAX));
        assert_eq!(Count(7).div_ceil(2u32), Some(Count(4)));
        assert_eq!(Count(7).div_ceil(0u32), None);
    }

    #[test]
    fn sharing_is_symmetric_and_only_as_stated() {
        let needs = Needs::new().read(4u32, 4).read(4u32, 4).write(4u32, 4).over(0b01);
        assert!(needs.may_share(0, 2) && needs.may_share(2, 0));
        assert!(!needs.may_share(1, 2) && !needs.may_share(0, 1) && !needs.may_share(2, 40));
    }
}
