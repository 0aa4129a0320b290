//! Quantized weights as the RHS of a product: `n` rows of `k` weights, in a format and a layout.

use super::formats::{GROUP, affine, panel_layout, words_at};
use super::layout::{AffinePlanes, INTERLEAVE, WeightRows};
use crate::view::{GemmError, MAX_ELEMENTS};
use silicide_quant::{Format, MlxFormat, MlxMode, MlxPlanes};
use std::marker::PhantomData;

/// How weights are encoded.
#[derive(Clone, Copy, Debug)]
pub(super) enum WeightEncoding {
    /// Blocks of GGML.
    Block(Format),
    /// Affine codes of MLX.
    Affine(MlxFormat),
}

impl WeightEncoding {
    /// Groups that are unpacked together: those of a block, or those that share a scale.
    pub(super) fn groups(self) -> usize {
        match self {
            WeightEncoding::Block(format) => format.block_len().div_ceil(GROUP),
            WeightEncoding::Affine(format) => format.group().div_ceil(GROUP),
        }
    }
}

/// Weights to read: `n` rows, the outputs of a product, of `k` weights.
#[derive(Clone, Copy, Debug)]
pub struct Q8Weights<'a> {
    pub(super) encoding: WeightEncoding,
    pub(super) rows: WeightRows,
    pub(super) n: usize,
    pub(super) groups: usize,
    memory: PhantomData<&'a [u8]>,
}

const ARGUMENT: &str = "weights";

/// The error for a format without a product, or without a layout.
fn lacks(format: String, what: &'static str) -> GemmError {
    GemmError::Format { argument: ARGUMENT, format, what }
}

/// Checks extents: whole blocks of `len`, whole groups, at least [`MIN_OUTPUTS`](super::MIN_OUTPUTS) rows.
#[inline(always)]
fn check([n, k]: [usize; 2], len: usize) -> Result<(), GemmError> {
    let argument = ARGUMENT;
    if k == 0 {
        return Err(GemmError::Empty { argument, what: "depth" });
    }
    let (least, most) = (super::MIN_OUTPUTS, MAX_ELEMENTS);
    if n < least {
        return Err(GemmError::Bounds { argument, what: "rows", least, most, got: n });
    }
    let of = len.max(GROUP);
    if !k.is_multiple_of(of) {
        return Err(GemmError::Multiple { argument, what: "depth", of, got: k });
    }
    let weights = n.checked_mul(k).filter(|weights| *weights <= most);
    weights.map(|_| ()).ok_or(GemmError::Overflow { argument })
}

/// Checks the bytes of a plane.
fn check_bytes(argument: &'static str, bytes: &[u8], needed: usize) -> Result<(), GemmError> {
    if bytes.len() < needed {
        return Err(GemmError::Length { argument, needed, got: bytes.len() });
    }
    Ok(())
}

impl<'a> Q8Weights<'a> {
    /// Returns a view of `n` rows of `k` weights in blocks, one row after the other.
    pub fn blocks(format: Format, bytes: &'a [u8], [n, k]: [usize; 2]) -> Result<Q8Weights<'a>, GemmError> {
        check([n, k], format.block_len())?;
        check_bytes(ARGUMENT, bytes, n * (k / format.block_len() * format.block_bytes()))?;
        // SAFETY: `check_bytes` has compared the slice's length, and the slice is borrowed for as long as the view.
        unsafe { Q8Weights::blocks_from_raw(format, bytes.as_ptr(), [n, k]) }
    }

    /// Returns a view of `n` rows of `k` weights in blocks that [`interleave`](super::interleave()) has interleaved.
    pub fn interleaved(
        format: Format,
        bytes: &'a [u8],
        [n, k]: [usize; 2],
    ) -> Result<Q8Weights<'a>, GemmError> {
        check([n, k], format.block_len())?;
        check_bytes(ARGUMENT, bytes, n * (k / format.block_len() * format.block_bytes()))?;
        // SAFETY: `check_bytes` has compared the slice's length, and the slice is borrowed for as long as the view.
        unsafe { Q8Weights::interleaved_from_raw(format, bytes.as_ptr(), [n, k]) }
    }

