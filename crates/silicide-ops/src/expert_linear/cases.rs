//! Calls of `expert_linear`: shared and own activations, one row and many, every encoding, experts that get all rows and experts
//! that get none, ids that no expert has.

use super::{ExpertLinear, PaddedExperts};
use crate::glu::Activation;
use crate::group_by_expert::group;
use crate::interleave::{TOGETHER, interleaves};
use crate::mlx::cases::some;
use crate::product::integer;
use crate::quantize_q8::cases::quantized_input;
use crate::weight::cases::planes;
use crate::{Case, Data, Input};
use silicide_quant::DType::{self, BF16, F16, F32, I32, U32};
use silicide_quant::{Encoding, Format, MlxMode, RowEncoding, Shape};

/// A call, of the extents rows, experts of a row, experts, outputs and depth.
struct ExpertCall {
    encoding: Encoding,
    extents: [usize; 5],
    exact: bool,
    /// Whether every pair has activations of its own.
    own: bool,
    /// The ids, or any.
    ids: Option<Input>,
    /// Whether activations are quantized rows.
    quantized: bool,
    /// Weight rows between experts.
    padding: usize,
    /// The types of activations, unless they are quantized, and of outputs.
    types: [DType; 2],
    gate: Option<Activation>,
}

impl ExpertCall {
    /// The call with quantized rows, if its products are in integers.
    fn quantized(&self) -> Option<ExpertCall> {
        let [.., n, k] = self.extents;
        let takes = !self.exact && integer::takes(self.encoding, [n, k]);
        takes.then(|| ExpertCall { quantized: true, ids: self.ids.clone(), ..*self })
    }
}

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut calls = elements();
    calls.extend(blocks());
    calls.extend(interleaved());
    calls.extend(in_planes());
    calls.extend(bad_ids());
    calls.extend(padded());
    calls.extend(gated());
    let quantized: Vec<ExpertCall> = calls.iter().filter_map(ExpertCall::quantized).collect();
    calls.extend(bf16());
    calls.into_iter().chain(quantized).map(case).collect()
}

/// A call with activations shared by the experts of a row, and any ids.
fn call(encoding: impl Into<Encoding>, extents: [usize; 5]) -> ExpertCall {
    let (encoding, types) = (encoding.into(), [F32; 2]);
    let (own, ids, quantized, padding, gate) = (false, None, false, 0, None);
    ExpertCall { encoding, extents, exact: false, own, ids, quantized, padding, types, gate }
}

/// Two products that are gated: every kind of encoding, few pairs and many, ids without an expert, padding. Where weights are any bits
/// (planes, interleaved), gates are so large that every activation is a step: there the cases check indices, not activations.
fn gated() -> Vec<ExpertCall> {
    let mut calls = Vec::new();
    let mut encodings = [F32, F16, BF16].map(Encoding::from).to_vec();
    encodings.extend([Format::Q4_0, Format::Q8_0, Format::Q6K, Format::Iq4Nl].map(Encoding::Block));
    encodings.extend(some().into_iter().take(2).map(Encoding::Planes));
    for of in [RowEncoding::Block(Format::Q4_0), RowEncoding::Element(F16)] {
        encodings.push(Encoding::Interleaved { of, rows: TOGETHER });
    }
    for encoding in encodings {
        let k = 512usize.next_multiple_of(encoding.group_len());
        let n = |n: usize| n.next_multiple_of(encoding.interleaved_rows());
        let silu = Some(Activation::Silu);
        for (extents, own, gate) in
            [([1, 3, 5, n(37), k], false, silu), ([30, 2, 3, n(300), k], true, Some(Activation::GeluTanh))]
        {
            calls.push(ExpertCall { own, gate, ..call(encoding, extents) });
        }
        if plain(encoding, &[1, 1, k]).is_some() {
            for gate in [Activation::Sigmoid, Activation::GeluErf].map(Some) {
                calls.push(ExpertCall { gate, ..call(encoding, [5, 2, 3, n(50), k]) });
            }
        }
        let ids = Input::of(I32, &[4, 2], Data::Values(vec![0.0, -1.0, 3.0, 2.0, 4.0, 1.0, 1.0, 1.0]));
        let padding = if encoding.interleaved_rows() == 1 { 3 } else { 0 };
        let call = call(encoding, [4, 2, 4, n(40), k]);
        calls.push(ExpertCall { padding, gate: silu, exact: true, ids: Some(ids), ..call });
    }
    let types = [BF16, BF16];
    calls.push(ExpertCall {
        types,
        gate: Some(Activation::Silu),
        ..call(DType::from(Format::Q8_0), [5, 2, 4, 50, 96])
    });
    calls
}

