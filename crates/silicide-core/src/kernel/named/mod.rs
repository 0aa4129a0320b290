//! Kernels that programs register by name at run time, and calls of them.
//!
//! A text is WGSL, so registering is safe. It is parsed, compared with what the program declares and with the limits of the device,
//! and compiled when it is registered. Three facts keep it inside its bindings:
//!
//! 1. It runs with bounds checks, which clamp an index to the length of its type, or to the last element of a runtime array.
//! 2. A call binds at least the bytes of that type; a runtime array counts as one element.
//! 3. It has no subgroup matrices: bounds checks leave their loads and stores alone.
//!
//! Texts stay in memory until the process ends, each once. That is the case for a text that is valid and that the device refuses too; an
//! invalid one, and one under a name that is taken, leave nothing.

mod call;
mod kept;

pub use call::KernelCall;
pub(crate) use kept::intern_label;

use super::op::Slot;
use crate::error::{Error, Result};
use kept::{Kept, LaunchLayout, intern, keep};
use silicide_hal::{
    Access, DeviceInfo, HalError, Math, NativeKernel, NativeMsl, NeedsFn, Part, Program, Snippet, WgslKernel,
};
use smallvec::SmallVec;
use std::fmt;

/// A kernel as text, with what it declares.
///
/// `var<immediate>` begins with three `u32`: the number of threads along each axis. The `param_bytes` parameter bytes follow. A text
/// without parameters may leave the variable out. Workgroup memory has any values at first.
#[derive(Clone, Copy, Debug)]
pub struct KernelText<'a> {
    /// The name to register it under.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
    /// The entry point, of those in the text.
    pub entry: &'a str,
    /// The access of each `@binding` of group 0, in order. A written binding counts as read too: the kernel may leave bytes as they are.
    pub bindings: &'a [Access],
    /// Bytes of the parameters, a multiple of 4.
    pub param_bytes: usize,
}

/// What a WGSL text declares by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextInterface {
    /// The access of each binding, in order.
    pub bindings: Vec<Access>,
    /// Bytes of the parameters, with those that pad their structure.
    pub param_bytes: usize,
}

/// What a kernel in the Metal Shading Language needs besides its text.
#[derive(Clone, Copy, Debug)]
pub struct MslLaunch<'a> {
    /// Threads of a threadgroup along each axis.
    pub workgroup: [u32; 3],
    /// Bytes of each piece of threadgroup memory that is an argument.
    pub threadgroup_bytes: &'a [u32],
    /// Returns what a launch needs of its bindings. Its parameter words are those of `var<immediate>` of a [`KernelText`].
    pub needs: NeedsFn,
}

/// The extent of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    /// The number of threads along each axis. Workgroups are whole, so the last one of an axis may have more threads: the kernel
    /// compares `global_invocation_id` with the numbers that its parameters begin with. A thread of a native function is a tile, and
    /// there are exactly as many.
    Threads([u32; 3]),
    /// The number of workgroups along each axis; for a native function, of tiles.
    Workgroups([u32; 3]),
}

/// A kernel that was registered. It lives until the process ends.
pub(crate) struct Registered {
    name: &'static str,
    text: &'static str,
    entry: &'static str,
    bindings: &'static [Access],
    param_bytes: usize,
    /// The least bytes of each binding: the size of its type in WGSL, otherwise 0.
    least_bytes: SmallVec<[u32; 8]>,
    /// Words of `var<immediate>`, or 0.
    words: usize,
    workgroup: [u32; 3],
    program: Program,
    /// Inputs, then outputs.
    slots: &'static [Slot],
    /// The slot of each binding.
    order: SmallVec<[u8; 8]>,
}

/// A registered kernel. [`KernelRegistry::named`](super::KernelRegistry::named) finds it by its name.
#[derive(Clone, Copy)]
pub struct NamedKernel(&'static Registered);

impl PartialEq for NamedKernel {
    fn eq(&self, other: &NamedKernel) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
impl Eq for NamedKernel {}

impl fmt::Debug for NamedKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedKernel({})", self.0.name)
    }
}

/// What errors about a registration name.
const REGISTER: &str = "register kernel";

