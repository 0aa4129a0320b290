//! The kernel registry: compiled once, shared between threads, kept on disk.

use crate::common::ops::{Scale, broken, native_add, variant};
use crate::common::{count, devices, null_device, null_device_with, vector};
use silicide_core::hal::null::NullOptions;
use silicide_core::hal::{HalError, Program};
use silicide_core::kernel::RegistryUsage;
use silicide_core::{CommandEncoder, Device, DeviceOptions, Error, Recorder};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

#[test]
fn threads_that_ask_at_once_share_one_compilation() {
    let (device, raw) = null_device(&NullOptions::default());
    let together = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                together.wait();
                for number in 0..20 {
                    device.kernels().warm_up(&[variant(number)]).unwrap();
                }
            });
        }
    });
    assert_eq!((raw.counts().compiles, raw.counts().pipelines), (20, 20));
    let usage = device.kernels().usage();
    assert_eq!(usage, RegistryUsage { kernels: 20, compiled: 20, from_cache: 0, refused: 0, ignored: 0 });
    drop(device);
    assert_eq!(raw.counts().pipelines, 0);
}

#[test]
fn warming_up_compiles_everything_once() {
    for device in devices() {
        let programs: Vec<Program> = match device.info().is_gpu() {
            true => (0..12).chain(0..12).map(variant).collect(),
            false => vec![native_add(); 3],
        };
        let kinds = if device.info().is_gpu() { 12 } else { 1 };
        device.kernels().warm_up(&programs).unwrap();
        device.kernels().warm_up(&programs).unwrap();
        device.kernels().warm_up(&[]).unwrap();
        let usage = device.kernels().usage();
        assert_eq!((usage.kernels, usage.compiled), (kinds, kinds as u64));
    }
}

#[test]
fn kernels_are_compiled_when_first_recorded() {
    let (device, raw) = null_device(&NullOptions::default());
    let x = vector(&device, &count(10));
    assert_eq!(raw.counts().compiles, 0);
    for _ in 0..3 {
        let mut encoder = CommandEncoder::new(&device);
        encoder.run_one(Scale(1.0), &[&x]).unwrap();
        encoder.run_one(Scale(2.0), &[&x]).unwrap();
    }
    assert_eq!(raw.counts().compiles, 1);
    assert!(format!("{:?}", device.kernels()).contains("compiled: 1"));
}

#[test]
fn a_failure_is_reported_and_tried_again() {
    let (device, raw) = null_device(&NullOptions::default().fail_compile(2));
    let programs: Vec<Program> = (0..4).map(variant).collect();
    let text = assert_error!(
        device.kernels().warm_up(&programs),
        Error::Device { source: HalError::Compile { .. }, .. }
    );
    assert!(text.contains("scale.wgsl") && text.contains("null"), "{text}");
    assert_eq!(raw.counts().pipelines, 3, "the others were compiled");
    assert_eq!(device.kernels().usage().kernels, 3);
    device.kernels().warm_up(&programs).unwrap();
    assert_eq!((raw.counts().pipelines, raw.counts().compiles), (4, 5));
    drop(device);
    assert_eq!(raw.counts().pipelines, 0);
}

#[test]
fn threads_that_share_a_failure_leave_one_good_kernel() {
    // A thread that gets the failure tries again; none may drop a kernel that another thread has compiled meanwhile.
    for _ in 0..50 {
        let (device, raw) = null_device(&NullOptions::default().fail_compile(1));
        let together = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    together.wait();
                    while device.kernels().warm_up(&[variant(0)]).is_err() {}
                });
            }
        });
        assert_eq!((raw.counts().compiles, raw.counts().pipelines), (2, 1));
    }
}

#[test]
fn a_program_that_does_not_compile_says_what_is_wrong() {
    for device in devices().into_iter().filter(|device| device.info().is_gpu()) {
        let text = assert_error!(
            device.kernels().warm_up(&[broken()]),
            Error::Device { source: HalError::Compile { .. }, .. }
        );
        assert!(text.contains("broken.wgsl"), "{text}");
    }
    let cpu = Device::cpu().unwrap();
    let text = assert_error!(cpu.kernels().warm_up(&[variant(0)]), Error::Device { .. });
    assert!(text.contains("WGSL"), "{text}");
}

