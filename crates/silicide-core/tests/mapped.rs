//! Mapped files: read in place, never written.

use crate::common::ops::{Add, Scale};
use crate::common::{count, devices, holding_device, null_device, vector, wrapped};
use silicide_core::hal::null::NullOptions;
use silicide_core::{Buffer, CommandEncoder, Device, Error, MappedFile, Purpose, Recorder};
use silicide_quant::DType;
use std::io::Write;

fn map(bytes: &[u8]) -> (tempfile::NamedTempFile, MappedFile) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file.flush().unwrap();
    // SAFETY: the test has just made this temporary file, and nothing changes it while it is mapped.
    let mapped = unsafe { MappedFile::open(file.path()) }.unwrap();
    (file, mapped)
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Devices that take host memory in place.
fn importing() -> Vec<Device> {
    devices().into_iter().filter(|device| device.info().features.host_import).collect()
}

#[test]
fn kernels_read_files_in_place() {
    let (_file, mapped) = map(&floats(&count(5000)));
    assert_eq!((mapped.bytes().len(), mapped.bytes()[4..8].to_vec()), (20_000, floats(&[1.0])));
    for device in importing() {
        // Begins in the middle of a page, and of a vector.
        let weights =
            Buffer::from_mapped(&device, &mapped, 12..12 + 4 * 4000, DType::F32, [4, 1000]).unwrap();
        assert!(weights.is_allocated() && !weights.is_writable().unwrap());
        assert_eq!(device.usage().of(Purpose::Weights).bytes, 16_000);
        assert_eq!(weights.read::<f32>().unwrap()[..3], [3.0, 4.0, 5.0]);
        let mut encoder = CommandEncoder::new(&device);
        let row = weights.slice(1000..2000).unwrap();
        let y = encoder.run_one(Scale(2.0), &[&row]).unwrap();
        encoder.submit().unwrap().wait().unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap()[..2], [2006.0, 2008.0]);
        let copy = Buffer::new(&device, DType::F32, [4, 1000]).unwrap();
        copy.copy_from(&weights).unwrap();
        assert_eq!(copy.to_vec::<f32>().unwrap()[3999], 4002.0);
        drop((weights, row));
        assert_eq!(device.usage().of(Purpose::Weights).bytes, 0);
    }
}

#[test]
fn files_are_never_written() {
    let (file, mapped) = map(&floats(&count(16)));
    for device in importing() {
        let weights = Buffer::from_mapped(&device, &mapped, 0..64, DType::F32, 16).unwrap();
        assert_error!(weights.write::<f32>(), Error::ReadOnly { what: "write" });
        assert_error!(weights.copy_in(&[0.0f32; 16]), Error::ReadOnly { what: "copy_in" });
        let other = vector(&device, &[9.0; 16]);
        assert_error!(weights.copy_from(&other), Error::ReadOnly { .. });
        let mut encoder = CommandEncoder::new(&device);
        assert_error!(encoder.copy(&other, &weights), Error::ReadOnly { what: "copy" });
        assert_error!(
            encoder.run_into(Scale(1.0), &[&other], &[&weights]),
            Error::ReadOnly { what: "scale" }
        );
        assert_error!(encoder.run_into(Add, &[&weights, &other], &[&weights]), Error::ReadOnly { .. });
    }
    assert_eq!(std::fs::read(file.path()).unwrap(), floats(&count(16)));
}

#[test]
fn ranges_are_checked() {
    let (device, _) = null_device(&NullOptions::default());
    let (_file, mapped) = map(&[1; 100]);
    let make = |range, dtype, shape: usize| Buffer::from_mapped(&device, &mapped, range, dtype, shape);
    make(0..100, DType::U8, 100).unwrap();
    assert_error!(make(0..101, DType::U8, 101), Error::OutOfBounds { size: 100, .. });
    assert_error!(make(96..104, DType::F32, 2), Error::OutOfBounds { offset: 96, bytes: 8, .. });
    assert_error!(make(usize::MAX - 4..usize::MAX, DType::F32, 1), Error::OutOfBounds { .. });
    assert_error!(make(50..50, DType::U8, 0), Error::ZeroSize { .. });
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = 60..50;
    assert_error!(make(reversed, DType::U8, 10), Error::ZeroSize { .. });
    assert_error!(make(0..16, DType::F32, 5), Error::SizeMismatch { expected: 20, got: 16, .. });
    assert_error!(make(2..18, DType::F32, 4), Error::Misaligned { bytes: 2, alignment: 4, .. });
    assert_error!(make(0..8, DType::F32, usize::MAX), Error::BadShape { .. });
}

#[test]
fn bytes_at_odd_places_are_not_taken_for_numbers() {
    let (_file, mapped) = map(&[1; 100]);
    for device in importing() {
        let odd = Buffer::from_mapped(&device, &mapped, 1..17, DType::U8, 16).unwrap();
        assert_eq!(odd.to_vec::<u8>().unwrap(), [1; 16]);
        let floats = odd.reinterpret(DType::F32).unwrap();
        assert_error!(floats.read::<f32>(), Error::Misaligned { alignment: 4, .. });
        let mut encoder = CommandEncoder::new(&device);
        assert_error!(encoder.run_one(Scale(1.0), &[&floats]), Error::Misaligned { alignment: 4, .. });
    }
}

#[test]
fn a_file_outlives_its_handle_and_goes_with_the_last_buffer() {
    let (device, raw, _released) = holding_device();
    let (_file, mapped) = map(&floats(&count(16)));
    let weights = Buffer::from_mapped(&device, &mapped, 0..64, DType::F32, 16).unwrap();
    drop(mapped);
    assert_eq!(weights.to_vec::<f32>().unwrap(), count(16));
    let mut encoder = CommandEncoder::new(&device);
    encoder.run_one(Scale(1.0), &[&weights]).unwrap();
    let submission = encoder.submit().unwrap();
    device.trim();
    let blocks = raw.counts().blocks;
    drop(weights);
    assert_eq!(raw.counts().blocks, blocks, "still in use by work in flight");
    raw.release_all();
    submission.wait().unwrap();
    assert_eq!(raw.counts().blocks, blocks - 1);
}

#[test]
fn a_file_that_cannot_be_mapped_names_its_reason() {
    let nowhere = std::path::Path::new("/nowhere/weights.bin");
    // SAFETY: there is no such file.
    let opened = unsafe { MappedFile::open(nowhere) };
    let text = assert_error!(opened.map_err(Error::from), Error::Weights(_));
    assert!(text.contains("/nowhere/weights.bin"), "{text}");
    let empty = tempfile::NamedTempFile::new().unwrap();
    // SAFETY: the file was made a line above, and no other process has its random name.
    if let Ok(mapped) = unsafe { MappedFile::open(empty.path()) } {
        let device = Device::cpu().unwrap();
        assert_error!(Buffer::from_mapped(&device, &mapped, 0..1, DType::U8, 1), Error::OutOfBounds { .. });
    }
    let (device, _) = wrapped::discrete();
    let (_file, mapped) = map(&[0; 64]);
    let text =
        assert_error!(Buffer::from_mapped(&device, &mapped, 0..64, DType::U8, 64), Error::NoImport { .. });
    assert!(text.contains("copy it"), "{text}");
}
