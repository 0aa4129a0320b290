//! The parameters of a kernel's entry point, by their attributes, and the call that fills them.
//!
//! The slots and sizes that the host binds (parameters, threadgroup memory) are written into the call as types that only
//! accept parameters of that size: a difference does not compile.

use silicide_hal::wgsl::Msl;

/// The arguments of a call of the entry point, in C++, in order.
pub(crate) fn arguments(msl: &Msl) -> Result<String, String> {
    let mut pieces = msl.threadgroup_bytes.iter().enumerate();
    let mut arguments = Vec::new();
    for parameter in parameters(msl)? {
        let argument = match attribute(parameter) {
            Some(attribute) if attribute.starts_with("threadgroup(") => memory(attribute, msl)
                .ok_or_else(|| format!("the host is told of no threadgroup memory for `{parameter}`"))?,
            Some(attribute) => value(attribute, msl)
                .ok_or_else(|| format!("nothing is known to fill the parameter `{parameter}` with"))?,
            None if parameter.starts_with("threadgroup ") => {
                let (i, bytes) = pieces.next().ok_or_else(|| {
                    format!(
                        "the host is told of {} pieces of threadgroup memory, none for `{parameter}`",
                        msl.threadgroup_bytes.len()
                    )
                })?;
                format!("emulation::Within<{bytes}>{{memory_{i}}}")
            }
            None => return Err(format!("the parameter `{parameter}` has no attribute")),
        };
        arguments.push(argument);
    }
    match pieces.next().filter(|_| !msl.source.contains("[[threadgroup(")) {
        Some((i, _)) => Err(format!("the host is told of threadgroup memory {i}, which no parameter is for")),
        None => Ok(arguments.join(", ")),
    }
}

/// The texts of the parameters of the entry point.
fn parameters(msl: &Msl) -> Result<Vec<&str>, String> {
    let head = format!("kernel void {}(", msl.entry);
    let (_, after) = msl.source.split_once(&head).ok_or_else(|| format!("there is no `{head}`"))?;
    let mut depth = 0;
    let end = after.find(|character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        depth < 0
    });
    let list = end.and_then(|end| after.get(..end)).ok_or("the parameters have no end")?;
    // Commas only stand between parameters: none of their types or attributes has one.
    Ok(list.split(',').map(str::trim).filter(|parameter| !parameter.is_empty()).collect())
}

/// Threadgroup memory by its number.
fn memory(attribute: &str, msl: &Msl) -> Option<String> {
    let number: usize = attribute.strip_prefix("threadgroup(")?.strip_suffix(')')?.parse().ok()?;
    let bytes = msl.threadgroup_bytes.get(number)?;
    Some(format!("emulation::Within<{bytes}>{{memory_{number}}}"))
}

fn attribute(parameter: &str) -> Option<&str> {
    let (_, after) = parameter.split_once("[[")?;
    Some(after.split_once("]]")?.0.trim())
}

/// Returns the argument for a parameter with this attribute.
fn value(attribute: &str, msl: &Msl) -> Option<String> {
    if let Some(slot) = attribute.strip_prefix("buffer(").and_then(|rest| rest.strip_suffix(')')) {
        let slot: u32 = slot.parse().ok()?;
        let wrapper = if slot == msl.params_slot {
            "emulation::Exactly<PARAMS>".to_owned()
        } else if slot == msl.sizes_slot {
            format!("emulation::Exactly<{}>", 4 * msl.sized.len().max(1))
        } else {
            "emulation::Bound".to_owned()
        };
        return Some(format!("{wrapper}{{buffers[{slot}]}}"));
    }
    let value = match attribute {
        "threadgroup_position_in_grid" => "here.group",
        "threadgroups_per_grid" => "here.groups",
        "threads_per_threadgroup" => "here.size",
        "thread_index_in_threadgroup" => "here.index",
        "thread_position_in_threadgroup" => "here.position()",
        "thread_position_in_grid" => "here.in_grid()",
        "simdgroup_index_in_threadgroup" => "here.index / emulation::WIDTH",
        "thread_index_in_simdgroup" => "here.index % emulation::WIDTH",
        "threads_per_simdgroup" => "emulation::WIDTH",
        "simdgroups_per_threadgroup" => "here.simd_groups()",
        _ => return None,
    };
    Some(value.to_owned())
}
