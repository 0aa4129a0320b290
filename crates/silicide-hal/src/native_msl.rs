//! Options of a WGSL kernel for Metal: how strict its arithmetic is, and a version written by hand in the Metal Shading
//! Language.
//!
//! A hand-written version has the bindings, parameters and grid of the WGSL, so nothing above depends on it, and the same
//! cases prove it. Other backends ignore it.

use std::hash::{Hash, Hasher};

/// How strict a compiler must be about floating-point arithmetic, where it has the option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Math {
    /// Infinities and NaN are preserved, functions are precise, sums keep their order.
    #[default]
    Exact,
    /// Sums may be reordered; infinities and NaN are preserved.
    Relaxed,
    /// There are neither infinities nor NaN, and functions are fast.
    Fast,
}

/// A kernel in the Metal Shading Language. It replaces the translated WGSL on devices that can run it.
///
/// The text has no `#include` and no `using`: `<metal_stdlib>` is included before it, and each constant of
/// the WGSL kernel is a `constant constexpr uint` of the same name. Binding `i` is `[[buffer(i)]]`; the parameter words
/// follow the bindings; threadgroup memory is `[[threadgroup(i)]]`.
#[derive(Debug)]
pub struct NativeMsl {
    /// Name of the kernel function in the text.
    pub entry: &'static str,
    /// The text.
    pub text: &'static str,
    /// Bytes of each piece of threadgroup memory that is given as an argument, in index order.
    pub threadgroup_bytes: &'static [u32],
    /// The version of the language that it needs, major and minor.
    pub language: (u8, u8),
    /// Whether it uses `simdgroup_matrix`.
    pub simdgroup_matrix: bool,
}

// Texts are statics: their address is their identity.
impl PartialEq for NativeMsl {
    fn eq(&self, other: &NativeMsl) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for NativeMsl {}
impl Hash for NativeMsl {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self).hash(state);
    }
}
