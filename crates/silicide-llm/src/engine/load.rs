//! From a file to a model on a device.

use super::generate::GenerateOptions;
use super::memory::{self, AvailableMemory, MemoryEstimate};
use super::options::ModelOptions;
use super::passes::{CapturedPass, PassClass, Passes, PlannedModel};
use super::split::SplitChoice;
use crate::cache::CacheOptions;
use crate::chat::{ChatError, ChatTemplate, RenderOptions};
use crate::conversation::{Chat, Completion};
use crate::error::{Error, Result};
use crate::model::{
    Decoder, DescribedModel, Description, LayerPlacement, Rearranged, Repack, Repacking, describe_source,
};
use crate::tokenizer::{Special, Tokenizer};
use serde::Serialize;
use silicide_core::hal::cpu::resident_memory;
use silicide_core::{Buffer, Device, GraphExecutor, MemoryLock};
use silicide_weights::Source;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A language model on a device, with its tokenizer and chat template. Cheap to clone; clones share the weights.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub use silicide_llm::{self as llm, Chat, Message, Model}; }
/// # let path = "../../testdata/models/llama-chat.gguf";
/// use silicide::Model;
///
/// let model = Model::open(path)?;
/// let mut chat = model.chat()?;
/// for piece in chat.say("What is the capital of Germany?")? {
///     print!("{}", piece?);
/// #     break;
/// }
/// # Ok::<(), silicide_llm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    loaded: Arc<LoadedModel>,
}

/// Everything that is read from a file. Immutable, but for the cache of captured passes.
#[derive(Debug)]
struct LoadedModel {
    /// The device that computes the logits.
    device: Device,
    path: PathBuf,
    description: Description,
    decoder: Box<dyn Decoder>,
    tokenizer: Tokenizer,
    /// A model whose template is missing or broken still continues plain text.
    template: Result<ChatTemplate, ChatError>,
    cache: CacheOptions,
    passes: Passes,
    /// Of all devices together.
    memory: MemoryEstimate,
    /// Of each device.
    device_memory: Vec<MemoryEstimate>,
    rearranged: Rearranged,
    /// Why a file of repacked weights was not used, or could not be written.
    repack_note: Option<String>,
    /// Hold the weights in memory.
    _locks: Vec<MemoryLock>,
    load_time: Duration,
}

