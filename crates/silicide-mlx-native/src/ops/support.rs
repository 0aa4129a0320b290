//! Checks and steps that several functions share.

use crate::error::{MlxError, Result, refuse};
use crate::{DType, MlxBuffer};
use silicide::record::CommandEncoder as Recorder;
use silicide::{Buffer, DType as Element, Shape};

/// The result of a program.
pub(crate) type Recorded = std::result::Result<(), silicide::Error>;

/// Refuses an extent of zero.
pub(super) fn positive(what: &str, extents: &[(&str, usize)]) -> Result<()> {
    match extents.iter().find(|(_, extent)| *extent == 0) {
        Some((name, _)) => refuse!("{what}: {name} must be greater than zero"),
        None => Ok(()),
    }
}

/// Returns the product of extents.
pub(super) fn count(what: &str, extents: &[usize]) -> Result<usize> {
    let product = extents.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent));
    product.ok_or_else(|| MlxError::argument(format!("{what}: {extents:?} elements cannot be counted")))
}

/// Refuses a buffer of another type.
pub(super) fn typed(what: &str, name: &str, buffer: &MlxBuffer, dtype: DType) -> Result<()> {
    if buffer.dtype() != dtype {
        refuse!("{what}: {name} must be {dtype}, got {}", buffer.dtype());
    }
    Ok(())
}

/// Refuses a buffer of a type that is not a float.
pub(super) fn float(what: &str, name: &str, buffer: &MlxBuffer) -> Result<Element> {
    match buffer.dtype() {
        DType::F32 | DType::F16 | DType::BF16 => Ok(buffer.dtype().silicide()),
        other => refuse!("{what}: {name} must be f32, f16 or bf16, got {other}"),
    }
}

/// Refuses an output that shares bytes with an input.
pub(super) fn apart(what: &str, output: &MlxBuffer, inputs: &[(&str, &MlxBuffer)]) -> Result<()> {
    match inputs.iter().find(|(_, input)| input.overlaps(output)) {
        Some((name, _)) => refuse!("{what}: output must not overlap {name}"),
        None => Ok(()),
    }
}

/// A shape of silicide; an error of a program.
pub(super) fn shape(axes: &[usize]) -> std::result::Result<Shape, silicide::Error> {
    Shape::new(axes).map_err(|error| silicide::Error::bad_shape("mlx_native", error))
}

/// The same elements under other extents.
pub(super) fn reshaped(buffer: &Buffer, axes: &[usize]) -> std::result::Result<Buffer, silicide::Error> {
    buffer.reshape(shape(axes)?)
}

/// Converts `from` into `to`, which may have the same type.
pub(super) fn cast_into(recorder: &mut Recorder, from: &Buffer, to: &Buffer) -> Recorded {
    use silicide::Recorder as _;
    recorder.run_into(silicide::ops::cast::Cast { to: to.dtype() }, &[from], &[to])
}

/// The values in f32: the tensor itself where they are.
pub(super) fn wide(recorder: &mut Recorder, x: &Buffer) -> std::result::Result<Buffer, silicide::Error> {
    if x.dtype() == Element::F32 { Ok(x.clone()) } else { silicide::ops::cast(recorder, x, Element::F32) }
}

/// Declares a function that does nothing: silicide has no kernels to register.
macro_rules! register {
    () => {
        /// Does nothing: kernels need no registration.
        pub fn register(_registry: &mut crate::KernelRegistry) {}
    };
}
pub(super) use register;
