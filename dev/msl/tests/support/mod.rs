//! The compiler that the tests need.

use msl::Clang;

/// A clang. On a developer's machine without one tests say so and pass; in continuous integration they fail.
pub(crate) fn clang() -> Option<Clang> {
    match Clang::find() {
        Ok(clang) => Some(clang),
        Err(what) => {
            samples::not_tested(what);
            None
        }
    }
}
