//! A submission allocates nothing in steady state: counted by an allocator that knows the thread.
#![cfg(feature = "vulkan")]
#![allow(clippy::unwrap_used)]

use silicide_hal::vulkan::{self, VulkanOptions};
use silicide_hal::{
    Binding, BlockDesc, Command, CommandList, MemoryKind, Part, Program, Snippet, Ticket, WgslKernel,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is the system allocator's; counting touches no memory of its own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const DISPATCHES: usize = 200;

static SCALE: Snippet = Snippet {
    name: "scale",
    text: "
struct Params { at_x: u32, at_y: u32, n: u32, by: f32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.n { y[p.at_y + id.x] = x[p.at_x + id.x] * p.by; }
}",
};

#[test]
fn steady_submissions_allocate_nothing() {
    for push_descriptors in [true, false] {
        let mut options = VulkanOptions::default();
        options.push_descriptors = push_descriptors;
        let device = vulkan::open(0, &options).unwrap();
        let desc = BlockDesc { bytes: 4096, kind: MemoryKind::Shared };
        let programs = ["scale.a", "scale.b"].map(|name| WgslKernel::new(name, &[Part::plain(&SCALE)], 2, 2));
        // SAFETY: within the limits; the kernel is sound for the list below.
        let (x, y, pipelines) = unsafe {
            let compile =
                |kernel: WgslKernel| device.compile(kernel.name, &Program::Wgsl(kernel.clone()), None);
            (
                device.alloc(&desc).unwrap(),
                device.alloc(&desc).unwrap(),
                programs.map(|kernel| compile(kernel).unwrap()),
            )
        };
        let mut list = CommandList::default();
        for i in 0..DISPATCHES {
            if i % 50 == 0 {
                list.commands.push(Command::Mark { label: "fifty" });
            }
            let bindings = [x, y].map(|block| Binding { block, offset: 0, bytes: 4096 });
            list.dispatch(pipelines[i % 2], [1, 1, 1], &bindings, &[0, 0, 64, 1f32.to_bits()]);
            list.commands.push(Command::Barrier);
        }
        let mut ticket = 0;
        let mut round = |rounds: u64| {
            let (before, mut submitting) = (ALLOCATIONS.get(), Duration::MAX);
            for _ in 0..rounds {
                ticket += 1;
                let start = Instant::now();
                // SAFETY: handles are live, hazards are separated, tickets increase.
                unsafe { device.submit(&list, Ticket(ticket)) }.unwrap();
                submitting = submitting.min(start.elapsed());
                device.wait(Ticket(ticket), Duration::from_secs(60)).unwrap();
            }
            (ALLOCATIONS.get() - before, submitting)
        };
        // The first 64 lists with marks make room for the history of spans.
        let (warming_up, _) = round(70);
        let (steady, submitting) = round(20);
        let each = submitting / DISPATCHES as u32;
        println!(
            "push descriptors {push_descriptors}: {each:?} per dispatch and barrier, submitting included"
        );
        assert!(warming_up > 0, "the allocator counts");
        assert_eq!(steady, 0, "allocations in 20 submissions");
        // SAFETY: as above.
        let baked = unsafe { device.bake(&list) }.unwrap();
        let (mut before, mut replaying) = (0, Duration::MAX);
        for turn in 0..30 {
            if turn == 10 {
                before = ALLOCATIONS.get();
            }
            ticket += 1;
            let start = Instant::now();
            // SAFETY: as above.
            unsafe { device.replay(baked, Ticket(ticket)) }.unwrap();
            replaying = replaying.min(start.elapsed());
            device.wait(Ticket(ticket), Duration::from_secs(60)).unwrap();
        }
        // Printing allocates, so it follows the count.
        let steady = ALLOCATIONS.get() - before;
        println!(
            "replaying {DISPATCHES} dispatches: {replaying:?}, recording and submitting: {submitting:?}"
        );
        assert_eq!(steady, 0, "allocations in 20 replays");
        // SAFETY: all were reached.
        unsafe { device.unbake(baked) };
    }
}
