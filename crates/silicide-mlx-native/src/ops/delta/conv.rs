//! Short convolutions, gates and triangular systems.

/// Causal depthwise convolution with a state, then silu.
pub mod ssm_conv {
    use super::super::super::support::{cast_into, count, positive, register, wide};
    use crate::encoder::Dispatch;
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};
    use silicide::ops::causal_conv::causal_conv;

    register!();

    /// Extents.
    #[derive(Clone, Copy, Debug)]
    pub struct SsmConvParams {
        /// Channels.
        pub channels: u32,
        /// Tokens of a sequence.
        pub n_tokens: u32,
        /// Sequences.
        pub n_seqs: u32,
        /// Taps: at least 2.
        pub k_width: u32,
    }

    impl SsmConvParams {
        /// The shapes of `x`, the taps and the state.
        fn shapes(&self, what: &str) -> Result<[[usize; 3]; 3]> {
            let [channels, tokens, sequences, width] =
                [self.channels, self.n_tokens, self.n_seqs, self.k_width].map(|extent| extent as usize);
            positive(what, &[("channels", channels), ("n_tokens", tokens), ("n_seqs", sequences)])?;
            if width < 2 {
                refuse!("{what}: k_width must be >= 2 (K=1 has empty state)");
            }
            Ok([[sequences, tokens, channels], [1, channels, width], [sequences, channels, width - 1]])
        }
    }

    /// Encodes the convolution of `x`, `[n_seqs, n_tokens, channels]`, with `kernel_w`, `[channels, k_width]`, after `old_state`,
    /// `[n_seqs, channels, k_width - 1]`; all f32 or all bf16. The last inputs become `new_state`.
    pub fn dispatch_ssm_conv(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        x: &MlxBuffer,
        kernel_w: &MlxBuffer,
        old_state: &MlxBuffer,
        new_state: &MlxBuffer,
        y: &MlxBuffer,
        _params_buf: &MlxBuffer,
        params: SsmConvParams,
    ) -> Result<()> {
        let what = "ssm_conv";
        let [of_x, of_weights, of_state] = params.shapes(what)?;
        if !matches!(x.dtype(), DType::F32 | DType::BF16) {
            refuse!("{what}: unsupported dtype {}", x.dtype());
        }
        let dtype = x.dtype();
        super::super::sized(
            what,
            &[
                ("x", x, dtype, count(what, &of_x)?),
                ("kernel_w", kernel_w, dtype, count(what, &of_weights)?),
                ("old_state", old_state, dtype, count(what, &of_state)?),
                ("new_state", new_state, dtype, count(what, &of_state)?),
                ("y", y, dtype, count(what, &of_x)?),
            ],
        )?;
        let element = dtype.silicide();
        let (from, to) = (x.tensor(element, &of_x)?, y.tensor(element, &of_x)?);
        let weights = kernel_w.tensor(element, &of_weights[1..])?;
        let (before, after) = (old_state.tensor(element, &of_state)?, new_state.tensor(element, &of_state)?);
        let dispatch = Dispatch::new(what, count(what, &of_x)?, &[x, kernel_w, old_state], &[y, new_state]);
        encoder.dispatch(dispatch, move |recorder| {
            let x = wide(recorder, &from)?;
            let weights = wide(recorder, &weights)?;
            let before = wide(recorder, &before)?;
            let (y, state) = causal_conv(recorder, &x, &weights, &before, true)?;
            cast_into(recorder, &y, &to)?;
            cast_into(recorder, &state, &after)
        })
    }

    /// As [`dispatch_ssm_conv`], of f32; `conv_capture`, `[n_seqs, n_tokens, channels, k_width - 1]`, takes the state after each token.
    pub fn dispatch_ssm_conv_with_capture(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        x: &MlxBuffer,
        kernel_w: &MlxBuffer,
        old_state: &MlxBuffer,
        y: &MlxBuffer,
        conv_capture: &MlxBuffer,
        _params_buf: &MlxBuffer,
        params: SsmConvParams,
    ) -> Result<()> {
        let what = "ssm_conv_with_capture";
        let [of_x, of_weights, of_state] = params.shapes(what)?;
        let [sequences, tokens, channels] = of_x;
        let state = channels * (params.k_width as usize - 1);
        super::super::sized(
            what,
            &[
                ("x", x, DType::F32, count(what, &of_x)?),
                ("kernel_w", kernel_w, DType::F32, count(what, &of_weights)?),
                ("old_state", old_state, DType::F32, count(what, &of_state)?),
                ("y", y, DType::F32, count(what, &of_x)?),
                ("conv_capture", conv_capture, DType::F32, count(what, &[sequences, tokens, state])?),
            ],
        )?;
        let f32s = silicide::DType::F32;
        let weights = kernel_w.tensor(f32s, &of_weights[1..])?;
        let at = |buffer: &MlxBuffer, start: usize, shape: &[usize]| buffer.tensor_at(start * 4, f32s, shape);
        // Token by token: the state after one is the state before the next.
        let mut steps = Vec::new();
        for row in 0..sequences * tokens {
            let (sequence, token) = (row / tokens, row % tokens);
            let before = if token == 0 {
                at(old_state, sequence * state, &[1, channels, of_state[2]])?
            } else {
                at(conv_capture, (row - 1) * state, &[1, channels, of_state[2]])?
            };
            steps.push((
                at(x, row * channels, &[1, 1, channels])?,
                before,
                at(y, row * channels, &[1, 1, channels])?,
                at(conv_capture, row * state, &[1, channels, of_state[2]])?,
            ));
        }
        let dispatch =
            Dispatch::new(what, count(what, &of_x)?, &[x, kernel_w, old_state], &[y, conv_capture]);
        encoder.dispatch(dispatch, move |recorder| {
            use silicide::Recorder as _;
            let op = silicide::ops::causal_conv::CausalConv { silu: true };
            steps.iter().try_for_each(|(x, before, y, after)| {
                recorder.run_into(op, &[x, &weights, before], &[y, after])
            })
        })
    }
}

