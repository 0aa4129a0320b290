//! GPU kernels: WGSL joined from named snippets, its constants, and what its launches need.

use crate::info::Features;
use crate::native_msl::{Math, NativeMsl};
use crate::needs::{Access, BindingNeed, LaunchShape, Needs, NeedsFn};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// A named piece of WGSL. A [`Part`] replaces `$NAME` and `$BINDING` in its text.
#[derive(Debug)]
pub struct Snippet {
    /// For messages and reports.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
}

impl PartialEq for Snippet {
    fn eq(&self, other: &Snippet) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for Snippet {}
impl Hash for Snippet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self).hash(state);
    }
}

/// A snippet, with what replaces its variables.
#[derive(Clone, Copy, Debug, Eq)]
pub struct Part {
    /// The text.
    pub snippet: &'static Snippet,
    /// Replaces `$NAME`.
    pub name: &'static str,
    /// Replaces `$BINDING`.
    pub binding: u32,
}

// Every dispatch looks its program up in a map. Names are nearly always the same statics, so addresses are compared first and
// no text is hashed. Snippets and values of constants tell programs apart.
impl PartialEq for Part {
    fn eq(&self, other: &Part) -> bool {
        self.snippet == other.snippet && self.binding == other.binding && same(self.name, other.name)
    }
}
impl Hash for Part {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.snippet.hash(state);
        self.binding.hash(state);
    }
}

/// Returns whether two names are equal; compares addresses first.
fn same(a: &'static str, b: &'static str) -> bool {
    std::ptr::eq(a, b) || a == b
}

impl Part {
    /// Returns a part without variables.
    pub const fn plain(snippet: &'static Snippet) -> Part {
        Part { snippet, name: "", binding: 0 }
    }

    /// Returns a part for the variable `name` of one binding.
    pub const fn bound(snippet: &'static Snippet, name: &'static str, binding: u32) -> Part {
        Part { snippet, name, binding }
    }
}

/// The entry point of a kernel that names no other.
const ENTRY: &str = "main";

/// A WGSL kernel: parts joined in order, entry point `main` unless [`with_entry`](WgslKernel::with_entry) names another, `override`
/// constants baked in.
///
/// It is translated with bounds checks, unless [`unchecked`](WgslKernel::unchecked) states what its launches need instead.
/// A later change of the text or of a constant makes it checked again.
///
/// # Conventions
///
/// - `@group(0) @binding(i)` is argument `i` of the dispatch.
/// - `var<immediate>` begins with one `u32` for each binding except tables: the offset of the argument's first element in the
///   bound window, **in elements of that argument's dtype**. Windows start at the device's offset alignment. The dispatch's
///   own parameter words follow. A kernel [without offsets](WgslKernel::without_offsets) has the parameter words alone.
/// - The workgroup size is the override `WG`. Subgroups have any size of the device, unless
///   [`with_subgroup`](WgslKernel::with_subgroup) states the size that the text was made for.
/// - The storages that are `read_write` in the text are those that [`writes`](WgslKernel::writes) declares.
#[derive(Clone, Debug, Eq)]
pub struct WgslKernel {
    /// For labels, counters and messages.
    pub name: &'static str,
    /// The number of bindings.
    pub bindings: u32,
    /// The number of words in the immediate, offsets included.
    pub words: u32,
    /// The freedom that Metal's compiler has with about floating-point arithmetic.
    pub math: Math,
    // Private: the safety contract of `unchecked` covers exactly these.
    parts: SmallVec<[Part; 6]>,
    constants: SmallVec<[(&'static str, u32); 4]>,
    written: u32,
    tables: u32,
    msl: Option<&'static NativeMsl>,
    needs: Option<WgslNeeds>,
    live: bool,
    subgroup: Option<u32>,
    portable: Option<(&'static Snippet, &'static Snippet)>,
    has_offsets: bool,
    entry: &'static str,
}

/// How an unchecked kernel states its needs.
#[derive(Clone, Debug)]
struct WgslNeeds {
    function: NeedsFn,
    facts: SmallVec<[u32; 4]>,
}

// The function is left out: two functions that state needs for one text are both right, and addresses of functions are not unique.
impl PartialEq for WgslNeeds {
    fn eq(&self, other: &WgslNeeds) -> bool {
        self.facts == other.facts
    }
}
impl Eq for WgslNeeds {}

impl PartialEq for WgslKernel {
    fn eq(&self, other: &WgslKernel) -> bool {
        let equal = |(a, b): (&(&'static str, u32), &(&'static str, u32))| a.1 == b.1 && same(a.0, b.0);
        self.parts == other.parts
            && (self.bindings, self.words) == (other.bindings, other.words)
            && (self.math, self.msl, self.live) == (other.math, other.msl, other.live)
            && (self.subgroup, self.portable) == (other.subgroup, other.portable)
            && self.has_offsets == other.has_offsets
            && same(self.entry, other.entry)
            && (self.written, self.tables, &self.needs) == (other.written, other.tables, &other.needs)
            && self.constants.len() == other.constants.len()
            && self.constants.iter().zip(&other.constants).all(equal)
            && same(self.name, other.name)
    }
}
impl Hash for WgslKernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts.hash(state);
        for (_, value) in &self.constants {
            value.hash(state);
        }
        self.words.hash(state);
        self.live.hash(state);
        self.subgroup.hash(state);
    }
}

