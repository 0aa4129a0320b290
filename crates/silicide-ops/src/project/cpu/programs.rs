//! The programs that multiply, and how each cuts its output in tiles.

use crate::matmul::cpu as matmul;
use crate::mlx_matmul::cpu as mlx_matmul;
use silicide_hal::NativeKernel;

/// How the tiles of a program cut its output.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    /// By columns, of which a parameter says how many; all rows.
    Columns(usize),
    /// By so many columns, and by rows, of which a parameter says how many.
    Rows(usize, usize),
    /// By columns and by rows, of which parameters say how many.
    Both(usize, usize),
    /// By so many columns; all rows.
    Fixed(usize),
}

/// Every program; they know each other by their places.
pub(super) static PROGRAMS: [(&NativeKernel, Cut); 12] = [
    (&matmul::FEW_F32, Cut::Columns(3)),
    (&matmul::FEW_F16, Cut::Columns(3)),
    (&matmul::FEW_BF16, Cut::Columns(3)),
    (&matmul::MANY_F32, Cut::Rows(matmul::TILE_COLUMNS, 3)),
    (&matmul::MANY_F16, Cut::Rows(matmul::TILE_COLUMNS, 3)),
    (&matmul::MANY_BF16, Cut::Rows(matmul::TILE_COLUMNS, 3)),
    (&matmul::blocks::FEW, Cut::Columns(3)),
    (&matmul::blocks::MANY, Cut::Rows(matmul::TILE_COLUMNS, 3)),
    (&matmul::integer::MULTIPLY, Cut::Both(3, 4)),
    (&matmul::integer::interleaved::MULTIPLY, Cut::Both(3, 4)),
    (&matmul::integer::mlx::MULTIPLY, Cut::Both(3, 4)),
    (&mlx_matmul::GROUPS, Cut::Fixed(mlx_matmul::COLUMNS)),
];

/// Bytes of the largest workspace of any of them.
pub(super) const LARGEST_WORKSPACE: usize = {
    let mut largest = 0;
    let mut i = 0;
    while i < PROGRAMS.len() {
        if PROGRAMS[i].0.workspace > largest {
            largest = PROGRAMS[i].0.workspace;
        }
        i += 1;
    }
    largest
};
