//! Blocks: allocated, mapped, imported, given back.

use crate::kernels::add;
use crate::rig::{Rig, range};
use silicide_hal::{BlockDesc, Command, CommandList, HostRegion, MemoryKind};
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
    let shared = rig.alloc_with(&[3u8; 100]);
    let back = rig.alloc(100);
    let mut list = CommandList::default();
    list.commands.push(Command::Copy { src: range(shared, 0, 100), dst: range(private, 0, 100) });
    list.commands.push(Command::Barrier);
    list.commands.push(Command::Copy { src: range(private, 0, 100), dst: range(back, 0, 100) });
    rig.run(&list);
    assert_eq!(rig.bytes(back), [3u8; 100]);
}

/// The largest block is at least the largest binding, and can be had.
#[test]
fn a_binding_can_be_as_large_as_promised() {
    let rig = Rig::new();
    let limits = rig.device.info().limits;
    assert!(limits.max_binding <= limits.max_block);
    let desc = BlockDesc { bytes: limits.max_binding, kind: MemoryKind::Private };
    // SAFETY: within the limits.
    let block = unsafe { rig.device.alloc(&desc) }.unwrap();
    let kernel = rig.compile(add());
    let small = rig.alloc_with(&[1f32, 2.0]);
    let mut list = CommandList::default();
    let bindings = [range(small, 0, 8), range(small, 0, 8), range(block, 0, limits.max_binding as u64)];
    list.dispatch(kernel, [1, 1, 1], &bindings, &[0, 0, (limits.max_binding / 4 - 2) as u32, 2]);
    list.commands.push(Command::Barrier);
    let end = limits.max_binding as u64 - 8;
    list.commands.push(Command::Copy { src: range(block, end, 8), dst: range(small, 0, 8) });
    rig.run(&list);
    assert_eq!(rig.read::<f32>(small), [2.0, 4.0]);
}

#[test]
fn a_mapped_file_is_used_in_place() {
    let rig = Rig::new();
    assert!(rig.device.info().features.host_import, "the test device imports host memory");
    let n = 5000usize;
    let mut file = tempfile::tempfile().unwrap();
    let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
    file.write_all(bytemuck::cast_slice(&values)).unwrap();
    // SAFETY: the test has just made this temporary file, and nothing changes it while it is mapped.
    let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    // Starts in the second page, at no multiple of anything but the element.
    let skip = 4096 + 12;
    let region =
        HostRegion { start: NonNull::from(&map[skip]).cast(), bytes: map.len() - skip, writable: false };
    // SAFETY: the mapping outlives the block, which is freed below.
    let imported = unsafe { rig.device.import(region) }.unwrap().unwrap();
    assert_eq!(imported.offset, 12);
    let kernel = rig.compile(add());
    let rest = n - skip / 4;
    let (zeros, sum, tail) = (rig.alloc_with(&vec![0f32; rest]), rig.alloc(rest * 4), rig.alloc(7));
    let mut list = CommandList::default();
    let bytes = rest as u64 * 4;
    let bindings = [range(imported.block, 0, 12 + bytes), range(zeros, 0, bytes), range(sum, 0, bytes)];
    list.dispatch(kernel, [rest.div_ceil(64) as u32, 1, 1], &bindings, &[3, 0, 0, rest as u32]);
    let src = range(imported.block, 12 + bytes - 7, 7);
    list.commands.push(Command::Copy { src, dst: range(tail, 0, 7) });
    rig.run(&list);
    assert_eq!(rig.read::<f32>(sum), &values[skip / 4..]);
    assert_eq!(rig.bytes(tail), &map[map.len() - 7..]);
    // SAFETY: live, its ticket was reached.
    unsafe { rig.device.free(imported.block) };
}

#[test]
fn writable_host_memory_is_written_in_place() {
    let rig = Rig::new();
    let mut pages = memmap2::MmapMut::map_anon(3 * 4096).unwrap();
    let region = HostRegion { start: NonNull::from(&mut pages[4096]).cast(), bytes: 4096, writable: true };
    // SAFETY: the pages outlive the block, and only the device touches them meanwhile.
    let block = unsafe { rig.device.import(region) }.unwrap().unwrap().block;
    let mut list = CommandList::default();
    list.commands.push(Command::Fill { dst: range(block, 16, 32), value: 0x0101_0101 });
    rig.run(&list);
    // SAFETY: live, its ticket was reached.
    unsafe { rig.device.free(block) };
    let mut want = vec![0; 3 * 4096];
    want[4096 + 16..4096 + 48].fill(1);
    assert_eq!(&pages[..], want);
}
