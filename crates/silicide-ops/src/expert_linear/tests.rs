use super::*;
use crate::interleave::TOGETHER;
use silicide_quant::{Format, MlxFormat, MlxMode, RowEncoding};

fn info(dtype: DType, axes: &[usize]) -> TensorInfo {
    TensorInfo::new(dtype, Shape::new(axes).unwrap())
}

fn op(encoding: impl Into<Encoding>) -> ExpertLinear {
    ExpertLinear::new(encoding.into())
}

fn slot(op: ExpertLinear, inputs: &[TensorInfo]) -> &'static str {
    match op.infer(inputs) {
        Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot,
        other => panic!("{other:?}"),
    }
}

#[test]
fn outputs_follow_the_ids() {
    for (x, ids, y) in [
        (&[5, 64][..], &[5, 2][..], &[5, 2, 17][..]),
        (&[5, 2, 64], &[5, 2], &[5, 2, 17]),
        (&[64], &[2], &[2, 17]),
        (&[2, 64], &[2], &[2, 17]),
        (&[3, 5, 64], &[3, 5, 2], &[3, 5, 2, 17]),
    ] {
        let inputs = [info(DType::F32, x), info(DType::F32, &[4, 17, 64]), info(DType::U32, ids)];
        assert_eq!(op(DType::F32).infer(&inputs).unwrap().to_vec(), [info(DType::F32, y)]);
    }
}

#[test]
fn refusals_name_the_argument() {
    let slot = |x: (DType, &[usize]), weight: (DType, &[usize]), ids: (DType, &[usize])| {
        slot(op(weight.0), &[x, weight, ids].map(|(dtype, axes)| info(dtype, axes)))
    };
    use DType::{F16, F32, I8, U32};
    let q4_0 = DType::Block(Format::Q4_0);
    assert_eq!(slot((F16, &[5, 64]), (F32, &[4, 17, 64]), (U32, &[5, 2])), "x");
    assert_eq!(slot((F32, &[5, 64]), (I8, &[4, 17, 64]), (U32, &[5, 2])), "weight");
    assert_eq!(slot((F32, &[5, 64]), (F32, &[17, 64]), (U32, &[5, 2])), "weight");
    assert_eq!(slot((F32, &[5, 48]), (q4_0, &[4, 17, 48]), (U32, &[5, 2])), "weight");
    assert_eq!(slot((F32, &[5, 64]), (F32, &[4, 17, 64]), (F32, &[5, 2])), "ids");
    assert_eq!(slot((F32, &[5, 64]), (F32, &[4, 17, 64]), (U32, &[])), "ids");
    assert_eq!(slot((F32, &[5, 32]), (F32, &[4, 17, 64]), (U32, &[5, 2])), "x");
    assert_eq!(slot((F32, &[5, 3, 64]), (F32, &[4, 17, 64]), (U32, &[5, 2])), "x");
    assert_eq!(slot((F32, &[0, 64]), (F32, &[4, 17, 64]), (U32, &[0, 2])), "x");
}

#[test]
fn experts_that_lie_apart_must_fit_the_weight_rows() {
    let padded = |experts, n, pitch| op(DType::F32).with_padded(PaddedExperts { experts, n, pitch });
    let given =
        |rows: usize| [info(DType::F32, &[5, 64]), info(DType::F32, &[rows, 64]), info(DType::U32, &[5, 2])];
    // The last expert has no padding after it.
    let outputs = padded(4, 17, 20).infer(&given(77)).unwrap();
    assert_eq!(outputs.to_vec(), [info(DType::F32, &[5, 2, 17])]);
    for wrong in
        [padded(4, 17, 21), padded(4, 18, 20), padded(4, 17, 16), padded(0, 17, 20), padded(4, 0, 20)]
    {
        assert_eq!(slot(wrong, &given(77)), "weight");
    }
    let most = padded(u32::MAX, u32::MAX, u32::MAX);
    assert_eq!(slot(most, &given(77)), "weight");
    let stacked = [given(77)[0], info(DType::F32, &[4, 17, 64]), given(77)[2]];
    assert_eq!(slot(padded(4, 17, 17), &stacked), "weight");
    let encoding = Encoding::Interleaved { of: RowEncoding::Element(DType::F32), rows: TOGETHER };
    let padded = op(encoding).with_padded(PaddedExperts { experts: 2, n: 16, pitch: 32 });
    let interleaved = [given(1)[0], info(DType::U8, &[48, 256]), given(1)[2]];
    assert_eq!(slot(padded, &interleaved), "weight");
}