impl NamedKernel {
    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// Returns the access of each binding.
    pub fn bindings(&self) -> &'static [Access] {
        self.0.bindings
    }

    /// Returns the bytes of its parameters.
    pub fn param_bytes(&self) -> usize {
        self.0.param_bytes
    }

    /// Returns a call with these parameter bytes.
    pub fn call(&self, params: &[u8], grid: Grid) -> Result<KernelCall> {
        let Registered { name, param_bytes, words, workgroup, .. } = *self.0;
        if params.len() != param_bytes {
            return Err(Error::SizeMismatch { what: name, expected: param_bytes, got: params.len() });
        }
        let sizes = |count: [u32; 3], size: fn(u32, u32) -> Option<u32>| -> Option<[u32; 3]> {
            let [x, y, z] = count;
            Some([size(x, workgroup[0])?, size(y, workgroup[1])?, size(z, workgroup[2])?])
        };
        let extents = match grid {
            Grid::Threads(threads) => {
                let groups =
                    |threads: u32, size: u32| (threads > 0 && size > 0).then(|| threads.div_ceil(size));
                sizes(threads, groups).map(|groups| (threads, groups))
            }
            Grid::Workgroups(groups) => {
                let threads =
                    |groups: u32, size: u32| groups.checked_mul(size).filter(|threads| *threads > 0);
                sizes(groups, threads).map(|threads| (threads, groups))
            }
        };
        let Some((threads, grid)) = extents else {
            let what = format!(
                "a grid of {grid:?}, expected at least one thread and at most {} along each axis",
                u32::MAX
            );
            return Err(Error::BadParameter { op: name, what });
        };
        let own = params.chunks_exact(4).filter_map(|word| word.try_into().ok()).map(u32::from_le_bytes);
        let words = match &self.0.program {
            Program::Native(_) => own.collect(),
            // Structures are padded: the words that the text has behind its parameters are zero.
            Program::Wgsl(_) => {
                threads.into_iter().chain(own).chain(std::iter::repeat(0)).take(words).collect()
            }
        };
        Ok(KernelCall { kernel: *self, words, grid })
    }

    /// Returns whether it was made of this text, with the same declarations.
    pub(crate) fn is_of(&self, text: &KernelText<'_>) -> bool {
        let kept = self.0;
        (kept.name, kept.text, kept.entry) == (text.name, text.text, text.entry)
            && (kept.bindings, kept.param_bytes) == (text.bindings, text.param_bytes)
    }

    /// The program, to be compiled.
    pub(crate) fn program(&self) -> &'static Program {
        &self.0.program
    }

    /// Makes a kernel of a WGSL text.
    #[cfg(any(feature = "vulkan", feature = "metal"))]
    pub(crate) fn of_text(device: &DeviceInfo, text: &KernelText<'_>) -> Result<NamedKernel> {
        check_declaration(text)?;
        let failed = |error| Error::device(&device.id, error);
        let declared = silicide_hal::wgsl::interface_of(text.name, text.text, text.entry).map_err(failed)?;
        let refuse =
            |what: String| Err(Error::BadParameter { op: REGISTER, what: format!("{}: {what}", text.name) });
        if let Err(what) = declared.check_workgroup(&device.limits) {
            return refuse(what);
        }
        let writes = |bindings: &[Access]| bindings.iter().map(|access| access.writes()).collect::<Vec<_>>();
        if writes(&declared.bindings) != writes(text.bindings) {
            let (got, expected) = (&declared.bindings, text.bindings);
            return refuse(format!("the text has bindings {got:?}, declared are {expected:?}"));
        }
        let (room, needed) = (declared.immediate_bytes as usize, 12 + text.param_bytes);
        // Structures are padded to 16 bytes at most.
        let is_left_out = room == 0 && text.param_bytes == 0;
        let fits = is_left_out || (needed..needed + 16).contains(&room);
        if !fits || !room.is_multiple_of(4) {
            return refuse(format!(
                "var<immediate> has {room} bytes, expected {needed}: the threads along three axes, and {} bytes of parameters",
                text.param_bytes
            ));
        }
        let make = |kept: &Kept| {
            let parts = [Part::plain(kept.snippet())];
            let kernel =
                WgslKernel::new(kept.name, &parts, kept.bindings.len() as u32, 0).with_entry(kept.entry);
            Program::Wgsl(kernel.writes(written(kept.bindings)).without_offsets(room as u32 / 4))
        };
        let is_text = |known: &Program| matches!(known, Program::Wgsl(kernel) if kernel.msl().is_none());
        Ok(keep(
            text,
            LaunchLayout {
                workgroup: declared.workgroup,
                words: room / 4,
                least_bytes: &declared.least_bytes,
            },
            is_text,
            make,
        ))
    }

    /// Refuses: without a GPU backend nothing reads WGSL.
    #[cfg(not(any(feature = "vulkan", feature = "metal")))]
    pub(crate) fn of_text(device: &DeviceInfo, text: &KernelText<'_>) -> Result<NamedKernel> {
        Err(Error::device(&device.id, no_text(text.name)))
    }

    /// Returns what an entry point of a text declares.
    #[cfg(any(feature = "vulkan", feature = "metal"))]
    pub(crate) fn interface(device: &DeviceInfo, [name, text, entry]: [&str; 3]) -> Result<TextInterface> {
        let declared = silicide_hal::wgsl::interface_of(name, text, entry);
        let declared = declared.map_err(|error| Error::device(&device.id, error))?;
        let param_bytes = (declared.immediate_bytes as usize).saturating_sub(12);
        Ok(TextInterface { bindings: declared.bindings, param_bytes })
    }

    /// Refuses: without a GPU backend nothing reads WGSL.
    #[cfg(not(any(feature = "vulkan", feature = "metal")))]
    pub(crate) fn interface(device: &DeviceInfo, [name, ..]: [&str; 3]) -> Result<TextInterface> {
        Err(Error::device(&device.id, no_text(name)))
    }

    /// Makes a kernel of text in the Metal Shading Language. WGSL that touches nothing stands for its interface.
    ///
    /// # Safety
    /// As [`WgslKernel::unchecked`] of the text.
    pub(crate) unsafe fn of_msl(text: &KernelText<'_>, launch: &MslLaunch<'_>) -> Result<NamedKernel> {
        check_declaration(text)?;
        if launch.workgroup.contains(&0) {
            let what = format!("{}: a threadgroup of {:?} threads", text.name, launch.workgroup);
            return Err(Error::BadParameter { op: REGISTER, what });
        }
        let words = 3 + text.param_bytes / 4;
        let make = |kept: &Kept| {
            let msl: &'static NativeMsl = Box::leak(Box::new(NativeMsl {
                entry: kept.entry,
                text: kept.text,
                threadgroup_bytes: Box::leak(launch.threadgroup_bytes.into()),
                language: (3, 0),
                simdgroup_matrix: false,
            }));
            let interface = intern(&interface_text(kept.bindings, words, launch.workgroup));
            let snippet: &'static Snippet = Box::leak(Box::new(Snippet { name: kept.name, text: interface }));
            let kernel = WgslKernel::new(kept.name, &[Part::plain(snippet)], kept.bindings.len() as u32, 0);
            let kernel = kernel.writes(written(kept.bindings)).without_offsets(words as u32);
            // SAFETY: the caller states it for the text (`# Safety`), and the WGSL touches nothing.
            Program::Wgsl(unsafe { kernel.math(Math::Exact).native_msl(msl).unchecked(launch.needs, &[]) })
        };
        let is_same = |known: &Program| {
            let msl = if let Program::Wgsl(kernel) = known { kernel.msl() } else { None };
            msl.is_some_and(|msl| msl.threadgroup_bytes == launch.threadgroup_bytes)
        };
        Ok(keep(text, LaunchLayout { workgroup: launch.workgroup, words, least_bytes: &[] }, is_same, make))
    }

    /// Makes a kernel of a native function.
    pub(crate) fn of_native(
        name: &str,
        function: &'static NativeKernel,
        bindings: &[Access],
        param_bytes: usize,
    ) -> Result<NamedKernel> {
        let text = KernelText { name, text: "", entry: function.name, bindings, param_bytes };
        check_declaration(&text)?;
        let program = Program::Native(function);
        let layout = LaunchLayout { workgroup: [1; 3], words: param_bytes / 4, least_bytes: &[] };
        Ok(keep(&text, layout, |known| *known == program, |_| Program::Native(function)))
    }
}

