//! `gather_rows` on GPUs. A table larger than a binding is walked in windows, each launch moving the rows it sees.

use super::{GatherRows, row_elements};
use crate::elementwise::gpu;
use crate::needs::TypedNeeds;
use crate::weight;
use crate::wgsl::{self, params, row_spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Access, DeviceInfo, LaunchShape, Needs, Part, Snippet, WgslKernel};
use silicide_quant::{DType, Encoding};

/// `element(i)` of kernels that define `transfer(i, at)` and `blank(i)`.
static BODY: Snippet = Snippet { name: "gather_rows", text: include_str!("gather_rows.wgsl") };

/// Parameters, with an offset for each plane of the table.
macro_rules! planes {
    ($name:literal, $($plane:literal)*) => {
        Snippet {
            name: $name,
            text: params!(
                [$($plane)* "indices" "y"]
                ["count" "row" "first" "rows" "limit" "blank_low" "blank_high"]
            ),
        }
    };
}

static PARAMS: [Snippet; 3] = [
    planes!("gather_rows params", "b"),
    planes!("gather_rows params, scales", "b" "b_scales"),
    planes!("gather_rows params, biases", "b" "b_scales" "b_biases"),
];
static BITS: Snippet = Snippet {
    name: "gather_rows bits",
    text: "fn transfer(i: u32, at: u32) { put_y(i, get_b(at)); }\n\
           fn blank(i: u32) { put_y(i, p.blank_low); }",
};
static WIDE: Snippet = Snippet {
    name: "gather_rows wide",
    text: "fn transfer(i: u32, at: u32) { put_y(i, get_b(at)); }\n\
           fn blank(i: u32) { put_y(i, vec2<u32>(p.blank_low, p.blank_high)); }",
};
/// `transfer` and `blank` to a float type.
static CONVERT: Snippet = Snippet {
    name: "gather_rows convert",
    text: "fn transfer(i: u32, at: u32) { store_y(i, load_b(at)); }\n\
           fn blank(i: u32) { put_y(i, p.blank_low); }",
};

/// An invocation for a few elements.
pub(super) struct GpuGatherRows;

impl Kernel for GpuGatherRows {
    type Op = GatherRows;

    fn name(&self) -> &'static str {
        "gather_rows.rows.wgsl"
    }

    fn fits(&self, op: &GatherRows, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if !on.is_gpu() {
            return Err(Decline("runs on GPUs only"));
        }
        weight::gpu::check(op.encoding)?;
        let row = row_elements(op, io);
        let (table, y) = (weight::gpu::room(op.encoding, row).max(4), room(row, op.to));
        match (row_spans(1, table, 1, on), row_spans(1, y, 1, on)) {
            (Some(_), Some(_)) => Ok(Cost::GOOD),
            _ => Err(Decline("a row is larger than a binding")),
        }
    }

    fn plan(&self, op: &GatherRows, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let planes = op.encoding.planes();
        let (indices, row) = (io.input(planes), row_elements(op, io));
        let rows = io.input(0).shape.axes().first().copied().unwrap_or(0);
        let mut plan = Plan::default();
        let Some(kernel) = kernel(op, on) else { return plan };
        // Neither a negative index nor a row past what an index can name is below the limit.
        let limit = rows.min(if indices.dtype == DType::I32 { 1 << 31 } else { u32::MAX as usize });
        let ([low, high], bytes) = (op.blank(), row * op.to.size());
        let table = weight::gpu::room(op.encoding, row).max(4);
        for out in row_spans(indices.elements(), room(row, op.to), 1, on).into_iter().flatten() {
            for seen in row_spans(rows, table, 1, on).into_iter().flatten() {
                let mut args = weight::gpu::windows(op.encoding, row, seen.clone(), 0);
                args.push(Arg::slot(planes as u8).window(out.start * 4, out.len() * 4));
                args.push(Arg::slot(planes as u8 + 1).window(out.start * bytes, out.len() * bytes));
                let count = out.len() * row;
                let [first, seen, limit] = [seen.start, seen.len(), limit].map(|rows| rows as u32);
                let params = [count as u32, row as u32, first, seen, limit, low, high];
                let args = weight::gpu::bind(&args, op.encoding);
                gpu::push(&mut plan, &kernel, &args, &params, on);
            }
        }
        plan
    }
}

