//! Graphs: a pass is captured once, rewritten, put in order, given one arena, baked, and replayed.
//!
//! A [`GraphBuilder`] is a recorder that captures ops as a [`ComputeGraph`]. Each [`Pass`] rewrites it with a proof: dead code,
//! common subexpressions, fusions. A [`GraphExecutor`] selects kernels, orders commands for the fewest barriers, and
//! assigns one arena. A [`GraphSession`] binds inputs and memory; [`GraphSession::replay`] runs the pass and allocates
//! nothing. A [`Parameter`] is a small input that is set before a replay; a [`LiveExtent`] is a number of rows that is.
//!
//! Calls keep the rules of `record/rules.rs`, as those of an encoder do. They are checked when a call is captured, after all
//! passes, and when a session binds buffers.
//!
//! Two laws make replays safe whatever passes, schedule and plan do. Barriers of the list are derived from the bytes
//! that its commands touch, by the same code that derives them for a [`CommandEncoder`](crate::CommandEncoder); a
//! schedule only makes them few. And two values share bytes of the arena only if a barrier stands between the last use
//! of the one and the first of the other.

mod arena;
mod builder;
mod commands;
mod compute;
mod dump;
mod executor;
mod extents;
mod launches;
mod parameters;
mod pass;
mod schedule;
mod session;

pub use builder::{GraphBuilder, GraphValue};
pub use compute::{ComputeGraph, Fusion, Node, Operand, Origin, Scope, ValueId};
pub use executor::{GraphExecutor, GraphOptions, GraphReport, KernelDispatches};
pub use extents::LiveExtent;
pub use parameters::Parameter;
pub use pass::{COMMON_SUBEXPRESSIONS, DEAD_CODE, Pass, PassReport};
pub use session::{GraphArena, GraphSession};
