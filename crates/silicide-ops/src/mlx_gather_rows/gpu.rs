//! `mlx_gather_rows` on GPUs. A table larger than a binding is walked in windows, each launch moving the rows it sees.

use super::MlxGatherRows;
use crate::elementwise::gpu;
use crate::gather_rows::gpu as gather_rows;
use crate::mlx;
use crate::wgsl::{self, params, row_spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Part, Snippet, WgslKernel};
use silicide_quant::DType;

/// Parameters of formats with biases and of formats without.
macro_rules! planes {
    ($($plane:literal)*) => {
        Snippet {
            name: "mlx_gather_rows params",
            text: params!([$($plane)* "indices" "y"] ["count" "row" "first" "rows" "limit" "blank_low"]),
        }
    };
}

static WITH_BIASES: Snippet = planes!("b" "b_scales" "b_biases");
static PLAIN: Snippet = planes!("b" "b_scales");

/// An invocation for a few elements.
pub(super) struct Rows;

impl Kernel for Rows {
    type Op = MlxGatherRows;

    fn name(&self) -> &'static str {
        "mlx_gather_rows.rows.wgsl"
    }

    fn fits(&self, _op: &MlxGatherRows, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if !on.is_gpu() {
            return Err(Decline("runs on GPUs only"));
        }
        match row_spans(1, io.output(0).shape.last(), 4, on) {
            Some(_) => Ok(Cost::GOOD),
            None => Err(Decline("a row is larger than a binding")),
        }
    }

    fn plan(&self, op: &MlxGatherRows, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let (format, planes) = (op.format, mlx::planes(op.format));
        let (indices, y) = (io.input(planes), io.output(0));
        let (row, rows) = (y.shape.last(), io.input(0).shape.rows());
        let mut plan = Plan::default();
        let Some(kernel) = kernel(op, on) else { return plan };
        // Neither a negative index nor a row past what an index can name is below the limit.
        let limit = rows.min(if indices.dtype == DType::I32 { 1 << 31 } else { u32::MAX as usize });
        for out in row_spans(indices.elements(), row, 4, on).into_iter().flatten() {
            for seen in row_spans(rows, mlx::gpu::room(format, row), 1, on).into_iter().flatten() {
                let mut args = mlx::gpu::windows(format, row, seen.clone(), 0);
                let bytes = row * op.to.size();
                args.push(Arg::slot(planes as u8).window(out.start * 4, out.len() * 4));
                args.push(Arg::slot(planes as u8 + 1).window(out.start * bytes, out.len() * bytes));
                let count = out.len() * row;
                let [first, seen, limit] = [seen.start, seen.len(), limit].map(|rows| rows as u32);
                let params = [count as u32, row as u32, first, seen, limit, op.blank()];
                gpu::push(&mut plan, &kernel, &args, (count, &params), on);
            }
        }
        plan
    }
}

fn kernel(op: &MlxGatherRows, on: &DeviceInfo) -> Option<WgslKernel> {
    let planes = mlx::planes(op.format) as u32;
    let params = if op.format.has_biases() { &WITH_BIASES } else { &PLAIN };
    let mut parts = mlx::gpu::parts(op.format, 0);
    parts.extend([
        Part::bound(wgsl::load_bits(DType::U32), "indices", planes),
        Part::bound(wgsl::store(op.to, &on.features)?, "y", planes + 1),
        Part::plain(params),
        Part::plain(&gather_rows::BODY),
        Part::bound(&gather_rows::CONVERT, "b", 0),
    ]);
    parts.extend(gpu::entry());
    let kernel = WgslKernel::new("mlx_gather_rows.rows.wgsl", &parts, planes + 2, 6);
    let kernel = gpu::sized(mlx::gpu::with_constants(kernel, op.format), on);
    // SAFETY: `element(i)`, called for `i` below the count, writes element `i` of y and reads index `i / row`, which is
    // checked against the rows that the launch sees before the planes are read.
    Some(unsafe { kernel.unchecked(needs, &[mlx::code(op.format), op.to.size() as u32]) })
}

/// Facts: the code of the format, and bytes of an element of y.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (format, size) = (mlx::from_code(launch.fact(0))?, launch.fact(1));
    let [count, row, _, rows] = [0, 1, 2, 3].map(|i| launch.count(i));
    let needs = mlx::gpu::read_planes(Needs::new(), format, rows * row)?;
    Some(needs.read(count.div_ceil(row)? * 4u32, 4).write(count * size, size as usize))
}
