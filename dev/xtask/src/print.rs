//! `shaders --list` and `shaders --print NAME`: the text of a kernel as it is compiled, joined from its snippets.
//!
//! A kernel has many variants: one for each GPU, combination of types and set of constants that a case needs. A variant is
//! described by its GPU, its snippets and its constants.

use crate::shaders::{Shader, gather, spirv_tool};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The form in which a shader is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Wgsl,
    /// Disassembled by `spirv-dis`.
    Spirv,
    Msl,
}

/// Returns the names of all kernels, with the number of their variants.
pub(crate) fn names() -> Result<String, String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for shader in gather(&silicide_ops::all())? {
        *counts.entry(shader.program.name).or_default() += 1;
    }
    Ok(counts.iter().map(|(name, count)| format!("{name}  {count} variants\n")).collect())
}

/// Returns the descriptions of all variants of a kernel.
pub(crate) fn variants(name: &str) -> Result<String, String> {
    let shaders = gather(&silicide_ops::all())?;
    Ok(named(&shaders, name)?.into_iter().map(|shader| shader.variant() + "\n").collect())
}

/// Returns the text of the first variant of a kernel whose description contains every word of `words`.
pub(crate) fn text(name: &str, words: &str, form: Form) -> Result<String, String> {
    let shaders = gather(&silicide_ops::all())?;
    let of_name = named(&shaders, name)?;
    let matches = |shader: &&&Shader| words.split_whitespace().all(|word| shader.variant().contains(word));
    let shader = of_name.iter().find(matches).ok_or_else(|| {
        format!("none of the {} variants of {name} contains {words:?}; --list shows them", of_name.len())
    })?;
    let text = match form {
        Form::Wgsl => shader.program.source(),
        Form::Spirv => spirv_tool("spirv-dis", &["--no-color", "-"], &shader.spirv()?)?,
        Form::Msl => shader.msl()?,
    };
    let comment = if form == Form::Spirv { ";" } else { "//" };
    let count = of_name.iter().filter(|shader| matches(shader)).count();
    let head = format!("{comment} {name}, the first of {count} variants\n{comment} {}\n", shader.variant());
    Ok(head + &text)
}

/// The shaders of a name, or an error with the names that are near it.
fn named<'a>(shaders: &'a [Shader], name: &str) -> Result<Vec<&'a Shader>, String> {
    let found: Vec<&Shader> =
        shaders.iter().filter(|shader| shader.program.name == name || shader.kernel == name).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let mut known: Vec<&str> = shaders.iter().map(|shader| shader.program.name).collect();
    known.sort_unstable();
    known.dedup();
    let mut message = format!("there is no GPU kernel {name:?}");
    for near in near(&known, name) {
        // Writing to a string can't fail.
        let _ = write!(message, "\n  {near}");
    }
    Err(message + "\n`cargo xtask shaders --list` names them all")
}

/// At most five names that contain `name` or are a few letters from it, the nearest first.
fn near<'a>(known: &[&'a str], name: &str) -> Vec<&'a str> {
    let distance = |other: &str| if other.contains(name) { 0 } else { edits(other, name) };
    let mut near: Vec<(usize, &str)> = known.iter().map(|other| (distance(other), *other)).collect();
    near.sort_unstable();
    near.into_iter()
        .filter(|(distance, _)| *distance <= name.len() / 2)
        .map(|(_, other)| other)
        .take(5)
        .collect()
}

/// The Levenshtein distance: letters to insert, remove or replace.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut last = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (above, y) in row.iter().skip(1).zip(b.bytes()) {
            left = (last + usize::from(x != y)).min(above + 1).min(left + 1);
            last = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("matmul.few.wgsl", "matmul.few.wgsl"), 0);
    }

    #[test]
    fn near_names_are_the_likeliest_first() {
        let known =
            ["fill.elements.wgsl", "matmul.few.subgroup.wgsl", "matmul.few.wgsl", "matmul.tiled.wgsl"];
        assert_eq!(near(&known, "matmul.fwe.wgsl").first(), Some(&"matmul.few.wgsl"));
        assert_eq!(near(&known, "matmul.few"), ["matmul.few.subgroup.wgsl", "matmul.few.wgsl"]);
        assert!(near(&known, "zzz").is_empty());
    }

    #[test]
    fn the_printed_text_is_joined_and_has_its_formats_decoder() {
        let text = text("matmul.few.wgsl", "plain: q4_0", Form::Wgsl).unwrap();
        for item in ["fn main(", "fn load_b(", "fn sixteen_b(", "var<immediate> p: Params;"] {
            assert_eq!(text.matches(item).count(), 1, "{item}");
        }
        assert!(!text.contains('$'));
    }

    #[test]
    fn an_unknown_kernel_is_an_error_with_near_names() {
        let message = text("matmul.fewer.wgsl", "", Form::Wgsl).unwrap_err();
        assert!(message.contains("matmul.few.wgsl"), "{message}");
    }
}
