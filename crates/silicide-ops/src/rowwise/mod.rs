//! Row-wise ops by a description. A row is the last axis of a tensor; all other axes count rows.
//!
//! ```text
//! for each row:
//!     v[i]  = x[i], or combine(x[i], other[i])            load
//!     state = reduce(v)                                   reduce: zero, one or two passes, in a fixed order
//!     row   = finish(state)                               finish: scalars of the row
//!     y[i]  = store(v[i], columns[i], row), or y = row    store: per element or per row
//! ```
//!
//! An op states which of its slots play these roles ([`RowOp::ROLES`]). Both drivers follow from that: binding `i` is slot
//! `i`, and types, cuts and parameter words come from the roles. What is left to the op is its formula, once in Rust
//! ([`cpu::RowFormula`]) and once in WGSL ([`gpu::RowShader`]).
//!
//! | module | what |
//! |---|---|
//! | this one | the description that both drivers read |
//! | `arguments` | checking the arguments of a row-wise op |
//! | `cpu` | rows on the CPU: tiles of whole rows, long rows cut in spans |
//! | `lanes` | reductions of f32 values in a fixed order |
//! | `gpu` | rows on GPUs: one team of invocations per row, calls cut to fit bindings |
//! | `cases` | calls that row-wise ops of one input are tried with |

mod arguments;
pub(crate) mod cases;
pub(crate) mod cpu;
pub(crate) mod gpu;
pub(crate) mod lanes;

pub(crate) use arguments::{Arguments, check_not_negative, without_last};

use silicide_core::kernel::Op;

/// Parameters of a formula, in the order of [`RowRoles::words`]; unused ones are 0.
pub(crate) type RowWords = [f32; 2];

/// The roles of the slots of a row-wise op. Slot 0 is `x`; the first output is `y`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowRoles {
    /// The input that is combined with `x` element by element. Its rows are those of `x`, or repeat. It may be absent.
    pub(crate) other: Option<&'static str>,
    /// Inputs with one element per column, shared by all rows. At most two; each may be absent.
    pub(crate) columns: &'static [&'static str],
    /// The output that gets the combined values, rounded to the type of `x`; the formula then sees them as stored. There
    /// where `other` is.
    pub(crate) combined: Option<&'static str>,
    /// Whether `y` has one element per row, not per element of `x`.
    pub(crate) per_row: bool,
    /// The names of the parameters, at most two.
    pub(crate) words: &'static [&'static str],
}

impl RowRoles {
    /// `x` to `y`, element by element, without parameters.
    pub(crate) const PER_ELEMENT: RowRoles =
        RowRoles { other: None, columns: &[], combined: None, per_row: false, words: &[] };

    /// `x` to one element of `y` per row, without parameters.
    pub(crate) const PER_ROW: RowRoles = RowRoles { per_row: true, ..RowRoles::PER_ELEMENT };
}

/// A row-wise op: its first input has f32, f16 or bf16 rows ([`Arguments::rows`]).
pub(crate) trait RowOp: Op {
    /// The roles of its slots.
    const ROLES: RowRoles;

    /// Returns the parameters of the formula.
    fn words(&self) -> RowWords {
        RowWords::default()
    }

    /// Whether the last output is the [quantized rows](crate::quantize_q8) of `y`.
    fn is_quantized(&self) -> bool {
        false
    }

    /// Returns the number of the slot with this name, if the call has it.
    fn slot(&self, name: &str) -> Option<usize> {
        self.slots().iter().position(|slot| slot.name == name)
    }

    /// Returns the number of the slot of [`RowRoles::other`], if the call has it.
    fn other(&self) -> Option<usize> {
        Self::ROLES.other.and_then(|name| self.slot(name))
    }

    /// Returns the number of the slot of [`RowRoles::combined`], if the call has it.
    fn combined(&self) -> Option<usize> {
        Self::ROLES.combined.and_then(|name| self.slot(name))
    }
}
