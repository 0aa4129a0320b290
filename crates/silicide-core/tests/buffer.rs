//! Buffers: making, viewing, asking, copying.

use crate::common::ops::Scale;
use crate::common::{count, devices, null_device, vector, wrapped};
use silicide_core::hal::null::NullOptions;
use silicide_core::{Buffer, BufferOptions, CommandEncoder, Device, Error, MemoryKind, Recorder};
use silicide_quant::{DType, Shape, ShapeError};
use std::collections::HashSet;

#[test]
fn memory_is_allocated_when_first_needed_or_at_once() {
    for device in devices() {
        let before = device.usage().total();
        let lazy = Buffer::new(&device, DType::F32, [3, 4]).unwrap();
        assert!(!lazy.is_allocated());
        assert_eq!(device.usage().total(), before);
        let view = lazy.slice(2..5).unwrap();
        assert_eq!(view.to_vec::<f32>().unwrap(), [0.0; 3], "new memory is zero");
        assert!(lazy.is_allocated(), "a view's memory is the buffer's");
        let eager = Buffer::allocate(&device, DType::F32, [3, 4]).unwrap();
        assert!(eager.is_allocated());
        assert!(device.usage().total() > before);
        lazy.ensure_allocated().unwrap();
    }
}

#[test]
fn memory_that_was_used_before_is_zero_again() {
    for device in devices() {
        for _ in 0..3 {
            let buffer = vector(&device, &[7.0; 1000]);
            drop(buffer);
            let fresh = Buffer::allocate(&device, DType::F32, 1000).unwrap();
            assert_eq!(fresh.to_vec::<f32>().unwrap(), vec![0.0; 1000]);
        }
    }
}

#[test]
fn ids_are_per_handle_and_storage_ids_per_allocation() {
    let device = Device::cpu().unwrap();
    let buffer = Buffer::new(&device, DType::F32, 8).unwrap();
    let handles = [
        buffer.clone(),
        buffer.view(0, 16).unwrap(),
        buffer.view(0, 16).unwrap(),
        buffer.slice(1..3).unwrap(),
        buffer.reshape([2, 4]).unwrap(),
        buffer.reinterpret(DType::U8).unwrap(),
        buffer.as_bytes().unwrap(),
    ];
    assert_eq!(handles[0].id(), buffer.id(), "a clone is the same handle");
    let ids: HashSet<_> = handles.iter().map(Buffer::id).collect();
    assert_eq!(ids.len(), handles.len());
    assert!(handles.iter().all(|handle| handle.storage_id() == buffer.storage_id()));
}

#[test]
fn storage_ids_are_never_used_again() {
    for device in devices() {
        let mut seen = HashSet::new();
        for _ in 0..100 {
            let buffer = Buffer::allocate(&device, DType::F32, 64).unwrap();
            assert!(seen.insert(buffer.storage_id()), "even though the memory is the same");
        }
    }
}

#[test]
fn views_compose() {
    for device in devices() {
        let buffer = vector(&device, &count(24));
        let middle = buffer.view(16, 64).unwrap();
        assert_eq!((middle.offset(), middle.size(), middle.total_size()), (16, 64, 96));
        assert_eq!((middle.elements(), middle.shape()), (16, Shape::new(&[16]).unwrap()));
        let inner = middle.slice(2..6).unwrap();
        assert_eq!((inner.offset(), inner.size(), inner.total_size()), (24, 16, 96));
        assert_eq!(inner.to_vec::<f32>().unwrap(), [6.0, 7.0, 8.0, 9.0]);
        let table = inner.reshape([2, 2]).unwrap();
        assert_eq!((table.offset(), table.shape().axes()), (24, &[2usize, 2][..]));
        let second = table.slice(2..4).unwrap();
        assert_eq!(second.to_vec::<f32>().unwrap(), [8.0, 9.0]);
        second.copy_in(&[-1.0f32, -2.0]).unwrap();
        assert_eq!(buffer.to_vec::<f32>().unwrap()[7..11], [7.0, -1.0, -2.0, 10.0]);
    }
}

