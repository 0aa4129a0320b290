//! Turning queries and keys and writing to the cache: four ops that become one.

use super::{is, made, rewrite};
use crate::cache_write::CacheWrite;
use crate::rope::Rope;
use crate::rope_cache::RopeCache;
use silicide_core::graph::{Fusion, Node};
use silicide_core::{ComputeGraph, Pass};
use std::sync::Arc;

/// How far apart the parts of a layer's attention may stand.
const NEAR: usize = 6;

/// `rope` of queries, `rope` of keys and `cache_write` of keys and of values become one `rope_cache`.
pub const ROPE_CACHE: Pass = Pass { name: "rope and cache write", run: |graph| Ok(rewrite(graph, fuse)) };

fn fuse(graph: &mut ComputeGraph, index: usize) -> bool {
    let Some((nodes, fusion)) = find(graph, index) else { return false };
    graph.fuse(&nodes, fusion)
}

/// The pattern round the writing of keys.
fn find(graph: &ComputeGraph, index: usize) -> Option<([usize; 4], Fusion)> {
    let write = graph.nodes().get(index)?;
    is::<CacheWrite>(write)?;
    let ([rows, slots], [keys]) = (write.inputs.as_slice(), write.outputs.as_slice()) else { return None };
    let (turn, key) = made(graph, rows)?;
    let style = is::<Rope>(key)?.style;
    let ([k, table], Some(turned)) = (key.inputs.as_slice(), key.outputs.first()) else { return None };
    let near = |from: usize| {
        let first = from.saturating_sub(NEAR);
        graph.nodes().iter().enumerate().skip(first).take(2 * NEAR + 1)
    };
    let (store, values) = near(index).find(|(other, node)| {
        let is_turned = |node: &Node| {
            let rows = node.inputs.first().and_then(|rows| made(graph, rows));
            rows.is_some_and(|(_, maker)| is::<Rope>(maker).is_some())
        };
        *other != index
            && is::<CacheWrite>(node).is_some()
            && node.inputs.get(1) == Some(slots)
            && !is_turned(node)
    })?;
    let (query, q) = near(turn).find(|(other, node)| {
        *other != turn
            && is::<Rope>(node).is_some_and(|rope| rope.style == style)
            && node.inputs.get(1) == Some(table)
    })?;
    if rows != turned {
        return None;
    }
    let inputs = vec![*q.inputs.first()?, *k, *values.inputs.first()?, *table, *slots].into();
    let outputs = vec![*q.outputs.first()?, *keys, *values.outputs.first()?].into();
    let mut nodes = [query, turn, index, store];
    nodes.sort_unstable();
    Some((nodes, Fusion { op: Arc::new(RopeCache { style }), inputs, outputs }))
}
