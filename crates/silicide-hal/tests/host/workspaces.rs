//! Workspaces of native kernels: one for each thread, made before a list runs.

use crate::contract::Bench;
use crate::contract::kernels::native_program;
use crate::rigs::Cpu;
use silicide_hal::cpu::{self, CpuOptions};
use silicide_hal::{Binding, CommandList, HalError, Program, Ticket, Tile};

/// What [`stage`] keeps in its workspace.
type Staged = [u32; 20_000];

/// Fills its workspace with its index, yields, and writes to its word whether all of it is still there.
///
/// # Safety
/// One u32 per tile is bound, and the kernel declared a workspace of `Staged`.
unsafe fn stage(tile: &Tile<'_>) {
    let [i, ..] = tile.index;
    // SAFETY: the only reference into the workspace, which is filled before it is read; one u32 per tile is bound.
    unsafe {
        let staged = tile.workspace::<Staged>();
        staged.as_mut_ptr().write_bytes(0, 1);
        let staged = staged.assume_init_mut();
        staged.fill(i);
        std::thread::yield_now();
        tile.write::<u32>(0, i as usize..i as usize + 1)[0] = u32::from(staged.iter().all(|word| *word == i));
    }
}

fn bench(threads: usize) -> Bench<Cpu<2>> {
    Bench::new(cpu::open(&CpuOptions::default().threads(threads)).unwrap())
}

/// A list of one dispatch of `program`, a tile for every word of `x`.
fn list(bench: &Bench<Cpu<2>>, program: &Program, x: Binding) -> CommandList {
    let mut list = CommandList::default();
    list.dispatch(bench.compile_program(program).unwrap(), [(x.bytes / 4) as u32, 1, 1], &[x], &[]);
    list
}

fn staging() -> Program {
    native_program!("stage", stage, size_of::<Staged>())
}

#[test]
fn every_thread_has_a_workspace_of_its_own() {
    for threads in [1, 3] {
        let bench = bench(threads);
        assert_eq!(bench.device.workspace_bytes(), 0, "none before a kernel needs one");
        let x = bench.bind(&[7u32; 500]);
        bench.run(&list(&bench, &staging(), x));
        assert_eq!(bench.read::<u32>(x), [1; 500], "{threads} threads");
        let stride = size_of::<Staged>().next_multiple_of(4096);
        assert_eq!(bench.device.workspace_bytes(), threads * stride);
    }
}

#[test]
fn a_baked_list_has_its_workspaces_before_it_runs() {
    let bench = bench(2);
    let x = bench.bind(&[7u32; 40]);
    let baked = bench.bake(&list(&bench, &staging(), x));
    let reserved = bench.device.workspace_bytes();
    assert!(reserved >= 2 * size_of::<Staged>());
    bench.replay(baked);
    assert_eq!(bench.device.workspace_bytes(), reserved);
    assert_eq!(bench.read::<u32>(x), [1; 40]);
}

#[test]
fn a_workspace_that_cannot_be_allocated_fails_the_submission_and_nothing_runs() {
    let bench = bench(2);
    let x = bench.bind(&[5u32; 4]);
    let list = list(&bench, &native_program!("greedy", stage, isize::MAX as usize / 2), x);
    // SAFETY: handles live until the end, and nothing conflicts.
    assert!(matches!(unsafe { bench.device.bake(&list) }, Err(HalError::OutOfMemory { .. })));
    assert!(matches!(bench.submit_as(&list, Ticket(1)), Err(HalError::OutOfMemory { .. })));
    assert_eq!(bench.read::<u32>(x), [5; 4]);
    bench.run(&CommandList::default());
}

#[test]
fn a_kernel_that_uses_more_workspace_than_it_declared_panics() {
    let bench = bench(1);
    let x = bench.bind(&[5u32; 4]);
    let outcome = bench.try_run(&list(&bench, &native_program!("modest", stage, 64), x));
    let Err(HalError::KernelPanicked { detail, .. }) = outcome else { panic!("it ran") };
    assert!(detail.contains("smaller workspace"), "{detail}");
}
