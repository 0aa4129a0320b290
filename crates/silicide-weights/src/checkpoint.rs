//! Checkpoints: one or more safetensors files with a `config.json`, MLX's among them.

use crate::bytes::FileReader;
use crate::config::Config;
use crate::entry::{Data, Tensor};
use crate::error::{Error, Fault, Result};
use crate::mlx::{self, Quantization};
use crate::names::NameIndex;
use crate::safetensors::{Index, SafetensorsFile};
use crate::{foreign, json, limits};
use std::path::Path;

/// The index that a checkpoint in several files has.
pub(crate) const INDEX: &str = "model.safetensors.index.json";
/// The file that can have the quantization settings, beside `config.json`.
pub(crate) const QUANTIZATION: &str = "quantization_config.json";
/// The file that a checkpoint in one has.
pub(crate) const SINGLE: &str = "model.safetensors";

/// The tensors of a checkpoint, by name.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) files: Vec<SafetensorsFile>,
    pub(crate) tensors: Vec<Tensor>,
    index: NameIndex,
    pub(crate) config: Option<Config>,
    pub(crate) quantization: Option<Quantization>,
}

impl Checkpoint {
    /// Opens the checkpoint in a directory; `None` if there is none.
    pub(crate) fn open(directory: &Path, reader: &mut FileReader<'_>) -> Result<Option<Checkpoint>> {
        let read = |name: &'static str| Config::read(&directory.join(name), name);
        let (config, settings) = (read("config.json")?, read(QUANTIZATION)?);
        let settings = settings.as_ref();
        let path = directory.join(INDEX);
        if let Some(text) = json::read(&path, INDEX, limits::INDEX_BYTES)? {
            let index = Index::parse(&path, &text)?;
            let files = index.files().into_iter().map(|name| open_file(&directory.join(name), reader));
            let files = files.collect::<Result<Vec<_>>>()?;
            index.agree(&path, &text, &files)?;
            return Checkpoint::assemble(files, config, settings).map(Some);
        }
        let single = directory.join(SINGLE);
        if !single.is_file() {
            return Ok(None);
        }
        Checkpoint::assemble(vec![open_file(&single, reader)?], config, settings).map(Some)
    }

    /// Puts files together, joining planes if `config` says that the weights are quantised; if it does not, if `settings` do, the
    /// file beside it.
    pub(crate) fn assemble(
        files: Vec<SafetensorsFile>,
        config: Option<Config>,
        settings: Option<&Config>,
    ) -> Result<Checkpoint> {
        let mut quantization = config.as_ref().map(Config::quantization).transpose()?.flatten();
        if quantization.is_none() {
            quantization = settings.map(Config::as_quantization).transpose()?.flatten();
        }
        let mut tensors = Vec::new();
        for (number, file) in (0..).zip(&files) {
            for tensor in file.tensors() {
                let mut tensor = tensor.clone();
                if let Data::One(place) = tensor.data {
                    tensor.data = Data::One(place.in_file(number));
                }
                tensors.push(tensor);
            }
        }
        let blame = |tensor: &str, fault: Fault| {
            let holder =
                files.iter().rev().find(|file| file.tensors().iter().any(|other| &*other.name == tensor));
            let (path, offset) =
                holder.map_or((Path::new(""), 0), |file| (file.bytes().path(), file.declared(tensor)));
            Error::malformed(path, offset, fault)
        };
        let name = |tensors: &[Tensor], number: u32| {
            tensors.get(number as usize).map(|tensor| tensor.name.to_string())
        };
        let build = |tensors: &[Tensor]| {
            let text =
                |number: u32| tensors.get(number as usize).map_or(&[][..], |tensor| tensor.name.as_bytes());
            NameIndex::build(tensors.len(), text).map_err(|number| {
                let name = name(tensors, number).unwrap_or_default();
                blame(&name, Fault::Duplicate { what: "tensor", name: name.clone() })
            })
        };
        let mut index = build(&tensors)?;
        if let Some(quantization) = &quantization {
            tensors = mlx::join(tensors, quantization).map_err(|(tensor, fault)| blame(&tensor, fault))?;
            index = build(&tensors)?;
        }
        Ok(Checkpoint { files, tensors, index, config, quantization })
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Tensor> {
        let text =
            |number: u32| self.tensors.get(number as usize).map_or(&[][..], |tensor| tensor.name.as_bytes());
        self.tensors.get(self.index.find(name.as_bytes(), text)? as usize)
    }
}

/// Opens one file. A clone without Git LFS has pointers in their place.
fn open_file(path: &Path, reader: &mut FileReader<'_>) -> Result<SafetensorsFile> {
    foreign::refuse(path)?;
    SafetensorsFile::parse(reader.open(path)?)
}
