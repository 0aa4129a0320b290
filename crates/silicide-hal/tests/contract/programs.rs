//! Programs: compiling, binaries, refusals.

use super::{Bench, Rig, TestKernel};
use silicide_hal::{CommandList, HalError, Program, RawPipeline};
use std::collections::HashSet;

/// Checks that a pipeline of [`TestKernel::Affine`] computes.
pub(crate) fn computes<R>(bench: &Bench<R>, pipeline: RawPipeline) {
    let x = bench.bind(&[2u32]);
    let mut list = CommandList::default();
    list.dispatch(pipeline, [1, 1, 1], &[x], &[0, 20, 2, 1, 1]);
    bench.run(&list);
    assert_eq!(bench.read::<u32>(x), [42]);
}

pub(crate) fn pipelines_compiled_at_once_are_distinct<R: Rig>(bench: &Bench<R>) {
    let compile = |i| bench.compile(if i % 2 == 0 { TestKernel::Affine } else { TestKernel::Add });
    let pipelines: Vec<RawPipeline> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|i| scope.spawn(move || compile(i))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(pipelines.iter().collect::<HashSet<_>>().len(), 6);
    pipelines.iter().step_by(2).for_each(|pipeline| computes(bench, *pipeline));
}

pub(crate) fn a_damaged_binary_is_not_used<R: Rig>(bench: &Bench<R>) {
    let program = R::program(TestKernel::Affine);
    let binary = bench.device.translate(&program).unwrap().unwrap_or_default();
    assert_eq!(bench.device.translate(&program).unwrap().unwrap_or_default(), binary, "always the same");
    let cut = |bytes: usize| &binary[..binary.len().saturating_sub(bytes)];
    for binary in [cut(0), cut(1), cut(4), &[], &[0; 64]] {
        computes(bench, bench.compile_binary(&program, Some(binary)).unwrap());
    }
}

/// Returns the error that a program does not compile with: its label and text.
fn refusal<R>(bench: &Bench<R>, program: &Program) -> String {
    match bench.compile_program(program) {
        Err(HalError::Compile { label, detail }) => {
            assert_eq!(label, program.name());
            detail
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn a_program_that_does_not_compile_is_named<R: Rig>(bench: &Bench<R>) {
    let (program, word) = R::broken();
    let detail = refusal(bench, &program);
    assert!(detail.contains(word), "{detail}");
    // The device is as good as before.
    computes(bench, bench.compile(TestKernel::Affine));
}

pub(crate) fn a_program_in_another_language_is_refused<R: Rig>(bench: &Bench<R>) {
    let detail = refusal(bench, &R::foreign());
    assert!(!detail.is_empty());
}
