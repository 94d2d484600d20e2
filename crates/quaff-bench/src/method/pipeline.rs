//! Shell pipelines, timed from the start of their first program to the end of the last.

use super::OUTPUT_WAIT;
use super::expansion::load;
use super::place::Place;
use crate::{Error, Result};
use quaff_lab::ChildProcess;
use quaff_lab::topology::{Stage, Watch};
use quaff_os::disk;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Polling interval; also the accuracy of the times.
const LOOK: Duration = Duration::from_millis(2);
/// Bytes that cat(1) reads and writes per call (coreutils, io_blksize).
const CAT_BYTES: u64 = 128 << 10;

/// A program of a pipeline: it copies its input, or reads a capture file of mirrored frames and writes the inner
/// frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The name in tables.
    pub name: &'static str,
    /// Its Debian package; empty for quaff.
    pub package: &'static str,
    /// Its shell command with the placeholders `{quaff}`, `{from}` and `{to}`.
    pub command: &'static str,
}

/// Programs in the middle of a pipeline, with default settings.
pub const MIDDLES: [Program; 3] = [
    Program { name: "quaff pipe", package: "", command: "'{quaff}' pipe -q > '{to}'" },
    Program { name: "mbuffer", package: "mbuffer", command: "mbuffer -q > '{to}'" },
    Program { name: "buffer", package: "buffer", command: "buffer > '{to}'" },
];

/// Programs that remove mirror headers; editcap needs the length of the headers.
pub const STRIPPERS: [Program; 2] = [
    Program {
        name: "quaff",
        package: "",
        command: "'{quaff}' capture -q --read '{from}' --decap erspan -w '{to}'",
    },
    Program { name: "editcap", package: "wireshark-common", command: "editcap -C 50 '{from}' '{to}'" },
];

/// The input of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Feed {
    /// This number of bytes of /dev/zero in chunks of 128 KiB, as cat(1) reads and writes them.
    Zeros(u64),
    /// tcpdump, which reads a file of this size in bytes and writes pcap.
    Tcpdump(PathBuf, u64),
    /// A file that the program reads itself.
    File(PathBuf),
}

impl Feed {
    fn command(&self) -> String {
        match self {
            Self::Zeros(bytes) => {
                format!("dd if=/dev/zero bs={CAT_BYTES} count={} status=none |", bytes / CAT_BYTES)
            }
            Self::Tcpdump(path, _) => format!("tcpdump -r '{}' -w - 2>/dev/null |", path.display()),
            Self::File(_) => String::new(),
        }
    }

    /// Reads the file into the page cache. Returns the approximate size of the input, and the path.
    fn load(&self) -> Result<(u64, &Path)> {
        Ok(match self {
            Self::Zeros(bytes) => (*bytes, Path::new("/dev/zero")),
            Self::Tcpdump(path, bytes) => (load(path).map(|_| *bytes)?, path),
            Self::File(path) => (load(path)?, path),
        })
    }
}

impl Program {
    /// True if it is installed.
    pub fn is_there(&self) -> bool {
        let name = self.command.split(' ').next().unwrap_or_default();
        let paths = std::env::var_os("PATH").unwrap_or_default();
        self.package.is_empty() || std::env::split_paths(&paths).any(|dir| dir.join(name).is_file())
    }

    /// Bytes/s from `feed` through the program to /dev/null, or with `place` to a file there.
    ///
    /// # Errors
    /// A program of the pipeline fails, or the watch ends it.
    pub fn rate(&self, quaff: &Path, feed: &Feed, place: Option<&Place>, watch: Watch<'_>) -> Result<f64> {
        let dir = place.map(Place::run_dir).transpose()?;
        let to = dir.as_ref().map_or("/dev/null".into(), |dir| dir.path.join("out"));
        let (bytes, from) = feed.load()?;
        if let Some(dir) = &dir {
            come_to_rest(&dir.path)?;
        }
        let places = [("{quaff}", quaff), ("{from}", from), ("{to}", &to)];
        let line = places.iter().fold(self.command.to_owned(), |line, (place, path)| {
            line.replace(place, &path.display().to_string())
        });
        let line = format!("set -o pipefail; {} {line}", feed.command());
        Ok(bytes as f64 / timed(self.name, &line, watch)?)
    }
}

/// Duration of a bash command line, s.
fn timed(name: &str, line: &str, watch: Watch<'_>) -> Result<f64> {
    let mut command = Command::new("bash");
    // Ctrl-C is handled by this process.
    command.args(["-c", line]).process_group(0);
    let begun = Instant::now();
    let mut running = ChildProcess::start(command)?;
    while !running.has_ended()? {
        if !watch(Stage::Sending) {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(LOOK);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let finished = running.finish(OUTPUT_WAIT)?;
    if !finished.status.success() {
        let what = finished.stderr.lines().last().unwrap_or("it failed").to_owned();
        return Err(Error::Tool { name: name.into(), what });
    }
    Ok(seconds)
}

/// Waits until data of earlier runs has been written to the disk.
pub(crate) fn come_to_rest(dir: &Path) -> Result<()> {
    let settled = File::open(dir).and_then(|dir| disk::sync_all(&dir));
    Ok(settled.map_err(|errno| quaff_os::Error::new("bring the disk to rest", errno))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_is_timed_and_a_failure_is_reported() {
        let cat = Program { name: "cat", package: "coreutils", command: "cat > '{to}'" };
        assert!(cat.is_there());
        let feed = Feed::Zeros(64 << 20);
        let place = Place::find(Some(&std::env::temp_dir())).or_else(|_| Place::find(None)).expect("a place");
        for place in [None, Some(&place)] {
            let rate = cat.rate(Path::new("quaff"), &feed, place, &mut |_| true).expect("it runs");
            assert!(rate > 1e6, "{rate}");
        }
        let none = Program { name: "none", package: "none", command: "quaff-no-such-program" };
        assert!(!none.is_there());
        let error = none.rate(Path::new("quaff"), &feed, None, &mut |_| true).expect_err("there is none");
        assert!(error.to_string().contains("none"), "{error}");
        let stopped = cat.rate(Path::new("quaff"), &feed, None, &mut |_| false);
        assert!(matches!(stopped, Err(Error::Interrupted)));
    }
}