impl Model {
    /// Opens a GGUF file or a folder of safetensors on the [best device](Device::best). Checks that the model fits
    /// its memory, and loads it.
    ///
    /// `path` is a path only. [`Store::resolve`](crate::store::Store::resolve) turns the name of a model into a path, and
    /// downloads the model if it is not stored yet:
    ///
    /// ```no_run
    /// # mod silicide { pub use silicide_core::*; pub use silicide_llm::{self as llm, Chat, Message, Model}; }
    /// use silicide::Model;
    /// use silicide::llm::store::{PullOptions, Store};
    ///
    /// let path = Store::open()?.resolve("smollm2", &PullOptions::default())?;
    /// let model = Model::open(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Model> {
        ModelOptions::default().open(path)
    }

    /// Returns the default options, to be changed before [`ModelOptions::open`].
    pub fn options() -> ModelOptions {
        ModelOptions::default()
    }

    /// Begins a chat with an empty history. Allocates its KV cache. Fails if the model has no chat template.
    pub fn chat(&self) -> Result<Chat> {
        Chat::new(self)
    }

    /// Continues `text` as it is, without a chat template. Control tokens in `text` are recognised. Allocates a KV
    /// cache.
    pub fn complete(&self, text: &str) -> Result<Completion> {
        self.complete_with(text, GenerateOptions::default())
    }

    /// Continues `text` as [`Model::complete`] does, with options.
    pub fn complete_with(&self, text: &str, options: GenerateOptions) -> Result<Completion> {
        Completion::new(self, text, options)
    }

    /// Returns the tokens of `text`, without a begin-of-text token. Control tokens in `text` are plain text.
    pub fn tokenize(&self, text: &str) -> Vec<u32> {
        self.tokenizer().encode(text, Special::Plain)
    }

    /// Returns the text of `tokens`, without control tokens.
    pub fn detokenize(&self, tokens: &[u32]) -> String {
        self.tokenizer().decode(tokens, Special::Plain)
    }

    /// Returns the number of tokens of `text`.
    pub fn count_tokens(&self, text: &str) -> usize {
        self.tokenize(text).len()
    }

    /// Loads the model of `source`.
    pub(super) fn load(source: &Source, options: &ModelOptions) -> Result<Model> {
        let begin = Instant::now();
        let configured = options.architectures.configure(source)?;
        let choice = SplitChoice::new(source, &configured, options)?;
        let plan = |placement: &LayerPlacement, repacking: &Repacking, is_last: bool| {
            let available = AvailableMemory::of(placement);
            let DescribedModel { description, decoder, weights } =
                describe_source(placement, source, &configured, repacking, Some(&options.load))?;
            let (cache, passes) = (options.cache(&description)?, Passes::default());
            let planned = PlannedModel { description: &description, decoder: &*decoder, cache: &cache };
            let memory = memory::check(planned, &passes, &available, is_last)?;
            let sum = available.sum(&memory);
            Ok((DescribedModel { description, decoder, weights }, cache, (memory, sum), passes))
        };
        let (planned, tokenizer) = std::thread::scope(|scope| {
            let tokenizer = || Tokenizer::from_source(source);
            let beside = std::thread::Builder::new().spawn_scoped(scope, tokenizer);
            let plan_all = || {
                let (mut placement, mut may_split) = (choice.first()?, choice.is_by_memory());
                let mut repack = most_repacked(&placement, options);
                let (stored, note) = match repack {
                    Repack::None => (None, None),
                    _ => super::repacked::stored(source, &configured, &placement, options)?,
                };
                // The token table is left out first: it alone would exist twice, as its copy and in the file.
                let planned = loop {
                    let is_last = repack == Repack::None && !may_split;
                    let repacking = Repacking { which: repack, stored: stored.clone() };
                    repack = match (plan(&placement, &repacking, is_last), repack) {
                        (Err(Error::DoesNotFit { .. }), Repack::All) => Repack::Matrices,
                        (Err(Error::DoesNotFit { .. }), Repack::Matrices) => Repack::None,
                        (Err(Error::DoesNotFit { device, .. }), Repack::None) if may_split => {
                            may_split = false;
                            // If the CPU's part is too large, the error names the context that fits.
                            if choice.is_its_device(&device) {
                                placement = choice.by_memory()?;
                            }
                            most_repacked(&placement, options)
                        }
                        (planned, _) => break planned?,
                    };
                };
                Ok::<_, Error>((placement, planned, note))
            };
            let planned = plan_all();
            let tokenizer = match beside.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(tokenizer)) => tokenizer,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(_) => tokenizer(),
            };
            (planned, tokenizer)
        });
        let (placement, (described, cache, (device_memory, sum), passes), repack_note) = planned?;
        let tokenizer = tokenizer?;
        let process = resident_memory() as u64;
        let DescribedModel { description, decoder, weights } = described;
        let is_locked = |buffer: &&Buffer| options.mlock && !buffer.device().info().is_gpu();
        let buffers: Vec<Buffer> = weights.buffers().iter().filter(is_locked).cloned().collect();
        let mut rearranged = weights.load()?;
        let locks = buffers.iter().map(Buffer::lock).collect::<silicide_core::Result<Vec<_>>>()?;
        if most_repacked(&placement, options) == Repack::None {
            rearranged.not_interleaved = 0;
        }
        let template = ChatTemplate::of(source, &tokenizer);
        let (path, load_time) = (source.path().to_owned(), begin.elapsed());
        let memory = MemoryEstimate { process, ..sum };
        let device = placement.device(0)?.clone();
        let loaded = LoadedModel {
            device,
            path,
            description,
            decoder,
            tokenizer,
            template,
            cache,
            passes,
            memory,
            device_memory,
            rearranged,
            repack_note,
            _locks: locks,
            load_time,
        };
        Ok(Model { loaded: Arc::new(loaded) })
    }

    /// Returns the captured pass of a class.
    pub(super) fn captured(&self, class: PassClass) -> Result<Arc<CapturedPass>> {
        let LoadedModel { description, decoder, cache, passes, .. } = &*self.loaded;
        passes.get(PlannedModel { description, decoder: &**decoder, cache }, class)
    }

    /// Returns the bytes of the arena of the largest pass on device number `device`.
    pub(super) fn arena_bytes(&self, device: usize) -> usize {
        self.loaded.device_memory.get(device).map_or(0, |memory| memory.arena)
    }

    /// Returns the bytes that a session takes beyond the estimate when it returns the logits of many tokens, as for
    /// [`perplexity`](super::perplexity).
    pub fn logits_bytes(&self) -> Result<u64> {
        let classes = PassClass::with_many_outputs(self.description(), self.cache_options());
        let captured = classes.into_iter().map(|class| self.captured(class));
        let captured: Vec<Arc<CapturedPass>> = captured.collect::<Result<_>>()?;
        let of_device = |device: usize| {
            let counted = self.arena_bytes(device);
            let arena = captured.iter().map(|pass| pass.arena_bytes(device)).fold(counted, usize::max);
            arena - counted + captured.iter().map(|pass| pass.session_bytes(device)).sum::<usize>()
        };
        Ok((0..self.devices().len()).map(of_device).sum::<usize>() as u64)
    }

    /// Returns how many passes were captured so far, for all of its sessions. Passes of similar sizes share a capture.
    pub fn captures(&self) -> usize {
        self.loaded.passes.count()
    }

    /// The device that computes its logits. It is the only one of most models.
    pub fn device(&self) -> &Device {
        &self.loaded.device
    }

    /// The devices that it runs on: [`Model::device`], and the CPU if layers or experts run there.
    pub fn devices(&self) -> &[Device] {
        self.placement().devices()
    }

    /// The devices of its parts.
    pub fn placement(&self) -> &LayerPlacement {
        &self.loaded.description.placement
    }

    /// The file or folder that it was read from.
    pub fn path(&self) -> &Path {
        &self.loaded.path
    }

    /// Its settings and layers.
    pub fn description(&self) -> &Description {
        &self.loaded.description
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.loaded.tokenizer
    }

    /// Returns warnings about the file, one sentence each: those of the tokenizer, and whether it has more tokens than
    /// the model. A session refuses such tokens.
    pub fn warnings(&self) -> Vec<String> {
        let (tokens, vocabulary) = (self.loaded.tokenizer.len(), self.loaded.description.vocabulary);
        let more = (tokens > vocabulary).then(|| {
            format!("the tokenizer has {tokens} tokens, the model {vocabulary}; those from {vocabulary} on can't be used")
        });
        self.loaded.tokenizer.warnings().iter().map(ToString::to_string).chain(more).collect()
    }

    /// Returns its chat template, or an error if the file has none or a broken one.
    pub fn template(&self) -> Result<&ChatTemplate> {
        self.loaded.template.as_ref().map_err(|error| Error::Chat(error.clone()))
    }

    /// Returns the tokens of a chat, up to where the model is to answer. A message is a
    /// [`Message`](crate::Message), or any value that serializes to what chat templates read: an object with at
    /// least `role` and `content`.
    pub fn chat_tokens<M: Serialize>(&self, messages: &[M]) -> Result<Vec<u32>> {
        let template = self.template()?;
        let messages: Result<Vec<_>, _> = messages.iter().map(serde_json::to_value).collect();
        let messages = messages.map_err(|error| ChatError::Refused { detail: error.to_string() })?;
        let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
        let rendered = template.render(&messages, &options)?;
        Ok(self.tokenizer().encode_pieces(&rendered.pieces))
    }

    /// The number of tokens that a session holds.
    pub fn context(&self) -> usize {
        self.loaded.cache.context
    }

    /// The size and types of a session's cache.
    pub fn cache_options(&self) -> &CacheOptions {
        &self.loaded.cache
    }

    /// Its memory estimate, by weights, cache and activations: of all of its devices together.
    pub fn memory_estimate(&self) -> &MemoryEstimate {
        &self.loaded.memory
    }

    /// Its memory estimate for each of [`Model::devices`].
    pub fn device_memory(&self) -> &[MemoryEstimate] {
        &self.loaded.device_memory
    }

    /// The weights that were repacked while loading, and those that were not for lack of memory.
    pub fn rearranged(&self) -> Rearranged {
        self.loaded.rearranged
    }

    /// Returns what became of the [file of repacked weights](ModelOptions::repack_cache) if it was not used as it was: why not, and
    /// whether it was written. `None` if it was used, or not asked for.
    pub fn repack_note(&self) -> Option<&str> {
        self.loaded.repack_note.as_deref()
    }

    /// The time that loading took.
    pub fn load_time(&self) -> Duration {
        self.loaded.load_time
    }
}

