//! Metal's errors as [`HalError`]. Plain rules over codes and texts.

use crate::HalError;

/// Codes of `MTLCommandBufferError`.
mod code {
    pub(super) const TIMEOUT: isize = 2;
    pub(super) const PAGE_FAULT: isize = 3;
    pub(super) const ACCESS_REVOKED: isize = 4;
    pub(super) const NOT_PERMITTED: isize = 7;
    pub(super) const OUT_OF_MEMORY: isize = 8;
    pub(super) const INVALID_RESOURCE: isize = 9;
    pub(super) const DEVICE_REMOVED: isize = 11;
    pub(super) const STACK_OVERFLOW: isize = 12;
}

/// The call that errors of finished work are reported under.
const CALL: &str = "MTLCommandBuffer";

/// Returns the error of a command buffer that failed. `faulted` are the labels of the passes that did, where known.
///
/// The GPU's own time limit is not a [`HalError::Timeout`]: after that the work continues, and this work was stopped.
pub(super) fn command_error(code: isize, text: &str, faulted: &[String]) -> HalError {
    let passes = match faulted {
        [] => String::new(),
        labels => format!(", in {}", labels.join(", ")),
    };
    let driver = |what: &str| HalError::Driver { call: CALL, detail: format!("{what}{passes}: {text}") };
    match code {
        code::OUT_OF_MEMORY => HalError::OutOfMemory { requested: 0 },
        code::ACCESS_REVOKED => HalError::DeviceLost {
            detail: format!("the system took the GPU away after too many faults{passes}: {text}"),
        },
        code::DEVICE_REMOVED => HalError::DeviceLost { detail: format!("the GPU was removed: {text}") },
        code::TIMEOUT => driver("the system stopped the work for taking too long"),
        code::PAGE_FAULT => driver("a kernel touched memory that is not there"),
        code::INVALID_RESOURCE => driver("a buffer was gone"),
        code::NOT_PERMITTED => driver("the system does not let this process use the GPU now"),
        code::STACK_OVERFLOW => driver("a kernel needs too much stack"),
        other => driver(&format!("code {other}")),
    }
}

/// Metal's words about a text that did not compile, with the line of the text that they are about.
pub(super) fn explain(source: &str, message: &str) -> String {
    let Some((line, complaint)) = first_error(message) else { return message.to_owned() };
    let text = line.checked_sub(1).and_then(|index| source.lines().nth(index));
    match text {
        Some(text) => format!("line {line}: {complaint}\n{line:>5} | {text}"),
        None => message.to_owned(),
    }
}

/// Returns the line and the words of the first `program_source:LINE:COLUMN: error: WORDS`.
fn first_error(message: &str) -> Option<(usize, &str)> {
    message.lines().find_map(|line| {
        let (_, rest) = line.split_once("program_source:")?;
        let (number, rest) = rest.split_once(':')?;
        let (_, complaint) = rest.split_once("error:")?;
        Some((number.parse().ok()?, complaint.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_what_the_core_understands() {
        assert_eq!(command_error(8, "no memory", &[]), HalError::OutOfMemory { requested: 0 });
        for lost in [4, 11] {
            assert!(matches!(command_error(lost, "gone", &[]), HalError::DeviceLost { .. }), "{lost}");
        }
        for driver in [1, 2, 3, 7, 9, 10, 12, 99] {
            let error = command_error(driver, "words", &["attention".to_owned()]);
            match error {
                HalError::Driver { call, detail } => {
                    assert_eq!(call, "MTLCommandBuffer");
                    assert!(detail.ends_with(", in attention: words"), "{detail}");
                }
                other => panic!("{driver}: {other}"),
            }
        }
    }

    #[test]
    fn the_gpus_own_time_limit_does_not_say_that_the_work_goes_on() {
        assert!(!matches!(command_error(2, "", &[]), HalError::Timeout { .. }));
    }

    #[test]
    fn compile_errors_show_their_line() {
        let source = "kernel void f(\n  device float* x [[buffer(0)]]) {\n  x[0] = y;\n}";
        let message = "program_source:1:1: warning: something\n\
             program_source:3:10: error: use of undeclared identifier 'y'\n  x[0] = y;\n         ^";
        let said = explain(source, message);
        assert_eq!(said, "line 3: use of undeclared identifier 'y'\n    3 |   x[0] = y;");
    }

    #[test]
    fn words_without_a_line_are_passed_on() {
        for message in
            ["the compiler crashed", "program_source:99:1: error: beyond", "program_source:0:1: error: x", ""]
        {
            assert_eq!(explain("one line", message), message);
        }
    }
}
