//! The copies and fills of the Metal backend, run on the host: each as a kernel by hand, behind a WGSL of the same
//! bindings and parameters.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a failure should end the test")]

mod support;

use msl::{MslDevice, NEWEST};
use silicide_hal::{
    Binding, BlockDesc, CommandList, MemoryKind, NativeMsl, Part, Program, RawDevice, Snippet, Ticket,
    WgslKernel,
};
use std::time::Duration;

const fn by_hand(entry: &'static str) -> NativeMsl {
    NativeMsl {
        entry,
        text: include_str!("../../../crates/silicide-hal/src/metal/transfer.metal"),
        threadgroup_bytes: &[],
        language: (3, 0),
        simdgroup_matrix: false,
    }
}

static COPY_WORDS: NativeMsl = by_hand("copy_words");
static COPY_BYTES: NativeMsl = by_hand("copy_bytes");
static FILL_WORDS: NativeMsl = by_hand("fill_words");

/// Two bindings, and four words: a count of 64 bits, `first` and `second`.
static SHAPE: Snippet = Snippet {
    name: "transfer",
    text: "
struct Params { count: u32, above: u32, first: u32, second: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(256)
fn main() { y[0] = x[0] + p.first; }",
};

/// Runs a transfer between blocks of 4096 bytes, bound from byte 8 and byte 4 on. Returns the target's bytes.
fn run(native: &'static NativeMsl, words: [u32; 4], groups: u32) -> Option<Vec<u8>> {
    let device = MslDevice::new(support::clang()?, NEWEST).unwrap();
    let program = WgslKernel::new("transfer", &[Part::plain(&SHAPE)], 2, 2).native_msl(native);
    // SAFETY: `needs` accepts no launch; the tests dispatch it over blocks that it stays inside.
    let program = unsafe { program.unchecked(|_| None, &[]) };
    let desc = BlockDesc { bytes: 4096, kind: MemoryKind::Shared };
    // SAFETY: blocks and pipelines live to the end; tests stay inside; nothing runs while the memory is touched.
    unsafe {
        let pipeline = device.compile("transfer", &Program::Wgsl(program), None).unwrap();
        let [from, to] = [device.alloc(&desc).unwrap(), device.alloc(&desc).unwrap()];
        for (i, byte) in device.map(from).unwrap().as_mut().iter_mut().enumerate() {
            *byte = pattern(i);
        }
        device.map(to).unwrap().as_mut().fill(0xee);
        let bind = |block, offset| Binding { block, offset, bytes: 4096 - offset };
        let mut list = CommandList::default();
        list.dispatch(pipeline, [groups, 1, 1], &[bind(from, 8), bind(to, 4)], &words);
        device.submit(&list, Ticket(1)).unwrap();
        device.wait(Ticket(1), Duration::from_secs(10)).unwrap();
        Some(device.map(to).unwrap().as_ref().to_vec())
    }
}

fn pattern(i: usize) -> u8 {
    (i * 7 + i / 256) as u8
}

/// Returns the target's contents after `bytes` were written from `at` on.
fn expected(at: usize, bytes: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut all = vec![0xee; 4096];
    for (place, byte) in all[at..].iter_mut().zip(bytes) {
        *place = byte;
    }
    all
}

#[test]
fn words_are_copied_by_few_threads_and_by_many() {
    for groups in [1, 2, 5] {
        let Some(found) = run(&COPY_WORDS, [1000, 0, 0, 0], groups) else { return };
        assert_eq!(found, expected(4, (8..4008).map(pattern)), "{groups} groups");
    }
}

#[test]
fn bytes_are_copied_from_and_to_anywhere() {
    for (count, first, second) in [(1, 0, 3), (7, 1, 2), (1001, 3, 1), (13, 2, 0)] {
        let Some(found) = run(&COPY_BYTES, [count, 0, first, second], 1) else { return };
        let start = 8 + first as usize;
        let bytes = (start..start + count as usize).map(pattern);
        assert_eq!(found, expected(4 + second as usize, bytes), "{count} bytes, {first} to {second}");
    }
}

#[test]
fn words_are_filled() {
    let Some(found) = run(&FILL_WORDS, [300, 0, 0x0403_0201, 0], 1) else { return };
    assert_eq!(found, expected(4, [1, 2, 3, 4].repeat(300).into_iter()));
}
