//! The CPU device: memory is host memory, a pipeline is a function, a submission is run at once.
//!
//! **`submit` runs the list on the calling thread, together with the pool, and returns when it is done.** A hand-over to
//! another thread would add two wake-ups and gain nothing. A baked list is its plan, made once: groups of tiles with
//! functions and addresses, so a replay looks nothing up. A lock serialises submissions. A kernel that panics does not make
//! `submit` fail: the ticket is reached, the rest of its list is skipped, and every `wait` for it reports the panic. The last
//! 4096 failures are kept; older ones count as success.

use super::fault::Fault;
use super::options::CpuOptions;
use super::plan::{Plan, Run};
use super::pool::Pool;
use super::timeline::{CpuTimeline, Times};
use super::workspace::Workspaces;
use super::{Isa, caches, machine, memory};
use crate::{
    Backend, BlockDesc, CommandList, DeviceInfo, HalError, HostRegion, Imported, NativeFn, Program, RawBaked,
    RawBlock, RawDevice, RawPipeline, Result, Span, StreamFn, ThreadTimes, Ticket,
};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Opens the CPU device.
///
/// Fails when the options name an instruction set that the machine does not have.
pub fn open(options: &CpuOptions) -> Result<Arc<dyn RawDevice>> {
    let isa = choose(options)?;
    let threads = options.thread_count();
    let pool = Pool::new(threads, options.spin)
        .map_err(|error| HalError::Driver { call: "thread spawn", detail: error.to_string() })?;
    Ok(Arc::new(CpuDevice {
        info: describe(isa, threads),
        isa,
        pool,
        turn: Mutex::new(ExecutorState { plan: Plan::default(), workspaces: Workspaces::new(threads) }),
        workspace_bytes: AtomicUsize::new(0),
        fault: Fault::default(),
        timeline: CpuTimeline::default(),
    }))
}

/// Returns the description of the device that [`open`] would open, without starting threads.
pub fn info(options: &CpuOptions) -> Result<DeviceInfo> {
    Ok(describe(choose(options)?, options.thread_count()))
}

fn choose(options: &CpuOptions) -> Result<Isa> {
    match options.isa {
        None => Ok(Isa::best()),
        Some(isa) if isa.is_available() => Ok(isa),
        Some(isa) => Err(missing(isa)),
    }
}

/// A compiled kernel. A [`RawPipeline`] is the address of a boxed one.
pub(crate) struct Kernel {
    /// The function chosen for this machine.
    pub entry: NativeFn,
    /// Its own name, for traces.
    pub name: &'static str,
    /// The label, for messages.
    pub label: String,
    /// Returns the ranges that a tile streams.
    pub streams: Option<StreamFn>,
    /// Bytes of workspace that its tiles use.
    pub workspace: usize,
}

/// A list ready to be run again. A [`RawBaked`] is the address of a boxed one.
struct BakedPlan {
    plan: Plan,
    params: Vec<u32>,
}

struct CpuDevice {
    info: DeviceInfo,
    isa: Isa,
    pool: Pool,
    /// Its lock serialises submissions.
    turn: Mutex<ExecutorState>,
    /// Bytes of all workspaces, to be read while a list runs.
    workspace_bytes: AtomicUsize,
    fault: Fault,
    timeline: CpuTimeline,
}

/// The state of the running submission.
struct ExecutorState {
    /// The plan of the list that runs, or of the last one.
    plan: Plan,
    workspaces: Workspaces,
}

impl CpuDevice {
    /// Waits for the running list, if any, and excludes others.
    fn turn(&self) -> MutexGuard<'_, ExecutorState> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes workspaces large enough for a plan.
    fn provide(&self, workspaces: &mut Workspaces, plan: &Plan) -> Result<()> {
        workspaces.grow(plan.workspace())?;
        self.workspace_bytes.store(workspaces.bytes(), Ordering::Relaxed);
        Ok(())
    }

    /// Runs a plan to its end and records the outcome. The workspaces are those of the turn, which the caller holds.
    fn run(&self, plan: &Plan, params: &[u32], workspaces: &Workspaces, ticket: Ticket) {
        plan.begin();
        self.pool.run(&Run { plan, params, workspaces, fault: &self.fault });
        let failure = self.fault.take();
        let times = match &failure {
            None => Times { spans: plan.spans(), threads: plan.thread_times() },
            Some(_) => Times::default(),
        };
        self.timeline.finish(ticket, failure, times);
    }
}

