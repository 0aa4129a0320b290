//! Tests of the core through its public face, one file per subject. Those that need no particular device run on
//! every device that runs kernels; the null device is for failures and for work that stays in flight.

// What they share may panic as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

mod buffer;
mod devices;
mod failures;
mod foreign;
mod graph;
mod graph_extents;
mod graph_parameters;
mod graph_sessions;
mod guards;
mod mapped;
mod memory;
#[cfg(feature = "ndarray")]
mod ndarray;
mod pool;
mod recording;
mod registry;
mod registry_named;
mod rules;
mod rules_extents;
mod rules_graph;
mod rules_inputs;
mod rules_needs;
mod submission;
mod weights;
mod worker;
