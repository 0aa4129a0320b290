//! The table of formats: what each takes, how good its encoder is, how fast it decodes, and the devices that read it.
//!
//! Everything but the speeds is the same on every machine, and a test holds `docs/formats.md` against it.

use conformance::reference::{cpus, full_gpu, plain_gpu};
use silicide_core::DeviceInfo;
use silicide_core::kernel::{DynOp, Io, TensorInfo};
use silicide_ops::dequantize::Dequantize;
use silicide_ops::gather_rows::GatherRows;
use silicide_ops::linear::Linear;
use silicide_quant::{
    DType, Encoding, EncodingError, Format, FormatError, MlxFormat, MlxPlanes, Shape, encode_into,
};
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

/// Elements decoded to memory: 512 MiB of f32, more than caches hold.
const IN_MEMORY: usize = 128 << 20;
/// Elements decoded in L2.
const IN_CACHE: usize = 64 << 10;

const HEAD: &str = "\
# Formats

<!-- Generated: `cargo run --release -p bench -- formats --write docs/formats.md`. -->

Weights are stored in blocks (GGML) or in planes of codes, scales and biases (MLX). Bits are per weight, scales
included. The error is the root mean square error of our encoder on 65,536 normal values of variance 1
(`testdata/formats/gaussian.f32.bin`); decoders are exact, to the bit on the CPU and within one unit in the last place of
f32 on Vulkan. Speeds are GB of f32 written per second by one core: into memory (512 MiB at a time) and within L2
(256 KiB). A speed is of the machine that added the row, and drifts from run to run; the other columns are the same everywhere. `formats --again` measures all rows. \"Read by\"
names the devices on which every op that takes weights (dequantize, rows by index, products) takes the format.

";

const COLUMNS: &str = "\
| format | bits | block | error | to memory, GB/s | in cache, GB/s | read by |
|---|---|---|---|---|---|---|
";

/// Either kind of format.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Block(Format),
    Mlx(MlxFormat),
}

/// Stored values: one plane, or three.
struct Stored {
    kind: Kind,
    planes: [Vec<u8>; 3],
}

impl Kind {
    fn all() -> Vec<Kind> {
        Format::ALL.into_iter().map(Kind::Block).chain(MlxFormat::all().into_iter().map(Kind::Mlx)).collect()
    }

    fn name(self) -> String {
        match self {
            Kind::Block(format) => format.name().to_owned(),
            Kind::Mlx(format) if format.has_biases() => {
                format!(
                    "mlx {}-bit, {} scales, groups of {}",
                    format.bits(),
                    format.scale_dtype(),
                    format.group()
                )
            }
            Kind::Mlx(format) => format!("mlx {}", format.mode()),
        }
    }

    fn block(self) -> usize {
        match self {
            Kind::Block(format) => format.block_len(),
            Kind::Mlx(format) => format.group(),
        }
    }

    fn bits(self) -> f64 {
        match self {
            Kind::Block(format) => format.bits_per_element(),
            Kind::Mlx(format) => format.bits_per_element(),
        }
    }

    fn encode(self, values: &[f32]) -> Result<Stored, FormatError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let planes = match self {
            Kind::Block(format) => {
                let mut blocks = vec![0; format.bytes_of(values.len())?];
                encode_into(format.into(), values, &mut blocks, threads)?;
                [blocks, Vec::new(), Vec::new()]
            }
            Kind::Mlx(format) => {
                let bytes = format.plane_bytes(values.len())?;
                let mut planes = [bytes.packed, bytes.scales, bytes.biases].map(|bytes| vec![0; bytes]);
                let [packed, scales, biases] = &mut planes;
                format.encode(values, MlxPlanes { packed: &mut packed[..], scales, biases }, threads)?;
                planes
            }
        };
        Ok(Stored { kind: self, planes })
    }

    /// Devices on which every op that takes weights takes these.
    fn readers(self) -> String {
        let mut readers = Vec::new();
        let all = |devices: &[DeviceInfo]| devices.iter().all(|on| self.is_read_by(on));
        if all(&cpus()) {
            readers.push("cpu");
        }
        if all(&[plain_gpu(), full_gpu()]) {
            readers.push("vulkan");
        }
        readers.join(", ")
    }

    fn is_read_by(self, on: &DeviceInfo) -> bool {
        let (k, to) = (2 * self.block(), DType::F32);
        let encoding = match self {
            Kind::Block(format) => Encoding::Block(format),
            Kind::Mlx(format) => Encoding::Planes(format),
        };
        let info = |dtype: DType, axes: &[usize]| Shape::new(axes).map(|shape| TensorInfo::new(dtype, shape));
        let (Ok(activations), Ok(indices)) = (info(to, &[3, k]), info(DType::I32, &[5])) else {
            return false;
        };
        let plane = |i: usize| {
            let plane = encoding.plane(i, &Shape::new(&[3, k])?)?;
            Ok::<_, EncodingError>(TensorInfo::new(plane.dtype, plane.shape))
        };
        let Ok(weight) = (0..encoding.planes()).map(plane).collect::<Result<Vec<_>, _>>() else {
            return false;
        };
        let fits = |op: &dyn DynOp, inputs: &[TensorInfo]| {
            let Ok(outputs) = op.infer(inputs) else { return false };
            let io = Io { inputs, outputs: &outputs };
            (0..op.kernel_count()).any(|kernel| op.kernel_fits(kernel, &io, on).is_ok())
        };
        fits(&Dequantize { encoding, to }, &weight)
            && fits(&GatherRows { encoding, to }, &[&weight[..], &[indices]].concat())
            && fits(&Linear::from(encoding), &[&[activations], &weight[..]].concat())
    }
}

