use super::*;

fn infer(a: (DType, &[usize]), b: (DType, &[usize])) -> Result<Outputs> {
    let info = |(dtype, axes): (DType, &[usize])| TensorInfo::new(dtype, Shape::new(axes).unwrap());
    Matmul::default().infer(&[info(a), info(b)])
}

#[test]
fn outputs_follow_the_rows_of_a() {
    use DType::{BF16, F16, F32};
    for (a, b, y) in [
        (&[5, 64][..], &[17, 64][..], &[5, 17][..]),
        (&[64], &[17, 64], &[17]),
        (&[2, 3, 64], &[17, 64], &[2, 3, 17]),
        (&[2, 6, 3, 64], &[2, 2, 17, 64], &[2, 6, 3, 17]),
        (&[6, 3, 64], &[1, 17, 64], &[6, 3, 17]),
    ] {
        for dtype in [F32, F16, BF16] {
            let outputs = infer((F32, a), (dtype, b)).unwrap();
            assert_eq!(outputs.to_vec(), [TensorInfo::new(F32, Shape::new(y).unwrap())]);
        }
    }
}

#[test]
fn refusals_name_the_argument() {
    use DType::{F16, F32, I8};
    let q4_0 = DType::Block(silicide_quant::Format::Q4_0);
    let slot = |a, b| match infer(a, b) {
        Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot,
        other => panic!("{other:?}"),
    };
    assert_eq!(slot((F16, &[5, 64]), (F16, &[17, 64])), "a");
    assert_eq!(slot((F32, &[5, 64]), (I8, &[17, 64])), "b");
    assert_eq!(slot((F32, &[5, 64]), (F32, &[64])), "b");
    assert_eq!(slot((F32, &[5, 48]), (q4_0, &[17, 48])), "b");
    assert_eq!(slot((F32, &[5, 64]), (F32, &[17, 32])), "a");
    assert_eq!(slot((F32, &[]), (F32, &[17, 32])), "a");
    assert_eq!(slot((F32, &[0, 64]), (F32, &[17, 64])), "a");
    assert_eq!(slot((F32, &[5, 64]), (F32, &[0, 64])), "b");
    assert_eq!(slot((F32, &[5, 0]), (F32, &[17, 0])), "b");
    // Grouped heads: a whole number of them, under equal leading axes, on as many axes.
    assert_eq!(slot((F32, &[5, 3, 64]), (F32, &[2, 17, 64])), "a");
    assert_eq!(slot((F32, &[3, 4, 3, 64]), (F32, &[2, 2, 17, 64])), "a");
    assert_eq!(slot((F32, &[4, 64]), (F32, &[2, 17, 64])), "a");
    assert_eq!(slot((F32, &[2, 2, 3, 64]), (F32, &[2, 17, 64])), "a");
    assert!(matches!(Matmul::default().infer(&[]), Err(Error::ArgumentCount { got: 0, .. })));
}

#[test]
fn work_counts_every_byte_once_and_two_operations_a_product() {
    let inputs = [
        TensorInfo::new(DType::F32, Shape::new(&[2, 6, 3, 64]).unwrap()),
        TensorInfo::new(DType::F16, Shape::new(&[2, 2, 17, 64]).unwrap()),
    ];
    let outputs = Matmul::default().infer(&inputs).unwrap();
    let work = Matmul::default().work(&Io { inputs: &inputs, outputs: &outputs });
    assert_eq!(work.bytes, 4 * 2 * 6 * 3 * 64 + 2 * 2 * 2 * 17 * 64 + 4 * 2 * 6 * 3 * 17);
    assert_eq!(work.flops, 2 * 2 * 6 * 3 * 17 * 64);
}

#[test]
fn the_reference_groups_heads() {
    let host = |axes: &[usize], values: &[f64]| Host {
        dtype: DType::F32,
        shape: Shape::new(axes).unwrap(),
        values: values.to_vec(),
    };
    // Four heads of one row, two heads of two columns.
    let a = host(&[4, 1, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let b = host(&[2, 2, 2], &[1.0, 0.0, 0.0, 1.0, 10.0, 0.0, 0.0, 100.0]);
    let mut y = [host(&[4, 1, 2], &[f64::NAN; 8])];
    Matmul::default().reference(&[a, b], &mut y);
    assert_eq!(y[0].values, [1.0, 2.0, 3.0, 4.0, 50.0, 600.0, 70.0, 800.0]);
}
