//! Models in several safetensors files: an index says which tensor is in which.

use super::SafetensorsFile;
use crate::error::{Error, Fault, Result};
use crate::json::{self, Name, Object};
use crate::limits;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::marker::PhantomData;
use std::path::{Component, Path};

/// The index of a checkpoint. Names borrow from its text.
#[derive(Deserialize)]
pub(crate) struct Index<'a> {
    #[serde(borrow)]
    weight_map: WeightMap<'a>,
}

/// Tensors and the files they are in.
struct WeightMap<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Index<'a> {
    /// Reads the text of an index that lies at `path`.
    pub(crate) fn parse(path: &Path, text: &'a str) -> Result<Index<'a>> {
        let malformed = |(offset, fault)| Error::malformed(path, offset, fault);
        let Object(index): Object<Index<'_>> = json::parse("index", text).map_err(malformed)?;
        let files = index.files();
        let (got, limit) = (files.len() as u64, limits::SHARDS as u64);
        if got > limit || got == 0 {
            return Err(malformed((
                0,
                Fault::TooMany { what: "the number of files of a model", got, limit },
            )));
        }
        for name in files {
            let mut components = Path::new(name).components();
            if !matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == name)
            {
                let fault = Fault::ShardName { name: name.to_owned() };
                return Err(malformed((json::locate(text, name), fault)));
            }
        }
        Ok(index)
    }

    /// Returns the names of the files, sorted.
    pub(crate) fn files(&self) -> BTreeSet<&str> {
        self.weight_map.0.iter().map(|(_, file)| file.as_ref()).collect()
    }

    /// Refuses an index that places tensors where they are not. `files` are those of [`Index::files`], in order.
    pub(crate) fn agree(&self, path: &Path, text: &str, files: &[SafetensorsFile]) -> Result<()> {
        let numbers: HashMap<&str, usize> = self.files().into_iter().zip(0..).collect();
        let mut places = HashMap::new();
        for (number, file) in files.iter().enumerate() {
            for tensor in file.tensors() {
                places.insert(&*tensor.name, number);
            }
        }
        for (tensor, file) in &self.weight_map.0 {
            if places.get(tensor.as_ref()) != numbers.get(file.as_ref()) {
                let fault = Fault::NotInShard { tensor: tensor.to_string(), file: file.to_string() };
                return Err(Error::malformed(path, json::locate(text, tensor), fault));
            }
        }
        Ok(())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for WeightMap<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WeightMap<'a>, D::Error> {
        struct Collecting<'a>(PhantomData<&'a str>);
        impl<'de: 'a, 'a> Visitor<'de> for Collecting<'a> {
            type Value = WeightMap<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of file names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap<'a>, A::Error> {
                let mut entries = Vec::new();
                while let Some((Name(tensor), Name(file))) = map.next_entry()? {
                    entries.push((tensor, file));
                }
                Ok(WeightMap(entries))
            }
        }
        deserializer.deserialize_map(Collecting(PhantomData))
    }
}
