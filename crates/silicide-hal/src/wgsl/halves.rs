//! SPIR-V's float controls for f16, which naga does not write: subnormal numbers are kept, and conversions round to nearest even.
//!
//! Without these modes a driver may flush subnormal f16 to zero, though they are normal as f32, and may make the largest f16 of an f32
//! above it. Rounding to nearest even makes infinity of it. Texts that widen f16 by the device's own instruction declare an `override`
//! whose name begins with [`OVERRIDE`].

use super::strip::{HEADER, Instructions};

/// The begin of the names of overrides that are 1 where a device keeps subnormal f16.
pub(super) const OVERRIDE: &str = "KEEPS_HALVES";

// Opcodes, capabilities and execution modes of the SPIR-V specification. Float controls are part of SPIR-V 1.4.
const OP_CAPABILITY: u32 = 17;
const OP_ENTRY_POINT: u32 = 15;
const OP_EXECUTION_MODE: u32 = 16;

/// A mode of float controls, for some widths.
pub(super) struct FloatControl {
    capability: u32,
    mode: u32,
    widths: &'static [u32],
}

/// Subnormal numbers of 16 and of 64 bits are kept: some devices have one mode for both.
pub(super) const DENORM_PRESERVE: FloatControl =
    FloatControl { capability: 4464, mode: 4459, widths: &[16, 64] };
/// Conversions round to nearest even, of all widths: some devices have one mode for all.
pub(super) const ROUND_TO_EVEN: FloatControl =
    FloatControl { capability: 4467, mode: 4462, widths: &[16, 32, 64] };

/// Returns the module with modes of float controls.
pub(super) fn with_float_controls(module: &[u32], controls: &[FloatControl]) -> Vec<u32> {
    let mut out = module.get(..HEADER).unwrap_or(module).to_vec();
    for control in controls {
        out.extend([2 << 16 | OP_CAPABILITY, control.capability]);
    }
    let mut entry = None;
    for instruction in Instructions::of(module) {
        // Execution modes stand behind the last entry point.
        if instruction.opcode() != OP_ENTRY_POINT
            && let Some(entry) = entry.take()
        {
            for FloatControl { mode, widths, .. } in controls {
                for &width in *widths {
                    out.extend([4 << 16 | OP_EXECUTION_MODE, entry, *mode, width]);
                }
            }
        }
        if instruction.opcode() == OP_ENTRY_POINT {
            entry = instruction.operand(1);
        }
        out.extend_from_slice(instruction.words);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::strip::assemble as op;
    use super::*;

    #[test]
    fn modes_follow_the_entry_point() {
        let header = vec![0x0723_0203, 0x0001_0600, 0, 9, 0];
        let shader = op(OP_CAPABILITY, &[1]);
        let entry = op(OP_ENTRY_POINT, &[5, 7, 0x6e69_616d, 0]);
        let size = op(OP_EXECUTION_MODE, &[7, 17, 64, 1, 1]);
        let module = [header.clone(), shader.clone(), entry.clone(), size.clone()].concat();
        let controlled = with_float_controls(&module, &[DENORM_PRESERVE, ROUND_TO_EVEN]);
        let capabilities = [4464, 4467].map(|capability| op(OP_CAPABILITY, &[capability])).concat();
        let modes = [(4459, 16), (4459, 64), (4462, 16), (4462, 32), (4462, 64)];
        let modes = modes.map(|(mode, width)| op(OP_EXECUTION_MODE, &[7, mode, width])).concat();
        assert_eq!(controlled, [header, capabilities, shader, entry, modes, size].concat());
    }

    #[test]
    fn a_module_without_controls_is_unchanged() {
        let module = [vec![0x0723_0203, 0x0001_0600, 0, 9, 0], op(OP_CAPABILITY, &[1])].concat();
        assert_eq!(with_float_controls(&module, &[]), module);
    }
}