#[test]
fn views_outside_are_refused_whatever_the_numbers() {
    let device = Device::cpu().unwrap();
    let buffer = Buffer::new(&device, DType::F32, 8).unwrap();
    let view = buffer.view(8, 16).unwrap();
    for (offset, bytes) in
        [(0, 20), (4, 16), (16, 4), (usize::MAX, 4), (usize::MAX - 3, 4), (4, usize::MAX - 3)]
    {
        let text = assert_error!(view.view(offset, bytes), Error::OutOfBounds { size: 16, .. });
        assert!(text.contains("outside"), "{text}");
    }
    for range in [3..5, 4..5, usize::MAX - 1..usize::MAX, 0..usize::MAX, usize::MAX / 4..usize::MAX / 4 + 1] {
        assert_error!(view.slice(range), Error::OutOfBounds { .. });
    }
    assert_error!(view.view(0, 0), Error::ZeroSize { .. });
    assert_error!(view.slice(2..2), Error::ZeroSize { .. });
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = 3..1;
    assert_error!(view.slice(reversed), Error::ZeroSize { .. });
    assert_error!(view.view(2, 4), Error::Misaligned { bytes: 2, alignment: 4, dtype: DType::F32, .. });
    assert_error!(view.view(0, 6), Error::Misaligned { bytes: 6, .. });
}

#[test]
fn sizes_that_are_nothing_or_too_much_are_refused() {
    for device in devices() {
        assert_error!(Buffer::new(&device, DType::F32, 0), Error::ZeroSize { .. });
        assert_error!(Buffer::new(&device, DType::F32, [4, 0, 2]), Error::ZeroSize { .. });
        let overflow = ShapeError::Overflow;
        assert_error!(Buffer::new(&device, DType::F32, usize::MAX),
            Error::BadShape { source, .. } if source == overflow);
        assert_error!(Buffer::new(&device, DType::F32, [usize::MAX, 2]), Error::BadShape { .. });
        assert_error!(
            Buffer::new(&device, DType::U8, [1, 1, 1, 1, 1, 1, 1]),
            Error::BadShape { source: ShapeError::Rank { got: 7 }, .. }
        );
        let text = assert_error!(
            Buffer::new(&device, DType::U8, usize::MAX),
            Error::TooLarge { what: "allocation", .. }
        );
        assert!(text.contains(&device.info().id), "{text}");
    }
    let (device, _) = null_device(&NullOptions::default().limits(1 << 20, 1 << 20));
    Buffer::allocate(&device, DType::U8, 1 << 20).unwrap();
    assert_error!(Buffer::new(&device, DType::U8, (1 << 20) + 1), Error::TooLarge { limit: 0x10_0000, .. });
}

#[test]
fn a_scalar_is_one_element() {
    for device in devices() {
        let scalar = Buffer::from_slice(&device, [], &[2.5f32]).unwrap();
        assert_eq!((scalar.elements(), scalar.size()), (1, 4));
        assert_eq!(scalar.item::<f32>().unwrap(), 2.5);
        assert_eq!(scalar.reshape([1, 1]).unwrap().item::<f32>().unwrap(), 2.5);
        let two = vector(&device, &[1.0, 2.0]);
        assert_eq!(two.slice(1..2).unwrap().item::<f32>().unwrap(), 2.0);
        assert_error!(two.item::<f32>(), Error::Shape { op: "item", .. });
        assert_error!(scalar.item::<i32>(), Error::DTypeMismatch { got: DType::F32, .. });
    }
}

