//! Arguments that are refused, in every build, with the argument's name.

use super::*;
use silicide_gemm::GemmError;

fn argument(error: GemmError) -> &'static str {
    match error {
        GemmError::Length { argument, .. }
        | GemmError::Empty { argument, .. }
        | GemmError::Extent { argument, .. }
        | GemmError::Bounds { argument, .. }
        | GemmError::Multiple { argument, .. }
        | GemmError::Stride { argument, .. }
        | GemmError::Alignment { argument, .. }
        | GemmError::Overflow { argument }
        | GemmError::Format { argument, .. } => argument,
        error => panic!("{error} is new to this test"),
    }
}

#[test]
fn weights_with_wrong_extents_or_planes_are_refused() {
    let bytes = vec![0u8; 1 << 16];
    let blocks = |format, extents| Q8Weights::blocks(format, &bytes, extents).map(|_| ());
    assert_eq!(blocks(Format::Q4_0, [16, 64]), Ok(()));
    assert!(matches!(blocks(Format::Q4_0, [16, 0]), Err(GemmError::Empty { what: "depth", .. })));
    for n in [0, 15] {
        let refused = blocks(Format::Q4_0, [n, 64]);
        assert!(matches!(refused, Err(GemmError::Bounds { what: "rows", least: 16, .. })), "{n} rows");
    }
    assert!(matches!(blocks(Format::Q4_0, [16, 65]), Err(GemmError::Multiple { of: 32, .. })));
    assert!(matches!(blocks(Format::Q4K, [16, 128]), Err(GemmError::Multiple { of: 256, .. })));
    assert!(matches!(blocks(Format::Q4_0, [1 << 12, 1 << 12]), Err(GemmError::Length { .. })));
    assert!(matches!(blocks(Format::Q4_0, [1 << 40, 1 << 40]), Err(GemmError::Overflow { .. })));
    let interleaved = |format, extents| Q8Weights::interleaved(format, &bytes, extents).map(|_| ());
    assert_eq!(interleaved(Format::Q4_0, [32, 64]), Ok(()));
    assert!(matches!(interleaved(Format::Q4_0, [40, 64]), Err(GemmError::Multiple { what: "rows", .. })));
    assert!(matches!(interleaved(Format::Iq3Xxs, [32, 256]), Err(GemmError::Format { .. })));
    let affine = MlxFormat::new(MlxMode::Affine, 4, 64, DType::F16).unwrap();
    let (codes, scales) = (&bytes[..16 * 32], &bytes[..16 * 2]);
    let planes = MlxPlanes { packed: codes, scales, biases: scales };
    assert!(Q8Weights::affine(affine, planes, [16, 64]).is_ok());
    for (short, expected) in [
        (MlxPlanes { packed: &codes[1..], ..planes }, "packed codes"),
        (MlxPlanes { scales: &scales[1..], ..planes }, "scales"),
        (MlxPlanes { biases: &scales[1..], ..planes }, "biases"),
    ] {
        assert_eq!(Q8Weights::affine(affine, short, [16, 64]).map_err(argument).err(), Some(expected));
    }
    let interleaved =
        |format, planes, extents| Q8Weights::interleaved_affine(format, planes, extents).map(|_| ());
    let many = MlxPlanes { packed: &bytes[..], scales: &bytes, biases: &bytes };
    assert_eq!(interleaved(affine, planes, [16, 64]), Ok(()));
    assert!(matches!(interleaved(affine, many, [17, 64]), Err(GemmError::Multiple { what: "rows", .. })));
    let of_three_bits = MlxFormat::new(MlxMode::Affine, 3, 64, DType::F16).unwrap();
    assert!(matches!(interleaved(of_three_bits, many, [16, 64]), Err(GemmError::Format { .. })));
    let refused =
        interleave_plane(Portable::detect().unwrap(), of_three_bits, 0, &[0; 16 * 24], &mut [0; 16 * 24]);
    assert!(matches!(refused, Err(GemmError::Format { .. })));
    let other = MlxFormat::all().into_iter().find(|format| format.mode() != MlxMode::Affine).unwrap();
    let planes = MlxPlanes { packed: &bytes[..], scales: &bytes, biases: &bytes };
    assert!(matches!(Q8Weights::affine(other, planes, [16, 256]), Err(GemmError::Format { .. })));
}

