//! Tests that need the inside of a device: nothing grows, nothing leaks, and a lost device stays lost.

use super::*;
use crate::{Binding, Command, HalError, MemoryKind, Part, Snippet, WgslKernel};

static TOUCH: Snippet = Snippet {
    name: "touch",
    text: "
struct TouchParams { at_x: u32 }
var<immediate> p: TouchParams;
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(1) fn main() { x[p.at_x] += 1u; }",
};

fn open() -> VulkanDevice {
    let options = VulkanOptions { validation: true, ..VulkanOptions::default() };
    VulkanDevice::open(0, &options).unwrap()
}

/// Returns a device with a list that uses everything.
fn busy() -> (VulkanDevice, RawBlock, CommandList) {
    let device = open();
    let program = Program::Wgsl(WgslKernel::new("touch", &[Part::plain(&TOUCH)], 1, 0));
    let mut list = CommandList::default();
    // SAFETY: within the limits; the kernel is sound for the list below.
    let block = unsafe {
        let block = device.alloc(&BlockDesc { bytes: 8, kind: MemoryKind::Shared }).unwrap();
        let pipeline = device.compile("touch", &program, None).unwrap();
        let at = |offset| Binding { block, offset, bytes: 4 };
        list.commands.push(Command::Fill { dst: at(0), value: 1 });
        list.commands.push(Command::Mark { label: "touch" });
        list.commands.push(Command::Barrier);
        list.dispatch(pipeline, [1, 1, 1], &[at(0)], &[0]);
        block
    };
    (device, block, list)
}

#[test]
fn a_thousand_submissions_keep_counts_flat() {
    let (device, _, list) = busy();
    for ticket in 1..=1000 {
        // SAFETY: handles are live, one thread submits.
        unsafe { device.submit(&list, Ticket(ticket)) }.unwrap();
        if ticket % 3 == 0 {
            device.wait(Ticket(ticket), Duration::from_secs(60)).unwrap();
        }
    }
    device.wait(Ticket(1000), Duration::from_secs(60)).unwrap();
    assert_eq!(device.spans(Ticket(1000)).len(), 1);
    assert_eq!(device.queue.recordings(), (3, 0));
    assert_eq!((device.blocks.read().len(), device.pipelines.read().len()), (1, 1));
    assert!(device.validation_messages().is_empty());
}

#[test]
fn a_flood_of_submissions_waits_for_the_oldest() {
    let (device, _, list) = busy();
    for ticket in 1..=500 {
        // SAFETY: handles are live, one thread submits.
        unsafe { device.submit(&list, Ticket(ticket)) }.unwrap();
    }
    let (idle, flying) = device.queue.recordings();
    assert!(idle + flying <= 64, "{idle} idle, {flying} flying");
    device.wait(Ticket(500), Duration::from_secs(60)).unwrap();
    assert!(device.validation_messages().is_empty());
}

/// The layer names every object that outlives its device.
#[test]
fn nothing_outlives_the_device() {
    let (device, _, list) = busy();
    // SAFETY: handles are live. Neither the ticket is waited for nor the block freed.
    unsafe { device.submit(&list, Ticket(1)) }.unwrap();
    let messages = device.gpu.messages().unwrap().clone();
    drop(device);
    assert_eq!(messages.position(), 0);
}

#[test]
fn a_lost_device_stays_lost() {
    let (device, block, list) = busy();
    // SAFETY: handles are live.
    unsafe { device.submit(&list, Ticket(1)) }.unwrap();
    device.wait(Ticket(1), Duration::from_secs(60)).unwrap();
    let lost = device.gpu.error("vkQueueSubmit", ash::vk::Result::ERROR_DEVICE_LOST);
    assert!(matches!(&lost, HalError::DeviceLost { detail } if detail.contains("vkQueueSubmit")), "{lost}");
    let desc = BlockDesc { bytes: 8, kind: MemoryKind::Private };
    // SAFETY: handles are live; the block is freed once.
    unsafe {
        assert_eq!(device.submit(&list, Ticket(2)), Err(lost.clone()));
        assert_eq!(device.alloc(&desc), Err(lost.clone()));
        // Giving back still works.
        device.free(block);
    }
    for ticket in [1, 2] {
        assert_eq!(device.wait(Ticket(ticket), Duration::ZERO), Err(lost.clone()));
    }
    assert_eq!(device.reached(), Err(lost));
}

#[test]
fn skipped_tickets_count_as_reached_with_those_before() {
    let (device, _, list) = busy();
    // SAFETY: handles are live.
    unsafe { device.submit(&list, Ticket(3)) }.unwrap();
    let error = HalError::OutOfMemory { requested: 7 };
    device.timeline.ledger.skip(Ticket(4), &error);
    assert_eq!(device.wait(Ticket(4), Duration::from_secs(60)), Err(error));
    assert_eq!(device.reached(), Ok(Ticket(4)));
    // SAFETY: handles are live, and the ticket is greater than all before.
    unsafe { device.submit(&list, Ticket(5)) }.unwrap();
    device.wait(Ticket(5), Duration::from_secs(60)).unwrap();
    assert_eq!(device.reached(), Ok(Ticket(5)));
}
