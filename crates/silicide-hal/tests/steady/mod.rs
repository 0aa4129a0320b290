//! Counts allocations of the whole process while a device submits and replays in steady state. A program has one test that
//! uses this, so that nothing else allocates meanwhile.

use crate::contract::{Bench, LONG};
use silicide_hal::{Command, CommandList, Program, RawDevice, Ticket};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all memory is the system allocator's; counting touches none.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the same call, with the same conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the same call, with the same conditions.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const DISPATCHES: usize = 200;

/// Checks that a device submits and replays without allocating. `program` is that of `TestKernel::Affine`; `marks` adds marks
/// to the list.
pub(crate) fn allocates_nothing(name: &str, device: Arc<dyn RawDevice>, program: &Program, marks: bool) {
    let bench = Bench::<()>::new(device);
    let (one, two) = (bench.compile_program(program).unwrap(), bench.compile_program(program).unwrap());
    let (x, y) = (bench.bind(&[0u32; 512]), bench.bind(&[0u32; 512]));
    let mut list = CommandList::default();
    for i in 0..DISPATCHES {
        list.dispatch([one, two][i % 2], [512, 1, 1], &[x], &[0, 1, 1, 512, 1]);
        list.commands.push(Command::Barrier);
        list.commands.push(Command::Copy { src: x, dst: y });
        list.commands.push(Command::Barrier);
    }
    if marks {
        (0..4).for_each(|i| list.commands.insert(i * 100, Command::Mark { label: "part" }));
    }
    let submit = || bench.submit(&list).0;
    // The first 64 lists with marks make room for the history of spans.
    let (warming_up, _) = rounds(&bench, 70, &submit);
    let (submitting, time) = rounds(&bench, 20, &submit);
    let baked = bench.bake(&list);
    rounds(&bench, 10, &|| bench.replay(baked));
    let (replaying, replay_time) = rounds(&bench, 20, &|| bench.replay(baked));
    println!("{name}: {DISPATCHES} dispatches and copies submitted in {time:?}, replayed in {replay_time:?}");
    assert!(warming_up > 0, "the allocator counts");
    assert_eq!((submitting, replaying), (0, 0), "{name}: allocations in 20 submissions and 20 replays");
    assert_eq!(bench.read::<u32>(y), bench.read::<u32>(x));
}

/// Runs `count` submissions, each waited for. Returns the allocations of all and the time of the fastest.
fn rounds(bench: &Bench<()>, count: u32, submit: &dyn Fn() -> Ticket) -> (usize, Duration) {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let mut fastest = Duration::MAX;
    for _ in 0..count {
        let started = Instant::now();
        let ticket = submit();
        fastest = fastest.min(started.elapsed());
        bench.device.wait(ticket, LONG).unwrap();
    }
    (ALLOCATIONS.load(Ordering::Relaxed) - before, fastest)
}
