//! Every fuzz target.
//!
//! | file | what an input is |
//! |---|---|
//! | `weights.rs` | a weight file, which is parsed |
//! | `decode.rs` | blocks of a format, which are decoded |
//! | `model.rs` | a model or one of its files, which is loaded and generates four tokens |
//! | `chat.rs` | a chat template, which is compiled and rendered |
//! | `ops.rs` | choices for one run of the CPU kernels of an op on guard pages |
//! | `plans.rs` | the same, and changes to the plan of one kernel |
//! | `seeds.rs` | the valid inputs that mutations start from |
//! | `self_test.rs` | a target that crashes on purpose |

mod chat;
mod decode;
mod model;
mod ops;
mod plans;
mod seeds;
mod self_test;
mod weights;

use crate::mutate;
use crate::target::Target;
use silicide_core::{Device, DeviceOptions, Isa};
use std::sync::OnceLock;

macro_rules! targets {
    ($($name:literal $run:path, $seeds:path, $mutate:path;)*) => {
        /// Every target, in the order of the report: whole models first, as they take longest.
        pub const TARGETS: &[Target] =
            &[$(Target { name: $name, run: $run, seeds: $seeds, mutate: $mutate }),*];
    };
}

targets! {
    "gguf_model" model::gguf_model, seeds::gguf_models, mutate::gguf;
    "safetensors_model" model::safetensors_model, seeds::checkpoints, mutate::checkpoint;
    "config_json" model::config_json, seeds::configs, mutate::json;
    "tokenizer_json" model::tokenizer_json, seeds::tokenizers, mutate::json;
    "chat_template" chat::chat_template, seeds::templates, mutate::template;
    "ops" ops::ops, ops::seeds, mutate::bytes;
    "plans" plans::plans, ops::seeds, mutate::bytes;
    "gguf" weights::gguf, seeds::gguf_files, mutate::gguf;
    "safetensors_header" weights::safetensors_header, seeds::safetensors_files, mutate::safetensors;
    "mlx_config" weights::mlx_config, seeds::mlx_configs, mutate::checkpoint;
    "decode_legacy" decode::decode_legacy, seeds::blocks, mutate::bytes;
    "decode_k" decode::decode_k, seeds::blocks, mutate::bytes;
    "decode_iq" decode::decode_iq, seeds::blocks, mutate::bytes;
    "decode_iq4" decode::decode_iq4, seeds::blocks, mutate::bytes;
    "decode_ternary" decode::decode_ternary, seeds::blocks, mutate::bytes;
    "decode_fp4" decode::decode_fp4, seeds::blocks, mutate::bytes;
    "decode_mlx" decode::decode_mlx, seeds::blocks, mutate::bytes;
}

/// Returns the target called `name`: one of [`TARGETS`], or `self_test`, which crashes on purpose.
pub fn find(name: &str) -> Option<Target> {
    TARGETS.iter().copied().chain([self_test::SELF_TEST]).find(|target| target.name == name)
}

/// The instruction sets to use, where not all of the machine's.
static ISAS: OnceLock<Vec<Isa>> = OnceLock::new();

/// Restricts this process to some instruction sets. Only the first call has an effect.
pub fn restrict(isas: &[Isa]) {
    if !isas.is_empty() {
        let _ = ISAS.set(isas.to_vec());
    }
}

/// Opens the CPU once for each instruction set.
fn cpu_devices(options: &DeviceOptions) -> Vec<Device> {
    let open = |isa: Isa| {
        let mut options = options.clone();
        options.isa = Some(isa);
        Device::open_with("cpu", &options).ok()
    };
    let isas = ISAS.get().cloned().unwrap_or_else(Isa::available);
    isas.into_iter().filter_map(open).collect()
}
