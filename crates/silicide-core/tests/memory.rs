//! Memory: usage by purpose, budgets, blocks cut in ranges, and nothing left behind.

use crate::common::ops::{Scale, Triple};
use crate::common::{
    Released, count, devices, holding_device, null_device, null_device_with, vector, wrapped,
};
use proptest::prelude::*;
use silicide_core::hal::null::NullOptions;
use silicide_core::memory::{Allocation, Request};
use silicide_core::{
    Allocator, Buffer, BufferOptions, BufferPool, CommandEncoder, Device, DeviceOptions, Error, MemoryKind,
    Purpose, Recorder, Result,
};
use silicide_quant::DType;
use std::sync::Arc;

fn buffer(device: &Device, bytes: usize, purpose: Purpose) -> Result<Buffer> {
    let mut options = BufferOptions::default();
    options.purpose = purpose;
    let buffer = Buffer::with(device, DType::U8, bytes, &options)?;
    buffer.ensure_allocated()?;
    Ok(buffer)
}

/// Where a buffer lies: its first address, and one past its last.
fn place(buffer: &Buffer) -> (usize, usize) {
    // SAFETY: only compared.
    let start = unsafe { buffer.as_raw_ptr() }.unwrap().as_ptr() as usize;
    (start, start + buffer.size())
}

fn budget(bytes: usize) -> DeviceOptions {
    let mut options = DeviceOptions::default();
    options.memory_budget = Some(bytes);
    options
}

#[test]
fn usage_is_by_purpose_with_peaks() {
    for device in devices() {
        let weights = buffer(&device, 1 << 20, Purpose::Weights).unwrap();
        let cache =
            [buffer(&device, 256, Purpose::Cache).unwrap(), buffer(&device, 1, Purpose::Cache).unwrap()];
        let usage = device.usage();
        assert_eq!(usage.of(Purpose::Weights).bytes, 1 << 20);
        assert_eq!((usage.of(Purpose::Cache).bytes, usage.of(Purpose::Cache).count), (512, 2));
        assert_eq!(usage.of(Purpose::Other).bytes, 0);
        assert_eq!(usage.total(), (1 << 20) + 512);
        assert!(usage.reserved >= usage.total() && usage.blocks == 1, "{usage:?}");
        drop((weights, cache));
        let usage = device.usage();
        assert_eq!(usage.total(), 0);
        assert_eq!((usage.of(Purpose::Weights).peak, usage.of(Purpose::Weights).count), (1 << 20, 0));
        assert_eq!(usage.of(Purpose::Cache).peak, 512);
        let text = usage.to_string();
        assert!(
            text.contains("weights") && text.contains("peak 1.00") && !text.contains("staging"),
            "{text}"
        );
        device.trim();
        assert_eq!((device.usage().reserved, device.usage().blocks), (0, 0));
        assert!(device.usage().reserved_peak > 0);
    }
}

#[test]
fn kept_memory_counts_for_the_pool() {
    for device in devices() {
        let x = vector(&device, &count(1000));
        let mut encoder = CommandEncoder::new(&device);
        let y = encoder.run_one(Triple, &[&x]).unwrap();
        let usage = device.usage();
        assert_eq!((usage.of(Purpose::Activations).bytes, usage.of(Purpose::Pool).bytes), (8192, 0));
        encoder.submit().unwrap().wait().unwrap();
        let usage = device.usage();
        assert_eq!((usage.of(Purpose::Activations).bytes, usage.of(Purpose::Pool).bytes), (4096, 4096));
        drop(y);
        let usage = device.usage();
        assert_eq!((usage.of(Purpose::Activations).bytes, usage.of(Purpose::Pool).bytes), (0, 8192));
        device.trim();
        assert_eq!(device.usage().of(Purpose::Pool).bytes, 0);
    }
}