#[test]
fn outputs_are_bf16_where_the_op_says_so() {
    let inputs = [info(DType::BF16, &[5, 64]), info(DType::F32, &[4, 17, 64]), info(DType::U32, &[5, 2])];
    let outputs = op(DType::F32).with_bf16(true).infer(&inputs).unwrap();
    assert_eq!(outputs.to_vec(), [info(DType::BF16, &[5, 2, 17])]);
}

#[test]
fn refusals_name_the_plane() {
    let format = MlxFormat::new(MlxMode::Affine, 4, 64, DType::F16).unwrap();
    let (x, ids) = (info(DType::F32, &[5, 128]), info(DType::U32, &[5, 2]));
    let (packed, scales) = (info(DType::U32, &[4, 17, 16]), info(DType::F16, &[4, 17, 2]));
    let op = op(Encoding::Planes(format));
    assert!(op.infer(&[x, packed, scales, scales, ids]).is_ok());
    assert!(matches!(op.infer(&[x, packed, scales, ids]), Err(Error::ArgumentCount { .. })));
    for wrong in [info(DType::F16, &[4, 17, 3]), info(DType::F32, &[4, 17, 2])] {
        assert_eq!(slot(op, &[x, packed, wrong, scales, ids]), "scales");
        assert_eq!(slot(op, &[x, packed, scales, wrong, ids]), "biases");
    }
    for wrong in [info(DType::I32, &[4, 17, 16]), info(DType::U32, &[4, 17, 15])] {
        assert_eq!(slot(op, &[x, wrong, scales, scales, ids]), "packed");
    }
    let flat = info(DType::F16, &[17, 2]);
    assert_eq!(slot(op, &[x, info(DType::U32, &[17, 16]), flat, flat, ids]), "packed");
}

#[test]
fn interleaved_sets_of_sixteen_rows_are_taken() {
    let (x, ids) = (info(DType::F32, &[5, 64]), info(DType::U32, &[5, 2]));
    let encoding = |format, rows| Encoding::Interleaved { of: RowEncoding::Block(format), rows };
    let infer = |encoding, axes: &[usize]| op(encoding).infer(&[x, info(DType::U8, axes), ids]);
    assert!(infer(encoding(Format::Q4_0, TOGETHER), &[4, 32, 36]).is_ok());
    for axes in [&[4, 31, 36][..], &[4, 32, 35]] {
        let refused = infer(encoding(Format::Q4_0, TOGETHER), axes);
        assert!(matches!(refused, Err(Error::Shape { slot: "weight", .. })), "{axes:?}");
    }
    let eight = infer(encoding(Format::Q4_0, 8), &[4, 32, 36]);
    assert!(matches!(eight, Err(Error::BadParameter { .. })));
    let elements = |dtype| Encoding::Interleaved { of: RowEncoding::Element(dtype), rows: TOGETHER };
    assert!(infer(elements(DType::F32), &[4, 32, 256]).is_ok());
    assert!(matches!(infer(elements(DType::I8), &[4, 32, 64]), Err(Error::BadParameter { .. })));
}

#[test]
fn work_reads_no_more_experts_than_there_are_pairs() {
    let inputs = [info(DType::F32, &[1, 64]), info(DType::F32, &[32, 17, 64]), info(DType::U32, &[1, 4])];
    let outputs = op(DType::F32).infer(&inputs).unwrap();
    let work = op(DType::F32).work(&Io { inputs: &inputs, outputs: &outputs });
    assert_eq!(work.bytes, 4 * (64 + 4 * 17 * 64 + 4 + 4 * 17));
    assert_eq!(work.flops, 2 * 4 * 17 * 64);
}
