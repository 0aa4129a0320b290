//! GGUF files that go wrong before the tensors: magic, version, counts, keys, values, alignment.

use super::Case;
use super::bytes::Bytes;
use silicide_weights::Fault;

const U8: u32 = 0;
const U32: u32 = 4;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const U64: u32 = 10;

fn case(name: &str, bytes: Bytes, offset: u64, fault: Fault) -> Case {
    Case::file(&format!("gguf-{name}.gguf"), bytes, offset, fault)
}

fn truncated(what: &'static str, needed: u64, remaining: u64) -> Fault {
    Fault::Truncated { what, needed, remaining }
}

pub(super) fn cases() -> Vec<Case> {
    [starts(), keys(), values(), arrays(), alignments()].concat()
}

fn starts() -> Vec<Case> {
    let magic = |bytes: &[u8]| Fault::Magic { format: "GGUF", got: bytes.to_vec() };
    let version = |number: u32| Bytes::default().raw(b"GGUF").u32(number);
    let tensors = "the number of tensors";
    let entries = "the number of metadata entries";
    vec![
        case("empty", Bytes::default(), 0, truncated("the magic number", 4, 0)),
        case("magic-cut", Bytes::default().raw(b"GGU"), 0, truncated("the magic number", 4, 3)),
        case("magic-other", Bytes::default().raw(b"GGML").u32(3).u64(0).u64(0), 0, magic(b"GGML")),
        case("version-cut", Bytes::default().raw(b"GGUF").u16(3), 4, truncated("the version", 4, 2)),
        case("version-1", version(1).u64(0).u64(0), 4, Fault::Version { got: 1 }),
        case("version-4", version(4).u64(0).u64(0), 4, Fault::Version { got: 4 }),
        case("tensor-count-cut", version(3).u32(0), 8, truncated(tensors, 8, 4)),
        case("entry-count-cut", version(3).u64(0).u32(0), 16, truncated(entries, 8, 4)),
        case(
            "tensor-count-absurd",
            Bytes::gguf(3, 1 << 62, 0),
            8,
            Fault::TooMany { what: tensors, got: 1 << 62, limit: 1 << 20 },
        ),
        case("tensor-count-beyond-file", Bytes::gguf(3, 1000, 0).data(0), 8, truncated(tensors, 24000, 16)),
        case(
            "entry-count-absurd",
            Bytes::gguf(3, 0, u64::MAX),
            16,
            Fault::TooMany { what: entries, got: u64::MAX, limit: 65536 },
        ),
        case("entry-count-beyond-file", Bytes::gguf(3, 0, 1000).data(0), 16, truncated(entries, 13000, 8)),
    ]
}

fn keys() -> Vec<Case> {
    let start = || Bytes::gguf(3, 0, 1);
    let twice = Bytes::gguf(2, 0, 2).key("same", U8).u8(1);
    let second = twice.at();
    vec![
        case(
            "key-length-absurd",
            start().u64(1 << 63).raw(&[0; 16]),
            24,
            Fault::TooMany { what: "a key", got: 1 << 63, limit: 65536 },
        ),
        case("key-cut", start().u64(100).raw(b"only these bytes"), 24, truncated("a key", 100, 16)),
        case("key-not-utf8", start().text(b"k\xffy").u32(U8).u8(0), 24, Fault::Utf8 { what: "a key" }),
        case(
            "key-twice",
            twice.key("same", U8).u8(2),
            second,
            Fault::Duplicate { what: "key", name: "same".to_owned() },
        ),
        case("key-type-cut", start().text("a key").u16(0), 37, truncated("a metadata type", 4, 2)),
        case("key-type-13", start().key("k", 13).u8(0), 33, Fault::MetadataType { got: 13 }),
    ]
}

fn values() -> Vec<Case> {
    let start = |kind| Bytes::gguf(3, 0, 1).key("key", kind);
    let value = start(U8).at();
    let absurd = Fault::TooMany { what: "a string", got: (1 << 63) - 1, limit: 64 << 20 };
    let swapped = Bytes::big_endian_gguf(3, 0, 1).key("key", BOOL).u8(255);
    vec![
        case("value-cut", start(U64).u32(7), value, truncated("a metadata value", 8, 4)),
        case("bool-2", start(BOOL).u8(2), value, Fault::Boolean { got: 2 }),
        case("bool-255-big-endian", swapped, value, Fault::Boolean { got: 255 }),
        case("string-length-absurd", start(STRING).u64((1 << 63) - 1), value, absurd),
        case("string-cut", start(STRING).u64(9).raw(b"too few"), value, truncated("a string", 9, 7)),
    ]
}

fn arrays() -> Vec<Case> {
    let start = |kind| Bytes::gguf(3, 0, 1).key("key", ARRAY).u32(kind);
    let length = start(U8).at();
    let what = "an array's length";
    let bools = start(BOOL).u64(3).u8(0).u8(1);
    let texts = start(STRING).u64(2).text("fine").u64(5).raw(b"cut");
    let (third, second) = (bools.at(), length + 8 + 12);
    let deep = start(ARRAY).u64(1).u32(ARRAY).u64(1);
    let depth = deep.at();
    vec![
        case(
            "array-type-cut",
            Bytes::gguf(3, 0, 1).key("key", ARRAY).u16(0),
            39,
            truncated("a metadata type", 4, 2),
        ),
        case("array-type-13", start(13).u64(0), 39, Fault::MetadataType { got: 13 }),
        case("array-length-absurd", start(U8).u64(1 << 63), length, truncated(what, 1 << 63, 0)),
        case("array-length-overflow", start(U64).u64(1 << 62), length, truncated(what, u64::MAX, 0)),
        case("array-length-beyond-file", start(U32).u64(3).u64(0), length, truncated(what, 12, 8)),
        case("array-bool-2", bools.u8(2), third, Fault::Boolean { got: 2 }),
        case("array-string-cut", texts, second, truncated("a string", 5, 3)),
        case("array-nested-3", deep.u32(ARRAY).u64(0), depth, Fault::Nesting { limit: 2 }),
        case(
            "array-nested-length-absurd",
            start(ARRAY).u64(1).u32(ARRAY).u64(u64::MAX),
            length + 12,
            truncated(what, u64::MAX, 0),
        ),
    ]
}

fn alignments() -> Vec<Case> {
    let start = |kind| Bytes::gguf(3, 0, 1).key("general.alignment", kind);
    let value = start(U32).at();
    let fault = |got| Fault::Alignment { got, limit: 65536 };
    let key = "general.alignment".to_owned();
    vec![
        case("alignment-0", start(U32).u32(0), value, fault(0)),
        case("alignment-3", start(U32).u32(3), value, fault(3)),
        case("alignment-2-to-40", start(U64).u64(1 << 40), value, fault(1 << 40)),
        case(
            "alignment-text",
            start(STRING).text("32"),
            value,
            Fault::ValueType { key, got: "string", expected: "a positive integer" },
        ),
    ]
}