#[test]
fn a_budget_refuses_with_figures_and_keeps_earlier_allocations() {
    let (device, raw) = null_device_with(&NullOptions::default(), &budget(1 << 20));
    let first = buffer(&device, 700 << 10, Purpose::Weights).unwrap();
    let text = assert_error!(
        buffer(&device, 400 << 10, Purpose::Cache),
        Error::OutOfMemory { requested: 409_600, purpose: "cache", in_use: 716_800, limit: 1_048_576, .. }
    );
    assert!(text.contains("null") && text.contains("raise the budget"), "{text}");
    assert_eq!(device.usage().of(Purpose::Cache).bytes, 0, "nothing is charged for what was refused");
    // A lazy buffer that was refused can be had later.
    let lazy = Buffer::new(&device, DType::U8, 400 << 10).unwrap();
    assert_error!(lazy.write::<u8>(), Error::OutOfMemory { .. });
    drop(first);
    lazy.write::<u8>().unwrap().fill(1);
    assert_error!(buffer(&device, 2 << 20, Purpose::Cache), Error::OutOfMemory { .. });
    drop((lazy, device));
    assert_eq!((raw.counts().blocks, raw.counts().bytes), (0, 0));
}

#[test]
fn kept_memory_gives_way_to_requests() {
    let (device, _) = null_device_with(&NullOptions::default(), &budget(1 << 20));
    let pool = BufferPool::new(&device, 1 << 20);
    let kept = pool.buffer(DType::U8, 512 << 10).unwrap();
    kept.ensure_allocated().unwrap();
    drop(kept);
    assert_eq!(pool.usage().kept_bytes, 512 << 10);
    let large = buffer(&device, 900 << 10, Purpose::Weights).unwrap();
    assert_eq!(pool.usage().kept_bytes, 0);
    drop(large);
    // Finished work gives way too.
    let x = Buffer::allocate(&device, DType::F32, 100 << 10).unwrap();
    for _ in 0..20 {
        let mut encoder = CommandEncoder::new(&device);
        encoder.run_one(Scale(1.0), &[&x]).unwrap();
        let _ = encoder.submit().unwrap();
    }
}

#[test]
fn the_budget_waits_for_work_that_will_free_memory() {
    let (device, raw) = null_device_with(&NullOptions::default().hold(), &budget(1 << 20));
    let _released = Released(raw.clone());
    let x = Buffer::allocate(&device, DType::U8, 700 << 10).unwrap();
    let mut encoder = CommandEncoder::new(&device);
    encoder.copy(&x.view(0, 1024).unwrap(), &x.view(2048, 1024).unwrap()).unwrap();
    let _ = encoder.submit().unwrap();
    drop(x);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| buffer(&device, 700 << 10, Purpose::Other));
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(!asking.is_finished(), "the memory is in use by work in flight");
        raw.release_all();
        asking.join().unwrap().unwrap();
    });
}

