//! safetensors files and indices that go wrong.

use super::Case;
use super::bytes::Bytes;
use silicide_weights::Fault;

/// Returns a file of `header` and `data` bytes of data.
pub(super) fn file(header: &str, data: usize) -> Vec<u8> {
    Bytes::default().text(header).raw(&vec![0; data]).into()
}

fn case(name: &str, header: &str, data: usize, offset: usize, fault: Fault) -> Case {
    Case::file(&format!("safetensors-{name}.safetensors"), file(header, data), 8 + offset as u64, fault)
}

/// A case whose fault is where `mark` begins in the header.
fn marked(name: &str, header: &str, data: usize, mark: &str, fault: Fault) -> Case {
    case(name, header, data, header.find(mark).unwrap_or(0), fault)
}

/// A case whose fault is at the end of `mark`.
fn after(name: &str, header: &str, data: usize, mark: &str, fault: Fault) -> Case {
    case(name, header, data, header.find(mark).map_or(0, |at| at + mark.len() - 1), fault)
}

fn json(what: &'static str, detail: &str) -> Fault {
    Fault::Json { what, detail: detail.to_owned() }
}

pub(super) fn cases() -> Vec<Case> {
    [lengths(), headers(), tensors(), tiles(), indices()].concat()
}

fn lengths() -> Vec<Case> {
    let whole = |name: &str, bytes: Bytes, offset, fault| {
        Case::file(&format!("safetensors-{name}.safetensors"), bytes, offset, fault)
    };
    let cut = |needed, remaining| Fault::Truncated { what: "the header", needed, remaining };
    let absurd = Fault::TooMany { what: "the header", got: 1 << 63, limit: 100 << 20 };
    vec![
        whole("empty", Bytes::default(), 0, cut(8, 0)),
        whole("length-cut", Bytes::default().u32(2), 0, cut(8, 4)),
        whole("length-absurd", Bytes::default().u64(1 << 63).raw(b"{}"), 0, absurd),
        whole("length-beyond-file", Bytes::default().u64(3).raw(b"{}"), 0, cut(3, 2)),
        whole("not-utf8", Bytes::default().text(b"{\"\xff\":1}"), 10, Fault::Utf8 { what: "the header" }),
    ]
}

fn headers() -> Vec<Case> {
    let list = r#"{"a":["U8",[1],[0,1]]}"#;
    let twice = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
    let field = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"code":"x"}}"#;
    vec![
        case("garbage", "{nonsense}", 0, 1, json("header", "key must be a string")),
        case("list", "[1]", 0, 0, json("header", "invalid type: sequence, expected an object of tensors")),
        after(
            "tensor-list",
            list,
            1,
            r#""a":"#,
            json("header", "invalid type: sequence, expected an object"),
        ),
        case("trailing", "{} {}", 0, 3, json("header", "trailing characters")),
        after("cut", r#"{"a":{"dtype":"U8","#, 0, r#""U8","#, json("header", "EOF while parsing")),
        after("twice", twice, 1, r#"]},"a""#, Fault::Duplicate { what: "tensor", name: "a".to_owned() }),
        after("unknown-field", field, 1, r#""code""#, json("header", "unknown field `code`")),
        after(
            "metadata-number",
            r#"{"__metadata__":{"a":1}}"#,
            0,
            r#""a":1"#,
            json("header", "invalid type: integer `1`"),
        ),
        after(
            "metadata-twice",
            r#"{"__metadata__":{"a":"1","a":"2"}}"#,
            0,
            r#""a":"2"}"#,
            json("header", "key \"a\" occurs twice"),
        ),
    ]
}

fn tensors() -> Vec<Case> {
    let header = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"a":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{offsets}]}}}}"#)
    };
    let tensor = || "a".to_owned();
    let size = |got| Fault::RangeSize { tensor: tensor(), expected: 8, got };
    let outside = |start, end| Fault::OutsideData { tensor: tensor(), start, end, size: 8 };
    let axes = Fault::TooMany { what: "a tensor's number of axes", got: 7, limit: 6 };
    vec![
        after("dtype", &header("Q9", "2", "0,8"), 8, r#""Q9""#, json("header", "unknown variant `Q9`")),
        after(
            "extent-negative",
            &header("F32", "-2", "0,8"),
            8,
            "-2",
            json("header", "invalid value: integer `-2`"),
        ),
        marked("axes-7", &header("U8", "1,1,1,1,1,1,1", "0,1"), 1, "\"a\"", axes),
        marked("shape-overflow", &header("F32", "4294967296,4294967296", "0,8"), 8, "\"a\"", {
            Fault::Overflow { tensor: tensor() }
        }),
        marked("bits-overflow", &header("F64", "2305843009213693952", "0,8"), 8, "\"a\"", {
            Fault::Overflow { tensor: tensor() }
        }),
        marked("range-short", &header("F32", "2", "0,4"), 4, "\"a\"", size(4)),
        marked("range-long", &header("F32", "2", "0,12"), 12, "\"a\"", size(12)),
        marked("range-outside", &header("F32", "2", "8,16"), 8, "\"a\"", outside(8, 16)),
        marked(
            "range-absurd",
            &header("F32", "2", "18446744073709551607,18446744073709551615"),
            8,
            "\"a\"",
            outside(u64::MAX - 8, u64::MAX),
        ),
        marked("range-backwards", &header("F32", "2", "8,0"), 8, "\"a\"", outside(8, 0)),
    ]
}

