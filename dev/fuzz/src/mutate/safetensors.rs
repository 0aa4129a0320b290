//! Mutations of safetensors files, and of checkpoints: a `config.json`, a zero byte, a safetensors file.

use super::{bytes as any_bytes, json, number_near};
use fastrand::Rng;

/// Changes the JSON header and puts its length right, or changes the length alone, or a byte of the data.
pub fn safetensors(bytes: &mut Vec<u8>, random: &mut Rng) {
    let length = bytes.first_chunk::<8>().map_or(0, |prefix| u64::from_le_bytes(*prefix));
    let end = usize::try_from(length).ok().and_then(|length| length.checked_add(8));
    let Some(mut header) = end.and_then(|end| bytes.get(8..end)).map(<[u8]>::to_vec) else {
        return any_bytes(bytes, random);
    };
    match random.u8(..16) {
        0 => {
            let new = number_near(length, random).to_le_bytes();
            bytes.splice(..8, new);
        }
        1 | 2 => {
            let at = random.usize(header.len()..bytes.len());
            bytes.iter_mut().skip(at).take(4).for_each(|byte| *byte = random.u8(..));
        }
        _ => {
            let old = header.len();
            json(&mut header, random);
            let prefix = (header.len() as u64).to_le_bytes();
            bytes.splice(..8 + old, prefix.into_iter().chain(header));
        }
    }
}

/// Changes the configuration or the safetensors file of a checkpoint.
pub fn checkpoint(bytes: &mut Vec<u8>, random: &mut Rng) {
    let at = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let mut model = bytes.split_off(at);
    if model.len() > 1 && random.u8(..3) > 0 {
        let mut file = model.split_off(1);
        safetensors(&mut file, random);
        model.extend(file);
    } else {
        json(bytes, random);
        bytes.retain(|&byte| byte != 0);
    }
    bytes.extend(model);
}
