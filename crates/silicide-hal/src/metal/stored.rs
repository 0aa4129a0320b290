//! Translated kernels as bytes, for the core's cache on disk: a row of words, then the names and the text.
//!
//! Bytes from disk are used only if they are exactly what could have been written.

use crate::wgsl::Msl;

/// Changes whenever the form does.
const FORM: u32 = 1;

/// Returns a kernel as bytes.
pub(super) fn store(msl: &Msl) -> Vec<u8> {
    let [x, y, z] = msl.workgroup;
    let (major, minor) = (u32::from(msl.language.0), u32::from(msl.language.1));
    let counts = [msl.sized.len(), msl.threadgroup_bytes.len(), msl.entry.len(), msl.source.len()];
    let mut words = vec![FORM, major, minor, x, y, z, msl.params_slot, msl.sizes_slot];
    words.extend(counts.map(|count| count as u32));
    words.extend_from_slice(&msl.sized);
    words.extend_from_slice(&msl.threadgroup_bytes);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend_from_slice(msl.entry.as_bytes());
    bytes.extend_from_slice(msl.source.as_bytes());
    bytes
}

/// Returns a kernel from bytes, unless they are not one.
pub(super) fn load(bytes: &[u8]) -> Option<Msl> {
    let mut rest = bytes;
    let form = word(&mut rest)?;
    let language = (u8::try_from(word(&mut rest)?).ok()?, u8::try_from(word(&mut rest)?).ok()?);
    let workgroup = [word(&mut rest)?, word(&mut rest)?, word(&mut rest)?];
    let (params_slot, sizes_slot) = (word(&mut rest)?, word(&mut rest)?);
    let (sized, shared) = (word(&mut rest)?, word(&mut rest)?);
    let (entry, source) = (word(&mut rest)? as usize, word(&mut rest)? as usize);
    let sized = words(&mut rest, sized)?;
    let threadgroup_bytes = words(&mut rest, shared)?;
    let (entry, text) = rest.split_at_checked(entry)?;
    let msl = Msl {
        source: String::from_utf8(text.to_vec()).ok()?,
        language,
        entry: String::from_utf8(entry.to_vec()).ok()?,
        workgroup,
        params_slot,
        sizes_slot,
        sized,
        threadgroup_bytes,
    };
    (form == FORM && msl.source.len() == source).then_some(msl)
}

fn word(rest: &mut &[u8]) -> Option<u32> {
    let (word, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_le_bytes(*word))
}

fn words(rest: &mut &[u8], count: u32) -> Option<Vec<u32>> {
    // One by one: a count that lies ends at the end of the bytes, not in an allocation.
    (0..count).map(|_| word(rest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn msl() -> Msl {
        Msl {
            source: "kernel void main_() {} // ü".to_owned(),
            language: (3, 1),
            entry: "main_".to_owned(),
            workgroup: [64, 2, 1],
            params_slot: 3,
            sizes_slot: 4,
            sized: vec![0, 2],
            threadgroup_bytes: vec![16, 4096],
        }
    }

    #[test]
    fn stored_kernels_are_loaded() {
        assert_eq!(load(&store(&msl())), Some(msl()));
    }

    #[test]
    fn truncated_extended_and_damaged_kernels_are_refused() {
        let bytes = store(&msl());
        for length in 0..bytes.len() {
            assert_eq!(load(&bytes[..length]), None, "{length}");
        }
        assert_eq!(load(&[&bytes[..], b" "].concat()), None);
        // The form, the language, the counts and the text: none can be changed unseen into something longer.
        for byte in [0, 5, 35, 39, 43, 47, bytes.len() - 1] {
            let mut broken = bytes.clone();
            broken[byte] = 0xff;
            assert_eq!(load(&broken), None, "{byte}");
        }
    }
}
