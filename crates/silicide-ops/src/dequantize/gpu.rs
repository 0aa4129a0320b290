//! `dequantize` on GPUs: an element at a time, through the format's WGSL.

use super::Dequantize;
use crate::elementwise::{fits_gpu, gpu};
use crate::needs::TypedNeeds;
use crate::weight;
use crate::wgsl::{self, params};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Access, DeviceInfo, LaunchShape, Needs, Part, Snippet, WgslKernel};
use silicide_quant::DType;

/// Parameters, with an offset for each plane of the weight.
static PARAMS: [Snippet; 3] = [
    Snippet { name: "dequantize params", text: params!(["b" "y"] ["count"]) },
    Snippet { name: "dequantize params, scales", text: params!(["b" "b_scales" "y"] ["count"]) },
    Snippet { name: "dequantize params, biases", text: params!(["b" "b_scales" "b_biases" "y"] ["count"]) },
];

/// Any encoding that GPUs read.
pub(super) struct GpuDequantize;

impl Kernel for GpuDequantize {
    type Op = Dequantize;

    fn name(&self) -> &'static str {
        "dequantize.elements.wgsl"
    }

    fn fits(&self, op: &Dequantize, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        weight::gpu::check(op.encoding)?;
        if wgsl::store(op.to, &on.features).is_none() {
            return Err(Decline("has no WGSL for this type"));
        }
        fits_gpu(on)
    }

    fn plan(&self, op: &Dequantize, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let Some(kernel) = kernel(op, on) else { return plan };
        // Windows of whole groups: values of f32 take no fewer bytes than any plane, so they decide.
        let (group, planes) = (op.encoding.group_len(), op.encoding.planes());
        let room = weight::gpu::room(op.encoding, group).max(group * DType::F32.size());
        for run in wgsl::spans(io.output(0).elements() / group, room, on) {
            let (count, bytes) = (run.len() * group, group * op.to.size());
            let mut args = weight::gpu::windows(op.encoding, group, run.clone(), 0);
            args.push(Arg::slot(planes as u8).window(run.start * bytes, run.len() * bytes));
            let args = weight::gpu::bind(&args, op.encoding);
            gpu::push(&mut plan, &kernel, &args, &[count as u32], on);
        }
        plan
    }
}

fn kernel(op: &Dequantize, on: &DeviceInfo) -> Option<WgslKernel> {
    let planes = op.encoding.planes() as u32;
    let mut parts = weight::gpu::parts(op.encoding, 0)?;
    parts.extend([
        Part::bound(wgsl::store(op.to, &on.features)?, "y", planes),
        Part::plain(PARAMS.get(planes as usize - 1)?),
        gpu::convert_from("b"),
    ]);
    parts.extend(gpu::entry());
    let kernel = WgslKernel::new("dequantize.elements.wgsl", &parts, planes + 1, 1);
    let kernel = gpu::sized(weight::gpu::finish(kernel, op.encoding), on);
    // SAFETY: `element(i)`, called for `i` below the count, reads the group of element `i` and writes element `i` of y.
    Some(unsafe { kernel.unchecked(needs, &[weight::code(op.encoding)?, op.to.code()]) })
}

/// Facts: codes of the encoding and of the type of y.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (encoding, to) = (weight::from_code(launch.fact(0))?, DType::from_code(launch.fact(1))?);
    let count = launch.count(0);
    let needs =
        weight::gpu::read_planes(Needs::new(), encoding, count)?.elements(Access::Write, to, count)?;
    Some(weight::gpu::read_table(needs, encoding))
}
