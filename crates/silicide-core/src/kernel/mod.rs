//! Ops and kernels: what is computed, the ways to compute it, choosing among them, and the compiled results.

mod cache;
mod named;
mod op;
mod plan;
mod registry;
mod select;

pub(crate) use cache::DiskCache;
pub(crate) use named::intern_label;
pub use named::{Grid, KernelCall, KernelText, MslLaunch, NamedKernel, TextInterface};
pub use op::{DynOp, Host, Io, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
pub use plan::{Arg, Cost, Decline, Kernel, Launch, Operand, Plan, Step};
pub(crate) use registry::Compiled;
pub use registry::{KernelRegistry, RegistryUsage};
pub(crate) use select::select;
pub use silicide_hal::Access;
