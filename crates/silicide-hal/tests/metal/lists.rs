//! Lists: order, barriers, copies, fills, marks, waiting, and lists long enough to be cut.

use crate::kernels::{count, spin};
use crate::rig::{LONG, Rig, options, range};
use silicide_hal::{Command, CommandList, HalError, Ticket};
use std::time::Duration;

#[test]
fn a_barrier_orders_two_dispatches() {
    let rig = Rig::new();
    let pipeline = rig.compile(count());
    let block = rig.alloc_with(&[5u32]);
    let mut list = CommandList::default();
    list.dispatch(pipeline, [1, 1, 1], &[range(block, 0, 4)], &[0, 10]);
    list.commands.push(Command::Barrier);
    list.dispatch(pipeline, [1, 1, 1], &[range(block, 0, 4)], &[0, 100]);
    rig.run(&list);
    assert_eq!(rig.read::<u32>(block), [115]);
}

#[test]
fn submissions_follow_each_other_without_waiting() {
    let rig = Rig::new();
    let pipeline = rig.compile(count());
    let block = rig.alloc_with(&[0u32]);
    let mut last = Ticket(0);
    for step in 0..200 {
        let mut list = CommandList::default();
        list.dispatch(pipeline, [1, 1, 1], &[range(block, 0, 4)], &[0, step]);
        let (ticket, outcome) = rig.submit(&list);
        outcome.unwrap();
        last = ticket;
    }
    rig.device.wait(last, LONG).unwrap();
    assert_eq!(rig.device.reached().unwrap(), last);
    assert_eq!(rig.read::<u32>(block), [199 * 200 / 2]);
}

#[test]
fn copies_and_fills_are_of_any_bytes() {
    let rig = Rig::new();
    let from: Vec<u8> = (0..=255).collect();
    let (src, dst) = (rig.alloc_with(&from), rig.alloc(256));
    let mut list = CommandList::default();
    list.commands.push(Command::Fill { dst: range(dst, 0, 256), value: 0xaabb_ccdd });
    list.commands.push(Command::Barrier);
    list.commands.push(Command::Copy { src: range(src, 3, 13), dst: range(dst, 21, 13) });
    list.commands.push(Command::Copy { src: range(src, 255, 1), dst: range(dst, 255, 1) });
    list.commands.push(Command::Fill { dst: range(dst, 64, 12), value: 0x0102_0304 });
    // Within one block, too.
    list.commands.push(Command::Barrier);
    list.commands.push(Command::Copy { src: range(dst, 21, 5), dst: range(dst, 101, 5) });
    rig.run(&list);
    let mut want: Vec<u8> = [0xdd, 0xcc, 0xbb, 0xaa].repeat(64);
    want[21..34].copy_from_slice(&from[3..16]);
    want[255] = 255;
    want[64..76].copy_from_slice(&[4, 3, 2, 1].repeat(3));
    want[101..106].copy_from_slice(&from[3..8]);
    assert_eq!(rig.bytes(dst), want);
}

#[test]
fn marks_are_timed_when_asked_for() {
    let mut options = options();
    options.timing = true;
    let rig = Rig::with(&options);
    assert!(rig.device.info().features.timestamps);
    let pipeline = rig.compile(spin());
    let block = rig.alloc(400);
    let mut list = CommandList::default();
    for (label, rounds) in [("short", 1), ("long", 600_000)] {
        list.commands.push(Command::Mark { label });
        list.dispatch(pipeline, [100, 1, 1], &[range(block, 0, 400)], &[0, rounds]);
        list.commands.push(Command::Barrier);
    }
    let ticket = rig.run(&list);
    let spans = rig.device.spans(ticket);
    assert_eq!(spans.iter().map(|span| span.label).collect::<Vec<_>>(), ["short", "long"]);
    assert_eq!(spans[0].start_ns, 0);
    assert!(spans[1].duration_ns > spans[0].duration_ns, "{spans:?}");
    let mut many = CommandList::default();
    (0..300).for_each(|_| many.commands.push(Command::Mark { label: "tick" }));
    let many = rig.run(&many);
    assert_eq!(rig.device.spans(many).len(), 300);
    let plain = rig.run(&CommandList::default());
    assert!(rig.device.spans(plain).is_empty());
}