/// Returns the weights to repack if memory allows it.
fn most_repacked(placement: &LayerPlacement, options: &ModelOptions) -> Repack {
    let has_cpu = placement.devices().iter().any(|device| !device.info().is_gpu());
    if options.repack && has_cpu { Repack::All } else { Repack::None }
}

/// Captures a pass of `tokens` tokens, from 1 to the context size, over the whole context. The weights are not loaded. Returns the
/// graphs of its segments, which run one after the other: one, unless the model has parts on two devices.
pub fn capture_pass(source: &Source, options: &ModelOptions, tokens: usize) -> Result<Vec<GraphExecutor>> {
    let configured = options.architectures.configure(source)?;
    let placement = SplitChoice::new(source, &configured, options)?.placement()?;
    let repacking = most_repacked(&placement, options).into();
    let DescribedModel { description, decoder, .. } =
        describe_source(&placement, source, &configured, &repacking, None)?;
    let cache = options.cache(&description)?;
    if tokens == 0 || tokens > cache.context {
        let (expected, got) = (format!("1 to {}, the context size", cache.context), tokens.to_string());
        return Err(Error::BadOption { option: "tokens", expected, got });
    }
    let model = PlannedModel { description: &description, decoder: &*decoder, cache: &cache };
    let captured = CapturedPass::new(model, PassClass::new(tokens, 1))?;
    Ok(captured.segments.into_iter().map(|segment| segment.executor).collect())
}
