//! Views of matrices.

use silicide_gemm::{GemmError, Matrix, MatrixMut};

#[test]
fn rows_and_tiles_follow_the_stride() {
    let data: Vec<u32> = (0..23).collect();
    let matrix = Matrix::new("a", &data, [3, 5], 9).unwrap();
    assert_eq!(matrix.row(2), Some(&data[18..23]));
    assert_eq!(matrix.row(3), None);
    let tile = matrix.tile(1..3, 2..5).unwrap();
    assert_eq!(tile.row(0), Some(&data[11..14]));
    assert!(matrix.tile(1..4, 0..1).is_none());
    assert!(matrix.tile(0..0, 0..1).is_none());
    assert!(matrix.tile(0..1, 4..6).is_none());
}

#[test]
fn views_that_do_not_fit_are_refused_by_name() {
    let mut data = [0f32; 12];
    let new = |extents, stride| Matrix::new("lhs", &data, extents, stride).map(|_| ());
    assert_eq!(new([3, 4], 4), Ok(()));
    assert_eq!(new([3, 5], 5), Err(GemmError::Length { argument: "lhs", needed: 15, got: 12 }));
    assert_eq!(new([0, 4], 4), Err(GemmError::Empty { argument: "lhs", what: "rows" }));
    assert_eq!(new([3, 0], 4), Err(GemmError::Empty { argument: "lhs", what: "columns" }));
    assert_eq!(new([2, 4], 3), Err(GemmError::Stride { argument: "lhs", stride: 3, columns: 4 }));
    assert_eq!(new([3, 4], usize::MAX / 2), Err(GemmError::Overflow { argument: "lhs" }));
    assert!(MatrixMut::new("out", &mut data, [4, 4], 4).is_err());
    let mut out = MatrixMut::new("out", &mut data, [2, 4], 8).unwrap();
    out.row_mut(1).unwrap().fill(1.0);
    out.tile_mut(0..1, 1..3).unwrap().row_mut(0).unwrap().fill(2.0);
    assert_eq!(data, [0.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
}
