//! `cargo xtask package`: what published crates must say about themselves, and the Rust version in all places.
//!
//! `scripts/check-package` then proves that the packages build.

use crate::metadata::{Metadata, Package, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Checks the manifests of published crates and every mention of the Rust version.
pub(crate) fn check() -> Result<(), String> {
    let metadata = Metadata::read()?;
    let published = metadata.published();
    let mut problems: Vec<String> = published
        .iter()
        .flat_map(|package| manifest_problems(package, read(&package.manifest_path)))
        .collect();
    let versions: Vec<&str> =
        published.iter().filter_map(|package| package.rust_version.as_deref()).collect();
    let version = *versions.first().ok_or("no published crate has a rust-version")?;
    if versions.len() != published.len() || versions.iter().any(|other| *other != version) {
        problems.push("published crates have different rust-versions".to_owned());
    }
    for path in documents(&published) {
        problems.extend(version_problems(&path, &read(&path), version));
    }
    let stated = read(&root().join("CONTRIBUTING.md"));
    if mentions(&stated).next().is_none() {
        problems.push(format!("CONTRIBUTING.md does not say that Rust {version} is needed, and why"));
    }
    problems.extend(toolchain_problem(&toolchain()?, version, std::env::var_os("CI").is_some()));
    match problems.is_empty() {
        true => {
            println!("{} crates can be published, for Rust {version}", published.len());
            Ok(())
        }
        false => Err(problems.join("\n")),
    }
}

/// Returns the text of a file; an empty one where it is missing.
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the files that may name the Rust version.
fn documents(published: &[&Package]) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "clippy.toml"].map(|name| root().join(name)).into();
    paths.extend(published.iter().filter_map(|package| readme(package)));
    paths
}

/// Returns the path of a crate's README.
fn readme(package: &Package) -> Option<PathBuf> {
    Some(package.manifest_path.parent()?.join(package.readme.as_ref()?))
}

/// Returns what the manifest of a published crate lacks.
fn manifest_problems(package: &Package, text: String) -> Vec<String> {
    let mut missing = Vec::new();
    let mut expect = |there: bool, what: &str| {
        if !there {
            missing.push(format!("{}: {what}", package.name));
        }
    };
    expect(package.description.is_some(), "no description");
    expect(package.license.is_some(), "no license");
    expect(package.documentation.is_some(), "no documentation");
    expect((1..=5).contains(&package.keywords.len()), "no keywords, or more than five");
    expect((1..=5).contains(&package.categories.len()), "no categories, or more than five");
    expect(readme(package).is_some_and(|path| path.is_file()), "no README.md in its own folder");
    expect(package.metadata.pointer("/docs/rs").is_some(), "no [package.metadata.docs.rs]");
    expect(text.contains("\ninclude = ["), "no include list, so tests would be packaged");
    // The workspace has the address, once.
    for (key, value) in [("repository", &package.repository), ("homepage", &package.homepage)] {
        let inherited = text.contains(&format!("\n{key}.workspace = true"));
        expect(value.is_none() || inherited, &format!("{key} is not inherited from the workspace"));
    }
    missing
}

/// Returns the versions that a text names as `Rust 1.N` or `msrv = "1.N"`.
fn mentions(text: &str) -> impl Iterator<Item = &str> {
    let of = |mark: &'static str| {
        text.match_indices(mark).map(move |(at, _)| {
            let rest = &text[at + mark.len() - 2..];
            let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].trim_end_matches('.')
        })
    };
    of("Rust 1.").chain(of("msrv = \"1."))
}

/// Returns mentions of another Rust version.
fn version_problems(path: &Path, text: &str, version: &str) -> Vec<String> {
    let name = path.strip_prefix(root()).unwrap_or(path).display();
    mentions(text)
        .filter(|other| *other != version)
        .map(|other| format!("{name} says Rust {other}, but rust-version is {version}"))
        .collect()
}

/// Returns the version of the compiler, as `1.95.0`.
fn toolchain() -> Result<String, String> {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output =
        Command::new(compiler).arg("--version").output().map_err(|error| format!("rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().nth(1).map(str::to_owned).ok_or_else(|| format!("rustc --version says {text:?}"))
}

/// Returns a problem when continuous integration tests with another compiler than the one that `rust-version` promises.
/// On a developer's machine a newer one is fine.
fn toolchain_problem(toolchain: &str, version: &str, ci: bool) -> Option<String> {
    let same = toolchain.strip_prefix(version).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    match (same, ci) {
        (true, _) => None,
        (false, true) => {
            Some(format!("the tests run on Rust {toolchain}, but rust-version promises {version}"))
        }
        (false, false) => {
            eprintln!("NOT TESTED with Rust {version}: this is {toolchain}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_without_metadata_is_refused_by_field() {
        let package = Package { name: "a".to_owned(), ..Package::default() };
        let problems = manifest_problems(&package, String::new());
        for field in [
            "description",
            "license",
            "documentation",
            "keywords",
            "categories",
            "README",
            "docs.rs",
            "include",
        ] {
            assert!(problems.iter().any(|problem| problem.contains(field)), "{field}: {problems:?}");
        }
    }

    #[test]
    fn an_address_is_set_in_the_workspace_alone() {
        let package = Package { repository: Some("https://somewhere".to_owned()), ..Package::default() };
        let has = |text: &str| {
            manifest_problems(&package, text.to_owned()).iter().any(|what| what.contains("repository"))
        };
        assert!(has("\nrepository = \"https://somewhere\"\n"));
        assert!(!has("\nrepository.workspace = true\n"));
    }

    #[test]
    fn every_mention_of_the_rust_version_is_found() {
        let text = "Needs Rust 1.95 or later. Rust 1.94.\nmsrv = \"1.96.1\"\nTrust 2.0, Rust is good.";
        assert_eq!(mentions(text).collect::<Vec<_>>(), ["1.95", "1.94", "1.96.1"]);
        assert_eq!(version_problems(Path::new("README.md"), text, "1.95").len(), 2);
    }

    #[test]
    fn continuous_integration_tests_with_the_promised_compiler() {
        assert_eq!(toolchain_problem("1.95.0", "1.95", true), None);
        assert!(toolchain_problem("1.96.0", "1.95", true).is_some());
        assert!(toolchain_problem("1.950.0", "1.95", true).is_some());
        assert_eq!(toolchain_problem("1.96.0", "1.95", false), None);
    }
}
