//! Products with the experts that ids name, in GGML blocks: f32, with activations as they are.
//!
//! Outputs of an id that is no expert are NaN; for more than [`MM_ID_ROUTING_THRESHOLD`] tokens such an id, or an expert twice in a row,
//! makes all outputs NaN, as in mlx-native. The schedules of mlx-native (`htpe`, `hids`) are checked, and written where the caller
//! gives them: the number of rows of each expert, and the rows.

use super::support::{apart, positive, typed};
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::{MlxError, Result, refuse};
use crate::gguf::{GgmlType, check_block_weight};
use crate::routing::GgmlRoutingPolicy;
use crate::{DType, KernelRegistry, MlxBuffer, MlxDevice};
use silicide::ops::binary::Binary;
use silicide::ops::expert_linear::{ExpertLinear, PaddedExperts};
use silicide::ops::glu::{Activation, glu};
use silicide::ops::reduce;
use silicide::ops::strided_copy::{Layout, strided_copy};
use silicide::quant::Encoding;
use silicide::{Buffer, DType as Element, Recorder};

/// The most tokens that need no schedule.
pub const MM_ID_ROUTING_THRESHOLD: u32 = 32;

/// Extents and block type of products with experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgmlQuantizedMatmulIdParams {
    /// Rows of ids.
    pub n_tokens: u32,
    /// Experts of a row.
    pub top_k: u32,
    /// Rows of an expert's weight.
    pub n: u32,
    /// Depth.
    pub k: u32,
    /// Experts.
    pub n_experts: u32,
    /// Bytes from one expert to the next.
    pub expert_stride: u64,
    /// The block type.
    pub ggml_type: GgmlType,
}

/// The same extents, for functions that take a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgmlIdMmDispatchParams {
    /// Rows of ids.
    pub n_tokens: u32,
    /// Experts of a row.
    pub top_k: u32,
    /// Rows of an expert's weight.
    pub n: u32,
    /// Depth.
    pub k: u32,
    /// Experts.
    pub n_experts: u32,
    /// Bytes from one expert to the next.
    pub expert_stride: u64,
    /// The block type.
    pub ggml_type: GgmlType,
}

impl GgmlIdMmDispatchParams {
    /// Returns the bytes of the numbers of rows.
    pub fn htpe_bytes(&self) -> usize {
        self.n_experts as usize * 4
    }

    /// Returns the bytes of the rows.
    pub fn hids_bytes(&self) -> usize {
        (self.n_experts as usize).saturating_mul(self.n_tokens as usize).saturating_mul(4)
    }

    fn id(&self) -> GgmlQuantizedMatmulIdParams {
        let GgmlIdMmDispatchParams { n_tokens, top_k, n, k, n_experts, expert_stride, ggml_type } = *self;
        GgmlQuantizedMatmulIdParams { n_tokens, top_k, n, k, n_experts, expert_stride, ggml_type }
    }
}

/// Memory for a schedule.
#[derive(Clone, Debug)]
pub struct IdMmScratch {
    /// The number of rows of each expert.
    pub htpe: MlxBuffer,
    /// The rows of each expert.
    pub hids: MlxBuffer,
    /// Experts that it has room for.
    pub n_experts_cap: u32,
    /// Tokens that it has room for.
    pub n_tokens_cap: u32,
}

impl IdMmScratch {
    /// Returns memory for up to `n_experts` and `n_tokens`.
    pub fn alloc(device: &MlxDevice, n_experts: u32, n_tokens: u32) -> Result<IdMmScratch> {
        let (experts, tokens) = (n_experts as usize, n_tokens as usize);
        positive("IdMmScratch", &[("n_experts", experts), ("n_tokens", tokens)])?;
        let htpe = device.alloc_buffer(experts * 4, DType::U32, vec![experts])?;
        let bytes = experts.checked_mul(tokens).and_then(|count| count.checked_mul(4));
        let bytes = bytes.ok_or(MlxError::BufferAllocationError { bytes: usize::MAX })?;
        let hids = device.alloc_buffer(bytes, DType::U32, vec![experts, tokens])?;
        Ok(IdMmScratch { htpe, hids, n_experts_cap: n_experts, n_tokens_cap: n_tokens })
    }

