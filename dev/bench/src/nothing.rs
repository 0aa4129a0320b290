//! An op that does nothing (or spins for a given number of steps), to measure what surrounds kernels.

use silicide_core::Result;
use silicide_core::kernel::{Arg, Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, TensorInfo};
use silicide_hal::cpu::Isa;
use silicide_hal::{
    DeviceInfo, NativeKernel, NativeVariant, Needs, Part, Program, Snippet, Tile, WgslKernel,
};

/// Does nothing to its output, in `tiles` tiles of `steps` steps each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Nothing {
    pub(crate) tiles: u32,
    pub(crate) steps: u32,
}

impl Op for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }
    fn slots(&self) -> &'static [Slot] {
        &[const { Slot::update("y") }]
    }
    fn infer(&self, _inputs: &[TensorInfo]) -> Result<Outputs> {
        Ok(Outputs::new())
    }
    fn check_outputs(&self, _inferred: &[TensorInfo], _given: &[TensorInfo]) -> Result<()> {
        Ok(())
    }
    fn reference(&self, _inputs: &[Host], _outputs: &mut [Host]) {}
    fn kernels() -> &'static [&'static dyn Kernel<Op = Nothing>] {
        &[&OnCpu, &OnGpu]
    }
}

// SAFETY: it touches no binding.
static SPIN: NativeKernel = unsafe {
    NativeKernel::new(
        "nothing.cpu",
        |_| Some(Needs::new().read(0u32, 1)),
        &[NativeVariant { isa: Isa::Portable, entry: spin }],
    )
};

/// # Safety
/// Touches no binding.
unsafe fn spin(tile: &Tile<'_>) {
    let mut x = 1u32;
    for step in 0..tile.param(0) {
        // A dependent chain that the optimiser can't fold.
        x = std::hint::black_box(x.wrapping_mul(3).wrapping_add(step));
    }
}

static NOTHING: Snippet = Snippet {
    name: "nothing",
    text: "struct Params { y_offset: u32, steps: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
override WG: u32 = 1u;
@compute @workgroup_size(WG)
fn main() { if (p.steps == 4294967295u) { y[p.y_offset] = p.steps; } }
",
};

struct OnCpu;
impl Kernel for OnCpu {
    type Op = Nothing;
    fn name(&self) -> &'static str {
        SPIN.name
    }
    fn fits(&self, _: &Nothing, _: &Io<'_>, on: &DeviceInfo) -> std::result::Result<Cost, Decline> {
        if on.is_gpu() { Err(Decline("not for GPUs")) } else { Ok(Cost::BEST) }
    }
    fn plan(&self, op: &Nothing, _: &Io<'_>, _: &DeviceInfo) -> Plan {
        Plan::launch(Program::Native(&SPIN), &[Arg::slot(0)], &[op.steps], [op.tiles, 1, 1])
    }
}

struct OnGpu;
impl Kernel for OnGpu {
    type Op = Nothing;
    fn name(&self) -> &'static str {
        "nothing.wgsl"
    }
    fn fits(&self, _: &Nothing, _: &Io<'_>, on: &DeviceInfo) -> std::result::Result<Cost, Decline> {
        if on.is_gpu() { Ok(Cost::BEST) } else { Err(Decline("only for GPUs")) }
    }
    fn plan(&self, op: &Nothing, _: &Io<'_>, _: &DeviceInfo) -> Plan {
        let program = Program::Wgsl(WgslKernel::new("nothing.wgsl", &[Part::plain(&NOTHING)], 1, 1));
        Plan::launch(program, &[Arg::slot(0)], &[op.steps], [op.tiles, 1, 1])
    }
}
