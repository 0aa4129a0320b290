//! Lowering: a kernel's plan becomes commands. Bindings are cut to the limits of the device, offsets become
//! parameter words, accesses become hazards.
//!
//! A plan is recorded whole or not at all: a step that can't be recorded leaves nothing of the others behind.

use super::needs::offset_unit;
use super::recording::{BufferRegion, Recording, temporary};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::{Access, Arg, Compiled, DynOp, Launch, Operand, Plan, Step};
use silicide_hal::{Binding, Command, LaunchWords, Program, WgslKernel};
use silicide_quant::{DType, Shape};
use smallvec::SmallVec;

/// An op with the buffers it is called on.
pub(crate) struct Call<'a> {
    pub(crate) device: &'a Device,
    pub(crate) op: &'a dyn DynOp,
    pub(crate) kernel: &'static str,
    pub(crate) inputs: &'a [&'a Buffer],
    pub(crate) outputs: &'a [&'a Buffer],
}

/// What lowering does with a step that keeps the rules.
#[derive(Clone, Copy)]
enum StepMode<'a> {
    /// Checks it.
    Check,
    /// Checks and records it. A launch has its launch words in this place, if there is one.
    Record(Option<&'a BufferRegion<'a>>),
}

/// A launch with its arguments: where they lie, what the device binds, and all parameter words.
struct BoundLaunch<'a> {
    places: SmallVec<[(BufferRegion<'a>, DType); 8]>,
    bindings: SmallVec<[Binding; 8]>,
    params: SmallVec<[u32; 32]>,
}

/// Records the steps of a plan, after a mark if there is to be one.
pub(super) fn lower(
    recording: &mut Recording,
    call: &Call<'_>,
    plan: &Plan,
    mark: Option<&'static str>,
) -> Result<()> {
    let scratch = scratch(call.device, plan)?;
    let own = PlanBuffers { scratch, tables: tables(call.device, plan)? };
    let before = recording.list.commands.len();
    recording.list.commands.extend(mark.map(|label| Command::Mark { label }));
    let recorded = steps(recording, call, &own, plan);
    if recorded.is_err() {
        // Steps fail before they leave anything behind, and only before the first is recorded.
        recording.list.commands.truncate(before);
    }
    recorded
}

/// Tables by the words they hold.
type Tables = SmallVec<[(&'static [u32], Buffer); 1]>;

/// Buffers that a plan uses besides the arguments of its op.
pub(crate) struct PlanBuffers {
    scratch: SmallVec<[Buffer; 2]>,
    tables: Tables,
}

fn steps(recording: &mut Recording, call: &Call<'_>, own: &PlanBuffers, plan: &Plan) -> Result<()> {
    if plan.steps.len() > 1 || !own.scratch.is_empty() {
        for step in &plan.steps {
            call.check(own, step, recording)?;
        }
    }
    if call.device.poisons_scratch() {
        for buffer in &own.scratch {
            recording.fill(&BufferRegion::of(buffer, Access::Write)?, u32::MAX);
        }
    }
    for step in &plan.steps {
        call.record(own, step, recording, None)?;
    }
    Ok(())
}

impl PlanBuffers {
    /// Returns the given scratch buffers with the tables of a plan.
    pub(crate) fn new(device: &Device, plan: &Plan, scratch: SmallVec<[Buffer; 2]>) -> Result<PlanBuffers> {
        Ok(PlanBuffers { scratch, tables: tables(device, plan)? })
    }
}

/// The size of scratch memory: whole words, at least one.
pub(crate) fn scratch_bytes(bytes: usize) -> usize {
    bytes.max(4).checked_next_multiple_of(4).unwrap_or(bytes)
}

/// Scratch buffers of a plan: whole words, of any contents. Once used in a recording, it keeps their memory.
fn scratch(device: &Device, plan: &Plan) -> Result<SmallVec<[Buffer; 2]>> {
    let mut buffers = SmallVec::new();
    for &bytes in &plan.scratch {
        let bytes = scratch_bytes(bytes);
        let shape = Shape::new(&[bytes]).map_err(|error| Error::bad_shape("scratch", error))?;
        buffers.push(temporary(device, DType::U8, shape, bytes)?);
    }
    Ok(buffers)
}

/// Tables of a plan, each once.
fn tables(device: &Device, plan: &Plan) -> Result<Tables> {
    let mut tables = Tables::new();
    for step in &plan.steps {
        let Step::Dispatch(launch) = step else { continue };
        for arg in &launch.args {
            if let Operand::Table(words) = arg.operand
                && !tables.iter().any(|(known, _)| std::ptr::eq(*known, words))
            {
                tables.push((words, device.table(words)?));
            }
        }
    }
    Ok(tables)
}

impl Call<'_> {
    /// Checks a step.
    fn check(&self, own: &PlanBuffers, step: &Step, recording: &mut Recording) -> Result<()> {
        self.step(own, step, recording, StepMode::Check)
    }

    /// Checks a step and records it. On failure nothing has changed. `live` is where a launch has its launch words, if it is
    /// to be live.
    pub(crate) fn record(
        &self,
        own: &PlanBuffers,
        step: &Step,
        recording: &mut Recording,
        live: Option<&BufferRegion<'_>>,
    ) -> Result<()> {
        self.step(own, step, recording, StepMode::Record(live))
    }

    /// Checks a launch, and appends its launch words.
    pub(crate) fn launch_words(
        &self,
        own: &PlanBuffers,
        launch: &Launch,
        words: &mut Vec<u32>,
    ) -> Result<()> {
        let BoundLaunch { places, bindings, params } = self.bind(own, launch)?;
        // Native functions have no least bytes: their needs were compared by `bind`.
        if let Program::Wgsl(_) = launch.program {
            let compiled = self.device.kernels().pipeline(&launch.program.live())?;
            self.check_least_bytes(launch, &bindings, &compiled)?;
        }
        let lengths = places.iter().map(|(place, _)| place.range.len() as u64);
        LaunchWords::write(&params, launch.grid, lengths, words);
        Ok(())
    }

    /// Checks that each binding has the least bytes of its type in the program's text.
    fn check_least_bytes(&self, launch: &Launch, bindings: &[Binding], compiled: &Compiled) -> Result<()> {
        let least_bytes = compiled.least_bytes.iter().flat_map(|least| least.iter());
        for (i, (binding, &least)) in bindings.iter().zip(least_bytes).enumerate() {
            // rule: least-bytes
            if binding.bytes < u64::from(least) {
                let (program, bytes) = (launch.program.name(), binding.bytes);
                return Err(self.defect(format!(
                    "binding {i} of {program} with {bytes} bytes, expected at least the {least} of its type"
                )));
            }
        }
        Ok(())
    }

    fn step(
        &self,
        own: &PlanBuffers,
        step: &Step,
        recording: &mut Recording,
        mode: StepMode<'_>,
    ) -> Result<()> {
        let record = matches!(mode, StepMode::Record(_));
        match step {
            Step::Dispatch(launch) => self.dispatch(own, launch, recording, mode),
            Step::Copy { from, to } => self.copy(own, from, to, recording, record),
            Step::Fill { to, value } => {
                let (to, _) = self.locate(own, to)?;
                let Binding { offset, bytes, .. } = to.binding();
                if offset % 4 != 0 || bytes % 4 != 0 || !to.access.writes() {
                    return Err(self.defect(format!("a fill of bytes {offset}..+{bytes}, {:?}", to.access)));
                }
                self.check_room(recording, 0, 0)?;
                if record {
                    recording.fill(&to.accessed(Access::Write), *value);
                }
                Ok(())
            }
        }
    }

    fn copy(
        &self,
        own: &PlanBuffers,
        from: &Arg,
        to: &Arg,
        recording: &mut Recording,
        record: bool,
    ) -> Result<()> {
        let ((from, _), (to, _)) = (self.locate(own, from)?, self.locate(own, to)?);
        let overlap = from.overlaps(&to) && from.range != to.range;
        if from.range.len() != to.range.len() || overlap || !to.access.writes() {
            let (from, to, access) = (from.binding(), to.binding(), to.access);
            return Err(self.defect(format!(
                "a copy of bytes {}..+{} to {}..+{}, {access:?}",
                from.offset, from.bytes, to.offset, to.bytes
            )));
        }
        self.check_room(recording, 0, 0)?;
        // An op that runs in place may copy bytes to where they are.
        if record && !from.overlaps(&to) {
            recording.copy(&from.accessed(Access::Read), &to.accessed(Access::Write));
        }
        Ok(())
    }

    /// Finds the arguments of a launch and checks them.
    fn bind<'a>(&'a self, own: &'a PlanBuffers, launch: &Launch) -> Result<BoundLaunch<'a>> {
        let limits = &self.device.info().limits;
        let within = launch.grid.iter().zip(&limits.max_grid).all(|(&n, &limit)| n > 0 && n <= limit);
        if !within {
            return Err(self.defect(format!("a grid of {:?}", launch.grid)));
        }
        let wgsl = match &launch.program {
            Program::Wgsl(kernel) => Some(kernel),
            Program::Native(_) => None,
        };
        let mut places: SmallVec<[(BufferRegion<'_>, DType); 8]> = SmallVec::new();
        let mut bindings: SmallVec<[Binding; 8]> = SmallVec::new();
        let mut params: SmallVec<[u32; 32]> = SmallVec::new();
        for (i, arg) in launch.args.iter().enumerate() {
            let (place, dtype) = self.locate(own, arg)?;
            let is_table = matches!(arg.operand, Operand::Table(_));
            if wgsl.is_some_and(|kernel| kernel.is_table(i) != is_table) {
                // Tables have no offset word: elsewhere they would shift the words that the program reads.
                let there = if is_table { "a table" } else { "an argument in place of a table" };
                return Err(self.defect(format!("{there} at binding {i}")));
            }
            let mut bound = place.binding();
            if wgsl.is_some() {
                // Devices bind from aligned offsets; the rest of the way is a parameter.
                let skipped = bound.offset % (limits.binding_alignment as u64).max(1);
                bound.offset -= skipped;
                let has_offsets = wgsl.is_some_and(WgslKernel::has_offsets);
                if !has_offsets && (skipped != 0 || bound.bytes % 4 != 0) {
                    // Without an offset word the program would see bytes of other buffers.
                    return Err(self.defect(format!(
                        "{} bytes at {skipped} bytes past the alignment at binding {i}, which has no offset word",
                        bound.bytes
                    )));
                }
                let exact = (bound.bytes + skipped).next_multiple_of(4);
                let behind = if has_offsets && self.device.loosens_bindings() { place.behind() } else { 0 };
                let loose = (bound.bytes + skipped + behind as u64).next_multiple_of(4);
                bound.bytes = loose.min(limits.max_binding as u64).max(exact);
                if is_table {
                    if skipped != 0 {
                        return Err(self.defect(format!("a table at {skipped} bytes past the alignment")));
                    }
                } else if has_offsets {
                    params.push((skipped / offset_unit(dtype) as u64) as u32);
                }
            }
            if bound.bytes > limits.max_binding as u64 {
                let (device, bytes) = (self.device.info().id.clone(), bound.bytes as usize);
                return Err(Error::TooLarge { device, what: "binding", bytes, limit: limits.max_binding });
            }
            bindings.push(bound);
            places.push((place, dtype));
        }
        let needs = self.check_needs(launch, &places)?;
        self.check_places(&places, &needs)?;
        params.extend_from_slice(&launch.params);
        let (words, bound) = (params.len(), bindings.len());
        let declared =
            wgsl.is_none_or(|kernel| kernel.bindings as usize == bound && kernel.words as usize == words);
        if words * 4 > limits.max_param_bytes || bound > limits.max_bindings as usize || !declared {
            return Err(self.defect(format!("{words} parameter words and {bound} bindings")));
        }
        Ok(BoundLaunch { places, bindings, params })
    }

    fn dispatch(
        &self,
        own: &PlanBuffers,
        launch: &Launch,
        recording: &mut Recording,
        mode: StepMode<'_>,
    ) -> Result<()> {
        let BoundLaunch { places, bindings, params } = self.bind(own, launch)?;
        self.check_room(recording, bindings.len(), params.len())?;
        let live = if let StepMode::Record(live) = mode { live } else { None };
        let compiled = match live {
            Some(_) => self.device.kernels().pipeline(&launch.program.live())?,
            None => self.device.kernels().pipeline(&launch.program)?,
        };
        self.check_least_bytes(launch, &bindings, &compiled)?;
        if matches!(mode, StepMode::Record(_)) {
            // Reads first: where an output is an input, what was there is read before it is replaced.
            let (reads, writes): (SmallVec<[_; 8]>, SmallVec<[_; 8]>) =
                places.iter().map(|(place, _)| place).partition(|place| place.access.reads());
            for place in live.into_iter().chain(reads).chain(writes) {
                recording.touch(place);
            }
            recording.order();
            recording.list.dispatch(compiled.pipeline, launch.grid, &bindings, &params);
            if let Some(words) = live {
                recording.list.make_live(words.binding());
            }
            recording.tally.launch(self.kernel);
        }
        Ok(())
    }

    fn check_room(&self, recording: &Recording, bindings: usize, words: usize) -> Result<()> {
        if recording.has_room(bindings, words) {
            return Ok(());
        }
        let (device, what) = (self.device.info().id.clone(), "command list");
        let bytes = size_of::<Binding>().saturating_mul(recording.list.bindings.len());
        Err(Error::TooLarge { device, what, bytes, limit: u32::MAX as usize })
    }

    /// Where an argument lies, and the type of its elements.
    fn locate<'a>(&'a self, own: &'a PlanBuffers, arg: &Arg) -> Result<(BufferRegion<'a>, DType)> {
        let (buffer, access) = match arg.operand {
            Operand::Slot(i) => {
                let i = i as usize;
                let output = || self.outputs.get(i.wrapping_sub(self.inputs.len()));
                let buffer = self.inputs.get(i).or_else(output);
                (buffer.copied(), self.op.slots().get(i).map(|slot| slot.access))
            }
            Operand::Scratch(i, access) => (own.scratch.get(i as usize), Some(access)),
            Operand::Table(words) => {
                let table = own.tables.iter().find(|(known, _)| std::ptr::eq(*known, words));
                (table.map(|(_, buffer)| buffer), Some(Access::Read))
            }
        };
        let (Some(buffer), Some(access)) = (buffer, access) else {
            return Err(self.defect(format!("{:?}, which is not there", arg.operand)));
        };
        let is_input = matches!(arg.operand, Operand::Slot(i) if usize::from(i) < self.inputs.len());
        // rule: input-access
        if is_input && access.writes() {
            // The rules of the call made sure that outputs can be written. An op whose slots differ from call to call fails here.
            return Err(self.defect(format!("{:?} to be written, which is an input", arg.operand)));
        }
        let is_scratch = matches!(arg.operand, Operand::Scratch(..));
        let dtype = if is_scratch { DType::U32 } else { buffer.dtype() };
        let bytes = if arg.bytes == usize::MAX { buffer.size().saturating_sub(arg.start) } else { arg.bytes };
        let inside = bytes > 0 && arg.start.checked_add(bytes).is_some_and(|end| end <= buffer.size());
        if !inside || !arg.start.is_multiple_of(dtype.size()) {
            return Err(self.defect(format!("bytes {}..+{bytes} of {} bytes", arg.start, buffer.size())));
        }
        // The windows of an output together replace all of it.
        let place = BufferRegion::of(buffer, access)?;
        let start = buffer.offset() + arg.start;
        let replaces = place.replaces && (!is_scratch || bytes == buffer.size());
        Ok((BufferRegion { range: start..start + bytes, replaces, ..place }, dtype))
    }

    pub(super) fn defect(&self, what: String) -> Error {
        Error::BadPlan { kernel: self.kernel, what }
    }
}