/// The error of registering text on a device that runs none.
pub(crate) fn no_text(name: &str) -> HalError {
    let detail = "the CPU runs no WGSL and no MSL; register a native function (register_native)".to_owned();
    HalError::Compile { label: name.to_owned(), detail }
}

fn check_declaration(text: &KernelText<'_>) -> Result<()> {
    let refuse = |what: String| Err(Error::BadParameter { op: REGISTER, what });
    let (name, count, bytes) = (text.name, text.bindings.len(), text.param_bytes);
    if name.is_empty() {
        return refuse("the name is empty".to_owned());
    }
    if count == 0 || count > u32::BITS as usize {
        return refuse(format!("{name}: {count} bindings, expected 1 to {}", u32::BITS));
    }
    if !bytes.is_multiple_of(4) || bytes > 4096 {
        return refuse(format!(
            "{name}: {bytes} bytes of parameters, expected whole words and at most 4096 bytes"
        ));
    }
    Ok(())
}

/// The bindings that are written, as bits.
fn written(bindings: &[Access]) -> u32 {
    let bits = bindings.iter().take(32).enumerate().filter(|(_, access)| access.writes());
    bits.fold(0, |bits, (i, _)| bits | 1 << i)
}

/// WGSL with these bindings, parameter words and workgroup that touches nothing.
fn interface_text(bindings: &[Access], words: usize, workgroup: [u32; 3]) -> String {
    use fmt::Write;
    let mut text = String::from("struct Params { ");
    // Writing to a string never fails.
    for i in 0..words {
        let _ = write!(text, "w{i}: u32, ");
    }
    text.push_str("}\nvar<immediate> p: Params;\n");
    for (i, access) in bindings.iter().enumerate() {
        let access = if access.writes() { "read_write" } else { "read" };
        let _ = writeln!(text, "@group(0) @binding({i}) var<storage, {access}> b{i}: array<u32>;");
    }
    let [x, y, z] = workgroup;
    let _ = writeln!(text, "@compute @workgroup_size({x}, {y}, {z}) fn main() {{ }}");
    text
}

