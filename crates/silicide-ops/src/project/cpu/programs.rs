//! The programs that multiply, and how each cuts its output in tiles.

use crate::product::Cut;
use crate::{interleaved_matmul, matmul, mlx_matmul};
use silicide_hal::NativeKernel;

/// The number of programs.
const COUNT: usize = matmul::PROGRAMS.len() + interleaved_matmul::PROGRAMS.len() + mlx_matmul::PROGRAMS.len();

/// Every program; parameters name them by their places.
pub(super) static PROGRAMS: [(&NativeKernel, Cut); COUNT] = {
    let mut all = [matmul::PROGRAMS[0]; COUNT];
    let tables: [&[(&NativeKernel, Cut)]; 3] =
        [&matmul::PROGRAMS, &interleaved_matmul::PROGRAMS, &mlx_matmul::PROGRAMS];
    let (mut table, mut at) = (0, 0);
    while table < tables.len() {
        let mut i = 0;
        while i < tables[table].len() {
            all[at] = tables[table][i];
            (i, at) = (i + 1, at + 1);
        }
        table += 1;
    }
    all
};

/// Bytes of the largest workspace of any of them.
pub(super) const LARGEST_WORKSPACE: usize = {
    let mut largest = 0;
    let mut i = 0;
    while i < PROGRAMS.len() {
        if PROGRAMS[i].0.workspace() > largest {
            largest = PROGRAMS[i].0.workspace();
        }
        i += 1;
    }
    largest
};