/// Decay and learning rate of gated delta nets.
pub mod compute_g_beta {
    use super::super::super::support::{cast_into, count, positive, register};
    use crate::encoder::Dispatch;
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};
    use silicide::ops::{self, binary::Binary, unary::Unary};

    register!();

    /// Encodes `g = -ssm_a * softplus(alpha_logit + dt_bias)` and `beta = sigmoid(beta_logit)`, over `[seq, nv]` of f32.
    pub fn dispatch_compute_g_beta(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        alpha_logit: &MlxBuffer,
        beta_logit: &MlxBuffer,
        dt_bias: &MlxBuffer,
        ssm_a: &MlxBuffer,
        g_out: &MlxBuffer,
        beta_out: &MlxBuffer,
        _params_buf: &MlxBuffer,
        seq: u32,
        nv: u32,
    ) -> Result<()> {
        let what = "compute_g_beta";
        let shape = [seq as usize, nv as usize];
        positive(what, &[("seq", shape[0]), ("nv", shape[1])])?;
        let f32s = silicide::DType::F32;
        let (alpha, logit) = (alpha_logit.tensor(f32s, &shape)?, beta_logit.tensor(f32s, &shape)?);
        let (bias, factor) = (dt_bias.tensor(f32s, &shape[1..])?, ssm_a.tensor(f32s, &shape[1..])?);
        let (g, beta) = (g_out.tensor(f32s, &shape)?, beta_out.tensor(f32s, &shape)?);
        let reads = [alpha_logit, beta_logit, dt_bias, ssm_a];
        let dispatch = Dispatch::new(what, count(what, &shape)?, &reads, &[g_out, beta_out]);
        encoder.dispatch(dispatch, move |recorder| {
            use silicide::Recorder as _;
            let x = ops::add(recorder, &alpha, &bias)?;
            // softplus(x) = max(x, 0) - log(sigmoid(|x|)), which overflows nowhere.
            let opposite = recorder.run_one(Unary::Neg, &[&x])?;
            let size = recorder.run_one(Binary::Max, &[&x, &opposite])?;
            let gate = ops::sigmoid(recorder, &size)?;
            let rest = recorder.run_one(Unary::Log, &[&gate])?;
            let above = ops::relu(recorder, &x)?;
            let plus = ops::sub(recorder, &rest, &above)?;
            recorder.run_into(Binary::Mul, &[&plus, &factor], &[&g])?;
            let sigmoid = ops::sigmoid(recorder, &logit)?;
            cast_into(recorder, &sigmoid, &beta)
        })
    }

    /// Allocates outputs, runs [`dispatch_compute_g_beta`] and returns `(g, beta)`.
    pub fn compute_g_beta_gpu(
        registry: &mut KernelRegistry,
        device: &MlxDevice,
        alpha_logit: &MlxBuffer,
        beta_logit: &MlxBuffer,
        dt_bias: &MlxBuffer,
        ssm_a: &MlxBuffer,
        seq: u32,
        nv: u32,
    ) -> Result<(MlxBuffer, MlxBuffer)> {
        let elements = count("compute_g_beta", &[seq as usize, nv as usize])?;
        let allocate = || device.alloc_buffer(elements.saturating_mul(4), DType::F32, vec![elements]);
        let (g, beta) = (allocate()?, allocate()?);
        let params = super::super::words(device, &[nv, seq])?;
        let mut encoder = device.command_encoder()?;
        dispatch_compute_g_beta(
            &mut encoder,
            registry,
            device.metal_device(),
            alpha_logit,
            beta_logit,
            dt_bias,
            ssm_a,
            &g,
            &beta,
            &params,
            seq,
            nv,
        )?;
        encoder.commit_and_wait()?;
        Ok((g, beta))
    }
}

