//! Pipelines of a shell, timed from their first program's start to their last one's end.

use super::place::Place;
use crate::{Error, Result};
use quaff_lab::ChildProcess;
use quaff_lab::topology::{Stage, Watch};
use quaff_os::disk;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Interval between two readings; also the accuracy of the times.
const LOOK: Duration = Duration::from_millis(2);
/// How long the last words of one that has ended may take to get here.
const WORDS_MAX: Duration = Duration::from_secs(5);

/// A program that stands in the middle of a pipeline, and passes on what it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Middle {
    /// What it is called in a table.
    pub name: &'static str,
    /// The Debian package that brings it; empty for ours.
    pub package: &'static str,
    /// Its words in the shell; place `{quaff}`.
    pub words: &'static str,
}

/// Ours, and those that it stands beside, as they come out of the package.
pub const MIDDLES: [Middle; 3] = [
    Middle { name: "quaff pipe", package: "", words: "{quaff} pipe -q" },
    Middle { name: "mbuffer", package: "mbuffer", words: "mbuffer -q" },
    Middle { name: "buffer", package: "buffer", words: "buffer" },
];

/// What stands in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Feed {
    /// So many bytes of /dev/zero, read and written in pieces of 128 KiB, as cat(1) does.
    Zeros(u64),
    /// tcpdump, which reads a file of so many bytes and writes it as pcap.
    Tcpdump(PathBuf, u64),
}

/// Bytes that cat(1) reads and writes at once (coreutils, io_blksize).
const CAT_BYTES: u64 = 128 << 10;

impl Feed {
    /// How many bytes there are, about.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Zeros(bytes) | Self::Tcpdump(_, bytes) => *bytes,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Zeros(bytes) => {
                format!("dd if=/dev/zero bs={CAT_BYTES} count={} status=none", bytes / CAT_BYTES)
            }
            Self::Tcpdump(path, _) => format!("tcpdump -r '{}' -w - 2>/dev/null", path.display()),
        }
    }
}

impl Middle {
    /// Whether it is installed.
    pub fn is_there(&self) -> bool {
        let name = self.words.split(' ').next().unwrap_or_default();
        let paths = std::env::var_os("PATH").unwrap_or_default();
        self.package.is_empty() || std::env::split_paths(&paths).any(|dir| dir.join(name).is_file())
    }

    /// Bytes/s from `feed` through it to /dev/null, or with `place` into a file there.
    ///
    /// # Errors
    /// One of the programs fails; the watch wants no more.
    pub fn rate(&self, quaff: &Path, feed: &Feed, place: Option<&Place>, watch: Watch<'_>) -> Result<f64> {
        let dir = place.map(Place::run_dir).transpose()?;
        let file = dir.as_ref().map_or("/dev/null".into(), |dir| dir.path().join("out"));
        if let Feed::Tcpdump(path, _) = feed {
            into_memory(path)?;
        }
        if let Some(dir) = &dir {
            come_to_rest(dir.path())?;
        }
        let middle = self.words.replace("{quaff}", &format!("'{}'", quaff.display()));
        let line = format!("set -o pipefail; {} | {middle} > '{}'", feed.words(), file.display());
        Ok(feed.bytes() as f64 / timed(self.name, &line, watch)?)
    }
}

/// How long a line of bash takes, s.
///
/// # Errors
/// It fails; the watch wants no more.
pub fn timed(name: &str, line: &str, watch: Watch<'_>) -> Result<f64> {
    let mut command = Command::new("bash");
    // Ctrl-C is ours to hear.
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
    let finished = running.finish(WORDS_MAX)?;
    if !finished.status.success() {
        let what = finished.stderr.lines().last().unwrap_or("it failed").to_owned();
        return Err(Error::Tool { name: name.into(), what });
    }
    Ok(seconds)
}

/// A program that reads a capture file of mirrored frames and writes what is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripper {
    /// What it is called in a table.
    pub name: &'static str,
    /// Its words in the shell; places `{quaff}`, `{from}`, `{to}`.
    pub words: &'static str,
}

/// Ours, and editcap, which is told how many bytes to cut off.
pub const STRIPPERS: [Stripper; 2] = [
    Stripper { name: "quaff", words: "'{quaff}' capture -q --read '{from}' --decap erspan -w '{to}'" },
    Stripper { name: "editcap", words: "editcap -C 50 '{from}' '{to}'" },
];

impl Stripper {
    /// Bytes/s of what is read, which comes from memory; what is written goes to `place`.
    ///
    /// # Errors
    /// The program fails; the watch wants no more.
    pub fn rate(&self, quaff: &Path, from: &Path, place: &Place, watch: Watch<'_>) -> Result<f64> {
        let dir = place.run_dir()?;
        let bytes = into_memory(from)?;
        come_to_rest(dir.path())?;
        let line = [("{quaff}", quaff), ("{from}", from), ("{to}", &dir.path().join("out"))]
            .iter()
            .fold(self.words.to_owned(), |line, (word, path)| {
                line.replace(word, &path.display().to_string())
            });
        Ok(bytes as f64 / timed(self.name, &line, watch)?)
    }
}

fn into_memory(path: &Path) -> Result<u64> {
    let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
    Ok(read.map_err(|errno| quaff_os::Error::new(format!("read {}", path.display()), errno))?)
}

/// What the one before left to write is not the next one's.
pub(crate) fn come_to_rest(dir: &Path) -> Result<()> {
    let settled = File::open(dir).and_then(|dir| disk::sync_all(&dir));
    Ok(settled.map_err(|errno| quaff_os::Error::new("bring the disk to rest", errno))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_is_timed_and_one_that_fails_is_told() {
        let cat = Middle { name: "cat", package: "coreutils", words: "cat" };
        assert!(cat.is_there());
        let feed = Feed::Zeros(64 << 20);
        let place = Place::find(Some(&std::env::temp_dir())).or_else(|_| Place::find(None)).expect("a place");
        for place in [None, Some(&place)] {
            let rate = cat.rate(Path::new("quaff"), &feed, place, &mut |_| true).expect("it runs");
            assert!(rate > 1e6, "{rate}");
        }
        let none = Middle { name: "none", package: "none", words: "quaff-no-such-program" };
        assert!(!none.is_there());
        let error = none.rate(Path::new("quaff"), &feed, None, &mut |_| true).expect_err("there is none");
        assert!(error.to_string().contains("none"), "{error}");
        let stopped = cat.rate(Path::new("quaff"), &feed, None, &mut |_| false);
        assert!(matches!(stopped, Err(Error::Interrupted)));
    }
}
