//! A Metal device under test, with errors that name passes.

#[path = "../common/rig.rs"]
mod common;

pub(crate) use common::{LONG, Rig, range};
use silicide_hal::metal::{self, MetalOptions};

/// Options of every test.
pub(crate) fn options() -> MetalOptions {
    let mut options = MetalOptions::default();
    options.validation = true;
    options
}

impl Rig {
    pub(crate) fn new() -> Rig {
        Rig::with(&options())
    }

    pub(crate) fn with(options: &MetalOptions) -> Rig {
        Rig::over(metal::open(0, options).unwrap())
    }
}