/// Bytes that a row of y takes of a window: no less than its elements, which are counted in 32 bits, or its index.
fn room(row: usize, dtype: DType) -> usize {
    (row * dtype.size()).max(4)
}

fn kernel(op: &GatherRows, on: &DeviceInfo) -> Option<WgslKernel> {
    let (encoding, to) = (op.encoding, op.to);
    let planes = encoding.planes() as u32;
    let (mut parts, store, body) = match (encoding, wgsl::store(to, &on.features)) {
        (Encoding::Element(from), Some(store)) if from != to => {
            (weight::gpu::parts(encoding, 0)?, store, &CONVERT)
        }
        (Encoding::Element(from), _) => {
            let load = std::iter::once(Part::bound(wgsl::load_bits(from), "b", 0)).collect();
            (load, wgsl::store_bits(to, &on.features), if to.size() == 8 { &WIDE } else { &BITS })
        }
        (_, store) => (weight::gpu::parts(encoding, 0)?, store?, &CONVERT),
    };
    parts.extend([
        Part::bound(wgsl::load_bits(DType::U32), "indices", planes),
        Part::bound(store, "y", planes + 1),
        Part::plain(PARAMS.get(planes as usize - 1)?),
        Part::plain(&BODY),
        Part::plain(body),
    ]);
    parts.extend(gpu::entry());
    let kernel = WgslKernel::new("gather_rows.rows.wgsl", &parts, planes + 2, 7);
    let kernel = gpu::sized(weight::gpu::finish(kernel, encoding), on);
    // SAFETY: `element(i)`, called for `i` below the count, writes element `i` of y and reads index `i / row`, which is
    // checked against the rows that the launch sees before the table is read.
    Some(unsafe { kernel.unchecked(needs, &[weight::code(encoding)?, to.code()]) })
}

/// Facts: codes of the encoding of the table and of the type of y.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (encoding, to) = (weight::from_code(launch.fact(0))?, DType::from_code(launch.fact(1))?);
    let [count, row, _, rows] = [0, 1, 2, 3].map(|i| launch.count(i));
    let needs = weight::gpu::read_planes(Needs::new(), encoding, rows * row)?;
    let needs = needs.read(count.div_ceil(row)? * 4u32, 4).elements(Access::Write, to, count)?;
    Some(weight::gpu::read_table(needs, encoding))
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_core::kernel::{Op, Step, TensorInfo};
    use silicide_hal::Backend;
    use silicide_quant::Shape;

    #[test]
    fn large_tables_are_walked_in_windows_that_fit() {
        let mut on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "small");
        on.limits.max_binding = 4096;
        let op = GatherRows { encoding: Encoding::Element(DType::F16), to: DType::F32 };
        let table = TensorInfo::new(DType::F16, Shape::new(&[50, 100]).unwrap());
        let indices = TensorInfo::new(DType::I32, Shape::new(&[20]).unwrap());
        let outputs = op.infer(&[table, indices]).unwrap();
        let io = Io { inputs: &[table, indices], outputs: &outputs };
        assert!(GpuGatherRows.fits(&op, &io, &on).is_ok());
        let plan = GpuGatherRows.plan(&op, &io, &on);
        let mut moved = 0;
        for step in &plan.steps {
            let Step::Dispatch(launch) = step else { panic!("only launches are planned") };
            assert!(launch.args.iter().all(|arg| arg.bytes + 260 <= 4096));
            let (count, seen) = (launch.params[0] as usize / 100, launch.params[3] as usize);
            moved += count * seen;
        }
        // Every output row meets every table row exactly once.
        assert_eq!(moved, 20 * 50);
        let wide = TensorInfo::new(DType::F16, Shape::new(&[2, 1000]).unwrap());
        let outputs = op.infer(&[wide, indices]).unwrap();
        let io = Io { inputs: &[wide, indices], outputs: &outputs };
        assert!(GpuGatherRows.fits(&op, &io, &on).is_err());
    }
}
