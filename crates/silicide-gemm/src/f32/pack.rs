//! Weights in the form the register tile wants them: the formats ([`Weight`]), and packing columns into a panel.
//!
//! A panel is a sequence of sub-panels as wide as the register tile (the last one may be narrower, in whole
//! vectors). A sub-panel is `depth` rows of its width: word `d` of each of its columns, side by side. Columns past
//! the last one are zero.

use super::vector::{MAX_LANES, Unit, Vector};

/// How weights are stored and read: one row of the table of weight formats.
///
/// # Safety
///
/// `load` is given a pointer that is valid for `LANES` elements, and the vector's instruction set.
pub unsafe trait Weight {
    /// One stored element; its zero is all zero bits.
    type Stored: bytemuck::Zeroable + Copy;
    /// Whether stored elements are the panel's words already.
    const RAW: bool;
    /// A vector of words.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set of `V`; `LANES` elements can be read.
    unsafe fn load<V: Vector>(from: *const Self::Stored) -> V;
}

/// Declares the formats.
macro_rules! weights {
    ($($(#[$meta:meta])* $name:ident: $stored:ty, $raw:literal, $load:ident;)*) => {$(
        $(#[$meta])*
        pub struct $name;

        // SAFETY: the promise is passed on.
        unsafe impl Weight for $name {
            type Stored = $stored;
            const RAW: bool = $raw;
            #[inline(always)]
            unsafe fn load<V: Vector>(from: *const $stored) -> V {
                // SAFETY: the caller's promise.
                unsafe { V::$load(from.cast()) }
            }
        }
    )*};
}

weights! {
    /// f32 as it is.
    F32: f32, true, load;
    /// f16, widened to f32.
    F16: u16, false, load_f16;
    /// bf16, widened to f32.
    BF16: u16, false, load_bf16;
}

/// Weight columns to pack.
pub struct Columns<T> {
    /// The first element to pack of the first column.
    pub start: *const T,
    /// Elements from one column to the next.
    pub stride: usize,
    /// Columns.
    pub count: usize,
    /// Elements of each column to pack.
    pub elements: usize,
    /// Words of depth that the panel has.
    pub panel_depth: usize,
    /// The word of depth to start at.
    pub at: usize,
}

/// Packs columns into a panel for the unit.
///
/// # Safety
///
/// The unit's instruction set is present, the columns are readable, and the panel has room for `panel_depth` words of each
/// column, with the number of columns rounded up to whole vectors; `at + elements` words are within.
#[inline(always)]
pub unsafe fn pack<U: Unit, W: Weight>(columns: &Columns<W::Stored>, panel: *mut f32) {
    let lanes = U::Vector::LANES;
    let mut column = 0;
    while column < columns.count {
        let in_panel = column % (U::VECTORS * lanes);
        let sub_panel = column - in_panel;
        let width = (columns.count - sub_panel).next_multiple_of(lanes).min(U::VECTORS * lanes);
        // SAFETY: the group of columns is part of the columns, and its words part of the panel.
        unsafe {
            let group = Columns {
                start: columns.start.add(column * columns.stride),
                count: (columns.count - column).min(lanes),
                ..*columns
            };
            pack_group::<U::Vector, W>(
                &group,
                panel.add(sub_panel * columns.panel_depth + columns.at * width + in_panel),
                width,
            );
        }
        column += lanes;
    }
}

/// Packs `count` rows of `dim` elements, one after the other, as the depth of a panel: sub-panels as wide as the register tile, each
/// with its part of every row.
///
/// # Safety
///
/// The unit's instruction set is present, the rows are readable, and the panel has room for `count` words of `dim` columns, rounded
/// up to whole vectors.
#[inline(always)]
pub unsafe fn pack_depth<U: Unit, W: Weight>(
    start: *const W::Stored,
    dim: usize,
    count: usize,
    panel: *mut f32,
) {
    let (lanes, width) = (U::Vector::LANES, U::VECTORS * U::Vector::LANES);
    for column in (0..dim).step_by(width) {
        let width = (dim - column).next_multiple_of(lanes).min(width);
        // SAFETY: only elements that exist are read; a sub-panel is `count` rows of its width.
        unsafe {
            let panel = panel.add(column * count);
            for row in 0..count {
                let (from, to) = (start.add(row * dim + column), panel.add(row * width));
                let whole = width.min(dim - column) / lanes * lanes;
                for at in (0..whole).step_by(lanes) {
                    W::load::<U::Vector>(from.add(at)).store(to.add(at));
                }
                if whole < width {
                    let left = dim - column - whole;
                    load_part::<U::Vector, W>(from.add(whole), left).store(to.add(whole));
                }
            }
        }
    }
}

/// Packs at most one vector's worth of columns; rows of the panel are `width` words apart.
#[inline(always)]
unsafe fn pack_group<V: Vector, W: Weight>(columns: &Columns<W::Stored>, to: *mut f32, width: usize) {
    let direct = W::RAW && columns.count == V::LANES;
    let mut staged = [0.0f32; MAX_LANES * MAX_LANES];
    let mut element = 0;
    while element < columns.elements {
        let left = columns.elements - element;
        // SAFETY: `stage` and `transpose` read inside the columns; what is written is inside the panel, as no more
        // rows are stored than there are words left.
        unsafe {
            let from = columns.start.add(element);
            let (from, stride) = if direct && left >= V::LANES {
                (from.cast::<f32>(), columns.stride)
            } else {
                stage::<V, W>(&Columns { start: from, elements: left, ..*columns }, &mut staged);
                (staged.as_ptr(), V::LANES)
            };
            let to = to.add(element * width);
            let words = left.min(V::LANES);
            for quad in (0..words).step_by(4) {
                let rows = V::transpose(from.add(quad), stride);
                for (i, row) in rows.into_iter().enumerate().take(words - quad) {
                    row.store(to.add((quad + i) * width));
                }
            }
        }
        element += V::LANES;
    }
}

/// Copies the first words of a group of columns to a square of words, one column after the other, with zeros
/// where there is nothing.
#[inline(always)]
unsafe fn stage<V: Vector, W: Weight>(columns: &Columns<W::Stored>, to: &mut [f32; MAX_LANES * MAX_LANES]) {
    for column in 0..V::LANES {
        // SAFETY: only columns and elements that exist are read; the square has room for all lanes.
        unsafe {
            let words = if column < columns.count {
                load_part::<V, W>(columns.start.add(column * columns.stride), columns.elements)
            } else {
                V::zero()
            };
            words.store(to.as_mut_ptr().add(column * V::LANES));
        }
    }
}

/// A vector from the first `count` elements, and zeros.
///
/// # Safety
///
/// The vector's instruction set is present, and `count` elements can be read.
#[inline(always)]
pub unsafe fn load_part<V: Vector, W: Weight>(from: *const W::Stored, count: usize) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        if count >= V::LANES {
            return W::load::<V>(from);
        }
        let mut part = [bytemuck::Zeroable::zeroed(); MAX_LANES];
        std::ptr::copy_nonoverlapping(from, part.as_mut_ptr(), count);
        W::load::<V>(part.as_ptr())
    }
}