impl WgslKernel {
    /// Creates a kernel that writes its last binding. It has `params` parameter words besides one offset word per binding.
    pub fn new(name: &'static str, parts: &[Part], bindings: u32, params: u32) -> WgslKernel {
        WgslKernel {
            name,
            parts: SmallVec::from_slice(parts),
            constants: SmallVec::new(),
            bindings,
            words: bindings + params,
            math: Math::Exact,
            written: bindings.checked_sub(1).and_then(|last| 1u32.checked_shl(last)).unwrap_or(0),
            tables: 0,
            msl: None,
            needs: None,
            live: false,
            subgroup: None,
            portable: None,
            has_offsets: true,
            entry: ENTRY,
        }
    }

    /// Removes the offset words: arguments lie exactly in the windows that are bound. The core refuses others: views that begin
    /// between the offsets that the device binds from, and lengths that are not whole words. `var<immediate>` has the `words`
    /// parameter words alone, and may be missing if there are none.
    pub fn without_offsets(self, words: u32) -> WgslKernel {
        WgslKernel { has_offsets: false, words, ..self.checked() }
    }

    /// Returns whether arguments have offset words.
    pub fn has_offsets(&self) -> bool {
        self.has_offsets
    }

    /// Sets the name of the entry point in the text, instead of `main`.
    pub fn with_entry(self, entry: &'static str) -> WgslKernel {
        WgslKernel { entry, ..self.checked() }
    }