/// Experts that lie apart: few pairs and many, ids without an expert.
fn padded() -> Vec<ExpertCall> {
    let mut calls = Vec::new();
    let mut encodings = [F32, F16, BF16].map(Encoding::from).to_vec();
    encodings
        .extend([Format::Q4_0, Format::Q8_0, Format::Q4K, Format::Q6K, Format::Iq4Nl].map(Encoding::Block));
    encodings.extend(some().into_iter().take(3).map(Encoding::Planes));
    for encoding in encodings {
        let k = 512usize.next_multiple_of(encoding.group_len());
        for (extents, padding, own) in
            [([1, 3, 5, 37, k], 3, false), ([30, 2, 3, 50, k], 64, true), ([70, 2, 4, 33, k], 1, false)]
        {
            calls.push(ExpertCall { padding, own, ..call(encoding, extents) });
        }
        let ids = Input::of(I32, &[4, 2], Data::Values(vec![0.0, -1.0, 3.0, 2.0, 4.0, 1.0, 1.0, 1.0]));
        calls.push(ExpertCall {
            padding: 7,
            exact: true,
            ids: Some(ids),
            ..call(encoding, [4, 2, 4, 40, k])
        });
    }
    calls
}

/// Rows of bf16, and outputs of bf16.
fn bf16() -> Vec<ExpertCall> {
    let mut calls = Vec::new();
    for dtype in [F32, F16, BF16, Format::Q4_0.into(), Format::Q8_0.into(), Format::Iq4Nl.into()] {
        for types in [[BF16, F32], [BF16, BF16], [F32, BF16]] {
            for (extents, own, padding) in
                [([1, 2, 8, 33, 64], true, 0), ([5, 2, 4, 50, 96], false, 2), ([150, 1, 2, 49, 64], true, 0)]
            {
                calls.push(ExpertCall { types, own, padding, ..call(dtype, extents) });
            }
            calls.push(ExpertCall { types, exact: true, ..call(dtype, [5, 2, 4, 40, 64]) });
        }
    }
    calls
}

fn elements() -> Vec<ExpertCall> {
    let mut calls = Vec::new();
    for dtype in [F32, F16, BF16] {
        for (extents, own) in [
            ([1, 1, 1, 1, 1], false),
            ([1, 4, 8, 70, 96], false),
            ([1, 2, 8, 33, 31], true),
            ([5, 2, 4, 50, 100], false),
            ([3, 3, 7, 17, 64], true),
            // Strips of more rows than are packed for, and one that is cut.
            ([40, 2, 3, 67, 80], false),
            ([150, 1, 2, 49, 33], true),
        ] {
            calls.push(ExpertCall { own, ..call(dtype, extents) });
        }
    }
    // More than one panel deep.
    calls.push(call(F32, [20, 2, 2, 50, 1100]));
    calls
}

fn blocks() -> Vec<ExpertCall> {
    let mut calls = Vec::new();
    for format in Format::ALL.map(Encoding::Block) {
        let len = format.group_len();
        let k = if len >= 128 { 1280 } else { 320 / len * len };
        calls.push(call(format, [1, 3, 5, 37, k]));
        calls.push(call(format, [30, 2, 3, 50, k]));
    }
    for format in [Format::Q4_0, Format::Q8_0, Format::Q4K, Format::Q6K] {
        let (k, format) = (2 * format.block_len().max(160), Encoding::Block(format));
        calls.push(ExpertCall { exact: true, own: true, ..call(format, [4, 2, 3, 5, k]) });
        for (extents, own) in [
            ([1, 8, 16, 130, k], true),
            ([7, 4, 32, 16, k], false),
            ([70, 2, 4, 140, k], true),
            ([140, 1, 1, 33, k], false),
        ] {
            calls.push(ExpertCall { own, ..call(format, extents) });
        }
    }
    // All rows to one expert, and nothing but ids without an expert.
    for id in [1.0, 9.0] {
        let ids = Some(Input::of(U32, &[300, 1], Data::Values(vec![id])));
        calls.push(ExpertCall { ids, ..call(DType::Block(Format::Q8_0), [300, 1, 3, 20, 64]) });
    }
    calls
}

