//! The device arguments: device, threads, instruction set.

use super::{isa, threads};
use crate::error::Error;
use crate::output::{detail, note};
use clap::Args;
use indicatif::HumanBytes;
use silicide::Device;
use silicide::device::DeviceOptions;
use silicide::hal::cpu::Isa;

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
    /// CPU threads; 0: one per core [default: 0]
    #[arg(short, long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    #[arg(env = "SILICIDE_THREADS", hide_env_values = true)]
    pub(crate) threads: Option<usize>,
    /// Instruction set of the CPU device: portable, neon, avx2 or avx512 [default: the best of this CPU]
    #[arg(long, value_name = "ISA", value_parser = isa)]
    pub(crate) isa: Option<Isa>,
    /// Accepted for llama.cpp's command lines: 0 selects the CPU; all layers run on one device [aliases: -ngl, --n-gpu-layers]
    #[arg(long, alias = "n-gpu-layers", value_name = "N", allow_hyphen_values = true)]
    pub(crate) gpu_layers: Option<String>,
    /// Whether kernels are timed. Metal needs this when the device is opened.
    #[arg(skip)]
    pub(crate) timing: bool,
}

impl DeviceArgs {
    /// Opens the device.
    pub(crate) fn open(&self) -> Result<Device, Error> {
        let mut options = DeviceOptions::default();
        options.threads = self.threads.filter(|&count| count > 0);
        options.isa = self.isa;
        options.timing = self.timing;
        options.kernel_cache = silicide_llm::store::cache_dir().map(|directory| directory.join("kernels"));
        let device = Device::open_with(self.id()?, &options)?;
        self.say_where_layers_run(&device);
        detail(describe(&device));
        Ok(device)
    }

    /// Returns the name to open. `best` is the CPU if the arguments are for the CPU alone.
    fn id(&self) -> Result<&str, Error> {
        let for_cpu = self.isa.is_some() || self.gpu_layers.as_deref() == Some("0");
        match self.device.as_str() {
            "best" if for_cpu => Ok("cpu"),
            "best" | "cpu" => Ok(&self.device),
            gpu if self.isa.is_some() => {
                Err(Error::Usage(format!("--isa is for the CPU; the device is {gpu}")))
            }
            _ => Ok(&self.device),
        }
    }

    /// Prints a note about `-ngl`.
    fn say_where_layers_run(&self, device: &Device) {
        let Some(layers) = self.gpu_layers.as_deref() else { return };
        let (id, on_gpu) = (&device.info().id, device.info().is_gpu());
        match (on_gpu, layers) {
            (false, "0") | (true, "all" | "auto" | "-1") => {}
            (true, layers) if layers.parse::<u32>().is_ok_and(|count| count >= 99) => {}
            (true, _) => note(format_args!("-ngl {layers}: all layers run on {id}")),
            (false, _) => {
                note(format_args!("-ngl {layers}: no layer was offloaded; all layers run on the CPU"))
            }
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
