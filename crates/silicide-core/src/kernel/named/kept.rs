//! Registrations and labels that live until the process ends, each once.

use super::super::op::Slot;
use super::{Access, KernelText, NamedKernel, Registered};
use rustc_hash::FxHashSet;
use silicide_hal::Program;
#[cfg(any(feature = "vulkan", feature = "metal"))]
use silicide_hal::Snippet;
use smallvec::SmallVec;
use std::sync::{Mutex, PoisonError};

/// Parts of a registration that live until the process ends.
pub(super) struct Kept {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
    pub(super) entry: &'static str,
    pub(super) bindings: &'static [Access],
}

impl Kept {
    #[cfg(any(feature = "vulkan", feature = "metal"))]
    pub(super) fn snippet(&self) -> &'static Snippet {
        Box::leak(Box::new(Snippet { name: self.name, text: self.text }))
    }
}

/// Everything that was registered in this process. The same registration again is the same kernel.
static KEPT: Mutex<Vec<&'static Registered>> = Mutex::new(Vec::new());

/// Texts with the lifetime of the process, each once.
struct Interned(Mutex<Option<FxHashSet<&'static str>>>);

impl Interned {
    /// Returns the text, or `None` if it is new and there are `most` already.
    fn get(&self, text: &str, most: usize) -> Option<&'static str> {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = texts.get_or_insert_default();
        if let Some(known) = texts.get(text) {
            return Some(known);
        }
        if texts.len() >= most {
            return None;
        }
        let kept: &'static str = Box::leak(text.into());
        texts.insert(kept);
        Some(kept)
    }
}

/// Returns the text with the lifetime of the process; the same text is kept once.
pub(super) fn intern(text: &str) -> &'static str {
    static TEXTS: Interned = Interned(Mutex::new(None));
    TEXTS.get(text, usize::MAX).unwrap_or_default()
}

/// The most labels of spans that are kept.
const MAX_LABELS: usize = 4096;

/// Returns the label of a span with the lifetime of the process. New labels beyond the first 4096 are `other labels`.
pub(crate) fn intern_label(label: &str) -> &'static str {
    static LABELS: Interned = Interned(Mutex::new(None));
    LABELS.get(label, MAX_LABELS).unwrap_or("other labels")
}

/// The workgroup of a text, the words of its `var<immediate>`, and the least bytes of its bindings.
pub(super) struct LaunchLayout<'a> {
    pub(super) workgroup: [u32; 3],
    pub(super) words: usize,
    pub(super) least_bytes: &'a [u32],
}

/// Returns the kernel of a registration, made by `make` unless the process has one whose program `is_same`.
pub(super) fn keep(
    text: &KernelText<'_>,
    layout: LaunchLayout<'_>,
    is_same: impl Fn(&Program) -> bool,
    make: impl FnOnce(&Kept) -> Program,
) -> NamedKernel {
    let LaunchLayout { workgroup, words, least_bytes } = layout;
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let is_kept = |kept: &&&Registered| {
        (kept.name, kept.text, kept.entry) == (text.name, text.text, text.entry)
            && (kept.bindings, kept.param_bytes, kept.workgroup)
                == (text.bindings, text.param_bytes, workgroup)
            && is_same(&kept.program)
    };
    if let Some(&known) = all.iter().find(is_kept) {
        return NamedKernel(known);
    }
    let kept = Kept {
        name: intern(text.name),
        text: intern(text.text),
        entry: intern(text.entry),
        bindings: Box::leak(text.bindings.into()),
    };
    let (mut slots, mut order) = (Vec::new(), SmallVec::from_elem(0, kept.bindings.len()));
    for is_written in [false, true] {
        for (i, _) in kept.bindings.iter().enumerate().filter(|(_, access)| access.writes() == is_written) {
            if let Some(slot) = order.get_mut(i) {
                *slot = slots.len() as u8;
            }
            let name = intern(&format!("binding {i}"));
            slots.push(if is_written { Slot::update(name) } else { Slot::input(name) });
        }
    }
    let program = make(&kept);
    let (Kept { name, text: source, entry, bindings }, param_bytes) = (kept, text.param_bytes);
    let slots = Box::leak(slots.into_boxed_slice());
    let kept = Registered {
        name,
        text: source,
        entry,
        bindings,
        param_bytes,
        least_bytes: least_bytes.into(),
        words,
        workgroup,
        program,
        slots,
        order,
    };
    let kept: &'static Registered = Box::leak(Box::new(kept));
    all.push(kept);
    NamedKernel(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_texts_beyond_the_most_are_refused_and_known_ones_are_found() {
        static TEXTS: Interned = Interned(Mutex::new(None));
        let first = TEXTS.get("first", 2).unwrap();
        assert_eq!(TEXTS.get("second", 2), Some("second"));
        assert_eq!(TEXTS.get("third", 2), None);
        assert!(std::ptr::eq(TEXTS.get("first", 2).unwrap(), first));
    }
}
