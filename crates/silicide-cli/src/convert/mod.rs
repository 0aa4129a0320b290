//! `silicide convert`: a model as GGUF, its weights in another type if asked, in one file or several.
//!
//! | file | what |
//! |---|---|
//! | `recipe.rs` | the types and mixtures by name |
//! | `rules.rs` | which tensor of a mixture gets which type |
//! | `plan.rs` | the new type of each tensor |
//! | `gguf.rs` | plans from GGUF: metadata is copied |
//! | `checkpoint.rs` | plans from safetensors and MLX: names and metadata are translated |
//! | `tokenizer.rs` | `tokenizer.json` as GGUF metadata |
//! | `split.rs` | models in several files |
//! | `rows.rs` | rows of any stored tensor as f32 |
//! | `write.rs` | writing, piece by piece |
//! | `report.rs` | the table of `--dry-run`, and notes |

mod checkpoint;
mod gguf;
mod plan;
mod recipe;
mod report;
mod rows;
mod rules;
mod split;
mod tokenizer;
mod write;

use crate::arguments::from_environment;
use crate::common::{cancel_on_interrupt, progress_bar};
use crate::error::Error;
use crate::output;
use crate::terminal::{Printer, for_stderr};
use clap::Args;
use indicatif::HumanBytes;
use plan::{Override, Step, Types, parse_dtype};
use recipe::Recipe;
use report::{Circumstances, Note};
use silicide_quant::DType;
use silicide_weights::{Container, Source};
use split::{Limit, Shard, parse_size, shards};
use std::path::{Path, PathBuf};
use write::Writing;

/// Extensions that name another format than GGUF.
const OTHER_FORMATS: [&str; 14] = [
    "safetensors",
    "bin",
    "pt",
    "pth",
    "ckpt",
    "pkl",
    "onnx",
    "h5",
    "npz",
    "npy",
    "mlx",
    "json",
    "txt",
    "zip",
];

/// Convert or quantize a model into a GGUF file
#[derive(Debug, Args)]
#[command(override_usage = "silicide convert [OPTIONS] <MODEL> <OUTPUT> [TYPE]")]
#[command(after_help = format!("{}\n\n{EXAMPLES}", recipe::types()))]
pub(crate) struct Convert {
    /// The model: a GGUF or safetensors file, a folder with a model, or a name such as smollm2 [env: SILICIDE_MODEL]
    #[arg(value_name = "MODEL")]
    first: Option<String>,
    /// The GGUF file to write. Split files are named OUTPUT-00001-of-00003.gguf
    #[arg(value_name = "OUTPUT")]
    second: Option<String>,
    /// The type, if --type is not given
    #[arg(value_name = "TYPE")]
    third: Option<String>,
    /// The model, instead of the first argument
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    /// The type of the weights (see below). Norms and biases stay f32. [default: as they are stored]
    #[arg(long = "type", value_name = "TYPE", value_parser = parse_type)]
    recipe: Option<Recipe>,
    /// The type of the tensors whose names match a regular expression, such as ffn_down=q6_k. May be given several times;
    /// the first that matches counts
    #[arg(long, value_name = "PATTERN=TYPE", value_parser = Override::parse)]
    tensor_type: Vec<Override>,
    /// The type of the output projection (output.weight)
    #[arg(long, value_name = "TYPE", value_parser = parse_dtype)]
    output_tensor_type: Option<DType>,
    /// The type of the token embedding (token_embd.weight)
    #[arg(long, value_name = "TYPE", value_parser = parse_dtype)]
    token_embedding_type: Option<DType>,
    /// Write all weights in one type: no finer types for some tensors
    #[arg(long)]
    pure: bool,
    /// Quantize weights that are quantized already, without a warning
    #[arg(long)]
    allow_requantize: bool,
    /// Show the types and sizes of the output, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Split into files of at most this size, such as 500M or 2G
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "split_max_tensors")]
    split_max_size: Option<u64>,
    /// Split into files of at most this many tensors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    split_max_tensors: Option<u32>,
    /// Merge a split model into one file, which is also the default
    #[arg(long, conflicts_with_all = ["split_max_size", "split_max_tensors"])]
    merge: bool,
    /// Replace the output if it exists
    #[arg(short, long)]
    force: bool,
    /// CPU threads; 0: one per core [default: 0]
    #[arg(short, long, value_name = "N", value_parser = crate::arguments::threads, allow_negative_numbers = true)]
    threads: Option<usize>,
}

