use super::*;
use silicide_quant::{Format, MlxFormat, MlxMode, RowEncoding, Shape};

fn info(dtype: DType, axes: &[usize]) -> TensorInfo {
    TensorInfo::new(dtype, Shape::new(axes).unwrap())
}

fn op(count: usize, bias: bool, gate: Option<Activation>) -> Linear {
    let product = Product { encoding: Encoding::Element(DType::F16), bias };
    Linear { products: smallvec![product; count], gate, ..Linear::default() }
}

#[test]
fn refusals_name_the_argument() {
    let (a, b, bias) = (info(DType::F32, &[2, 64]), info(DType::F16, &[9, 64]), info(DType::F32, &[9]));
    let slot = |op: Linear, inputs: &[TensorInfo]| match Op::infer(&op, inputs) {
        Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot,
        Err(Error::ArgumentCount { what, .. }) => what,
        Err(Error::BadParameter { .. }) => "products",
        other => panic!("{other:?}"),
    };
    assert_eq!(slot(op(1, true, None), &[a, b]), "inputs");
    assert_eq!(slot(op(1, true, None), &[a, b, info(DType::F32, &[8])]), "bias");
    assert_eq!(slot(op(1, true, None), &[a, b, info(DType::F16, &[9])]), "bias");
    assert_eq!(slot(op(1, false, None), &[a, info(DType::F16, &[1, 9, 64])]), "weight");
    assert_eq!(slot(op(2, false, None), &[a, b, info(DType::F16, &[9, 32])]), "x");
    assert_eq!(slot(op(2, false, Some(Activation::Silu)), &[a, b, info(DType::F16, &[8, 64])]), "up");
    assert_eq!(slot(op(3, false, Some(Activation::Silu)), &[a, b, b, b]), "products");
    assert_eq!(slot(op(4, false, None), &[a, b, b, b, b]), "products");
    assert_eq!(slot(op(1, false, None), &[info(DType::F32, &[0, 64]), b]), "x");
    assert_eq!(slot(op(1, false, None), &[a, info(DType::F16, &[0, 64])]), "weight");
    assert_eq!(slot(op(1, false, None), &[info(DType::F32, &[2, 0]), info(DType::F16, &[9, 0])]), "weight");
    assert_eq!(slot(op(1, false, None), &[info(DType::F16, &[2, 64]), b]), "x");
    assert_eq!(slot(op(1, false, None), &[a, info(DType::BF16, &[9, 64])]), "weight");
    let rounded = Linear { bf16: true, quantized: true, ..op(2, false, Some(Activation::Silu)) };
    assert_eq!(slot(rounded, &[a, b, b]), "products");
    let outputs = Op::infer(&op(2, true, None), &[a, b, b, bias, bias]).unwrap();
    assert_eq!(outputs.to_vec(), [info(DType::F32, &[2, 9]); 2]);
    let rounded = Linear { bf16: true, ..op(1, false, None) };
    let outputs = Op::infer(&rounded, &[info(DType::BF16, &[2, 64]), b]).unwrap();
    assert_eq!(outputs.to_vec(), [info(DType::BF16, &[2, 9])]);
}

#[test]
fn refusals_name_the_plane() {
    let x = info(DType::F32, &[2, 64]);
    let slot = |encoding: Encoding, planes: &[TensorInfo]| match Op::infer(
        &Linear::from(encoding),
        &[&[x], planes].concat(),
    ) {
        Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot,
        Err(Error::BadParameter { .. }) => "encoding",
        other => panic!("{other:?}"),
    };
    let affine = Encoding::Planes(MlxFormat::new(MlxMode::Affine, 4, 64, DType::F16).unwrap());
    let (packed, scales) = (info(DType::U32, &[9, 8]), info(DType::F16, &[9, 1]));
    assert_eq!(slot(affine, &[info(DType::I32, &[9, 8]), scales, scales]), "packed");
    assert_eq!(slot(affine, &[packed, info(DType::F16, &[9, 2]), scales]), "scales");
    assert_eq!(slot(affine, &[packed, scales, info(DType::F32, &[9, 1])]), "biases");
    assert_eq!(slot(Encoding::Element(DType::I8), &[info(DType::I8, &[9, 64])]), "weight");
    let interleaved = |format, rows| Encoding::Interleaved { of: RowEncoding::Block(format), rows };
    let bytes = info(DType::U8, &[24, 68]);
    assert_eq!(slot(interleaved(Format::Q8_0, 16), &[bytes]), "weight");
    assert_eq!(slot(interleaved(Format::Q8_0, 8), &[bytes]), "encoding");
}

#[test]
fn slots_are_as_many_as_arguments() {
    for (count, bias) in [(1, false), (3, true), (2, true)] {
        let slots = Op::slots(&op(count, bias, None));
        assert_eq!(slots.len(), 1 + count * (2 + usize::from(bias)));
        assert_eq!(slots.iter().filter(|slot| slot.access.writes()).count(), count);
    }
    assert_eq!(Op::slots(&op(2, false, Some(Activation::Silu))).len(), 4);
}