#[test]
fn reshape_keeps_the_number_of_elements() {
    let device = Device::cpu().unwrap();
    let buffer = vector(&device, &count(12));
    assert_eq!(buffer.reshape([3, 4]).unwrap().reshape([2, 6]).unwrap().to_vec::<f32>().unwrap(), count(12));
    let text = assert_error!(buffer.reshape([5, 2]), Error::Shape { op: "reshape", .. });
    assert!(text.contains("12 elements"), "{text}");
    assert_error!(buffer.reshape([usize::MAX, usize::MAX]), Error::BadShape { .. });
    assert_error!(buffer.reshape([12, 0]), Error::Shape { .. });
}

#[test]
fn reinterpreting_needs_whole_aligned_elements() {
    let device = Device::cpu().unwrap();
    let buffer = Buffer::from_slice(&device, 6, &[1u16, 2, 3, 4, 5, 6]).unwrap();
    assert_eq!(buffer.as_bytes().unwrap().elements(), 12);
    assert_eq!(buffer.reinterpret(DType::U32).unwrap().to_vec::<u32>().unwrap()[0], 1 | 2 << 16);
    assert_error!(buffer.reinterpret(DType::F64), Error::Misaligned { bytes: 12, alignment: 8, .. });
    let odd = buffer.slice(1..3).unwrap();
    assert_error!(odd.reinterpret(DType::U32), Error::Misaligned { bytes: 2, alignment: 4, .. });
    let bytes = buffer.as_bytes().unwrap().view(3, 2).unwrap();
    assert_error!(bytes.reinterpret(DType::U16), Error::Misaligned { bytes: 3, .. });
}

#[test]
fn copies_check_type_and_count() {
    for device in devices() {
        let buffer = vector(&device, &count(5));
        assert_error!(buffer.copy_in(&[1.0f32; 4]), Error::SizeMismatch { expected: 20, got: 16, .. });
        assert_error!(buffer.copy_in(&[1u32; 5]), Error::DTypeMismatch { got: DType::F32, .. });
        let (mut four, mut ints) = ([0.0f32; 4], [0i32; 5]);
        assert_error!(buffer.copy_out(&mut four), Error::SizeMismatch { .. });
        assert_error!(buffer.copy_out(&mut ints), Error::DTypeMismatch { .. });
        assert_error!(buffer.to_vec::<u8>(), Error::DTypeMismatch { .. });
        assert_error!(Buffer::from_slice(&device, 3, &[1.0f32]), Error::SizeMismatch { .. });
        assert_eq!(buffer.to_vec::<f32>().unwrap(), count(5), "refused copies change nothing");
    }
}