const EXAMPLES: &str = "\
Examples:
  silicide convert model.gguf small.gguf --type q4_k_m
  silicide convert folder/ model.gguf                   a folder with safetensors, types as they are
  silicide convert smollm2 small.gguf --type q4_k_m --dry-run
  silicide convert model.gguf part --split-max-size 2G
  silicide convert part-00001-of-00003.gguf model.gguf --merge";

fn parse_type(name: &str) -> Result<Recipe, String> {
    Recipe::from_name(name).ok_or_else(|| format!("no type has this name\n\n{}", recipe::types()))
}

/// The arguments after sorting out which is which.
struct Request {
    model: String,
    /// `None` only for a dry run.
    output: Option<PathBuf>,
    types: Types,
    limit: Option<Limit>,
}

impl Convert {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let request = self.request()?;
        if let Some(output) = request.output.as_deref().filter(|_| !self.dry_run) {
            check_output(output)?;
            if request.limit.is_none() {
                self.check_absent(output)?;
            }
        }
        let cancel = cancel_on_interrupt();
        let source = Source::open(&crate::store::resolve(&request.model, &cancel)?)?;
        if self.merge && source.files().len() < 2 {
            return Err(Error::Usage(format!("{} is one file: there is nothing to merge", request.model)));
        }
        let output = request.output.clone().unwrap_or_else(|| PathBuf::from("model.gguf"));
        let plan = match source.container() {
            Container::Gguf => gguf::plan(&source, &output, &request.types)?,
            _ => checkpoint::plan(&source, &output, &request.types)?,
        };
        let (shards, steps) = shards(plan, &output, request.limit)?;
        let about = self.circumstances(&source, &shards, request.types.recipe.is_some());
        if self.dry_run {
            if request.output.is_some() {
                for shard in shards.iter().filter(|shard| self.check_absent(&shard.path).is_err()) {
                    output::note(format_args!(
                        "{} exists; it is replaced only with --force",
                        shard.path.display()
                    ));
                }
            }
            return self.show(&shards, &steps, &about);
        }
        if request.limit.is_some() {
            shards.iter().try_for_each(|shard| self.check_absent(&shard.path))?;
        }
        let paths: Vec<PathBuf> = shards.iter().map(|shard| shard.path.clone()).collect();
        let bar = progress_bar("converting");
        bar.set_length(steps.iter().map(Step::bytes).sum());
        let writing = Writing { source: &source, threads: self.threads(), cancel: &cancel, bar: &bar };
        let written = writing.write(shards, &steps);
        bar.finish_and_clear();
        if matches!(written, Err(Error::Interrupted)) {
            output::note("stopped; nothing was written");
        }
        written?;
        tell(&report::notes(&steps, &about));
        summary(&paths, steps.len())
    }

    /// Returns the model, and whether it is the one of `SILICIDE_MODEL`. That one counts if there is no `-m`, and no positional
    /// argument but the output.
    fn model(&self) -> Option<(String, bool)> {
        let only_output = self.second.is_none() && !self.dry_run;
        let from_environment = match (&self.model, &self.first) {
            (None, None) => from_environment(),
            (None, Some(_)) if only_output => from_environment(),
            _ => None,
        };
        match from_environment {
            Some(model) => Some((model, true)),
            None => self.model.clone().or_else(|| self.first.clone()).map(|model| (model, false)),
        }
    }

    /// Sorts out positional arguments: if the model is not one of them, the first is the output.
    fn request(&self) -> Result<Request, Error> {
        let usage = |text: &str| Error::Usage(text.to_owned());
        let (model, from_environment) = self
            .model()
            .ok_or_else(|| usage("which model? Give a file, a folder or a name, then the output"))?;
        let skipped = usize::from(self.model.is_none() && !from_environment);
        let mut given = [&self.first, &self.second, &self.third].into_iter().flatten().skip(skipped);
        let output = given.next().map(PathBuf::from);
        if output.is_none() && !self.dry_run {
            return Err(usage("where to? Give the GGUF file to write after the model, or --dry-run"));
        }
        // A user who forgot the output would lose the model.
        if let Some(path) = output.as_ref().filter(|path| from_environment && self.force && path.exists()) {
            return Err(Error::Usage(format!(
                "{} exists, and the model is {model} of SILICIDE_MODEL; to replace the file, name the model with -m",
                path.display()
            )));
        }
        let mut recipe = self.recipe;
        if let Some(name) = given.next() {
            if recipe.is_some() {
                return Err(Error::Usage(format!("{name:?} is one argument too many")));
            }
            recipe = Some(parse_type(name).map_err(|error| Error::Usage(format!("{name:?}: {error}")))?);
        }
        if let Some(name) = given.next() {
            return Err(Error::Usage(format!("{name:?} is one argument too many")));
        }
        let mut overrides = Vec::new();
        overrides.extend(self.output_tensor_type.map(|dtype| Override::exact("output.weight", dtype)));
        overrides.extend(self.token_embedding_type.map(|dtype| Override::exact("token_embd.weight", dtype)));
        overrides.extend(self.tensor_type.iter().cloned());
        let recipe = if self.pure { recipe.map(Recipe::pure) } else { recipe };
        let tensors = self.split_max_tensors.map(|count| Limit::Tensors(count as usize));
        let limit = self.split_max_size.map(Limit::Bytes).or(tensors);
        Ok(Request { model, output, types: Types { recipe, overrides }, limit })
    }

    fn check_absent(&self, output: &Path) -> Result<(), Error> {
        if output.exists() && !self.force {
            return Err(Error::Exists { path: output.to_owned() });
        }
        Ok(())
    }

    fn circumstances(&self, source: &Source, shards: &[Shard], has_type: bool) -> Circumstances {
        Circumstances {
            container: source.container(),
            has_type,
            may_requantize: self.allow_requantize,
            bytes_before: source.files().iter().map(|file| file.as_slice().len() as u64).sum(),
            bytes_after: shards.iter().map(|shard| shard.writer.bytes()).sum(),
        }
    }

    fn show(&self, shards: &[Shard], steps: &[Step<'_>], about: &Circumstances) -> Result<(), Error> {
        let mut text = format!("{}\n", report::table(steps));
        for shard in shards.iter().filter(|_| shards.len() > 1) {
            let (path, bytes) = (shard.path.display(), HumanBytes(shard.writer.bytes()));
            text += &format!("{path}: {} tensors, {bytes}\n", shard.count);
        }
        let percent = about.bytes_after as f64 * 100.0 / about.bytes_before.max(1) as f64;
        let (before, after) = (HumanBytes(about.bytes_before), HumanBytes(about.bytes_after));
        text +=
            &format!("{} tensors, {before} -> {after} ({percent:.0}%); nothing was written\n", steps.len());
        Printer::stdout().print(&text)?;
        tell(&report::notes(steps, about));
        Ok(())
    }

    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.filter(|&count| count > 0).unwrap_or_else(all)
    }
}

