//! The capturers that are measured beside each other, as plain data: how each is started, stopped
//! and asked, and where it leaves its packets. Nothing is run here but a question for a version.
//!
//! Those that we know are files beside this crate (`tools/*.toml`), in the same words in which anybody
//! describes one of their own:
//!
//! ```toml
//! name = "mine"                             # what it is called in a table
//! install = "apt-get install mine"          # told when it is not there
//! program = "mine"                          # a path, or a name to look for in PATH
//! version = ["{program}", "--version"]
//! args = ["-i", "{interface}"]              # always; then those of output, then those of options
//! ready = { says = "capturing" }            # on stderr; "socket" (bound and up), or { after_ms = 500 }
//! settle_ms = 700                           # its files stand still so long before it has written all
//! patience_s = 30                           # it may take so long to be ready, and to end
//! stop = "interrupt"                        # or "terminate", "kill"
//! buffer_min_mib = 32                      # it cannot be told less
//! own_buffer = "2 MiB"                      # what it has when it is told nothing, in words
//! dirs = ["PKT0"]                           # directories that it wants to find in {dir}
//! format = "capture"                        # pcap or pcapng; or "blocks" (TPACKET_V3, as Stenographer)
//! drops = { before = "packets dropped" }    # its own word for what it lost: a number before words,
//! captured = { after = "Captured:" }        # or after; before_or_none: silence is 0; json = ["field"]
//!
//! [output]                                  # what it is told for each; what is not here it cannot do
//! disk = ["-w", "{file}"]                   # or {dir}, the directory of the run
//! null = ["-w", "/dev/null"]
//! pipe = ["-w", "-"]                        # packets on stdout
//! screen = ["-l"]                           # words on stdout, a line for each packet
//!
//! [options]                                 # as above
//! buffer = ["-B", "{mib}"]                  # {kib}; {half}; {quarter} and {rest}, which sum up to {mib}
//! snaplen = ["-s", "{snaplen}"]             # bytes
//! filter = ["{filter}"]                     # a tcpdump expression, one argument
//! copies = ["--copies", "{copies}"]         # more copies of each packet in memory
//! compression = ["-z", "{compression}"]     # zlib's level
//! ```

mod counter;
mod file;
mod filter;
mod line;
mod own;
mod resolve;
mod setting;

pub use counter::Counter;
pub use file::{read, shipped};
pub use line::Places;
pub use own::from_command;
pub use resolve::{Present, Resolved, resolve};
pub use setting::{Filter, Output, Setting};

use crate::ProcessMark;
use crate::child_process::{ChildProcess, Finished};
use serde::Deserialize;
use std::env;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The name of tcpdump with our ring behind it.
pub const PIPED: &str = "tcpdump | quaff pipe";

/// Directories of tools for root, which not every PATH has.
const ROOT_DIRS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
/// The most that is read of what a tool says of its version.
const VERSION_CHARS_MAX: usize = 40;

/// How long it may take to say it: some capture instead.
const VERSION_MAX: Duration = Duration::from_secs(5);

/// A capturer. Arguments hold places, words in braces, that [`Tool::command_line`] fills.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// What it is called in a table.
    pub name: String,
    /// How one gets it, in a few words; empty for ours and for a user's.
    #[serde(default)]
    pub install: String,
    /// It is no capturer of its own but a use of one, for a measurement that asks for it by name.
    #[serde(default)]
    pub hidden: bool,
    /// The program: a path, or a name to look for in PATH. `{quaff}` is ours.
    pub program: PathBuf,
    /// A command that says its version; place `{program}`. Empty: nobody asks.
    #[serde(default)]
    pub version: Vec<String>,
    /// Its arguments in each case; places `{interface}`, `{file}`, `{dir}`, `{core}`, `{quaff}`.
    pub args: Vec<String>,
    /// The arguments for each output.
    pub output: Outputs,
    /// The arguments for whatever else it is asked to do.
    #[serde(default)]
    pub options: Options,
    /// The least buffer that it can be told, MiB: below, it would be given more than the others.
    #[serde(default)]
    pub buffer_min_mib: u64,
    /// The buffer that it has when it is told none, in words; empty where nobody knows.
    #[serde(default)]
    pub own_buffer: String,
    /// Directories that it wants to find in `{dir}`.
    #[serde(default)]
    pub dirs: Vec<String>,
    /// How it shows that it captures.
    pub ready: Ready,
    /// How long its files must have stood still before it may be taken to have written everything, ms.
    #[serde(default = "settle_ms")]
    pub settle_ms: u64,
    /// How long it may take to be ready, and how long to end, s.
    #[serde(default = "patience_s")]
    pub patience_s: u64,
    /// How it is stopped.
    #[serde(default)]
    pub stop: Stop,
    /// Where it says how many packets it has lost; `None`: it does not say.
    #[serde(default)]
    pub drops: Option<Counter>,
    /// Where it says how many packets it has captured: all there is when nothing is kept.
    #[serde(default)]
    pub captured: Option<Counter>,
    /// What its files are.
    #[serde(default)]
    pub format: Format,
}