    fn check(&self, params: &GgmlQuantizedMatmulIdParams) -> Result<()> {
        if params.n_experts > self.n_experts_cap || params.n_tokens > self.n_tokens_cap {
            let (experts, tokens) = (self.n_experts_cap, self.n_tokens_cap);
            refuse!("the scratch has room for {experts} experts and {tokens} tokens");
        }
        Ok(())
    }
}

/// Whether one wrong id spoils all outputs, as in mlx-native for more tokens than its threshold: an id that is no expert, or the same
/// expert twice in a row.
#[derive(Clone, Copy, PartialEq)]
enum Strictness {
    Pair,
    Call,
}

impl Strictness {
    fn of(tokens: u32, threshold: u32) -> Strictness {
        if tokens > threshold { Strictness::Call } else { Strictness::Pair }
    }
}

/// Records a number that is 0, or NaN if an id is no expert or twice in its row. Ids that differ have a quotient of their difference by itself.
fn poison(
    recorder: &mut silicide::record::CommandEncoder,
    ids: &Buffer,
    (zeros, diagonal): (&Buffer, &Buffer),
) -> std::result::Result<Buffer, silicide::Error> {
    let (rows, used) = (ids.shape().axes()[0], ids.shape().last());
    // Rows of the table are 0; of ids that are out of range, NaN.
    let valid = silicide::ops::gather_rows(recorder, zeros, ids, Element::F32)?;
    let valid = super::support::reshaped(&valid, &[1, rows * used])?;
    let valid = reduce::sum(recorder, &valid)?;
    let names = silicide::ops::cast(recorder, ids, Element::F32)?;
    let square = super::support::shape(&[rows, used, used])?;
    let left = strided_copy(recorder, &names, square, Layout::new(0, &[used, 1, 0]))?;
    let right = strided_copy(recorder, &names, square, Layout::new(0, &[used, 0, 1]))?;
    let apart = recorder.run_one(Binary::Sub, &[&left, &right])?;
    let apart = recorder.run_one(Binary::Add, &[&apart, diagonal])?;
    let ones = recorder.run_one(Binary::Div, &[&apart, &apart])?;
    let none = recorder.run_one(Binary::Sub, &[&ones, &ones])?;
    let none = super::support::reshaped(&none, &[1, rows * used * used])?;
    let distinct = reduce::sum(recorder, &none)?;
    recorder.run_one(Binary::Add, &[&valid, &distinct])
}

/// How the activations of a token lie.
#[derive(Clone, Copy, PartialEq)]
enum Rows {
    /// One row for all its experts.
    Shared,
    /// One row for each.
    Slotted,
}

/// A checked call.
struct Call {
    x: Buffer,
    weights: Experts,
    ids: Buffer,
    y: Buffer,
}

/// The weights of all experts. Where whole rows lie between them, products read them in place; otherwise they are copied first.
#[derive(Clone)]
struct Experts {
    bytes: Buffer,
    /// Bytes from one expert to the next, if that is not the bytes of an expert.
    stride: Option<usize>,
    dtype: Element,
    shape: [usize; 3],
    row_bytes: usize,
}

impl Experts {
    fn new(what: &str, weight: &MlxBuffer, params: &GgmlQuantizedMatmulIdParams) -> Result<Experts> {
        let [n, k, experts] = [params.n, params.k, params.n_experts].map(|extent| extent as usize);
        let row = check_block_weight(what, weight.dtype(), params.ggml_type, k)?;
        let overflow = || MlxError::argument(format!("{what}: the weights cannot be counted"));
        let expert_bytes = row.checked_mul(n).ok_or_else(overflow)?;
        let stride = usize::try_from(params.expert_stride).map_err(|_| overflow())?;
        if stride < expert_bytes && experts > 1 {
            refuse!("{what}: expert_stride = {stride} is less than the {expert_bytes} bytes of an expert");
        }
        let dense = experts == 1 || stride == expert_bytes;
        let step = if dense { expert_bytes } else { stride };
        let total = (experts - 1).checked_mul(step).and_then(|bytes| bytes.checked_add(expert_bytes));
        let bytes = weight.tensor(Element::U8, &[total.ok_or_else(overflow)?])?;
        let (dtype, shape) = (params.ggml_type.silicide(), [experts, n, k]);
        Ok(Experts { bytes, stride: (!dense).then_some(stride), dtype, shape, row_bytes: row })
    }

