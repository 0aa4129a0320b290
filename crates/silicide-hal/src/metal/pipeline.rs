//! Compiled kernels: MSL from WGSL or by hand, a library from that, a pipeline from its function, kept in a slab that
//! encoding looks into.
//!
//! Any number of threads compile at once; the slab is locked only to put the result in.

use super::archive::Archive;
use super::arguments::{TRANSFER_THREADS, TransferKind};
use super::fault::explain;
use super::gpu::{Gpu, responds};
use super::stored::{load, store};
use super::traits::is_promised;
use super::{Object, text};
use crate::wgsl::{MSL_VERSION, Msl, kernel_of, msl_for};
use crate::{HalError, Math, Program, RawPipeline, Result, WgslKernel};
use objc2::rc::{Retained, autoreleasepool};
use objc2::sel;
use objc2_metal::{
    MTLCompileOptions, MTLComputePipelineDescriptor, MTLComputePipelineState, MTLDevice, MTLLanguageVersion,
    MTLLibrary, MTLMathFloatingPointFunctions, MTLMathMode, MTLSize,
};
use slab::Slab;
use smallvec::SmallVec;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A compiled kernel, with the facts that encoding a dispatch needs.
pub(super) struct Pipeline {
    pub(super) state: Object<dyn MTLComputePipelineState>,
    /// Threads of a threadgroup.
    pub(super) workgroup: MTLSize,
    /// All of them.
    pub(super) threads: u64,
    pub(super) params_slot: usize,
    pub(super) sizes_slot: usize,
    /// The bindings whose sizes the kernel is given.
    pub(super) sized: SmallVec<[u32; 8]>,
    pub(super) threadgroup_bytes: SmallVec<[u32; 4]>,
}

/// The kernels of copies and fills.
pub(super) struct Transfers {
    pipelines: [Object<dyn MTLComputePipelineState>; 3],
}

/// All pipelines of a device, and their cache on disk.
pub(super) struct Pipelines {
    gpu: Arc<Gpu>,
    pub(super) transfers: Transfers,
    archive: Option<Archive>,
    pipelines: RwLock<Slab<Pipeline>>,
}

/// A text to compile.
struct Text<'a> {
    label: &'a str,
    source: &'a str,
    entry: &'a str,
    language: (u8, u8),
    math: Math,
    /// Threads of a threadgroup.
    threads: usize,
    /// Threads of a SIMD group, where the kernel requires a number.
    subgroup: Option<u32>,
}

impl Pipelines {
    /// Starts from the result of [`Pipelines::driver_cache`] in an earlier run, if it is valid.
    pub(super) fn new(gpu: &Arc<Gpu>, driver_cache: Option<&[u8]>) -> Result<Pipelines> {
        autoreleasepool(|_| {
            let archive = driver_cache.and_then(|bytes| Archive::open(gpu, bytes));
            let source = include_str!("transfer.metal");
            let compile = |kind: TransferKind| {
                let (entry, threads, math) = (kind.entry(), TRANSFER_THREADS as usize, Math::Exact);
                let language = MSL_VERSION;
                let text = Text { label: entry, source, entry, language, math, threads, subgroup: None };
                create(gpu, archive.as_ref(), &text)
            };
            let [words, bytes, fill] = TransferKind::ALL.map(compile);
            let transfers = Transfers { pipelines: [words?, bytes?, fill?] };
            Ok(Pipelines { gpu: gpu.clone(), transfers, archive, pipelines: RwLock::default() })
        })
    }

    /// Returns the pipelines, for looking many up.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Slab<Pipeline>> {
        self.pipelines.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a program as MSL, in the form that is kept on disk.
    pub(super) fn translate(&self, program: &Program) -> Result<Vec<u8>> {
        Ok(store(&msl_for(kernel_of(program)?, &self.gpu.adapter.target)?))
    }

    /// See [`RawDevice::compile`](crate::RawDevice::compile).
    pub(super) fn compile(
        &self,
        label: &str,
        program: &Program,
        binary: Option<&[u8]>,
    ) -> Result<RawPipeline> {
        self.gpu.check()?;
        let kernel = kernel_of(program)?;
        let msl = match binary.and_then(load) {
            Some(msl) => msl,
            None => msl_for(kernel, &self.gpu.adapter.target)?,
        };
        let threads = self.check_limits(label, kernel, &msl)?;
        let features = &self.gpu.adapter.info.features;
        kernel
            .check_subgroup(features)
            .map_err(|detail| HalError::Compile { label: label.to_owned(), detail })?;
        let (source, entry) = (msl.source.as_str(), msl.entry.as_str());
        let (language, math, subgroup) = (msl.language, kernel.math, kernel.subgroup());
        let text = Text { label, source, entry, language, math, threads, subgroup };
        let state = autoreleasepool(|_| create(&self.gpu, self.archive.as_ref(), &text))?;
        let [width, height, depth] = msl.workgroup.map(|axis| axis as usize);
        let pipeline = Pipeline {
            state,
            workgroup: MTLSize { width, height, depth },
            threads: threads as u64,
            params_slot: msl.params_slot as usize,
            sizes_slot: msl.sizes_slot as usize,
            sized: SmallVec::from_slice(&msl.sized),
            threadgroup_bytes: SmallVec::from_slice(&msl.threadgroup_bytes),
        };
        Ok(RawPipeline(self.write().insert(pipeline) as u64))
    }

