//! One trial: a kernel runs a call in one layout, twice in a row without waiting.
//!
//! The two runs differ in everything that must not matter: the bytes round the arguments and the old contents of
//! outputs. A kernel that reads past its inputs, leaves part of an output unwritten or keeps something from one run
//! to the next therefore has two different results.

use crate::layout::{Layout, Spot};
use crate::report::Problem;
use crate::subject::Subject;
use silicide_core::{Buffer, CommandEncoder, Device, EncoderOptions, Result};
use silicide_quant::DType;

/// The bytes outside of arguments, in the first run and in the second: NaN in every float, and a finite value.
const GARBAGE: [u8; 2] = [0xff, 0x5a];

/// All bytes of all allocations.
type Image = Vec<Vec<u8>>;

/// The outputs after the first run of a trial.
pub(crate) type Results = Vec<Vec<u8>>;

/// A kernel, a device and a call in a layout.
#[derive(Clone, Copy)]
pub(crate) struct Trial<'a> {
    pub(crate) device: &'a Device,
    pub(crate) subject: &'a Subject,
    pub(crate) layout: &'a Layout,
    pub(crate) kernel: &'static str,
}

impl Trial<'_> {
    /// Runs the trial. Returns the results, if there are any, and all problems.
    pub(crate) fn run(&self) -> (Option<Results>, Vec<Problem>) {
        let before = GARBAGE.map(|garbage| self.image(garbage));
        let outcome = self.submit_twice(&before);
        let mut problems = validation(self.device);
        let after = match outcome {
            Ok(after) => after,
            Err(error) => {
                problems.push(Problem::Error(error.to_string()));
                return (None, problems);
            }
        };
        let run = |number: usize, before: &Image, after: &Image| self.beside(number, before, after);
        problems.extend(run(1, &before[0], &after[0]));
        problems.extend(run(2, &before[1], &after[1]));
        let [first, second] = after.map(|image| self.results(&image));
        problems.extend(check(self.subject, self.kernel, &first));
        problems.extend(differences(self.subject, &first, &second).map(Problem::NotRepeatable));
        (Some(first), problems)
    }

    /// The bytes of every allocation before the run.
    fn image(&self, garbage: u8) -> Image {
        let mut image: Image = self.layout.storages.iter().map(|&bytes| vec![garbage; bytes]).collect();
        let contents = self.subject.contents.iter().zip(&self.layout.spots);
        for (contents, spot) in contents {
            let place = image.get_mut(spot.storage).and_then(|bytes| bytes.get_mut(spot.range()));
            if let (Some(contents), Some(place)) = (contents, place) {
                place.copy_from_slice(contents);
            }
        }
        image
    }

    fn submit_twice(&self, before: &[Image; 2]) -> Result<[Image; 2]> {
        let first = Placed::new(self, &before[0])?;
        let second = Placed::new(self, &before[1])?;
        let submissions = [first.submit(self)?, second.submit(self)?];
        for submission in submissions.iter().rev() {
            submission.wait()?;
        }
        Ok([first.bytes()?, second.bytes()?])
    }

    fn outputs(&self) -> &[Spot] {
        self.layout.spots.get(self.subject.call.inputs.len()..).unwrap_or(&[])
    }

    fn results(&self, image: &Image) -> Results {
        let bytes = |spot: &Spot| image.get(spot.storage)?.get(spot.range()).map(<[u8]>::to_vec);
        self.outputs().iter().map(|spot| bytes(spot).unwrap_or_default()).collect()
    }

    /// Bytes outside the outputs that changed: the first in each allocation.
    fn beside(&self, run: usize, before: &Image, after: &Image) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (storage, (before, after)) in before.iter().zip(after).enumerate() {
            let mut outputs: Vec<_> =
                self.outputs().iter().filter(|spot| spot.storage == storage).map(Spot::range).collect();
            outputs.sort_by_key(|range| range.start);
            let mut gaps = Vec::new();
            let mut end = 0;
            for output in outputs {
                gaps.push(end..output.start);
                end = output.end;
            }
            gaps.push(end..before.len());
            let changed = |&i: &usize| before.get(i) != after.get(i);
            if let Some(byte) = gaps.into_iter().flatten().find(changed) {
                problems.push(Problem::Overwrote { run, what: self.describe(storage, byte) });
            }
        }
        problems
    }

    /// A byte in words: which argument it belongs to, or which it is near.
    fn describe(&self, storage: usize, byte: usize) -> String {
        let slots = self.subject.call.op.slots();
        let here = slots.iter().zip(&self.layout.spots).filter(|(_, spot)| spot.storage == storage);
        let distance = |spot: &Spot| {
            let range = spot.range();
            range.start.saturating_sub(byte).max((byte + 1).saturating_sub(range.end))
        };
        let Some((slot, spot)) = here.min_by_key(|(_, spot)| distance(spot)) else {
            return format!("byte {byte} of an allocation without arguments");
        };
        let range = spot.range();
        if range.contains(&byte) {
            format!("byte {} of input {}", byte - range.start, slot.name)
        } else if byte < range.start {
            format!("the byte {} before {}", range.start - byte, slot.name)
        } else {
            format!("the byte {} past the end of {}", byte + 1 - range.end, slot.name)
        }
    }
}

