//! What `config.json` says about quantisation: settings for all modules, and for some of their own.

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

    /// Returns the settings of a module, and whether they are its own.
    pub(crate) fn of(&self, module: &str) -> (Option<Settings>, bool) {
        match self.modules.get(module) {
            Some(own) => (*own, true),
            None => (self.default, false),
        }
    }
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
                        _ => {
                            let own = map.next_value()?;
                            if raw.modules.insert(key.clone().into_owned(), own).is_some() {
                                let fault = Fault::Duplicate { what: "key", name: key.into_owned() };
                                return Err(A::Error::custom(fault));
                            }
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
    fn leaves_other_kinds_alone() {
        let foreign = r#""quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 7}"#;
        assert_eq!(parse(foreign).unwrap(), None);
        assert_eq!(parse(r#""quantization": null"#).unwrap(), None);
        assert_eq!(parse(r#""hidden_size": 64"#).unwrap(), None);
        assert!(parse(r#""quantization_config": {"bits": 4, "group_size": 64}"#).unwrap().is_some());
    }
}
