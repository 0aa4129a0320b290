//! An op of your own: what it computes (`SquarePlus`), and how, on the CPU and on GPUs (`Elements`). Barriers, memory,
//! views, selection and counters come for free, as the op's slots say how its arguments are touched.

use silicide::hal::cpu::Isa;
use silicide::hal::{DeviceInfo, LaunchShape, NativeKernel, NativeVariant, Needs};
use silicide::hal::{Part, Program, Snippet, Tile, WgslKernel};
use silicide::kernel::{Arg, Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, TensorInfo};
use silicide::prelude::*;

/// `y = x² + c`.
#[derive(Debug, PartialEq)]
struct SquarePlus(f32);

impl Op for SquarePlus {
    fn name(&self) -> &'static str {
        "square_plus"
    }
    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::output("y")] }
    }
    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs, Error> {
        Ok(inputs.iter().copied().collect())
    }
    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        outputs[0].values = inputs[0].values.iter().map(|x| x * x + self.0 as f64).collect();
    }
    fn kernels() -> &'static [&'static dyn Kernel<Op = SquarePlus>] {
        &[&Elements]
    }
}

/// Elements that one tile takes: fixed, so that the number of threads changes nothing.
const TILE: usize = 64;

/// `y = x * x + c` for one tile.
///
/// # Safety
/// Parameters, grid and bindings are those of a launch for which `needs` returned needs.
unsafe fn on_cpu(tile: &Tile<'_>) {
    let start = tile.index[0] as usize * TILE;
    let range = start..(start + TILE).min(tile.param(0) as usize);
    // SAFETY: `needs` requires two f32 arrays that hold the range, and no other tile touches it.
    let (x, y) = unsafe { (tile.read_part::<f32>(0, range.clone()), tile.write::<f32>(1, range)) };
    y.iter_mut().zip(x).for_each(|(y, x)| *y = x * x + tile.param_f32(1));
}
/// Returns the bytes that a launch needs of its bindings. A plan that binds less is refused when it is recorded.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (n, bytes) = (launch.count(0), launch.count(0) * size_of::<f32>());
    let covers = Some(launch.line()?) == n.div_ceil(TILE);
    covers.then(|| Needs::new().read(bytes, 4).write(bytes, 4))
}
// SAFETY: tile `i` touches elements `i * TILE..` of x and y, up to `param(0)`: what `needs` states, and no other tile's.
static CPU: NativeKernel = unsafe {
    NativeKernel::new("square_plus", needs, &[NativeVariant { isa: Isa::Portable, entry: on_cpu }])
};

// WGSL is translated with bounds checks, so it needs no promise.
const ON_GPU: &str = "
struct Params { x_offset: u32, y_offset: u32, n: u32, c: f32 }   // one offset per binding, then our own words
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < p.n) { let v = x[p.x_offset + id.x]; y[p.y_offset + id.x] = v * v + p.c; }
}";
static GPU: Snippet = Snippet { name: "square_plus", text: ON_GPU };

struct Elements;
impl Kernel for Elements {
    type Op = SquarePlus;
    fn name(&self) -> &'static str {
        "square_plus.elements"
    }
    fn fits(&self, _: &SquarePlus, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        // Counts are passed as u32, and grids have limits.
        let most = (on.limits.max_grid[0] as usize * TILE).min(u32::MAX as usize);
        let takes = io.input(0).dtype == DType::F32 && io.input(0).elements() <= most;
        if takes { Ok(Cost::GOOD) } else { Err(Decline("f32 only, and not too long")) }
    }
    fn plan(&self, op: &SquarePlus, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let wgsl = || WgslKernel::new("square_plus", &[Part::plain(&GPU)], 2, 2);
        let program = if on.is_gpu() { Program::Wgsl(wgsl()) } else { Program::Native(&CPU) };
        let (n, args) = (io.input(0).elements(), [Arg::slot(0), Arg::slot(1)]);
        Plan::launch(program, &args, &[n as u32, op.0.to_bits()], [n.div_ceil(TILE) as u32, 1, 1])
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Error> {
    let device = Device::open(&std::env::args().nth(1).unwrap_or("best".into()))?;
    let x = Buffer::from_slice(&device, [5], &[1.0f32, 2.0, 3.0, 4.0, 5.0])?;
    let mut encoder = CommandEncoder::new(&device);
    let y = encoder.run_one(SquarePlus(0.5), &[&x])?;
    encoder.submit()?.wait()?;
    println!("{:?} by {}", &*y.read::<f32>()?, device.counters().kernels[0].kernel);
    Ok(())
}