/// Messages of the validation layer since the last call.
pub(crate) fn validation(device: &Device) -> Vec<Problem> {
    device.validation_messages().into_iter().map(Problem::Validation).collect()
}

/// Holds outputs of a kernel against the reference.
pub(crate) fn check(subject: &Subject, kernel: &str, results: &[Vec<u8>]) -> Vec<Problem> {
    let slots = subject.call.output_slots();
    let mut problems = Vec::new();
    for (i, (bytes, slot)) in results.iter().zip(slots).enumerate() {
        if let Some(mismatch) = subject.check(i, bytes, kernel) {
            let tolerance = subject.tolerance(i, kernel);
            let (nmse, max) = (tolerance.nmse, tolerance.max);
            problems.push(Problem::Wrong { output: slot.name, mismatch, nmse, max });
        }
    }
    problems
}

/// The first difference of two results, in words.
pub(crate) fn differences(subject: &Subject, first: &Results, second: &Results) -> Option<String> {
    let outputs = subject.call.output_slots().into_iter().zip(&subject.call.outputs);
    for ((slot, info), (first, second)) in outputs.zip(first.iter().zip(second)) {
        let elements = first.chunks(info.dtype.size()).zip(second.chunks(info.dtype.size()));
        if let Some((i, (a, b))) = elements.enumerate().find(|(_, (a, b))| a != b) {
            return Some(format!(
                "{}[{i}] is {} and {}",
                slot.name,
                value(info.dtype, a),
                value(info.dtype, b)
            ));
        }
    }
    None
}

fn value(dtype: DType, bytes: &[u8]) -> String {
    let bits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
    silicide_quant::decode(dtype, bytes).first().map_or(bits.clone(), |value| format!("{value:e} (0x{bits})"))
}

/// The arguments of a run, in device memory.
struct Placed {
    storages: Vec<Buffer>,
    inputs: Vec<Buffer>,
    outputs: Vec<Buffer>,
}

impl Placed {
    fn new(trial: &Trial<'_>, image: &Image) -> Result<Placed> {
        let mut storages = Vec::new();
        for bytes in image {
            storages.push(Buffer::from_slice(trial.device, [bytes.len()], bytes)?);
        }
        let mut arguments = Vec::new();
        for (info, spot) in trial.subject.call.arguments().zip(&trial.layout.spots) {
            if let Some(storage) = storages.get(spot.storage) {
                let view = storage.view(spot.start, spot.bytes)?;
                arguments.push(view.reinterpret(info.dtype)?.reshape(info.shape)?);
            }
        }
        let outputs = arguments.split_off(trial.subject.call.inputs.len().min(arguments.len()));
        Ok(Placed { storages, inputs: arguments, outputs })
    }

    fn submit(&self, trial: &Trial<'_>) -> Result<silicide_core::Submission> {
        let mut options = EncoderOptions::default();
        options.kernel = Some(trial.kernel);
        let mut encoder = CommandEncoder::with(trial.device, options);
        let inputs: Vec<&Buffer> = self.inputs.iter().collect();
        let outputs: Vec<&Buffer> = self.outputs.iter().collect();
        encoder.record_into(&*trial.subject.call.op, &inputs, &outputs)?;
        encoder.submit()
    }

    fn bytes(&self) -> Result<Image> {
        self.storages.iter().map(Buffer::to_vec::<u8>).collect()
    }
}

/// Runs the call as users do: the device chooses the kernel and makes the outputs (unless they are updated).
pub(crate) fn run_default(device: &Device, subject: &Subject) -> Vec<Problem> {
    let outcome = submit_default(device, subject);
    let mut problems = validation(device);
    match outcome {
        Ok(results) => problems.extend(check(subject, subject.preferred(device.info()), &results)),
        Err(error) => problems.push(Problem::Error(error.to_string())),
    }
    problems
}

fn submit_default(device: &Device, subject: &Subject) -> Result<Results> {
    let mut arguments = Vec::new();
    for (info, contents) in subject.call.arguments().zip(&subject.contents) {
        if let Some(contents) = contents {
            let bytes = Buffer::from_slice(device, [contents.len()], contents)?;
            arguments.push(bytes.reinterpret(info.dtype)?.reshape(info.shape)?);
        }
    }
    let given = arguments.split_off(subject.call.inputs.len().min(arguments.len()));
    let inputs: Vec<&Buffer> = arguments.iter().collect();
    let mut encoder = CommandEncoder::new(device);
    let outputs = if subject.inferred {
        encoder.record(&*subject.call.op, &inputs)?.into_vec()
    } else {
        let mut outputs = Vec::new();
        let mut given = given.into_iter();
        for (info, slot) in subject.call.outputs.iter().zip(subject.call.output_slots()) {
            let old = if slot.access.reads() { given.next() } else { None };
            outputs.push(match old {
                Some(buffer) => buffer,
                None => Buffer::new(device, info.dtype, info.shape)?,
            });
        }
        encoder.record_into(&*subject.call.op, &inputs, &outputs.iter().collect::<Vec<_>>())?;
        outputs
    };
    encoder.submit()?.wait()?;
    outputs.iter().map(|output| output.reinterpret(DType::U8)?.to_vec::<u8>()).collect()
}
