//! Programs: binaries from disk, the archive, versions by hand, and what does not compile.

use crate::kernels::{add, count};
use crate::rig::{Rig, options, range};
use silicide_hal::{CommandList, HalError, Math, NativeMsl, Program, RawPipeline};

fn runs(rig: &Rig, pipeline: RawPipeline) {
    let block = rig.alloc_with(&[1u32]);
    let mut list = CommandList::default();
    list.dispatch(pipeline, [1, 1, 1], &[range(block, 0, 4)], &[0, 41]);
    rig.run(&list);
    assert_eq!(rig.read::<u32>(block), [42]);
}

#[test]
fn binaries_are_used_when_they_are_whole() {
    let rig = Rig::new();
    let program = Program::Wgsl(count());
    let binary = rig.device.translate(&program).unwrap().unwrap();
    for binary in [&binary[..], &binary[..binary.len() - 1], &[], &[0; 64]] {
        // SAFETY: the kernel is sound for the dispatch below.
        runs(&rig, unsafe { rig.device.compile("count", &program, Some(binary)) }.unwrap());
    }
}

static BY_HAND: NativeMsl = NativeMsl {
    entry: "count_by_hand",
    text: "
kernel void count_by_hand(device uint* x [[buffer(0)]], constant uint* p [[buffer(1)]]) { x[p[0]] += p[1]; }",
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
    let rig = Rig::new();
    for kernel in [count(), count().native_msl(&BY_HAND)] {
        for math in [Math::Exact, Math::Relaxed, Math::Fast] {
            runs(&rig, rig.compile(kernel.clone().math(math)));
        }
    }
}

#[test]
fn what_does_not_compile_shows_the_line() {
    let rig = Rig::new();
    let program = Program::Wgsl(count().native_msl(&BROKEN));
    // SAFETY: nothing is compiled.
    match unsafe { rig.device.compile("broken kernel", &program, None) } {
        Err(HalError::Compile { label, detail }) => {
            assert_eq!(label, "broken kernel");
            assert!(detail.contains("x[0] = missing;") && detail.starts_with("line 4:"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_threads_compile_at_once() {
    let rig = Rig::new();
    let pipelines: Vec<RawPipeline> = std::thread::scope(|scope| {
        let rig = &rig;
        let threads: Vec<_> = (0..6)
            .map(|i| scope.spawn(move || rig.compile(if i % 2 == 0 { count() } else { add() })))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    pipelines.iter().step_by(2).for_each(|pipeline| runs(&rig, *pipeline));
}

#[test]
fn the_archive_is_given_back_and_used() {
    let mut options = options();
    options.driver_cache = Some(Vec::new());
    let first = Rig::with(&options);
    runs(&first, first.compile(count()));
    let archive = first.device.driver_cache();
    assert!(!archive.is_empty());
    options.driver_cache = Some(archive.clone());
    let second = Rig::with(&options);
    runs(&second, second.compile(count()));
    assert!(second.device.driver_cache().is_empty(), "everything was found, so there is nothing new to keep");
    for damaged in [archive[..archive.len() / 2].to_vec(), vec![0; 4096]] {
        options.driver_cache = Some(damaged);
        let rig = Rig::with(&options);
        runs(&rig, rig.compile(count()));
    }
}
