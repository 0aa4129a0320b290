//! Recurrent layers: state-space convolution, gated delta net token by token and in chunks, triangular systems.

mod chunk;
mod chunk_rule;
mod conv;
mod recurrent;

pub use chunk::{
    chunk_gated_delta_rule_tri_solve_invert, gated_delta_net_chunk, gated_delta_net_chunk_o,
    gated_delta_net_kkt, gated_delta_net_recompute_wu,
};
pub use chunk_rule::{chunk_gated_delta_rule, chunk_gated_delta_rule_bank_split};
pub use conv::{compute_g_beta, ssm_conv, ssm_norm_gate, tri_solve};
pub use recurrent::{gated_delta_net, gated_delta_net_decode};

use crate::error::{Result, refuse};
use crate::{DType, MlxBuffer, MlxDevice};

/// Refuses buffers of another type or number of elements.
fn sized(what: &str, expected: &[(&str, &MlxBuffer, DType, usize)]) -> Result<()> {
    for &(name, buffer, dtype, elements) in expected {
        if buffer.dtype() != dtype {
            refuse!("{what}: {name} must be {dtype}, got {}", buffer.dtype());
        }
        if buffer.element_count() != elements {
            refuse!("{what}: {name} element count {} != expected {elements}", buffer.element_count());
        }
    }
    Ok(())
}

/// Allocates a buffer of parameter words.
fn words(device: &MlxDevice, values: &[u32]) -> Result<MlxBuffer> {
    let mut buffer = device.alloc_buffer(values.len() * 4, DType::U32, vec![values.len()])?;
    buffer.as_mut_slice::<u32>()?.copy_from_slice(values);
    Ok(buffer)
}
