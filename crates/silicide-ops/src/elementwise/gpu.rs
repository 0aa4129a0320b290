//! Elementwise kernels on GPUs: the entry point that calls `element(i)`, and its launches.

use crate::wgsl::{self, params};
use silicide_core::kernel::{Arg, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Part, Program, Snippet, WgslKernel};

/// The entry point. The kernel defines `fn element(i: u32)` and a parameter word `p.count`.
static MAIN: Snippet = Snippet { name: "elementwise", text: include_str!("elementwise.wgsl") };

static CONVERT: Snippet = Snippet { name: "convert", text: include_str!("convert.wgsl") };
static CONVERT_PARAMS: Snippet = Snippet { name: "convert params", text: params!(["x" "y"] ["count"]) };

/// Elements per invocation, as in the WGSL.
const PER_LANE: usize = 4;

/// Parameters and `element(i)` of a kernel that stores what it loads: from `x` at binding 0 to `y` at binding 1.
pub(crate) fn convert() -> [Part; 2] {
    [Part::plain(&CONVERT_PARAMS), convert_from("x")]
}

/// `element(i)` of a kernel that stores to `y` what it loads from the argument `name`.
pub(crate) fn convert_from(name: &'static str) -> Part {
    Part::bound(&CONVERT, name, 0)
}

/// The parts that every elementwise kernel ends with.
pub(crate) fn entry() -> [Part; 2] {
    [Part::plain(&wgsl::LINEAR), Part::plain(&MAIN)]
}

/// The kernel with its workgroup size.
pub(crate) fn sized(kernel: WgslKernel, on: &DeviceInfo) -> WgslKernel {
    kernel.constant("WG", wgsl::workgroup(on))
}

/// The needs of a kernel whose `element(i)` reads element `i` of each binding and then writes element `i` of the last;
/// parameter 0 is the count, and facts are the bytes of an element of each binding.
pub(crate) fn each_element(launch: &LaunchShape<'_>) -> Option<Needs> {
    let count = launch.count(0);
    let (&last, inputs) = launch.facts.split_last()?;
    let needs = inputs.iter().fold(Needs::new(), |needs, &size| needs.read(count * size, size as usize));
    let same =
        inputs.iter().zip(0..).filter(|(size, _)| **size == last).fold(0, |same, (_, i)| same | 1u32 << i);
    Some(needs.write(count * last, last as usize).over(same))
}

/// Appends a launch over the windows `args`. `params` are the kernel's words; the first is the number of elements.
pub(crate) fn push(plan: &mut Plan, kernel: &WgslKernel, args: &[Arg], params: &[u32], on: &DeviceInfo) {
    let count = params.first().map_or(0, |&count| count as usize);
    let workgroup = wgsl::workgroup(on);
    let grid = wgsl::grid(count.div_ceil(workgroup as usize * PER_LANE), on);
    plan.push(Program::Wgsl(kernel.clone()), args, params, grid);
}
