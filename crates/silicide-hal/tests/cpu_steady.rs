//! Once it has seen a list, the CPU device submits it again without allocating, on any of its threads.
//!
//! Alone in its program: the allocator counts for the whole process.

use silicide_hal::cpu::{self, CpuOptions, Isa};
use silicide_hal::{
    Binding, BlockDesc, Command, CommandList, MemoryKind, NativeKernel, NativeVariant, Program, Ticket, Tile,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system allocator's; counting touches no memory of its own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
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

unsafe fn touch(tile: &Tile<'_>) {
    let i = tile.index[0] as usize;
    // SAFETY: one u32 per tile is bound.
    unsafe { tile.write::<u32>(0, i..i + 1)[0] += tile.param(0) };
}

static TOUCH: NativeKernel =
    NativeKernel::new("touch", &[NativeVariant { isa: Isa::Portable, entry: touch }]);

#[test]
fn submitting_allocates_nothing() {
    let device = cpu::open(&CpuOptions::default().threads(3)).unwrap();
    // SAFETY: a valid size; a kernel that stays inside its binding.
    let (block, pipeline) = unsafe {
        let block = device.alloc(&BlockDesc { bytes: 4096, kind: MemoryKind::Shared }).unwrap();
        (block, device.compile("touch", &Program::Native(&TOUCH), None).unwrap())
    };
    let (low, high) =
        (Binding { block, offset: 0, bytes: 2048 }, Binding { block, offset: 2048, bytes: 2048 });
    let mut list = CommandList::default();
    for _ in 0..50 {
        list.dispatch(pipeline, [512, 1, 1], &[low], &[1]);
        list.commands.push(Command::Barrier);
        list.commands.push(Command::Copy { src: low, dst: high });
        list.commands.push(Command::Barrier);
    }
    let submit = |ticket| {
        // SAFETY: the handles are live and the barriers are there.
        unsafe { device.submit(&list, Ticket(ticket)).unwrap() };
        device.wait(Ticket(ticket), std::time::Duration::ZERO).unwrap();
    };
    (1..=10).for_each(submit);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (11..=200).for_each(submit);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    // SAFETY: as above, until the list is unbaked.
    let baked = unsafe { device.bake(&list).unwrap() };
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for ticket in 201..=400 {
        // SAFETY: as above.
        unsafe { device.replay(baked, Ticket(ticket)).unwrap() };
        device.wait(Ticket(ticket), std::time::Duration::ZERO).unwrap();
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0, "not even the first replay");
    // SAFETY: live, and nothing is running.
    unsafe {
        let words = device.map(block).unwrap().cast::<u32>();
        assert_eq!((*words.as_ptr(), *words.as_ptr().add(1023)), (400 * 50, 400 * 50));
        device.unbake(baked);
        device.free(block);
        device.discard(pipeline);
    }
}
