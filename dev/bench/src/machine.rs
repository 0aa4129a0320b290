//! The parts of the system that a benchmark uses: CPU time of the process, and a busy neighbour pinned to a core.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// CPU time that this process has used.
pub(crate) fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A process that does nothing but burn one core. Ended when dropped.
pub(crate) struct Neighbour(Child);

impl Neighbour {
    /// Starts one, pinned to `core` where given.
    pub(crate) fn start(core: Option<usize>) -> anyhow::Result<Neighbour> {
        let burn = "while :; do :; done";
        let mut command = match core {
            Some(core) => {
                let mut command = Command::new("taskset");
                command.args(["-c", &core.to_string(), "sh", "-c", burn]);
                command
            }
            None => {
                let mut command = Command::new("sh");
                command.args(["-c", burn]);
                command
            }
        };
        let child = command.stdin(Stdio::null()).spawn()?;
        // Until the scheduler has noticed it.
        std::thread::sleep(Duration::from_millis(200));
        Ok(Neighbour(child))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
