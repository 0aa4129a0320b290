//! The facts that name a model in a table of figures: its name, format, size and parameters, and the devices of its layers.

use crate::error::Error;
use serde::Serialize;
use silicide::hal::Backend;
use silicide_llm::Model;
use silicide_weights::Source;
use std::collections::BTreeMap;
use std::path::Path;

/// The facts that identify a model.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ModelFacts {
    /// The name in the file's metadata, or the name of the file.
    pub(crate) name: String,
    /// The format of most bytes.
    pub(crate) format: String,
    /// Bytes of all tensors.
    pub(crate) bytes: u64,
    /// Elements of all tensors.
    pub(crate) parameters: u64,
}

impl ModelFacts {
    /// Reads the facts of the model at `path`.
    pub(crate) fn read(path: &Path) -> Result<ModelFacts, Error> {
        let source = Source::open(path)?;
        let mut formats: BTreeMap<String, u64> = BTreeMap::new();
        let mut parameters = 0u64;
        for entry in source.entries() {
            let bytes = formats.entry(entry.stored().to_string()).or_default();
            *bytes = bytes.saturating_add(entry.bytes().unwrap_or(0));
            parameters = parameters.saturating_add(entry.shape().elements() as u64);
        }
        let bytes = formats.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        let format = formats.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(format, _)| format);
        let given = source.get("general.name").and_then(|value| value.as_str()).map(str::to_owned);
        let stem = || path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let name = given.filter(|name| !name.trim().is_empty()).unwrap_or_else(stem);
        Ok(ModelFacts { name, format: format.unwrap_or_default(), bytes, parameters })
    }

    /// Returns the number of parameters as people say it: `134.52 M`.
    pub(crate) fn parameters_text(&self) -> String {
        let count = self.parameters as f64;
        match self.parameters {
            0..1_000_000 => format!("{:.2} K", count / 1e3),
            1_000_000..1_000_000_000 => format!("{:.2} M", count / 1e6),
            _ => format!("{:.2} B", count / 1e9),
        }
    }
}

/// The devices of a model's layers, for programs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LayerFacts {
    /// The devices: the one that computes the logits, and the CPU if it has a part.
    devices: Vec<String>,
    /// The layers, with the output layer as one more.
    layers: usize,
    /// Those on the GPU.
    gpu_layers: usize,
    /// The first layers whose experts alone run on the CPU.
    cpu_experts: usize,
}

impl LayerFacts {
    /// Returns the devices of a model's layers.
    pub(crate) fn of(model: &Model) -> LayerFacts {
        let (part, layers) = (model.placement().cpu_part(), model.description().layers.len() + 1);
        let is_on_cpu = model.device().info().backend == Backend::Cpu;
        LayerFacts {
            devices: model.devices().iter().map(|device| device.info().id.clone()).collect(),
            layers,
            gpu_layers: if is_on_cpu { 0 } else { layers - part.cpu_layers },
            cpu_experts: part.cpu_experts,
        }
    }

    /// Returns the devices: `vulkan:0 + cpu`.
    pub(crate) fn devices_text(&self) -> String {
        self.devices.join(" + ")
    }

    /// Returns the layers on the GPU for a table: `5`, `8, 2 cpu moe`.
    pub(crate) fn ngl_text(&self) -> String {
        match self.cpu_experts {
            0 => self.gpu_layers.to_string(),
            experts => format!("{}, {experts} cpu moe", self.gpu_layers),
        }
    }

    /// Returns the layers of each device, if there are two: `5 of 8 layers on vulkan:0, 3 on cpu`. The output layer is one of them.
    pub(crate) fn text(&self) -> Option<String> {
        let [gpu, cpu] = self.devices.as_slice() else { return None };
        let LayerFacts { layers, gpu_layers, cpu_experts, .. } = self;
        let on_gpu = match layers - gpu_layers {
            0 => format!("{layers} layers on {gpu}"),
            on_cpu => format!("{gpu_layers} of {layers} layers on {gpu}, {on_cpu} on {cpu}"),
        };
        Some(match cpu_experts {
            0 => on_gpu,
            1 => format!("{on_gpu}, the experts of the first layer on {cpu}"),
            experts => format!("{on_gpu}, the experts of the first {experts} layers on {cpu}"),
        })
    }
}

/// The types of a model's KV cache, for programs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CacheFacts {
    keys: StoredFacts,
    values: StoredFacts,
}

/// The type of keys or of values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct StoredFacts {
    r#type: &'static str,
    /// Whether heads are rotated before they are quantized.
    rotated: bool,
}

impl CacheFacts {
    /// Returns the types of a model's cache.
    pub(crate) fn of(model: &Model) -> Result<CacheFacts, Error> {
        let options = model.cache_options();
        let [keys, values] = options.rotated(model.description())?;
        Ok(CacheFacts {
            keys: StoredFacts { r#type: options.key_type.name(), rotated: keys },
            values: StoredFacts { r#type: options.value_type.name(), rotated: values },
        })
    }

    /// Whether keys and values are f16.
    pub(crate) fn is_default(&self) -> bool {
        [&self.keys, &self.values].iter().all(|stored| stored.r#type == "f16")
    }

    /// Returns the types of keys and values: `q4_0 rotated, f16`.
    pub(crate) fn text(&self) -> String {
        let text = |stored: &StoredFacts| match stored.rotated {
            true => format!("{} rotated", stored.r#type),
            false => stored.r#type.to_owned(),
        };
        format!("{}, {}", text(&self.keys), text(&self.values))
    }
}

/// Returns the version of this program, with the commit that a release build may name.
pub(crate) fn build() -> String {
    match option_env!("SILICIDE_COMMIT") {
        Some(commit) => format!("silicide {} ({commit})", env!("CARGO_PKG_VERSION")),
        None => format!("silicide {}", env!("CARGO_PKG_VERSION")),
    }
}
