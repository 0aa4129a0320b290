//! SPIR-V from disk, the driver's cache, and limits on parameters.

use crate::contract::programs::computes;
use crate::contract::{TestKernel, kernels};
use crate::{bench, options};
use silicide_hal::{HalError, Program, WgslKernel};

#[test]
fn a_whole_binary_is_used_whatever_the_text_says() {
    let bench = bench(&options());
    let program = Program::Wgsl(kernels::wgsl(TestKernel::Affine));
    let binary = bench.device.translate(&program).unwrap().unwrap();
    assert_eq!(binary[..4], [0x03, 0x02, 0x23, 0x07], "SPIR-V");
    let Program::Wgsl(broken) = kernels::broken_wgsl() else { panic!("it is WGSL") };
    let broken = Program::Wgsl(WgslKernel::new("broken", broken.parts(), 1, 4));
    computes(&bench, bench.compile_binary(&broken, Some(&binary)).unwrap());
    // A module of no instructions, and one that ends in the middle of an instruction.
    let mut damaged = binary.clone();
    (damaged[20], damaged[22]) = (0, 0);
    computes(&bench, bench.compile_binary(&program, Some(&damaged)).unwrap());
}

#[test]
fn more_parameter_words_than_the_limit_do_not_compile() {
    let bench = bench(&options());
    let words = bench.device.info().limits.max_param_bytes as u32 / 4 + 1;
    let greedy = WgslKernel::new("greedy", kernels::wgsl(TestKernel::Affine).parts(), 0, words);
    let error = bench.compile_program(&Program::Wgsl(greedy)).unwrap_err();
    let HalError::Compile { detail, .. } = &error else { panic!("{error}") };
    assert!(detail.contains("parameter words"), "{detail}");
}

#[test]
fn a_driver_cache_of_an_earlier_run_is_used_and_a_damaged_one_is_not() {
    let first = bench(&options());
    computes(&first, first.compile(TestKernel::Affine));
    let cache = first.device.driver_cache();
    assert!(cache.len() >= 32);
    let mut damaged = cache.clone();
    damaged[16] ^= 1;
    for driver_cache in [cache.clone(), damaged, cache[..31].to_vec(), vec![0; 40]] {
        let bench = bench(&options().driver_cache(driver_cache));
        computes(&bench, bench.compile(TestKernel::Affine));
        assert_eq!(bench.device.driver_cache()[..32], cache[..32]);
    }
}
