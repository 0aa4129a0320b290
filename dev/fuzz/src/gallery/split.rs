//! GGUF models in several files that do not belong together.

use super::Case;
use super::bytes::Bytes;
use silicide_weights::Fault;

const U16: u32 = 2;
const I32: u32 = 5;

/// A shard that holds one tensor, as its metadata describes it.
struct Shard {
    number: u16,
    count: u16,
    tensors: u32,
    name: &'static str,
}

impl Shard {
    fn bytes(&self) -> Bytes {
        let head = Bytes::gguf(3, 1, 3).key("split.no", U16).u16(self.number);
        let head = head.key("split.count", U16).u16(self.count);
        head.key("split.tensors.count", I32).u32(self.tensors).tensor(self.name, &[8], 0, 0).data(32)
    }
}

/// The offset of the value of `split.no`.
const NUMBER: u64 = 24 + 8 + 8 + 4;
/// The offset of the value of `split.count`.
const COUNT: u64 = NUMBER + 2 + 8 + 11 + 4;
/// The offset of the value of `split.tensors.count`.
const TENSORS: u64 = COUNT + 2 + 8 + 19 + 4;
/// The offset of the tensor.
const TENSOR: u64 = TENSORS + 4;

fn case(name: &str, shards: [Bytes; 2], blamed: usize, offset: u64, fault: Fault) -> Case {
    let path = |number: usize| format!("split-{name}/model-{number:05}-of-00002.gguf");
    let files = (1..).map(path).zip(shards.map(Vec::from)).collect();
    Case { files, blamed: path(blamed), offset, fault }
}

fn split(key: &'static str, got: &str, expected: u64) -> Fault {
    Fault::Split { key, got: got.to_owned(), expected }
}

pub(super) fn cases() -> Vec<Case> {
    let first = || Shard { number: 0, count: 2, tensors: 2, name: "a" };
    let second = || Shard { number: 1, count: 2, tensors: 2, name: "b" };
    let (one, two) = (|| first().bytes(), || second().bytes());
    let plain = Bytes::gguf(3, 1, 0).tensor("b", &[8], 0, 0).data(32);
    let duplicate = Fault::Duplicate { what: "tensor", name: "a".to_owned() };
    let alone = Case::file("split-alone.gguf", one(), COUNT, split("split.count", "2", 1));
    let many = Case::file("split-absurd-00001-of-01025.gguf", one(), 0, {
        Fault::TooMany { what: "the number of files of a model", got: 1025, limit: 1024 }
    });
    vec![
        case(
            "count",
            [one(), Shard { count: 3, ..second() }.bytes()],
            2,
            COUNT,
            split("split.count", "3", 2),
        ),
        case(
            "number",
            [one(), Shard { number: 0, ..second() }.bytes()],
            2,
            NUMBER,
            split("split.no", "0", 1),
        ),
        case("order", [two(), one()], 1, NUMBER, split("split.no", "1", 0)),
        case("no-metadata", [one(), plain], 2, 0, split("split.count", "missing", 2)),
        case(
            "tensors",
            [Shard { tensors: 3, ..first() }.bytes(), two()],
            1,
            TENSORS,
            split("split.tensors.count", "3", 2),
        ),
        case("twice", [one(), Shard { name: "a", ..second() }.bytes()], 2, TENSOR, duplicate),
        alone,
        many,
    ]
}
