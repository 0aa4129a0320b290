//! The file of a model's repacked weights, before the model is loaded: opened, or written first.

use super::options::ModelOptions;
use crate::error::Result;
use crate::model::{ConfiguredModel, LayerPlacement, Repack, describe_source};
use crate::repack::{RepackCache, RepackKey, RepackWriter, RepackedWeights};
use silicide_core::Device;
use silicide_weights::Source;
use std::sync::Arc;

/// Opens the repacked weights of a model in the folder that `options` name. Writes them first if there are none that can be used. Returns them, and
/// what became of the file if it was not used as it was. A file that can't be written is no error: weights are repacked into memory then.
pub(super) fn stored(
    source: &Source,
    configured: &ConfiguredModel,
    placement: &LayerPlacement,
    options: &ModelOptions,
) -> Result<(Option<Arc<RepackedWeights>>, Option<String>)> {
    let Some(cache) = &options.repack_cache else { return Ok((None, None)) };
    let Some(cpu) = placement.devices().iter().find(|device| !device.info().is_gpu()) else {
        return Ok((None, None));
    };
    let key = match RepackKey::of(source, cpu) {
        Ok(key) => key,
        Err(why) => return Ok((None, Some(format!("repacked weights are not stored: {why}")))),
    };
    let ignored = match RepackedWeights::open(cache, &key, cpu.info().threads) {
        Ok(Some(weights)) => return Ok((Some(Arc::new(weights)), None)),
        Ok(None) => String::new(),
        Err(why) => format!(", in place of a file that is ignored: {why}"),
    };
    let written = Unwritten { source, configured, cpu }.write(cache, &key, options)?;
    let opened = written.and_then(|()| RepackedWeights::open(cache, &key, cpu.info().threads));
    Ok(match opened {
        Ok(Some(weights)) => {
            let note = format!("repacked weights were written to {}{ignored}", cache.directory().display());
            (Some(Arc::new(weights)), Some(note))
        }
        Ok(None) => (None, Some("repacked weights are not stored: the file has gone".to_owned())),
        Err(why) => {
            let folder = cache.directory().display();
            (None, Some(format!("repacked weights can't be stored in {folder}: {why}{ignored}")))
        }
    })
}

/// The parts of a model that a file is written from.
struct Unwritten<'a> {
    source: &'a Source,
    configured: &'a ConfiguredModel,
    cpu: &'a Device,
}

impl Unwritten<'_> {
    /// Repacks all weights, one at a time, and writes the file of `key`. Returns the error of the file as a value.
    fn write(
        &self,
        cache: &RepackCache,
        key: &RepackKey,
        options: &ModelOptions,
    ) -> Result<Result<(), String>> {
        let Unwritten { source, configured, cpu } = self;
        let (placement, all) = (LayerPlacement::single(cpu), Repack::All.into());
        let weights = describe_source(&placement, source, configured, &all, Some(&options.load))?.weights;
        let mut writer = match RepackWriter::begin(cache, key, &weights.to_store()) {
            Ok(writer) => writer,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let written = weights.store(&mut writer)?;
        Ok(written.and_then(|()| writer.finish()).map_err(|error| error.to_string()))
    }
}
