//! What `config.json`, or `quantization_config.json` beside it, says about quantisation: settings for all modules, and for some of
//! their own.

use crate::cursor::At;
use crate::error::Fault;
use crate::json::{self, Name, Object};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use silicide_quant::{MlxFormat, MlxMode};
use std::collections::HashMap;
use std::fmt;

/// How a module is quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What numbers and scales mean.
    pub mode: MlxMode,
    /// Bits of a number.
    pub bits: usize,
    /// Numbers that share a scale.
    pub group: usize,
}

/// The quantization settings of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantization {
    /// For modules without settings of their own.
    pub default: Option<Settings>,
    /// Modules of their own settings; `None` for those that are not quantised.
    pub modules: HashMap<String, Option<Settings>>,
}

impl Quantization {
    /// Reads the text of a `config.json`; `None` if it describes no MLX quantisation. Offsets of faults count from
    /// the text's start.
    pub(crate) fn parse(text: &str) -> At<Option<Quantization>> {
        let Object(config): Object<QuantizationKeys> = json::parse("config", text)?;
        // Other libraries call their own kinds `quantization_config` too, and have a method in it.
        let foreign = |raw: &Raw| raw.foreign || raw.own.bits.is_none();
        let Some(raw) = config.quantization.or(config.quantization_config.filter(|raw| !foreign(raw))) else {
            return Ok(None);
        };
        let at = |module: &str| json::locate(text, if module.is_empty() { "quantization" } else { module });
        let check = |module: &str, raw: &RawSettings| raw.check(module).map_err(|fault| (at(module), fault));
        let default = if raw.own.bits.is_some() { Some(check("", &raw.own)?) } else { None };
        let mut modules = HashMap::new();
        for (module, own) in raw.modules {
            let settings = match own {
                ModuleEntry::Yes => default,
                ModuleEntry::No => None,
                ModuleEntry::Settings(raw) => Some(check(&module, &raw)?),
                ModuleEntry::Other => continue,
            };
            modules.insert(module, settings);
        }
        Ok(Some(Quantization { default, modules }))
    }

    /// Reads the text of a `quantization_config.json`, whose object is the settings themselves. Tensors with settings of their own stand
    /// beside the others, or under `per_tensor`; what they omit is as for all. `None` if it is another library's.
    pub(crate) fn parse_file(text: &str) -> At<Option<Quantization>> {
        let Object(raw): Object<Raw> = json::parse("quantization_config", text)?;
        if raw.foreign || (raw.own.bits.is_none() && raw.modules.is_empty()) {
            return Ok(None);
        }
        let at = |module: &str| json::locate(text, if module.is_empty() { "bits" } else { module });
        let check = |module: &str, raw: &RawSettings| raw.check(module).map_err(|fault| (at(module), fault));
        let default = check("", &raw.own)?;
        let mut modules = HashMap::new();
        for (name, own) in raw.modules {
            let settings = match own {
                ModuleEntry::Yes => Some(default),
                ModuleEntry::No => None,
                ModuleEntry::Settings(own) => Some(check(&name, &own.or(&raw.own))?),
                ModuleEntry::Other => continue,
            };
            let module = module_of(&name);
            match modules.insert(module.to_owned(), settings) {
                Some(other) if other != settings => {
                    return Err((at(&name), Fault::Duplicate { what: "module", name: module.to_owned() }));
                }
                _ => (),
            }
        }
        Ok(Some(Quantization { default: Some(default), modules }))
    }

    /// Returns how a tensor is quantised, or `None` if it is not, as far as the settings say: a tensor without scales beside it is not
    /// quantised either. `name` is that of a module or of one of its tensors, with or without `language_model.` before it.
    pub fn of_tensor(&self, name: &str) -> Option<Settings> {
        self.of(module_of(name)).0
    }

    /// Returns the settings of a module, and whether they are its own.
    pub(crate) fn of(&self, module: &str) -> (Option<Settings>, bool) {
        if self.modules.is_empty() {
            return (self.default, false);
        }
        let wrapped = || match module.strip_prefix(LANGUAGE_MODEL) {
            Some(inner) => self.modules.get(inner),
            None => self.modules.get(&format!("{LANGUAGE_MODEL}{module}")),
        };
        match self.modules.get(module).or_else(wrapped) {
            Some(own) => (*own, true),
            None => (self.default, false),
        }
    }
}

/// What stands before the names of a model that is part of another.
const LANGUAGE_MODEL: &str = "language_model.";

