//! `silicide pull`, `list` and `rm`: the models that were fetched by name. [`resolve`] is what other commands call with
//! the model that a user names.

use crate::common::{cancel_on_interrupt, progress_bar};
use crate::error::Error;
use crate::terminal::Printer;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{HumanBytes, HumanDuration};
use serde::Serialize;
use silicide::CancelToken;
use silicide_llm::store::{KnownModel, PullOptions, PullPhase, Store, StoredModel};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Download a model by name
///
/// The files are checked, and kept in the cache folder.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  silicide pull smollm2\n\n{}", known_models()))]
pub(crate) struct Pull {
    /// Names of models
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// List the downloaded models
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  silicide list
  silicide list --json")]
pub(crate) struct List {
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Delete downloaded models
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  silicide rm smollm2")]
pub(crate) struct Remove {
    /// Names of models
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

impl Pull {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let (store, cancel) = (Store::open()?, cancel_on_interrupt());
        for name in &self.names {
            let path = watched(&cancel, |options| Ok(store.pull(name, options)?.path))?;
            say(&format!("{}\n", path.display()))?;
        }
        Ok(())
    }
}

impl List {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let store = Store::open()?;
        // A folder that cannot be made is an error, not an empty list.
        std::fs::create_dir_all(store.directory())
            .map_err(|error| Error::output(store.directory(), error))?;
        let models = store.list()?;
        if self.json {
            let rows: Vec<Row<'_>> = models.iter().map(Row::of).collect();
            return say(&(serde_json::to_string_pretty(&rows)? + "\n"));
        }
        if models.is_empty() {
            return say(&format!("no models in {} yet\n{}\n", store.directory().display(), known_models()));
        }
        say(&format!("{}\n", table(&models)))
    }
}

impl Remove {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let store = Store::open()?;
        for name in &self.names {
            let model = store.remove(name)?;
            say(&format!("{}: {} freed\n", model.path.display(), HumanBytes(model.bytes)))?;
        }
        Ok(())
    }
}

/// The file or folder of the model that a user names: a path, or a name, whose model is fetched if it is not here.
pub(crate) fn resolve(name_or_path: impl AsRef<Path>, cancel: &CancelToken) -> Result<PathBuf, Error> {
    let path = name_or_path.as_ref();
    // A path needs no store, and a user without a home has none.
    if path.exists() {
        return Ok(path.to_owned());
    }
    let store = Store::open()?;
    watched(cancel, |options| Ok(store.resolve(&path.to_string_lossy(), options)?))
}

/// Runs something that may fetch, with a progress bar that appears when it does.
fn watched<T>(cancel: &CancelToken, run: impl FnOnce(&PullOptions) -> Result<T, Error>) -> Result<T, Error> {
    let bar = progress_bar("");
    let shown = bar.clone();
    let mut options = PullOptions::default();
    options.cancel = cancel.clone();
    options.progress = Some(Arc::new(move |event| {
        shown.set_prefix(match event.phase {
            PullPhase::Waiting => "waiting for another pull",
            PullPhase::Downloading => "downloading",
            _ => "unpacking",
        });
        shown.set_length(event.total);
        shown.set_position(event.done);
    }));
    let done = run(&options);
    bar.finish_and_clear();
    done
}

/// A model, for programs.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    bytes: u64,
    path: &'a Path,
    /// Seconds since 1970.
    modified: Option<u64>,
    title: Option<&'static str>,
    licence: Option<&'static str>,
}

impl Row<'_> {
    fn of(model: &StoredModel) -> Row<'_> {
        let known = KnownModel::find(&model.name);
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
        Row {
            name: &model.name,
            bytes: model.bytes,
            path: &model.path,
            modified: model.modified.and_then(since),
            title: known.map(|known| known.title),
            licence: known.map(|known| known.licence),
        }
    }
}

fn table(models: &[StoredModel]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["name", "size", "stored", "path"]);
    for model in models {
        let age = model.modified.and_then(|time| time.elapsed().ok()).map(age).unwrap_or_default();
        let size = HumanBytes(model.bytes).to_string();
        table.add_row([model.name.clone(), size, age, model.path.display().to_string()]);
    }
    if let Some(sizes) = table.column_mut(1) {
        sizes.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn age(elapsed: Duration) -> String {
    if elapsed < Duration::from_secs(60) {
        "just now".to_owned()
    } else {
        format!("{} ago", HumanDuration(elapsed))
    }
}

fn known_models() -> String {
    let line = |model: &KnownModel| {
        let (size, licence) = (HumanBytes(model.bytes), model.licence);
        format!("  {:<12} {} ({size}, {licence})", model.name, model.title)
    };
    let lines = KnownModel::ALL.iter().map(line).collect::<Vec<_>>().join("\n");
    format!("Models that `silicide pull` knows:\n{lines}")
}

fn say(text: &str) -> Result<(), Error> {
    Ok(Printer::stdout().print(text)?)
}
