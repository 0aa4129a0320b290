//! The largest logit of each row, and those near it, on the host: the encoder submits what came before, and waits.

use super::support::{count, positive, register, typed};
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::{Result, refuse};
use crate::metal::DeviceRef;
use crate::{DType, KernelRegistry, MlxBuffer};
use silicide::{Buffer, DType as Element};

register!();

/// Logits this far below the largest are candidates.
const MARGIN: f32 = 0.5;

/// Encodes, for each of `n_slots` rows of `vocab` logits, the index and the value of the largest (of equals the first, NaN aside), and the
/// indices of those at most 0.5 below: up to `cap`, their number, and whether there are more.
pub fn dispatch_gpu_sample_argmax_candidates(
    encoder: &mut CommandEncoder,
    _registry: &mut KernelRegistry,
    _device: &DeviceRef,
    logits: &MlxBuffer,
    out_top1_idx: &MlxBuffer,
    out_top1_val: &MlxBuffer,
    out_cand_count: &MlxBuffer,
    out_overflow: &MlxBuffer,
    out_cand_ids: &MlxBuffer,
    _params_buf: &MlxBuffer,
    n_slots: u32,
    vocab: u32,
    cap: u32,
) -> Result<()> {
    let what = "gpu_sample";
    let [slots, columns, most] = [n_slots, vocab, cap].map(|extent| extent as usize);
    positive(what, &[("n_slots", slots), ("vocab", columns), ("cap", most)])?;
    if encoder.is_capturing() {
        refuse!("{what}: not available during graph capture: logits are read while encoding");
    }
    typed(what, "logits", logits, DType::F32)?;
    let device = encoder.device().silicide().clone();
    // The places are there, so memory for as many is in reason.
    let places = out_cand_ids.tensor(Element::U32, &[count(what, &[slots, most])?])?;
    let values = encoder.host_values::<f32>(logits, count(what, &[slots, columns])?)?;
    let (mut indices, mut largest) = (Vec::new(), Vec::new());
    let (mut counts, mut overflows) = (Vec::new(), Vec::new());
    let mut ids = vec![0u32; slots * most];
    for (row, ids) in values.chunks_exact(columns).zip(ids.chunks_exact_mut(most)) {
        let best = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        indices.push(row.iter().position(|value| *value == best).unwrap_or(0) as u32);
        largest.push(best);
        let near = || (0u32..).zip(row).filter(|(_, value)| **value >= best - MARGIN).map(|(index, _)| index);
        ids.iter_mut().zip(near()).for_each(|(place, index)| *place = index);
        let found = near().count();
        counts.push(found as u32);
        overflows.push(u32::from(found > most));
    }
    let mut copies =
        vec![(Buffer::from_slice(&device, [slots], &largest)?, out_top1_val.tensor(Element::F32, &[slots])?)];
    for (values, to) in [(indices, out_top1_idx), (counts, out_cand_count), (overflows, out_overflow)] {
        copies.push((Buffer::from_slice(&device, [slots], &values)?, to.tensor(Element::U32, &[slots])?));
    }
    copies.push((Buffer::from_slice(&device, [slots * most], &ids)?, places));
    let writes = [out_top1_idx, out_top1_val, out_cand_count, out_overflow, out_cand_ids];
    let dispatch = Dispatch::new("gpu_sample_argmax_candidates", slots, &[logits], &writes);
    encoder
        .dispatch(dispatch, move |recorder| copies.iter().try_for_each(|(from, to)| recorder.copy(from, to)))
}
