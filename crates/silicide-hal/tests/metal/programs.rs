//! Kernels in MSL, written by hand or translated, and the archive of compiled ones.

use crate::contract::programs::computes;
use crate::contract::{TestKernel, kernels};
use crate::{bench, options};
use silicide_hal::{HalError, Math, NativeMsl, Program};

static BY_HAND: NativeMsl = NativeMsl {
    entry: "affine_by_hand",
    text: "
kernel void affine_by_hand(device uint* x [[buffer(0)]], constant uint* p [[buffer(1)]]) { x[p[0]] = x[p[0]] * p[1] + p[2]; }",
    threadgroup_bytes: &[],
    language: (3, 0),
    simdgroup_matrix: false,
};

static BROKEN: NativeMsl = NativeMsl {
    entry: "broken",
    text: "\nkernel void broken(device uint* x [[buffer(0)]]) {\n    x[0] = missing;\n}",
    threadgroup_bytes: &[],
    language: (3, 0),
    simdgroup_matrix: false,
};

#[test]
fn kernels_by_hand_and_by_translation_agree() {
    let bench = bench(&options());
    let affine = || kernels::wgsl(TestKernel::Affine);
    // SAFETY: `needs` accepts no launch; `computes` dispatches it over a binding that it stays inside.
    let by_hand = unsafe { affine().native_msl(&BY_HAND).unchecked(|_| None, &[]) };
    for kernel in [affine(), by_hand] {
        for math in [Math::Exact, Math::Relaxed, Math::Fast] {
            let program = Program::Wgsl(kernel.clone().math(math));
            computes(&bench, bench.compile_program(&program).unwrap());
        }
    }
}

#[test]
fn msl_that_does_not_compile_is_reported_with_its_line() {
    let bench = bench(&options());
    // SAFETY: it does not compile.
    let kernel = unsafe { kernels::wgsl(TestKernel::Affine).native_msl(&BROKEN).unchecked(|_| None, &[]) };
    let program = Program::Wgsl(kernel);
    match bench.compile_program(&program) {
        Err(HalError::Compile { detail, .. }) => {
            assert!(detail.contains("x[0] = missing;") && detail.starts_with("line 4:"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_archive_of_an_earlier_run_is_used_and_a_damaged_one_is_not() {
    let first = bench(&options().driver_cache(Vec::new()));
    computes(&first, first.compile(TestKernel::Affine));
    let archive = first.device.driver_cache();
    assert!(!archive.is_empty());
    let second = bench(&options().driver_cache(archive.clone()));
    computes(&second, second.compile(TestKernel::Affine));
    assert!(second.device.driver_cache().is_empty(), "everything was found, so there is nothing new to keep");
    for damaged in [archive[..archive.len() / 2].to_vec(), vec![0; 4096]] {
        let bench = bench(&options().driver_cache(damaged));
        computes(&bench, bench.compile(TestKernel::Affine));
    }
}
