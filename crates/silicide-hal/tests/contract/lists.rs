//! Lists: dispatches, copies, fills, barriers, tickets.

use super::kernels::ADD_WORKGROUP;
use super::{Bench, LONG, Rig, TestKernel, binding};
use silicide_hal::{Command, CommandList, HalError, Ticket};
use std::time::{Duration, Instant};

pub(crate) fn ticket_zero_is_always_reached<R: Rig>(bench: &Bench<R>) {
    assert_eq!(bench.device.reached(), Ok(Ticket(0)));
    assert_eq!(bench.device.wait(Ticket(0), Duration::ZERO), Ok(()));
    bench.run(&CommandList::default());
    assert_eq!(bench.device.wait(Ticket(0), Duration::ZERO), Ok(()));
}

pub(crate) fn tickets_may_leave_gaps<R: Rig>(bench: &Bench<R>) {
    for ticket in [3, 4, 900, 1_000_000] {
        bench.submit_as(&CommandList::default(), Ticket(ticket)).unwrap();
        bench.device.wait(Ticket(ticket), LONG).unwrap();
        assert_eq!(bench.device.reached(), Ok(Ticket(ticket)));
    }
}

pub(crate) fn an_empty_list_is_reached<R: Rig>(bench: &Bench<R>) {
    let mut barriers = CommandList::default();
    barriers.commands.extend([Command::Barrier; 3]);
    for list in [CommandList::default(), barriers] {
        let ticket = bench.run(&list);
        assert_eq!(bench.device.reached(), Ok(ticket));
    }
}

pub(crate) fn a_barrier_orders_two_dispatches<R: Rig>(bench: &Bench<R>) {
    let pipeline = bench.compile(TestKernel::Affine);
    let x = bench.bind(&[5u32]);
    let mut list = CommandList::default();
    list.dispatch(pipeline, [1, 1, 1], &[x], &[0, 10, 1, 1, 1]);
    list.commands.push(Command::Barrier);
    list.dispatch(pipeline, [1, 1, 1], &[x], &[0, 100, 2, 1, 1]);
    bench.run(&list);
    assert_eq!(bench.read::<u32>(x), [5102]);
}

pub(crate) fn parameters_belong_to_their_dispatch<R: Rig>(bench: &Bench<R>) {
    let pipeline = bench.compile(TestKernel::Affine);
    for count in [1u32, 2, 7, 1000, 10_000] {
        let x = bench.bind(&vec![1u32; count as usize]);
        let mut expected = vec![1u32; count as usize];
        let mut list = CommandList::default();
        for round in 0..20 {
            list.dispatch(pipeline, [count, 1, 1], &[x], &[0, 3, round, count, 1]);
            list.commands.push(Command::Barrier);
            for (i, value) in (0..).zip(&mut expected) {
                *value = value.wrapping_mul(3).wrapping_add(round).wrapping_add(i);
            }
        }
        bench.run(&list);
        assert_eq!(bench.read::<u32>(x), expected, "{count} workgroups");
    }
}

pub(crate) fn every_position_of_a_grid_runs_once<R: Rig>(bench: &Bench<R>) {
    let pipeline = bench.compile(TestKernel::Affine);
    for grid in [[1, 1, 1], [5, 7, 3], [17, 31, 23], [4095, 1, 1], [1, 4096, 1], [1, 1, 60_000]] {
        let count: u32 = grid.iter().product();
        let x = bench.bind(&vec![7u32; count as usize]);
        let mut list = CommandList::default();
        list.dispatch(pipeline, grid, &[x], &[0, 2, 1, grid[0], grid[1]]);
        bench.run(&list);
        assert!((0..).zip(bench.read::<u32>(x)).all(|(i, value)| value == 15 + i), "{grid:?}");
        bench.free(x.block);
    }
}

pub(crate) fn bindings_begin_at_their_offset<R: Rig>(bench: &Bench<R>) {
    let count = 700u32;
    let alignment = bench.device.info().limits.binding_alignment.max(4) as u64;
    let values: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let halves: Vec<f32> = values.iter().map(|value| 0.5 * value).collect();
    let (x, y, z) = (bench.bind(&values), bench.bind(&halves), bench.bind(&[!0u32; 1000]));
    // From element 7 of the second window of x, into element 3 of the second window of z.
    let (from, to) = (2 * alignment, alignment);
    let bindings = [binding(x.block, from, 4000 - from), y, binding(z.block, to, 4000 - to)];
    let mut list = CommandList::default();
    let grid = [count.div_ceil(ADD_WORKGROUP), 1, 1];
    list.dispatch(bench.compile(TestKernel::Add), grid, &bindings, &[7, 0, 3, count]);
    bench.run(&list);
    let (from, to) = (from as usize / 4 + 7, to as usize / 4 + 3);
    for (i, z) in bench.read::<f32>(z).into_iter().enumerate() {
        match i.checked_sub(to).filter(|j| *j < count as usize) {
            Some(j) => assert_eq!(z, values[from + j] + halves[j], "element {i}"),
            None => assert_eq!(z.to_bits(), !0, "element {i} is not the kernel's"),
        }
    }
}

