//! Kernels by name. Silicide compiles its own when it needs them; this registry answers for their names, and compiles the WGSL texts
//! that programs register.

use crate::error::{MlxError, Result, refuse};
use crate::metal::{ComputePipelineState, DeviceRef};
use crate::routing::GgmlRoutingPolicy;
use silicide::kernel::KernelText;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Kernels that `ops` encodes, by the names that captures show, and others that programs ask for.
const NAMES: &[&str] = &[
    "argmax_f32",
    "argsort_desc_f32",
    "cumsum_bf16",
    "cumsum_f32",
    "dense_gemm_f16",
    "dense_gemv_bf16_f32",
    "dense_matvec_f32",
    "dense_mm_bf16_f32",
    "dense_mm_f16_f32",
    "dense_mm_f32_f32",
    "elementwise_add_bf16",
    "elementwise_add_f32",
    "elementwise_mul_bf16",
    "elementwise_mul_f32",
    "embedding_gather_q2_k_f32",
    "embedding_gather_q4_0_f32",
    "embedding_gather_q4_k_f32",
    "embedding_gather_q5_0_f32",
    "embedding_gather_q5_k_f32",
    "embedding_gather_q6_k_f32",
    "embedding_gather_q8_0_f32",
    "flash_attn_prefill_bf16_d256",
    "flash_attn_prefill_d512_bf16",
    "gather_f32",
    "gelu_bf16",
    "gelu_f16",
    "gelu_f32",
    "hf2q_dense_gemv_bf16_f32_r1_4",
    "kernel_mul_mv_q6_K_f32_nr2",
    "l2_norm_bf16",
    "l2_norm_f32",
    "moe_weighted_sum",
    "q_gate_deinterleave_f32",
    "qkv_split_f32",
    "repeat_tiled_f32",
    "rms_norm_bf16",
    "rms_norm_f16",
    "rms_norm_f32",
    "rms_norm_no_scale_f32",
    "rope_bf16",
    "rope_f16",
    "rope_f32",
    "rope_neox_bf16",
    "rope_neox_f32",
    "scalar_mul_f32",
    "scale_mask_softmax_f32",
    "sdpa",
    "sdpa_sliding",
    "sigmoid_mul_bf16",
    "sigmoid_mul_f32",
    "silu_mul_f32",
    "softcap_f32",
    "softmax_bf16",
    "softmax_f16",
    "softmax_f32",
    "softmax_sample_f32",
    "sqrt_f32",
    "strided_copy_f32",
];

/// Block types in names of matrix kernels.
const TYPES: &[&str] =
    &["q2_K", "q3_K", "q4_0", "q4_K", "q5_0", "q5_1", "q5_K", "q6_K", "q8_0", "iq4_nl", "iq4_xs"];

/// Which kernel a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineIdentity {
    /// The name.
    pub kernel_name: String,
}

/// Kernels by name, and the ones that were looked up.
#[derive(Debug)]
pub struct KernelRegistry {
    names: BTreeSet<String>,
    /// Texts in WGSL, by name.
    texts: BTreeMap<String, &'static str>,
    pipelines: BTreeMap<String, ComputePipelineState>,
    policy: Option<GgmlRoutingPolicy>,
}

impl Default for KernelRegistry {
    fn default() -> KernelRegistry {
        KernelRegistry::new()
    }
}

impl KernelRegistry {
    /// Returns a registry of the names of this crate.
    pub fn new() -> KernelRegistry {
        let mut names: BTreeSet<String> = NAMES.iter().map(|&name| name.to_owned()).collect();
        for name in TYPES {
            for kernel in ["mv", "mv_id", "mm", "mm_id"] {
                names.insert(format!("kernel_mul_{kernel}_{name}_f32"));
            }
        }
        KernelRegistry { names, texts: BTreeMap::new(), pipelines: BTreeMap::new(), policy: None }
    }

    /// Adds a name. WGSL with an entry point of that name is compiled when it is looked up, and can be dispatched: buffers are at the
    /// `@binding` of their slot, and bytes follow the three words with the number of threads that `var<immediate>` begins with. MSL
    /// is dropped, and can't be dispatched.
    pub fn register_source(&mut self, name: impl Into<String>, source: &'static str) {
        // The only error would be that of an empty name, which is not added.
        let _ = self.try_register_source(name, source);
    }

    /// As [`KernelRegistry::register_source`]; an empty name is an error.
    pub fn try_register_source(&mut self, name: impl Into<String>, source: &'static str) -> Result<()> {
        let name = name.into();
        if name.is_empty() {
            refuse!("a kernel needs a name");
        }
        self.pipelines.retain(|key, _| key.split('|').next() != Some(&name));
        match source.contains("@compute") {
            true => self.texts.insert(name.clone(), source),
            false => self.texts.remove(&name),
        };
        self.names.insert(name);
        Ok(())
    }

