//! Copies: strided, gathered, transposed and split. Bits are moved as they are, unless a function converts.

use super::support::{cast_into, count, positive, typed};
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::{Result, refuse};
use crate::{DType, MlxBuffer};
use silicide::ops::strided_copy::{Layout, StridedCopy};
use silicide::{DType as Element, Recorder, Shape};

/// Encodes a copy of `shape` elements of f32 from a layout to a dense tensor.
fn copy_layout(
    encoder: &mut CommandEncoder,
    what: &str,
    [from, to]: [&MlxBuffer; 2],
    shape: &[usize],
    layout: Layout,
) -> Result<()> {
    let shape = Shape::new(shape).map_err(|error| crate::MlxError::argument(format!("{what}: {error}")))?;
    let x = from.tensor(Element::F32, &[from.data_byte_len() / Element::F32.block_bytes()])?;
    let y = to.tensor(Element::F32, shape.axes())?;
    let op = StridedCopy { shape, from: layout, to: None };
    let dispatch = Dispatch::new(what, shape.elements(), &[from], &[to]).annotated();
    encoder.dispatch(dispatch, move |recorder| recorder.run_into(op, &[&x], &[&y]))
}

/// Strided copies.
pub mod copy {
    use super::{DType, Layout, copy_layout, positive, typed};
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};

    super::super::support::register!();

    /// Where the elements of a matrix lie.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct StridedCopyParams {
        /// Rows.
        pub rows: u32,
        /// Columns.
        pub cols: u32,
        /// Elements from one row to the next.
        pub stride_row: u32,
        /// Elements from one column to the next.
        pub stride_col: u32,
    }

    /// Encodes `dst[r, c] = src[r * stride_row + c * stride_col]`.
    pub fn dispatch_strided_copy_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        src: &MlxBuffer,
        dst: &MlxBuffer,
        params: &StridedCopyParams,
    ) -> Result<()> {
        let (rows, cols) = (params.rows as usize, params.cols as usize);
        positive("strided_copy_f32", &[("rows", rows), ("cols", cols)])?;
        typed("strided_copy_f32", "src", src, DType::F32)?;
        let layout = Layout::new(0, &[params.stride_row as usize, params.stride_col as usize]);
        copy_layout(encoder, "strided_copy_f32", [src, dst], &[rows, cols], layout)
    }
}

/// Rows by index.
pub mod gather {
    use super::{DType, Dispatch, Element, Recorder, positive, typed};
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};
    use silicide::ops::gather_rows::GatherRows;
    use silicide::quant::Encoding;

    super::super::support::register!();

    /// Encodes `output[i] = src[indices[i]]`, rows of f32. Indices are u32 and read while encoding; one that is no row is an error.
    pub fn dispatch_gather_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        src: &MlxBuffer,
        indices: &MlxBuffer,
        output: &MlxBuffer,
        src_rows: u32,
        row_width: u32,
        n_indices: u32,
    ) -> Result<()> {
        let what = "gather_f32";
        let [rows, width, n] = [src_rows, row_width, n_indices].map(|extent| extent as usize);
        positive(what, &[("src_rows", rows), ("row_width", width), ("n_indices", n)])?;
        typed(what, "src", src, DType::F32)?;
        typed(what, "indices", indices, DType::U32)?;
        typed(what, "output", output, DType::F32)?;
        if output.element_count() != n.saturating_mul(width) {
            refuse!("{what}: output must have {n} * {width} elements");
        }
        let (x, names) = (src.tensor(Element::F32, &[rows, width])?, indices.tensor(Element::U32, &[n])?);
        let y = output.tensor(Element::F32, &[n, width])?;
        let op = GatherRows { encoding: Encoding::from(Element::F32), to: Element::F32 };
        let dispatch = Dispatch::new(what, n * width, &[src, indices], &[output]);
        encoder.dispatch(dispatch, move |recorder| recorder.run_into(op, &[&x, &names], &[&y]))
    }
}

/// Axes in another order.
pub mod transpose {
    use super::{CommandEncoder, DType, Dispatch, Element, MlxBuffer, Recorder, cast_into, positive};
    use crate::KernelRegistry;
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use silicide::ops::permute::Permute;

    super::super::support::register!();

