//! Arguments that several commands share: the model, the device, how it runs, how tokens are chosen.

use crate::common::progress_bar;
use crate::error::Error;
use clap::Args;
use silicide::device::DeviceOptions;
use silicide::{CancelToken, DType, Device};
use silicide_llm::engine::Session;
use silicide_llm::sample::SamplerOptions;
use silicide_llm::{Model, ModelOptions};
use silicide_weights::Load;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// Flags that llama.cpp spells with one dash and several letters, which would be read as several flags.
const ONE_DASH: [(&str, &str); 6] = [
    ("-dev", "--device"),
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-ub", "--ubatch-size"),
    ("-nr", "--no-repack"),
    ("-sys", "--system-prompt"),
];

/// The arguments, with llama.cpp's flags of one dash spelled out. What follows a flag of `command` that takes a value is that
/// value, and stays as it is, as does everything after `--`.
pub(crate) fn spell_out(command: &clap::Command, given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut valued = BTreeSet::new();
    for argument in command.get_subcommands().flat_map(clap::Command::get_arguments) {
        if argument.get_action().takes_values() {
            valued.extend(argument.get_short().map(|short| format!("-{short}")));
            valued.extend(
                argument.get_long_and_visible_aliases().into_iter().flatten().map(|long| format!("--{long}")),
            );
        }
    }
    let (mut spelled, mut is_value, mut is_text) = (Vec::new(), false, false);
    for argument in given {
        let short = ONE_DASH.iter().find(|(short, _)| !is_value && !is_text && argument == *short);
        let argument = short.map_or(argument, |(_, long)| OsString::from(long));
        is_text |= !is_value && argument == "--";
        is_value = !is_value && argument.to_str().is_some_and(|name| valued.contains(name));
        spelled.push(argument);
    }
    spelled
}

/// What the CPU backend takes.
const MOST_THREADS: i64 = 64;

/// Where to run.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeviceArgs {
    /// The device: cpu, vulkan:0, metal:0 ... (see `silicide devices`); best takes a GPU where there is one.
    #[arg(long, default_value = "best", value_name = "NAME")]
    pub(crate) device: String,
    /// Threads of the CPU; 0 for one per core, as by default.
    #[arg(short, long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,
    /// Whether kernels are to be timed, which Metal must know beforehand.
    #[arg(skip)]
    pub(crate) timing: bool,
}

impl DeviceArgs {
    /// Opens the device.
    pub(crate) fn open(&self) -> Result<Device, Error> {
        let mut options = DeviceOptions::default();
        options.threads = self.threads.filter(|&count| count > 0);
        options.timing = self.timing;
        options.kernel_cache = silicide_llm::store::cache_dir().map(|directory| directory.join("kernels"));
        Ok(Device::open_with(&self.device, &options)?)
    }
}

/// Which model, and how it runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelArgs {
    /// The model: a GGUF file, a folder with safetensors, or a name such as smollm2.
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// How a model runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct EngineArgs {
    /// Tokens that are remembered; 0 for as many as the model was trained on. [default: that, at most 4096]
    #[arg(short, long, value_name = "N")]
    pub(crate) ctx_size: Option<usize>,
    /// Tokens of one pass at most; -ub for short.
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub(crate) ubatch_size: usize,
    /// The type of cached keys: f32, f16, bf16 or q8_0; -ctk for short.
    #[arg(long, default_value = "f16", value_name = "TYPE", value_parser = cache_type)]
    pub(crate) cache_type_k: DType,
    /// The type of cached values: f32, f16, bf16 or q8_0; -ctv for short.
    #[arg(long, default_value = "f16", value_name = "TYPE", value_parser = cache_type)]
    pub(crate) cache_type_v: DType,
    /// Use weights where the file lies in memory, on the CPU too, rather than rearranging a copy; -nr for short.
    #[arg(long)]
    pub(crate) no_repack: bool,
    /// How weight files are read: map (used in place, as the file lies on the disk) or copy (read into memory; a file that
    /// changes or is cut later does no harm). [default: copy on network file systems, map elsewhere]
    #[arg(long, value_name = "HOW", value_parser = load_mode)]
    pub(crate) load: Option<Load>,
    /// The same as --load copy.
    #[arg(long, conflicts_with = "load")]
    pub(crate) no_mmap: bool,
}

/// Reads the value of `--load`.
fn load_mode(name: &str) -> Result<Load, String> {
    match name {
        "map" => Ok(Load::Map),
        "copy" => Ok(Load::Copy),
        _ => Err("expected map or copy".to_owned()),
    }
}

/// A number of threads; 0, and -1 as llama.cpp has it, for one per core.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    match text.parse::<i64>() {
        Ok(-1) => Ok(0),
        Ok(count @ 0..=MOST_THREADS) => Ok(count as usize),
        _ => Err(format!("expected a number of threads from 1 to {MOST_THREADS}, or 0 for one per core")),
    }
}

/// A number of which llama.cpp says -1 for "no limit".
pub(crate) fn unlimited(text: &str) -> Result<usize, String> {
    match text {
        "-1" | "-2" => Ok(usize::MAX),
        text => text.parse().map_err(|_| "expected a number from 0 up, or -1 for no limit".to_owned()),
    }
}

/// A seed, none for another each time.
fn seed(text: &str) -> Result<Seed, String> {
    match text {
        "-1" => Ok(Seed(None)),
        text => {
            let number = text.parse().map_err(|_| "expected a number from 0 up, or -1 for another each time");
            Ok(Seed(Some(number?)))
        }
    }
}

