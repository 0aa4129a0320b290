//! `mlx_dequantize` on GPUs: an element at a time, through the format's WGSL.

use super::MlxDequantize;
use crate::elementwise::{fits_gpu, gpu};
use crate::mlx;
use crate::wgsl::{self, params};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Part, Snippet, WgslKernel};

static WITH_BIASES: Snippet =
    Snippet { name: "mlx_dequantize params", text: params!(["b" "b_scales" "b_biases" "y"] ["count"]) };
static PLAIN: Snippet =
    Snippet { name: "mlx_dequantize params", text: params!(["b" "b_scales" "y"] ["count"]) };

/// Any format.
pub(super) struct Elements;

impl Kernel for Elements {
    type Op = MlxDequantize;

    fn name(&self) -> &'static str {
        "mlx_dequantize.elements.wgsl"
    }

    fn fits(&self, _op: &MlxDequantize, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits_gpu(on)
    }

    fn plan(&self, op: &MlxDequantize, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let (format, mut plan) = (op.format, Plan::default());
        let Some(store) = wgsl::store(op.to, &on.features) else { return plan };
        let planes = mlx::planes(format);
        let params = if format.has_biases() { &WITH_BIASES } else { &PLAIN };
        let mut parts = mlx::gpu::parts(format, 0);
        parts.extend([Part::bound(store, "y", planes as u32), Part::plain(params), gpu::convert_from("b")]);
        parts.extend(gpu::entry());
        let kernel = WgslKernel::new("mlx_dequantize.elements.wgsl", &parts, planes as u32 + 1, 1);
        let kernel = gpu::sized(mlx::gpu::with_constants(kernel, format), on);
        // SAFETY: `element(i)`, called for `i` below the count, reads the group of element `i` and writes element `i` of y.
        let kernel = unsafe { kernel.unchecked(needs, &[mlx::code(format), op.to.size() as u32]) };
        // Windows of whole groups: values take more bytes than any plane, so they decide.
        let group = format.group();
        for groups in wgsl::spans(io.output(0).elements() / group, group * 4, on) {
            let (count, bytes) = (groups.len() * group, group * op.to.size());
            let mut args = mlx::gpu::windows(format, group, groups.clone(), 0);
            args.push(Arg::slot(planes as u8).window(groups.start * bytes, groups.len() * bytes));
            gpu::push(&mut plan, &kernel, &args, (count, &[count as u32]), on);
        }
        plan
    }
}

/// Facts: the code of the format, and bytes of an element of y.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (format, size, count) = (mlx::from_code(launch.fact(0))?, launch.fact(1), launch.count(0));
    Some(mlx::gpu::read_planes(Needs::new(), format, count)?.write(count * size, size as usize))
}
