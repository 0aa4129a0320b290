//! Kernels that panic on the CPU: the ticket fails, the device goes on.

use crate::contract::kernels::native_program;
use crate::contract::{Bench, TestKernel};
use crate::rigs::Cpu;
use silicide_hal::cpu::{self, CpuOptions};
use silicide_hal::{Command, CommandList, HalError, RawPipeline, Ticket, Tile};
use std::time::Duration;

/// Panics at tile `params[0]`, or at the tile that word 0 of its binding names. Prints nothing.
///
/// # Safety
/// The binding, if there is one, holds a u32 that only the host writes.
unsafe fn fail(tile: &Tile<'_>) {
    let at = match tile.bound() {
        0 => tile.param(0),
        // SAFETY: the tests bind one u32, which only the host writes.
        _ => unsafe { tile.read::<u32>(0)[0] },
    };
    if tile.index[0] == at {
        std::panic::resume_unwind(Box::new(format!("tile {at}")));
    }
}

/// A device with a kernel that panics and one that does not.
fn bench(threads: usize) -> (Bench<Cpu<2>>, RawPipeline, RawPipeline) {
    let bench = Bench::new(cpu::open(&CpuOptions::default().threads(threads)).unwrap());
    let (bad, good) =
        (bench.compile_program(&native_program!("bad", fail)).unwrap(), bench.compile(TestKernel::Affine));
    (bench, bad, good)
}

#[test]
fn a_panic_fails_its_ticket_and_no_other() {
    for threads in [1, 2, 5] {
        let (bench, bad, good) = bench(threads);
        let data = bench.bind(&[1u32; 100]);
        let params = [0, 0, 5, 100, 1];
        let mut list = CommandList::default();
        list.commands.push(Command::Mark { label: "never timed" });
        list.dispatch(bad, [100, 1, 1], &[], &[3]);
        list.commands.push(Command::Barrier);
        list.dispatch(good, [100, 1, 1], &[data], &params);
        let (failed, submitted) = bench.submit(&list);
        submitted.unwrap();
        let expected = Err(HalError::KernelPanicked { label: "bad".into(), detail: "tile 3".into() });
        assert_eq!(bench.device.wait(failed, Duration::ZERO), expected);
        assert_eq!(bench.device.reached(), Ok(failed));
        assert_eq!(bench.read::<u32>(data), [1; 100], "the rest is skipped");
        assert_eq!(bench.device.spans(failed), []);
        let mut list = CommandList::default();
        list.dispatch(good, [100, 1, 1], &[data], &params);
        bench.run(&list);
        assert!((0..).zip(bench.read::<u32>(data)).all(|(i, word)| word == 5 + i));
        assert_eq!(bench.device.wait(failed, Duration::ZERO), expected);
    }
}

#[test]
fn a_panic_in_any_tile_leaves_no_thread_waiting() {
    for threads in [1, 2, 3, 5] {
        let (bench, bad, good) = bench(threads);
        let data = bench.bind(&[0u32; 64]);
        let mut random = 12345u32;
        for _ in 0..200 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (tiles, tile) = (1 + (random >> 8) % 5000, (random >> 20) % 6000);
            let mut list = CommandList::default();
            list.dispatch(good, [64, 1, 1], &[data], &[0, 1, 1, 64, 1]);
            list.dispatch(bad, [tiles, 1, 1], &[], &[tile]);
            list.commands.push(Command::Barrier);
            list.dispatch(bad, [tiles / 2 + 1, 1, 1], &[], &[u32::MAX]);
            let outcome = bench.try_run(&list);
            assert_eq!(outcome.is_err(), tile < tiles, "{outcome:?}");
        }
    }
}

#[test]
fn a_replay_that_panics_can_be_replayed() {
    let (bench, bad, _) = bench(2);
    let panics_at = bench.bind(&[3u32]);
    let mut list = CommandList::default();
    list.dispatch(bad, [8, 1, 1], &[panics_at], &[]);
    let baked = bench.bake(&list);
    let wait = |ticket: Ticket| bench.device.wait(ticket, Duration::ZERO);
    assert!(matches!(wait(bench.replay(baked)), Err(HalError::KernelPanicked { .. })));
    bench.bytes(panics_at).copy_from_slice(&9u32.to_ne_bytes());
    assert_eq!(wait(bench.replay(baked)), Ok(()));
}
