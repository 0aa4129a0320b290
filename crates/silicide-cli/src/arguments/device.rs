//! The device arguments: device, threads, instruction set, and which layers run on the CPU.

use super::{isa, threads};
use crate::error::Error;
use crate::output::{detail, note};
use clap::Args;
use indicatif::HumanBytes;
use silicide::Device;
use silicide::device::DeviceOptions;
use silicide::hal::Backend;
use silicide::hal::cpu::Isa;
use silicide_llm::model::Split;
use silicide_llm::{Model, ModelOptions};

/// Where to run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceArgs {
    /// The device: cpu, vulkan:0, metal:0, ... as `silicide devices` lists them; best: a GPU if there is one, else the CPU
    /// [aliases: -dev]
    #[arg(
        long,
        default_value = "best",
        value_name = "NAME",
        env = "SILICIDE_DEVICE",
        hide_env_values = true
    )]
    pub(crate) device: String,
    /// CPU threads; 0: one per core, on Linux without efficiency cores and of one NUMA node [default: 0]
    #[arg(short, long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    #[arg(env = "SILICIDE_THREADS", hide_env_values = true)]
    pub(crate) threads: Option<usize>,
    /// Instruction set of the CPU device: portable, neon, avx2, avx-vnni or avx512 [default: the best of this CPU]
    #[arg(long, value_name = "ISA", value_parser = isa, env = "SILICIDE_ISA", hide_env_values = true)]
    pub(crate) isa: Option<Isa>,
    #[command(flatten)]
    pub(crate) split: SplitArgs,
    /// Whether kernels are timed. Metal needs this when the device is opened.
    #[arg(skip)]
    pub(crate) timing: bool,
}

/// Which layers run on the GPU, and which on the CPU.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct SplitArgs {
    /// Number of layers on the GPU: the last N, where the output layer counts as one. The others run on the CPU. all: every layer;
    /// auto or -1: as many as fit its memory [default: auto] [aliases: -ngl, --n-gpu-layers]
    #[arg(long, alias = "n-gpu-layers", value_name = "N", allow_hyphen_values = true, value_parser = gpu_layers)]
    #[arg(env = "SILICIDE_GPU_LAYERS", hide_env_values = true)]
    pub(crate) gpu_layers: Option<GpuLayers>,
    /// Keep the experts of the first N layers on the CPU [default: as many as necessary, 0 with -ngl] [aliases: -ncmoe]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = layers)]
    pub(crate) n_cpu_moe: Option<usize>,
    /// Keep all experts on the CPU [aliases: -cmoe]
    #[arg(long, conflicts_with = "n_cpu_moe")]
    pub(crate) cpu_moe: bool,
}

/// The value of `--gpu-layers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GpuLayers {
    /// As many as fit.
    Auto,
    /// All of them.
    All,
    /// The last ones, the output layer included.
    Last(usize),
}

/// Parses the value of `--gpu-layers`. llama.cpp says -1 for auto.
fn gpu_layers(text: &str) -> Result<GpuLayers, String> {
    match text {
        "auto" | "-1" => Ok(GpuLayers::Auto),
        "all" => Ok(GpuLayers::All),
        text => text
            .parse()
            .map(GpuLayers::Last)
            .map_err(|_| "expected a number of layers from 0 up, all, or auto (-1)".to_owned()),
    }
}

/// Parses a number of layers.
fn layers(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a number of layers from 0 up".to_owned())
}

impl SplitArgs {
    /// Whether an argument was given.
    pub(crate) fn is_given(&self) -> bool {
        self.gpu_layers.is_some() || self.cpu_experts().is_some()
    }

    /// Returns the number of first layers whose experts run on the CPU, if it was given.
    fn cpu_experts(&self) -> Option<usize> {
        if self.cpu_moe { Some(usize::MAX) } else { self.n_cpu_moe }
    }

    /// Prints a note if experts were to stay on the CPU, and `model` has none or no GPU.
    pub(crate) fn say_where_experts_run(&self, model: &Model) {
        if self.cpu_experts().is_none_or(|count| count == 0) || model.placement().cpu_part() != Split::NONE {
            return;
        }
        let why = match model.device().info().backend {
            Backend::Cpu => "all layers run on the CPU",
            _ => "the model has no experts",
        };
        note(format_args!("--cpu-moe, --n-cpu-moe: {why}"));
    }

    /// Whether everything runs on the CPU.
    fn is_for_cpu(&self) -> bool {
        self.gpu_layers == Some(GpuLayers::Last(0))
    }
}

impl DeviceArgs {
    /// Opens the device. Sets it in `model`, and what runs on the CPU.
    pub(crate) fn choose(&self, model: &mut ModelOptions) -> Result<Device, Error> {
        let device = self.open()?;
        model.device = Some(device.clone());
        model.gpu_layers = match self.split.gpu_layers {
            None | Some(GpuLayers::Auto) => None,
            Some(GpuLayers::All) => Some(usize::MAX),
            Some(GpuLayers::Last(count)) => Some(count),
        };
        model.cpu_experts = self.split.cpu_experts();
        // The library opens a CPU device with the defaults where it needs one.
        if device.info().backend != Backend::Cpu && (self.threads.is_some() || self.isa.is_some()) {
            model.cpu = Some(Device::open_with("cpu", &self.options())?);
        }
        Ok(device)
    }

    fn options(&self) -> DeviceOptions {
        let mut options = DeviceOptions::default();
        options.threads = self.threads.filter(|&count| count > 0);
        options.isa = self.isa;
        options.timing = self.timing;
        options.kernel_cache = silicide_llm::store::cache_dir().map(|directory| directory.join("kernels"));
        options
    }

    /// Opens the device.
    fn open(&self) -> Result<Device, Error> {
        let device = Device::open_with(self.id()?, &self.options())?;
        self.say_where_layers_run(&device);
        detail(describe(&device));
        Ok(device)
    }

    /// Returns the name to open. `best` is the CPU if the arguments are for the CPU alone.
    fn id(&self) -> Result<&str, Error> {
        match self.device.as_str() {
            _ if self.split.is_for_cpu() => Ok("cpu"),
            "best" if self.isa.is_some() && !self.split.is_given() => Ok("cpu"),
            "best" | "cpu" => Ok(&self.device),
            gpu if self.isa.is_some() && !self.split.is_given() => Err(Error::Usage(format!(
                "--isa is for the CPU; the device is {gpu}; SILICIDE_ISA sets it too"
            ))),
            _ => Ok(&self.device),
        }
    }

    /// Prints a note if layers are to run on a GPU, and there is none.
    fn say_where_layers_run(&self, device: &Device) {
        let layers = match self.split.gpu_layers {
            Some(GpuLayers::Last(count @ 1..)) => count.to_string(),
            Some(GpuLayers::All) => "all".to_owned(),
            _ => return,
        };
        if device.info().backend == Backend::Cpu {
            note(format_args!(
                "-ngl {layers}: no layer was offloaded; all layers run on the CPU; --device names a GPU, silicide devices lists them"
            ));
        }
    }
}

/// Returns one line on a device.
fn describe(device: &Device) -> String {
    let info = device.info();
    let place = match info.isa {
        Some(isa) => format!("{isa}, {} threads", info.threads),
        None => info.driver.clone(),
    };
    let (total, free) = (HumanBytes(info.memory.total as u64), HumanBytes(info.memory.available as u64));
    format!("device: {} ({}), {place}, {total} memory, {free} free", info.id, info.name)
}