    /// Returns the kernel of a name: the same one at each call.
    pub fn get_pipeline(&mut self, name: &str, device: &DeviceRef) -> Result<&ComputePipelineState> {
        if let Some(text) = self.texts.get(name).filter(|_| !self.is_cached(name)) {
            let pipeline = compile(name, text, device)?;
            self.pipelines.insert(name.to_owned(), pipeline);
        }
        self.pipeline(name, name)
    }

    /// Returns the kernel of a name under constants.
    pub fn get_pipeline_with_constants(
        &mut self,
        name: &str,
        _device: &DeviceRef,
        bool_constants: &[(usize, bool)],
        int_constants: &[(usize, i32)],
    ) -> Result<&ComputePipelineState> {
        let (mut bools, mut ints) = (bool_constants.to_vec(), int_constants.to_vec());
        bools.sort_unstable();
        ints.sort_unstable();
        self.pipeline(&format!("{name}|{bools:?}|{ints:?}"), name)
    }

    /// Returns the kernel of a name under constants.
    pub fn get_pipeline_with_bool_constants(
        &mut self,
        name: &str,
        device: &DeviceRef,
        bool_constants: &[(usize, bool)],
    ) -> Result<&ComputePipelineState> {
        self.get_pipeline_with_constants(name, device, bool_constants, &[])
    }

    fn pipeline(&mut self, key: &str, name: &str) -> Result<&ComputePipelineState> {
        if !self.names.contains(name) {
            return Err(MlxError::KernelNotFound(name.to_owned()));
        }
        if !self.pipelines.contains_key(key) {
            self.pipelines.insert(key.to_owned(), ComputePipelineState::new(name, None));
        }
        self.pipelines.get(key).ok_or_else(|| MlxError::KernelNotFound(name.to_owned()))
    }

    /// Returns the identity of a kernel, if there is one of this name.
    pub fn pipeline_identity(&self, name: &str) -> Option<PipelineIdentity> {
        self.names.contains(name).then(|| PipelineIdentity { kernel_name: name.to_owned() })
    }

    /// Returns whether a kernel was looked up.
    pub fn is_cached(&self, name: &str) -> bool {
        self.pipelines.contains_key(name)
    }

    /// Returns the number of kernels that were looked up.
    pub fn cached_count(&self) -> usize {
        self.pipelines.len()
    }

    /// Returns the number of names.
    pub fn source_count(&self) -> usize {
        self.names.len()
    }

    /// Looks kernels up, and returns how many there are.
    pub fn prewarm_pipelines(&mut self, device: &DeviceRef, names: &[&str]) -> usize {
        names.iter().filter(|name| self.get_pipeline(name, device).is_ok()).count()
    }

    /// Looks kernels up under constants, and returns how many there are.
    pub fn prewarm_pipelines_with_bool_constants(
        &mut self,
        device: &DeviceRef,
        entries: &[(&str, &[(usize, bool)])],
    ) -> usize {
        let mut found = |name: &str, constants: &[(usize, bool)]| {
            self.get_pipeline_with_bool_constants(name, device, constants).is_ok()
        };
        entries.iter().filter(|(name, constants)| found(name, constants)).count()
    }

    /// Looks all kernels up, and returns how many succeeded and failed.
    pub fn prewarm_all(&mut self, device: &DeviceRef) -> (usize, usize) {
        let names: Vec<String> = self.names.iter().cloned().collect();
        let ready = names.iter().filter(|name| self.get_pipeline(name, device).is_ok()).count();
        (ready, names.len() - ready)
    }

    /// Fixes the choices of kernels. The same again is fine, others are an error.
    pub fn freeze_ggml_routing_policy(&mut self, policy: GgmlRoutingPolicy) -> Result<()> {
        match &self.policy {
            Some(frozen) if *frozen != policy => refuse!("another GGML routing policy is frozen already"),
            _ => self.policy = Some(policy),
        }
        Ok(())
    }

    /// Returns the choices of kernels, if they are fixed.
    pub fn ggml_routing_policy(&self) -> Option<&GgmlRoutingPolicy> {
        self.policy.as_ref()
    }
}

/// Compiles a WGSL text on the device. Its name there has the text's own number, so that a text that replaces another is another kernel.
fn compile(name: &str, text: &'static str, device: &DeviceRef) -> Result<ComputePipelineState> {
    let kernels = device.0.kernels();
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let unique = format!("{name}#{:016x}", hasher.finish());
    let failed = |error: silicide::Error| MlxError::ShaderCompilationError {
        name: name.to_owned(),
        message: error.to_string(),
    };
    if device.0.info().isa.is_some() {
        let message = "the CPU runs no text; open a GPU (SILICIDE_DEVICE=vulkan)".to_owned();
        return Err(MlxError::ShaderCompilationError { name: name.to_owned(), message });
    }
    let declared = kernels.interface(name, text, name).map_err(failed)?;
    let kernel = KernelText {
        name: &unique,
        text,
        entry: name,
        bindings: &declared.bindings,
        param_bytes: declared.param_bytes,
    };
    Ok(ComputePipelineState::of_text(kernels.register(&kernel).map_err(failed)?, name))
}
