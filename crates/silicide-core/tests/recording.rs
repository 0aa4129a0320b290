//! Recording: what becomes of ops, where barriers stand, and what is refused.

use crate::common::defects::Defective;
use crate::common::ops::{Accumulate, Add, Panics, Scale, Triple};
use crate::common::{count, devices, devices_with, null_device, null_device_with, vector};
use silicide_core::hal::null::NullOptions;
use silicide_core::hal::{Command, CommandList};
use silicide_core::kernel::Access;
use silicide_core::record::place;
use silicide_core::{
    Buffer, BufferRange, CommandEncoder, Device, DeviceOptions, EncoderOptions, Error, Recorder,
};
use silicide_quant::{DType, Shape};

fn barriers(list: &CommandList) -> usize {
    list.commands.iter().filter(|command| matches!(command, Command::Barrier)).count()
}

fn vectors<const N: usize>(device: &Device, elements: usize) -> [Buffer; N] {
    std::array::from_fn(|_| vector(device, &count(elements)))
}

#[test]
fn a_chain_has_a_barrier_at_each_link() {
    for device in devices() {
        let x = vector(&device, &[1.0; 300]);
        let before = device.counters();
        let mut encoder = CommandEncoder::new(&device);
        let mut value = x.clone();
        for _ in 0..5 {
            value = encoder.run_one(Scale(2.0), &[&value]).unwrap();
        }
        assert_eq!(barriers(encoder.list()), 4);
        encoder.submit().unwrap().wait().unwrap();
        assert_eq!(value.to_vec::<f32>().unwrap(), [32.0; 300]);
        let counters = device.counters().since(&before);
        assert_eq!((counters.dispatches, counters.barriers, counters.concurrent), (5, 4, 0));
        assert_eq!((counters.submissions, counters.transfers), (1, 0));
        let name = if device.info().is_gpu() { "scale.wgsl" } else { "scale.cpu" };
        assert_eq!(counters.kernels.iter().map(|k| (k.kernel, k.count)).collect::<Vec<_>>(), [(name, 5)]);
    }
}

#[test]
fn independent_ops_have_no_barrier_between_them() {
    for device in devices() {
        let x = vector(&device, &[1.0; 300]);
        let before = device.counters();
        let mut encoder = CommandEncoder::new(&device);
        let values: Vec<Buffer> = (0..5).map(|i| encoder.run_one(Scale(i as f32), &[&x]).unwrap()).collect();
        assert_eq!(barriers(encoder.list()), 0, "all read the same");
        let sum = encoder.run_one(Add, &[&values[1], &values[2]]).unwrap();
        assert_eq!(barriers(encoder.list()), 1);
        encoder.submit().unwrap().wait().unwrap();
        assert_eq!(sum.to_vec::<f32>().unwrap(), [3.0; 300]);
        let counters = device.counters().since(&before);
        assert_eq!((counters.dispatches, counters.barriers, counters.concurrent), (6, 1, 4));
    }
}

#[test]
fn writes_after_reads_and_writes_after_writes_are_ordered() {
    for device in devices() {
        let [a, b, y, z] = vectors(&device, 64);
        let mut encoder = CommandEncoder::new(&device);
        encoder.run_into(Add, &[&a, &b], &[&y]).unwrap();
        encoder.run_into(Scale(2.0), &[&z], &[&a]).unwrap();
        assert_eq!(barriers(encoder.list()), 1, "a was read, now it is written");
        encoder.run_into(Scale(3.0), &[&b], &[&a]).unwrap();
        assert_eq!(barriers(encoder.list()), 2, "a was written, now again");
        encoder.run_into(Accumulate, &[&b], &[&y]).unwrap();
        assert_eq!(barriers(encoder.list()), 2, "y was written before the last barrier");
        encoder.run_into(Accumulate, &[&b], &[&y]).unwrap();
        assert_eq!(barriers(encoder.list()), 3, "y is read and written");
        encoder.submit().unwrap().wait().unwrap();
        assert_eq!(a.to_vec::<f32>().unwrap()[5], 15.0);
        assert_eq!(y.to_vec::<f32>().unwrap()[5], 20.0);
    }
}

#[test]
fn neighbouring_views_do_not_conflict() {
    for device in devices() {
        let (x, y) = (vector(&device, &count(1001)), Buffer::new(&device, DType::F32, 1001).unwrap());
        let mut encoder = CommandEncoder::new(&device);
        // Views that begin at every alignment, next to each other.
        for (start, end) in [(0, 1), (1, 6), (6, 300), (300, 301), (301, 1000)] {
            let (from, to) = (x.slice(start..end).unwrap(), y.slice(start..end).unwrap());
            encoder.run_into(Scale(2.0), &[&from], &[&to]).unwrap();
        }
        assert_eq!(barriers(encoder.list()), 0);
        let (from, to) = (x.slice(998..1001).unwrap(), y.slice(998..1001).unwrap());
        encoder.run_into(Scale(10.0), &[&from], &[&to]).unwrap();
        assert_eq!(barriers(encoder.list()), 1, "overlaps the last by two elements");
        encoder.submit().unwrap().wait().unwrap();
        let expected: Vec<f32> = (0..1001).map(|i| i as f32 * if i < 998 { 2.0 } else { 10.0 }).collect();
        assert_eq!(y.to_vec::<f32>().unwrap(), expected);
    }
}