/// Returns the module that a tensor belongs to.
fn module_of(name: &str) -> &str {
    let suffixes = [".weight", ".scales", ".biases"];
    suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

#[derive(Deserialize)]
struct QuantizationKeys {
    #[serde(default)]
    quantization: Option<Raw>,
    #[serde(default)]
    quantization_config: Option<Raw>,
}

/// A `quantization` object as it stands there.
#[derive(Default)]
struct Raw {
    own: RawSettings,
    foreign: bool,
    modules: HashMap<String, ModuleEntry>,
}

impl Raw {
    fn add(&mut self, name: String, own: ModuleEntry) -> Result<(), Fault> {
        match self.modules.insert(name.clone(), own) {
            Some(_) => Err(Fault::Duplicate { what: "key", name }),
            None => Ok(()),
        }
    }
}

/// The tensors under `per_tensor`, each as it stands there.
struct PerTensor(Vec<(String, ModuleEntry)>);

impl<'de> Deserialize<'de> for PerTensor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PerTensor, D::Error> {
        struct PerTensorVisitor;
        impl<'de> Visitor<'de> for PerTensorVisitor {
            type Value = PerTensor;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("settings of tensors by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PerTensor, A::Error> {
                let mut tensors = Vec::new();
                while let Some((Name(name), own)) = map.next_entry()? {
                    tensors.push((name.into_owned(), own));
                }
                Ok(PerTensor(tensors))
            }
        }
        deserializer.deserialize_map(PerTensorVisitor)
    }
}

/// Settings before they are checked.
#[derive(Default, Deserialize)]
struct RawSettings {
    group_size: Option<u64>,
    bits: Option<u64>,
    mode: Option<String>,
}

/// What stands there for one module.
enum ModuleEntry {
    Yes,
    No,
    Settings(RawSettings),
    /// Anything but a module.
    Other,
}

impl RawSettings {
    /// Returns these settings, with those of `all` in place of what is missing.
    fn or(&self, all: &RawSettings) -> RawSettings {
        RawSettings {
            group_size: self.group_size.or(all.group_size),
            bits: self.bits.or(all.bits),
            mode: self.mode.clone().or_else(|| all.mode.clone()),
        }
    }

    fn check(&self, module: &str) -> Result<Settings, Fault> {
        let refused = |setting, got: String, expected| {
            Err(Fault::Setting { module: module.to_owned(), setting, got, expected })
        };
        let mode = match &self.mode {
            None => MlxMode::Affine,
            Some(name) => match MlxMode::from_name(name) {
                Some(mode) => mode,
                None => return refused("mode", format!("{name:?}"), "affine, mxfp4, mxfp8 or nvfp4"),
            },
        };
        let (usual_bits, usual_group, all_bits, all_groups) = match mode {
            MlxMode::Mxfp4 => (4, 32, "4", "32"),
            MlxMode::Mxfp8 => (8, 32, "8", "32"),
            MlxMode::Nvfp4 => (4, 16, "4", "16"),
            _ => (4, 64, "2, 3, 4, 5, 6 or 8", "32, 64 or 128"),
        };
        let (bits, group) = (self.bits.unwrap_or(usual_bits), self.group_size.unwrap_or(usual_group));
        let formats: Vec<MlxFormat> =
            MlxFormat::all().into_iter().filter(|format| format.mode() == mode).collect();
        if !formats.iter().any(|format| format.bits() as u64 == bits) {
            return refused("bits", bits.to_string(), all_bits);
        }
        if !formats.iter().any(|format| format.group() as u64 == group) {
            return refused("group_size", group.to_string(), all_groups);
        }
        // Small numbers: they are among those that exist.
        let (bits, group) = (bits as usize, group as usize);
        Ok(Settings { mode, bits, group })
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        struct RawVisitor;
        impl<'de> Visitor<'de> for RawVisitor {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("quantization settings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut raw = Raw::default();
                while let Some(Name(key)) = map.next_key()? {
                    match key.as_ref() {
                        "group_size" => raw.own.group_size = map.next_value()?,
                        "bits" => raw.own.bits = map.next_value()?,
                        "mode" => raw.own.mode = map.next_value()?,
                        "quant_method" => raw.foreign = map.next_value::<IgnoredAny>().map(|_| true)?,
                        "per_tensor" => {
                            let PerTensor(tensors) = map.next_value()?;
                            for (name, own) in tensors {
                                raw.add(name, own).map_err(A::Error::custom)?;
                            }
                        }
                        _ => {
                            let own = map.next_value()?;
                            raw.add(key.into_owned(), own).map_err(A::Error::custom)?;
                        }
                    }
                }
                Ok(raw)
            }
        }
        deserializer.deserialize_map(RawVisitor)
    }
}

impl<'de> Deserialize<'de> for ModuleEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ModuleEntry, D::Error> {
        struct OwnVisitor;
        impl<'de> Visitor<'de> for OwnVisitor {
            type Value = ModuleEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the settings of a module")
            }