#[test]
fn quantized_rows_that_are_short_or_unaligned_are_refused() {
    let mut memory = vec![0f32; 2 * quantized_row_bytes(2) / 4 + 1];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut memory);
    assert!(QuantizedRows::new(bytes, 2, 2).is_ok());
    assert!(matches!(QuantizedRows::new(bytes, 3, 2), Err(GemmError::Length { .. })));
    assert!(matches!(QuantizedRows::new(bytes, 0, 2), Err(GemmError::Empty { what: "rows", .. })));
    assert!(matches!(QuantizedRows::new(bytes, 2, 0), Err(GemmError::Empty { what: "groups", .. })));
    assert!(matches!(QuantizedRows::new(&bytes[1..], 2, 2), Err(GemmError::Alignment { .. })));
    assert!(matches!(QuantizedRows::new(bytes, usize::MAX / 2, 64), Err(GemmError::Overflow { .. })));
    let x = [0f32; 128];
    let mut to = QuantizedRowsMut::new(bytes, 2, 2).unwrap();
    let from = |rows, columns| Matrix::new("activations", &x, [rows, columns], columns).unwrap();
    assert_eq!(quantize(from(2, 64), &mut to), Ok(()));
    assert_eq!(quantize(from(1, 64), &mut to).map_err(argument), Err("quantized rows"));
    assert_eq!(quantize(from(2, 32), &mut to).map_err(argument), Err("quantized rows"));
    assert_eq!(quantize(from(2, 63), &mut to).map_err(argument), Err("activations"));
}

