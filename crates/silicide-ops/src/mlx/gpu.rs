//! MLX weights on GPUs: the parts that read them, and their windows.

use crate::wgsl;
use silicide_hal::{Count, Needs, Part, Snippet, WgslKernel};
use silicide_quant::{MlxFormat, MlxMode};
use smallvec::{SmallVec, smallvec};

static AFFINE: Snippet = decoder(MlxMode::Affine);
static MXFP4: Snippet = decoder(MlxMode::Mxfp4);
static MXFP8: Snippet = decoder(MlxMode::Mxfp8);
static NVFP4: Snippet = decoder(MlxMode::Nvfp4);

const fn decoder(mode: MlxMode) -> Snippet {
    Snippet { name: mode.name(), text: mode.wgsl() }
}

/// The decoder of a format's codes.
fn codes(format: MlxFormat) -> &'static Snippet {
    match format.mode() {
        MlxMode::Mxfp4 => &MXFP4,
        MlxMode::Mxfp8 => &MXFP8,
        MlxMode::Nvfp4 => &NVFP4,
        _ => &AFFINE,
    }
}

/// The names of a weight in texts: its planes, and the constants of its format.
#[derive(Debug)]
pub(crate) struct WeightNames {
    pub(crate) planes: [&'static str; 3],
    pub(crate) constants: [&'static str; 2],
}

/// The names of a weight's planes and constants.
macro_rules! weight_names {
    ($name:literal) => {
        $crate::mlx::gpu::WeightNames {
            planes: [$name, concat!($name, "_scales"), concat!($name, "_biases")],
            constants: [concat!("BITS_", $name), concat!("GROUP_", $name)],
        }
    };
}
pub(crate) use weight_names;

/// The weight `b`.
pub(crate) static B: WeightNames = weight_names!("b");

/// Texts that read each plane.
pub(crate) fn snippets(format: MlxFormat) -> SmallVec<[&'static Snippet; 3]> {
    let scales = plane(format);
    if format.has_biases() {
        smallvec![codes(format), scales, scales]
    } else {
        smallvec![codes(format), scales]
    }
}

/// Parts that define `load_b`, `eight_b`, `sixteen_b` and `SPREAD_b`, with planes bound from `first` on.
pub(crate) fn parts(format: MlxFormat, first: u32) -> SmallVec<[Part; 3]> {
    let planes = snippets(format).into_iter().zip(B.planes).zip(first..);
    planes.map(|((text, name), binding)| Part::bound(text, name, binding)).collect()
}

/// How scales are read: as floats, or as bytes that the format makes sense of.
fn plane(format: MlxFormat) -> &'static Snippet {
    let dtype = format.scale_dtype();
    wgsl::load(dtype).unwrap_or(wgsl::load_bits(dtype))
}

/// Returns the alignment that each plane needs where the texts read codes apart from scales, which is that of its type; `None` if
/// they can't.
pub(crate) fn codes_alignment(format: MlxFormat) -> Option<u32> {
    (format.mode() == MlxMode::Affine && [4, 8].contains(&format.bits())).then_some(1)
}

/// The kernel with what the format's text leaves open.
pub(crate) fn with_constants(kernel: WgslKernel, format: MlxFormat, names: &WeightNames) -> WgslKernel {
    let [bits, group] = names.constants;
    kernel.constant(bits, format.bits() as u32).constant(group, format.group() as u32)
}

/// Adds the planes of `elements` to the needs of a program; `None` where they end inside a group.
pub(crate) fn read_planes(needs: Needs, format: MlxFormat, elements: Count) -> Option<Needs> {
    let (group, size) = (format.group() as u64, format.scale_dtype().size());
    if !elements.0.is_multiple_of(group) {
        return None;
    }
    let scales = Count(elements.0 / group) * size;
    let needs = needs.read(Count(elements.0 / 8) * format.bits(), size_of::<u32>()).read(scales, size);
    Some(if format.has_biases() { needs.read(scales, size) } else { needs })
}
