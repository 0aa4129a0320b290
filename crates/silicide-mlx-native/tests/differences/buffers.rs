//! Slices, views and pools.

use super::buffers;
use mlx_native::ops::elementwise::elementwise_add;
use mlx_native::{DType, KernelRegistry, MlxBuffer, MlxBufferPool, MlxDevice, MlxError, Result};

fn add(device: &MlxDevice, a: &MlxBuffer, b: &MlxBuffer, sum: &MlxBuffer) -> Result<()> {
    let mut encoder = device.command_encoder()?;
    let registry = &mut KernelRegistry::new();
    elementwise_add(&mut encoder, registry, device.metal_device(), a, b, sum, 2, DType::F32)?;
    encoder.commit_and_wait()
}

#[test]
fn a_slice_keeps_its_values_when_the_device_writes_the_memory() {
    let (device, [a, sum]) = buffers([&[1.0, 2.0], &[0.0, 0.0]]);
    let before: &[f32] = sum.as_slice().unwrap();
    add(&device, &a, &a, &sum).unwrap();
    assert_eq!(before, [0.0, 0.0]);
    assert_eq!(sum.as_slice::<f32>().unwrap(), [2.0, 4.0]);
}

#[test]
fn other_handles_are_refused_while_an_exclusive_slice_is_held() {
    let (device, [mut a, b]) = buffers([&[1.0, 2.0], &[0.0, 0.0]]);
    let other = a.clone();
    let slice = a.as_mut_slice::<f32>().unwrap();
    assert!(matches!(other.as_slice::<f32>(), Err(MlxError::InvalidArgument(_))));
    assert!(other.clone().as_mut_slice::<f32>().is_err());
    assert!(other.contents_ptr().is_null());
    assert!(add(&device, &other, &other, &b).is_err());
    slice[0] = 5.0;
    // The slice has ended: a method of its handle may be called.
    assert_eq!(a.dtype(), DType::F32);
    drop(a);
    add(&device, &other, &other, &b).unwrap();
    assert_eq!(b.as_slice::<f32>().unwrap(), [10.0, 4.0]);
}

#[test]
fn a_handle_that_was_written_can_be_used_at_once() {
    let (device, [mut a, sum]) = buffers([&[1.0, 2.0], &[0.0, 0.0]]);
    a.as_mut_slice::<f32>().unwrap()[1] = 7.0;
    add(&device, &a, &a, &sum).unwrap();
    assert_eq!(sum.as_slice::<f32>().unwrap(), [2.0, 14.0]);
}

#[test]
fn a_view_out_of_range_has_no_bytes_and_is_refused() {
    let (device, [a]) = buffers([&[1.0, 2.0]]);
    for (offset, count) in [(4, 2), (u64::MAX, 1), (0, usize::MAX)] {
        let view = a.slice_view(offset, count);
        assert_eq!(view.data_byte_len(), 0);
        assert!(add(&device, &view, &a, &a).is_err());
    }
    assert_eq!(a.slice_view(4, 1).slice_view(0, 1).as_slice::<f32>().unwrap(), [2.0]);
}

#[test]
fn buffers_that_are_too_small_are_refused() {
    let (device, [a, short]) = buffers([&[1.0, 2.0], &[0.0]]);
    assert!(matches!(add(&device, &a, &a, &short), Err(MlxError::InvalidArgument(_))));
    assert!(matches!(device.alloc_buffer(0, DType::F32, vec![]), Err(MlxError::InvalidArgument(_))));
    let huge = device.alloc_buffer(usize::MAX, DType::U8, vec![]);
    assert!(matches!(huge, Err(MlxError::BufferAllocationError { .. } | MlxError::InvalidArgument(_))));
}

#[test]
fn slices_need_whole_aligned_elements() {
    let (_, [a]) = buffers([&[1.0, 2.0]]);
    assert!(a.as_slice::<[u8; 3]>().is_err());
    assert!(a.as_slice::<()>().is_err());
    let bytes = MlxBuffer::from_raw(a.metal_buffer().clone(), DType::U8, vec![8]);
    assert!(bytes.slice_view(2, 4).as_slice::<f32>().is_err());
    assert_eq!(bytes.slice_view(4, 4).as_slice::<f32>().unwrap(), [2.0]);
}

#[test]
fn a_pool_hands_the_same_memory_out_again() {
    let (device, []) = buffers([]);
    let mut pool = MlxBufferPool::new();
    let buffer = pool.alloc(&device, 100, DType::U8, vec![100]).unwrap();
    assert_eq!((buffer.data_byte_len(), buffer.byte_len(), pool.in_use_count()), (100, 128, 1));
    let address = buffer.contents_ptr();
    pool.release(buffer);
    assert_eq!((pool.free_count(), pool.free_bytes(), pool.in_use_count()), (1, 128, 0));
    let again = pool.alloc(&device, 128, DType::U8, vec![128]).unwrap();
    assert_eq!(again.contents_ptr(), address);
}
