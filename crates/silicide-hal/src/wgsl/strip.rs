//! Removes explicit layout from types that no buffer holds.
//!
//! naga decorates every array and struct with strides and offsets. Vulkan allows those only on types reachable from
//! a buffer or the push constants; on types used for workgroup or function memory alone they are invalid
//! (VUID-StandaloneSpirv-None-10684) and some drivers refuse the module. A type used in both places keeps its layout.

use rustc_hash::{FxHashMap, FxHashSet};

/// Words of a SPIR-V header.
pub(super) const HEADER: usize = 5;

// Opcodes, storage classes and decorations of the SPIR-V specification.
const OP_TYPE_ARRAY: u32 = 28;
const OP_TYPE_RUNTIME_ARRAY: u32 = 29;
const OP_TYPE_STRUCT: u32 = 30;
pub(super) const OP_TYPE_POINTER: u32 = 32;
const OP_DECORATE: u32 = 71;
const OP_MEMBER_DECORATE: u32 = 72;
const CLASS_UNIFORM: u32 = 2;
const CLASS_PUSH_CONSTANT: u32 = 9;
const CLASS_STORAGE_BUFFER: u32 = 12;
const ROW_MAJOR: u32 = 4;
const COLUMN_MAJOR: u32 = 5;
const ARRAY_STRIDE: u32 = 6;
const MATRIX_STRIDE: u32 = 7;
const OFFSET: u32 = 35;

/// The instructions of a module, each with its opcode and operands; stops where the module is malformed.
pub(super) struct Instructions<'a> {
    rest: &'a [u32],
}

/// One instruction.
pub(super) struct Instruction<'a> {
    /// All its words.
    pub(super) words: &'a [u32],
}

impl Instruction<'_> {
    pub(super) fn opcode(&self) -> u32 {
        self.words.first().copied().unwrap_or(0) & 0xffff
    }

    /// Operand `i`, the first word after the opcode being 0.
    pub(super) fn operand(&self, i: usize) -> Option<u32> {
        self.words.get(i + 1).copied()
    }
}

impl<'a> Instructions<'a> {
    pub(super) fn of(module: &'a [u32]) -> Instructions<'a> {
        Instructions { rest: module.get(HEADER..).unwrap_or(&[]) }
    }

    /// True when every word belongs to an instruction that has been read.
    pub(super) fn is_finished(&self) -> bool {
        self.rest.is_empty()
    }
}

impl<'a> Iterator for Instructions<'a> {
    type Item = Instruction<'a>;

    fn next(&mut self) -> Option<Instruction<'a>> {
        let length = (*self.rest.first()? >> 16) as usize;
        if length == 0 {
            return None;
        }
        let (words, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Instruction { words })
    }
}

/// Returns the module without layout on types that no buffer holds.
pub(super) fn strip_layout(module: &[u32]) -> Vec<u32> {
    let held = types_in_buffers(module);
    let mut out = module.get(..HEADER).unwrap_or(module).to_vec();
    for instruction in Instructions::of(module) {
        let decorated = instruction.operand(0).unwrap_or(0);
        let is_layout = match instruction.opcode() {
            OP_DECORATE => instruction.operand(1) == Some(ARRAY_STRIDE),
            OP_MEMBER_DECORATE => {
                matches!(instruction.operand(2), Some(OFFSET | MATRIX_STRIDE | ROW_MAJOR | COLUMN_MAJOR))
            }
            _ => false,
        };
        if !is_layout || held.contains(&decorated) {
            out.extend_from_slice(instruction.words);
        }
    }
    out
}

/// Types reachable from a pointer to memory that the host fills.
fn types_in_buffers(module: &[u32]) -> FxHashSet<u32> {
    let mut members: FxHashMap<u32, &[u32]> = FxHashMap::default();
    let mut open = Vec::new();
    for instruction in Instructions::of(module) {
        match (instruction.opcode(), instruction.words) {
            (OP_TYPE_ARRAY | OP_TYPE_RUNTIME_ARRAY, [_, id, element, ..]) => {
                members.insert(*id, std::slice::from_ref(element));
            }
            (OP_TYPE_STRUCT, [_, id, fields @ ..]) => {
                members.insert(*id, fields);
            }
            (OP_TYPE_POINTER, [_, _, class, pointee]) => {
                if matches!(*class, CLASS_UNIFORM | CLASS_PUSH_CONSTANT | CLASS_STORAGE_BUFFER) {
                    open.push(*pointee);
                }
            }
            _ => {}
        }
    }
    let mut held = FxHashSet::default();
    while let Some(id) = open.pop() {
        if held.insert(id) {
            open.extend(members.get(&id).into_iter().copied().flatten());
        }
    }
    held
}

/// Returns the words of an instruction.
#[cfg(test)]
pub(super) fn assemble(opcode: u32, operands: &[u32]) -> Vec<u32> {
    let mut words = vec![(operands.len() as u32 + 1) << 16 | opcode];
    words.extend_from_slice(operands);
    words
}

#[cfg(test)]
mod tests {
    use super::assemble as op;
    use super::*;

    #[test]
    fn only_types_outside_buffers_lose_their_layout() {
        let (element, held_array, block, loose_array) = (1, 2, 3, 4);
        let header = vec![0x0723_0203, 0x0001_0600, 0, 9, 0];
        let kept = [
            op(OP_DECORATE, &[held_array, ARRAY_STRIDE, 4]),
            op(OP_MEMBER_DECORATE, &[block, 0, OFFSET, 0]),
            op(OP_DECORATE, &[loose_array, 33, 0]),
        ];
        let dropped = op(OP_DECORATE, &[loose_array, ARRAY_STRIDE, 4]);
        let types = [
            op(OP_TYPE_RUNTIME_ARRAY, &[held_array, element]),
            op(OP_TYPE_STRUCT, &[block, held_array]),
            op(OP_TYPE_ARRAY, &[loose_array, element, 8]),
            op(OP_TYPE_POINTER, &[5, CLASS_STORAGE_BUFFER, block]),
            op(OP_TYPE_POINTER, &[6, 4, loose_array]),
        ];
        let module = [header.clone(), kept.concat(), dropped, types.concat()].concat();
        assert_eq!(strip_layout(&module), [header, kept.concat(), types.concat()].concat());
    }

    #[test]
    fn a_malformed_module_ends_early() {
        assert_eq!(strip_layout(&[1, 2, 3]), [1, 2, 3]);
        let zero_length = [0, 0, 0, 0, 0, 0, 7];
        let mut instructions = Instructions::of(&zero_length);
        assert!(instructions.next().is_none() && !instructions.is_finished());
    }
}