    /// Returns the weight, and the op that multiplies it with activations as they are.
    fn product(
        &self,
        recorder: &mut silicide::record::CommandEncoder,
    ) -> std::result::Result<(Buffer, ExpertLinear), silicide::Error> {
        let op = ExpertLinear::new(Encoding::from(self.dtype)).with_exact(true);
        let [experts, n, k] = self.shape;
        let dense = match self.stride {
            None => self.bytes.clone(),
            Some(stride) if stride.is_multiple_of(self.row_bytes) => {
                let pitch = stride / self.row_bytes;
                let weight = self.bytes.reinterpret(self.dtype)?.reshape([(experts - 1) * pitch + n, k])?;
                // Extents are numbers of 32 bits; a pitch that is not is refused by the op.
                let [experts, n, pitch] =
                    [experts, n, pitch].map(|extent| u32::try_from(extent).unwrap_or(0));
                return Ok((weight, op.with_padded(PaddedExperts { experts, n, pitch })));
            }
            Some(stride) => {
                let shape = super::support::shape(&[experts, n * self.row_bytes])?;
                strided_copy(recorder, &self.bytes, shape, Layout::new(0, &[stride, 1]))?
            }
        };
        Ok((dense.reinterpret(self.dtype)?.reshape(self.shape)?, op))
    }
}

fn prepare(
    what: &str,
    rows: Rows,
    (input, weight, ids, output): (&MlxBuffer, &MlxBuffer, &MlxBuffer, &MlxBuffer),
    params: &GgmlQuantizedMatmulIdParams,
) -> Result<Call> {
    let [tokens, used, n, k] =
        [params.n_tokens, params.top_k, params.n, params.k].map(|extent| extent as usize);
    let experts = params.n_experts as usize;
    let extents = [("n_tokens", tokens), ("top_k", used), ("N", n), ("K", k), ("n_experts", experts)];
    positive(what, &extents)?;
    let weights = Experts::new(what, weight, params)?;
    if input.dtype() != DType::F32 {
        refuse!("{what}: requires an F32 input, got {}", input.dtype());
    }
    if ids.dtype() != DType::U32 {
        refuse!("{what}: requires U32 expert IDs, got {}", ids.dtype());
    }
    if output.dtype() != DType::F32 {
        refuse!("{what}: requires an F32 output, got {}", output.dtype());
    }
    let x = match rows {
        Rows::Shared => input.tensor(Element::F32, &[tokens, k])?,
        Rows::Slotted => input.tensor(Element::F32, &[tokens, used, k])?,
    };
    let ids = ids.tensor(Element::U32, &[tokens, used])?;
    Ok(Call { x, weights, ids, y: output.tensor(Element::F32, &[tokens, used, n])? })
}

fn product(
    encoder: &mut CommandEncoder,
    (rows, strictness): (Rows, Strictness),
    buffers: (&MlxBuffer, &MlxBuffer, &MlxBuffer, &MlxBuffer),
    params: &GgmlQuantizedMatmulIdParams,
) -> Result<()> {
    let what = "quantized_matmul_id_ggml";
    let Call { x, weights, ids, y } = prepare(what, rows, buffers, params)?;
    let (input, weight, id_buffer, output) = buffers;
    let used = params.top_k as usize;
    let device = encoder.device().silicide();
    let tables = match strictness {
        Strictness::Pair => None,
        Strictness::Call => {
            let diagonal: Vec<f32> =
                (0..used * used).map(|i| if i % (used + 1) == 0 { 1.0 } else { 0.0 }).collect();
            let experts = params.n_experts as usize;
            Some((
                Buffer::from_slice(device, [experts, 1], &vec![0.0f32; experts])?,
                Buffer::from_slice(device, [used, used], &diagonal)?,
            ))
        }
    };
    let dispatch = Dispatch::new(what, y.elements(), &[input, weight, id_buffer], &[output]);
    encoder.dispatch(dispatch, move |recorder| {
        let (w, op) = weights.product(recorder)?;
        let Some((zeros, diagonal)) = &tables else {
            return recorder.run_into(op, &[&x, &w, &ids], &[&y]);
        };
        let outputs = recorder.run_one(op, &[&x, &w, &ids])?;
        let poison = poison(recorder, &ids, (zeros, diagonal))?;
        recorder.run_into(Binary::Add, &[&outputs, &poison], &[&y])
    })
}

