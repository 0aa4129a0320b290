//! Host views as arrays.

use crate::common::{count, devices, vector};
use silicide_core::{Buffer, Error};
use silicide_quant::DType;

#[test]
fn arrays_have_the_shape_of_their_buffer() {
    for device in devices() {
        let buffer = vector(&device, &count(24)).reshape([2, 3, 4]).unwrap();
        let guard = buffer.as_array::<f32>().unwrap();
        let array = guard.view().unwrap();
        assert_eq!((array.shape(), array[[1, 2, 3]], array[[0, 1, 0]]), (&[2, 3, 4][..], 23.0, 4.0));
        assert_eq!(array.sum(), 276.0);
        let scalar = vector(&device, &[5.0]).reshape([]).unwrap();
        assert_eq!(scalar.as_array::<f32>().unwrap().view().unwrap().ndim(), 0);
    }
}

#[test]
fn arrays_write_through() {
    for device in devices() {
        let buffer = Buffer::new(&device, DType::I32, [2, 2]).unwrap();
        let mut guard = buffer.as_array_mut::<i32>().unwrap();
        guard.view_mut().unwrap()[[1, 0]] = 7;
        assert_error!(buffer.as_array::<i32>(), Error::HostGuard { .. });
        drop(guard);
        assert_eq!(buffer.to_vec::<i32>().unwrap(), [0, 0, 7, 0]);
        assert_error!(buffer.as_array::<f32>(), Error::DTypeMismatch { .. });
    }
}