fn interleaved() -> Vec<ExpertCall> {
    let mut calls = Vec::new();
    for format in [Format::Q4_0, Format::Q8_0, Format::Q4K, Format::Q6K, Format::Mxfp4] {
        let encoding = Encoding::Interleaved { of: RowEncoding::Block(format), rows: TOGETHER };
        let k = 2 * format.block_len().max(160);
        for (extents, own) in [
            ([1, 3, 5, 48, k], false),
            ([1, 8, 16, 144, k], true),
            ([7, 4, 32, 16, k], false),
            ([70, 2, 4, 160, k], true),
        ] {
            calls.push(ExpertCall { own, ..call(encoding, extents) });
        }
        for (extents, own) in [([1, 3, 5, 64, k], true), ([30, 2, 3, 32, k], false)] {
            calls.push(ExpertCall { exact: true, own, ..call(encoding, extents) });
        }
        let ids = Input::of(I32, &[4, 2], Data::Values(vec![0.0, -1.0, 3.0, 2.0, 4.0, 1.0, 1.0, 1.0]));
        calls.push(ExpertCall { ids: Some(ids), ..call(encoding, [4, 2, 4, 32, k]) });
    }
    for of in
        some().into_iter().map(RowEncoding::Planes).filter(|of| interleaves(*of, TOGETHER, of.group_len()))
    {
        let (encoding, k) = (Encoding::Interleaved { of, rows: TOGETHER }, 5 * of.group_len());
        calls.push(call(encoding, [1, 3, 5, 48, k]));
        calls.push(ExpertCall { own: true, ..call(encoding, [1, 8, 16, 144, 2 * k]) });
        calls.push(ExpertCall { own: true, ..call(encoding, [70, 2, 4, 160, k]) });
        calls.push(ExpertCall { exact: true, ..call(encoding, [5, 2, 4, 32, k]) });
    }
    for dtype in [F32, F16, BF16] {
        let encoding = Encoding::Interleaved { of: RowEncoding::Element(dtype), rows: TOGETHER };
        for (extents, own) in [
            ([1, 3, 5, 64, 45], true),
            ([1, 1, 1, 16, 1], false),
            // More outputs than a tile has, whose last tile has one set.
            ([30, 2, 3, 112, 33], false),
            // Strips of more rows than are packed for, and one that is cut.
            ([40, 2, 3, 80, 80], false),
            ([150, 1, 2, 48, 33], true),
            // Rows after the last whole set of an expert: beside sets in a tile, and alone in one.
            ([1, 4, 8, 70, 96], false),
            ([3, 3, 7, 17, 64], true),
            ([30, 2, 3, 49, 40], false),
        ] {
            calls.push(ExpertCall { own, ..call(encoding, extents) });
        }
        calls.push(ExpertCall { exact: true, own: true, ..call(encoding, [4, 2, 3, 32, 50]) });
    }
    // More than one panel deep.
    let encoding = Encoding::Interleaved { of: RowEncoding::Element(F16), rows: TOGETHER };
    calls.push(call(encoding, [20, 2, 2, 48, 1100]));
    calls
}

fn in_planes() -> Vec<ExpertCall> {
    let mut calls = Vec::new();
    for format in some() {
        let (group, encoding) = (format.group(), Encoding::Planes(format));
        calls.push(call(encoding, [1, 3, 5, 37, 5 * group]));
        calls.push(ExpertCall { own: true, ..call(encoding, [30, 2, 3, 50, 2 * group]) });
        calls.push(ExpertCall { exact: true, ..call(encoding, [5, 2, 4, 20, 3 * group]) });
    }
    for format in some().into_iter().filter(|format| format.bits() == 4) {
        let (k, encoding) = (10 * format.group().max(32), Encoding::Planes(format));
        calls.push(ExpertCall { own: true, ..call(encoding, [1, 8, 16, 130, k]) });
        calls.push(call(encoding, [70, 2, 4, 140, k]));
        calls.push(ExpertCall { exact: true, ..call(encoding, [140, 1, 1, 33, k]) });
    }
    calls
}