            fn visit_bool<E: Error>(self, quantised: bool) -> Result<ModuleEntry, E> {
                Ok(if quantised { ModuleEntry::Yes } else { ModuleEntry::No })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ModuleEntry, A::Error> {
                let settings = serde::de::value::MapAccessDeserializer::new(map);
                RawSettings::deserialize(settings).map(ModuleEntry::Settings)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ModuleEntry, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(ModuleEntry::Other)
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<ModuleEntry, E> {
                Ok(ModuleEntry::Other)
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<ModuleEntry, E> {
                Ok(ModuleEntry::Other)
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<ModuleEntry, E> {
                Ok(ModuleEntry::Other)
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<ModuleEntry, E> {
                Ok(ModuleEntry::Other)
            }

            fn visit_unit<E: Error>(self) -> Result<ModuleEntry, E> {
                Ok(ModuleEntry::Other)
            }
        }
        deserializer.deserialize_any(OwnVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(quantization: &str) -> At<Option<Quantization>> {
        Quantization::parse(&format!("{{\"model_type\": \"llama\", {quantization}}}"))
    }

    #[test]
    fn reads_settings_and_overrides() {
        let text = r#""quantization": {"group_size": 32, "bits": 3, "a.b": {"bits": 8}, "c": false, "d": true,
            "e": {"mode": "mxfp8"}, "notes": ["x"]}"#;
        let found = parse(text).unwrap().unwrap();
        let affine = |bits, group| Some(Settings { mode: MlxMode::Affine, bits, group });
        assert_eq!(found.of("x"), (affine(3, 32), false));
        // A setting that a module omits has the mode's usual value, not that of the checkpoint.
        assert_eq!(found.of("a.b"), (affine(8, 64), true));
        assert_eq!(found.of("c"), (None, true));
        assert_eq!(found.of("d"), (affine(3, 32), true));
        assert_eq!(found.of("e"), (Some(Settings { mode: MlxMode::Mxfp8, bits: 8, group: 32 }), true));
        assert_eq!(found.of("notes"), (affine(3, 32), false));
    }

    #[test]
    fn a_file_of_its_own_names_tensors_and_fills_in_what_they_omit() {
        let text = r#"{"bits": 8, "group_size": 32, "language_model.a.b": {"bits": 6},
            "per_tensor": {"c.weight": {"group_size": 128}, "d": false, "e.scales": true}}"#;
        let found = Quantization::parse_file(text).unwrap().unwrap();
        let affine = |bits, group| Some(Settings { mode: MlxMode::Affine, bits, group });
        assert_eq!(found.of_tensor("other.weight"), affine(8, 32));
        for name in ["a.b", "a.b.weight", "language_model.a.b.biases"] {
            assert_eq!(found.of_tensor(name), affine(6, 32), "{name}");
        }
        assert_eq!(found.of_tensor("language_model.c.scales"), affine(8, 128));
        assert_eq!((found.of_tensor("d.weight"), found.of("d")), (None, (None, true)));
        assert_eq!(found.of("e"), (affine(8, 32), true));
    }

    #[test]
    fn hostile_files_of_settings_are_refused_or_left_alone() {
        for (text, expected) in [
            (r#"{"bits": 0}"#, "bits is 0"),
            (r#"{"bits": -4}"#, "invalid value"),
            (r#"{"bits": 4, "group_size": 18446744073709551615}"#, "group_size is 18446744073709551615"),
            (r#"{"bits": 4, "mode": "q4"}"#, "mode"),
            (r#"{"bits": 4, "a": {"bits": 7}}"#, r#"quantization of "a": bits is 7"#),
            (r#"{"bits": 4, "a.weight": {"bits": 8}, "a.scales": {"bits": 2}}"#, r#""a""#),
            (r#"{"bits": 4, "a": {}, "per_tensor": {"a": {}}}"#, r#""a""#),
            (r#"{"bits": 4, "per_tensor": [1]}"#, "settings of tensors"),
            ("[4, 64]", "an object"),
            (r#"{"bits": 4"#, "EOF"),
            ("", "EOF"),
        ] {
            let (offset, fault) = Quantization::parse_file(text).expect_err(text);
            assert!(fault.to_string().contains(expected), "{text}: {fault}");
            assert!(offset <= text.len() as u64);
        }
        let deep = format!("{}{}", r#"{"a": "#.repeat(10_000), "}".repeat(10_000));
        assert!(Quantization::parse_file(&deep).is_err());
        for text in ["{}", r#"{"quant_method": "awq", "bits": 4}"#, r#"{"group_size": 64}"#] {
            assert_eq!(Quantization::parse_file(text).unwrap(), None, "{text}");
        }
    }

    #[test]
    fn leaves_other_kinds_alone() {
        let foreign = r#""quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 7}"#;
        assert_eq!(parse(foreign).unwrap(), None);
        assert_eq!(parse(r#""quantization": null"#).unwrap(), None);
        assert_eq!(parse(r#""hidden_size": 64"#).unwrap(), None);
        assert!(parse(r#""quantization_config": {"bits": 4, "group_size": 64}"#).unwrap().is_some());
    }
}