/// Writes the number of rows of each expert and the rows, as the ids say that the encoder sees now.
fn write_schedule(
    encoder: &mut CommandEncoder,
    (ids, htpe, hids): (&MlxBuffer, &MlxBuffer, &MlxBuffer),
    params: &GgmlQuantizedMatmulIdParams,
) -> Result<()> {
    let [tokens, used, experts] =
        [params.n_tokens, params.top_k, params.n_experts].map(|extent| extent as usize);
    let names = encoder.host_values::<u32>(ids, tokens * used)?;
    let (mut counts, mut rows) = (vec![0u32; experts], vec![0u32; experts * tokens]);
    for (row, id) in names.iter().enumerate() {
        let Some(count) = counts.get_mut(*id as usize) else { continue };
        if let Some(place) = rows[*id as usize * tokens..].get_mut(*count as usize)
            && (*count as usize) < tokens
        {
            *place = row as u32;
            *count += 1;
        }
    }
    for (values, to) in [(&counts, htpe), (&rows, hids)] {
        let to = to.tensor(Element::U32, &[values.len()])?;
        let from = Buffer::from_slice(encoder.device().silicide(), [values.len()], values)?;
        let dispatch = Dispatch::new("kernel_mul_mm_id_map0", values.len(), &[], &[]);
        encoder.dispatch(dispatch, move |recorder| recorder.copy(&from, &to))?;
    }
    Ok(())
}

/// Encodes `output[t, s] = input[t] * weight[ids[t, s]]ᵀ`.
pub fn quantized_matmul_id_ggml(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    ids: &MlxBuffer,
    output: &MlxBuffer,
    params: &GgmlQuantizedMatmulIdParams,
) -> Result<()> {
    let strictness = Strictness::of(params.n_tokens, MM_ID_ROUTING_THRESHOLD);
    product(encoder, (Rows::Shared, strictness), (input, weight, ids, output), params)
}

/// Declares functions that are [`quantized_matmul_id_ggml`] with choices of kernels, which are without effect.
macro_rules! with_policy {
    ($($(#[$doc:meta])* $name:ident, $strictness:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(
            encoder: &mut CommandEncoder,
            _registry: &mut KernelRegistry,
            _device: &MlxDevice,
            input: &MlxBuffer,
            weight: &MlxBuffer,
            ids: &MlxBuffer,
            output: &MlxBuffer,
            params: &GgmlQuantizedMatmulIdParams,
            routing: &GgmlRoutingPolicy,
        ) -> Result<()> {
            let strictness: fn(u32, &GgmlRoutingPolicy) -> Strictness = $strictness;
            let strictness = strictness(params.n_tokens, routing);
            product(encoder, (Rows::Shared, strictness), (input, weight, ids, output), params)
        }
    )*};
}

with_policy! {
    /// [`quantized_matmul_id_ggml`] for any number of tokens: a wrong id spoils its own outputs only.
    quantized_matmul_id_ggml_mv_with_policy, |_, _| Strictness::Pair;
    /// [`quantized_matmul_id_ggml`], under a threshold of tokens.
    quantized_matmul_id_ggml_with_policy, |tokens, routing| Strictness::of(tokens, routing.expert_mm_threshold);
}

/// As [`quantized_matmul_id_ggml`], with memory for a schedule, which is checked and not used.
pub fn quantized_matmul_id_ggml_pooled(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    ids: &MlxBuffer,
    output: &MlxBuffer,
    scratch: &mut IdMmScratch,
    params: &GgmlQuantizedMatmulIdParams,
) -> Result<()> {
    scratch.check(params)?;
    let strictness = Strictness::of(params.n_tokens, MM_ID_ROUTING_THRESHOLD);
    product(encoder, (Rows::Shared, strictness), (input, weight, ids, output), params)
}

