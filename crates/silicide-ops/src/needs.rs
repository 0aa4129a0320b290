//! Common code of the `needs` functions of programs: types by code, and bindings of a type.

use silicide_hal::{Access, Count, Needs};
use silicide_quant::DType;

/// Bytes of `elements` of a type; `None` where they end inside a block.
pub(crate) fn bytes(dtype: DType, elements: Count) -> Option<Count> {
    let length = dtype.block_len() as u64;
    elements.0.is_multiple_of(length).then(|| Count(elements.0 / length) * dtype.block_bytes())
}

/// Bindings of a type, as WGSL programs see them: offsets of compressed types count bytes.
pub(crate) trait TypedNeeds: Sized {
    /// Adds a binding of `elements`; `None` where they end inside a block.
    fn elements(self, access: Access, dtype: DType, elements: Count) -> Option<Self>;

    /// Adds the table that reading a type takes, if it does; it is bound last.
    fn table(self, dtype: DType) -> Self;
}

impl TypedNeeds for Needs {
    fn elements(self, access: Access, dtype: DType, elements: Count) -> Option<Needs> {
        let needs = self.and(access, bytes(dtype, elements)?, dtype.alignment());
        Some(if dtype.is_compressed() { needs.in_bytes() } else { needs })
    }

    fn table(self, dtype: DType) -> Needs {
        match crate::wgsl::table(dtype) {
            Some(words) => self.read(size_of_val(words), size_of::<u32>()),
            None => self,
        }
    }
}
