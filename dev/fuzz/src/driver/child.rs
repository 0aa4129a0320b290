//! Starting, watching and ending one child process.

use super::{Inputs, Report, Run};
use crate::target::Target;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::{NamedTempFile, TempPath};

/// How often the parent looks at the status file.
const POLL: Duration = Duration::from_millis(200);

/// A running worker.
pub(super) struct Child {
    process: process::Child,
    status: TempPath,
    messages: TempPath,
}

/// How a child ended.
pub(super) enum End {
    /// It ran all of its inputs, or its time was up.
    Done,
    /// An input ended it.
    Crashed {
        /// The number of the input.
        number: u64,
        /// The signal, the message of the panic, or that it hung.
        how: String,
    },
}

/// A moment in the life of a child.
struct Clock {
    now: Instant,
    processor: Option<Duration>,
}

impl Clock {
    /// Whether an input that began here has hung by `later`: by processor time, as the machine may be busy with other
    /// things. A child that waits uses none and hangs after ten times as long.
    fn exceeds(&self, later: &Clock, timeout: Duration) -> bool {
        let elapsed = later.now.saturating_duration_since(self.now);
        match (self.processor, later.processor) {
            (Some(before), Some(after)) => after.saturating_sub(before) > timeout || elapsed > timeout * 10,
            _ => elapsed > timeout,
        }
    }
}

impl Child {
    /// Starts a worker at input `start`.
    pub(super) fn start(run: &Run, target: &Target, start: u64, time: Duration) -> io::Result<Child> {
        let status = NamedTempFile::new()?;
        fs::write(status.path(), start.to_le_bytes())?;
        let messages = NamedTempFile::new()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", target.name]);
        let mut option = |name: &str, value: String| {
            command.args([name, &value]);
        };
        option("--start", start.to_string());
        option("--end", run.most.to_string());
        option("--milliseconds", time.as_millis().to_string());
        option("--memory", run.memory.to_string());
        option("--status", status.path().display().to_string());
        run.isas.iter().for_each(|isa| option("--isa", isa.name().to_owned()));
        match run.inputs {
            Inputs::Mutated { seed } => option("--seed", seed.to_string()),
            Inputs::Corpus => drop(command.arg("--corpus")),
        }
        if run.gather {
            command.arg("--gather");
        }
        let error = messages.reopen()?;
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(error).spawn()?;
        Ok(Child { process, status: status.into_temp_path(), messages: messages.into_temp_path() })
    }

    /// Waits for the end. Counts go to `report`.
    pub(super) fn watch(mut self, timeout: Duration, report: &mut Report) -> io::Result<End> {
        let Some(out) = self.process.stdout.take() else {
            return Err(io::Error::other("no standard output"));
        };
        let (sender, lines) = mpsc::channel();
        let reader = thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let (mut number, mut since, mut hung) = (self.number(), self.clock(), false);
        loop {
            match lines.recv_timeout(POLL) {
                Ok(line) => report.read(&line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = self.number();
            if now != number {
                (number, since) = (now, self.clock());
            } else if !hung && since.exceeds(&self.clock(), timeout) {
                hung = true;
                self.process.kill()?;
            }
        }
        let _ = reader.join();
        let status = self.process.wait()?;
        let number = self.number();
        match hung {
            true => Ok(End::Crashed { number, how: format!("hung for {} s", timeout.as_secs()) }),
            false if status.success() => Ok(End::Done),
            false => Ok(End::Crashed { number, how: self.describe(status) }),
        }
    }

    /// The time, and the processor time of the child where the system reports it.
    fn clock(&self) -> Clock {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap_or_default();
        // The fields behind the program's name in parentheses; the 12th and 13th are ticks of 10 ms.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: Vec<u64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
        let processor = (ticks.len() == 2).then(|| Duration::from_millis(10 * ticks.iter().sum::<u64>()));
        Clock { now: Instant::now(), processor }
    }

    /// The number of the input that runs.
    fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        let read = File::open(&self.status).and_then(|mut file| file.read_exact(&mut bytes));
        read.map_or(0, |()| u64::from_le_bytes(bytes))
    }

    /// The signal or the exit code with the last message of a panic.
    fn describe(&self, status: ExitStatus) -> String {
        let bytes = fs::read(&self.messages).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let panic = lines.iter().rposition(|line| line.contains("panicked at"));
        let message = panic.and_then(|at| lines.get(at..)).unwrap_or(&lines);
        let message = message.iter().take(2).copied().collect::<Vec<_>>().join(" ");
        match (status.signal(), status.code()) {
            (Some(signal), _) => format!("ended by signal {signal} {message}"),
            (None, code) => format!("ended with code {} {message}", code.unwrap_or(-1)),
        }
    }
}
