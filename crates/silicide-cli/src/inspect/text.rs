//! The facts for people.

use super::summary::{Share, Summary, Tensor};
use super::tokenizer::Tokenizer;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{HumanBytes, HumanCount};
use std::fmt::Write;

/// The whole text.
pub(super) fn render(summary: &Summary) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{label:<14}{value}");
    };
    for file in &summary.files {
        line("file", format!("{} ({})", plain(&file.path), HumanBytes(file.bytes)));
    }
    line("container", summary.container.clone());
    if let Some(name) = &summary.name {
        line("name", plain(name));
    }
    if let Some(architecture) = &summary.architecture {
        line("architecture", plain(architecture));
    }
    line("parameters", HumanCount(summary.parameters).to_string());
    let bits = summary.bits_per_weight.map_or(String::new(), |bits| format!(", {bits:.2} bits per weight"));
    let (count, bytes) = (HumanCount(summary.tensor_count as u64), HumanBytes(summary.tensor_bytes));
    line("tensors", format!("{count}, {bytes}{bits}"));
    if let Some(found) = &summary.tokenizer {
        line("tokenizer", tokenizer(found));
    }
    text += &section("formats", formats(&summary.formats));
    if !summary.metadata.is_empty() {
        let mut table = table();
        for (key, value) in &summary.metadata {
            table.add_row([plain(key), value.to_string()]);
        }
        text += &section("metadata", table);
    }
    if let Some(tensors) = &summary.tensors {
        text += &section("all tensors", list(tensors));
    }
    text
}

/// Text of a file without control characters.
fn plain(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

fn section(title: &str, table: Table) -> String {
    let rows = table.lines().map(|row| format!("  {}\n", row.trim_end())).collect::<String>();
    format!("\n{title}\n{rows}")
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
}

/// Aligns all columns but the first `left` to the right.
fn align(table: &mut Table, left: usize) {
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or("?".to_owned(), |bytes| HumanBytes(bytes).to_string())
}

fn formats(shares: &[Share]) -> Table {
    let mut table = table();
    for share in shares {
        let bits = share.bytes.filter(|_| share.elements > 0);
        let bits = bits.map(|bytes| format!("{:.2} bits", bytes as f64 * 8.0 / share.elements as f64));
        table.add_row([
            plain(&share.format),
            format!(
                "{} {}",
                HumanCount(share.tensors as u64),
                if share.tensors == 1 { "tensor" } else { "tensors" }
            ),
            format!("{} elements", HumanCount(share.elements)),
            bytes(share.bytes),
            bits.unwrap_or_default(),
        ]);
    }
    align(&mut table, 1);
    table
}

fn list(tensors: &[Tensor]) -> Table {
    let mut table = table();
    for tensor in tensors {
        let shape = format!("{:?}", tensor.shape);
        table.add_row([plain(&tensor.name), plain(&tensor.format), shape, bytes(tensor.bytes)]);
    }
    align(&mut table, 2);
    table
}

fn tokenizer(tokenizer: &Tokenizer) -> String {
    let mut facts = vec![format!("{} tokens", HumanCount(tokenizer.tokens as u64))];
    if let Some(model) = &tokenizer.model {
        facts.insert(0, plain(model));
    }
    if tokenizer.merges > 0 {
        facts.push(format!("{} merges", HumanCount(tokenizer.merges as u64)));
    }
    facts.extend(tokenizer.pre.as_ref().map(|pre| format!("pre-tokenizer {}", plain(pre))));
    facts.extend(tokenizer.bos.map(|bos| format!("bos {bos}")));
    facts.extend(tokenizer.eos.map(|eos| format!("eos {eos}")));
    facts.push(if tokenizer.chat_template { "chat template" } else { "no chat template" }.to_owned());
    facts.join(", ")
}