#[test]
fn products_whose_extents_differ_are_refused() {
    let (all, deeper) = (every_rhs(48, 64), every_rhs(48, 96));
    let (rhs, deeper) = (&all[0], &deeper[0]);
    assert!(rhs.interleaved && deeper.interleaved && deeper.k > rhs.k);
    let lhs = Lhs::new(&activations(2, rhs.k), 2);
    let refuse_weights = |rhs: &Rhs, change: &dyn Fn(&mut Q8Gemm<'_>), [rows, columns]: [usize; 2]| {
        let (blocking, outputs) = (Blocking::FEW_ROWS, 0..48);
        let mut gemm = Q8Gemm { lhs: lhs.view(2), rhs: rhs.view(), outputs, blocking };
        change(&mut gemm);
        let mut out = vec![SENTINEL; rows * columns];
        let view = MatrixMut::new("out", &mut out, [rows, columns], columns).unwrap();
        let done = gemm.compute(Portable::detect().unwrap(), view, &mut Q8Workspace::new());
        assert!(done.is_ok() || out.iter().all(|y| *y == SENTINEL), "wrote what it refused");
        done.map_err(argument)
    };
    let refuse = |change: &dyn Fn(&mut Q8Gemm<'_>), extents| refuse_weights(rhs, change, extents);
    assert_eq!(refuse(&|_| {}, [2, 48]), Ok(()));
    assert_eq!(refuse(&|_| {}, [3, 48]), Err("out"));
    assert_eq!(refuse(&|_| {}, [2, 47]), Err("out"));
    assert_eq!(refuse(&|gemm| gemm.outputs = 0..64, [2, 64]), Err("outputs"));
    assert_eq!(refuse(&|gemm| gemm.outputs = 8..48, [2, 40]), Err("outputs"));
    assert_eq!(refuse(&|gemm| gemm.outputs = 16..16, [2, 16]), Err("outputs"));
    assert_eq!(refuse(&|gemm| gemm.blocking.nc = 40, [2, 48]), Err("blocking"));
    assert_eq!(refuse(&|gemm| gemm.blocking.nc = 2 * MAX_NC, [2, 48]), Err("blocking"));
    assert_eq!(refuse(&|gemm| gemm.blocking.kc = 0, [2, 48]), Err("blocking"));
    assert_eq!(refuse(&|gemm| gemm.blocking.kc = MAX_KC + 1, [2, 48]), Err("blocking"));
    assert_eq!(refuse_weights(deeper, &|_| {}, [2, 48]), Err("lhs"));
}

/// Extents whose product, or whose bytes, are more than memory can be.
#[test]
fn extents_that_overflow_are_refused_by_every_constructor() {
    let bytes = vec![0u8; 1 << 12];
    let affine = MlxFormat::new(MlxMode::Affine, 8, 64, DType::F32).unwrap();
    let planes = MlxPlanes { packed: &bytes[..], scales: &bytes, biases: &bytes };
    let most = usize::MAX / 64 * 64;
    for extents in [[16, most], [most, 64], [most, most], [1 << 33, 1 << 33], [1 << 27, 1 << 34]] {
        let all = [
            Q8Weights::blocks(Format::Q8_0, &bytes, extents),
            Q8Weights::interleaved(Format::Q8_0, &bytes, extents),
            Q8Weights::affine(affine, planes, extents),
        ];
        for refused in all {
            let refused = refused.map(|_| ());
            assert!(matches!(refused, Err(GemmError::Overflow { argument: "weights" })), "{extents:?}");
        }
    }
    for [rows, groups] in [[1, usize::MAX], [usize::MAX, 1], [1 << 40, 1 << 40], [2, usize::MAX / 44]] {
        let refused = QuantizedRows::new(&bytes, rows, groups).map(|_| ());
        assert_eq!(refused, Err(GemmError::Overflow { argument: "quantized rows" }), "{rows} x {groups}");
    }
    assert_eq!(quantized_row_bytes(usize::MAX), usize::MAX);
    assert_eq!(quantized_row_bytes(1), 64);
}

#[test]
fn groups_outside_the_quantized_rows_are_refused() {
    let mut memory = vec![7f32; 2 * quantized_row_bytes(3) / 4];
    let mut rows = QuantizedRowsMut::new(bytemuck::cast_slice_mut(&mut memory), 2, 3).unwrap();
    let x = [1f32; 4 * GROUP];
    for (row, first, len, expected) in [
        (2, 0, GROUP, "quantized rows"),
        (usize::MAX, 0, GROUP, "quantized rows"),
        (0, 3, GROUP, "quantized rows"),
        (0, usize::MAX, GROUP, "quantized rows"),
        (0, 0, 4 * GROUP, "quantized rows"),
        (0, 0, GROUP - 1, "activations"),
    ] {
        let refused = rows.quantize_groups(row, first, &x[..len]).map_err(argument);
        assert_eq!(refused, Err(expected), "{row} {first} {len}");
    }
    assert_eq!(rows.quantize_groups(1, 2, &x[..GROUP]), Ok(()));
    assert_eq!(memory[..quantized_row_bytes(3) / 4], vec![7f32; quantized_row_bytes(3) / 4]);
}

#[test]
fn weights_that_cannot_be_interleaved_are_refused() {
    let isa = Portable::detect().unwrap();
    let (from, mut to) = (vec![0u8; 16 * 18], vec![0u8; 16 * 18]);
    let mut refuse =
        |format, from: &[u8], bytes: usize| interleave(isa, format, from, &mut to[..bytes]).map_err(argument);
    assert_eq!(refuse(Format::Q4_0, &from, 16 * 18), Ok(()));
    assert_eq!(refuse(Format::Q4_0, &from, 16 * 18 - 1), Err("interleaved weights"));
    assert_eq!(refuse(Format::Q4_0, &from[1..], 16 * 18 - 1), Err("weights"));
    assert_eq!(refuse(Format::Q4_0, &from[..15 * 18], 15 * 18), Err("weights"));
    assert_eq!(refuse(Format::Q4_0, &[], 0), Err("weights"));
    assert_eq!(refuse(Format::Iq3Xxs, &from, 16 * 18), Err("weights"));
}
