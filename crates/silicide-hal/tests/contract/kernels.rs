//! The kernels of the contract tests, in WGSL and as native functions. Both forms have the same bindings, parameter words and
//! grid, so a test dispatches them alike.

#![allow(dead_code, reason = "a test program uses the form that its backend runs")]

use silicide_hal::{NativeKernel, Part, Program, Snippet, Tile, WgslKernel};

/// Elements of `TestKernel::Add` that one workgroup, or tile, adds.
pub(crate) const ADD_WORKGROUP: u32 = 64;

/// A kernel of the contract tests. Parameters begin with the first element of each binding.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TestKernel {
    /// `x[i] = x[i] * factor + term + i` in u32, one workgroup per element. `i` is the position in the grid, x fastest.
    /// Binding: x. Parameters: start of x, factor, term, width and height of the grid.
    Affine,
    /// `z[i] = x[i] + y[i]` in f32, for `i < count`. Bindings: x, y, z. Parameters: starts of x, y, z; count.
    Add,
    /// Computes for a while and stores a word, one workgroup per word. Binding: x. Parameters: start of x, rounds. Software
    /// devices end loops after 65,535 rounds, so long work is many words.
    Spin,
}

static AFFINE: Snippet = Snippet {
    name: "affine",
    text: "
struct Params { at_x: u32, factor: u32, term: u32, width: u32, height: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) id: vec3<u32>) {
    let i = (id.z * p.height + id.y) * p.width + id.x;
    x[p.at_x + i] = x[p.at_x + i] * p.factor + p.term + i;
}",
};

static ADD: Snippet = Snippet {
    name: "add",
    text: "
override WG: u32 = 64u;
struct Params { at_x: u32, at_y: u32, at_z: u32, count: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> z: array<f32>;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.count { z[p.at_z + id.x] = x[p.at_x + id.x] + y[p.at_y + id.x]; }
}",
};

static SPIN: Snippet = Snippet {
    name: "spin",
    text: "
struct Params { at_x: u32, rounds: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) id: vec3<u32>) {
    var a = id.x;
    for (var i = 0u; i < p.rounds; i++) { a = (a ^ (a << 13u)) + i; a = a ^ (a >> 17u); }
    x[p.at_x + id.x] = a;
}",
};

/// Returns a kernel in WGSL.
pub(crate) fn wgsl(kernel: TestKernel) -> WgslKernel {
    match kernel {
        TestKernel::Affine => WgslKernel::new("affine", &[Part::plain(&AFFINE)], 1, 4),
        TestKernel::Add => WgslKernel::new("add", &[Part::plain(&ADD)], 3, 1).constant("WG", ADD_WORKGROUP),
        TestKernel::Spin => WgslKernel::new("spin", &[Part::plain(&SPIN)], 1, 1),
    }
}

/// A native program with one portable variant.
macro_rules! native_program {
    ($name:literal, $entry:expr) => {
        $crate::contract::kernels::native_program!($name, $entry, 0)
    };
    ($name:literal, $entry:expr, $workspace:expr) => {{
        // SAFETY: `needs` accepts no launch; each test dispatches it over memory that it stays inside.
        static KERNEL: silicide_hal::NativeKernel = unsafe {
            silicide_hal::NativeKernel::new(
                $name,
                |_| None,
                &[silicide_hal::NativeVariant { isa: silicide_hal::cpu::Isa::Portable, entry: $entry }],
            )
        }
        .with_workspace($workspace);
        silicide_hal::Program::Native(&KERNEL)
    }};
}
#[allow(unused_imports, reason = "for tests of native kernels")]
pub(crate) use native_program;

/// Returns a kernel as a native function.
pub(crate) fn native(kernel: TestKernel) -> Program {
    match kernel {
        TestKernel::Affine => native_program!("affine", affine),
        TestKernel::Add => native_program!("add", add),
        TestKernel::Spin => native_program!("spin", spin),
    }
}

/// See [`TestKernel::Affine`].
///
/// # Safety
/// Binding 0 holds a u32 for every position of the grid.
unsafe fn affine(tile: &Tile<'_>) {
    let [x, y, z] = tile.index;
    let [at_x, factor, term, width, height] = [0, 1, 2, 3, 4].map(|word| tile.param(word));
    let i = (z * height + y) * width + x;
    let at = (at_x + i) as usize;
    // SAFETY: inside the binding, and the element belongs to this tile alone.
    let element = unsafe { &mut tile.write::<u32>(0, at..at + 1)[0] };
    *element = element.wrapping_mul(factor).wrapping_add(term).wrapping_add(i);
}

/// See [`TestKernel::Add`].
///
/// # Safety
/// Bindings hold `count` f32 from their starts on.
unsafe fn add(tile: &Tile<'_>) {
    let [at_x, at_y, at_z, count] = [0, 1, 2, 3].map(|word| tile.param(word) as usize);
    let first = (tile.index[0] * ADD_WORKGROUP) as usize;
    let len = count.saturating_sub(first).min(ADD_WORKGROUP as usize);
    let range = |at: usize| at + first..at + first + len;
    // SAFETY: the ranges end before `count`; the range of z belongs to this tile alone.
    unsafe {
        let (x, y) = (tile.read_part::<f32>(0, range(at_x)), tile.read_part::<f32>(1, range(at_y)));
        for (z, (x, y)) in tile.write::<f32>(2, range(at_z)).iter_mut().zip(x.iter().zip(y)) {
            *z = x + y;
        }
    }
}

/// See [`TestKernel::Spin`].
///
/// # Safety
/// Binding 0 holds a u32 for every position of the grid.
unsafe fn spin(tile: &Tile<'_>) {
    let mut a = tile.index[0];
    for i in 0..tile.param(1) {
        a = (a ^ (a << 13)).wrapping_add(i);
        a ^= a >> 17;
    }
    let at = (tile.param(0) + tile.index[0]) as usize;
    // SAFETY: inside the binding, and the element belongs to this tile alone.
    unsafe { tile.write::<u32>(0, at..at + 1)[0] = a };
}

/// A native program without any variant.
pub(crate) fn native_without_variants() -> Program {
    // SAFETY: it has no function.
    static EMPTY: NativeKernel = unsafe { NativeKernel::new("no_variant", |_| None, &[]) };
    Program::Native(&EMPTY)
}

/// A WGSL program that uses a name that does not exist: `missing`.
pub(crate) fn broken_wgsl() -> Program {
    static BROKEN: Snippet =
        Snippet { name: "broken", text: "@compute @workgroup_size(1)\nfn main() { let a = missing; }" };
    Program::Wgsl(WgslKernel::new("broken", &[Part::plain(&BROKEN)], 0, 0))
}
