//! Foreign memory: used in place, kept alive by its owner.

use crate::common::ops::{Accumulate, Scale};
use crate::common::{count, devices, holding_device, vector, wrapped};
use silicide_core::{Buffer, CommandEncoder, Device, Error, ForeignMemory, NativeBuffer, Recorder, Result};
use silicide_quant::DType;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whole pages of floats, which devices that import pages take, and a count of how often it was dropped.
struct Owner {
    layout: std::alloc::Layout,
    start: NonNull<u8>,
    dropped: Arc<AtomicUsize>,
}

// SAFETY: an address and a counter; each test reads the bytes from one thread, after the device is done.
unsafe impl Send for Owner {}
// SAFETY: shared owners give no access to the bytes; the counter is atomic.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

const BYTES: usize = 8192;

fn foreign(writable: bool) -> (ForeignMemory, Arc<AtomicUsize>) {
    let layout = std::alloc::Layout::from_size_align(BYTES, 4096).unwrap();
    // SAFETY: the size is not zero.
    let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).unwrap();
    for (i, value) in count(BYTES / 4).into_iter().enumerate() {
        // SAFETY: inside the memory, which is aligned.
        unsafe { start.cast::<f32>().add(i).write(value) };
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let owner = Box::new(Owner { layout, start, dropped: dropped.clone() });
    (ForeignMemory { start, bytes: BYTES, writable, owner }, dropped)
}

fn wrap(device: &Device, memory: ForeignMemory) -> Result<Buffer> {
    // SAFETY: the owner holds the memory, and only the buffer uses it.
    unsafe { Buffer::from_raw(device, memory, DType::F32, BYTES / 4) }
}

fn importing() -> Vec<Device> {
    devices().into_iter().filter(|device| device.info().features.host_import).collect()
}

#[test]
fn foreign_memory_is_used_in_place_and_its_owner_dropped_once() {
    for device in importing() {
        let (memory, dropped) = foreign(true);
        let address = memory.start;
        let buffer = wrap(&device, memory).unwrap();
        // SAFETY: only compared.
        assert_eq!(unsafe { buffer.as_raw_ptr() }.unwrap(), address);
        // SAFETY: only compared.
        let inner = unsafe { buffer.slice(3..5).unwrap().as_raw_ptr() }.unwrap();
        assert_eq!(inner.as_ptr() as usize, address.as_ptr() as usize + 12);
        let mut encoder = CommandEncoder::new(&device);
        encoder.run_into(Accumulate, &[&vector(&device, &[1.0; BYTES / 4])], &[&buffer]).unwrap();
        encoder.submit().unwrap().wait().unwrap();
        assert_eq!(buffer.read::<f32>().unwrap()[7], 8.0);
        let view = buffer.slice(0..1).unwrap();
        drop(buffer);
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(view);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn the_owner_lives_until_the_device_is_done() {
    let (device, raw, _released) = holding_device();
    let (memory, dropped) = foreign(false);
    let buffer = wrap(&device, memory).unwrap();
    let mut encoder = CommandEncoder::new(&device);
    encoder.run_one(Scale(1.0), &[&buffer]).unwrap();
    drop(buffer);
    assert_eq!(dropped.load(Ordering::SeqCst), 0, "it is being recorded");
    let submission = encoder.submit().unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), 0, "it is in flight");
    raw.release_all();
    submission.wait().unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn read_only_memory_is_never_written() {
    for device in importing() {
        let (memory, _) = foreign(false);
        let buffer = wrap(&device, memory).unwrap();
        assert!(!buffer.is_writable().unwrap());
        assert_error!(buffer.write::<f32>(), Error::ReadOnly { .. });
        assert_error!(buffer.copy_in(&count(BYTES / 4)), Error::ReadOnly { .. });
        assert_eq!(buffer.to_vec::<f32>().unwrap(), count(BYTES / 4));
    }
}

#[test]
fn foreign_memory_that_does_not_fit_is_refused_and_its_owner_dropped() {
    let device = Device::cpu().unwrap();
    let (mut memory, dropped) = foreign(true);
    memory.bytes -= 4;
    let text = assert_error!(wrap(&device, memory), Error::SizeMismatch { expected: 8192, got: 8188, .. });
    assert!(text.contains("from_raw"), "{text}");
    assert_eq!(dropped.load(Ordering::SeqCst), 1);

    let (mut memory, dropped) = foreign(true);
    // SAFETY: one byte into the memory.
    memory.start = unsafe { memory.start.add(2) };
    memory.bytes = 8;
    // SAFETY: inside the owner's memory.
    let result = unsafe { Buffer::from_raw(&device, memory, DType::F32, 2) };
    assert_error!(result, Error::Misaligned { alignment: 4, .. });
    assert_eq!(dropped.load(Ordering::SeqCst), 1);

    let (mut memory, _) = foreign(true);
    memory.bytes = 0;
    // SAFETY: no bytes at all.
    let result = unsafe { Buffer::from_raw(&device, memory, DType::F32, 0) };
    assert_error!(result, Error::ZeroSize { .. });

    let (memory, dropped) = foreign(true);
    assert!(format!("{memory:?}").contains("8192 bytes"));
    let (discrete, _) = wrapped::discrete();
    assert_error!(wrap(&discrete, memory), Error::NoImport { .. });
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn foreign_memory_does_not_count_against_the_budget() {
    let mut options = silicide_core::DeviceOptions::default();
    options.memory_budget = Some(4096);
    let device = Device::open_with("cpu", &options).unwrap();
    let buffer = wrap(&device, foreign(true).0).unwrap();
    assert_eq!(device.usage().total(), BYTES, "it is counted");
    drop(buffer);
    assert_eq!(device.usage().total(), 0);
    let kept = Buffer::allocate(&device, DType::U8, 4096).unwrap();
    assert_error!(Buffer::allocate(&device, DType::U8, 1), Error::OutOfMemory { .. });
    let buffer = wrap(&device, foreign(true).0).unwrap();
    drop((kept, buffer));
}

#[test]
fn devices_without_native_objects_neither_return_nor_accept_them() {
    let device = Device::cpu().unwrap();
    let mut bytes = [0u8; 64];
    let native = NativeBuffer { object: NonNull::from(&mut bytes).cast(), offset: 0, writable: true };
    // SAFETY: refused before anything is touched.
    unsafe {
        assert_error!(Buffer::from_native(&device, native, DType::F32, 16), Error::NoImport { .. });
        let odd = NativeBuffer { offset: 2, ..native };
        assert_error!(Buffer::from_native(&device, odd, DType::F32, 4), Error::Misaligned { .. });
        assert!(vector(&device, &[1.0]).as_native().unwrap().is_none());
    }
}
