//! A device that runs Metal kernels on the host. Memory and the timeline are those of the null device, which never runs
//! anything; this one runs each list inside `submit`, on the thread that submits.

use crate::clang::Clang;
use crate::unit::{Kernel, launcher, unit};
use libloading::Library;
use silicide_core::{Device, DeviceOptions};
use silicide_hal::baked::BakedLists;
use silicide_hal::null::{self, NullDevice, NullOptions};
use silicide_hal::wgsl::{MslTarget, kernel_of};
use silicide_hal::{
    Backend, Binding, Command, CommandList, DeviceInfo, Dispatch, Features, Forward, HalError, LaunchWords,
    MatrixShape, MatrixShapes, Memory, Program, RawBaked, RawDevice, RawPipeline, Result, Ticket,
};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, PoisonError, RwLock};
use tempfile::TempDir;

/// The largest block: what the null device keeps real memory for.
const LARGEST: usize = 1 << 30;
/// Threads of a SIMD group.
const SIMD_WIDTH: u32 = 32;

/// Opens a device that takes kernels as `target` does.
pub fn open(options: &DeviceOptions, target: MslTarget) -> std::result::Result<Device, String> {
    let device = MslDevice::new(Clang::find()?, target).map_err(|error| error.to_string())?;
    // SAFETY: the backend was just made, and only this `Device` uses it.
    Ok(unsafe { Device::with_backend(Arc::new(device), options) })
}

/// Returns limits and features of the first Apple GPUs of Macs (M1), and matrices of 16x16, which no Apple GPU has: kernels for other
/// GPUs run with them here, and nowhere else in tests.
pub fn info() -> DeviceInfo {
    let mut info = DeviceInfo::new(Backend::Metal, "msl", "Metal kernels on the host");
    info.software = true;
    info.fingerprint = format!("msl-{}", env!("CARGO_PKG_VERSION"));
    info.memory = Memory { total: 4 << 30, available: 4 << 30 };
    info.limits.max_block = LARGEST;
    info.limits.max_binding = LARGEST;
    info.limits.max_param_bytes = 4096;
    info.limits.max_bindings = 29;
    info.limits.max_workgroup = 1024;
    info.limits.max_workgroup_bytes = 32 << 10;
    info.features = Features {
        f16: true,
        storage_16: true,
        storage_8: true,
        int_16: true,
        int_64: true,
        f16_subnormals: false,
        f16_rounding: true,
        integer_dot: false,
        subgroups: true,
        subgroup_size: (SIMD_WIDTH, SIMD_WIDTH),
        required_subgroup_size: (SIMD_WIDTH, SIMD_WIDTH),
        unified_memory: true,
        host_import: true,
        bf16: true,
        matrices: [MatrixShape::F32M8N8K8, MatrixShape::F16M8N8K8, MatrixShape::F16M16N16K16]
            .into_iter()
            .collect(),
        timestamps: false,
    };
    info
}

/// A backend whose pipelines are shared libraries.
pub struct MslDevice {
    info: DeviceInfo,
    clang: Clang,
    target: MslTarget,
    /// Where libraries are written before they are loaded.
    place: TempDir,
    state: Arc<NullDevice>,
    pipelines: RwLock<HashMap<RawPipeline, Pipeline>>,
    baked: BakedLists,
}

/// A compiled kernel.
struct Pipeline {
    label: String,
    kernel: Kernel,
    library: Library,
}

/// A dispatch, as `include/emulation/launch.h` has it.
#[repr(C)]
struct Launch {
    groups: [u32; 3],
    reversed: u32,
    buffers: *const *mut c_void,
}

/// Runs a launch. Returns null, or an error message.
///
/// # Safety
/// The launch has as many buffers as the kernel has arguments, each of the size that its launch needs.
type Launcher = unsafe extern "C" fn(*const Launch) -> *const c_char;