impl Stored {
    fn decode(&self, out: &mut [f32]) -> Result<(), FormatError> {
        let [first, scales, biases] = &self.planes;
        match self.kind {
            Kind::Block(format) => format.decode(first, out),
            Kind::Mlx(format) => format.decode(MlxPlanes { packed: &first[..], scales, biases }, out),
        }
    }

    /// Returns the same values, repeated `times` times.
    fn repeated(&self, times: usize) -> Stored {
        Stored { kind: self.kind, planes: self.planes.each_ref().map(|plane| plane.repeat(times)) }
    }

    /// GB of f32 per second, the best of a few passes: others on the machine only ever slow it down.
    fn speed(&self, out: &mut [f32], passes: usize) -> Result<f64, FormatError> {
        let mut best = f64::INFINITY;
        for _ in 0..passes {
            let begin = Instant::now();
            self.decode(out)?;
            best = best.min(begin.elapsed().as_secs_f64());
        }
        Ok(size_of_val(out) as f64 / best / 1e9)
    }
}

/// The columns of a format that are the same on every machine: name, bits, block, error; then the devices that read it.
fn facts(kind: Kind, values: &[f32]) -> Result<([String; 4], String), FormatError> {
    let mut decoded = vec![0.0; values.len()];
    kind.encode(values)?.decode(&mut decoded)?;
    let squares: f64 = values.iter().zip(&decoded).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    let error = (squares / values.len() as f64).sqrt();
    let columns =
        [kind.name(), format!("{:.4}", kind.bits()), kind.block().to_string(), format!("{error:.5}")];
    Ok((columns, kind.readers()))
}

fn gaussian() -> std::io::Result<Vec<f32>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/gaussian.f32.bin");
    Ok(std::fs::read(path)?.as_chunks::<4>().0.iter().copied().map(f32::from_le_bytes).collect())
}

/// Returns the columns of each row of a table.
fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    rows.map(|row| row.trim_matches(['|', ' ']).split(" | ").collect())
}

/// Measures formats and writes the table, to a file or standard output. Formats that the file has keep their speeds, unless `again`.
pub(crate) fn run(to: Option<&Path>, again: bool) -> anyhow::Result<()> {
    let values = gaussian()?;
    let old = match to.filter(|_| !again).map(std::fs::read_to_string) {
        Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        old => old.and_then(Result::ok).unwrap_or_default(),
    };
    let mut out = vec![0.0f32; IN_MEMORY];
    let mut text = HEAD.to_owned() + COLUMNS;
    for kind in Kind::all() {
        let ([name, bits, block, error], readers) = facts(kind, &values)?;
        let measured = rows(&old).find(|row| row.first() == Some(&&*name));
        let (in_memory, in_cache) = match measured.as_deref() {
            Some([_, _, _, _, in_memory, in_cache, _]) => ((*in_memory).to_owned(), (*in_cache).to_owned()),
            _ => speeds(kind, &values, &mut out)?,
        };
        writeln!(text, "| {name} | {bits} | {block} | {error} | {in_memory} | {in_cache} | {readers} |")?;
    }
    match to {
        Some(path) => std::fs::write(path, text)?,
        None => print!("{text}"),
    }
    Ok(())
}

/// Returns the speeds of decoding into memory and in the cache.
fn speeds(kind: Kind, values: &[f32], out: &mut [f32]) -> Result<(String, String), FormatError> {
    let stored = kind.encode(values.get(..IN_CACHE).unwrap_or(values))?;
    let in_cache = stored.speed(out.get_mut(..IN_CACHE).unwrap_or_default(), 200)?;
    let in_memory = stored.repeated(IN_MEMORY / IN_CACHE).speed(out, 3)?;
    Ok((format!("{in_memory:.1}"), format!("{in_cache:.1}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_fresh() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
        let text = std::fs::read_to_string(path).unwrap();
        let hint =
            "run `cargo run --release -p bench -- formats --write docs/formats.md` and commit the file";
        assert!(text.starts_with(HEAD), "{hint}");
        let rows: Vec<Vec<&str>> = rows(&text).collect();
        let values = gaussian().unwrap();
        assert_eq!(rows.len(), Kind::all().len(), "{hint}");
        for (row, kind) in rows.iter().zip(Kind::all()) {
            let ([name, bits, block, error], readers) = facts(kind, &values).unwrap();
            assert_eq!(row[..4], [name, bits, block, error], "{hint}");
            assert_eq!(row[6], readers, "{hint}");
            assert!(row[4].parse::<f64>().unwrap() > 0.0 && row[5].parse::<f64>().unwrap() > 0.0);
        }
    }
}
