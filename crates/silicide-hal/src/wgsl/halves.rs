//! Subnormal f16: asks the driver to keep them, in modules that convert f16.
//!
//! naga writes no execution modes of SPIR-V's float controls. Without them a driver may flush subnormal f16 to zero, though they
//! are normal as f32. Texts that convert by the device's own instruction declare an `override` whose name begins with [`OVERRIDE`].

use super::strip::{HEADER, Instructions};

/// The begin of the names of overrides that are 1 where a device keeps subnormal f16.
pub(super) const OVERRIDE: &str = "KEEPS_HALVES";

// Opcodes, capabilities and execution modes of the SPIR-V specification. Float controls are part of SPIR-V 1.4.
const OP_CAPABILITY: u32 = 17;
const OP_ENTRY_POINT: u32 = 15;
const OP_EXECUTION_MODE: u32 = 16;
const DENORM_PRESERVE_CAPABILITY: u32 = 4464;
const DENORM_PRESERVE: u32 = 4459;

/// Returns the module with subnormal numbers of 16 and of 64 bits kept: some devices have one mode for both.
pub(super) fn keep_subnormals(module: &[u32]) -> Vec<u32> {
    let mut out = module.get(..HEADER).unwrap_or(module).to_vec();
    out.extend([2 << 16 | OP_CAPABILITY, DENORM_PRESERVE_CAPABILITY]);
    let mut entry = None;
    for instruction in Instructions::of(module) {
        // Execution modes stand behind the last entry point.
        if instruction.opcode() != OP_ENTRY_POINT
            && let Some(entry) = entry.take()
        {
            for width in [16, 64] {
                out.extend([4 << 16 | OP_EXECUTION_MODE, entry, DENORM_PRESERVE, width]);
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
        let kept = keep_subnormals(&[header.clone(), shader.clone(), entry.clone(), size.clone()].concat());
        let capability = op(OP_CAPABILITY, &[DENORM_PRESERVE_CAPABILITY]);
        let modes = [16, 64].map(|width| op(OP_EXECUTION_MODE, &[7, DENORM_PRESERVE, width])).concat();
        assert_eq!(kept, [header, capability, shader, entry, modes, size].concat());
    }
}
