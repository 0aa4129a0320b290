//! From a file to a model on a device.

use super::fit::Fit;
use super::graphs::{Graphs, capture};
use crate::cache::CacheOptions;
use crate::chat::{ChatError, ChatTemplate, RenderOptions};
use crate::error::{Error, Result};
use crate::model::{Decoder, Description, Rearranged, Tensors, build, describe_source};
use crate::tokenizer::Tokenizer;
use silicide::weights::Source;
use silicide::{DType, Device, GraphExecutor, LoadOptions, Loader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The context where none is asked for, unless the model was trained on less.
const USUAL_CONTEXT: usize = 4096;

/// How a model is to be run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineOptions {
    /// Tokens that a session holds; `None` is the model's own context, at most 4096.
    pub context: Option<usize>,
    /// The most tokens of one pass: longer prompts go through in pieces.
    pub chunk: usize,
    /// The type of cached keys.
    pub key_type: DType,
    /// The type of cached values.
    pub value_type: DType,
    /// Rearrange weights for the CPU while loading, where there is room: tokens come faster, loading takes longer. Otherwise weights
    /// are used where the file lies in memory.
    pub repack: bool,
    /// Capture passes of one token and replay them, instead of recording each anew.
    pub graphs: bool,
    /// How weights are loaded: progress, cancelling, placement.
    pub load: LoadOptions,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            context: None,
            chunk: 512,
            key_type: DType::F16,
            value_type: DType::F16,
            repack: true,
            graphs: true,
            load: LoadOptions::default(),
        }
    }
}

/// A model on a device with its tokenizer: everything but a conversation. Sessions share it.
#[derive(Debug)]
pub struct LanguageModel {
    device: Device,
    path: PathBuf,
    description: Description,
    decoder: Decoder,
    tokenizer: Tokenizer,
    /// A model whose template is missing or broken still continues plain text.
    template: Result<ChatTemplate, ChatError>,
    cache: CacheOptions,
    /// Captured passes, if they are to be.
    graphs: Option<Graphs>,
    fit: Fit,
    rearranged: Rearranged,
    load_time: Duration,
}

impl LanguageModel {
    /// Opens a GGUF file or a folder of safetensors, checks that it fits, and loads it.
    pub fn open(device: &Device, path: &Path, options: &EngineOptions) -> Result<LanguageModel> {
        LanguageModel::load(device, &Source::open(path)?, options)
    }

    /// Loads the model of a source.
    pub fn load(device: &Device, source: &Source, options: &EngineOptions) -> Result<LanguageModel> {
        let begin = Instant::now();
        let planned = |interleave: bool| {
            let (description, planned) = describe_source(device, source, interleave)?;
            let cache = options.cache(&description)?;
            let fit = Fit::check(device, (&description, &planned), &cache, options)?;
            Ok((description, cache, fit))
        };
        let mut interleave = options.repack && !device.info().is_gpu();
        let (description, cache, fit) = match planned(interleave) {
            Err(Error::DoesNotFit { .. }) if interleave => {
                interleave = false;
                planned(false)?
            }
            other => other?,
        };
        let tokenizer = Tokenizer::from_source(source)?;
        let loader = Loader::new(device, source, options.load.clone());
        let tensors = Tensors::loaded(loader, &description.config, description.architecture)?;
        let mut tensors = tensors.interleaved(interleave);
        let decoder = build(&mut tensors, description.architecture)?;
        tensors.allow("rope_freqs.weight");
        let rearranged = tensors.rearranged();
        tensors.finish()?;
        let template = ChatTemplate::of(source, &tokenizer);
        let (device, path, load_time) = (device.clone(), source.path().to_owned(), begin.elapsed());
        let graphs = options.graphs.then(Graphs::default);
        Ok(LanguageModel {
            device,
            path,
            description,
            decoder,
            tokenizer,
            template,
            cache,
            graphs,
            fit,
            rearranged,
            load_time,
        })
    }

    /// The captured pass of one token up to a limit, unless passes are to be recorded.
    pub(super) fn single(&self, limit: usize) -> Result<Option<GraphExecutor>> {
        let model = (&self.description, &self.decoder);
        self.graphs.as_ref().map(|graphs| graphs.single(&self.device, model, &self.cache, limit)).transpose()
    }

    /// Where it runs.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Where it came from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its settings and layers.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Its forward pass.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// What is odd about it, though it can be used, one sentence each: what the tokenizer has to say, and whether it has
    /// more tokens than the model, as some files do for markers that no text has. A session refuses such tokens.
    pub fn warnings(&self) -> Vec<String> {
        let (tokens, vocabulary) = (self.tokenizer.len(), self.description.vocabulary);
        let more = (tokens > vocabulary).then(|| {
            format!("the tokenizer has {tokens} tokens, the model {vocabulary}; those from {vocabulary} on can't be used")
        });
        self.tokenizer.warnings().iter().map(ToString::to_string).chain(more).collect()
    }

    /// Its chat template; an error if it came without one, or with a broken one.
    pub fn template(&self) -> Result<&ChatTemplate> {
        self.template.as_ref().map_err(|error| Error::Chat(error.clone()))
    }

    /// The tokens of a chat, up to where the model is to answer. Each message is what templates expect
    /// ([`message`](crate::chat::message)).
    pub fn chat_tokens(&self, messages: &[serde_json::Value]) -> Result<Vec<u32>> {
        let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
        let rendered = self.template()?.render(messages, &options)?;
        Ok(self.tokenizer.encode_pieces(&rendered.pieces))
    }

    /// The size and types of a session's cache.
    pub fn cache_options(&self) -> &CacheOptions {
        &self.cache
    }

    /// What it takes.
    pub fn fit(&self) -> &Fit {
        &self.fit
    }

    /// What was rearranged of its weights.
    pub fn rearranged(&self) -> Rearranged {
        self.rearranged
    }

    /// How long loading took.
    pub fn load_time(&self) -> Duration {
        self.load_time
    }
}

/// Captures a pass of so many tokens of a model that need not be loaded, up to the whole context.
pub fn capture_pass(
    device: &Device,
    source: &Source,
    options: &EngineOptions,
    tokens: usize,
) -> Result<GraphExecutor> {
    let interleave = options.repack && !device.info().is_gpu();
    let (description, planned) = describe_source(device, source, interleave)?;
    let cache = options.cache(&description)?;
    let tokens = tokens.clamp(1, cache.context.max(1));
    capture(device, (&description, &planned), &cache, (tokens, 1, cache.context))
}

impl EngineOptions {
    /// The cache that these options ask for.
    fn cache(&self, model: &Description) -> Result<CacheOptions> {
        let trained = model.config.trained_context;
        let context = match self.context {
            None => trained.min(USUAL_CONTEXT),
            Some(0) => trained,
            Some(context) => context,
        };
        if context > u32::MAX as usize / 2 {
            let (expected, got) = (format!("at most {}", u32::MAX / 2), context.to_string());
            return Err(Error::BadOption { option: "ctx-size", expected, got });
        }
        if self.chunk == 0 {
            let (expected, got) = ("at least 1".to_owned(), "0".to_owned());
            return Err(Error::BadOption { option: "ubatch-size", expected, got });
        }
        let mut cache = CacheOptions::new(context, self.chunk.min(context));
        (cache.key_type, cache.value_type) = (self.key_type, self.value_type);
        Ok(cache)
    }
}
