//! The devices to try. The CPU counts once for each instruction set, and each of these with several thread counts,
//! which must agree to the bit.

use crate::report::{Failure, Problem};
use silicide_core::{Device, DeviceOptions, Isa};

/// Thread counts of the CPU backend; the first runs everything, the others must produce the same bits.
const THREADS: [usize; 3] = [2, 1, 3];

/// A device to try, opened as often as it takes.
#[derive(Clone, Debug)]
pub struct Target {
    /// The device in reports' totals: `cpu`, `vulkan:0`.
    pub device: String,
    /// The device in failures: `cpu avx2`, `vulkan:0`.
    pub label: String,
    /// Runs everything.
    pub main: Device,
    /// The same with other numbers of threads.
    pub others: Vec<Device>,
}

impl Target {
    /// Returns a target of one device, which is called `name` in reports.
    pub fn of(name: &str, device: Device) -> Target {
        Target { device: name.to_owned(), label: name.to_owned(), main: device, others: Vec::new() }
    }

    /// Returns the options that show the most faults of GPU kernels: validation layers, NaN in scratch memory, and
    /// bindings that do not end with their view.
    pub fn gpu_options() -> DeviceOptions {
        let mut options = DeviceOptions::default();
        options.validation = true;
        options.poison_scratch = true;
        options.loose_bindings = true;
        options
    }

    /// The same with one thread only, where there are threads: emulators are bad at waiting.
    pub fn single(mut self) -> Target {
        if let Some(i) = self.others.iter().position(|device| device.info().threads == 1) {
            self.main = self.others.swap_remove(i);
        }
        self.others.clear();
        self
    }
}

/// Opens devices by name, the CPU once for each instruction set (or only for `isa`). A device that does not open is a
/// failure.
pub fn open(names: &[String], isa: Option<Isa>) -> (Vec<Target>, Vec<Failure>) {
    let (mut targets, mut failures) = (Vec::new(), Vec::new());
    for name in names {
        let opened = if name == "cpu" {
            let isas = isa.map_or_else(Isa::available, |isa| vec![isa]);
            isas.into_iter().map(|isa| open_cpu(isa).map_err(|error| error.to_string())).collect()
        } else {
            vec![open_gpu(name)]
        };
        for target in opened {
            match target {
                Ok(target) => targets.push(target),
                Err(error) => failures.push(Failure::of_device(name, Problem::Missing(error))),
            }
        }
    }
    (targets, failures)
}

fn open_cpu(isa: Isa) -> silicide_core::Result<Target> {
    let [main, others @ ..] = THREADS.map(|threads| {
        let mut options = DeviceOptions::default();
        options.isa = Some(isa);
        options.threads = Some(threads);
        options.poison_scratch = true;
        Device::open_with("cpu", &options)
    });
    Ok(Target {
        device: "cpu".to_owned(),
        label: format!("cpu {isa}"),
        main: main?,
        others: others.into_iter().collect::<Result<_, _>>()?,
    })
}

fn open_gpu(name: &str) -> Result<Target, String> {
    let main = Device::open_with(name, &Target::gpu_options()).map_err(|error| error.to_string())?;
    Ok(Target::of(name, main))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_opened_for_each_instruction_set() {
        let (targets, failures) = open(&["cpu".to_owned()], None);
        assert!(failures.is_empty());
        assert_eq!(targets.len(), Isa::available().len());
        for target in &targets {
            assert_eq!(target.main.info().threads, 2);
            assert_eq!(target.others.len(), 2);
        }
        let single = targets.into_iter().map(Target::single);
        assert!(single.into_iter().all(|target| target.main.info().threads == 1 && target.others.is_empty()));
    }

    #[test]
    fn a_missing_device_is_a_failure() {
        let (targets, failures) = open(&["cpu".to_owned(), "cpu:7".to_owned()], Some(Isa::Portable));
        assert_eq!((targets.len(), failures.len()), (1, 1));
        assert!(matches!(failures[0].problem, Problem::Missing(_)));
    }
}
