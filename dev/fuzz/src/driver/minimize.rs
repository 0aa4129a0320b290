//! Makes a crashing input smaller: cuts pieces out as long as the rest still crashes.

use crate::target::Target;
use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// Whether an input ends a process of its own other than with success. One that runs longer than `timeout` does.
fn crashes(target: &Target, input: &[u8], timeout: Duration) -> io::Result<bool> {
    let file = NamedTempFile::new()?;
    std::fs::write(file.path(), input)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["one", target.name]).arg(file.path());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(!status.success());
        }
        if begin.elapsed() > timeout {
            child.kill()?;
            child.wait()?;
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the smallest input found in `time` that still crashes; the input itself where it does not crash.
pub fn minimize(target: &Target, input: &[u8], timeout: Duration, time: Duration) -> io::Result<Vec<u8>> {
    let mut best = input.to_vec();
    if !crashes(target, &best, timeout)? {
        return Ok(best);
    }
    let (begin, mut piece) = (Instant::now(), best.len().div_ceil(2));
    while piece > 0 {
        let mut at = 0;
        while at < best.len() {
            if begin.elapsed() > time {
                return Ok(best);
            }
            let mut shorter = best.clone();
            shorter.drain(at..(at + piece).min(best.len()));
            match crashes(target, &shorter, timeout)? {
                true => best = shorter,
                false => at += piece,
            }
        }
        piece /= 2;
    }
    Ok(best)
}