fn cache_type(name: &str) -> Result<DType, String> {
    let known = ["f32", "f16", "bf16", "q8_0"];
    let found = known.contains(&name).then(|| DType::from_name(name)).flatten();
    found.ok_or_else(|| format!("known are {}", known.join(", ")))
}

/// Nobody said which model.
pub(crate) fn no_model() -> Error {
    Error::Usage("which model? Give -m FILE, or a name such as smollm2".to_owned())
}

impl ModelArgs {
    /// The model's file or folder, fetched if it is a name whose model is not here yet.
    pub(crate) fn path(&self, cancel: &CancelToken) -> Result<PathBuf, Error> {
        let name = self.model.as_deref().ok_or_else(no_model)?;
        crate::store::resolve(name, cancel)
    }

    /// Opens the device and loads the model, with a progress bar if that takes long.
    pub(crate) fn load(&self, cancel: &CancelToken) -> Result<Model, Error> {
        let path = self.path(cancel)?;
        let device = self.device.open()?;
        let mut options = ModelOptions::default();
        options.context = self.engine.ctx_size;
        options.chunk = self.engine.ubatch_size;
        options.key_type = self.engine.cache_type_k;
        options.value_type = self.engine.cache_type_v;
        options.repack = !self.engine.no_repack;
        options.files = if self.engine.no_mmap { Some(Load::Copy) } else { self.engine.load };
        options.load.cancel = cancel.clone();
        let bar = progress_bar("loading");
        let watched = bar.clone();
        options.load.progress = Some(Arc::new(move |event| {
            watched.set_length(event.total);
            watched.set_position(event.done);
        }));
        let model = options.device(&device).open(&path);
        bar.finish_and_clear();
        Ok(model?)
    }

    /// Loads the model and begins a session.
    pub(crate) fn session(&self, cancel: &CancelToken) -> Result<Session, Error> {
        Ok(Session::new(&self.load(cancel)?)?)
    }
}

/// Where chance begins, or nowhere in particular.
#[derive(Clone, Copy, Debug)]
struct Seed(Option<u64>);

/// How tokens are chosen.
#[derive(Clone, Debug, Args)]
pub(crate) struct SamplerArgs {
    /// Where chance begins; the same seed gives the same text. [default: another each time]
    #[arg(short, long, value_name = "N", value_parser = seed, allow_negative_numbers = true)]
    seed: Option<Seed>,
    /// Chance: 0 always takes the likeliest token.
    #[arg(
        long,
        visible_alias = "temperature",
        default_value_t = 0.8,
        value_name = "T",
        allow_negative_numbers = true
    )]
    temp: f32,
    /// Choose among so many of the likeliest; 0 for all.
    #[arg(long, default_value_t = 40, value_name = "N", allow_negative_numbers = true)]
    top_k: i64,
    /// Choose among the likeliest that have this probability together.
    #[arg(long, default_value_t = 0.95, value_name = "P", allow_negative_numbers = true)]
    top_p: f32,
    /// Choose among those at least this fraction as likely as the likeliest.
    #[arg(long, default_value_t = 0.05, value_name = "P", allow_negative_numbers = true)]
    min_p: f32,
    /// Makes tokens seen lately less likely; 1 does nothing.
    #[arg(long, default_value_t = 1.0, value_name = "X", allow_negative_numbers = true)]
    repeat_penalty: f32,
    /// Tokens that are "lately"; -1 for all.
    #[arg(long, default_value = "64", value_name = "N", value_parser = unlimited, allow_negative_numbers = true)]
    repeat_last_n: usize,
    /// Subtracted for each time a token was seen lately.
    #[arg(long, default_value_t = 0.0, value_name = "X", allow_negative_numbers = true)]
    frequency_penalty: f32,
    /// Subtracted if a token was seen lately.
    #[arg(long, default_value_t = 0.0, value_name = "X", allow_negative_numbers = true)]
    presence_penalty: f32,
}

impl SamplerArgs {
    /// The options, checked.
    pub(crate) fn options(&self) -> Result<SamplerOptions, Error> {
        let mut options = SamplerOptions::default();
        options.seed = self.seed.and_then(|Seed(seed)| seed).unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |since| since.as_nanos() as u64)
        });
        options.temperature = self.temp;
        // All of them, as llama.cpp reads numbers below 1.
        options.top_k = usize::try_from(self.top_k).unwrap_or(0);
        options.top_p = self.top_p;
        options.min_p = self.min_p;
        options.repeat_penalty = self.repeat_penalty;
        options.repeat_last = self.repeat_last_n;
        options.frequency_penalty = self.frequency_penalty;
        options.presence_penalty = self.presence_penalty;
        options.check()?;
        Ok(options)
    }
}

/// The most memory that the process had, in bytes, where the system tells.
pub(crate) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_with_one_dash_are_spelled_out_and_others_are_left() {
        let command = <crate::Arguments as clap::CommandFactory>::command();
        for (given, meant) in [
            ("run -ctk f32", "run --cache-type-k f32"),
            ("run -ub 3 -c 5", "run --ubatch-size 3 -c 5"),
            ("run -dev cpu -ctkx text", "run --device cpu -ctkx text"),
            // Values are not flags.
            ("tokenize --text -ub --json", "tokenize --text -ub --json"),
            ("run -p -sys -sys -p -n 3", "run -p -sys --system-prompt -p -n 3"),
            ("run --raw -ub 3 -- -ub", "run --raw --ubatch-size 3 -- -ub"),
        ] {
            let spelled = spell_out(&command, given.split(' ').map(OsString::from));
            assert_eq!(spelled.join(&OsString::from(" ")), meant);
        }
    }
}