#[test]
fn copies_between_buffers_of_one_device() {
    for device in devices() {
        for elements in [1, 3, 1000, 100_000] {
            let source = vector(&device, &count(elements));
            let target = Buffer::new(&device, DType::F32, elements).unwrap();
            target.copy_from(&source).unwrap();
            assert_eq!(target.to_vec::<f32>().unwrap(), count(elements));
        }
        // Bytes at odd places.
        let source = Buffer::from_slice(&device, 9, &[0u8, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let target = Buffer::new(&device, DType::U8, 11).unwrap();
        target.view(3, 5).unwrap().copy_from(&source.view(1, 5).unwrap()).unwrap();
        assert_eq!(target.to_vec::<u8>().unwrap(), [0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0]);
    }
}

#[test]
fn copies_within_a_buffer_must_not_overlap() {
    for device in devices() {
        let buffer = vector(&device, &count(8));
        let (low, high) = (buffer.slice(0..4).unwrap(), buffer.slice(4..8).unwrap());
        high.copy_from(&low).unwrap();
        assert_eq!(buffer.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0]);
        assert_error!(buffer.slice(1..5).unwrap().copy_from(&low), Error::Aliasing { .. });
        assert_error!(low.copy_from(&low), Error::Aliasing { .. });
        assert_error!(low.copy_from(&buffer), Error::SizeMismatch { expected: 16, got: 32, .. });
        assert_error!(low.copy_from(&high.reinterpret(DType::I32).unwrap()), Error::DTypeMismatch { .. });
    }
}

#[test]
fn copies_across_devices() {
    let all = [devices(), vec![wrapped::discrete().0]].concat();
    for from in &all {
        for to in &all {
            for kind in [MemoryKind::Shared, MemoryKind::Private] {
                let mut options = BufferOptions::default();
                options.kind = kind;
                let source = Buffer::with(from, DType::F32, 100, &options).unwrap();
                let target = Buffer::with(to, DType::F32, 100, &options).unwrap();
                source.copy_in(&count(100)).unwrap();
                target.copy_from(&source).unwrap();
                assert_eq!(target.to_vec::<f32>().unwrap(), count(100), "{from:?} to {to:?}");
                let (part, whole) = (target.slice(10..20).unwrap(), vector(from, &[5.0; 10]));
                part.copy_from(&whole).unwrap();
                assert_eq!(target.to_vec::<f32>().unwrap()[9..21].iter().sum::<f32>(), 9.0 + 50.0 + 20.0);
            }
        }
    }
}

#[test]
fn private_memory_is_reached_through_copies() {
    let (device, backend) = wrapped::discrete();
    let mut options = BufferOptions::default();
    options.kind = MemoryKind::Private;
    let buffer = Buffer::with(&device, DType::I32, 1000, &options).unwrap();
    assert!(!buffer.is_host_visible().unwrap());
    assert_eq!(backend.blocks().1, 1);
    assert_eq!(buffer.to_vec::<i32>().unwrap(), [0; 1000], "zero, though the host could not write it");
    assert_error!(buffer.read::<i32>(), Error::NotHostVisible { what: "read" });
    assert_error!(buffer.write::<i32>(), Error::NotHostVisible { what: "write" });
    // SAFETY: nothing is done with it.
    assert_error!(unsafe { buffer.as_raw_ptr() }, Error::NotHostVisible { .. });
    let values: Vec<i32> = (0..1000).collect();
    buffer.copy_in(&values).unwrap();
    assert_eq!(buffer.to_vec::<i32>().unwrap(), values);
    assert_eq!(buffer.slice(7..8).unwrap().item::<i32>().unwrap(), 7);
    buffer.slice(7..8).unwrap().copy_in(&[-7]).unwrap();
    assert_eq!(buffer.slice(6..9).unwrap().to_vec::<i32>().unwrap(), [6, -7, 8]);
    drop((buffer, device));
    assert_eq!(backend.blocks(), (0, 0), "staging memory went too");
}

#[test]
fn clones_share_and_outlive_each_other() {
    for device in devices() {
        let buffer = vector(&device, &count(4));
        let (clone, view) = (buffer.clone(), buffer.slice(1..3).unwrap());
        drop(buffer);
        view.copy_in(&[9.0f32, 8.0]).unwrap();
        assert_eq!(clone.to_vec::<f32>().unwrap(), [0.0, 9.0, 8.0, 3.0]);
        drop(clone);
        drop(device);
        assert_eq!(view.to_vec::<f32>().unwrap(), [9.0, 8.0], "a buffer keeps its device open");
    }
}

#[test]
fn buffers_describe_type_shape_and_size() {
    let device = Device::cpu().unwrap();
    let buffer = Buffer::new(&device, DType::BF16, [2, 3]).unwrap();
    let view = buffer.slice(1..3).unwrap();
    let storage = buffer.storage_id();
    assert_eq!(format!("{buffer:?}"), format!("Buffer(bf16[2, 3] on cpu, bytes 0..12 of {storage})"));
    assert_eq!(format!("{view:?}"), format!("Buffer(bf16[2] on cpu, bytes 2..6 of {storage})"));
    assert!(!buffer.is_allocated(), "asking allocates nothing");
    assert_eq!((buffer.device(), buffer.allocator().name()), (&device, "device"));
    assert_eq!(format!("{device:?}"), "Device(cpu)");
}

#[test]
fn every_element_type_survives_the_trip() {
    fn trip<T: silicide_quant::Element>(device: &Device) {
        let values: Vec<T> = (0..100).map(|i| T::from_f64(f64::from(i))).collect();
        let buffer = Buffer::from_slice(device, [10, 10], &values).unwrap();
        assert_eq!(buffer.dtype(), T::DTYPE);
        assert_eq!(buffer.to_vec::<T>().unwrap(), values);
        assert_eq!(*buffer.read::<T>().unwrap(), values);
    }
    for device in devices() {
        trip::<f32>(&device);
        trip::<f64>(&device);
        trip::<i8>(&device);
        trip::<i16>(&device);
        trip::<i32>(&device);
        trip::<i64>(&device);
        trip::<u8>(&device);
        trip::<u16>(&device);
        trip::<u32>(&device);
        trip::<u64>(&device);
        trip::<half::f16>(&device);
        trip::<half::bf16>(&device);
    }
}

#[test]
fn buffers_are_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Buffer>();
    shared::<silicide_core::ReadGuard<f32>>();
    shared::<silicide_core::WriteGuard<f32>>();
    for device in devices() {
        // All threads need the memory first; one allocation is made.
        let buffer = Buffer::new(&device, DType::U32, 8 * 1024).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let buffer = &buffer;
                scope.spawn(move || {
                    let part = buffer.slice(thread as usize * 1024..(thread as usize + 1) * 1024).unwrap();
                    part.write::<u32>().unwrap().fill(thread);
                });
            }
        });
        let values = buffer.to_vec::<u32>().unwrap();
        assert!(values.iter().enumerate().all(|(i, value)| *value as usize == i / 1024));
    }
}

