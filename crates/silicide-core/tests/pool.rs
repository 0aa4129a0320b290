//! Buffer pools: buckets, reuse behind tickets, budgets, eviction.

use crate::common::ops::Scale;
use crate::common::{devices, holding_device, null_device, vector};
use silicide_core::hal::null::NullOptions;
use silicide_core::memory::PoolUsage;
use silicide_core::{Buffer, BufferPool, CommandEncoder, Device, Error, Purpose, Recorder};
use silicide_quant::DType;

fn take(pool: &BufferPool, bytes: usize) -> Buffer {
    let buffer = pool.buffer(DType::U8, bytes).unwrap();
    buffer.ensure_allocated().unwrap();
    buffer
}

fn place(buffer: &Buffer) -> usize {
    // SAFETY: only compared.
    unsafe { buffer.as_raw_ptr() }.unwrap().as_ptr() as usize
}

#[test]
fn buckets_are_powers_of_two() {
    for device in devices() {
        let pool = BufferPool::new(&device, 1 << 20);
        for (bytes, bucket) in [(1, 256), (256, 256), (257, 512), (4000, 4096), (4097, 8192)] {
            let buffer = take(&pool, bytes);
            assert_eq!(device.usage().of(Purpose::Other).bytes, bucket);
            assert_eq!((buffer.size(), buffer.total_size()), (bytes, bytes), "the rest is not the buffer's");
            drop(buffer);
        }
        let usage = pool.usage();
        assert_eq!((usage.kept, usage.kept_bytes), (4, 256 + 512 + 4096 + 8192));
        assert_eq!((usage.misses, usage.hits), (4, 1));
    }
}

#[test]
fn returned_memory_is_reused_and_zeroed() {
    for device in devices() {
        let pool = BufferPool::new(&device, 1 << 20);
        let first = take(&pool, 1000);
        first.copy_in(&[7u8; 1000]).unwrap();
        let (was, id) = (place(&first), first.storage_id());
        drop(first);
        let second = take(&pool, 600);
        assert_eq!(place(&second), was);
        assert_ne!(second.storage_id(), id);
        assert_eq!(second.to_vec::<u8>().unwrap(), [0; 600]);
        let third = take(&pool, 600);
        assert_ne!(place(&third), was);
    }
}

#[test]
fn memory_is_used_again_only_behind_the_ticket_that_frees_it() {
    let (device, raw, _released) = holding_device();
    let pool = BufferPool::new(&device, 1 << 20);
    let x = vector(&device, &[1.0; 250]);
    let used = pool.buffer(DType::F32, 250).unwrap();
    let was = place(&used);
    let mut encoder = CommandEncoder::new(&device);
    encoder.run_into(Scale(2.0), &[&x], &[&used]).unwrap();
    drop(used);
    let while_recording = take(&pool, 1000);
    assert_ne!(place(&while_recording), was);
    let submission = encoder.submit().unwrap();
    let in_flight = take(&pool, 1000);
    assert_ne!(place(&in_flight), was);
    assert_eq!(pool.usage().hits, 0);
    raw.release(submission.ticket());
    let after = take(&pool, 1000);
    assert_eq!(place(&after), was);
    assert_eq!(pool.usage().hits, 1);
}

#[test]
fn the_budget_evicts_the_least_recently_used() {
    let (device, _) = null_device(&NullOptions::default());
    let pool = BufferPool::new(&device, 4096);
    let [a, b, c] = [1024, 1024, 2048].map(|bytes| take(&pool, bytes));
    let (at_a, at_b, at_c) = (place(&a), place(&b), place(&c));
    drop(b);
    drop(a);
    drop(c);
    assert_eq!(pool.usage(), PoolUsage { kept_bytes: 4096, kept: 3, hits: 0, misses: 3, evicted: 0 });
    drop(take(&pool, 512));
    let usage = pool.usage();
    assert_eq!((usage.kept, usage.kept_bytes, usage.evicted), (3, 512 + 1024 + 2048, 1));
    let again = take(&pool, 1024);
    assert_eq!(place(&again), at_a, "b came back first, so it went");
    assert_eq!(place(&take(&pool, 2048)), at_c);
    assert_ne!(at_a, at_b);
    let large = take(&pool, 5000);
    assert_eq!(device.usage().of(Purpose::Other).bytes, 1024 + 5120, "not rounded up: it can't be kept");
    drop(large);
    assert_eq!(pool.usage().evicted, 1);
}

#[test]
fn a_pool_without_a_budget_keeps_no_memory() {
    let (device, _) = null_device(&NullOptions::default());
    let pool = BufferPool::new(&device, 0);
    for _ in 0..3 {
        drop(take(&pool, 1000));
    }
    assert_eq!(pool.usage(), PoolUsage { misses: 3, ..PoolUsage::default() });
    assert_eq!(device.usage().total(), 0);
    assert_error!(pool.buffer(DType::U8, usize::MAX), Error::TooLarge { .. });
    assert_error!(pool.buffer(DType::U8, 0), Error::ZeroSize { .. });
}

#[test]
fn trimming_gives_everything_back() {
    for device in devices() {
        let pool = BufferPool::new(&device, 1 << 30);
        let live = take(&pool, 100);
        for bytes in [1000, 10_000, 20 << 20] {
            drop(take(&pool, bytes));
        }
        assert_eq!(pool.usage().kept, 3);
        assert!(device.usage().blocks >= 2);
        pool.trim();
        assert_eq!((pool.usage().kept, pool.usage().kept_bytes, pool.usage().evicted), (0, 0, 0));
        assert_eq!(device.usage().total(), 256, "the live one");
        drop(live);
        assert_eq!(pool.usage().kept, 1);
        device.trim();
        assert_eq!((pool.usage().kept, device.usage().reserved), (0, 0), "the device trims its pools");
    }
}

#[test]
fn buffers_outlive_their_pool() {
    let (device, raw) = null_device(&NullOptions::default());
    let pool = BufferPool::new(&device, 1 << 20);
    let (live, kept) = (take(&pool, 1000), take(&pool, 1000));
    live.copy_in(&[3u8; 1000]).unwrap();
    drop(kept);
    let clone = pool.clone();
    drop(pool);
    assert_eq!(clone.usage().kept, 1, "a clone is the same pool");
    drop(clone);
    assert_eq!(device.usage().of(Purpose::Pool).bytes, 0);
    assert_eq!(live.to_vec::<u8>().unwrap(), [3; 1000]);
    drop(live);
    assert_eq!(device.usage().total(), 0, "the pool that kept it is gone");
    drop(device);
    assert_eq!(raw.counts().blocks, 0);
}

#[test]
fn threads_share_a_pool() {
    let device = Device::cpu().unwrap();
    let pool = BufferPool::new(&device, 64 << 10);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..200usize {
                    let buffer = take(pool, 1 + (round * 37) % 5000);
                    buffer.write::<u8>().unwrap().fill(thread);
                    assert!(buffer.read::<u8>().unwrap().iter().all(|byte| *byte == thread));
                }
            });
        }
    });
    let usage = pool.usage();
    assert_eq!(usage.hits + usage.misses, 800);
    assert!(usage.kept_bytes <= 64 << 10);
    pool.trim();
    assert_eq!(device.usage().total(), 0);
}
