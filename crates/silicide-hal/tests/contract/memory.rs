//! Blocks: allocated, mapped, imported.

use super::kernels::ADD_WORKGROUP;
use super::{Bench, Rig, TestKernel, binding};
use silicide_hal::{Command, CommandList, HostRegion, MemoryKind};
use std::io::Write;
use std::ptr::NonNull;

/// A multiple of every page size that a backend imports by.
const PAGE: usize = 16 << 10;

pub(crate) fn a_shared_block_is_mapped_with_all_its_bytes<R: Rig>(bench: &Bench<R>) {
    for bytes in [1, 255, 4096, 1 << 20] {
        let block = bench.alloc(bytes, MemoryKind::Shared);
        // SAFETY: live, and no list uses it.
        let mapped = unsafe { bench.device.map(block).unwrap().as_mut() };
        assert_eq!(mapped.len(), bytes);
        mapped.fill(7);
        // SAFETY: live, no list uses it, and `mapped` is not used any more.
        assert!(unsafe { bench.device.map(block).unwrap().as_ref() }.iter().all(|byte| *byte == 7));
        bench.free(block);
    }
}

pub(crate) fn freed_blocks_do_not_disturb_live_ones<R: Rig>(bench: &Bench<R>) {
    let mut blocks: Vec<_> = (0..64u32).map(|i| (i, bench.bind(&[i; 100]))).collect();
    for round in 0..3 {
        let (freed, kept): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|(i, _)| i % 3 == round);
        freed.iter().for_each(|(_, binding)| bench.free(binding.block));
        blocks = kept;
        blocks.extend(freed.into_iter().map(|(i, _)| (i + 1000, bench.bind(&[i + 1000; 100]))));
        for (i, binding) in &blocks {
            assert_eq!(bench.read::<u32>(*binding), [*i; 100], "round {round}");
        }
    }
}

pub(crate) fn a_private_block_is_reached_by_copies<R: Rig>(bench: &Bench<R>) {
    let private = binding(bench.alloc(100, MemoryKind::Private), 0, 100);
    let (from, to) = (bench.bind(&[3u8; 100]), bench.bind(&[0u8; 100]));
    let mut list = CommandList::default();
    list.commands.push(Command::Copy { src: from, dst: private });
    list.commands.push(Command::Barrier);
    list.commands.push(Command::Copy { src: private, dst: to });
    bench.run(&list);
    assert_eq!(bench.bytes(to), [3; 100]);
}

pub(crate) fn a_binding_can_be_as_large_as_the_limit<R: Rig>(bench: &Bench<R>) {
    let limit = bench.device.info().limits.max_binding as u64;
    let large = binding(bench.alloc(limit as usize, MemoryKind::Private), 0, limit);
    let small = bench.bind(&[1f32, 2.0]);
    let mut list = CommandList::default();
    let params = [0, 0, (limit / 4 - 2) as u32, 2];
    list.dispatch(bench.compile(TestKernel::Add), [1, 1, 1], &[small, small, large], &params);
    list.commands.push(Command::Barrier);
    list.commands.push(Command::Copy { src: binding(large.block, limit - 8, 8), dst: small });
    bench.run(&list);
    assert_eq!(bench.read::<f32>(small), [2.0, 4.0]);
}

pub(crate) fn a_mapped_file_is_read_in_place<R: Rig>(bench: &Bench<R>) {
    assert!(bench.device.info().features.host_import, "the test device imports host memory");
    let values: Vec<f32> = (0..20_000).map(|i| i as f32).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytemuck::cast_slice(&values)).unwrap();
    // SAFETY: the test has just made this temporary file, and nothing changes it while it is mapped.
    let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    // Begins in the second page, at no multiple of anything but the element.
    let skip = PAGE + 12;
    let start = NonNull::from(&map[skip]).cast();
    let imported =
        bench.import(HostRegion { start, bytes: map.len() - skip, writable: false }).expect("imported");
    let (at, count) = (imported.offset as u64, values.len() - skip / 4);
    assert_eq!(at % 4, 0);
    let bytes = count as u64 * 4;
    let (zeros, sum) = (bench.bind(&vec![0f32; count]), bench.bind(&vec![0f32; count]));
    let tail = bench.bind(&[0u8; 7]);
    let mut list = CommandList::default();
    let window = binding(imported.block, 0, at + bytes);
    let grid = [(count as u32).div_ceil(ADD_WORKGROUP), 1, 1];
    let params = [(at / 4) as u32, 0, 0, count as u32];
    list.dispatch(bench.compile(TestKernel::Add), grid, &[window, zeros, sum], &params);
    list.commands.push(Command::Copy { src: binding(imported.block, at + bytes - 7, 7), dst: tail });
    bench.run(&list);
    assert_eq!(bench.read::<f32>(sum), &values[skip / 4..]);
    assert_eq!(bench.bytes(tail), &map[map.len() - 7..]);
    bench.free(imported.block);
}

pub(crate) fn writable_host_memory_is_written_in_place<R: Rig>(bench: &Bench<R>) {
    let mut pages = memmap2::MmapMut::map_anon(3 * PAGE).unwrap();
    let start = NonNull::from(&mut pages[PAGE]).cast();
    let imported = bench.import(HostRegion { start, bytes: PAGE, writable: true }).expect("imported");
    let mut list = CommandList::default();
    let dst = binding(imported.block, imported.offset as u64 + 16, 32);
    list.commands.push(Command::Fill { dst, value: 0x0101_0101 });
    bench.run(&list);
    bench.free(imported.block);
    let mut want = vec![0; 3 * PAGE];
    want[PAGE + 16..PAGE + 48].fill(1);
    assert_eq!(&pages[..], want);
}
