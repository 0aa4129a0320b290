//! Tensors of files on devices: the same bytes whichever way they go, bounded, watched and cancelled.

use crate::common::{devices, devices_with, holding_device, wrapped};
use silicide_core::hal::{HalError, Ticket};
use silicide_core::{
    Buffer, CancelToken, Device, DeviceOptions, Error, LoadOptions, Loader, Placement, Purpose, Weight,
};
use silicide_quant::{DType, Encoding, Format, MlxFormat, MlxMode, RowEncoding, Shape};
use silicide_weights::gguf::GgufWriter;
use silicide_weights::{Bytes, Load, Source};
use std::path::Path;
use std::sync::{Arc, Mutex};

const PLACEMENTS: [Placement; 3] = [Placement::InPlace, Placement::Copy, Placement::Staged];

fn options(placement: Placement) -> LoadOptions {
    let mut options = LoadOptions::default();
    options.placement = placement;
    options
}

fn bytes(buffer: &Buffer) -> Vec<u8> {
    buffer.as_bytes().unwrap().to_vec::<u8>().unwrap()
}

/// Compares everything on a device with the file.
fn check(device: &Device, source: &Source, options: LoadOptions) {
    let placement = options.placement;
    let mut loader = Loader::new(device, source, options);
    let mut weights = loader.load_all().unwrap();
    assert_eq!((weights.len(), loader.unused().count()), (source.len(), 0));
    for entry in source.entries() {
        let weight = weights.take(entry.name()).unwrap();
        assert_eq!((weight.shape(), weight.bytes() as u64), (entry.shape(), entry.bytes().unwrap()));
        if let Some(tensor) = weight.tensor() {
            assert_eq!(tensor.dtype(), entry.dtype().unwrap());
            assert!(bytes(tensor) == *source.data(&entry).unwrap(), "{} on {device:?}", entry.name());
            continue;
        }
        let planes = source.quantized(&entry).unwrap().planes;
        assert!(matches!(weight.encoding(), Encoding::Planes(_)), "{}", weight.encoding());
        for (plane, expected) in weight.planes().iter().zip([planes.packed, planes.scales, planes.biases]) {
            assert_eq!(bytes(plane), expected);
        }
    }
    let missing = weights.take("output_norm.weight").unwrap_err().to_string();
    assert!(missing.contains("output_norm.weight"), "{missing}");
    let report = loader.report();
    assert_eq!(report.tensors, source.len());
    assert_eq!(report.bytes(), source.entries().filter_map(|entry| entry.bytes()).sum::<u64>());
    if placement == Placement::Staged {
        assert_eq!(report.staged, report.bytes());
    }
    assert_eq!(device.validation_messages(), [""; 0]);
}

/// A file of f32 vectors, each filled with its number.
fn numbered(path: &Path, tensors: usize, elements: usize) -> Source {
    let mut writer = GgufWriter::new(path);
    for tensor in 0..tensors {
        writer.tensor(&format!("t{tensor}"), Shape::new(&[elements]).unwrap(), DType::F32).unwrap();
    }
    let mut stream = writer.begin().unwrap();
    for tensor in 0..tensors {
        stream.write(&(tensor as f32).to_le_bytes().repeat(elements)).unwrap();
    }
    stream.finish().unwrap();
    Source::open(path).unwrap()
}

#[test]
fn every_container_by_every_way() {
    let mut strict = DeviceOptions::default();
    strict.validation = true;
    for device in devices_with(&strict).iter().chain([&wrapped::discrete().0]) {
        for placement in PLACEMENTS {
            for model in ["models/llama-tied-q8_0.gguf", "models/mlx/llama-bf16", "models/mlx/llama-4bit"] {
                for load in [Load::Map, Load::Copy] {
                    let source = Source::open_with(samples::testdata(model), load).unwrap();
                    check(device, &source, options(placement));
                }
            }
        }
    }
}

#[test]
fn big_endian_files_are_turned_round_on_the_way() {
    let (little, big) = ["gguf/python.gguf", "gguf/python-big-endian.gguf"]
        .map(|name| Source::open(samples::testdata(name)).unwrap())
        .into();
    for device in devices().iter().chain([&wrapped::discrete().0]) {
        // Pieces of 4 KiB, which no tensor here is a multiple of.
        let mut options = options(Placement::InPlace);
        options.staging_bytes = 1;
        let mut loader = Loader::new(device, &big, options);
        let mut compared = 0;
        for entry in little.entries().filter(|entry| entry.dtype().is_ok()) {
            let weight = loader.load(entry.name()).unwrap();
            assert!(bytes(weight.tensor().unwrap()) == *little.data(&entry).unwrap(), "{}", entry.name());
            compared += 1;
        }
        assert!(compared > 3);
        let report = loader.finish().unwrap();
        assert_eq!((report.mapped, report.imported), (0, 0));
    }
}

