//! GGUF files whose tensors go wrong: descriptions, sizes, ranges.

use super::Case;
use super::bytes::Bytes;
use silicide_weights::Fault;

const F32: u32 = 0;
const Q4_0: u32 = 2;

fn case(name: &str, bytes: Bytes, offset: u64, fault: Fault) -> Case {
    Case::file(&format!("gguf-tensor-{name}.gguf"), bytes, offset, fault)
}

pub(super) fn cases() -> Vec<Case> {
    [descriptions(), sizes(), ranges()].concat()
}

fn start(tensors: u64) -> Bytes {
    Bytes::gguf(3, tensors, 0)
}

fn descriptions() -> Vec<Case> {
    let cut = |what, needed, remaining| Fault::Truncated { what, needed, remaining };
    let twice = start(2).tensor("same", &[4], F32, 0);
    let second = twice.at();
    let axes = "a tensor's number of axes";
    vec![
        case(
            "name-length-absurd",
            start(1).u64(u64::MAX).raw(&[0; 24]),
            24,
            Fault::TooMany { what: "a tensor's name", got: u64::MAX, limit: 65536 },
        ),
        case(
            "name-not-utf8",
            start(1).text(b"\xc3\x28").raw(&[0; 24]),
            24,
            Fault::Utf8 { what: "a tensor's name" },
        ),
        case("name-twice", twice.tensor("same", &[4], F32, 32).data(64), second, {
            Fault::Duplicate { what: "tensor", name: "same".to_owned() }
        }),
        case("axes-5", start(1).tensor("t", &[1; 5], F32, 0).data(32), 33, {
            Fault::TooMany { what: axes, got: 5, limit: 4 }
        }),
        case("axes-cut", start(1).text("a name of sixteen").u16(1), 49, cut(axes, 4, 2)),
        case("extent-cut", start(1).text("name").u32(2).u64(1).u32(1), 48, cut("a tensor's extent", 8, 4)),
        case("type-cut", start(1).text("name").u32(1).u64(1).u16(0), 48, cut("a tensor's type", 4, 2)),
        case(
            "offset-cut",
            start(1).text("name").u32(1).u64(1).u32(0).u32(0),
            52,
            cut("a tensor's offset", 8, 4),
        ),
    ]
}

fn sizes() -> Vec<Case> {
    let tensor = || "t".to_owned();
    let of = |extents: &[u64], kind| start(1).tensor("t", extents, kind, 0).data(32);
    vec![
        case("extent-0", of(&[4, 0], F32), 24, Fault::EmptyTensor { tensor: tensor() }),
        case("elements-overflow", of(&[1 << 40, 1 << 40], F32), 24, Fault::Overflow { tensor: tensor() }),
        case(
            "elements-overflow-around-1",
            of(&[u64::MAX, 1, u64::MAX], F32),
            24,
            Fault::Overflow { tensor: tensor() },
        ),
        case("bytes-overflow", of(&[1 << 62], F32), 24, Fault::Overflow { tensor: tensor() }),
        case(
            "partial-block",
            of(&[33, 32], Q4_0),
            24,
            Fault::PartialBlock { tensor: tensor(), row: 33, format: "q4_0", block: 32 },
        ),
    ]
}

fn ranges() -> Vec<Case> {
    let tensor = || "t".to_owned();
    let at = |offset| start(1).tensor("t", &[8], F32, offset).data(64);
    // One description of 57 bytes: the data begins at 64, the file ends at 128.
    let overlapping = start(2).tensor("first", &[16], F32, 0);
    let second = overlapping.at();
    vec![
        case("misaligned", at(16), 24, Fault::Misaligned { tensor: tensor(), got: 16, alignment: 32 }),
        case(
            "beyond-file",
            at(64),
            24,
            Fault::OutsideFile { tensor: tensor(), start: 128, end: 160, size: 128 },
        ),
        case(
            "larger-than-file",
            start(1).tensor("t", &[1 << 40], F32, 0).data(64),
            24,
            Fault::OutsideFile { tensor: tensor(), start: 64, end: 64 + (4 << 40), size: 128 },
        ),
        case("offset-overflow", at(u64::MAX - 31), 24, Fault::Overflow { tensor: tensor() }),
        case("end-overflow", start(1).tensor("t", &[32], F32, u64::MAX - 127).data(64), 24, {
            Fault::Overflow { tensor: tensor() }
        }),
        case(
            "overlap",
            overlapping.tensor("second", &[8], F32, 32).data(64),
            second,
            Fault::Overlap { first: "first".to_owned(), second: "second".to_owned() },
        ),
        case("data-missing", start(1).tensor("t", &[8], F32, 0), 24, {
            Fault::OutsideFile { tensor: tensor(), start: 64, end: 96, size: 57 }
        }),
    ]
}