    fn permute(
        encoder: &mut CommandEncoder,
        what: &str,
        [input, output]: [&MlxBuffer; 2],
        [from, to]: [DType; 2],
        [extents, order]: [[usize; 3]; 2],
    ) -> Result<()> {
        positive(what, &[("dim_a", extents[0]), ("dim_b", extents[1]), ("dim_c", extents[2])])?;
        let (from, to): (Element, Element) = (from.silicide(), to.silicide());
        let x = input.tensor(from, &extents)?;
        let y = output.tensor(to, &order.map(|axis| extents[axis]))?;
        let dispatch = Dispatch::new(what, x.elements(), &[input], &[output]).annotated();
        encoder.dispatch(dispatch, move |recorder| {
            let op = Permute { order: order.into_iter().collect() };
            if from == to {
                return recorder.run_into(op, &[&x], &[&y]);
            }
            let moved = recorder.run_one(op, &[&x])?;
            cast_into(recorder, &moved, &y)
        })
    }

    /// Encodes `[a, b, c]` of bf16 as `[b, a, c]`.
    pub fn permute_021_bf16(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        output: &MlxBuffer,
        dim_a: usize,
        dim_b: usize,
        dim_c: usize,
    ) -> Result<()> {
        let types = [DType::BF16, DType::BF16];
        permute(encoder, "permute_021_bf16", [input, output], types, [[dim_a, dim_b, dim_c], [1, 0, 2]])
    }

    /// Encodes `[a, b, c]` of bf16 as `[b, a, c]` of f32.
    pub fn permute_021_bf16_to_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        output: &MlxBuffer,
        dim_a: usize,
        dim_b: usize,
        dim_c: usize,
    ) -> Result<()> {
        let types = [DType::BF16, DType::F32];
        permute(
            encoder,
            "permute_021_bf16_to_f32",
            [input, output],
            types,
            [[dim_a, dim_b, dim_c], [1, 0, 2]],
        )
    }

    /// Encodes `[rows, cols]` as `[cols, rows]`.
    pub fn transpose_2d(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        output: &MlxBuffer,
        rows: usize,
        cols: usize,
        dtype: DType,
    ) -> Result<()> {
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            refuse!("transpose_2d: unsupported dtype {dtype}");
        }
        permute(encoder, "transpose_2d", [input, output], [dtype, dtype], [[1, rows, cols], [0, 2, 1]])
    }

    /// Encodes `[a, b, c]` of f16 as `[a, c, b]`.
    pub fn transpose_last2_f16(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        output: &MlxBuffer,
        dim_a: usize,
        dim_b: usize,
        dim_c: usize,
    ) -> Result<()> {
        let types = [DType::F16, DType::F16];
        permute(encoder, "transpose_last2_f16", [input, output], types, [[dim_a, dim_b, dim_c], [0, 2, 1]])
    }
}

/// Copies columns of a matrix of f32 into matrices of their own, as one dispatch.
fn split(
    encoder: &mut CommandEncoder,
    what: &str,
    from: &MlxBuffer,
    rows: usize,
    parts: &[(&MlxBuffer, usize)],
) -> Result<()> {
    let width = parts.iter().fold(0usize, |sum, (_, width)| sum.saturating_add(*width));
    let x = from.tensor(Element::F32, &[count(what, &[rows, width])?])?;
    let mut copies = Vec::new();
    let mut offset = 0;
    for (part, columns) in parts {
        typed(what, "output", part, DType::F32)?;
        let shape = Shape::new(&[rows, *columns])
            .map_err(|error| crate::MlxError::argument(format!("{what}: {error}")))?;
        let op = StridedCopy { shape, from: Layout::new(offset, &[width, 1]), to: None };
        copies.push((op, part.tensor(Element::F32, shape.axes())?));
        offset += columns;
    }
    for (index, (part, _)) in parts.iter().enumerate() {
        if part.overlaps(from) || parts[..index].iter().any(|(other, _)| other.overlaps(part)) {
            refuse!("{what}: an output must not overlap another buffer");
        }
    }
    let writes: Vec<&MlxBuffer> = parts.iter().map(|(part, _)| *part).collect();
    let reads = [from];
    let dispatch = Dispatch::new(what, rows * width, &reads, &writes).annotated();
    encoder.dispatch(dispatch, move |recorder| {
        copies.iter().try_for_each(|(op, part)| recorder.run_into(*op, &[&x], &[part]))
    })
}

