//! Files written by llama.cpp's Python package: read, and written again to the byte.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod common;

use common::testdata;
use silicide_quant::{DType, Format, Shape};
use silicide_weights::gguf::{GgufWriter, Kind, Text, Value};
use silicide_weights::{Container, GgufFile, Source, Stored};
use std::borrow::Cow;

fn open(name: &str) -> GgufFile {
    GgufFile::open(testdata(&format!("gguf/{name}"))).unwrap()
}

#[test]
fn reads_every_metadata_type() {
    for name in ["python.gguf", "python-big-endian.gguf"] {
        let file = open(name);
        assert_eq!((file.version(), file.alignment()), (3, 64));
        let scalars = [
            ("test.u8", Value::U8(200)),
            ("test.i8", Value::I8(-100)),
            ("test.u16", Value::U16(60000)),
            ("test.i16", Value::I16(-30000)),
            ("test.u32", Value::U32(4_000_000_000)),
            ("test.i32", Value::I32(-2_000_000_000)),
            ("test.f32", Value::F32(0.1)),
            ("test.bool", Value::Bool(true)),
            ("test.string", Value::String(Text("grün \u{1F600}".as_bytes()))),
            ("test.u64", Value::U64(u64::MAX - 1)),
            ("test.i64", Value::I64(-(1 << 62))),
            ("test.f64", Value::F64(0.1)),
        ];
        for (key, value) in scalars {
            assert_eq!(file.get(key), Some(value), "{name} {key}");
        }
        let array = |key: &str| file.get(key).and_then(|value| value.as_array()).unwrap();
        let numbers = array("test.array.i32");
        assert_eq!((numbers.kind(), numbers.len()), (Kind::I32, 3));
        assert_eq!(numbers.iter().filter_map(|value| value.as_i64()).collect::<Vec<_>>(), [1, -2, 3]);
        let halves = array("test.array.f32").iter().filter_map(|value| value.as_f64()).collect::<Vec<_>>();
        assert_eq!(halves, [0.5, -0.25]);
        let flags = array("test.array.bool").iter().filter_map(|value| value.as_bool()).collect::<Vec<_>>();
        assert_eq!(flags, [true, false]);
        let texts = array("test.array.string").iter().filter_map(|value| value.as_str()).collect::<Vec<_>>();
        assert_eq!(texts, ["", "a", "bc"]);
        let nested = array("test.array.array").iter().filter_map(|value| value.as_array());
        let nested: Vec<Vec<_>> =
            nested.map(|list| list.iter().filter_map(|value| value.as_u64()).collect()).collect();
        assert_eq!(nested, [vec![1, 2], vec![3]]);
        assert_eq!(array("test.array.u16").kind(), Kind::U16);
        assert_eq!(file.get("test.none"), None);
    }
}

#[test]
fn reads_tensors_of_either_byte_order() {
    let (little, big) = (open("python.gguf"), open("python-big-endian.gguf"));
    assert!(big.is_big_endian() && !little.is_big_endian());
    assert_eq!(little.entries().len(), 12);
    for entry in little.entries() {
        let other = big.entry(entry.name()).unwrap();
        assert_eq!((entry.shape(), entry.stored()), (other.shape(), other.stored()), "{}", entry.name());
        let (data, swapped) = (little.data(&entry).unwrap(), big.data(&other).unwrap());
        assert!(matches!(data, Cow::Borrowed(_)));
        assert_eq!(data, swapped, "{}", entry.name());
    }
    let thirds = little.entry("plain.f32").unwrap();
    assert_eq!(thirds.shape(), Shape::new(&[2, 3]).unwrap());
    let values = silicide_quant::decode(DType::F32, &little.data(&thirds).unwrap());
    assert_eq!(values[5], f64::from(5f32 / 3.0));
    let blocks = little.entry("block.q4_k").unwrap();
    assert_eq!(blocks.stored(), Stored::As(DType::Block(Format::Q4K)));
    assert_eq!(blocks.shape(), Shape::new(&[3, 512]).unwrap());
}

/// Everything that one file holds, written again.
#[test]
fn writes_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["python.gguf", "python-big-endian.gguf"] {
        let file = open(name);
        let path = directory.path().join(name);
        let mut writer = GgufWriter::new(&path);
        for (key, value) in file.metadata() {
            writer.copy_meta(key, &value).unwrap();
        }
        for entry in file.entries() {
            writer.tensor(entry.name(), entry.shape(), entry.dtype().unwrap()).unwrap();
        }
        let mut stream = writer.begin().unwrap();
        for entry in file.entries() {
            stream.write(&file.data(&entry).unwrap()).unwrap();
        }
        stream.finish().unwrap();
        let expected = std::fs::read(testdata("gguf/python.gguf")).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), expected, "{name}");
    }
}

#[test]
fn opens_all_files_of_a_model_from_any() {
    for name in ["gguf/split-00001-of-00003.gguf", "gguf/split-00003-of-00003.gguf"] {
        let source = Source::open(testdata(name)).unwrap();
        assert_eq!((source.container(), source.files().len(), source.len()), (Container::Gguf, 3, 5));
        assert_eq!(
            source.get("test.string").and_then(|value| value.as_str()),
            Some("in the first file only")
        );
        for (i, entry) in source.entries().enumerate() {
            assert_eq!(entry.name(), format!("tensor.{i}"));
            let found = source.entry(entry.name()).unwrap();
            assert_eq!(found.place().unwrap().file(), i / 2);
            let values = silicide_quant::decode(DType::F32, &source.data(&found).unwrap());
            assert_eq!(values, [i as f64; 8]);
        }
    }
}
