//! The report of a conversion: a table of types before it, notes after it.

use super::plan::Step;
use super::recipe::needs_importance;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{HumanBytes, HumanCount};
use silicide_weights::Container;
use std::collections::BTreeMap;

/// Tensors by the type that they are written in, with their sizes before and after.
pub(super) fn table(steps: &[Step<'_>]) -> Table {
    #[derive(Default)]
    struct Row {
        tensors: usize,
        elements: u64,
        before: u64,
        after: u64,
    }
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for step in steps {
        let row = rows.entry(step.choice.dtype.name()).or_default();
        row.tensors += 1;
        row.elements += step.shape.elements() as u64;
        row.before += step.entry.bytes().unwrap_or(0);
        row.after += step.bytes();
    }
    let mut rows: Vec<(&str, Row)> = rows.into_iter().collect();
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.after));
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["type", "tensors", "elements", "before", "after"]);
    for (name, row) in rows {
        table.add_row([
            name.to_owned(),
            HumanCount(row.tensors as u64).to_string(),
            HumanCount(row.elements).to_string(),
            HumanBytes(row.before).to_string(),
            HumanBytes(row.after).to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Facts about a conversion that decide about notes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances {
    pub(super) container: Container,
    /// Whether the user gave a type.
    pub(super) has_type: bool,
    /// Whether the user allowed quantizing again.
    pub(super) may_requantize: bool,
    pub(super) bytes_before: u64,
    pub(super) bytes_after: u64,
}

/// One line for people.
#[derive(Debug)]
pub(super) enum Note {
    /// The output is worse than it could be.
    Warning(String),
    /// Something that may surprise.
    Fact(String),
}

/// One line for each thing that costs quality or space.
pub(super) fn notes(steps: &[Step<'_>], about: &Circumstances) -> Vec<Note> {
    let mut notes = Vec::new();
    notes.extend(fallbacks(steps).map(Note::Fact));
    let again: Vec<&Step<'_>> = steps.iter().filter(|step| step.is_requantized()).collect();
    if !again.is_empty() && !about.may_requantize {
        let mut from: Vec<String> = again.iter().filter_map(|step| step.quantized_as()).collect();
        from.sort();
        from.dedup();
        notes.push(Note::Warning(format!(
            "{} of {} tensors were quantized already ({}); \
             quantizing again loses more quality than quantizing the original model (--allow-requantize hides this)",
            again.len(), steps.len(), from.join(", ")
        )));
    }
    let coarse = steps.iter().filter(|step| needs_importance(step.choice.dtype) && is_inner(step)).count();
    if coarse > 0 {
        notes.push(Note::Warning(format!(
            "{coarse} tensors are in types of about 3 bits or less, which lose much quality without \
             an importance matrix; importance matrices are not supported yet"
        )));
    }
    if about.container == Container::Mlx && !about.has_type {
        let text = "the MLX weights are decoded to f16, which GGUF has; give --type to quantize them";
        notes.push(Note::Fact(text.to_owned()));
    }
    if about.bytes_after > about.bytes_before.saturating_add(about.bytes_before / 100) {
        notes.push(Note::Fact(format!(
            "the output is larger than the model: {} after {}",
            HumanBytes(about.bytes_after),
            HumanBytes(about.bytes_before)
        )));
    }
    notes
}

/// Layers, not the embedding or the output projection.
fn is_inner(step: &Step<'_>) -> bool {
    step.name.starts_with("blk.")
}

/// The tensors whose rows the blocks of their type do not divide.
fn fallbacks(steps: &[Step<'_>]) -> Option<String> {
    let mut kinds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for choice in steps.iter().map(|step| step.choice).filter(|choice| choice.dtype != choice.wanted) {
        *kinds.entry((choice.wanted.name(), choice.dtype.name())).or_default() += 1;
    }
    let total: usize = kinds.values().sum();
    let matrices = steps.iter().filter(|step| step.shape.rank() > 1).count();
    let kinds: Vec<String> =
        kinds.iter().map(|((wanted, got), count)| format!("{count} {wanted} -> {got}")).collect();
    (total > 0).then(|| {
        format!(
            "{total} of {matrices} matrices have rows that the blocks of their type do not divide, and get another type: {}",
            kinds.join(", ")
        )
    })
}
