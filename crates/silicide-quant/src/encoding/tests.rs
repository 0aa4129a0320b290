use super::*;
use crate::MlxMode;

fn shape(axes: &[usize]) -> Shape {
    Shape::new(axes).unwrap()
}

fn all() -> Vec<Encoding> {
    let plain = [DType::F32, DType::F16, DType::BF16].map(RowEncoding::Element);
    let blocks = Format::ALL.map(RowEncoding::Block);
    let planes = MlxFormat::all().into_iter().map(RowEncoding::Planes);
    let rows: Vec<RowEncoding> = plain.into_iter().chain(blocks).chain(planes).collect();
    let interleaved = rows
        .iter()
        .flat_map(|&of| [8, 16].map(|rows| Encoding::Interleaved { of, rows }))
        .collect::<Vec<_>>();
    rows.into_iter().map(Encoding::from).chain(interleaved).collect()
}

#[test]
fn planes_give_back_the_shape() {
    for encoding in all() {
        for axes in [&[16, 256][..], &[3, 32, 768]] {
            let shape = shape(axes);
            let planes: Vec<Plane> =
                (0..encoding.planes()).map(|i| encoding.plane(i, &shape).unwrap()).collect();
            assert_eq!(encoding.shape(&planes), Ok(shape), "{encoding}");
            let bytes: usize = planes.iter().map(|plane| plane.shape.bytes(plane.dtype).unwrap()).sum();
            assert_eq!(encoding.bytes(&shape), Ok(bytes), "{encoding}");
            assert_eq!(encoding.of().plane_names().len(), planes.len());
            let plain = Encoding::from(encoding.of());
            assert_eq!(plain.bytes(&shape), Ok(bytes), "interleaving keeps the size: {encoding}");
        }
    }
}

#[test]
fn errors_name_the_plane() {
    let affine = Encoding::Planes(MlxFormat::new(MlxMode::Affine, 4, 64, DType::F16).unwrap());
    let planes: Vec<Plane> = (0..3).map(|i| affine.plane(i, &shape(&[4, 128])).unwrap()).collect();
    assert!(matches!(affine.shape(&planes[..2]), Err(EncodingError::Count { expected: 3, got: 2, .. })));
    for (index, name) in affine.plane_names().iter().enumerate() {
        let mut wrong = planes.clone();
        wrong[index].dtype = DType::I8;
        assert!(matches!(affine.shape(&wrong), Err(EncodingError::Type { plane, .. }) if plane == *name));
    }
    for (index, name) in affine.plane_names().iter().enumerate().skip(1) {
        let mut wrong = planes.clone();
        wrong[index].shape = shape(&[4, 3]);
        assert!(matches!(affine.shape(&wrong), Err(EncodingError::Shape { plane, .. }) if plane == *name));
    }
}

#[test]
fn weights_have_no_parts_of_groups_and_no_empty_axes() {
    let q4_0 = Encoding::Block(Format::Q4_0);
    let interleaved = Encoding::Interleaved { of: RowEncoding::Block(Format::Q4_0), rows: 16 };
    for (encoding, axes) in [
        (q4_0, &[4, 48][..]),
        (q4_0, &[0, 64]),
        (q4_0, &[4, 0]),
        (q4_0, &[]),
        (interleaved, &[24, 64]),
        (interleaved, &[64]),
    ] {
        let refused = encoding.check(&shape(axes));
        assert!(matches!(refused, Err(EncodingError::Shape { plane: "weight", .. })), "{encoding} {axes:?}");
    }
    assert!(q4_0.check(&shape(&[64])).is_ok());
    assert!(interleaved.check(&shape(&[2, 32, 64])).is_ok());
    let elements = Encoding::Interleaved { of: RowEncoding::Element(DType::F16), rows: 16 };
    assert!(elements.check(&shape(&[2, 35, 7])).is_ok());
}