fn tell(notes: &[Note]) {
    for note in notes {
        match note {
            Note::Warning(text) => output::warning(for_stderr(text)),
            Note::Fact(text) => output::note(for_stderr(text)),
        }
    }
}

fn summary(paths: &[PathBuf], tensors: usize) -> Result<(), Error> {
    let mut bytes = 0;
    for path in paths {
        bytes += std::fs::metadata(path).map_err(|error| Error::output(path, error))?.len();
    }
    let last = paths.last().map(|path| path.display().to_string()).unwrap_or_default();
    let files = if paths.len() > 1 { format!(" in {} files", paths.len()) } else { String::new() };
    Ok(Printer::stdout().print(&format!("{last}: {tensors} tensors{files}, {}\n", HumanBytes(bytes)))?)
}

/// Finds out before the work whether the output can be written.
fn check_output(output: &Path) -> Result<(), Error> {
    let extension = output.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if OTHER_FORMATS.iter().any(|other| other.eq_ignore_ascii_case(extension)) {
        let suggestion = output.with_extension("gguf");
        let text = format!(
            "GGUF is written, but .{extension} names another format; write to {}",
            suggestion.display()
        );
        return Err(Error::Usage(text));
    }
    if output.is_dir() {
        return Err(Error::Usage(format!("{} is a folder; give the name of a file in it", output.display())));
    }
    // Creates a file next to the output, and deletes it.
    silicide_weights::unfinished(output).map(drop).map_err(|error| Error::output(output, error))
}
