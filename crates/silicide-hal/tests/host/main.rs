//! The backends that run on the host: the CPU with one thread and with three, a wrapper around it, and the null device.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../contract/mod.rs"]
mod contract;
mod cpu;
mod panics;
mod rigs;
mod workspaces;

mod three_threads {
    crate::contract::contract_tests!(crate::rigs::Cpu<3>);
}

mod one_thread {
    crate::contract::contract_tests!(crate::rigs::Cpu<1>);
}

mod forwarded {
    crate::contract::contract_tests!(crate::rigs::Forwarded);
}

mod null {
    crate::contract::contract_tests!(crate::rigs::Null);
}