    /// Returns the name of the entry point in the text.
    pub fn entry(&self) -> &'static str {
        self.entry
    }

    /// Returns the kernel for live dispatches ([`LaunchWords`](crate::LaunchWords)). Where parameters are pushed into command
    /// buffers, it reads them from one more storage instead, which follows its bindings.
    pub fn live(mut self) -> WgslKernel {
        self.live = true;
        self
    }

    /// Returns whether it is for live dispatches.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Requires subgroups of `size` invocations, for which the text was made. Devices take the sizes of
    /// [`Features::takes_subgroup`](crate::Features::takes_subgroup), and workgroups that are whole subgroups; others refuse the kernel.
    pub fn with_subgroup(mut self, size: u32) -> WgslKernel {
        self.subgroup = Some(size);
        self
    }

    /// Returns why a device with these features does not have the subgroups that it requires.
    pub fn check_subgroup(&self, features: &Features) -> Result<(), String> {
        let Some(size) = self.subgroup else { return Ok(()) };
        if !features.takes_subgroup(size) {
            let (least, most) = features.required_subgroup_size;
            return Err(format!("subgroups of {size} are required, the device has {least} to {most}"));
        }
        let workgroup = self.value_of("WG").unwrap_or(0);
        if workgroup == 0 || !workgroup.is_multiple_of(size) {
            return Err(format!("a workgroup of {workgroup} is not whole subgroups of {size}"));
        }
        Ok(())
    }

    /// Returns the size of subgroups that it requires.
    pub fn subgroup(&self) -> Option<u32> {
        self.subgroup
    }

    /// States the portable form, for drivers that refuse to compile the kernel: the text `with` in place of `part`, and subgroups of
    /// any size. It takes the same launches: grid, bindings and parameters.
    pub fn or_portable(mut self, part: &'static Snippet, with: &'static Snippet) -> WgslKernel {
        self.portable = Some((part, with));
        self.checked()
    }

    /// Returns the portable form.
    pub fn portable(&self) -> Option<WgslKernel> {
        let (part, with) = self.portable?;
        let mut kernel = WgslKernel { subgroup: None, portable: None, ..self.clone() };
        for there in kernel.parts.iter_mut().filter(|there| there.snippet == part) {
            there.snippet = with;
        }
        Some(kernel)
    }

    /// Returns the value of an `override` constant.
    pub fn value_of(&self, name: &str) -> Option<u32> {
        self.constants.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Sets an `override` constant.
    pub fn constant(mut self, name: &'static str, value: u32) -> WgslKernel {
        self.constants.push((name, value));
        self.checked()
    }

    /// Appends parts.
    pub fn append(&mut self, parts: impl IntoIterator<Item = Part>) {
        self.parts.extend(parts);
        self.needs = None;
    }

    /// Adds a binding for a table after the other bindings.
    pub fn table(mut self) -> WgslKernel {
        self.bindings += 1;
        self.tables += 1;
        self.checked()
    }

    /// Declares the bindings that are `read_write` in the text, as bits. A text that differs does not compile.
    pub fn writes(mut self, bindings: u32) -> WgslKernel {
        self.written = bindings;
        self.checked()
    }

    /// Sets the freedom that Metal's compiler has with floating-point arithmetic.
    pub fn math(mut self, math: Math) -> WgslKernel {
        self.math = math;
        self
    }

    /// Sets a version for Metal written by hand. It is used if the kernel is [unchecked](WgslKernel::unchecked).
    pub fn native_msl(mut self, msl: &'static NativeMsl) -> WgslKernel {
        self.msl = Some(msl);
        self.checked()
    }

    /// Removes the bounds checks of the translation. `facts` are words for `needs` besides parameters and grid, such as the
    /// bytes of an element.
    ///
    /// # Safety
    ///
    /// Assume parameters, grid and bound lengths for which `needs` returns needs, and bindings with at least those bytes. Then,
    /// for any contents of the bindings:
    ///
    /// - invocations touch only bytes that the needs state, and words that hold such bytes;
    /// - indices of workgroup memory and local arrays are in bounds, and no divisor is zero;
    /// - every loop ends.
    ///
    /// The same holds for the version for Metal and for the portable form.
    pub unsafe fn unchecked(mut self, needs: NeedsFn, facts: &[u32]) -> WgslKernel {
        self.needs = Some(WgslNeeds { function: needs, facts: SmallVec::from_slice(facts) });
        self
    }

    /// Restores the bounds checks.
    fn checked(self) -> WgslKernel {
        WgslKernel { needs: None, ..self }
    }

    /// Returns whether it is translated with bounds checks.
    pub fn is_checked(&self) -> bool {
        self.needs.is_none()
    }

    /// Returns its parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the values of `override` constants.
    pub fn constants(&self) -> &[(&'static str, u32)] {
        &self.constants
    }

    /// Returns the bindings that it writes, as bits.
    pub fn written(&self) -> u32 {
        self.written
    }

    /// Returns whether binding `i` is a table: it has no offset word.
    pub fn is_table(&self, i: usize) -> bool {
        (self.bindings.saturating_sub(self.tables) as usize..self.bindings as usize).contains(&i)
    }

    /// Returns the version for Metal written by hand.
    pub fn msl(&self) -> Option<&'static NativeMsl> {
        self.msl
    }

    /// Returns what a launch needs. Of a checked kernel this is only its access. Its bounds checks hold for bindings of at least the
    /// bytes of [`least_bytes`](crate::wgsl::least_bytes), which the core compares where it has the pipeline.
    pub(super) fn needs(&self, params: &[u32], grid: [u32; 3], bound: &[u64]) -> Option<Needs> {
        let access = |i: u32| {
            let written = 1u32.checked_shl(i).is_some_and(|bit| self.written & bit != 0);
            if written { Access::Write } else { Access::Read }
        };
        match &self.needs {
            Some(WgslNeeds { function, facts }) => {
                let needs = function(&LaunchShape { params, grid, bound, facts })?;
                let writes = |(need, i): (&BindingNeed, u32)| need.access.writes() == access(i).writes();
                needs.bindings().iter().zip(0..).all(writes).then_some(needs)
            }
            None => {
                Some((0..self.bindings).fold(Needs::new(), |needs, i| needs.and(access(i), 0u32, 1).over(!0)))
            }
        }
    }

    /// Returns the joined text. `enable` directives are moved to the top, as WGSL requires, without duplicates.
    pub fn source(&self) -> String {
        let mut enables: Vec<&str> = Vec::new();
        let mut body = String::new();
        for part in &self.parts {
            for line in part.snippet.text.lines() {
                if line.trim_start().starts_with("enable ") {
                    if !enables.contains(&line.trim()) {
                        enables.push(line.trim());
                    }
                } else {
                    body.push_str(
                        &line.replace("$NAME", part.name).replace("$BINDING", &part.binding.to_string()),
                    );
                    body.push('\n');
                }
            }
        }
        let mut text = enables.join("\n");
        text.push('\n');
        text.push_str(&body);
        text
    }
}
