//! Common code of the elementwise and memory ops.
//!
//! | module | what |
//! |---|---|
//! | this one | checking arguments, and which kernels a device runs |
//! | `activation` | silu, gelu, sigmoid, tanh: exact, in CPU lanes and in WGSL |
//! | `gpu` | one invocation for a few elements, launched over windows that fit |

pub(crate) mod activation;
pub(crate) mod gpu;

use silicide_core::kernel::{Cost, Decline, Slot, TensorInfo};
use silicide_core::{Error, Result};
use silicide_hal::DeviceInfo;
use silicide_quant::DType;

/// The inputs of an op, exactly `N` of them, none empty.
pub(crate) fn inputs<const N: usize>(
    op: &'static str,
    slots: &[Slot],
    given: &[TensorInfo],
) -> Result<[TensorInfo; N]> {
    let count = given.len();
    let inputs = <[TensorInfo; N]>::try_from(given).map_err(|_| Error::ArgumentCount {
        op,
        what: "inputs",
        expected: N,
        got: count,
    })?;
    for (slot, input) in slots.iter().zip(&inputs) {
        if input.elements() == 0 {
            let expected = "at least one element".to_owned();
            return Err(Error::Shape { op, slot: slot.name, expected, got: input.shape });
        }
    }
    Ok(inputs)
}

/// Whether kernels compute with this type as f32.
pub(crate) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// Refuses what is not f32, f16 or bf16.
pub(crate) fn check_float(op: &'static str, slot: &'static str, dtype: DType) -> Result<()> {
    if is_float(dtype) {
        Ok(())
    } else {
        let expected = "f32, f16 or bf16".to_owned();
        Err(Error::DTypeMismatch { op, slot, expected, got: dtype })
    }
}

/// Refuses compressed types.
pub(crate) fn check_plain(op: &'static str, slot: &'static str, dtype: DType) -> Result<()> {
    if dtype.is_compressed() {
        Err(Error::DTypeMismatch { op, slot, expected: "no compressed type".to_owned(), got: dtype })
    } else {
        Ok(())
    }
}

/// For a native kernel that takes every call of its op.
pub(crate) fn fits_cpu(on: &DeviceInfo) -> Result<Cost, Decline> {
    if on.is_gpu() { Err(Decline("runs on the CPU only")) } else { Ok(Cost::GOOD) }
}

/// For a WGSL kernel that takes every call of its op.
pub(crate) fn fits_gpu(on: &DeviceInfo) -> Result<Cost, Decline> {
    if on.is_gpu() { Ok(Cost::GOOD) } else { Err(Decline("runs on GPUs only")) }
}