#[test]
fn a_frozen_buffer_is_written_by_nothing() {
    for device in devices() {
        let (x, y) = (vector(&device, &[1.0, 2.0]), vector(&device, &[3.0, 4.0]));
        let guard = x.write::<f32>().unwrap();
        assert_error!(x.freeze(), Error::HostGuard { what: "freeze", .. });
        drop(guard);
        let view = x.slice(1..2).unwrap();
        view.freeze().unwrap();
        // SAFETY: the object is not used.
        let native = unsafe { x.as_native() }.unwrap();
        assert!(native.is_none_or(|native| !native.writable));
        assert!(!x.is_writable().unwrap() && y.is_writable().unwrap());
        assert_error!(x.write::<f32>().map(|_| ()), Error::ReadOnly { .. });
        assert_error!(x.copy_in(&[0.0f32; 2]), Error::ReadOnly { .. });
        assert_error!(x.copy_from(&y), Error::ReadOnly { .. });
        let mut encoder = CommandEncoder::new(&device);
        assert_error!(encoder.run_into(Scale(2.0), &[&y], &[&x]), Error::ReadOnly { .. });
        encoder.run_into(Scale(2.0), &[&x], &[&y]).unwrap();
        encoder.submit().unwrap().wait().unwrap();
        assert_eq!(
            (x.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap()),
            (vec![1.0, 2.0], vec![2.0, 4.0])
        );
    }
}

#[test]
fn forked_views_have_a_storage_of_their_own() {
    for device in devices() {
        let x = vector(&device, &count(8));
        let (tail, square) = (x.slice(4..8).unwrap(), x.reshape([2, 4]).unwrap());
        let forks = x.fork(&[&tail, &square]).unwrap();
        assert_eq!(forks[0].storage_id(), forks[1].storage_id());
        assert_ne!(forks[0].storage_id(), x.storage_id());
        assert_eq!((forks[0].offset(), forks[1].shape()), (16, square.shape()));
        forks[0].copy_in(&[9.0f32; 4]).unwrap();
        assert_eq!(forks[1].to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 9.0, 9.0, 9.0, 9.0]);
        assert_eq!(x.to_vec::<f32>().unwrap(), count(8));
        let other = vector(&device, &[1.0]);
        let error = assert_error!(x.fork(&[&other]), Error::OtherStorage { what: "fork", .. });
        assert!(error.contains(&format!("a view of storage {}", other.storage_id())), "{error}");
    }
}