#[test]
fn a_kernel_that_the_driver_refuses_runs_in_its_portable_form() {
    let refuse = |program: Program| {
        let (device, raw) = null_device(&NullOptions::default().fail_compile(1));
        let result = device.kernels().warm_up(&[program.clone(), program]);
        (result, device.kernels().usage(), raw.counts().compiles)
    };
    let Program::Wgsl(kernel) = variant(0) else { panic!("not a kernel for GPUs") };
    let part = kernel.parts()[0].snippet;
    let program = Program::Wgsl(kernel.with_subgroup(4).or_portable(part, part));
    let (result, usage, compiles) = refuse(program.live());
    result.unwrap();
    assert_eq!(usage, RegistryUsage { kernels: 1, compiled: 1, from_cache: 0, refused: 1, ignored: 0 });
    assert_eq!(compiles, 2);
    let (result, usage, _) = refuse(variant(0));
    assert_error!(result, Error::Device { source: HalError::Compile { .. }, .. });
    assert_eq!(usage.refused, 0);
}

fn cached(directory: &Path) -> DeviceOptions {
    let mut options = DeviceOptions::default();
    options.kernel_cache = Some(directory.to_owned());
    options
}

/// The devices that keep translations.
fn caching_devices(directory: &Path) -> Vec<Device> {
    crate::common::devices_with(&cached(directory)).into_iter().filter(|d| d.info().is_gpu()).collect()
}

/// The files of a cache, those of drivers apart.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| -> Vec<PathBuf> {
        fs::read_dir(path).map_or(Vec::new(), |dir| dir.map(|entry| entry.unwrap().path()).collect())
    };
    let all = entries(directory).iter().flat_map(|path| entries(path)).collect::<Vec<_>>();
    all.into_iter().filter(|path| !path.ends_with("driver.bin")).collect()
}

fn runs(device: &Device) -> RegistryUsage {
    let x = vector(device, &count(100));
    let mut encoder = CommandEncoder::new(device);
    let y = encoder.run_one(Scale(3.0), &[&x]).unwrap();
    encoder.submit().unwrap().wait().unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap()[99], 297.0);
    device.kernels().usage()
}

#[test]
fn a_second_device_finds_what_the_first_translated() {
    let directory = tempfile::tempdir().unwrap();
    for device in caching_devices(directory.path()) {
        assert_eq!(
            runs(&device),
            RegistryUsage { kernels: 1, compiled: 1, from_cache: 0, refused: 0, ignored: 0 }
        );
        assert_eq!(files(directory.path()).len(), 1);
    }
    // The driver's own data was stored when the device went.
    for path in files(directory.path()) {
        assert!(fs::metadata(path.with_file_name("driver.bin")).unwrap().len() > 28, "more than a header");
    }
    for device in caching_devices(directory.path()) {
        assert_eq!(
            runs(&device),
            RegistryUsage { kernels: 1, compiled: 0, from_cache: 1, refused: 0, ignored: 0 }
        );
    }
}

#[test]
fn files_that_are_not_whole_are_written_anew() {
    let directory = tempfile::tempdir().unwrap();
    for device in caching_devices(directory.path()) {
        runs(&device);
    }
    for path in files(directory.path()) {
        let whole = fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        let mut magic = whole.clone();
        magic[0] ^= 1;
        for bad in [flipped, magic, whole[..whole.len() / 2].to_vec(), Vec::new(), b"nonsense".to_vec()] {
            fs::write(&path, &bad).unwrap();
            for device in caching_devices(directory.path()) {
                let usage = runs(&device);
                assert_eq!((usage.compiled, usage.ignored), (1, 1));
            }
            assert_eq!(fs::read(&path).unwrap(), whole, "written anew");
        }
        // The driver's own data, too, may be anything.
        fs::write(path.with_file_name("driver.bin"), b"nonsense").unwrap();
        for device in caching_devices(directory.path()) {
            assert_eq!(runs(&device).from_cache, 1);
        }
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_done_without() {
    let directory = tempfile::tempdir().unwrap();
    let occupied = directory.path().join("file");
    fs::write(&occupied, b"in the way of a directory").unwrap();
    for device in caching_devices(&occupied) {
        assert_eq!(runs(&device).compiled, 1);
    }
    assert_eq!(fs::read(&occupied).unwrap(), b"in the way of a directory");
}

#[test]
fn devices_without_translations_leave_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let (device, _) = null_device_with(&NullOptions::default(), &cached(directory.path()));
    device.kernels().warm_up(&[variant(1), native_add()]).unwrap();
    drop(device);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