/// Queries and gates that lie head by head side by side.
pub mod q_gate_deinterleave {
    use super::{DType, count, positive, split, typed};
    use crate::error::Result;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer, MlxDevice};

    super::super::support::register!();

    /// Extents.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct QGateDeinterleaveParams {
        /// Rows.
        pub m: u32,
        /// Heads.
        pub n_heads: u32,
        /// Elements of a head.
        pub head_dim: u32,
    }

    /// Encodes `[m, n_heads, 2 * head_dim]` as queries and gates of `[m, n_heads, head_dim]`.
    pub fn dispatch_q_gate_deinterleave_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        fused: &MlxBuffer,
        q: &MlxBuffer,
        gate: &MlxBuffer,
        params: QGateDeinterleaveParams,
    ) -> Result<()> {
        let what = "q_gate_deinterleave_f32";
        let [m, heads, dim] = [params.m, params.n_heads, params.head_dim].map(|extent| extent as usize);
        positive(what, &[("m", m), ("n_heads", heads), ("head_dim", dim)])?;
        typed(what, "fused", fused, DType::F32)?;
        split(encoder, what, fused, count(what, &[m, heads])?, &[(q, dim), (gate, dim)])
    }
}

/// Queries, keys and values that lie side by side.
pub mod qkv_split {
    use super::{DType, positive, split, typed};
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};

    super::super::support::register!();

    /// Extents.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct QkvSplitParams {
        /// Rows.
        pub seq: u32,
        /// Elements of queries in a row.
        pub q_sp: u32,
        /// Elements of keys.
        pub k_sp: u32,
        /// Elements of values.
        pub v_sp: u32,
    }

    /// Encodes `[seq, q + k + v]` as three matrices.
    pub fn dispatch_qkv_split_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        qkv: &MlxBuffer,
        q: &MlxBuffer,
        k: &MlxBuffer,
        v: &MlxBuffer,
        params: &QkvSplitParams,
    ) -> Result<()> {
        let QkvSplitParams { seq, q_sp, k_sp, v_sp } = *params;
        let [seq, of_q, of_k, of_v] = [seq, q_sp, k_sp, v_sp].map(|extent| extent as usize);
        positive("qkv_split_f32", &[("seq", seq), ("q_sp", of_q), ("k_sp", of_k), ("v_sp", of_v)])?;
        typed("qkv_split_f32", "qkv", qkv, DType::F32)?;
        split(encoder, "qkv_split_f32", qkv, seq, &[(q, of_q), (k, of_k), (v, of_v)])
    }
}

/// Heads that are repeated.
pub mod repeat_tiled {
    use super::{DType, Layout, copy_layout, positive, typed};
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};

    super::super::support::register!();

    /// Extents.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RepeatTiledParams {
        /// Rows.
        pub seq: u32,
        /// Heads of the source.
        pub hg: u32,
        /// Heads of the result: a multiple.
        pub h: u32,
        /// Elements of a head.
        pub k: u32,
    }

    /// Encodes `[seq, hg, k]` as `[seq, h, k]`: head `i` is head `i % hg` of the source.
    pub fn dispatch_repeat_tiled_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        src: &MlxBuffer,
        dst: &MlxBuffer,
        params: &RepeatTiledParams,
    ) -> Result<()> {
        let [seq, from, to, k] = [params.seq, params.hg, params.h, params.k].map(|extent| extent as usize);
        positive("repeat_tiled_f32", &[("seq", seq), ("hg", from), ("h", to), ("k", k)])?;
        if !to.is_multiple_of(from) {
            refuse!("repeat_tiled_f32: h = {to} must be a multiple of hg = {from}");
        }
        typed("repeat_tiled_f32", "src", src, DType::F32)?;
        typed("repeat_tiled_f32", "dst", dst, DType::F32)?;
        let layout = Layout::new(0, &[from * k, 0, k, 1]);
        let shape = [seq, to / from, from, k];
        copy_layout(encoder, "repeat_tiled_f32", [src, dst], &shape, layout)
    }
}
