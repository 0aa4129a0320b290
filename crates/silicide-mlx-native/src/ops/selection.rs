//! Choices of elements.

/// The largest element.
pub mod argmax {
    use super::super::support::{positive, register, typed};
    use crate::encoder::Dispatch;
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};
    use silicide::ops::{argmax::Argmax, binary::Binary, cast, gather_rows, reduce};
    use silicide::{Buffer, DType as Element, Recorder};

    register!();

    /// Encodes the index, as u32, and the value of the largest of `n_elements`. Of equals the first. An element that is not finite makes
    /// the index `u32::MAX` and the value NaN.
    pub fn dispatch_argmax_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        out_index: &MlxBuffer,
        out_value: &MlxBuffer,
        _params_buf: &MlxBuffer,
        n_elements: u32,
    ) -> Result<()> {
        let n = n_elements as usize;
        positive("argmax_f32", &[("n_elements", n)])?;
        typed("argmax_f32", "input", input, DType::F32)?;
        let x = input.tensor(Element::F32, &[1, n])?;
        let (index, value) = (out_index.tensor(Element::U32, &[1])?, out_value.tensor(Element::F32, &[1])?);
        // Element 0 for rows that are not finite; the index is written to element 1.
        let choices = Buffer::from_slice(encoder.device().silicide(), [2, 1], &[u32::MAX, 0])?;
        let one = Buffer::from_slice(encoder.device().silicide(), [1], &[1.0f32])?;
        let dispatch = Dispatch::new("argmax_f32", n, &[input], &[out_index, out_value]);
        encoder.dispatch(dispatch, move |recorder| {
            // 0 for a finite element, NaN for any other.
            let zeros = recorder.run_one(Binary::Sub, &[&x, &x])?;
            let poison = reduce::sum(recorder, &zeros)?;
            let max = reduce::max(recorder, &x)?;
            recorder.run_into(Binary::Add, &[&max, &poison], &[&value])?;
            recorder.run_into(Argmax, &[&x], &[&choices.slice(1..2)?])?;
            // NaN converts to 0.
            let finite = recorder.run_one(Binary::Add, &[&poison, &one])?;
            let finite = cast(recorder, &finite, Element::U32)?;
            let chosen = gather_rows(recorder, &choices, &finite, Element::U32)?;
            recorder.copy(&super::super::support::reshaped(&chosen, &[1])?, &index)
        })
    }
}

/// Orders of elements.
pub mod argsort {
    use super::super::support::{positive, register, typed};
    use crate::encoder::Dispatch;
    use crate::error::Result;
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};
    use silicide::ops::{cast::Cast, top_k};
    use silicide::{DType as Element, Recorder};

    register!();

    /// Encodes the indices of each row's elements, the largest element first. Of equals the first comes first. At most 1024 elements.
    pub fn dispatch_argsort_desc_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        input: &MlxBuffer,
        output: &MlxBuffer,
        batch_size: u32,
        row_len: u32,
    ) -> Result<()> {
        let (rows, n) = (batch_size as usize, row_len as usize);
        positive("argsort_desc_f32", &[("batch_size", rows), ("row_len", n)])?;
        typed("argsort_desc_f32", "input", input, DType::F32)?;
        let (x, y) = (input.tensor(Element::F32, &[rows, n])?, output.tensor(Element::U32, &[rows, n])?);
        let dispatch = Dispatch::new("argsort_desc_f32", rows * n, &[input], &[output]);
        encoder.dispatch(dispatch, move |recorder| {
            let (_, indices) = top_k::top_k(recorder, &x, n)?;
            recorder.run_into(Cast { to: Element::U32 }, &[&indices], &[&y])
        })
    }
}

/// A random choice by softmax.
pub mod softmax_sample {
    use super::super::support::{positive, register, typed};
    use crate::encoder::Dispatch;
    use crate::error::{Result, refuse};
    use crate::metal::DeviceRef;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer};
    use silicide::ops::{argmax::Argmax, binary::Binary, cumsum, fill, gather_rows, softmax, unary::Unary};
    use silicide::{Buffer, DType as Element, Recorder};

    register!();

    /// Encodes the first index where the running sum of `softmax(logits / temperature)` exceeds `random_val`, and the logarithm of its share.
    pub fn dispatch_softmax_sample_f32(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &DeviceRef,
        logits: &MlxBuffer,
        _scratch: &MlxBuffer,
        out_token: &MlxBuffer,
        out_logprob: &MlxBuffer,
        _params_buf: &MlxBuffer,
        n_elements: u32,
        temperature: f32,
        random_val: f32,
    ) -> Result<()> {
        let what = "softmax_sample_f32";
        let n = n_elements as usize;
        positive(what, &[("n_elements", n)])?;
        typed(what, "logits", logits, DType::F32)?;
        if !(temperature.is_finite() && temperature > 0.0) {
            refuse!("{what}: temperature must be finite and greater than zero, got {temperature}");
        }
        if !(0.0..1.0).contains(&random_val) {
            refuse!("{what}: random_val must be in [0, 1), got {random_val}");
        }
        let x = logits.tensor(Element::F32, &[1, n])?;
        let (token, logprob) =
            (out_token.tensor(Element::U32, &[1])?, out_logprob.tensor(Element::F32, &[1])?);
        let threshold = Buffer::from_slice(encoder.device().silicide(), [1], &[random_val.next_up()])?;
        let dispatch = Dispatch::new(what, n, &[logits], &[out_token, out_logprob]);
        encoder.dispatch(dispatch, move |recorder| {
            let shares = softmax(recorder, &x, None, 1.0 / temperature)?;
            let sums = cumsum(recorder, &shares)?;
            // Sums that exceed the number become 0, the largest element; of equals `argmax` takes the first. If rounding keeps all of them
            // below, it takes the last sum.
            let below = recorder.run_one(Binary::Sub, &[&sums, &threshold])?;
            let zero = fill::fill(recorder, Element::F32, threshold.shape(), 0.0)?;
            let clipped = recorder.run_one(Binary::Min, &[&below, &zero])?;
            recorder.run_into(Argmax, &[&clipped], &[&token])?;
            let column = super::super::support::reshaped(&shares, &[n, 1])?;
            let share = gather_rows(recorder, &column, &token, Element::F32)?;
            let share = super::super::support::reshaped(&share, &[1])?;
            recorder.run_into(Unary::Log, &[&share], &[&logprob])
        })
    }
}