#[test]
fn neighbouring_tensors_are_imported_together() {
    let source = Source::open(samples::testdata("models/llama-tied.gguf")).unwrap();
    for device in devices().into_iter().filter(|device| device.info().features.host_import) {
        let mut loader = Loader::new(&device, &source, LoadOptions::default());
        let all = loader.load_all().unwrap();
        let mut storages: Vec<_> =
            all.iter().map(|(_, weight)| weight.tensor().unwrap().storage_id()).collect();
        storages.dedup();
        assert_eq!(storages.len(), 1);
        let report = loader.report();
        assert_eq!((report.copied, report.staged), (0, 0));
        let in_place = if device.info().is_gpu() { report.imported } else { report.mapped };
        assert_eq!(in_place, report.bytes());
        let usage = device.usage().of(Purpose::Weights);
        assert_eq!(usage.count, 1);
        drop((all, loader));
        assert_eq!(device.usage().of(Purpose::Weights).bytes, 0);
    }
}

#[test]
fn a_tensor_at_an_odd_place_is_copied() {
    let header = br#"{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"F32","shape":[2],"data_offsets":[3,11]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header);
    file.extend_from_slice(&[1, 2, 3]);
    file.extend([1.5f32, -2.0].into_iter().flat_map(f32::to_le_bytes));
    let source = Source::from_safetensors(vec![Bytes::from_memory("odd", file)], None).unwrap();
    for device in devices() {
        let mut loader = Loader::new(&device, &source, LoadOptions::default());
        let b = loader.load("b").unwrap();
        assert_eq!(b.tensor().unwrap().to_vec::<f32>().unwrap(), [1.5, -2.0]);
        assert_eq!(loader.unused().collect::<Vec<_>>(), ["a"]);
        let first = loader.report().bytes();
        let a = loader.load_optional("a").unwrap().unwrap();
        assert_eq!(a.tensor().unwrap().to_vec::<u8>().unwrap(), [1, 2, 3]);
        assert!(loader.load_optional("c").unwrap().is_none());
        assert_error!(loader.load("c"), Error::Weights(_));
        assert_eq!((first, loader.report().bytes()), (8, 11));
    }
}

#[test]
fn staging_is_bounded_and_watched() {
    const STAGING: usize = 1 << 20;
    let directory = tempfile::tempdir().unwrap();
    // 192 MB, in tensors that are no multiple of a piece.
    let source = numbered(&directory.path().join("model.gguf"), 6, 8_000_001);
    for device in devices().into_iter().chain([wrapped::discrete().0]) {
        let seen = Arc::new(Mutex::new(Vec::<(String, u64)>::new()));
        let mut options = options(Placement::Staged);
        options.staging_bytes = STAGING;
        let watch = Arc::clone(&seen);
        options.progress = Some(Arc::new(move |event| {
            assert_eq!((event.tensor_bytes, event.total), (32_000_004, 6 * 32_000_004));
            watch.lock().unwrap().push((event.tensor.to_owned(), event.done));
        }));
        let mut loader = Loader::new(&device, &source, options);
        let weights = loader.load_all().unwrap();
        let usage = device.usage();
        assert!((1..=STAGING).contains(&usage.of(Purpose::Staging).peak), "{usage}");
        assert!(usage.of(Purpose::Weights).peak < 6 * (32_000_004 + 256));
        for (name, weight) in weights.iter() {
            let buffer = weight.tensor().unwrap();
            let number: f32 = name.trim_start_matches('t').parse().unwrap();
            for place in [0..1, 131_071..131_073, 8_000_000..8_000_001] {
                let values = buffer.slice(place).unwrap().to_vec::<f32>().unwrap();
                assert!(values.iter().all(|value| *value == number), "{name}: {values:?}");
            }
        }
        let seen = seen.lock().unwrap();
        assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1));
        assert_eq!(seen.len(), 6 * 32_000_004usize.div_ceil(STAGING / 2));
        assert_eq!(seen.last(), Some(&("t5".to_owned(), 6 * 32_000_004)));
    }
}

