//! What `cargo metadata` says about the workspace and its dependencies.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The output of `cargo metadata`.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
}

/// A package, of the workspace or from elsewhere.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// `None` for packages on this machine.
    pub(crate) source: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) readme: Option<PathBuf>,
    pub(crate) documentation: Option<String>,
    pub(crate) repository: Option<String>,
    pub(crate) homepage: Option<String>,
    pub(crate) keywords: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) rust_version: Option<String>,
    /// `Some([])` for packages that are never published.
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) metadata: serde_json::Value,
    pub(crate) manifest_path: PathBuf,
}

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs cargo in the workspace and returns what it prints.
fn cargo(arguments: &[&str]) -> Result<String, String> {
    let command = arguments.first().copied().unwrap_or_default();
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root())
        .output()
        .map_err(|error| format!("cargo {command}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("cargo {command}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

impl Metadata {
    /// Runs `cargo metadata`.
    pub(crate) fn read() -> Result<Metadata, String> {
        let text = cargo(&["metadata", "--format-version=1", "--all-features", "--locked"])?;
        serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
    }

    /// Returns the packages of the workspace that are published.
    pub(crate) fn published(&self) -> Vec<&Package> {
        let member = |package: &&Package| self.workspace_members.contains(&package.id);
        self.packages.iter().filter(member).filter(|package| package.publish.is_none()).collect()
    }

    /// Returns the packages that the published ones are built from, themselves included: all features, all targets,
    /// without the dependencies of tests.
    ///
    /// The set comes from `cargo tree`: the graph of `cargo metadata` has optional packages that no feature turns on.
    pub(crate) fn shipped(&self) -> Result<Vec<&Package>, String> {
        let mut arguments = vec![
            "tree",
            "--all-features",
            "--target=all",
            "--edges=normal,build",
            "--prefix=none",
            "--format={p}",
        ];
        arguments.extend(self.published().iter().flat_map(|package| ["--package", &package.name]));
        let tree = cargo(&arguments)?;
        let built = built(&tree);
        let shipped = |package: &&Package| built.contains(&(package.name.as_str(), package.version.as_str()));
        Ok(self.packages.iter().filter(shipped).collect())
    }
}

/// Returns names and versions from the output of `cargo tree`.
fn built(tree: &str) -> BTreeSet<(&str, &str)> {
    let entry = |line| {
        let mut words = str::split_whitespace(line);
        Some((words.next()?, words.next()?.strip_prefix('v')?))
    };
    tree.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_a_tree_are_read_once_each() {
        let tree = "app v0.1.0 (/somewhere)\na v1.2.3\nb v0.4.0+deprecated (proc-macro)\na v1.2.3 (*)\n\n";
        let expected = [("a", "1.2.3"), ("app", "0.1.0"), ("b", "0.4.0+deprecated")];
        assert_eq!(built(tree).into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn published_crates_are_shipped_and_tools_are_not() {
        let metadata = Metadata::read().unwrap();
        let shipped = metadata.shipped().unwrap();
        let has = |name: &str| shipped.iter().any(|package| package.name == name);
        assert!(has("silicide-cli") && has("clap") && has("objc2-metal"));
        assert!(!has("xtask") && !has("conformance") && !has("proptest"));
    }
}
