//! Activations and products with them, element by element.

/// The GELU in its tanh form.
pub mod gelu {
    use super::super::elementwise::unary;
    use super::super::support::{float, register};
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};
    use silicide::ops::unary::{Activation, Unary};

    register!();

    /// Encodes the GELU of each element of f32, f16 or bf16.
    pub fn dispatch_gelu(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        output: &MlxBuffer,
    ) -> Result<()> {
        float("gelu", "input", input)?;
        let n = input.element_count();
        if n == 0 || output.element_count() != n || output.dtype() != input.dtype() {
            refuse!("gelu: input and output must have the same type and element count, at least one");
        }
        let kernel = format!("gelu_{}", input.dtype());
        unary(encoder, &kernel, Unary::Activate(Activation::GeluTanh), [input, output], &[n])
    }
}

/// Soft limits of logits.
pub mod softcap {
    use super::super::elementwise::unary;
    use super::super::support::{float, register};
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};
    use silicide::ops::unary::Unary;

    register!();

    /// Encodes `cap * tanh(input / cap)` of each element.
    pub fn dispatch_softcap(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        output: &MlxBuffer,
        _params_buf: &MlxBuffer,
        cap: f32,
    ) -> Result<()> {
        float("softcap", "input", input)?;
        let n = input.element_count();
        if n == 0 || output.element_count() != n || output.dtype() != input.dtype() {
            refuse!("softcap: input and output must have the same type and element count, at least one");
        }
        if !(cap.is_finite() && cap > 0.0) {
            refuse!("softcap: cap must be finite and greater than zero, got {cap}");
        }
        unary(encoder, "softcap_f32", Unary::Softcap { cap }, [input, output], &[n])
    }
}

/// Square roots.
pub mod sqrt_elementwise {
    use super::super::elementwise::unary;
    use super::super::support::{register, typed};
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};
    use silicide::ops::unary::Unary;

    register!();

    /// Encodes the square root of each f32.
    pub fn dispatch_sqrt_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        output: &MlxBuffer,
        _params: &MlxBuffer,
    ) -> Result<()> {
        typed("sqrt_f32", "input", input, DType::F32)?;
        typed("sqrt_f32", "output", output, DType::F32)?;
        let n = input.element_count();
        if n == 0 || output.element_count() != n {
            refuse!("sqrt_f32: input and output must have the same element count, at least one");
        }
        unary(encoder, "sqrt_f32", Unary::Sqrt, [input, output], &[n])
    }
}

use super::support::{float, positive};
use crate::encoder::Dispatch;
use crate::error::{Result, refuse};
use crate::{CommandEncoder, MlxBuffer};
use silicide::Recorder;
use silicide::ops::glu::{Activation, Glu};

/// Encodes `activation(gate) * up`.
pub(super) fn gated(
    encoder: &mut CommandEncoder,
    kernel: &str,
    activation: Activation,
    [gate, up, output]: [&MlxBuffer; 3],
    n: usize,
) -> Result<()> {
    positive(kernel, &[("n", n)])?;
    let dtype = float(kernel, "gate", gate)?;
    if up.dtype() != gate.dtype() || output.dtype() != gate.dtype() {
        refuse!("{kernel}: all buffers must be {}", gate.dtype());
    }
    let (g, u, y) = (gate.tensor(dtype, &[n])?, up.tensor(dtype, &[n])?, output.tensor(dtype, &[n])?);
    let dispatch = Dispatch::new(kernel, n, &[gate, up], &[output]);
    encoder.dispatch(dispatch, move |recorder| recorder.run_into(Glu::new(activation), &[&g, &u], &[&y]))
}

/// Products with a sigmoid.
pub mod sigmoid_mul {
    use super::super::support::register;
    use super::gated;
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};
    use silicide::ops::glu::Activation;

    register!();

    /// Encodes `x * sigmoid(gate)` over `n` elements of f32 or bf16.
    pub fn dispatch_sigmoid_mul(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        x: &MlxBuffer,
        gate: &MlxBuffer,
        output: &MlxBuffer,
        _params_buf: &MlxBuffer,
        n: u32,
    ) -> Result<()> {
        let kernel = format!("sigmoid_mul_{}", x.dtype());
        gated(encoder, &kernel, Activation::Sigmoid, [gate, x, output], n as usize)
    }
}

/// Products with a SiLU.
pub mod silu_mul {
    use super::super::support::register;
    use super::gated;
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, KernelRegistry, MlxBuffer};
    use silicide::ops::glu::Activation;

    register!();

    /// Encodes `silu(gate) * up` over `n` elements.
    pub fn dispatch_silu_mul(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        gate: &MlxBuffer,
        up: &MlxBuffer,
        output: &MlxBuffer,
        _params_buf: &MlxBuffer,
        n: u32,
    ) -> Result<()> {
        gated(encoder, "silu_mul_f32", Activation::Silu, [gate, up, output], n as usize)
    }
}