pub(crate) fn copies_and_fills_touch_only_their_bytes<R: Rig>(bench: &Bench<R>) {
    let from: Vec<u8> = (0..=255).collect();
    let (src, dst) = (bench.bind(&from), bench.bind(&[0u8; 256]));
    let part = |of: silicide_hal::Binding, offset, bytes| binding(of.block, offset, bytes);
    let mut list = CommandList::default();
    list.commands.push(Command::Fill { dst, value: 0xaabb_ccdd });
    list.commands.push(Command::Barrier);
    list.commands.push(Command::Copy { src: part(src, 3, 13), dst: part(dst, 21, 13) });
    list.commands.push(Command::Copy { src: part(src, 255, 1), dst: part(dst, 255, 1) });
    list.commands.push(Command::Fill { dst: part(dst, 64, 12), value: 0x0102_0304 });
    list.commands.push(Command::Barrier);
    // Within one block.
    list.commands.push(Command::Copy { src: part(dst, 21, 5), dst: part(dst, 101, 5) });
    bench.run(&list);
    let mut want: Vec<u8> = [0xdd, 0xcc, 0xbb, 0xaa].repeat(64);
    want[21..34].copy_from_slice(&from[3..16]);
    want[255] = 255;
    want[64..76].copy_from_slice(&[4, 3, 2, 1].repeat(3));
    want[101..106].copy_from_slice(&from[3..8]);
    assert_eq!(bench.bytes(dst), want);
}

pub(crate) fn copies_and_fills_work_at_every_size<R: Rig>(bench: &Bench<R>) {
    for words in [1u32, 2, 16_384, 65_536, 65_537, 300_001] {
        let values: Vec<u32> = (0..words).collect();
        let (src, copy) = (bench.bind(&values), bench.bind(&vec![9u32; words as usize]));
        let filled = bench.bind(&vec![9u32; words as usize + 2]);
        let inner = binding(filled.block, 4, filled.bytes - 8);
        let mut list = CommandList::default();
        list.commands.push(Command::Copy { src, dst: copy });
        list.commands.push(Command::Fill { dst: inner, value: 0xdead_beef });
        bench.run(&list);
        assert_eq!(bench.read::<u32>(copy), values);
        assert!(bench.read::<u32>(inner).iter().all(|word| *word == 0xdead_beef), "{words} words");
        let around = bench.read::<u32>(filled);
        assert_eq!((around[0], around[words as usize + 1]), (9, 9), "{words} words");
    }
}

pub(crate) fn submissions_follow_each_other_without_waiting<R: Rig>(bench: &Bench<R>) {
    let pipeline = bench.compile(TestKernel::Affine);
    let x = bench.bind(&[0u32]);
    let mut last = Ticket(0);
    for step in 0..200 {
        let mut list = CommandList::default();
        list.dispatch(pipeline, [1, 1, 1], &[x], &[0, 1, step, 1, 1]);
        let (ticket, submitted) = bench.submit(&list);
        submitted.unwrap();
        last = ticket;
    }
    bench.device.wait(last, LONG).unwrap();
    assert_eq!(bench.device.reached(), Ok(last));
    assert_eq!(bench.read::<u32>(x), [199 * 200 / 2]);
}

pub(crate) fn a_wait_times_out_while_its_list_runs<R: Rig>(bench: &Bench<R>) {
    let (pipeline, x) = (bench.compile(TestKernel::Spin), bench.bind(&[0u32; 1000]));
    let mut list = CommandList::default();
    let mut taken = Duration::ZERO;
    // Twice the work until it takes long on this device.
    while taken < Duration::from_millis(100) {
        for _ in 0..list.commands.len().max(1) {
            list.dispatch(pipeline, [1000, 1, 1], &[x], &[0, 60_000]);
            list.commands.push(Command::Barrier);
        }
        // The shorter of two runs: one may have waited for a core.
        let timed = || {
            let started = Instant::now();
            bench.run(&list);
            started.elapsed()
        };
        taken = timed().min(timed());
    }
    let (ticket, submitted) = bench.submit(&list);
    submitted.unwrap();
    assert_eq!(bench.device.wait(ticket, Duration::from_millis(5)), Err(HalError::Timeout { millis: 5 }));
    assert!(bench.device.reached().unwrap() < ticket);
    assert!(bench.device.spans(ticket).is_empty());
    bench.device.wait(ticket, LONG).unwrap();
    assert_eq!(bench.device.reached(), Ok(ticket));
}
