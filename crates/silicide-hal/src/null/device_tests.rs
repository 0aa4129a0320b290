//! The null device through its verbs and its back door.

use super::*;
use crate::cpu::Isa;
use crate::{MemoryKind, NativeKernel, NativeVariant, Tile, WgslKernel};

fn nothing(_: &Tile<'_>) {}
// SAFETY: it touches nothing.
static KERNEL: NativeKernel = unsafe {
    NativeKernel::new("nothing", |_| None, &[NativeVariant { isa: Isa::Portable, entry: nothing }])
};

fn alloc(device: &NullDevice, bytes: usize) -> Result<RawBlock> {
    // SAFETY: `RawDevice::alloc` demands a size within the limits: tests allocate up to 5 GiB, of a `max_block` of 64 GiB.
    unsafe { device.alloc(&BlockDesc { bytes, kind: MemoryKind::Shared }) }
}

fn compile(device: &NullDevice) -> Result<RawPipeline> {
    // SAFETY: nothing is ever run.
    unsafe { device.compile("label", &Program::Native(&KERNEL), None) }
}

fn submit(device: &NullDevice, ticket: u64) -> Result<()> {
    let mut list = CommandList::default();
    list.params.push(ticket as u32);
    // SAFETY: the list has no handles.
    unsafe { device.submit(&list, Ticket(ticket)) }
}

fn loss() -> HalError {
    HalError::DeviceLost { detail: "injected loss".into() }
}

#[test]
fn memory_is_real_and_counted() {
    let device = open(&NullOptions::default()).unwrap();
    let small = alloc(&device, 1000).unwrap();
    let huge = alloc(&device, 5 << 30).unwrap();
    let mut bytes = [1u8, 2, 3];
    let region = HostRegion { start: NonNull::from(&mut bytes).cast(), bytes: 3, writable: false };
    // SAFETY: the array outlives the block; blocks are live when mapped and freed once.
    unsafe {
        let imported = device.import(region).unwrap().unwrap();
        assert_eq!(device.counts().blocks, 3);
        assert_eq!(device.counts().bytes, 1000 + (5 << 30));
        let view = device.map(small).unwrap().as_mut();
        assert_eq!((view.len(), view.as_ptr() as usize % 256), (1000, 0));
        view.fill(9);
        assert_eq!(device.map(small).unwrap().as_ref()[999], 9);
        assert_eq!(device.map(huge), None);
        assert_eq!(device.map(imported.block).unwrap().as_ref(), [1, 2, 3]);
        device.free(small);
        device.free(huge);
        device.free(imported.block);
    }
    assert_eq!(device.counts(), Counts { allocs: 2, ..Counts::default() });
}

#[test]
fn lists_are_recorded_and_reached_at_once() {
    let device = open(&NullOptions::default().keep_lists(2)).unwrap();
    for ticket in 1..=3 {
        submit(&device, ticket).unwrap();
        assert_eq!(device.reached(), Ok(Ticket(ticket)));
        assert_eq!(device.wait(Ticket(ticket), Duration::ZERO), Ok(()));
    }
    let lists = device.lists();
    assert_eq!(
        lists.iter().map(|(ticket, list)| (ticket.0, list.params[0])).collect::<Vec<_>>(),
        [(2, 2), (3, 3)]
    );
    assert_eq!(device.counts().submissions, 3);
    let timeout = Duration::from_millis(2);
    assert_eq!(device.wait(Ticket(4), timeout), Err(HalError::Timeout { millis: 2 }));
}

#[test]
fn a_replay_is_recorded_as_a_submission_of_the_list() {
    let device = open(&NullOptions::default().hold()).unwrap();
    let mut list = CommandList::default();
    list.params.extend([1, 2, 3]);
    // SAFETY: the list has no handles.
    unsafe {
        let baked = device.bake(&list).unwrap();
        assert_eq!((device.counts().baked, device.counts().submissions), (1, 0));
        device.replay(baked, Ticket(1)).unwrap();
        device.replay(baked, Ticket(2)).unwrap();
        assert_eq!(device.reached(), Ok(Ticket(0)));
        device.release_all();
        device.unbake(baked);
    }
    assert_eq!((device.counts().baked, device.counts().submissions), (0, 2));
    assert_eq!(device.lists(), [(Ticket(1), list.clone()), (Ticket(2), list)]);
}

#[test]
fn both_kinds_of_programs_compile() {
    let device = open(&NullOptions::default().fail_compile(2)).unwrap();
    let native = compile(&device).unwrap();
    let failed = compile(&device).unwrap_err();
    assert!(matches!(failed, HalError::Compile { label, .. } if label == "label"));
    let program = Program::Wgsl(WgslKernel::new("gpu", &[], 0, 0));
    // SAFETY: nothing is ever run; both pipelines are live.
    unsafe {
        let wgsl = device.compile("gpu", &program, None).unwrap();
        assert_eq!(device.counts().pipelines, 2);
        device.discard(native);
        device.discard(wgsl);
    }
    assert_eq!((device.counts().pipelines, device.counts().compiles), (0, 3));
}

#[test]
fn the_nth_allocation_fails_once() {
    let device = open(&NullOptions::default().fail_alloc(2)).unwrap();
    alloc(&device, 8).unwrap();
    assert_eq!(alloc(&device, 16), Err(HalError::OutOfMemory { requested: 16 }));
    alloc(&device, 16).unwrap();
    assert_eq!((device.counts().blocks, device.counts().bytes), (2, 24));
}

#[test]
fn a_lost_device_stays_lost() {
    let device = open(&NullOptions::default().lose_at_submit(2)).unwrap();
    let block = alloc(&device, 8).unwrap();
    submit(&device, 1).unwrap();
    assert_eq!(submit(&device, 2), Err(loss()));
    assert_eq!(submit(&device, 3), Err(loss()));
    assert_eq!(alloc(&device, 8), Err(loss()));
    assert_eq!(compile(&device), Err(loss()));
    assert_eq!(device.wait(Ticket(1), Duration::ZERO), Err(loss()));
    assert_eq!(device.reached(), Err(loss()));
    // SAFETY: live.
    unsafe { device.free(block) };
    assert_eq!(device.counts().blocks, 0);
}

#[test]
fn a_waiting_thread_hears_of_the_loss() {
    let device = open(&NullOptions::default().hold().lose_at_submit(2)).unwrap();
    submit(&device, 1).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| device.wait(Ticket(1), Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(5));
        submit(&device, 2).unwrap_err();
        assert_eq!(waiter.join().unwrap(), Err(loss()));
    });
}

#[test]
fn held_work_is_in_flight_until_released() {
    let device = open(&NullOptions::default().hold()).unwrap();
    for ticket in 1..=4 {
        submit(&device, ticket).unwrap();
    }
    assert_eq!(device.reached(), Ok(Ticket(0)));
    assert_eq!(device.wait(Ticket(1), Duration::ZERO), Err(HalError::Timeout { millis: 0 }));
    device.release(Ticket(2));
    assert_eq!(device.reached(), Ok(Ticket(2)));
    let failure = HalError::KernelPanicked { label: "k".into(), detail: "d".into() };
    device.fail_ticket(Ticket(3), failure.clone());
    assert!(matches!(device.wait(Ticket(3), Duration::ZERO), Err(HalError::Timeout { .. })));
    device.release_all();
    assert_eq!(device.reached(), Ok(Ticket(4)));
    for _ in 0..2 {
        assert_eq!(device.wait(Ticket(3), Duration::ZERO), Err(failure.clone()));
    }
    assert_eq!(device.wait(Ticket(4), Duration::ZERO), Ok(()));
    device.set_hold(false);
    submit(&device, 5).unwrap();
    assert_eq!(device.reached(), Ok(Ticket(5)));
}
