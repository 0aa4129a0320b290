//! The programs that multiply. The first parameters of each are rows and columns of the output; parameters 3 and 4 are columns and rows of
//! a tile.

use crate::matmul::DENSE_WEIGHTS;
use crate::product::{decoded, integer};
use silicide_hal::NativeKernel;

/// Every program; parameters name them by their places.
pub(super) static PROGRAMS: [&NativeKernel; 3] = [&integer::MULTIPLY, &DENSE_WEIGHTS, &decoded::DECODED];

/// Bytes of the largest workspace of any of them.
pub(super) const LARGEST_WORKSPACE: usize = {
    let mut largest = 0;
    let mut i = 0;
    while i < PROGRAMS.len() {
        if PROGRAMS[i].workspace() > largest {
            largest = PROGRAMS[i].workspace();
        }
        i += 1;
    }
    largest
};