#[test]
fn cancelled_loading_stops_and_frees_its_memory() {
    let directory = tempfile::tempdir().unwrap();
    let source = numbered(&directory.path().join("model.gguf"), 4, 100_000);
    for device in devices().into_iter().chain([wrapped::discrete().0]) {
        for placement in PLACEMENTS {
            let cancel = CancelToken::new();
            let mut options = options(placement);
            options.staging_bytes = 1 << 16;
            options.cancel = cancel.clone();
            options.progress = Some(Arc::new(move |event| {
                if event.done > 600_000 {
                    cancel.cancel();
                }
            }));
            let mut loader = Loader::new(&device, &source, options);
            let text = assert_error!(loader.load_all(), Error::Cancelled { what: "loading" });
            assert!(text.contains("cancelled"));
            assert!((600_000..1_600_000).contains(&loader.report().bytes()));
            drop(loader);
            device.synchronize().unwrap();
            let usage = device.usage();
            assert_eq!((usage.of(Purpose::Weights).bytes, usage.of(Purpose::Staging).bytes), (0, 0));
        }
    }
}

#[test]
fn trouble_names_the_tensor() {
    let directory = tempfile::tempdir().unwrap();
    let source = numbered(&directory.path().join("model.gguf"), 2, 1000);
    let mut small = DeviceOptions::default();
    small.memory_budget = Some(5000);
    for device in devices_with(&small) {
        let mut loader = Loader::new(&device, &source, options(Placement::Copy));
        let text = assert_error!(loader.load_all(), Error::Tensor { .. });
        assert!(text.contains("\"t1\"") && text.contains("cannot allocate"), "{text}");
    }
    // A copy that fails on the device, after it was sent there, shows at the end and when the tensor is read.
    let (device, raw, _released) = holding_device();
    let mut loader = Loader::new(&device, &source, options(Placement::Staged));
    let weight = loader.load("t0").unwrap();
    raw.fail_ticket(Ticket(1), HalError::Driver { call: "copy", detail: "gone".to_owned() });
    raw.release_all();
    assert_error!(loader.finish(), Error::Device { .. });
    assert_error!(weight.tensor().unwrap().to_vec::<f32>(), Error::Poisoned { .. });
}

#[test]
fn a_real_model_loads_in_place() {
    let Some(path) = samples::model() else { return };
    let source = Source::open(&path).unwrap();
    assert_eq!((source.len(), source.get("general.architecture").unwrap().as_str()), (272, Some("llama")));
    for device in devices().iter().chain([&wrapped::discrete().0]) {
        check(device, &source, LoadOptions::default());
        let mut loader = Loader::new(device, &source, LoadOptions::default());
        let embedding = loader.load("token_embd.weight").unwrap();
        assert_eq!(embedding.shape(), Shape::new(&[49_152, 576]).unwrap());
        let query = loader.load("blk.0.attn_q.weight").unwrap();
        assert_eq!(query.tensor().unwrap().dtype(), DType::Block(Format::Q4_1));
        let report = loader.finish().unwrap();
        let in_place = report.mapped + report.imported;
        assert_eq!(in_place > 0, device.info().features.host_import, "{report:?}");
    }
}

#[test]
fn weights_refuse_planes_by_their_names() {
    let device = Device::cpu().unwrap();
    let plane =
        |dtype: DType, axes: &[usize]| Buffer::new(&device, dtype, Shape::new(axes).unwrap()).unwrap();
    let name = |encoding: Encoding, planes: &[Buffer]| match Weight::new(encoding, planes.to_vec()) {
        Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot,
        Err(Error::ArgumentCount { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let affine = Encoding::Planes(MlxFormat::new(MlxMode::Affine, 4, 64, DType::F16).unwrap());
    let (packed, scales) = (plane(DType::U32, &[8, 16]), plane(DType::F16, &[8, 2]));
    let weight = Weight::new(affine, [packed.clone(), scales.clone(), scales.clone()]).unwrap();
    assert_eq!((weight.shape().axes(), weight.bytes()), (&[8, 128][..], 8 * 64 + 2 * 8 * 4));
    assert!(weight.tensor().is_none());
    assert_eq!(name(affine, &[packed.clone(), scales.clone()]), "planes");
    assert_eq!(name(affine, &[plane(DType::U8, &[8, 16]), scales.clone(), scales.clone()]), "packed");
    assert_eq!(name(affine, &[packed.clone(), plane(DType::BF16, &[8, 2]), scales.clone()]), "scales");
    assert_eq!(name(affine, &[packed, scales, plane(DType::F16, &[8, 3])]), "biases");
    let interleaved = Encoding::Interleaved { of: RowEncoding::Block(Format::Q8_0), rows: 16 };
    assert_eq!(name(interleaved, &[plane(DType::U8, &[24, 34])]), "weight");
}