// SAFETY: blocks stay mapped until freed, groups run one after the other, and a ticket is reached only after its
// list has run and its failure, if any, is recorded.
unsafe impl RawDevice for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    unsafe fn alloc(&self, desc: &BlockDesc) -> Result<RawBlock> {
        memory::allocate(desc.bytes)
    }

    unsafe fn import(&self, host: HostRegion) -> Result<Option<Imported>> {
        Ok(Some(Imported { block: memory::import(host), offset: 0 }))
    }

    unsafe fn free(&self, block: RawBlock) {
        // SAFETY: `RawDevice::free` demands a live block that no list in flight uses.
        unsafe { memory::release(block) }
    }

    unsafe fn map(&self, block: RawBlock) -> Option<NonNull<[u8]>> {
        // SAFETY: `RawDevice::map` demands a live block; the record is read before this call returns.
        let block = unsafe { memory::resolve(block) };
        Some(NonNull::slice_from_raw_parts(block.start, block.bytes))
    }

    fn translate(&self, _program: &Program) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    unsafe fn compile(&self, label: &str, program: &Program, _binary: Option<&[u8]>) -> Result<RawPipeline> {
        let refuse = |detail: String| HalError::Compile { label: label.to_owned(), detail };
        let Program::Native(kernel) = program else {
            return Err(refuse("it is written in WGSL, and the CPU runs native kernels only".to_owned()));
        };
        let fits = |isa: Isa| isa <= self.isa && isa.is_available();
        let Some(variant) = kernel.variants().iter().find(|variant| fits(variant.isa)) else {
            return Err(refuse(format!("{} has no variant for {}", kernel.name, self.isa)));
        };
        let (name, streams, workspace) = (kernel.name, kernel.streams(), kernel.workspace());
        let kernel =
            Box::new(Kernel { entry: variant.entry, name, label: label.to_owned(), streams, workspace });
        Ok(RawPipeline(Box::into_raw(kernel).expose_provenance() as u64))
    }

    unsafe fn discard(&self, pipeline: RawPipeline) {
        let kernel = std::ptr::with_exposed_provenance_mut::<Kernel>(pipeline.0 as usize);
        // SAFETY: a live pipeline is the exposed address of a leaked box.
        drop(unsafe { Box::from_raw(kernel) });
    }

    unsafe fn submit(&self, list: &CommandList, ticket: Ticket) -> Result<()> {
        let mut turn = self.turn();
        let ExecutorState { plan, workspaces } = &mut *turn;
        // SAFETY: `RawDevice::submit` demands live handles and ranges inside blocks; the plan runs before it returns.
        unsafe { plan.build(list, &self.info) };
        self.provide(workspaces, plan)?;
        // SAFETY: `RawDevice::submit` demands live blocks; the plan was built of this list just now.
        unsafe { plan.read_live(&list.params, &self.info) };
        self.run(plan, &list.params, workspaces, ticket);
        Ok(())
    }

    unsafe fn bake(&self, list: &CommandList) -> Result<RawBaked> {
        let mut plan = Plan::default();
        // SAFETY: `RawDevice::bake` demands live handles and ranges inside blocks until the list is unbaked.
        unsafe { plan.build(list, &self.info) };
        self.provide(&mut self.turn().workspaces, &plan)?;
        let baked = Box::new(BakedPlan { plan, params: list.params.clone() });
        Ok(RawBaked(Box::into_raw(baked).expose_provenance() as u64))
    }

    unsafe fn replay(&self, baked: RawBaked, ticket: Ticket) -> Result<()> {
        // Held to the end: one list runs at a time.
        let turn = self.turn();
        let baked = std::ptr::with_exposed_provenance_mut::<BakedPlan>(baked.0 as usize);
        // SAFETY: a live baked list is the exposed address of a leaked box (`bake`). The turn excludes other replays.
        let BakedPlan { plan, params } = unsafe { &mut *baked };
        // SAFETY: the blocks of a baked list are live until it is unbaked (`RawDevice::bake`); `params` are those of its list.
        unsafe { plan.read_live(params, &self.info) };
        self.run(plan, params, &turn.workspaces, ticket);
        Ok(())
    }

    unsafe fn unbake(&self, baked: RawBaked) {
        let baked = std::ptr::with_exposed_provenance_mut::<BakedPlan>(baked.0 as usize);
        // SAFETY: a live baked list is the exposed address of a leaked box.
        drop(unsafe { Box::from_raw(baked) });
    }

    fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<()> {
        self.timeline.wait(ticket, timeout)
    }

    fn reached(&self) -> Result<Ticket> {
        Ok(self.timeline.reached())
    }

    fn workspace_bytes(&self) -> usize {
        self.workspace_bytes.load(Ordering::Relaxed)
    }

    fn spans(&self, ticket: Ticket) -> Vec<Span> {
        self.timeline.spans(ticket)
    }

    fn thread_times(&self, ticket: Ticket) -> ThreadTimes {
        self.timeline.thread_times(ticket)
    }
}

fn missing(isa: Isa) -> HalError {
    let here: Vec<&str> = Isa::available().into_iter().map(Isa::name).collect();
    HalError::Unavailable {
        backend: Backend::Cpu.name(),
        detail: format!("the instruction set {isa} was asked for, and this machine has {}", here.join(", ")),
        advice: "Ask for one of those, or for none to get the best",
    }
}

fn describe(isa: Isa, threads: usize) -> DeviceInfo {
    let mut info =
        DeviceInfo::new(Backend::Cpu, Backend::Cpu.name(), machine::processor_name()).with_host_kernels();
    let version = env!("CARGO_PKG_VERSION");
    info.driver = format!("silicide-hal {version}, {isa}, {threads} threads");
    info.fingerprint = format!("cpu-{version}-{}-{isa}", std::env::consts::ARCH);
    info.isa = Some(isa);
    info.threads = threads;
    info.memory = machine::memory();
    info.core_cache = caches::l2_bytes();
    info.limits.max_block = memory::MAX_BLOCK;
    info.limits.max_binding = memory::MAX_BLOCK;
    info.limits.binding_alignment = 1;
    info.features.integer_dot = isa >= Isa::AvxVnni || isa == Isa::Neon;
    info.features.timestamps = true;
    info
}
