//! Writing tensors: streamed piece by piece, so a model never has to fit in memory.

use super::plan::Step;
use super::rows::Rows;
use super::split::Shard;
use crate::error::Error;
use indicatif::ProgressBar;
use silicide::CancelToken;
use silicide_quant::encode_into;
use silicide_weights::Source;
use silicide_weights::gguf::GgufStream;

/// Elements that are converted at a time. Signals are obeyed between two pieces.
const PIECE: usize = 1 << 20;

/// What writing needs besides the plan.
pub(super) struct Writing<'a> {
    pub(super) source: &'a Source,
    pub(super) threads: usize,
    pub(super) cancel: &'a CancelToken,
    /// Counts bytes of the output.
    pub(super) bar: &'a ProgressBar,
}

impl Writing<'_> {
    /// Writes all files. They appear together, when the last is complete.
    pub(super) fn write(&self, shards: Vec<Shard>, steps: &[Step<'_>]) -> Result<(), Error> {
        let mut complete = Vec::new();
        for Shard { writer, first, count, .. } in shards {
            let mut stream = writer.begin()?;
            for step in steps.iter().skip(first).take(count) {
                self.tensor(step, &mut stream)?;
            }
            complete.push(stream.complete()?);
        }
        self.check()?;
        for file in complete {
            file.persist()?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        if self.cancel.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn put(&self, stream: &mut GgufStream, bytes: &[u8]) -> Result<(), Error> {
        self.check()?;
        stream.write(bytes)?;
        self.bar.inc(bytes.len() as u64);
        Ok(())
    }

    fn tensor(&self, step: &Step<'_>, stream: &mut GgufStream) -> Result<(), Error> {
        let dtype = step.choice.dtype;
        if step.entry.dtype().ok() == Some(dtype) && step.heads.is_none() {
            let data = self.source.data(&step.entry)?;
            for piece in data.chunks(PIECE) {
                self.put(stream, piece)?;
            }
            return Ok(());
        }
        let rows = Rows::new(self.source, step)?;
        let (width, height) = (rows.width(), rows.height());
        let at_once = (PIECE / width.max(1)).clamp(1, height.max(1));
        let mut values = vec![0.0; at_once * width];
        let mut first = 0;
        while first < height {
            let count = at_once.min(height - first);
            let Some(values) = values.get_mut(..count * width) else { break };
            rows.read(first, values)?;
            let mut bytes = vec![0; values.len() / dtype.block_len() * dtype.block_bytes()];
            encode_into(dtype, values, &mut bytes, self.threads)?;
            self.put(stream, &bytes)?;
            first += count;
        }
        Ok(())
    }
}
