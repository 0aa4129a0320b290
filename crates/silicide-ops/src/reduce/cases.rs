//! Calls of `reduce` to try.

use super::{Reduce, Reduction};
use crate::Case;
use crate::rowwise::cases::common;

/// Every case.
pub fn cases() -> Vec<Case> {
    let of = |reduction| common(&format!("{reduction:?}, "), Reduce { reduction });
    [Reduction::Sum, Reduction::Max].into_iter().flat_map(of).collect()
}
