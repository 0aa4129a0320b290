//! The support table: which kernels there are for each op and element types, made by asking every kernel about
//! every case on imagined devices. It is therefore the same on every machine.

use crate::reference::{cpus, full_gpu, plain_gpu};
use crate::{Call, Effort, layouts};
use silicide_core::DeviceInfo;
use silicide_ops::Case;
use silicide_quant::Format;

const HEAD: &str = "\
# What runs where

<!-- Generated: `cargo run -p conformance -- --support docs/SUPPORT.md` writes it from the cases of the ops. -->

Each row is an op with the element types of its inputs and outputs; each kernel named here is run by
`cargo run -p conformance` on every device of the machine. A kernel with an instruction set after its name needs
that one or a better one; a kernel with a star needs optional features of the GPU, and those in matrices
(`matrix`) are run by `--device msl` where no GPU has them. Where only some of the cases of a row have a kernel, the
row says how many. `block` stands for every block format of [formats.md](formats.md) except those after `not`. All
`block`s of a row are one format.

| op | types | cpu | vulkan |
|---|---|---|---|
";

/// The kernels of one cell, and how many of the cases they cover.
#[derive(Default)]
struct Cell {
    /// Names, and what they need.
    kernels: Vec<(&'static str, String)>,
    covered: usize,
}

/// One op and its types.
struct Row {
    op: &'static str,
    types: String,
    cases: usize,
    cpu: Cell,
    gpu: Cell,
}

/// The table as Markdown, or what is wrong with a case.
pub fn table(ops: &[(&'static str, Vec<Case>)]) -> Result<String, String> {
    let cpus: Vec<(DeviceInfo, String)> =
        cpus().into_iter().map(|info| (info.clone(), suffix(&info))).collect();
    let gpus = [(plain_gpu(), String::new()), (full_gpu(), "*".to_owned())];
    let mut rows: Vec<Row> = Vec::new();
    for (op, cases) in ops {
        for case in cases {
            let call = Call::of(case).map_err(|what| format!("{op}, case {:?}: {what}", case.label))?;
            let types = call.types();
            let index = rows.iter().position(|row| row.op == *op && row.types == types);
            let index = index.unwrap_or_else(|| {
                rows.push(Row { op, types, cases: 0, cpu: Cell::default(), gpu: Cell::default() });
                rows.len() - 1
            });
            if let Some(row) = rows.get_mut(index) {
                row.cases += 1;
                row.cpu.ask(&call, &cpus);
                row.gpu.ask(&call, &gpus);
            }
        }
    }
    let lines: Vec<Line> = rows.iter().map(Line::new).collect();
    let mut text = HEAD.to_owned();
    text.extend(lines.iter().enumerate().filter_map(|(i, line)| line.joined(lines.split_at(i).0, &lines)));
    Ok(text)
}

/// A row as text.
struct Line {
    op: &'static str,
    /// Element types, with `block` in place of the block format.
    types: String,
    kernels: String,
    /// The block format of the row, if it has exactly one.
    format: Option<Format>,
}

impl Line {
    fn new(row: &Row) -> Line {
        let kernels = format!("{} | {}", row.cpu.text(row.cases), row.gpu.text(row.cases));
        let words = || row.types.split(' ').map(|word| (word, word.trim_end_matches(',')));
        let mut formats = words().filter_map(|(_, name)| Format::from_name(name));
        let format = formats.next().filter(|first| formats.all(|format| format == *first));
        let block = |(word, name): (&str, &str)| match format {
            Some(format) if format.name() == name => word.replace(name, "block"),
            _ => word.to_owned(),
        };
        Line { op: row.op, types: words().map(block).collect::<Vec<_>>().join(" "), kernels, format }
    }

    /// Whether another line differs in its format only.
    fn is_like(&self, other: &Line) -> bool {
        (self.op, &self.types, &self.kernels) == (other.op, &other.types, &other.kernels)
    }

    /// Returns the line of the table. Formats with equal kernels share a line if they are at least half of all formats. Returns
    /// `None` if an earlier line includes this format.
    fn joined(&self, before: &[Line], all: &[Line]) -> Option<String> {
        let Line { op, types, kernels, format } = self;
        let missing =
            |other: &Format| !all.iter().any(|line| line.is_like(self) && line.format == Some(*other));
        let missing: Vec<&str> = Format::ALL.into_iter().filter(missing).map(Format::name).collect();
        let types = match format {
            Some(format) if 2 * missing.len() > Format::ALL.len() => types.replace("block", format.name()),
            Some(_) if before.iter().any(|line| line.is_like(self)) => return None,
            Some(_) if !missing.is_empty() => format!("{types}<br>not {}", missing.join(", ")),
            _ => types.clone(),
        };
        Some(format!("| {op} | {types} | {kernels} |\n"))
    }
}

/// Returns the suffix of a kernel's name for the device's instruction set.
fn suffix(info: &DeviceInfo) -> String {
    let isa = info.isa.filter(|isa| *isa != silicide_core::Isa::Portable);
    isa.map_or_else(String::new, |isa| format!(" ({isa})"))
}

impl Cell {
    /// Asks every kernel about a call, on devices that are weakest first.
    fn ask(&mut self, call: &Call, devices: &[(DeviceInfo, String)]) {
        let mut covered = false;
        for (info, suffix) in devices {
            for layout in layouts(call, Effort::Full) {
                let call = layout.place(call);
                for i in
                    (0..call.op.kernel_count()).filter(|&i| call.op.kernel_fits(i, &call.io(), info).is_ok())
                {
                    covered |= layout.label == "aligned";
                    self.add(call.op.kernel_name(i), suffix);
                }
            }
        }
        self.covered += usize::from(covered);
    }

    fn add(&mut self, kernel: &'static str, needs: &str) {
        if !self.kernels.iter().any(|(known, _)| *known == kernel) {
            self.kernels.push((kernel, needs.to_owned()));
        }
    }

    fn text(&self, cases: usize) -> String {
        let names = self.kernels.iter().map(|(kernel, needs)| format!("`{kernel}`{needs}"));
        let kernels = names.collect::<Vec<_>>().join("<br>");
        match self.covered {
            0 => "none".to_owned(),
            covered if covered == cases => kernels,
            covered => format!("{kernels}<br>{covered} of {cases} cases"),
        }
    }
}
