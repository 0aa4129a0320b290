//! The device runs kernels as an Apple GPU would: SIMD groups of 32, barriers, garbage in threadgroup memory. Kernels
//! that count on more than Metal promises show themselves.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a failure should end the test")]

mod support;

use msl::{MslDevice, NEWEST};
use silicide_hal::{
    Binding, BlockDesc, CommandList, HalError, MemoryKind, Part, Program, RawDevice, Snippet, Ticket,
    WgslKernel,
};
use std::time::Duration;

/// Runs a kernel of two bindings and no parameters of its own, once as it stands and once with its threads in reverse.
/// `x` holds 0, 1, 2...; returns the contents of `y` after each run.
/// `None` without a compiler.
fn run(snippet: &'static Snippet, threads: u32, groups: u32) -> Option<Result<[Vec<u32>; 2], HalError>> {
    support::clang().map(|clang| run_twice(&MslDevice::new(clang, NEWEST)?, snippet, threads, groups))
}

fn run_twice(
    device: &MslDevice,
    snippet: &'static Snippet,
    threads: u32,
    groups: u32,
) -> Result<[Vec<u32>; 2], HalError> {
    let count = (threads * groups) as usize;
    let program = WgslKernel::new("test", &[Part::plain(snippet)], 2, 0).constant("WG", threads);
    let desc = BlockDesc { bytes: 4 * count, kind: MemoryKind::Shared };
    let mut results = [Vec::new(), Vec::new()];
    // SAFETY: blocks and pipelines live to the end; bindings cover them; kernels of this file stay inside; nothing else
    // touches the memory between a wait and the next submission.
    unsafe {
        let pipeline = device.compile("test", &Program::Wgsl(program), None)?;
        let [x, y] = [device.alloc(&desc)?, device.alloc(&desc)?];
        let words = |block| device.map(block).unwrap().cast::<u32>().as_ptr();
        let bound = [x, y].map(|block| Binding { block, offset: 0, bytes: desc.bytes as u64 });
        for (ticket, result) in (1..).zip(&mut results) {
            for i in 0..count {
                words(x).add(i).write(i as u32);
                words(y).add(i).write(u32::MAX);
            }
            let mut list = CommandList::default();
            list.dispatch(pipeline, [groups, 1, 1], &bound, &[0, 0]);
            device.submit(&list, Ticket(ticket))?;
            device.wait(Ticket(ticket), Duration::from_secs(1))?;
            *result = (0..count).map(|i| words(y).add(i).read()).collect();
        }
    }
    Ok(results)
}

macro_rules! kernel {
    ($body:literal) => {{
        static SNIPPET: Snippet = Snippet {
            name: "test",
            text: concat!(
                "
override WG: u32 = 32u;
struct Params { at_x: u32, at_y: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
var<workgroup> cells: array<u32, WG>;
@compute @workgroup_size(WG)
fn main(
    @builtin(local_invocation_index) t: u32, @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) width: u32, @builtin(subgroup_id) simd: u32
) {
    let i = group.x * WG + t;
",
                $body,
                "\n}"
            ),
        };
        &SNIPPET
    }};
}

/// Both runs give what `expected` says of thread `i`.
#[track_caller]
fn gives(snippet: &'static Snippet, threads: u32, expected: impl Fn(u32) -> u32) {
    let all: Vec<u32> = (0..threads * 2).map(expected).collect();
    let Some(results) = run(snippet, threads, 2) else { return };
    let [forwards, backwards] = results.unwrap();
    assert_eq!(forwards, all);
    assert_eq!(backwards, all);
}

#[test]
fn threads_read_their_lane_simd_group_and_width() {
    gives(kernel!("y[i] = x[i] + 1000u * lane + 100000u * simd + 10000000u * width;"), 96, |i| {
        i + 1000 * (i % 32) + 100_000 * (i % 96 / 32) + 320_000_000
    });
}

#[test]
fn simd_groups_are_of_32_and_the_last_may_be_smaller() {
    // Of 48 threads, the second SIMD group has 16.
    let sum = |i: u32| {
        let (group, t) = (i / 48, i % 48);
        let (first, count) = if t < 32 { (0, 32) } else { (32, 16) };
        (first..first + count).map(|t| group * 48 + t).sum()
    };
    gives(kernel!("y[i] = subgroupAdd(x[i]);"), 48, sum);
    gives(kernel!("y[i] = subgroupMax(x[i]);"), 48, |i| i / 48 * 48 + if i % 48 < 32 { 31 } else { 47 });
    gives(kernel!("y[i] = subgroupExclusiveAdd(1u);"), 48, |i| i % 48 % 32);
}

#[test]
fn lanes_exchange_values() {
    gives(kernel!("y[i] = subgroupBroadcastFirst(x[i]);"), 64, |i| i / 32 * 32);
    gives(kernel!("y[i] = subgroupShuffle(x[i], 31u - lane);"), 64, |i| i / 32 * 32 + 31 - i % 32);
    gives(kernel!("y[i] = subgroupShuffleXor(x[i], 5u);"), 64, |i| i ^ 5);
    gives(kernel!("y[i] = subgroupBallot(x[i] % 3u == 0u).x;"), 64, |i| {
        (0..32).map(|lane| u32::from((i / 32 * 32 + lane) % 3 == 0) << lane).sum()
    });
}

#[test]
fn several_exchanges_in_a_row_do_not_mix() {
    gives(kernel!("y[i] = subgroupAdd(x[i]) - subgroupAdd(lane) + subgroupShuffleXor(lane, 1u);"), 64, |i| {
        i / 32 * 32 * 32 + ((i % 32) ^ 1)
    });
}

#[test]
fn barriers_hold() {
    gives(kernel!("cells[t] = x[i]; workgroupBarrier(); y[i] = cells[WG - 1u - t];"), 256, |i| {
        i / 256 * 256 + 255 - i % 256
    });
}

#[test]
fn a_missing_barrier_gives_two_results() {
    let lacking = kernel!("cells[t] = x[i]; y[i] = cells[WG - 1u - t];");
    let Some(results) = run(lacking, 64, 1) else { return };
    let [forwards, backwards] = results.unwrap();
    assert_ne!(forwards, backwards);
}

#[test]
fn threadgroup_memory_begins_as_garbage() {
    gives(kernel!("y[i] = cells[t]; workgroupBarrier(); cells[t] = 7u;"), 32, |_| u32::MAX);
}

#[test]
fn simd_groups_may_go_their_own_ways() {
    gives(kernel!("if simd == 0u { y[i] = subgroupAdd(1u); } else { y[i] = 1u; }"), 64, |i| {
        if i % 64 < 32 { 32 } else { 1 }
    });
}

/// A kernel is said to do this wrong.
#[track_caller]
fn faults(snippet: &'static Snippet, expected: &str) {
    match run(snippet, 64, 1) {
        None => (),
        Some(Err(HalError::KernelPanicked { detail, .. })) => assert!(detail.contains(expected), "{detail}"),
        Some(other) => panic!("{other:?}"),
    }
}

#[test]
fn threads_that_part_are_reported() {
    faults(kernel!("if t < 32u { workgroupBarrier(); } y[i] = 1u;"), "others never reach");
    faults(
        kernel!("if lane < 16u { y[i] = subgroupAdd(1u); } else { y[i] = subgroupMax(1u); }"),
        "different operations",
    );
}