#[cfg(all(test, any(feature = "vulkan", feature = "metal")))]
mod tests {
    use super::*;
    use silicide_hal::wgsl::{MslTarget, msl_for};

    #[test]
    fn msl_by_name_has_the_slots_that_it_declares() {
        let bindings = &[Access::Read, Access::ReadWrite];
        let text = "kernel void twice() {}";
        let text = KernelText { name: "twice", text, entry: "twice", bindings, param_bytes: 8 };
        let launch = MslLaunch { workgroup: [32, 2, 1], threadgroup_bytes: &[20], needs: |_| None };
        // SAFETY: it is translated, and never run.
        let kernel = unsafe { NamedKernel::of_msl(&text, &launch) }.unwrap();
        let Program::Wgsl(program) = kernel.program() else { panic!("{kernel:?}") };
        let msl = msl_for(program, &MslTarget { language: (3, 0), simdgroup_matrix: false }).unwrap();
        assert!(msl.source.ends_with(text.text));
        assert_eq!((msl.entry.as_str(), msl.workgroup, msl.params_slot), ("twice", [32, 2, 1], 2));
        assert_eq!((program.words, msl.threadgroup_bytes), (5, vec![32]));
    }

    #[test]
    fn the_same_registration_is_kept_once() {
        let of = |name| KernelText {
            name,
            text: "kernel void f() {}",
            entry: "f",
            bindings: &[Access::Read],
            param_bytes: 0,
        };
        let launch = MslLaunch { workgroup: [1; 3], threadgroup_bytes: &[], needs: |_| None };
        // SAFETY: nothing runs.
        let make = |name| unsafe { NamedKernel::of_msl(&of(name), &launch) }.unwrap();
        assert_eq!(make("kept"), make("kept"));
        assert_ne!(make("kept"), make("other"));
    }
}
