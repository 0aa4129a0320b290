//! A process that ends with its handle, together with the processes that it starts.
//!
//! On Unix the process is in a process group of its own, and the whole group is killed. A Ctrl-C at the terminal does not
//! reach that group: the handle decides. A [`Watchdog`] leads the group and kills it if this process ends without dropping
//! the handle, for example by SIGKILL. On Windows `taskkill /T` ends the tree of child processes; a process whose parent has
//! already ended is not in that tree, and none ends if this process is killed. A process that moves into another group or
//! session escapes on both.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long to wait for killed processes to close their files.
const END: Duration = Duration::from_secs(2);
/// The polling interval.
const LOOK: Duration = Duration::from_millis(5);

/// A running process and its standard error.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    /// Leads the group. `None` without a shell: the process leads the group itself.
    #[cfg(unix)]
    watchdog: Option<Watchdog>,
    /// Reads standard error while the process runs: a full pipe would stop it.
    reader: Option<JoinHandle<String>>,
    ended: bool,
}

impl Running {
    /// Starts a process in a group of its own. The last `kept` bytes of its standard error are kept.
    pub(super) fn start(command: &mut Command, kept: usize) -> io::Result<Running> {
        // The watchdog runs first, so that the process never runs without it.
        #[cfg(unix)]
        let watchdog = Watchdog::start().ok();
        #[cfg(unix)]
        {
            let group = watchdog.as_ref().map_or(0, |watchdog| watchdog.shell.id());
            std::os::unix::process::CommandExt::process_group(command, group as i32);
        }
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let reader = child.stderr.take().map(|errors| std::thread::spawn(move || read_all(errors, kept)));
        Ok(Running {
            child,
            #[cfg(unix)]
            watchdog,
            reader,
            ended: false,
        })
    }

    /// Returns the status and the standard error if the process has ended. Processes that it left behind are killed then.
    pub(super) fn poll(&mut self) -> io::Result<Option<(ExitStatus, String)>> {
        if !self.has_ended()? {
            return Ok(None);
        }
        self.kill();
        let status = self.child.wait()?;
        self.ended = true;
        let said = self.reader.take().filter(finished_soon).and_then(|reader| reader.join().ok());
        Ok(Some((status, said.unwrap_or_default())))
    }

    /// Returns whether the process has ended. On Unix it is not reaped, so that its number and its group's are not reused.
    fn has_ended(&mut self) -> io::Result<bool> {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
            let Some(pid) = Pid::from_raw(self.child.id() as i32) else { return Ok(true) };
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            Ok(waitid(WaitId::Pid(pid), options)?.is_some())
        }
        #[cfg(not(unix))]
        {
            Ok(self.child.try_wait()?.is_some())
        }
    }

    /// Kills the process and those that it started. Errors mean that they have ended.
    fn kill(&mut self) {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, Signal, kill_process_group};
            let leader = self.watchdog.as_ref().map_or(&self.child, |watchdog| &watchdog.shell);
            if let Some(group) = Pid::from_raw(leader.id() as i32) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        #[cfg(windows)]
        if let Some(root) = std::env::var_os("SystemRoot") {
            let program = std::path::Path::new(&root).join("System32\\taskkill.exe");
            let mut command = Command::new(program);
            command.args(["/T", "/F", "/PID", &self.child.id().to_string()]);
            let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        let _ = self.child.kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.kill();
        let _ = self.child.wait();
        // The pipe closes when the last process has ended; none can create files after that.
        if let Some(reader) = &self.reader {
            finished_soon(reader);
        }
    }
}

/// A shell that leads a process group and kills it when its standard input is closed. The other end of that pipe is here, so
/// the system closes it when this process ends in any way.
#[cfg(unix)]
#[derive(Debug)]
struct Watchdog {
    shell: Child,
}

#[cfg(unix)]
impl Watchdog {
    fn start() -> io::Result<Watchdog> {
        use std::os::unix::process::CommandExt;
        let shell = Command::new("/bin/sh")
            .args(["-c", "read -r line; kill -KILL 0"])
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Watchdog { shell })
    }
}

#[cfg(unix)]
impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Waits until all processes have closed standard error, for at most [`END`].
fn finished_soon(reader: &JoinHandle<String>) -> bool {
    let begin = Instant::now();
    while !reader.is_finished() && begin.elapsed() < END {
        std::thread::sleep(LOOK);
    }
    reader.is_finished()
}

/// Reads all of `errors` and returns the last `kept` bytes.
fn read_all(mut errors: impl Read, kept: usize) -> String {
    let (mut said, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = errors.read(&mut piece) {
        said.extend_from_slice(piece.get(..count).unwrap_or_default());
        let surplus = said.len().saturating_sub(kept);
        said.drain(..surplus);
    }
    String::from_utf8_lossy(&said).into_owned()
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Starts a shell that starts a process, and returns the number of that process when it runs.
    fn shell(script: &str) -> (tempfile::TempDir, Running, u32) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let script = script.replace("FILE", &file.display().to_string());
        let running = Running::start(Command::new("sh").args(["-c", &script]), 100).unwrap();
        let begin = Instant::now();
        let pid = loop {
            if let Some(pid) = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok()) {
                break pid;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "the shell does not start");
            std::thread::sleep(LOOK);
        };
        (directory, running, pid)
    }

    /// Returns whether a process runs; a zombie does not.
    fn runs(pid: u32) -> bool {
        let output = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
        let status = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        !status.is_empty() && !status.starts_with('Z')
    }

    /// Returns whether a process ends soon: it closes its files a moment before.
    fn ends(pid: u32) -> bool {
        let begin = Instant::now();
        while runs(pid) && begin.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(LOOK);
        }
        !runs(pid)
    }

    #[test]
    fn dropping_the_handle_ends_the_children_too() {
        let (_directory, running, pid) = shell("sleep 60 & echo $! > FILE; wait");
        assert!(runs(pid));
        drop(running);
        assert!(ends(pid));
    }

    #[test]
    fn closing_the_watchdogs_pipe_ends_the_process() {
        let (_directory, mut running, pid) = shell("sleep 60 & echo $! > FILE; wait");
        assert!(runs(pid));
        // The system closes the pipe when a process is killed.
        drop(running.watchdog.as_mut().unwrap().shell.stdin.take());
        assert!(ends(pid));
    }

    #[test]
    fn a_process_that_ends_takes_its_children_along() {
        let (_directory, mut running, pid) = shell("sleep 60 & echo $! > FILE; echo done >&2; exit 3");
        let begin = Instant::now();
        let (status, said) = loop {
            if let Some(ended) = running.poll().unwrap() {
                break ended;
            }
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(LOOK);
        };
        assert_eq!((status.code(), said.as_str()), (Some(3), "done\n"));
        assert!(ends(pid));
    }
}