fn bad_ids() -> Vec<ExpertCall> {
    let mut calls = Vec::new();
    let outside = |rows: usize| {
        let ids = vec![0.0, -1.0, 3.0, 2.0, 4.0, -2_147_483_648.0, 2_147_483_647.0, 1.0];
        Some(Input::of(I32, &[rows, 2], Data::Values(ids)))
    };
    let mut encodings = [F32, BF16, Format::Q4_0.into(), Format::Q6K.into()].map(Encoding::from).to_vec();
    let first = |mode| some().into_iter().find(|format| format.mode() == mode).map(Encoding::Planes);
    encodings.extend([MlxMode::Affine, MlxMode::Mxfp4].into_iter().filter_map(first));
    for of in [F32, F16, BF16].map(RowEncoding::Element) {
        encodings.push(Encoding::Interleaved { of, rows: TOGETHER });
    }
    for encoding in encodings {
        let n = 40usize.next_multiple_of(encoding.interleaved_rows());
        for rows in [1, 4, 40] {
            calls.push(ExpertCall {
                own: rows > 1,
                ids: outside(rows),
                ..call(encoding, [rows, 2, 4, n, 256])
            });
        }
    }
    let large = Input::of(U32, &[3, 1], Data::Values(vec![4_294_967_295.0, 1.0, 2_147_483_648.0]));
    calls.push(ExpertCall { ids: Some(large), ..call(F32, [3, 1, 2, 9, 16]) });
    calls
}

/// A weight of one size, as those of models are, where the encoding has one plane. Gates of such weights are small, so that the form of the
/// activation shows.
fn plain(encoding: Encoding, axes: &[usize]) -> Option<Input> {
    let dtype = match encoding {
        Encoding::Element(dtype) => dtype,
        Encoding::Block(format) => DType::Block(format),
        _ => return None,
    };
    Some(Input::of(dtype, axes, Data::Gaussian { scale: 0.3 }))
}

fn case(call: ExpertCall) -> Case {
    let ExpertCall { encoding, extents: [rows, used, experts, n, k], exact, own, ids, quantized, .. } = call;
    let ExpertCall { padding, types: [of_x, of_y], gate, .. } = call;
    let which = match &ids {
        Some(Input { data: Data::Values(ids), .. }) => format!("ids {ids:?}"),
        _ => "any ids".to_owned(),
    };
    let mut how = String::new();
    for (is, what) in [
        (quantized, ", quantized".to_owned()),
        (padding > 0, format!(", {padding} rows apart")),
        (of_x != F32 || of_y != F32, format!(", x {of_x}, y {of_y}")),
        (gate.is_some(), format!(", {gate:?}")),
    ] {
        how.push_str(if is { &what } else { "" });
    }
    let label = format!(
        "{rows} to {used} of {experts} {encoding} [{n}, {k}], own {own}, exact {exact}, {which}{how}"
    );
    let x = if own { vec![rows, used, k] } else { vec![rows, k] };
    let ids = ids.unwrap_or_else(|| Input::of(U32, &[rows, used], Data::Indices { below: experts }));
    let mut all = vec![if quantized { quantized_input(&x) } else { Input::gaussian(of_x, &x) }];
    let pitch = n + padding;
    let padded = PaddedExperts { experts: experts as u32, n: n as u32, pitch: pitch as u32 };
    let padded = Some(padded).filter(|_| padding > 0);
    for _ in 0..if gate.is_some() { 2 } else { 1 } {
        let axes = padded.map_or(vec![experts, n, k], |_| vec![(experts - 1) * pitch + n, k]);
        all.extend(match (plain(encoding, &axes).filter(|_| gate.is_some()), padded) {
            (Some(weight), _) => vec![weight],
            (None, Some(_)) => planes(encoding, [(experts - 1) * pitch + n, k]),
            (None, None) => weight([experts, n, k], encoding),
        });
    }
    all.push(ids);
    let op = ExpertLinear { exact, padded, bf16: of_y == BF16, gate, ..ExpertLinear::new(encoding) };
    // Known ids have groups that are known here.
    if let Some(Input { data: Data::Values(ids), shape, .. }) = all.last()
        && quantized
    {
        let ids: Vec<f64> = ids.iter().copied().cycle().take(shape.elements()).collect();
        let groups = group(&ids, experts);
        all.push(Input::of(U32, &[groups.len()], Data::Values(groups)));
        return Case::new(label, ExpertLinear { grouped: true, ..op }, all);
    }
    Case::new(label, op, all)
}

/// The planes of a weight `[experts, n, k]`.
fn weight([experts, n, k]: [usize; 3], encoding: Encoding) -> Vec<Input> {
    let mut planes = planes(encoding, [experts * n, k]);
    for plane in &mut planes {
        plane.shape = Shape::new(&[experts, n, plane.shape.last()]).unwrap_or(Shape::SCALAR);
    }
    planes
}
