//! Graphs: a pass is captured once, rewritten, put in order, given one arena, baked, and replayed.
//!
//! | file | what |
//! |---|---|
//! | `compute.rs` | [`ComputeGraph`]: ops, the values between them, and rewriting them with a proof |
//! | `builder.rs` | [`GraphBuilder`]: the recorder that captures one |
//! | `pass.rs` | [`Pass`]: a rewrite as a value; dead code and common subexpressions |
//! | `dump.rs` | graphs as text and for Graphviz |
//! | `commands.rs` | ops become commands: kernels chosen, scratch memory named, what each command touches |
//! | `schedule.rs` | an order that needs the fewest barriers |
//! | `arena.rs` | lifetimes become offsets in one allocation |
//! | `parameters.rs` | [`Parameter`]: numbers that a session sets before a replay |
//! | `executor.rs` | [`GraphExecutor`]: all of the above, done once, shared by sessions |
//! | `session.rs` | [`GraphSession`]: an arena and a baked list, replayed |
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
mod parameters;
mod pass;
mod schedule;
mod session;

pub use builder::{GraphBuilder, GraphValue};
pub use compute::{ComputeGraph, Fusion, Node, Operand, Origin, Scope, ValueId};
pub use executor::{GraphExecutor, GraphOptions, GraphReport};
pub use parameters::Parameter;
pub use pass::{COMMON_SUBEXPRESSIONS, DEAD_CODE, Pass, PassReport};
pub use session::GraphSession;