impl MslDevice {
    /// A device that compiles with the given compiler, and takes matrices and kernels written by hand as `target` does.
    pub fn new(clang: Clang, target: MslTarget) -> Result<MslDevice> {
        let failed = |error: std::io::Error| HalError::Driver {
            call: "making a temporary directory",
            detail: error.to_string(),
        };
        let state = null::open(&NullOptions::default().limits(LARGEST, LARGEST).keep_lists(0))?;
        let place = TempDir::new().map_err(failed)?;
        let (pipelines, baked) = (RwLock::default(), BakedLists::default());
        let mut info = info();
        if !target.simdgroup_matrix {
            info.features.matrices = MatrixShapes::NONE;
        }
        Ok(MslDevice { info, clang, target, place, state, pipelines, baked })
    }

    /// The first byte of a binding.
    ///
    /// # Safety
    /// The block is live and the binding lies in it.
    unsafe fn locate(&self, binding: Binding) -> Result<*mut u8> {
        // SAFETY: the block is live.
        let memory = unsafe { self.state.map(binding.block) }
            .ok_or(HalError::OutOfMemory { requested: binding.bytes as usize })?;
        // SAFETY: the binding lies in its block.
        Ok(unsafe { memory.cast::<u8>().as_ptr().add(binding.offset as usize) })
    }

    /// # Safety
    /// As for `submit`.
    unsafe fn dispatch(&self, list: &CommandList, dispatch: &Dispatch, reversed: bool) -> Result<()> {
        let pipelines = self.pipelines.read().unwrap_or_else(PoisonError::into_inner);
        let Some(pipeline) = pipelines.get(&dispatch.pipeline) else {
            let detail = format!("{:?} is no pipeline", dispatch.pipeline);
            return Err(HalError::Driver { call: "dispatch", detail });
        };
        let failed = |detail: String| HalError::KernelPanicked { label: pipeline.label.clone(), detail };
        let msl = &pipeline.kernel.msl;
        let bindings = list.bindings_of(dispatch);
        let layout = LaunchWords::of(dispatch);
        let words = match dispatch.live {
            // SAFETY: `submit`'s caller promised a live block with as many words in it, which nothing else writes now.
            Some(words) => unsafe {
                let start = self.locate(words)?.cast::<u32>();
                Some(std::slice::from_raw_parts(start.cast_const(), layout.count()))
            },
            None => None,
        };
        let live = words.map(|words| words.get(..layout.params).unwrap_or(&[]));
        let mut params = live.unwrap_or(list.params_of(dispatch)).to_vec();
        let groups = words.and_then(|words| layout.grid(words)).unwrap_or(dispatch.grid);
        let size = |slot: &u32| bindings.get(*slot as usize).map_or(0, |binding| binding.bytes as u32);
        let mut sizes: Vec<u32> = msl.sized.iter().map(size).collect();
        let mut buffers: Vec<*mut c_void> = Vec::new();
        for binding in bindings {
            // SAFETY: `submit`'s caller promised live blocks and ranges inside them.
            buffers.push(unsafe { self.locate(*binding) }?.cast());
        }
        let expected = (buffers.len() as u32, buffers.len() as u32 + 1, pipeline.kernel.words as usize);
        if expected != (msl.params_slot, msl.sizes_slot, params.len()) {
            return Err(failed(format!("{} bindings and {} parameter words", bindings.len(), params.len())));
        }
        buffers.extend([params.as_mut_ptr().cast(), sizes.as_mut_ptr().cast()]);
        let launch = Launch { groups, reversed: reversed.into(), buffers: buffers.as_ptr() };
        // SAFETY: the symbol is a function of this type in every library that `unit` makes.
        let launcher = unsafe { pipeline.library.get::<Launcher>(launcher(0).as_bytes()) }
            .map_err(|error| failed(error.to_string()))?;
        // SAFETY: the launch and what it points to live until the call returns; the kernel stays inside its bindings.
        let fault = unsafe { launcher(&raw const launch) };
        if fault.is_null() {
            return Ok(());
        }
        // SAFETY: a fault is a static string of the library.
        Err(failed(unsafe { CStr::from_ptr(fault) }.to_string_lossy().into_owned()))
    }