#[test]
fn marks_cost_nothing_otherwise() {
    let rig = Rig::new();
    assert!(!rig.device.info().features.timestamps);
    let mut list = CommandList::default();
    list.commands.push(Command::Mark { label: "a" });
    let ticket = rig.run(&list);
    assert!(rig.device.spans(ticket).is_empty());
}

/// Slow work teaches the device to cut, and what is cut still computes the same.
#[test]
fn long_lists_are_cut_and_stay_ordered() {
    let rig = Rig::new();
    let (spins, counts) = (rig.compile(spin()), rig.compile(count()));
    let (words, counter) = (rig.alloc(400_000), rig.alloc_with(&[0u32]));
    for _ in 0..2 {
        let mut list = CommandList::default();
        for _ in 0..100 {
            list.dispatch(spins, [100_000, 1, 1], &[range(words, 0, 400_000)], &[0, 2000]);
            list.dispatch(counts, [1, 1, 1], &[range(counter, 0, 4)], &[0, 1]);
            list.commands.push(Command::Barrier);
        }
        rig.run(&list);
    }
    assert_eq!(rig.read::<u32>(counter), [200]);
}

#[test]
fn a_wait_can_time_out() {
    let rig = Rig::new();
    let pipeline = rig.compile(spin());
    let words = 1_000;
    let block = rig.alloc(words as usize * 4);
    let mut list = CommandList::default();
    list.dispatch(pipeline, [words, 1, 1], &[range(block, 0, u64::from(words) * 4)], &[0, 1]);
    rig.run(&list);
    list.params[1] = 5_000_000;
    let (ticket, outcome) = rig.submit(&list);
    outcome.unwrap();
    assert_eq!(rig.device.wait(ticket, Duration::from_millis(5)), Err(HalError::Timeout { millis: 5 }));
    assert!(rig.device.reached().unwrap() < ticket);
    assert!(rig.device.spans(ticket).is_empty());
    rig.device.wait(ticket, LONG).unwrap();
    assert_eq!(rig.device.reached().unwrap(), ticket);
}

#[test]
fn replays_follow_each_other_without_waiting() {
    let rig = Rig::new();
    let pipeline = rig.compile(count());
    let block = rig.alloc_with(&[0u32]);
    let mut list = CommandList::default();
    for _ in 0..3 {
        list.dispatch(pipeline, [1, 1, 1], &[range(block, 0, 4)], &[0, 2]);
        list.commands.push(Command::Barrier);
    }
    // SAFETY: handles are live to the end of the test.
    let baked = unsafe { rig.device.bake(&list) }.unwrap();
    let last = (0..200).map(|_| rig.replay(baked)).last().unwrap();
    rig.device.wait(last, LONG).unwrap();
    assert_eq!(rig.read::<u32>(block), [1200]);
    // SAFETY: all were reached.
    unsafe { rig.device.unbake(baked) };
    // Its number may be used again, and lists are submitted in between.
    // SAFETY: as above.
    let baked = unsafe { rig.device.bake(&list) }.unwrap();
    rig.run(&list);
    rig.device.wait(rig.replay(baked), LONG).unwrap();
    assert_eq!(rig.read::<u32>(block), [1212]);
    // SAFETY: all were reached.
    unsafe { rig.device.unbake(baked) };
}

#[test]
fn every_replay_of_a_list_with_marks_has_spans_of_its_own() {
    let rig = Rig::new();
    let pipeline = rig.compile(count());
    let block = rig.alloc_with(&[0u32]);
    let mut list = CommandList::default();
    list.commands.push(Command::Mark { label: "count" });
    list.dispatch(pipeline, [1, 1, 1], &[range(block, 0, 4)], &[0, 3]);
    // SAFETY: handles are live to the end of the test.
    let baked = unsafe { rig.device.bake(&list) }.unwrap();
    let tickets: Vec<Ticket> = (0..5).map(|_| rig.replay(baked)).collect();
    rig.device.wait(tickets[4], LONG).unwrap();
    assert_eq!(rig.read::<u32>(block), [15]);
    for ticket in tickets {
        let spans = rig.device.spans(ticket);
        assert!(spans.len() == 1 || !rig.device.info().features.timestamps, "{spans:?}");
    }
    // SAFETY: all were reached.
    unsafe { rig.device.unbake(baked) };
}