    /// See [`RawDevice::discard`](crate::RawDevice::discard).
    pub(super) fn discard(&self, pipeline: RawPipeline) {
        let discarded = self.write().try_remove(pipeline.0 as usize);
        autoreleasepool(|_| drop(discarded));
    }

    /// Returns the cache for the next run; empty if it is unchanged.
    pub(super) fn driver_cache(&self) -> Vec<u8> {
        self.archive.as_ref().map(Archive::serialize).unwrap_or_default()
    }

    /// Returns the threads of a threadgroup, or an error for a kernel beyond the device's limits: Metal would abort.
    fn check_limits(&self, label: &str, kernel: &WgslKernel, msl: &Msl) -> Result<usize> {
        let limits = &self.gpu.adapter.info.limits;
        let threads: u64 = msl.workgroup.iter().map(|axis| u64::from(*axis)).product();
        let shared: u64 = msl.threadgroup_bytes.iter().map(|bytes| u64::from(*bytes)).sum();
        let fits = kernel.bindings <= limits.max_bindings
            && kernel.words as usize <= limits.max_param_bytes / 4
            && (1..=u64::from(limits.max_workgroup)).contains(&threads)
            && shared <= limits.max_workgroup_bytes as u64;
        if fits {
            return Ok(threads as usize);
        }
        let detail = format!(
            "{} bindings, {} parameter words, {threads} threads and {shared} bytes of threadgroup memory; the device \
             has {}, {}, {} and {}",
            kernel.bindings,
            kernel.words,
            limits.max_bindings,
            limits.max_param_bytes / 4,
            limits.max_workgroup,
            limits.max_workgroup_bytes
        );
        Err(HalError::Compile { label: label.to_owned(), detail })
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slab<Pipeline>> {
        self.pipelines.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transfers {
    pub(super) fn get(&self, kind: TransferKind) -> &Object<dyn MTLComputePipelineState> {
        let [words, bytes, fill] = &self.pipelines;
        match kind {
            TransferKind::CopyWords => words,
            TransferKind::CopyBytes => bytes,
            TransferKind::FillWords => fill,
        }
    }
}

/// Compiles a text. The caller holds an autorelease pool.
fn create(
    gpu: &Gpu,
    archive: Option<&Archive>,
    of: &Text<'_>,
) -> Result<Object<dyn MTLComputePipelineState>> {
    let failed = |detail: String| HalError::Compile { label: of.label.to_owned(), detail };
    let options = compile_options(of);
    let library = gpu
        .device()
        .newLibraryWithSource_options_error(&text(of.source), Some(&options))
        .map_err(|error| failed(explain(of.source, &error.localizedDescription().to_string())))?;
    library.setLabel(Some(&text(of.label)));
    let function = library
        .newFunctionWithName(&text(of.entry))
        .ok_or_else(|| failed(format!("there is no function {} in its text", of.entry)))?;
    let descriptor = MTLComputePipelineDescriptor::new();
    descriptor.setLabel(Some(&text(of.label)));
    descriptor.setComputeFunction(Some(&function));
    // The compiler then limits registers to what this number of threads can share.
    descriptor.setMaxTotalThreadsPerThreadgroup(of.threads);
    let features = &gpu.adapter.info.features;
    if gpu.adapter.is_apple && of.threads.is_multiple_of(features.subgroup_size.1.max(1) as usize) {
        // SAFETY: only whole threadgroups of this size are dispatched.
        unsafe { descriptor.setThreadGroupSizeIsMultipleOfThreadExecutionWidth(true) };
    }
    let state = match archive {
        Some(archive) => archive.pipeline(gpu, &descriptor),
        None => super::archive::pipeline(gpu, &descriptor, false),
    }
    .map_err(|error| failed(error.localizedDescription().to_string()))?;
    if state.maxTotalThreadsPerThreadgroup() < of.threads {
        let most = state.maxTotalThreadsPerThreadgroup();
        return Err(failed(format!("it wants {} threads in a threadgroup and may have {most}", of.threads)));
    }
    let width = state.threadExecutionWidth();
    if !is_promised(u32::try_from(width).unwrap_or(0), of.subgroup, features) {
        let (least, most) = of.subgroup.map_or(features.subgroup_size, |size| (size, size));
        return Err(failed(format!("it runs in groups of {width} threads, {least} to {most} were promised")));
    }
    Ok(state)
}

fn compile_options(of: &Text<'_>) -> Retained<MTLCompileOptions> {
    let options = MTLCompileOptions::new();
    let (math, (major, minor)) = (of.math, of.language);
    options.setLanguageVersion(MTLLanguageVersion((usize::from(major) << 16) + usize::from(minor)));
    // macOS 15 has three modes, before it there were two.
    if responds(&*options, sel!(setMathMode:)) {
        options.setMathMode(match math {
            Math::Exact => MTLMathMode::Safe,
            Math::Relaxed => MTLMathMode::Relaxed,
            Math::Fast => MTLMathMode::Fast,
        });
        options.setMathFloatingPointFunctions(match math {
            Math::Exact | Math::Relaxed => MTLMathFloatingPointFunctions::Precise,
            Math::Fast => MTLMathFloatingPointFunctions::Fast,
        });
    } else {
        #[allow(deprecated)]
        options.setFastMathEnabled(math == Math::Fast);
    }
    options
}
