//! Output files that are whole or not there.

use std::path::Path;
use tempfile::NamedTempFile;

/// A file next to `path` that vanishes unless [`NamedTempFile::persist`] puts it in its place: what was there before stays
/// if something fails on the way.
pub fn unfinished(path: impl AsRef<Path>) -> std::io::Result<NamedTempFile> {
    let path = path.as_ref();
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".unfinished-");
    // Temporary files are private; this one becomes an ordinary file, as the user's mask wants it.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(directory)
}
