//! Memory of Metal: hidden private blocks, blocks beyond the limit, buffers of the application.

use crate::contract::{TestKernel, binding};
use crate::{bench, options};
use silicide_hal::{BlockDesc, CommandList, HalError, MemoryKind, NativeObject};

#[test]
fn a_private_block_is_not_mapped() {
    let bench = bench(&options());
    let private = bench.alloc(100, MemoryKind::Private);
    // SAFETY: live.
    assert!(unsafe { bench.device.map(private) }.is_none());
}

#[test]
fn a_block_beyond_the_limit_is_out_of_memory() {
    let bench = bench(&options());
    let bytes = bench.device.info().limits.max_block + 1;
    // SAFETY: refused before Metal is called.
    let refused = unsafe { bench.device.alloc(&BlockDesc { bytes, kind: MemoryKind::Shared }) };
    assert_eq!(refused, Err(HalError::OutOfMemory { requested: bytes }));
}

#[test]
fn a_buffer_of_the_application_is_adopted() {
    let bench = bench(&options());
    let own = bench.bind(&[5u32, 6]);
    // SAFETY: the block is live, and its buffer is used below for what no other command touches.
    let object = unsafe { bench.device.native(NativeObject::Block(own.block)) }.unwrap();
    // SAFETY: an `MTLBuffer` of this device.
    let adopted = unsafe { bench.device.adopt(object) }.unwrap().unwrap();
    assert_ne!(adopted, own.block);
    // The adopted block keeps the buffer.
    bench.free(own.block);
    let x = binding(adopted, 0, 8);
    let mut list = CommandList::default();
    list.dispatch(bench.compile(TestKernel::Affine), [1, 1, 1], &[x], &[1, 1, 10, 1, 1]);
    bench.run(&list);
    assert_eq!(bench.read::<u32>(x), [5, 16]);
    bench.free(adopted);
}
