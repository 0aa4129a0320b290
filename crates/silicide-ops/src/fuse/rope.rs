//! Turning queries and keys, rotating heads, and writing to the cache: four to seven ops that become one.

use super::{is, made, rewrite};
use crate::cache_write::CacheWrite;
use crate::hadamard::Hadamard;
use crate::rope::Rope;
use crate::rope_cache::RopeCache;
use silicide_core::graph::{Fusion, Node, Operand};
use silicide_core::{ComputeGraph, Pass};
use std::sync::Arc;

/// How far apart the parts of a layer's attention may stand.
const NEAR: usize = 6;

/// `rope` of queries, `rope` of keys and `cache_write` of keys and of values become one `rope_cache`, with `hadamard` of queries and keys, and
/// of values, before the cache.
pub const ROPE_CACHE: Pass = Pass { name: "rope and cache write", run: |graph| Ok(rewrite(graph, fuse)) };

fn fuse(graph: &mut ComputeGraph, index: usize) -> bool {
    let Some((nodes, fusion)) = find(graph, index) else { return false };
    graph.fuse(&nodes, fusion)
}

/// The node that rotates an operand, and what it rotates; the operand itself where none does.
fn unrotated(graph: &ComputeGraph, operand: &Operand) -> (Option<usize>, Operand) {
    let rotation = made(graph, operand).filter(|(_, node)| {
        is::<Hadamard>(node).is_some_and(|op| !op.inverse) && node.outputs.first() == Some(operand)
    });
    let input = rotation.and_then(|(index, node)| Some((Some(index), *node.inputs.first()?)));
    input.unwrap_or((None, *operand))
}

/// The pattern round the writing of keys.
fn find(graph: &ComputeGraph, index: usize) -> Option<(Vec<usize>, Fusion)> {
    let write = graph.nodes().get(index)?;
    is::<CacheWrite>(write)?;
    let ([rows, slots], [keys]) = (write.inputs.as_slice(), write.outputs.as_slice()) else { return None };
    let (key_rotation, rows) = unrotated(graph, rows);
    let (turn, key) = made(graph, &rows)?;
    let style = is::<Rope>(key)?.style;
    let ([k, table], Some(turned)) = (key.inputs.as_slice(), key.outputs.first()) else { return None };
    let near = |from: usize| {
        let first = from.saturating_sub(NEAR);
        graph.nodes().iter().enumerate().skip(first).take(2 * NEAR + 1)
    };
    let (store, values) = near(index).find(|(other, node)| {
        let is_turned = |node: &Node| {
            let (_, rows) = node.inputs.first().map(|rows| unrotated(graph, rows))?;
            made(graph, &rows).map(|(_, maker)| is::<Rope>(maker).is_some())
        };
        *other != index
            && is::<CacheWrite>(node).is_some()
            && node.inputs.get(1) == Some(slots)
            && is_turned(node) != Some(true)
    })?;
    let (value_rotation, v) = unrotated(graph, values.inputs.first()?);
    let (query, q) = near(turn).find(|(other, node)| {
        *other != turn
            && is::<Rope>(node).is_some_and(|rope| rope.style == style)
            && node.inputs.get(1) == Some(table)
    })?;
    let mut queries = *q.outputs.first()?;
    let mut nodes = vec![query, turn, index, store];
    if key_rotation.is_some() {
        let (rotation, node) = near(query).find(|(_, node)| {
            is::<Hadamard>(node).is_some_and(|op| !op.inverse) && node.inputs.first() == Some(&queries)
        })?;
        queries = *node.outputs.first()?;
        nodes.push(rotation);
    }
    if rows != *turned {
        return None;
    }
    nodes.extend(key_rotation.into_iter().chain(value_rotation));
    nodes.sort_unstable();
    let inputs = vec![*q.inputs.first()?, *k, v, *table, *slots].into();
    let outputs = vec![queries, *keys, *values.outputs.first()?].into();
    let rotated = [key_rotation.is_some(), value_rotation.is_some()];
    Some((nodes, Fusion { op: Arc::new(RopeCache { style, rotated }), inputs, outputs }))
}