/// Norm and gate of the results of gated delta nets.
pub mod ssm_norm_gate {
    use super::super::super::support::{count, positive, register};
    use crate::encoder::Dispatch;
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};
    use silicide::Recorder as _;
    use silicide::ops::{binary::Binary, rms_norm::RmsNorm};

    register!();

    /// Encodes `rms_norm(attn_out) * weight * silu(z)` for each row of `d_v` of f32. `params_buf` begins with eps.
    pub fn dispatch_ssm_norm_gate(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        attn_out: &MlxBuffer,
        weight: &MlxBuffer,
        z: &MlxBuffer,
        output: &MlxBuffer,
        params_buf: &MlxBuffer,
        rows: u32,
        d_v: u32,
    ) -> Result<()> {
        let what = "ssm_norm_gate";
        let shape = [rows as usize, d_v as usize];
        positive(what, &[("rows", shape[0]), ("d_v", shape[1])])?;
        let eps = encoder.host_values::<f32>(params_buf, 1)?[0];
        let f32s = silicide::DType::F32;
        let (x, gate) = (attn_out.tensor(f32s, &shape)?, z.tensor(f32s, &shape)?);
        let (w, y) = (weight.tensor(f32s, &shape[1..])?, output.tensor(f32s, &shape)?);
        let dispatch = Dispatch::new(what, count(what, &shape)?, &[attn_out, weight, z], &[output]);
        encoder.dispatch(dispatch, move |recorder| {
            let normed = recorder.run_one(RmsNorm::new(eps, true), &[&x, &w])?;
            let gate = silicide::ops::silu(recorder, &gate)?;
            recorder.run_into(Binary::Mul, &[&normed, &gate], &[&y])
        })
    }

    /// Allocates the parameters: eps and `d_v`.
    pub fn build_ssm_norm_gate_params(device: &MlxDevice, eps: f32, d_v: u32) -> Result<MlxBuffer> {
        let mut buffer = device.alloc_buffer(8, DType::F32, vec![2])?;
        buffer.as_mut_slice::<f32>()?.copy_from_slice(&[eps, d_v as f32]);
        Ok(buffer)
    }
}

/// Triangular systems.
pub mod tri_solve {
    use super::super::super::support::{cast_into, count, positive, register, wide};
    use crate::encoder::Dispatch;
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};

    register!();

    /// Extents: `batch` systems of `n` equations with `m` columns.
    #[derive(Clone, Copy, Debug)]
    pub struct TriSolveParams {
        /// Equations.
        pub n: u32,
        /// Columns.
        pub m: u32,
        /// Systems.
        pub batch: u32,
    }

    /// Encodes `x` with `l x = b`, where `l`, `[batch, n, n]`, is lower triangular with ones on the diagonal. All f32 or all bf16.
    pub fn dispatch_tri_solve(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        l: &MlxBuffer,
        b: &MlxBuffer,
        x: &MlxBuffer,
        _params_buf: &MlxBuffer,
        p: TriSolveParams,
    ) -> Result<()> {
        let what = "tri_solve";
        let [n, m, batch] = [p.n, p.m, p.batch].map(|extent| extent as usize);
        positive(what, &[("n", n), ("m", m), ("batch", batch)])?;
        if !matches!(l.dtype(), DType::F32 | DType::BF16) {
            refuse!("{what}: unsupported dtype {}", l.dtype());
        }
        let columns = count(what, &[batch, n, m])?;
        super::super::sized(
            what,
            &[
                ("L", l, l.dtype(), count(what, &[batch, n, n])?),
                ("B", b, l.dtype(), columns),
                ("X", x, l.dtype(), columns),
            ],
        )?;
        let element = l.dtype().silicide();
        let left = l.tensor(element, &[batch, n, n])?;
        let (right, to) = (b.tensor(element, &[batch, n, m])?, x.tensor(element, &[batch, n, m])?);
        let dispatch = Dispatch::new(what, columns, &[l, b], &[x]);
        encoder.dispatch(dispatch, move |recorder| {
            let (left, right) = (wide(recorder, &left)?, wide(recorder, &right)?);
            let solved = silicide::ops::tri_solve(recorder, &left, &right)?;
            cast_into(recorder, &solved, &to)
        })
    }
}