    /// Returns a view of `n` rows of `k` affine codes in planes, one row after the other.
    pub fn affine(
        format: MlxFormat,
        planes: MlxPlanes<&'a [u8]>,
        [n, k]: [usize; 2],
    ) -> Result<Q8Weights<'a>, GemmError> {
        check([n, k], format.group())?;
        let scales = n * (k / format.group()) * format.scale_dtype().size();
        check_bytes("packed codes", planes.packed, n * (k / 8 * format.bits()))?;
        check_bytes("scales", planes.scales, scales)?;
        check_bytes("biases", planes.biases, scales)?;
        let planes = MlxPlanes {
            packed: planes.packed.as_ptr(),
            scales: planes.scales.as_ptr(),
            biases: planes.biases.as_ptr(),
        };
        // SAFETY: `check_bytes` has compared the slices' lengths, and they are borrowed for as long as the view.
        unsafe { Q8Weights::affine_from_raw(format, planes, [n, k]) }
    }

    /// Returns a view of `n` rows of `k` affine codes in planes that [`interleave_plane`](super::interleave_plane()) has interleaved.
    pub fn interleaved_affine(
        format: MlxFormat,
        planes: MlxPlanes<&'a [u8]>,
        extents: [usize; 2],
    ) -> Result<Q8Weights<'a>, GemmError> {
        Q8Weights::affine(format, planes, extents)?.as_interleaved(format)
    }

    /// As [`Q8Weights::blocks`], from an address.
    ///
    /// # Safety
    /// The blocks of `n` rows of `k` weights can be read at `start`, and nothing writes them while the view is used.
    #[inline(always)]
    pub unsafe fn blocks_from_raw(
        format: Format,
        start: *const u8,
        [n, k]: [usize; 2],
    ) -> Result<Q8Weights<'a>, GemmError> {
        check([n, k], format.block_len())?;
        if panel_layout(format).is_none() {
            return Err(lacks(format.name().to_owned(), "integer product"));
        }
        let stride = k / format.block_len() * format.block_bytes();
        let rows = WeightRows { start, stride, interleaved: None, planes: None };
        let (encoding, groups) = (WeightEncoding::Block(format), k / GROUP);
        Ok(Q8Weights { encoding, rows, n, groups, memory: PhantomData })
    }

    /// As [`Q8Weights::interleaved`], from an address.
    ///
    /// # Safety
    /// As for [`Q8Weights::blocks_from_raw`].
    #[inline(always)]
    pub unsafe fn interleaved_from_raw(
        format: Format,
        start: *const u8,
        [n, k]: [usize; 2],
    ) -> Result<Q8Weights<'a>, GemmError> {
        if words_at(format).is_none() {
            return Err(lacks(format.name().to_owned(), "interleaved layout"));
        }
        if !n.is_multiple_of(INTERLEAVE) {
            return Err(GemmError::Multiple { argument: ARGUMENT, what: "rows", of: INTERLEAVE, got: n });
        }
        // SAFETY: interleaved blocks are as many bytes, which can be read, by this function's contract.
        let weights = unsafe { Q8Weights::blocks_from_raw(format, start, [n, k])? };
        Ok(Q8Weights { rows: WeightRows { interleaved: Some(0), ..weights.rows }, ..weights })
    }

    /// As [`Q8Weights::affine`], from addresses.
    ///
    /// # Safety
    /// The codes, scales and biases of `n` rows of `k` weights can be read in their planes, and nothing writes them while the view is
    /// used.
    #[inline(always)]
    pub unsafe fn affine_from_raw(
        format: MlxFormat,
        planes: MlxPlanes<*const u8>,
        [n, k]: [usize; 2],
    ) -> Result<Q8Weights<'a>, GemmError> {
        check([n, k], format.group())?;
        if format.mode() != MlxMode::Affine {
            return Err(lacks(format.to_string(), "integer product"));
        }
        let affine = AffinePlanes {
            scales: planes.scales,
            biases: planes.biases,
            stride: k / format.group() * format.scale_dtype().size(),
            groups: format.group() / GROUP,
            dtype: format.scale_dtype(),
        };
        let stride = k / 8 * format.bits();
        let rows = WeightRows { start: planes.packed, stride, interleaved: None, planes: Some(affine) };
        let (encoding, groups) = (WeightEncoding::Affine(format), k / GROUP);
        Ok(Q8Weights { encoding, rows, n, groups, memory: PhantomData })
    }

    /// As [`Q8Weights::interleaved_affine`], from addresses.
    ///
    /// # Safety
    /// As for [`Q8Weights::affine_from_raw`].
    #[inline(always)]
    pub unsafe fn interleaved_affine_from_raw(
        format: MlxFormat,
        planes: MlxPlanes<*const u8>,
        extents: [usize; 2],
    ) -> Result<Q8Weights<'a>, GemmError> {
        // SAFETY: the contract is the same.
        unsafe { Q8Weights::affine_from_raw(format, planes, extents)? }.as_interleaved(format)
    }

    /// Returns the view of interleaved rows in the same planes, which have as many bytes.
    #[inline(always)]
    fn as_interleaved(self, format: MlxFormat) -> Result<Q8Weights<'a>, GemmError> {
        if !affine::interleaves(format) {
            return Err(lacks(format.to_string(), "interleaved layout"));
        }
        if !self.n.is_multiple_of(INTERLEAVE) {
            return Err(GemmError::Multiple {
                argument: ARGUMENT,
                what: "rows",
                of: INTERLEAVE,
                got: self.n,
            });
        }
        Ok(Q8Weights { rows: WeightRows { interleaved: Some(0), ..self.rows }, ..self })
    }

    /// The rows: outputs of a product.
    #[inline(always)]
    pub fn outputs(&self) -> usize {
        self.n
    }

    /// Groups of 32 weights in a row.
    #[inline(always)]
    pub fn groups(&self) -> usize {
        self.groups
    }
}
