//! Block formats multiplied in integers: activations are quantized to 8 bits under a scale per 32.

use super::on_cpu;
use crate::matmul::{Matmul, Problem};
use crate::product::integer;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::DeviceInfo;
use silicide_quant::Encoding;

/// The kernel for all formats with integer products.
pub(in crate::matmul) struct IntegerMatmul;

/// The kernel.
pub(in crate::matmul) static INTEGER: IntegerMatmul = IntegerMatmul;

impl Kernel for IntegerMatmul {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        "matmul.integer.cpu"
    }

    fn fits(&self, op: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = on_cpu(io, on)?;
        if op.exact {
            return Err(Decline("quantizes activations"));
        }
        integer::check(&problem, Encoding::from(io.input(1).dtype)).map(|()| Cost::BEST)
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let encoding = Encoding::from(io.input(1).dtype);
        Problem::of(io).map_or(Plan::default(), |problem| integer::plan_quantizing(&problem, encoding, on))
    }
}
