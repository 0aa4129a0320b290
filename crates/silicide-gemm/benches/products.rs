//! Products on one thread, by instruction set, format and number of rows: `cargo bench -p silicide-gemm [-- NAME...]`.
//!
//! Weights are 4 MiB or less and stay in L2 or L3, so that this shows the code and not memory; `cargo run --release -p bench -- rows` shows
//! whole ops against the limits of the machine. A figure is the best of many short runs.

use silicide_gemm::f32::{self, DenseGemm, DenseRows, DenseWeights, DenseWorkspace, F32Kernels};
use silicide_gemm::isa::Simd;
use silicide_gemm::q8::{
    self, Blocking, Q8Gemm, Q8Kernels, Q8Weights, Q8Workspace, QuantizedRows, QuantizedRowsMut,
};
use silicide_gemm::{GemmError, Matrix, MatrixMut};
use silicide_quant::{DType, Format, encode, f16};
use std::time::{Duration, Instant};

const N: usize = 1024;
const K: usize = 2048;

type Failure = Box<dyn std::error::Error>;

/// Seconds of the quickest of many runs.
fn quickest(mut run: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    let (start, mut best) = (Instant::now(), f64::INFINITY);
    while start.elapsed() < Duration::from_millis(150) {
        let begin = Instant::now();
        run()?;
        best = best.min(begin.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Returns a column of the output: the speed of a product of `rows` rows.
fn column(
    rows: usize,
    mut compute: impl FnMut(MatrixMut<'_, f32>) -> Result<(), GemmError>,
) -> Result<String, Failure> {
    let mut y = vec![0f32; rows * N];
    let seconds = quickest(|| Ok(compute(MatrixMut::new("y", &mut y, [rows, N], N)?)?))?;
    Ok(format!("  {rows:2} rows {:6.1} GOP/s", 2e-9 * (rows * N * K) as f64 / seconds))
}

/// Activations of `rows` rows.
fn activations(rows: usize) -> Vec<f32> {
    (0..rows * K).map(|i| ((i * 31) % 97) as f32 / 97.0 - 0.5).collect()
}

fn measure<I: Q8Kernels>(isa: Option<I>, format: Format, interleaved: bool) -> Result<(), Failure> {
    let Some(isa) = isa else { return Ok(()) };
    let some: Vec<f64> = (0..16 * K).map(|i| ((i * 53) % 211) as f64 / 211.0 - 0.5).collect();
    let plain: Vec<u8> = encode(DType::Block(format), &some).repeat(N / 16);
    let mut weights = plain.clone();
    if interleaved {
        let rows = plain.len() / N * q8::INTERLEAVE;
        for (from, to) in plain.chunks_exact(rows).zip(weights.chunks_exact_mut(rows)) {
            q8::interleave(isa, format, from, to)?;
        }
    }
    let (groups, mut workspace) = (K / q8::GROUP, Q8Workspace::new());
    let mut line = format!("{:9} {}{:4}", I::NAME, format.name(), if interleaved { "x16" } else { "" });
    for rows in [1, 4, 8, 64] {
        let x = activations(rows);
        let mut quantized = vec![0f32; rows * q8::quantized_row_bytes(groups) / 4];
        let to = bytemuck::cast_slice_mut(&mut quantized);
        q8::quantize(Matrix::new("x", &x, [rows, K], K)?, &mut QuantizedRowsMut::new(to, rows, groups)?)?;
        let rhs = if interleaved {
            Q8Weights::interleaved(format, &weights, [N, K])?
        } else {
            Q8Weights::blocks(format, &weights, [N, K])?
        };
        let lhs = QuantizedRows::new(bytemuck::cast_slice(&quantized), rows, groups)?;
        let blocking = if rows <= 16 { Blocking::FEW_ROWS } else { Blocking::MANY_ROWS };
        let product = Q8Gemm { lhs, rhs, outputs: 0..N, blocking };
        line += &column(rows, |y| product.compute(isa, y, &mut workspace))?;
    }
    println!("{line}");
    Ok(())
}

/// Products with f16 weights, as an example of dense ones.
fn measure_dense<I: F32Kernels>(isa: Option<I>, interleaved: bool) -> Result<(), Failure> {
    let Some(isa) = isa else { return Ok(()) };
    let plain: Vec<f16> = (0..N * K).map(|i| f16::from_f32(((i * 53) % 211) as f32 / 211.0 - 0.5)).collect();
    let mut weights = plain.clone();
    if interleaved {
        let rows = K * q8::INTERLEAVE;
        for (from, to) in plain.chunks_exact(rows).zip(weights.chunks_exact_mut(rows)) {
            f32::interleave(isa, DType::F16, bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to))?;
        }
    }
    let (mut workspace, mut line) = (
        DenseWorkspace::new(),
        format!("{:9} {}{:4}", I::NAME, DType::F16, if interleaved { "x16" } else { "" }),
    );
    for rows in [1, 4, 8, 64] {
        let x = activations(rows);
        let rhs = if interleaved {
            let extents = [N / q8::INTERLEAVE, K * q8::INTERLEAVE];
            DenseWeights::interleaved(
                DenseRows::F16(Matrix::new("rhs", &weights, extents, extents[1])?),
                None,
            )?
        } else {
            DenseRows::F16(Matrix::new("rhs", &weights, [N, K], K)?).into()
        };
        let lhs = Matrix::new("lhs", &x, [rows, K], K)?;
        let product = DenseGemm { lhs, rhs, outputs: 0..N, accumulate: false };
        line += &column(rows, |y| product.compute(isa, y, &mut workspace))?;
    }
    println!("{line}");
    Ok(())
}

fn main() -> Result<(), Failure> {
    // Cargo passes `--bench`.
    let names: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with("--")).collect();
    if names.is_empty() || names.iter().any(|name| name == DType::F16.name()) {
        for interleaved in [false, true] {
            #[cfg(target_arch = "x86_64")]
            {
                measure_dense(silicide_gemm::isa::Avx512::detect(), interleaved)?;
                measure_dense(silicide_gemm::isa::Avx2::detect(), interleaved)?;
            }
            #[cfg(target_arch = "aarch64")]
            measure_dense(silicide_gemm::isa::Neon::detect(), interleaved)?;
            measure_dense(silicide_gemm::isa::Portable::detect(), interleaved)?;
        }
    }
    for format in Format::ALL.into_iter().filter(|format| q8::supports(*format)) {
        if !names.is_empty() && !names.iter().any(|name| name == format.name()) {
            continue;
        }
        let layouts: &[bool] =
            if q8::InterleavedBlock::of(format).is_some() { &[false, true] } else { &[false] };
        for interleaved in layouts {
            #[cfg(target_arch = "x86_64")]
            {
                measure(silicide_gemm::isa::Avx512::detect(), format, *interleaved)?;
                measure(silicide_gemm::isa::AvxVnni::detect(), format, *interleaved)?;
                measure(silicide_gemm::isa::Avx2::detect(), format, *interleaved)?;
            }
            #[cfg(target_arch = "aarch64")]
            measure(silicide_gemm::isa::Neon::detect(), format, *interleaved)?;
            measure(silicide_gemm::isa::Portable::detect(), format, *interleaved)?;
        }
    }
    Ok(())
}
