//! Marks workgroup memory as shared, in modules with Vulkan's memory model.
//!
//! There, accesses of an invocation are private unless they are marked otherwise, and barriers order only the memory that they
//! name as available and visible. naga writes neither: every access of workgroup memory becomes
//! non-private here, and every barrier makes writes available and visible. Other modules stay as they are.

use super::strip::{HEADER, Instruction, Instructions, OP_TYPE_POINTER};
use rustc_hash::{FxHashMap, FxHashSet};

// Opcodes, storage classes and flags of the SPIR-V specification.
const OP_MEMORY_MODEL: u32 = 14;
const OP_CONSTANT: u32 = 43;
const OP_FUNCTION_PARAMETER: u32 = 55;
const OP_VARIABLE: u32 = 59;
const OP_LOAD: u32 = 61;
const OP_STORE: u32 = 62;
const OP_ACCESS_CHAIN: u32 = 65;
const OP_IN_BOUNDS_ACCESS_CHAIN: u32 = 66;
const OP_CONTROL_BARRIER: u32 = 224;
const OP_COOPERATIVE_MATRIX_LOAD: u32 = 4457;
const OP_COOPERATIVE_MATRIX_STORE: u32 = 4458;
const VULKAN: u32 = 3;
const CLASS_WORKGROUP: u32 = 4;
const NON_PRIVATE_POINTER: u32 = 0x20;
const MAKE_AVAILABLE_AND_VISIBLE: u32 = 0x2000 | 0x4000;

/// Returns the module with workgroup memory that is shared.
pub(super) fn share_memory(module: &[u32]) -> Vec<u32> {
    let (Some(found), [magic, version, generator, bound, schema]) =
        (WorkgroupVariables::of(module), module.get(..HEADER).unwrap_or(&[]))
    else {
        return module.to_vec();
    };
    let mut out = vec![*magic, *version, *generator, bound + found.semantics.len() as u32, *schema];
    for instruction in Instructions::of(module) {
        let from = out.len();
        out.extend_from_slice(instruction.words);
        match (instruction.opcode(), instruction.words) {
            (OP_CONSTANT, [head, kind, id, value]) => {
                if let Some(number) = found.semantics.get(id) {
                    out.extend([*head, *kind, bound + number, value | MAKE_AVAILABLE_AND_VISIBLE]);
                }
            }
            (OP_CONTROL_BARRIER, [.., semantics]) => {
                if let (Some(number), Some(last)) = (found.semantics.get(semantics), out.last_mut()) {
                    *last = bound + number;
                }
            }
            _ if found.is_shared(&instruction) => {
                out.push(NON_PRIVATE_POINTER);
                if let Some(head) = out.get_mut(from) {
                    // One word longer.
                    *head += 1 << 16;
                }
            }
            _ => {}
        }
    }
    out
}

/// Workgroup variables of a module with Vulkan's memory model.
struct WorkgroupVariables {
    /// Pointers to workgroup memory.
    pointers: FxHashSet<u32>,
    /// Ids of the constants for the memory that barriers order.
    semantics: FxHashMap<u32, u32>,
}

impl WorkgroupVariables {
    /// Nothing for modules with another memory model.
    fn of(module: &[u32]) -> Option<WorkgroupVariables> {
        let mut kinds = FxHashSet::default();
        let mut found =
            WorkgroupVariables { pointers: FxHashSet::default(), semantics: FxHashMap::default() };
        let mut is_vulkan = false;
        for instruction in Instructions::of(module) {
            match (instruction.opcode(), instruction.words) {
                (OP_MEMORY_MODEL, [_, _, model]) => is_vulkan = *model == VULKAN,
                (OP_TYPE_POINTER, [_, id, CLASS_WORKGROUP, _]) => {
                    kinds.insert(*id);
                }
                (
                    OP_VARIABLE | OP_FUNCTION_PARAMETER | OP_ACCESS_CHAIN | OP_IN_BOUNDS_ACCESS_CHAIN,
                    [_, kind, id, ..],
                ) if kinds.contains(kind) => {
                    found.pointers.insert(*id);
                }
                (OP_CONTROL_BARRIER, [.., semantics]) => {
                    let next = found.semantics.len() as u32;
                    found.semantics.entry(*semantics).or_insert(next);
                }
                _ => {}
            }
        }
        is_vulkan.then_some(found)
    }

    /// Returns whether an instruction reads or writes workgroup memory, without a word yet on how.
    fn is_shared(&self, instruction: &Instruction<'_>) -> bool {
        let pointer = match (instruction.opcode(), instruction.words) {
            (OP_LOAD, [_, _, _, pointer]) => pointer,
            (OP_STORE, [_, pointer, _]) => pointer,
            (OP_COOPERATIVE_MATRIX_LOAD, [_, _, _, pointer, _, _]) => pointer,
            (OP_COOPERATIVE_MATRIX_STORE, [_, pointer, _, _, _]) => pointer,
            _ => return false,
        };
        self.pointers.contains(pointer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::strip::assemble as op;
    use super::*;

    /// Returns a module of a memory model: pointers to workgroup memory (1) and to a function's (3).
    fn module(model: u32, bound: u32, rest: &[Vec<u32>]) -> Vec<u32> {
        let head = [
            vec![0x0723_0203, 0x0001_0600, 0, bound, 0],
            op(OP_MEMORY_MODEL, &[0, model]),
            op(OP_TYPE_POINTER, &[1, CLASS_WORKGROUP, 9]),
            op(OP_TYPE_POINTER, &[3, 7, 9]),
        ];
        [head.concat(), rest.concat()].concat()
    }

    #[test]
    fn workgroup_memory_is_shared_under_vulkans_memory_model_alone() {
        let semantics = op(OP_CONSTANT, &[8, 5, 0x108]);
        let pointers = [
            op(OP_ACCESS_CHAIN, &[1, 2, 6, 7]),
            op(OP_VARIABLE, &[3, 4, 7]),
            op(OP_FUNCTION_PARAMETER, &[1, 14]),
        ]
        .concat();
        let private = [op(OP_LOAD, &[9, 11, 4]), op(OP_STORE, &[4, 11])].concat();
        let barrier = |semantics: u32| op(OP_CONTROL_BARRIER, &[7, 7, semantics]);
        let accesses = |flag: &[u32]| {
            [
                op(OP_LOAD, &[&[9, 12, 2], flag].concat()),
                op(OP_STORE, &[&[2, 12], flag].concat()),
                op(OP_STORE, &[&[14, 12], flag].concat()),
                op(OP_COOPERATIVE_MATRIX_LOAD, &[&[9, 13, 2, 5, 5], flag].concat()),
                op(OP_COOPERATIVE_MATRIX_STORE, &[&[2, 13, 5, 5], flag].concat()),
            ]
            .concat()
        };
        let before =
            [semantics.clone(), pointers.clone(), private.clone(), accesses(&[]), barrier(5), barrier(5)];
        let told = op(OP_CONSTANT, &[8, 20, 0x6108]);
        let after =
            [semantics, told, pointers, private, accesses(&[NON_PRIVATE_POINTER]), barrier(20), barrier(20)];
        assert_eq!(share_memory(&module(VULKAN, 20, &before)), module(VULKAN, 21, &after));
        let simple = module(1, 20, &before);
        assert_eq!(share_memory(&simple), simple);
        assert_eq!(share_memory(&[1, 2]), [1, 2]);
    }
}