    /// # Safety
    /// As for `submit`.
    unsafe fn run(&self, list: &CommandList, reversed: bool) -> Result<()> {
        for command in &list.commands {
            // SAFETY: handles are live and ranges lie in their blocks; commands run one after the other.
            unsafe {
                match command {
                    Command::Dispatch(dispatch) => self.dispatch(list, dispatch, reversed)?,
                    Command::Copy { src, dst } => {
                        self.locate(*dst)?.copy_from(self.locate(*src)?, src.bytes as usize);
                    }
                    Command::Fill { dst, value } => {
                        let words = self.locate(*dst)?.cast::<u32>();
                        for i in 0..dst.bytes as usize / 4 {
                            words.add(i).write_unaligned(*value);
                        }
                    }
                    Command::Barrier | Command::Mark { .. } => {}
                }
            }
        }
        Ok(())
    }
}

// SAFETY: memory and tickets are those of the null device, which keeps the contract; a list has run, in order, before
// its ticket is reached, and every wait for the ticket returns its failure.
unsafe impl Forward for MslDevice {
    fn inner(&self) -> &dyn RawDevice {
        &*self.state
    }

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    unsafe fn compile(&self, label: &str, program: &Program, _binary: Option<&[u8]>) -> Result<RawPipeline> {
        let failed = |detail: String| HalError::Compile { label: label.to_owned(), detail };
        let kernel = Kernel::new(label, kernel_of(program)?, &self.target)?;
        kernel_of(program)?.check_subgroup(&self.info.features).map_err(failed)?;
        // SAFETY: the null device compiles nothing; it numbers pipelines.
        let pipeline = unsafe { self.state.compile(label, program, None) }?;
        let path = self.place.path().join(format!("{}.so", pipeline.0));
        unit(std::slice::from_ref(&kernel))
            .and_then(|unit| self.clang.build(&unit, &path))
            .map_err(failed)?;
        // SAFETY: the library was made from this kernel; loading it runs nothing.
        let library = unsafe { Library::new(&path) }.map_err(|error| failed(error.to_string()))?;
        let mut pipelines = self.pipelines.write().unwrap_or_else(PoisonError::into_inner);
        pipelines.insert(pipeline, Pipeline { label: label.to_owned(), kernel, library });
        Ok(pipeline)
    }

    unsafe fn discard(&self, pipeline: RawPipeline) {
        self.pipelines.write().unwrap_or_else(PoisonError::into_inner).remove(&pipeline);
        // SAFETY: the handle is the null device's own (`compile`), and live by `RawDevice::discard`.
        unsafe { self.state.discard(pipeline) }
    }

    unsafe fn submit(&self, list: &CommandList, ticket: Ticket) -> Result<()> {
        // Every other list runs its threads in reverse: a kernel that lacks a barrier then has two different results.
        // SAFETY: the conditions of `RawDevice::submit` hold for this list.
        if let Err(error) = unsafe { self.run(list, ticket.0 % 2 == 1) } {
            self.state.fail_ticket(ticket, error);
        }
        // SAFETY: the same list and ticket; the null device runs nothing and moves the timeline.
        unsafe { self.state.submit(list, ticket) }
    }

    unsafe fn bake(&self, list: &CommandList) -> Result<RawBaked> {
        Ok(self.baked.bake(list))
    }

    unsafe fn replay(&self, baked: RawBaked, ticket: Ticket) -> Result<()> {
        // SAFETY: `bake` demands of its list what `submit` does, until it is unbaked.
        self.baked.with(baked, |list| unsafe { Forward::submit(self, list, ticket) })
    }

    unsafe fn unbake(&self, baked: RawBaked) {
        self.baked.unbake(baked);
    }
}
