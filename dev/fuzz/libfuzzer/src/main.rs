//! Every fuzz target under libFuzzer. The variable `SILICIDE_FUZZ_TARGET` names the target; the arguments are
//! libFuzzer's.
#![no_main]

use fuzz::target::Target;
use fuzz::targets::find;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::sync::OnceLock;

fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("SILICIDE_FUZZ_TARGET").unwrap_or_default();
        find(&name).unwrap_or_else(|| panic!("SILICIDE_FUZZ_TARGET: there is no target {name:?}"))
    })
}

fuzz_target!(
    init: {
        // libFuzzer's hook ends the process on every panic, also on those that the library catches. Others are caught,
        // and end the process, behind the target.
        let _ = std::panic::take_hook();
        target();
    },
    |bytes: &[u8]| {
        let _ = (target().run)(bytes);
    }
);

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    // Half of the mutations know the structure; the others are guided by what libFuzzer has learnt.
    if seed % 2 == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut random = fastrand::Rng::with_seed(seed.into());
    let mut bytes = data[..size].to_vec();
    (target().mutate)(&mut bytes, &mut random);
    bytes.truncate(max_size);
    data[..bytes.len()].copy_from_slice(&bytes);
    bytes.len()
});
