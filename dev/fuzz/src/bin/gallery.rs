//! Writes `testdata/malformed` again.
#![forbid(unsafe_code)]

use fuzz::gallery::{cases, root};
use std::fs;
use std::io;

fn main() -> io::Result<()> {
    let root = root();
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    let cases = cases();
    for (path, bytes) in cases.iter().flat_map(|case| &case.files) {
        let path = root.join(path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(path, bytes)?;
    }
    println!("{} malformed models in {}", cases.len(), root.display());
    Ok(())
}