fn tiles() -> Vec<Case> {
    let two = |first: (u64, u64), second: (u64, u64)| {
        let tensor = |name: &str, (start, end): (u64, u64)| {
            format!(r#""{name}":{{"dtype":"U8","shape":[{}],"data_offsets":[{start},{end}]}}"#, end - start)
        };
        format!("{{{},{}}}", tensor("a", first), tensor("b", second))
    };
    let gap = |from, to| Fault::Gap { from, to };
    let overlap = Fault::Overlap { first: "a".to_owned(), second: "b".to_owned() };
    vec![
        marked("gap-first", &two((2, 4), (4, 8)), 8, r#""a""#, gap(0, 2)),
        marked("gap", &two((0, 3), (5, 8)), 8, r#""b""#, gap(3, 5)),
        marked("gap-last", &two((0, 3), (3, 6)), 8, "{", gap(6, 8)),
        marked("overlap", &two((0, 5), (4, 8)), 8, r#""b""#, overlap.clone()),
        marked("overlap-inside", &two((0, 8), (2, 4)), 8, r#""b""#, overlap),
    ]
}

/// A checkpoint in two shards under an index: the second holds the tensor `second`.
fn index_case(name: &str, index: &str, second: &str, offset: usize, fault: Fault) -> Case {
    let path = |file: &str| format!("index-{name}/{file}");
    let tensor = |name: &str, at: usize| {
        format!(r#""{name}":{{"dtype":"U8","shape":[1],"data_offsets":[{at},{}]}}"#, at + 1)
    };
    let first = file(&format!("{{{},{}}}", tensor("a", 0), tensor("b", 1)), 2);
    let second = file(&format!("{{{}}}", tensor(second, 0)), 1);
    let blamed = path(INDEX);
    let files =
        vec![(blamed.clone(), index.into()), (path("1.safetensors"), first), (path("2.safetensors"), second)];
    Case { files, blamed, offset: offset as u64, fault }
}

const INDEX: &str = "model.safetensors.index.json";

fn indices() -> Vec<Case> {
    let good = r#"{"weight_map":{"a":"1.safetensors","c":"2.safetensors"}}"#;
    let swapped = r#"{"weight_map":{"a":"2.safetensors","c":"1.safetensors"}}"#;
    let escaping = r#"{"weight_map":{"a":"1.safetensors","c":"../gguf-empty.gguf"}}"#;
    let absolute = r#"{"weight_map":{"a":"/dev/zero"}}"#;
    let twice = r#"{"weight_map":{"b":"1.safetensors","a":"2.safetensors"}}"#;
    let at = |text: &str, mark: &str| text.find(mark).unwrap_or(0);
    let name = |name: &str| Fault::ShardName { name: name.to_owned() };
    let absent =
        |tensor: &str, file: &str| Fault::NotInShard { tensor: tensor.to_owned(), file: file.to_owned() };
    let none = Fault::TooMany { what: "the number of files of a model", got: 0, limit: 1024 };
    let duplicate = Fault::Duplicate { what: "tensor", name: "a".to_owned() };
    let in_shard = |case: Case| Case { blamed: case.blamed.replace(INDEX, "2.safetensors"), ..case };
    vec![
        index_case("garbage", "{\n\n", "c", 3, json("index", "EOF while parsing an object")),
        index_case("empty", r#"{"weight_map":{}}"#, "c", 0, none),
        index_case("no-map", "{}", "c", 1, json("index", "missing field `weight_map`")),
        index_case("escape", escaping, "c", at(escaping, "\"../"), name("../gguf-empty.gguf")),
        index_case("absolute", absolute, "c", at(absolute, "\"/dev"), name("/dev/zero")),
        index_case("swapped", swapped, "c", at(swapped, "\"a\""), absent("a", "2.safetensors")),
        index_case("absent", good, "d", at(good, "\"c\""), absent("c", "2.safetensors")),
        in_shard(index_case("twice", twice, "a", 9, duplicate)),
    ]
}