#[test]
fn the_encoder_places_barriers_as_the_definition_does() {
    // Random ops over few buffers and views; the list is compared with `place` over the ranges of its commands.
    let (device, _) = null_device(&NullOptions::default());
    let whole: [Buffer; 4] = vectors(&device, 32);
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..50 {
        let mut encoder = CommandEncoder::new(&device);
        let mut ranges = Vec::new();
        for _ in 0..30 {
            let mut view = || {
                let start = 4 * random(7) as usize;
                whole[random(4) as usize].slice(start..start + 4).unwrap()
            };
            let (a, b, y) = (view(), view(), view());
            match encoder.run_into(Add, &[&a, &b], &[&y]) {
                Ok(()) => ranges.push(vec![
                    BufferRange::from_buffer(&a, Access::Read),
                    BufferRange::from_buffer(&b, Access::Read),
                    BufferRange::from_buffer(&y, Access::Write),
                ]),
                Err(Error::Aliasing { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        let mut command = 0;
        let mut found = Vec::new();
        for entry in &encoder.list().commands {
            match entry {
                Command::Barrier => found.push(command),
                _ => command += 1,
            }
        }
        assert_eq!(found, place(ranges.iter().map(Vec::as_slice)));
    }
}

#[test]
fn scratch_memory_is_ordered_and_reused() {
    let mut options = DeviceOptions::default();
    options.poison_scratch = true;
    for device in devices_with(&options) {
        let x = vector(&device, &count(1000));
        let expected: Vec<f32> = (0..1000).map(|i| 3.0 * i as f32).collect();
        let before = device.counters();
        for _ in 0..3 {
            let mut encoder = CommandEncoder::new(&device);
            let y = encoder.run_one(Triple, &[&x]).unwrap();
            assert_eq!(barriers(encoder.list()), 2, "fill, first launch, second launch");
            encoder.submit().unwrap().wait().unwrap();
            assert_eq!(y.to_vec::<f32>().unwrap(), expected);
        }
        let counters = device.counters().since(&before);
        assert_eq!((counters.dispatches, counters.transfers), (6, 3));
        let pool = device.pool_usage();
        assert_eq!((pool.misses, pool.hits), (2, 4), "{pool:?}");
    }
}

#[test]
fn outputs_may_alias_inputs_only_where_the_op_permits_it() {
    for device in devices() {
        let [a, b] = vectors(&device, 16);
        let run = |inputs: &[&Buffer], output: &Buffer| {
            let mut encoder = CommandEncoder::new(&device);
            encoder.run_into(Add, inputs, &[output])?;
            encoder.submit()?.wait()
        };
        run(&[&a, &b], &a).unwrap();
        assert_eq!(a.to_vec::<f32>().unwrap()[3], 6.0);
        run(&[&a, &a], &b).unwrap();
        assert_eq!(b.to_vec::<f32>().unwrap()[3], 12.0, "an input may be given twice");
        let text = assert_error!(run(&[&a, &b], &b), Error::Aliasing { op: "add", output: "y", other: "b" });
        assert!(text.contains("y overlaps b"), "{text}");
        let (low, high) = (a.slice(0..8).unwrap(), a.slice(4..12).unwrap());
        assert_error!(run(&[&low, &high], &low), Error::Aliasing { other: "b", .. });
        assert_error!(run(&[&high, &b.slice(0..8).unwrap()], &low), Error::Aliasing { other: "a", .. });
        let mut encoder = CommandEncoder::new(&device);
        assert_error!(encoder.run_into(Accumulate, &[&a], &[&a]), Error::Aliasing { .. });
        assert!(encoder.list().commands.is_empty(), "refused ops leave nothing behind");
    }
}

#[test]
fn arguments_are_checked() {
    let (device, _) = null_device(&NullOptions::default());
    let cpu = Device::cpu().unwrap();
    let [a, b, y] = vectors(&device, 16);
    let mut encoder = CommandEncoder::new(&device);
    assert_error!(encoder.run(Add, &[&a]), Error::ArgumentCount { what: "inputs", expected: 2, got: 1, .. });
    assert_error!(
        encoder.run_into(Add, &[&a, &b], &[]),
        Error::ArgumentCount { what: "outputs", expected: 1, got: 0, .. }
    );
    assert_error!(encoder.run(Accumulate, &[&a]), Error::ArgumentCount { what: "outputs", .. });
    let foreign = vector(&cpu, &count(16));
    let text = assert_error!(encoder.run(Add, &[&a, &foreign]), Error::WrongDevice { what: "add", .. });
    assert!(text.contains("lives on cpu") && text.contains("runs on null"), "{text}");
    assert_error!(encoder.run_into(Add, &[&a, &b], &[&foreign]), Error::WrongDevice { .. });
    assert_error!(encoder.copy(&foreign, &y), Error::WrongDevice { .. });
    assert_error!(encoder.copy(&y, &foreign), Error::WrongDevice { .. });
    let short = vector(&device, &count(8));
    assert_error!(encoder.run(Add, &[&a, &short]), Error::Shape { slot: "b", .. });
    assert_error!(encoder.run_into(Add, &[&a, &b], &[&short]), Error::Shape { slot: "y", .. });
    let integers = Buffer::new(&device, DType::I32, 16).unwrap();
    assert_error!(
        encoder.run(Add, &[&integers, &b]),
        Error::DTypeMismatch { slot: "a", got: DType::I32, .. }
    );
    assert_error!(encoder.run_into(Add, &[&a, &b], &[&integers]), Error::DTypeMismatch { slot: "y", .. });
    assert_error!(encoder.copy(&a, &short), Error::SizeMismatch { expected: 32, got: 64, .. });
    assert_error!(encoder.copy(&a, &integers), Error::DTypeMismatch { .. });
    assert_error!(encoder.copy(&a, &a), Error::Aliasing { .. });
    assert_error!(encoder.copy(&a.slice(0..8).unwrap(), &a.slice(7..15).unwrap()), Error::Aliasing { .. });
    assert!(encoder.list().commands.is_empty());
}

#[test]
fn an_op_without_a_kernel_says_why() {
    for device in devices() {
        let x = vector(&device, &count(4));
        let mut options = EncoderOptions::default();
        options.kernel = Some("add.nowhere");
        let mut encoder = CommandEncoder::with(&device, options);
        let text = assert_error!(encoder.run(Add, &[&x, &x]), Error::NoKernel { op: "add", .. });
        for part in ["add.cpu: ", "add.wgsl: ", "not the one asked for", "f32[4], f32[4] -> f32[4]"] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert!(text.contains(&device.info().id), "{text}");
        // Asked for by name.
        options.kernel = Some(if device.info().is_gpu() { "add.wgsl" } else { "add.cpu" });
        CommandEncoder::with(&device, options).run(Add, &[&x, &x]).unwrap();
        if device.info().is_gpu() {
            let text = assert_error!(CommandEncoder::new(&device).run(Panics, &[&x]), Error::NoKernel { .. });
            assert!(text.contains("panics.cpu: it is native code"), "{text}");
        }
    }
}

#[test]
fn defective_plans_are_refused_and_leave_nothing_behind() {
    for device in devices() {
        let [a, b, y] = vectors(&device, 64);
        let limits = device.info().limits;
        let mut options = EncoderOptions::default();
        options.mark_ops = true;
        let mut encoder = CommandEncoder::with(&device, options);
        for defect in [
            Defective::EmptyGrid,
            Defective::Outside { start: 0, bytes: 257 },
            Defective::Outside { start: 4, bytes: 256 },
            Defective::Outside { start: 2, bytes: 4 },
            Defective::Outside { start: 0, bytes: 0 },
            Defective::Outside { start: 256, bytes: usize::MAX },
            Defective::Outside { start: usize::MAX, bytes: 2 },
            Defective::Outside { start: usize::MAX - 3, bytes: 4 },
            Defective::MissingSlot,
            Defective::MissingScratch,
            Defective::Parameters(limits.max_param_bytes / 4 + 1),
            Defective::Bindings(limits.max_bindings as usize + 1),
            Defective::UnevenCopy,
            Defective::OverlappingCopy,
            Defective::CopyToInput,
            Defective::BrokenFill,
            Defective::FillInput,
            Defective::SecondStep,
        ] {
            let result = encoder.run_into(defect, &[&a, &b], &[&y]);
            let text = assert_error!(result, Error::BadPlan { kernel: "defective.plans", .. });
            assert!(text.contains("please report it"), "{text}");
            let nothing = CommandList { traced: true, ..CommandList::default() };
            assert_eq!(encoder.list(), &nothing, "{defect:?}");
        }
        // Nothing of the refused ops is in the way of those that follow, nor of guards.
        let guard = b.write::<f32>().unwrap();
        encoder.run_into(Scale(2.0), &[&a], &[&y]).unwrap();
        encoder.submit().unwrap().wait().unwrap();
        drop(guard);
        assert_eq!(y.to_vec::<f32>().unwrap()[9], 18.0);
        let mut encoder = CommandEncoder::new(&device);
        encoder.run_into(Defective::None(10), &[&a, &b], &[&y]).unwrap();
        assert_error!(
            encoder.run_into(Defective::None(usize::MAX), &[&a, &b], &[&y]),
            Error::TooLarge { .. }
        );
        encoder.submit().unwrap().wait().unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap()[9], 18.0);
    }
}

#[test]
fn shaders_get_as_many_bindings_and_words_as_they_declare() {
    for device in devices().into_iter().filter(|device| device.info().is_gpu()) {
        let [a, b, y] = vectors(&device, 64);
        let mut encoder = CommandEncoder::new(&device);
        for defect in [Defective::Parameters(0), Defective::Parameters(2), Defective::Bindings(2)] {
            assert_error!(encoder.run_into(defect, &[&a, &b], &[&y]), Error::BadPlan { .. });
        }
    }
}

#[test]
fn bindings_are_no_larger_than_the_device_allows() {
    let (device, _) = null_device(&NullOptions::default().limits(1 << 20, 1000));
    let [a, b, y] = vectors(&device, 250);
    let mut encoder = CommandEncoder::new(&device);
    encoder.run_into(Add, &[&a, &b], &[&y]).unwrap();
    let [a, b, y] = vectors(&device, 251);
    let text = assert_error!(
        encoder.run_into(Add, &[&a, &b], &[&y]),
        Error::TooLarge { what: "binding", bytes: 1004, limit: 1000, .. }
    );
    assert!(text.contains("split"), "{text}");
}

#[test]
fn copies_are_recorded_like_ops() {
    for device in devices() {
        let [a, b, c] = vectors(&device, 1000);
        b.copy_in(&[0.0f32; 1000]).unwrap();
        let before = device.counters();
        let mut encoder = CommandEncoder::new(&device);
        encoder.copy(&a.slice(0..500).unwrap(), &b.slice(500..1000).unwrap()).unwrap();
        encoder.copy(&a.slice(500..1000).unwrap(), &b.slice(0..500).unwrap()).unwrap();
        assert_eq!(barriers(encoder.list()), 0);
        encoder.run_into(Scale(2.0), &[&b], &[&c]).unwrap();
        assert_eq!(barriers(encoder.list()), 1);
        encoder.submit().unwrap().wait().unwrap();
        assert_eq!(c.to_vec::<f32>().unwrap()[499..501], [1998.0, 0.0]);
        let counters = device.counters().since(&before);
        assert_eq!((counters.transfers, counters.dispatches, counters.concurrent), (2, 1, 1));
    }
}

#[test]
fn dropped_encoders_forget_what_they_recorded() {
    for device in devices() {
        let [a, b, y] = vectors(&device, 8);
        let before = device.counters();
        for _ in 0..3 {
            let mut encoder = CommandEncoder::new(&device);
            encoder.mark("never");
            encoder.run_into(Add, &[&a, &b], &[&y]).unwrap();
            drop(encoder);
        }
        let encoder = CommandEncoder::new(&device);
        assert_eq!(encoder.list(), &CommandList::default());
        drop(encoder);
        assert_eq!(device.counters(), before);
        assert_eq!(y.to_vec::<f32>().unwrap(), count(8));
    }
}

#[test]
fn ops_can_be_marked() {
    let (device, _) = null_device(&NullOptions::default());
    let [a, b] = vectors(&device, 8);
    let mut options = EncoderOptions::default();
    options.mark_ops = true;
    let mut encoder = CommandEncoder::with(&device, options);
    encoder.scope("scope", |encoder| encoder.run_one(Add, &[&a, &b])).unwrap();
    encoder.run_one(Scale(1.0), &[&a]).unwrap();
    let labels: Vec<&str> = encoder
        .list()
        .commands
        .iter()
        .filter_map(|command| match command {
            Command::Mark { label } => Some(*label),
            _ => None,
        })
        .collect();
    assert_eq!(labels, ["scope", "add", "scale"]);
}

#[test]
fn outputs_that_are_made_come_from_the_pool() {
    let mut options = DeviceOptions::default();
    options.pool_budget = Some(1 << 20);
    let (device, raw) = null_device_with(&NullOptions::default(), &options);
    let x = vector(&device, &count(1000));
    for _ in 0..10 {
        let mut encoder = CommandEncoder::new(&device);
        let y = encoder.run_one(Scale(2.0), &[&x]).unwrap();
        assert_eq!((y.allocator().name(), y.shape()), ("pool", Shape::new(&[1000]).unwrap()));
        encoder.submit().unwrap().wait().unwrap();
    }
    let usage = device.pool_usage();
    assert_eq!((usage.misses, usage.hits), (1, 9));
    assert_eq!(raw.counts().blocks, 1);
}
