//! Weights of every block format, multiplied exactly by the product of decoded weights. A new format works here at once; faster kernels
//! come first in the list where there are some.

use super::on_cpu;
use crate::matmul::{Matmul, Problem};
use crate::product::decoded;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::DeviceInfo;
use silicide_quant::Encoding;

/// The kernel for every block format.
pub(in crate::matmul) struct Blocks;

/// The kernel for every block format.
pub(in crate::matmul) static BLOCKS: Blocks = Blocks;

impl Kernel for Blocks {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        "matmul.blocks.cpu"
    }

    fn fits(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        on_cpu(io, on)?;
        if io.input(1).dtype.is_block() { Ok(Cost::FALLBACK) } else { Err(Decline("is for block formats")) }
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let encoding = Encoding::from(io.input(1).dtype);
        Problem::of(io).map_or(Plan::default(), |problem| decoded::plan(&problem, encoding))
    }
}
