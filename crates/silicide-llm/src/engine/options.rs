//! How a model is loaded and run.

use super::load::Model;
use crate::cache::{CacheOptions, CacheType};
use crate::error::{Error, Result};
use crate::model::{Description, Registry};
use crate::repack::RepackCache;
use silicide_core::{Device, LoadOptions};
use silicide_quant::DType;
use silicide_weights::{Load, ReadEvent, Source};
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// The context length when none is given, unless the model was trained on less.
const USUAL_CONTEXT: usize = 4096;

/// How a model is loaded and run: the device, the context length, the KV cache types.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub use silicide_llm::{self as llm, Chat, Message, Model}; }
/// # let path = "../../testdata/models/llama-tied.gguf";
/// use silicide::Device;
/// use silicide::Model;
///
/// let model = Model::options().device(&Device::cpu()?).context(256).open(path)?;
/// assert_eq!(model.context(), 256);
/// # Ok::<(), silicide_llm::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ModelOptions {
    /// The device; `None` is [`Device::best`].
    pub device: Option<Device>,
    /// The number of layers on the device, counted from the last one, with the output projection as one more. The rest runs on the CPU,
    /// the token embedding where the first layer runs. 0: everything runs on the CPU. `None`: as many as fit the device's memory.
    pub gpu_layers: Option<usize>,
    /// The number of first layers whose experts run on the CPU. `None`: none, or as many as necessary if [`gpu_layers`] is `None` too.
    ///
    /// [`gpu_layers`]: ModelOptions::gpu_layers
    pub cpu_experts: Option<usize>,
    /// The CPU device for what does not run on `device`; `None` is [`Device::cpu`].
    pub cpu: Option<Device>,
    /// Tokens that a session holds; `None` is the model's own context, at most 4096; 0 is the model's own context.
    pub context: Option<usize>,
    /// The most tokens of one pass; longer prompts are fed in several passes.
    pub chunk: usize,
    /// The type of cached keys.
    pub key_type: CacheType,
    /// The type of cached values.
    pub value_type: CacheType,
    /// Whether cached heads of block formats are rotated before they are quantized. `None`: where that helps. Those of TurboQuant
    /// always are.
    pub cache_rotate: Option<bool>,
    /// Repack weights for the CPU while loading, if memory allows. Generation is faster, loading takes longer. Otherwise
    /// weights are used where the file is mapped.
    pub repack: bool,
    /// A folder of repacked weights. A model's repacked weights are mapped from there; they are written first if they are not there.
    /// `None`: they are repacked into memory. Files are bound to the model's files as they are, and are written again when these change.
    pub repack_cache: Option<RepackCache>,
    /// Lock the weights in memory, so that the system neither swaps nor drops them. Unix only.
    pub mlock: bool,
    /// The architectures that the model may have: those of this crate, and others that were added.
    pub architectures: Registry,
    /// How weights are loaded: progress, cancellation, placement.
    pub load: LoadOptions,
    /// Whether [`ModelOptions::open`] maps the weight files or reads them into memory. `None` reads them on network file
    /// systems, where a file that changes kills the process that maps it, and maps them elsewhere.
    pub files: Option<Load>,
    /// Called for each piece of a weight file that [`ModelOptions::open`] reads into memory.
    pub reading: Option<ReadProgress>,
}

/// Receives the progress of files that are read into memory, on the loading thread.
pub type ReadProgress = Arc<dyn Fn(&ReadEvent<'_>) + Send + Sync>;

impl fmt::Debug for ModelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelOptions")
            .field("device", &self.device)
            .field("gpu_layers", &self.gpu_layers)
            .field("cpu_experts", &self.cpu_experts)
            .field("cpu", &self.cpu)
            .field("context", &self.context)
            .field("chunk", &self.chunk)
            .field("key_type", &self.key_type)
            .field("value_type", &self.value_type)
            .field("cache_rotate", &self.cache_rotate)
            .field("repack", &self.repack)
            .field("repack_cache", &self.repack_cache)
            .field("mlock", &self.mlock)
            .field("architectures", &self.architectures)
            .field("load", &self.load)
            .field("files", &self.files)
            .field("reading", &self.reading.is_some())
            .finish()
    }
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions {
            device: None,
            gpu_layers: None,
            cpu_experts: None,
            cpu: None,
            context: None,
            chunk: 512,
            key_type: DType::F16.into(),
            value_type: DType::F16.into(),
            cache_rotate: None,
            repack: true,
            repack_cache: None,
            mlock: false,
            architectures: Registry::default(),
            load: LoadOptions::default(),
            files: None,
            reading: None,
        }
    }
}