/// [`quantized_matmul_id_ggml_pooled`]; the choices of kernels are without effect.
pub fn quantized_matmul_id_ggml_pooled_with_policy(
    encoder: &mut CommandEncoder,
    registry: &mut KernelRegistry,
    device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    ids: &MlxBuffer,
    output: &MlxBuffer,
    scratch: &mut IdMmScratch,
    params: &GgmlQuantizedMatmulIdParams,
    _routing: &GgmlRoutingPolicy,
) -> Result<()> {
    quantized_matmul_id_ggml_pooled(encoder, registry, device, input, weight, ids, output, scratch, params)
}

/// As [`quantized_matmul_id_ggml_pooled`], with a row of activations for each expert of a token: `[n_tokens, top_k, k]`.
pub fn quantized_matmul_id_ggml_pooled_slotted(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    ids: &MlxBuffer,
    output: &MlxBuffer,
    scratch: &mut IdMmScratch,
    params: &GgmlQuantizedMatmulIdParams,
) -> Result<()> {
    scratch.check(params)?;
    let strictness = Strictness::of(params.n_tokens, MM_ID_ROUTING_THRESHOLD);
    product(encoder, (Rows::Slotted, strictness), (input, weight, ids, output), params)
}

/// Encodes two products with one set of ids.
pub fn quantized_matmul_id_ggml_pooled_pair(
    encoder: &mut CommandEncoder,
    registry: &mut KernelRegistry,
    device: &MlxDevice,
    input: &MlxBuffer,
    first_weight: &MlxBuffer,
    second_weight: &MlxBuffer,
    ids: &MlxBuffer,
    first_output: &MlxBuffer,
    second_output: &MlxBuffer,
    scratch: &mut IdMmScratch,
    params: &GgmlQuantizedMatmulIdParams,
) -> Result<()> {
    let routing = GgmlRoutingPolicy::default();
    quantized_matmul_id_ggml_pooled_pair_with_policy(
        encoder,
        registry,
        device,
        input,
        first_weight,
        second_weight,
        ids,
        first_output,
        second_output,
        scratch,
        params,
        &routing,
    )
}

/// [`quantized_matmul_id_ggml_pooled_pair`], under a threshold of tokens.
pub fn quantized_matmul_id_ggml_pooled_pair_with_policy(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    first_weight: &MlxBuffer,
    second_weight: &MlxBuffer,
    ids: &MlxBuffer,
    first_output: &MlxBuffer,
    second_output: &MlxBuffer,
    scratch: &mut IdMmScratch,
    params: &GgmlQuantizedMatmulIdParams,
    routing: &GgmlRoutingPolicy,
) -> Result<()> {
    let what = "quantized_matmul_id_ggml_pooled_pair";
    for weight in [first_weight, second_weight] {
        check_block_weight(what, weight.dtype(), params.ggml_type, params.k as usize)?;
    }
    if params.n_tokens <= routing.expert_mm_threshold {
        refuse!("{what}: {} tokens: the pair requires the mm_id route", params.n_tokens);
    }
    scratch.check(params)?;
    if first_output.overlaps(second_output) {
        refuse!("{what}: output ranges must not overlap");
    }
    let inputs = [("input", input), ("weight", first_weight), ("weight", second_weight), ("ids", ids)];
    for output in [first_output, second_output] {
        if let Some((name, _)) = inputs.iter().find(|(_, buffer)| buffer.overlaps(output)) {
            refuse!("{what}: output range must not overlap {name}");
        }
    }
    for memory in [&scratch.htpe, &scratch.hids] {
        if let Some((name, _)) = inputs.iter().find(|(_, buffer)| buffer.overlaps(memory)) {
            refuse!("{what}: scratch range must not overlap {name}");
        }
        if memory.overlaps(first_output) || memory.overlaps(second_output) {
            refuse!("{what}: scratch range must not overlap an output");
        }
    }
    if scratch.htpe.overlaps(&scratch.hids) {
        refuse!("{what}: scratch ranges must not overlap");
    }
    // Both are checked before one is encoded.
    let first = (input, first_weight, ids, first_output);
    let second = (input, second_weight, ids, second_output);
    prepare(what, Rows::Shared, first, params)?;
    prepare(what, Rows::Shared, second, params)?;
    product(encoder, (Rows::Shared, Strictness::Call), first, params)?;
    product(encoder, (Rows::Shared, Strictness::Call), second, params)
}

