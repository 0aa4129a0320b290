//! MLX checkpoints whose settings or planes go wrong. All hold one module `m` of two rows of 64 numbers in 4 bits.

use super::Case;
use super::safetensors::file;
use silicide_weights::Fault;

/// A tensor by name, type and extents.
type Tensor = (&'static str, &'static str, [usize; 2]);

const WEIGHT: Tensor = ("m.weight", "U32", [2, 8]);
const SCALES: Tensor = ("m.scales", "F16", [2, 1]);
const BIASES: Tensor = ("m.biases", "F16", [2, 1]);
const CONFIG: &str = r#"{"quantization": {"group_size": 64, "bits": 4}}"#;

/// A header that holds these tensors, and the number of bytes that they take.
fn header(tensors: &[Tensor]) -> (String, usize) {
    let mut end = 0;
    let mut parts = Vec::new();
    for (name, dtype, [rows, columns]) in tensors {
        let start = end;
        end += rows * columns * if *dtype == "U32" { 4 } else { 2 };
        parts.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":[{rows},{columns}],"data_offsets":[{start},{end}]}}"#
        ));
    }
    (format!("{{{}}}", parts.join(",")), end)
}

fn checkpoint(name: &str, config: &str, tensors: &[Tensor]) -> Case {
    let (header, bytes) = header(tensors);
    let path = |file: &str| format!("mlx-{name}/{file}");
    let model = (path("model.safetensors"), file(&header, bytes));
    Case {
        blamed: path("config.json"),
        files: vec![model, (path("config.json"), config.into())],
        offset: 0,
        fault: Fault::Overflow { tensor: String::new() },
    }
}

/// Settings are wrong, where `mark` begins in them.
fn settings(name: &str, config: &str, mark: &str, fault: Fault) -> Case {
    let offset = config.find(mark).unwrap_or(0) as u64;
    Case { offset, fault, ..checkpoint(name, config, &[WEIGHT, SCALES, BIASES]) }
}

/// Planes are wrong; `blamed` is the one to blame.
fn planes(name: &str, tensors: &[Tensor], blamed: &str, fault: Fault) -> Case {
    planes_of(name, CONFIG, tensors, blamed, fault)
}

fn planes_of(name: &str, config: &str, tensors: &[Tensor], blamed: &str, fault: Fault) -> Case {
    let offset = header(tensors).0.find(&format!("\"{blamed}\"")).unwrap_or(0) as u64 + 8;
    let case = checkpoint(name, config, tensors);
    Case { blamed: case.path().to_owned(), offset, fault, ..case }
}

pub(super) fn cases() -> Vec<Case> {
    [bad_settings(), bad_planes()].concat()
}

fn bad_settings() -> Vec<Case> {
    let json = |detail: &str| Fault::Json { what: "config", detail: detail.to_owned() };
    let refused = |module: &str, setting, got: &str, expected| Fault::Setting {
        module: module.to_owned(),
        setting,
        got: got.to_owned(),
        expected,
    };
    let of = |settings: &str| format!(r#"{{"model_type": "llama", "quantization": {{{settings}}}}}"#);
    let all = "\"quantization\"";
    let (bits, groups) = ("2, 3, 4, 5, 6 or 8", "32, 64 or 128");
    let modes = "affine, mxfp4, mxfp8 or nvfp4";
    let twice = of(r#""bits": 4, "m": {"bits": 4}, "m": false"#);
    vec![
        settings("bits-7", &of(r#""group_size": 64, "bits": 7"#), all, refused("", "bits", "7", bits)),
        settings(
            "group-48",
            &of(r#""group_size": 48, "bits": 4"#),
            all,
            refused("", "group_size", "48", groups),
        ),
        settings("mode", &of(r#""bits": 4, "mode": "fancy""#), all, refused("", "mode", "\"fancy\"", modes)),
        settings(
            "override-bits",
            &of(r#""bits": 4, "m": {"bits": 18446744073709551615}"#),
            "\"m\"",
            refused("m", "bits", "18446744073709551615", bits),
        ),
        settings(
            "override-group",
            &of(r#""bits": 4, "m": {"mode": "nvfp4", "group_size": 32}"#),
            "\"m\"",
            refused("m", "group_size", "32", "16"),
        ),
        settings("negative", &of(r#""bits": -4"#), "4}}", json("invalid value: integer `-4`")),
        settings("override-twice", &twice, "}}", json("key \"m\" occurs twice")),
        settings("config-garbage", "{]", "]", json("key must be a string")),
        settings("config-list", "[null,null]", "", json("invalid type: sequence, expected an object")),
    ]
}

fn bad_planes() -> Vec<Case> {
    let without =
        |companion: &str| Fault::Companion { tensor: "m.weight".to_owned(), companion: companion.to_owned() };
    let plane = |tensor: &str, got: &str, expected: &str| Fault::Plane {
        tensor: tensor.to_owned(),
        got: got.to_owned(),
        expected: expected.to_owned(),
    };
    let own = r#"{"quantization": {"m": {"group_size": 64, "bits": 4}}}"#;
    vec![
        planes("no-scales", &[WEIGHT, BIASES], "m.weight", without("m.scales")),
        planes("no-biases", &[WEIGHT, SCALES], "m.weight", without("m.biases")),
        planes_of(
            "override-no-scales",
            own,
            &[("m.weight", "F16", [2, 64])],
            "m.weight",
            without("m.scales"),
        ),
        planes("group", &[WEIGHT, ("m.scales", "F16", [2, 2]), BIASES], "m.scales", {
            plane("m.scales", "f16 [2, 2]", "f16 [2, 1]")
        }),
        planes("width", &[("m.weight", "U32", [2, 7]), SCALES, BIASES], "m.weight", {
            plane("m.weight", "u32 [2, 7]", "u32 [2, 8]")
        }),
        planes("rows", &[WEIGHT, ("m.scales", "F16", [1, 1]), BIASES], "m.scales", {
            plane("m.scales", "f16 [1, 1]", "f16 [2, 1]")
        }),
        planes("not-packed", &[("m.weight", "F16", [2, 8]), SCALES, BIASES], "m.weight", {
            plane("m.weight", "f16 [2, 8]", "u32 [2, 8]")
        }),
        planes("scale-type", &[WEIGHT, ("m.scales", "I16", [2, 1]), BIASES], "m.scales", {
            plane("m.scales", "i16 [2, 1]", "f16, bf16 or f32 [2, 1]")
        }),
        planes("bias-type", &[WEIGHT, SCALES, ("m.biases", "BF16", [2, 1])], "m.biases", {
            plane("m.biases", "bf16 [2, 1]", "f16 [2, 1]")
        }),
        planes("bias-shape", &[WEIGHT, SCALES, ("m.biases", "F16", [1, 2])], "m.biases", {
            plane("m.biases", "f16 [1, 2]", "f16 [2, 1]")
        }),
    ]
}