impl ModelOptions {
    /// Sets the device.
    pub fn device(mut self, device: &Device) -> ModelOptions {
        self.device = Some(device.clone());
        self
    }

    /// Sets the number of layers on the device, counted from the last one, with the output projection as one more.
    pub fn gpu_layers(mut self, layers: usize) -> ModelOptions {
        self.gpu_layers = Some(layers);
        self
    }

    /// Sets the number of first layers whose experts run on the CPU.
    pub fn cpu_experts(mut self, layers: usize) -> ModelOptions {
        self.cpu_experts = Some(layers);
        self
    }

    /// Sets the CPU device for what does not run on the device.
    pub fn cpu(mut self, device: &Device) -> ModelOptions {
        self.cpu = Some(device.clone());
        self
    }

    /// Sets the context length in tokens; 0 is the context that the model was trained on.
    pub fn context(mut self, tokens: usize) -> ModelOptions {
        self.context = Some(tokens);
        self
    }

    /// Sets the most tokens of one pass.
    pub fn chunk(mut self, tokens: usize) -> ModelOptions {
        self.chunk = tokens;
        self
    }

    /// Sets the type of cached keys.
    pub fn key_type(mut self, of: impl Into<CacheType>) -> ModelOptions {
        self.key_type = of.into();
        self
    }

    /// Sets whether cached heads of block formats are rotated before they are quantized.
    pub fn cache_rotate(mut self, rotate: bool) -> ModelOptions {
        self.cache_rotate = Some(rotate);
        self
    }

    /// Sets the type of cached values.
    pub fn value_type(mut self, of: impl Into<CacheType>) -> ModelOptions {
        self.value_type = of.into();
        self
    }

    /// Sets whether weights are repacked for the CPU.
    pub fn repack(mut self, repack: bool) -> ModelOptions {
        self.repack = repack;
        self
    }

    /// Sets the folder of repacked weights.
    pub fn repack_cache(mut self, cache: RepackCache) -> ModelOptions {
        self.repack_cache = Some(cache);
        self
    }

    /// Sets whether weights are locked in memory.
    pub fn mlock(mut self, mlock: bool) -> ModelOptions {
        self.mlock = mlock;
        self
    }

    /// Sets the architectures that the model may have.
    pub fn architectures(mut self, architectures: Registry) -> ModelOptions {
        self.architectures = architectures;
        self
    }

    /// Sets how weights are loaded.
    pub fn load(mut self, load: LoadOptions) -> ModelOptions {
        self.load = load;
        self
    }

    /// Sets whether weight files are mapped or read into memory.
    pub fn files(mut self, files: Load) -> ModelOptions {
        self.files = Some(files);
        self
    }

    /// Sets the function that receives the progress of files that are read into memory.
    pub fn reading(mut self, progress: impl Fn(&ReadEvent<'_>) + Send + Sync + 'static) -> ModelOptions {
        self.reading = Some(Arc::new(progress));
        self
    }

    /// Opens a GGUF file or a folder of safetensors, checks that the model fits the device, and loads it. `load.cancel` also
    /// ends the reading of files. [`Store::resolve`](crate::store::Store::resolve) returns the path of a model by its name.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        let files = self.files.unwrap_or_else(|| Load::preferred(path));
        let cancel = &self.load.cancel;
        let source = Source::open_watched(path, files, &mut |event| {
            if let Some(progress) = &self.reading {
                progress(event);
            }
            if cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        cancel.check("reading weight files")?;
        self.open_source(&source?)
    }

    /// Loads the model of an opened `source`, as [`ModelOptions::open`] does.
    pub fn open_source(&self, source: &Source) -> Result<Model> {
        Model::load(source, self)
    }

    /// Returns the shape and types of a session's KV cache.
    pub(super) fn cache(&self, model: &Description) -> Result<CacheOptions> {
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
        (cache.rotate, cache.key_lanes) = (self.cache_rotate, true);
        Ok(cache)
    }
}
