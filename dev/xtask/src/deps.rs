//! `cargo xtask deps`: licences, sources and duplicate versions of dependencies, by the lists of `deny.toml`.
//!
//! Licences and duplicates are checked for what the published crates are built from, on any target and with all
//! features. Sources are checked for every package, tools and tests included.

use crate::metadata::{Metadata, Package, root};
use semver::{Version, VersionReq};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The parts of `deny.toml` that are read here.
#[derive(Debug, Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    /// SPDX names.
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    skip: Vec<Skip>,
}

/// A version that may stand beside a newer one.
#[derive(Debug, Deserialize)]
struct Skip {
    /// `name@requirement`.
    #[serde(rename = "crate")]
    package: String,
    reason: String,
}

/// Checks the dependencies of the workspace and prints what they are.
pub(crate) fn check() -> Result<(), String> {
    let path = root().join("deny.toml");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let rules: Rules = toml::from_str(&text).map_err(|error| format!("deny.toml: {error}"))?;
    let metadata = Metadata::read()?;
    let shipped = metadata.shipped()?;
    let mut problems = licence_problems(&shipped, &rules.licenses.allow);
    problems.extend(source_problems(&metadata.packages, &metadata.workspace_members));
    problems.extend(duplicate_problems(&shipped, &rules.bans.skip)?);
    if problems.is_empty() {
        let others = shipped.iter().filter(|package| package.source.is_some()).count();
        let doubles = rules.bans.skip.len();
        println!(
            "{others} packages in published crates, on all targets: licences right, {doubles} known doubles"
        );
        return Ok(());
    }
    Err(problems.join("\n"))
}

/// Returns packages whose licence can't be met with the allowed ones.
fn licence_problems(packages: &[&Package], allow: &[String]) -> Vec<String> {
    let allowed = |requirement: &spdx::LicenseReq| {
        // An exception (`WITH`) only adds rights.
        requirement.license.id().is_some_and(|id| allow.iter().any(|name| name == id.name))
    };
    let problem = |package: &&Package| {
        let Some(licence) = &package.license else {
            return Some(format!("{} {} names no licence", package.name, package.version));
        };
        match spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX) {
            Err(error) => Some(format!("{} {}: {licence:?}: {error}", package.name, package.version)),
            Ok(expression) if expression.evaluate(allowed) => None,
            Ok(_) => Some(format!(
                "{} {} is licensed as {licence}, which deny.toml does not allow",
                package.name, package.version
            )),
        }
    };
    packages.iter().filter_map(problem).collect()
}

/// Returns packages that come from neither the workspace nor the registry that all others come from.
fn source_problems(packages: &[Package], members: &[String]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut registries = BTreeSet::new();
    for package in packages {
        match package.source.as_deref() {
            None if members.contains(&package.id) => (),
            None => problems.push(format!("{} comes from a folder outside the workspace", package.name)),
            Some(source) if source.starts_with("registry+") => {
                registries.insert(source);
            }
            Some(source) => {
                problems.push(format!("{} comes from {source}, not from a registry", package.name))
            }
        }
    }
    if registries.len() > 1 {
        problems.push(format!("packages come from several registries: {registries:?}"));
    }
    problems
}

/// Returns packages that are there in several versions without a reason in `deny.toml`, and reasons without a package.
fn duplicate_problems(packages: &[&Package], known: &[Skip]) -> Result<Vec<String>, String> {
    let mut versions: BTreeMap<&str, Vec<Version>> = BTreeMap::new();
    for package in packages {
        let version =
            Version::parse(&package.version).map_err(|error| format!("{}: {error}", package.name))?;
        versions.entry(&package.name).or_default().push(version);
    }
    let mut unused: Vec<(&str, VersionReq, &Skip)> = Vec::new();
    for skip in known {
        let (name, requirement) = skip.package.split_once('@').unwrap_or((&skip.package, "*"));
        let requirement = VersionReq::parse(requirement)
            .map_err(|error| format!("deny.toml, {}: {error}", skip.package))?;
        unused.push((name, requirement, skip));
    }
    let mut problems = Vec::new();
    let known = unused.clone();
    for (name, versions) in &mut versions {
        versions.sort();
        // The newest is the one to move to.
        let newest = versions.pop();
        for version in versions {
            let reason = |(of, requirement, _): &&(&str, VersionReq, &Skip)| {
                of == name && requirement.matches(version)
            };
            if !known.iter().any(|entry| reason(&entry)) {
                let newest = newest.as_ref().map(ToString::to_string).unwrap_or_default();
                problems.push(format!(
                    "{name} is there as {version} and {newest}: use one, or give the reason in deny.toml ([bans], skip)"
                ));
            }
            unused.retain(|entry| !reason(&entry));
        }
    }
    for (_, _, skip) in unused {
        problems.push(format!("deny.toml allows {} ({}), which is no duplicate", skip.package, skip.reason));
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str) -> Package {
        Package {
            id: format!("{name} {version}"),
            name: name.to_owned(),
            version: version.to_owned(),
            source: Some("registry+https://index".to_owned()),
            license: Some("MIT".to_owned()),
            ..Package::default()
        }
    }

    fn licensed(licence: &str) -> Vec<String> {
        let package = Package { license: Some(licence.to_owned()), ..package("a", "1.0.0") };
        licence_problems(&[&package], &["MIT".to_owned(), "Zlib".to_owned(), "Unicode-3.0".to_owned()])
    }

    #[test]
    fn a_licence_passes_if_the_allowed_ones_meet_it() {
        for good in ["MIT", "MIT OR GPL-3.0-only", "Apache-2.0/MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
            assert!(licensed(good).is_empty(), "{good}");
        }
        for bad in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "Apache-2.0", "no such licence"] {
            assert_eq!(licensed(bad).len(), 1, "{bad}");
        }
        let silent = Package { license: None, ..package("a", "1.0.0") };
        assert!(licence_problems(&[&silent], &["MIT".to_owned()])[0].contains("names no licence"));
    }

    #[test]
    fn packages_come_from_the_workspace_or_one_registry() {
        let member = Package { source: None, ..package("member", "1.0.0") };
        let members = [member.id.clone()];
        let fine = [member, package("a", "1.0.0"), package("b", "1.0.0")];
        assert!(source_problems(&fine, &members).is_empty());
        for source in [None, Some("git+https://somewhere"), Some("registry+https://another")] {
            let mut packages = fine.to_vec();
            packages.push(Package { source: source.map(str::to_owned), ..package("c", "1.0.0") });
            assert_eq!(source_problems(&packages, &members).len(), 1, "{source:?}");
        }
    }

    #[test]
    fn a_second_version_needs_a_reason() {
        let packages = [package("a", "0.16.1"), package("a", "0.17.0"), package("b", "1.0.0")];
        let packages: Vec<&Package> = packages.iter().collect();
        let skip = |text: &str| Skip { package: text.to_owned(), reason: "held".to_owned() };
        let problems = |known: &[Skip]| duplicate_problems(&packages, known).unwrap();
        assert!(problems(&[])[0].contains("a is there as 0.16.1 and 0.17.0"));
        assert!(problems(&[skip("a@0.16")]).is_empty());
        // Another version of the same package is not meant, and a reason without a duplicate is stale.
        assert_eq!(problems(&[skip("a@0.15")]).len(), 2);
        assert!(problems(&[skip("a@0.16"), skip("b@1")])[0].contains("which is no duplicate"));
        assert!(duplicate_problems(&packages, &[skip("a@new")]).is_err());
    }
}
