//! `gather_rows` on GPUs. A table larger than a binding is walked in windows, each launch moving the rows it sees.

use super::{GatherRows, row_elements};
use crate::elementwise::gpu;
use crate::needs::{TypedNeeds, dtype};
use crate::wgsl::{self, params, row_spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Access, DeviceInfo, LaunchShape, Needs, Part, Snippet, WgslKernel};
use silicide_quant::DType;

/// `element(i)` of kernels that define `transfer(i, at)` and `blank(i)`.
pub(crate) static BODY: Snippet = Snippet { name: "gather_rows", text: include_str!("gather_rows.wgsl") };
static PARAMS: Snippet = Snippet {
    name: "gather_rows params",
    text: params!(["table" "indices" "y"] ["count" "row" "first" "rows" "limit" "blank_low" "blank_high"]),
};
static BITS: Snippet = Snippet {
    name: "gather_rows bits",
    text: "fn transfer(i: u32, at: u32) { put_y(i, get_table(at)); }\n\
           fn blank(i: u32) { put_y(i, p.blank_low); }",
};
static WIDE: Snippet = Snippet {
    name: "gather_rows wide",
    text: "fn transfer(i: u32, at: u32) { put_y(i, get_table(at)); }\n\
           fn blank(i: u32) { put_y(i, vec2<u32>(p.blank_low, p.blank_high)); }",
};
/// `transfer` and `blank` from the argument `$NAME` to a float type.
pub(crate) static CONVERT: Snippet = Snippet {
    name: "gather_rows convert",
    text: "fn transfer(i: u32, at: u32) { store_y(i, load_$NAME(at)); }\n\
           fn blank(i: u32) { put_y(i, p.blank_low); }",
};

/// An invocation for a few elements.
pub(super) struct Rows;

impl Kernel for Rows {
    type Op = GatherRows;

    fn name(&self) -> &'static str {
        "gather_rows.rows.wgsl"
    }

    fn fits(&self, _op: &GatherRows, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if !on.is_gpu() {
            return Err(Decline("runs on GPUs only"));
        }
        let row = row_elements(&io.input(0).shape).max(1);
        let (table, y) = (room(row, io.input(0).dtype), room(row, io.output(0).dtype));
        match (row_spans(1, table, 1, on), row_spans(1, y, 1, on)) {
            (Some(_), Some(_)) => Ok(Cost::GOOD),
            _ => Err(Decline("a row is larger than a binding")),
        }
    }

    fn plan(&self, op: &GatherRows, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let (table, indices, y) = (io.input(0), io.input(1), io.output(0));
        let row = row_elements(&table.shape).max(1);
        let rows = table.elements() / row;
        let kernel = kernel(table.dtype, op.to, on);
        // Neither a negative index nor a row past what an index can name is below the limit.
        let limit = rows.min(if indices.dtype == DType::I32 { 1 << 31 } else { u32::MAX as usize });
        let [low, high] = op.blank();
        let mut plan = Plan::default();
        let bytes = |dtype: DType| row / dtype.block_len() * dtype.block_bytes();
        for out in row_spans(indices.elements(), room(row, y.dtype), 1, on).into_iter().flatten() {
            for seen in row_spans(rows, room(row, table.dtype), 1, on).into_iter().flatten() {
                let args = [
                    Arg::slot(0).window(seen.start * bytes(table.dtype), seen.len() * bytes(table.dtype)),
                    Arg::slot(1).window(out.start * 4, out.len() * 4),
                    Arg::slot(2).window(out.start * bytes(y.dtype), out.len() * bytes(y.dtype)),
                ];
                let count = out.len() * row;
                let [first, seen, limit] = [seen.start, seen.len(), limit].map(|rows| rows as u32);
                let params = [count as u32, row as u32, first, seen, limit, low, high];
                gpu::push(&mut plan, &kernel, &wgsl::bind(&args, table.dtype), (count, &params), on);
            }
        }
        plan
    }
}

/// Bytes that a row takes of a window: no less than its elements, which are counted in 32 bits, or its index.
fn room(row: usize, dtype: DType) -> usize {
    (row / dtype.block_len() * dtype.block_bytes()).max(row).max(4)
}

fn kernel(from: DType, to: DType, on: &DeviceInfo) -> WgslKernel {
    let bits = (wgsl::load_bits(from), wgsl::store_bits(to, &on.features));
    let ((load, store), body) = match (wgsl::load(from), wgsl::store(to, &on.features)) {
        (Some(load), Some(store)) if from != to => ((load, store), &CONVERT),
        _ if to.size() == 8 => (bits, &WIDE),
        _ => (bits, &BITS),
    };
    let [linear, main] = gpu::entry();
    let parts = [
        Part::plain(&PARAMS),
        Part::plain(&BODY),
        Part::bound(load, "table", 0),
        Part::bound(wgsl::load_bits(DType::U32), "indices", 1),
        Part::bound(store, "y", 2),
        Part::bound(body, "table", 0),
        linear,
        main,
    ];
    let kernel = wgsl::with_table(WgslKernel::new("gather_rows.rows.wgsl", &parts, 3, 7), from, "table");
    // SAFETY: `element(i)`, called for `i` below the count, writes element `i` of y and reads index `i / row`, which is
    // checked against the rows that the launch sees before the table is read.
    unsafe { gpu::sized(kernel, on).unchecked(needs, &[from.code(), to.code()]) }
}

/// Facts: codes of the types of table and y.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (from, to) = (dtype(launch.fact(0))?, dtype(launch.fact(1))?);
    let [count, row, _, rows] = [0, 1, 2, 3].map(|i| launch.count(i));
    let needs = Needs::new().elements(Access::Read, from, rows * row)?.read(count.div_ceil(row)? * 4u32, 4);
    Some(needs.elements(Access::Write, to, count)?.table(from))
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
        let op = GatherRows { to: DType::F32 };
        let table = TensorInfo::new(DType::F16, Shape::new(&[50, 100]).unwrap());
        let indices = TensorInfo::new(DType::I32, Shape::new(&[20]).unwrap());
        let outputs = op.infer(&[table, indices]).unwrap();
        let io = Io { inputs: &[table, indices], outputs: &outputs };
        assert!(Rows.fits(&op, &io, &on).is_ok());
        let plan = Rows.plan(&op, &io, &on);
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
        let io = Io { inputs: &[wide, indices], outputs: &outputs };
        assert!(Rows.fits(&op, &io, &on).is_err());
    }
}
