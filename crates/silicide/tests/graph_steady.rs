//! Replaying a graph allocates nothing on the host: counted by an allocator that knows the thread.
#![allow(clippy::unwrap_used)]

use silicide::graph::{GraphBuilder, GraphExecutor, GraphOptions};
use silicide::kernel::TensorInfo;
use silicide::ops::glu::Activation;
use silicide::{Buffer, DType, Device, Shape, ops};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is the system allocator's; counting touches no memory of its own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the conditions of `GlobalAlloc::alloc` hold for `layout`, and are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: `alloc` above took `start` from `System` with this layout.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn replays_allocate_nothing() {
    let gpu = Device::open("vulkan:0");
    for device in [Device::cpu(), gpu].into_iter().flatten() {
        let mut builder = GraphBuilder::new(&device);
        let info = TensorInfo::new(DType::F32, Shape::new(&[3, 256]).unwrap());
        let mut x = builder.input("x", info);
        for _ in 0..10 {
            let y = ops::rms_norm(&mut builder, &x, None, 1e-5).unwrap();
            let gated = ops::glu(&mut builder, Activation::Silu, &y, &x).unwrap();
            x = ops::add(&mut builder, &gated, &x).unwrap();
        }
        let (parameter, offset) = builder.parameter("offset", info).unwrap();
        let x = ops::add(&mut builder, &x, &offset).unwrap();
        let executor = GraphExecutor::new(builder.finish(&[&x]).unwrap(), &GraphOptions::default()).unwrap();
        let values: Vec<f32> = (0..3 * 256).map(|i| (i as f32).sin()).collect();
        let input = Buffer::from_slice(&device, [3, 256], &values).unwrap();
        let mut session = executor.session(&[&input]).unwrap();
        let mut round = |times: usize| {
            let before = ALLOCATIONS.get();
            for round in 0..times {
                session.set(parameter, &[round as f32; 3 * 256]).unwrap();
                session.replay().unwrap().wait().unwrap();
            }
            ALLOCATIONS.get() - before
        };
        round(5);
        assert!(ALLOCATIONS.get() > 0, "the allocator counts");
        let usage = device.usage().total();
        assert_eq!(round(50), 0, "{device:?}");
        assert_eq!(device.usage().total(), usage, "{device:?}");
    }
}
