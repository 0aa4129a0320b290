//! How to open the CPU device.

use super::Isa;
use super::cores::default_threads;
use std::time::Duration;

/// The most threads of a device: sleeping threads are bits of one word.
pub(crate) const MAX_THREADS: usize = 64;

/// How to open the CPU device. Nothing here changes results except `isa`: tiles are fixed by the command list, so
/// results have the same bits with any number of threads.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CpuOptions {
    /// Threads that run kernels, the submitting one included. Clamped to 1 to 64. `None`: one for each core that the process may use; on
    /// Linux without efficiency cores, one for the hyper-threads of a core, of one NUMA node, and within the quota of control groups.
    pub threads: Option<usize>,
    /// The highest instruction set to use. `None`: the best of the machine.
    pub isa: Option<Isa>,
    /// How long a thread that waits for the next group of commands spins before it parks.
    pub spin: Duration,
}

impl Default for CpuOptions {
    fn default() -> CpuOptions {
        CpuOptions { threads: None, isa: None, spin: Duration::from_micros(200) }
    }
}

impl CpuOptions {
    /// Sets the number of threads.
    pub fn threads(mut self, threads: usize) -> CpuOptions {
        self.threads = Some(threads);
        self
    }

    /// Sets the highest instruction set to use.
    pub fn isa(mut self, isa: Isa) -> CpuOptions {
        self.isa = Some(isa);
        self
    }

    /// Sets the time spent spinning before a waiting thread parks.
    pub fn spin(mut self, spin: Duration) -> CpuOptions {
        self.spin = spin;
        self
    }

    /// Returns the number of threads on this machine.
    pub(crate) fn thread_count(&self) -> usize {
        self.threads.unwrap_or_else(default_threads).clamp(1, MAX_THREADS)
    }
}