#[test]
fn small_requests_share_blocks_and_large_ones_have_their_own() {
    let (device, raw) = null_device(&NullOptions::default());
    let small: Vec<Buffer> = (1..100).map(|bytes| buffer(&device, bytes, Purpose::Other).unwrap()).collect();
    assert_eq!(raw.counts().blocks, 1);
    let mut places: Vec<(usize, usize)> = small.iter().map(place).collect();
    places.sort_unstable();
    assert!(places.iter().all(|(start, _)| start % 256 == 0));
    assert!(places.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    let large = buffer(&device, (16 << 20) + 1, Purpose::Other).unwrap();
    assert_eq!(raw.counts().blocks, 2);
    drop(large);
    assert_eq!(raw.counts().blocks, 1);
    drop(small);
    assert_eq!(raw.counts().blocks, 1, "one empty block is kept");
    drop(device);
    assert_eq!((raw.counts().blocks, raw.counts().bytes), (0, 0));
}

#[test]
fn private_and_shared_memory_are_kept_apart() {
    let (device, backend) = wrapped::discrete();
    let mut options = BufferOptions::default();
    let pool = BufferPool::new(&device, 1 << 20);
    options.allocator = Some(pool.allocator());
    for round in 0..3 {
        for kind in [MemoryKind::Private, MemoryKind::Shared] {
            options.kind = kind;
            let buffer = Buffer::with(&device, DType::U8, 1000, &options).unwrap();
            assert_eq!(buffer.is_host_visible().unwrap(), kind == MemoryKind::Shared);
        }
        let usage = pool.usage();
        assert_eq!((usage.misses, usage.hits, usage.kept), (2, 2 * round, 2));
    }
    assert_eq!(backend.blocks(), (2, 1));
}

#[test]
fn a_refused_shared_block_is_replaced_by_a_block_for_the_request_alone() {
    // The first two attempts are for a shared block; the third is for the request alone.
    let (device, raw) = null_device(&NullOptions::default().fail_alloc(1).failing_allocs(2));
    let small = buffer(&device, 1000, Purpose::Other).unwrap();
    assert_eq!((raw.counts().blocks, raw.counts().bytes), (1, 1024));
    drop(small);
    assert_eq!((raw.counts().blocks, device.usage().reserved), (0, 0));
}

/// What random programs do with memory.
#[derive(Clone, Copy, Debug)]
enum Step {
    Take(usize),
    Give(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![1..2000usize, 1..(1usize << 20), (15usize << 20)..(18 << 20)];
    let step = prop_oneof![bytes.prop_map(Step::Take), (0..64usize).prop_map(Step::Give)];
    proptest::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ranges_are_disjoint_and_everything_comes_back(steps in steps()) {
        let (device, raw) = null_device(&NullOptions::default());
        let mut live: Vec<Buffer> = Vec::new();
        for step in steps {
            match step {
                Step::Take(bytes) => live.push(buffer(&device, bytes, Purpose::Other).unwrap()),
                Step::Give(index) if live.is_empty() => prop_assert_eq!(device.usage().total(), 0, "{}", index),
                Step::Give(index) => drop(live.swap_remove(index % live.len())),
            }
            let mut places: Vec<(usize, usize)> = live.iter().map(place).collect();
            places.sort_unstable();
            for pair in places.windows(2) {
                prop_assert!(pair[0].1 <= pair[1].0, "{pair:?}");
            }
            let rounded: usize = live.iter().map(|buffer| buffer.size().next_multiple_of(256)).sum();
            let usage = device.usage();
            prop_assert_eq!(usage.total(), rounded);
            prop_assert_eq!((usage.reserved, usage.blocks), (raw.counts().bytes, raw.counts().blocks));
        }
        live.clear();
        // Ranges were joined again: the kept block is empty, so it goes.
        device.trim();
        prop_assert_eq!((raw.counts().blocks, raw.counts().bytes), (0, 0));
    }
}

#[test]
fn ten_thousand_submissions_leave_memory_flat() {
    for device in devices() {
        let x = vector(&device, &count(2000));
        let run = |rounds: usize| {
            for round in 0..rounds {
                let mut encoder = CommandEncoder::new(&device);
                let half = encoder.run_one(Scale(0.5), &[&x]).unwrap();
                let other = Buffer::allocate(&device, DType::F32, 100 + round % 50).unwrap();
                let tripled = encoder.run_one(Triple, &[&half.slice(0..100 + round % 7).unwrap()]).unwrap();
                let submission = encoder.submit().unwrap();
                drop((half, tripled, other));
                if round % 100 == 99 {
                    submission.wait().unwrap();
                }
            }
            device.synchronize().unwrap();
            device.usage()
        };
        let warm = run(500);
        let after = run(9_500);
        assert_eq!((after.reserved, after.blocks), (warm.reserved, warm.blocks), "on {device:?}");
        assert!(after.total() <= warm.total() * 2, "{warm} then {after}");
        assert!(after.of(Purpose::Activations).bytes == 0 && after.of(Purpose::Other).count == 1, "{after}");
        device.trim();
        assert_eq!(device.usage().total(), 8192, "only x is left");
        assert_eq!(device.counters().submissions, 10_000);
    }
}

#[test]
fn ten_thousand_submissions_leave_the_backend_flat() {
    let (device, raw) = null_device(&NullOptions::default());
    let x = vector(&device, &count(2000));
    let mut flat = None;
    for round in 0..10_000 {
        let mut encoder = CommandEncoder::new(&device);
        let y = encoder.run_one(Triple, &[&x]).unwrap();
        drop((encoder.submit().unwrap(), y));
        if round == 10 {
            flat =
                Some((raw.counts().allocs, raw.counts().blocks, raw.counts().bytes, raw.counts().pipelines));
        }
    }
    let counts = raw.counts();
    assert_eq!(flat, Some((counts.allocs, counts.blocks, counts.bytes, counts.pipelines)));
    drop((x, device));
    assert_eq!((raw.counts().blocks, raw.counts().bytes, raw.counts().pipelines), (0, 0, 0));
}

/// A wrong allocator: requests less of another one, or on another device, or keeps the memory that it gets back.
#[derive(Debug)]
struct Crooked {
    inner: Arc<dyn Allocator>,
    bytes: Option<usize>,
    device: Option<Device>,
    shelf: std::sync::Mutex<Vec<Allocation>>,
}

impl Allocator for Crooked {
    fn name(&self) -> &'static str {
        "crooked"
    }
    fn allocate(&self, device: &Device, request: &Request) -> Result<Allocation> {
        if let Some(kept) = self.shelf.lock().unwrap().pop() {
            return Ok(kept);
        }
        let mut request = *request;
        request.bytes = self.bytes.unwrap_or(request.bytes);
        self.inner.allocate(self.device.as_ref().unwrap_or(device), &request)
    }
    fn release(&self, allocation: Allocation) {
        self.shelf.lock().unwrap().push(allocation);
    }
}

#[test]
fn allocators_cannot_hand_out_what_was_not_asked_for() {
    let (device, raw) = null_device(&NullOptions::default());
    let (other, other_raw) = null_device(&NullOptions::default());
    let of = |device: &Device| Arc::clone(Buffer::new(device, DType::U8, 1).unwrap().allocator());
    let crooked =
        |inner, bytes, device| Arc::new(Crooked { inner, bytes, device, shelf: std::sync::Mutex::default() });

    let short = Buffer::new_in(&device, crooked(of(&device), Some(8), None), DType::U8, 1000).unwrap();
    assert_error!(short.ensure_allocated(), Error::SizeMismatch { what: "allocator", expected: 1000, .. });
    let elsewhere =
        Buffer::new_in(&device, crooked(of(&other), None, Some(other.clone())), DType::U8, 1000).unwrap();
    assert_error!(elsewhere.ensure_allocated(), Error::WrongDevice { what: "allocator", .. });
    let foreign = Buffer::new_in(&device, of(&other), DType::U8, 1000).unwrap();
    assert_error!(foreign.read::<u8>(), Error::WrongDevice { .. });
    let pool = BufferPool::new(&other, 1 << 20);
    drop(pool.buffer(DType::U8, 1000).unwrap().write::<u8>().unwrap());
    let pooled = Buffer::new_in(&device, pool.allocator(), DType::U8, 1000).unwrap();
    assert_error!(pooled.ensure_allocated(), Error::WrongDevice { .. });

    // At once, with an allocator: what it does wrong is an error of the call.
    {
        let options = BufferOptions::default().allocator(crooked(of(&device), Some(8), None));
        let refused = Buffer::allocate_with(&device, DType::U8, 1000, &options);
        assert_error!(refused, Error::SizeMismatch { what: "allocator", expected: 1000, .. });
        let options = BufferOptions::default().allocator(of(&device)).purpose(Purpose::Weights);
        let eager = Buffer::allocate_with(&device, DType::U8, 1000, &options).unwrap();
        assert!(eager.is_allocated());
        assert_eq!(device.usage().of(Purpose::Weights).count, 1);
    }

    // Memory that an allocator keeps is zeroed again, counted for its new purpose, and may outlive the device.
    let keeper = crooked(of(&device), None, None);
    for purpose in [Purpose::Cache, Purpose::Weights] {
        let mut options = BufferOptions::default();
        (options.purpose, options.allocator) = (purpose, Some(Arc::<Crooked>::clone(&keeper) as _));
        let buffer = Buffer::with(&device, DType::U8, 1000, &options).unwrap();
        assert_eq!(buffer.to_vec::<u8>().unwrap(), [0; 1000]);
        buffer.copy_in(&[9u8; 1000]).unwrap();
        assert_eq!(device.usage().of(purpose).count, 1);
    }
    // Without `zeroed`, a buffer has the old contents.
    let mut options = BufferOptions::default();
    (options.zeroed, options.allocator) = (false, Some(Arc::<Crooked>::clone(&keeper) as _));
    assert_eq!(Buffer::with(&device, DType::U8, 1000, &options).unwrap().to_vec::<u8>().unwrap(), [9; 1000]);
    drop(options);
    assert_eq!(keeper.shelf.lock().unwrap().len(), 1);
    drop((short, elsewhere, foreign, pooled, pool, device, other));
    assert_eq!(raw.counts().blocks, 1);
    drop(keeper);
    assert_eq!((raw.counts().blocks, other_raw.counts().blocks), (0, 0));
}

#[test]
fn a_pool_keeps_only_what_it_could_have_handed_out() {
    let (device, raw) = null_device(&NullOptions::default());
    let pool = BufferPool::new(&device, 1 << 20);
    let device_allocator = Arc::clone(Buffer::new(&device, DType::U8, 1).unwrap().allocator());
    let odd = device_allocator.allocate(&device, &Request::new(768, Purpose::Other)).unwrap();
    pool.allocator().release(odd);
    assert_eq!(pool.usage().kept, 0, "768 bytes are no bucket");
    assert_eq!(device.usage().total(), 0);
    let other = null_device(&NullOptions::default()).0;
    let theirs = Arc::clone(Buffer::new(&other, DType::U8, 1).unwrap().allocator());
    pool.allocator().release(theirs.allocate(&other, &Request::new(1024, Purpose::Other)).unwrap());
    assert_eq!((pool.usage().kept, other.usage().total()), (0, 0));
    drop((pool, device, device_allocator));
    assert_eq!(raw.counts().blocks, 0);
}

#[test]
fn a_device_dropped_with_work_in_flight_leaves_nothing() {
    let (device, raw, _released) = holding_device();
    let x = vector(&device, &count(100));
    for _ in 0..3 {
        let mut encoder = CommandEncoder::new(&device);
        encoder.run_one(Triple, &[&x]).unwrap();
        let _ = encoder.submit().unwrap();
    }
    drop(x);
    std::thread::scope(|scope| {
        let dropping = scope.spawn(|| drop(device));
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(!dropping.is_finished(), "the work still runs");
        assert!(raw.counts().blocks > 0);
        raw.release_all();
    });
    assert_eq!((raw.counts().blocks, raw.counts().bytes, raw.counts().pipelines), (0, 0, 0));
}

#[test]
fn chains_of_one_list_do_not_wait_for_each_other() {
    let device = Device::cpu().unwrap();
    let [x, y] = [0, 1].map(|_| Buffer::new(&device, DType::F32, [1000]).unwrap());
    let before = device.counters();
    let mut encoder = CommandEncoder::new(&device);
    let (mut left, mut right) = (x, y);
    for _ in 0..20 {
        left = encoder.run_one(Scale(2.0), &[&left]).unwrap();
        right = encoder.run_one(Scale(3.0), &[&right]).unwrap();
    }
    encoder.submit().unwrap().wait().unwrap();
    // One between steps, none inside them.
    assert_eq!(device.counters().since(&before).barriers, 19);
}