/// The arguments for each output; `None`: it cannot do that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Outputs {
    /// Files in `{dir}`, or one `{file}` there.
    pub disk: Option<Vec<String>>,
    /// Packets to /dev/null.
    pub null: Option<Vec<String>>,
    /// Packets to its stdout, which is a pipe.
    pub pipe: Option<Vec<String>>,
    /// A line for each packet to its stdout, which is a pipe.
    pub screen: Option<Vec<String>>,
}

/// The arguments for what it is asked to do; `None`: it cannot do that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// A buffer; places `{mib}`, `{kib}`, `{half}`, and `{quarter}` and `{rest}`, which are MiB that sum up to `{mib}`.
    pub buffer: Option<Vec<String>>,
    /// Less of each packet; place `{snaplen}`, bytes.
    pub snaplen: Option<Vec<String>>,
    /// More copies of each packet; place `{copies}`.
    pub copies: Option<Vec<String>>,
    /// Each packet compressed; place `{compression}`, zlib's level.
    pub compression: Option<Vec<String>>,
    /// A tcpdump filter; place `{filter}`.
    pub filter: Option<Vec<String>>,
}

/// How a capturer shows that it captures.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// A line on stderr that holds these words.
    Says(String),
    /// Its packet socket is bound and up (`/proc/net/packet`).
    Socket,
    /// It does not show it: it has had this time, ms.
    AfterMs(u64),
}

/// How a capturer is stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// By SIGINT.
    #[default]
    Interrupt,
    /// By SIGTERM.
    Terminate,
    /// By SIGKILL, when its files stand still: it does not end otherwise.
    Kill,
}

/// What a capturer writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Capture files, pcap or pcapng.
    #[default]
    Capture,
    /// Files of TPACKET_V3 blocks, as the kernel has filled them (linux/if_packet.h).
    Blocks,
}

impl Tool {
    /// The program, where it is installed; `None` where it is not.
    pub fn find(&self) -> Option<PathBuf> {
        if self.program.components().count() > 1 {
            return self.program.is_file().then(|| self.program.clone());
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let dirs: Vec<_> = env::split_paths(&path).chain(ROOT_DIRS.iter().map(PathBuf::from)).collect();
        dirs.iter().map(|dir| dir.join(&self.program)).find(|file| file.is_file())
    }

    /// The version that it says it is; `None` when it says nothing that looks like one, or not soon.
    pub fn version(&self, program: &Path) -> Option<String> {
        let (asked, args) = self.version.split_first()?;
        let mut command =
            Command::new(if asked == "{program}" { program.as_os_str() } else { asked.as_ref() });
        let mark = ProcessMark::unique();
        mark.put_on(command.args(args));
        // Ctrl-C is ours to hear.
        command.process_group(0);
        let finished = ChildProcess::start(command).and_then(|running| running.finish(VERSION_MAX));
        mark.kill_all();
        let Finished { stdout, stderr, .. } = finished.ok()?;
        let said = String::from_utf8_lossy(&stdout).into_owned() + &stderr;
        version_in(&said).map(str::to_owned)
    }

    /// How long its files must stand still.
    pub fn settle(&self) -> Duration {
        Duration::from_millis(self.settle_ms)
    }

    /// How long it may take to be ready, and to end.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_s)
    }
}

/// The first word that begins with a number and has a dot.
fn version_in(text: &str) -> Option<&str> {
    text.split_whitespace()
        .map(|word| word.trim_end_matches(['.', ',']))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
        .filter(|word| word.len() <= VERSION_CHARS_MAX)
}

fn settle_ms() -> u64 {
    700
}

fn patience_s() -> u64 {
    30
}

#[cfg(test)]
mod tests;