/// Encodes `output[t, s] = (silu(gate[t, s]) * up[t, s]) * weight[ids[t, s]]ᵀ` with blocks of Q4_0.
pub fn quantized_matmul_id_swiglu_q4_0(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    gate: &MlxBuffer,
    up: &MlxBuffer,
    weight: &MlxBuffer,
    ids: &MlxBuffer,
    output: &MlxBuffer,
    params: &GgmlQuantizedMatmulIdParams,
) -> Result<()> {
    let what = "quantized_matmul_id_swiglu_q4_0";
    let Call { x, weights, ids: names, y } =
        prepare(what, Rows::Slotted, (gate, weight, ids, output), params)?;
    typed(what, "up", up, DType::F32)?;
    apart(what, output, &[("gate", gate), ("up", up)])?;
    let u = up.tensor(Element::F32, x.shape().axes())?;
    let dispatch = Dispatch::new(what, y.elements(), &[gate, up, weight, ids], &[output]);
    encoder.dispatch(dispatch, move |recorder| {
        let (w, op) = weights.product(recorder)?;
        let activations = glu(recorder, Activation::Silu, &x, &u)?;
        recorder.run_into(op, &[&activations, &w, &names], &[&y])
    })
}

/// Encodes [`quantized_matmul_id_ggml`] and its schedule.
pub fn dispatch_id_mm_for_test(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    ids: &MlxBuffer,
    htpe: &MlxBuffer,
    hids: &MlxBuffer,
    output: &MlxBuffer,
    params: &GgmlIdMmDispatchParams,
) -> Result<()> {
    prepare("dispatch_id_mm", Rows::Shared, (input, weight, ids, output), &params.id())?;
    write_schedule(encoder, (ids, htpe, hids), &params.id())?;
    product(encoder, (Rows::Shared, Strictness::Call), (input, weight, ids, output), &params.id())
}

/// Encodes [`quantized_matmul_id_ggml`]. The schedule is not read: ids say the same.
pub fn dispatch_id_mm_with_prepared_schedule_for_test(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    weight: &MlxBuffer,
    ids: &MlxBuffer,
    _htpe: &MlxBuffer,
    _hids: &MlxBuffer,
    output: &MlxBuffer,
    params: &GgmlIdMmDispatchParams,
) -> Result<()> {
    product(encoder, (Rows::Shared, Strictness::Call), (input, weight, ids, output), &params.id())
}

/// Encodes `silu(input * gateᵀ) * (input * upᵀ)` with the experts that ids name, and the schedule.
pub fn dispatch_id_mm_fused_gate_up_silu_for_test(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &MlxDevice,
    input: &MlxBuffer,
    gate_w: &MlxBuffer,
    up_w: &MlxBuffer,
    ids: &MlxBuffer,
    htpe: &MlxBuffer,
    hids: &MlxBuffer,
    output: &MlxBuffer,
    params: &GgmlIdMmDispatchParams,
) -> Result<()> {
    let what = "dispatch_id_mm_fused_gate_up_silu";
    let params = params.id();
    let up = prepare(what, Rows::Shared, (input, up_w, ids, output), &params)?;
    let Call { x, weights, ids: names, y } =
        prepare(what, Rows::Shared, (input, gate_w, ids, output), &params)?;
    write_schedule(encoder, (ids, htpe, hids), &params)?;
    let dispatch = Dispatch::new(what, y.elements(), &[input, gate_w, up_w, ids], &[output]);
    encoder.dispatch(dispatch, move |recorder| {
        let (gate_w, gate_op) = weights.product(recorder)?;
        let (up_w, up_op) = up.weights.product(recorder)?;
        let gate = recorder.run_one(gate_op, &[&x, &gate_w, &names])?;
        let up = recorder.run_one(up_op, &[&x, &up_w, &names])?;
        silicide::ops::glu_into(recorder, Activation::Silu, &gate, &up, &y)
    })
}
