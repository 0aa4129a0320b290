//! Blocks: allocated, mapped, imported, adopted, given back.

use crate::kernels::{add, count};
use crate::rig::{Rig, range};
use silicide_hal::{BlockDesc, Command, CommandList, HalError, HostRegion, MemoryKind, NativeObject};
use std::io::Write;
use std::ptr::NonNull;

#[test]
fn blocks_are_mapped_and_given_back() {
    let rig = Rig::new();
    for bytes in [1, 255, 4096, 1 << 20] {
        let block = rig.alloc(bytes);
        assert_eq!(rig.bytes(block).len(), bytes);
        rig.bytes(block).fill(7);
        // SAFETY: live, never submitted.
        unsafe { rig.device.free(block) };
    }
    let desc = BlockDesc { bytes: 100, kind: MemoryKind::Private };
    // SAFETY: within the limits.
    let private = unsafe { rig.device.alloc(&desc) }.unwrap();
    // SAFETY: live.
    assert!(unsafe { rig.device.map(private) }.is_none());
    let (shared, back) = (rig.alloc_with(&[3u8; 100]), rig.alloc(100));
    let mut list = CommandList::default();
    list.commands.push(Command::Copy { src: range(shared, 0, 100), dst: range(private, 0, 100) });
    list.commands.push(Command::Barrier);
    list.commands.push(Command::Copy { src: range(private, 0, 100), dst: range(back, 0, 100) });
    rig.run(&list);
    assert_eq!(rig.bytes(back), [3u8; 100]);
}

#[test]
fn what_is_too_large_is_out_of_memory() {
    let rig = Rig::new();
    let bytes = rig.device.info().limits.max_block + 1;
    // SAFETY: refused before Metal is asked.
    let refused = unsafe { rig.device.alloc(&BlockDesc { bytes, kind: MemoryKind::Shared }) };
    assert_eq!(refused, Err(HalError::OutOfMemory { requested: bytes }));
}

#[test]
fn a_mapped_file_is_used_in_place() {
    let rig = Rig::new();
    if !rig.device.info().features.host_import {
        return;
    }
    let n = 20_000usize;
    let mut file = tempfile::tempfile().unwrap();
    let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
    file.write_all(bytemuck::cast_slice(&values)).unwrap();
    // SAFETY: the test has just made this temporary file, and nothing changes it while it is mapped.
    let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    // Starts in the second page of 16 KiB, at no multiple of anything but the element.
    let skip = 16384 + 12;
    let region =
        HostRegion { start: NonNull::from(&map[skip]).cast(), bytes: map.len() - skip, writable: false };
    // SAFETY: the mapping outlives the block, which is freed below.
    let imported = unsafe { rig.device.import(region) }.unwrap().unwrap();
    let (at, rest) = (imported.offset as u64, n - skip / 4);
    let (zeros, sum, tail) = (rig.alloc_with(&vec![0f32; rest]), rig.alloc(rest * 4), rig.alloc(7));
    let mut list = CommandList::default();
    let bytes = rest as u64 * 4;
    let bindings = [range(imported.block, 0, at + bytes), range(zeros, 0, bytes), range(sum, 0, bytes)];
    let params = [(at / 4) as u32, 0, 0, rest as u32];
    list.dispatch(rig.compile(add()), [rest.div_ceil(64) as u32, 1, 1], &bindings, &params);
    let src = range(imported.block, at + bytes - 7, 7);
    list.commands.push(Command::Copy { src, dst: range(tail, 0, 7) });
    rig.run(&list);
    assert_eq!(rig.read::<f32>(sum), &values[skip / 4..]);
    assert_eq!(rig.bytes(tail), &map[map.len() - 7..]);
    // SAFETY: live, its ticket was reached.
    unsafe { rig.device.free(imported.block) };
}

#[test]
fn a_buffer_of_metals_is_adopted_and_given_out() {
    let rig = Rig::new();
    let own = rig.alloc_with(&[5u32, 6]);
    // SAFETY: the block is live, and its buffer is used below for what no other command touches.
    let object = unsafe { rig.device.native(NativeObject::Block(own)) }.unwrap();
    // SAFETY: an `MTLBuffer` of this device.
    let adopted = unsafe { rig.device.adopt(object) }.unwrap().unwrap();
    assert_ne!(adopted, own);
    // SAFETY: live; the adopted block keeps the buffer.
    unsafe { rig.device.free(own) };
    let mut list = CommandList::default();
    list.dispatch(rig.compile(count()), [1, 1, 1], &[range(adopted, 0, 8)], &[1, 10]);
    rig.run(&list);
    assert_eq!(rig.read::<u32>(adopted)[..2], [5, 16]);
}
