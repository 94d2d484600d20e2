//! Tools under test as plain data: how each is started and stopped, and where it writes packets and counters. Only a
//! version query is run here.
//!
//! The built-in ones are in this crate (`tools/*.toml`). Users describe theirs in the same format:
//!
//! ```toml
//! name = "mine"                             # the name in tables
//! install = "apt-get install mine"          # printed when it is not installed
//! program = "mine"                          # a path, or a name in PATH
//! version = ["{program}", "--version"]
//! args = ["-i", "{interface}"]              # followed by those of output and options; a forwarder has {other}
//! ready = { says = "capturing" }            # on stderr; "socket" (bound and up), or { after_ms = 500 }
//! settle_ms = 700                           # files unchanged for this time are complete
//! patience_s = 30                           # time limit to be ready, and to end
//! stop = "interrupt"                        # or "terminate", "kill"
//! buffer_min_mib = 32                       # the smallest buffer that it accepts
//! own_buffer = "2 MiB"                      # its default buffer, as text
//! dirs = ["PKT0"]                           # directories that it needs in {dir}
//! format = "capture"                        # pcap or pcapng; or "blocks" (TPACKET_V3, as Stenographer)
//! drops = { before = "packets dropped" }    # its count of lost packets: a number before a text,
//! captured = { after = "Captured:" }        # or after; before_or_none: absent is 0; json = ["field"]
//! lane_packets = ["lanes[].received"]       # per lane, in its JSON; several lists are summed
//!
//! [output]                                  # arguments for each output; an absent one is unsupported
//! disk = ["-w", "{file}"]                   # or {dir}, the directory of the run
//! null = ["-w", "/dev/null"]
//! pipe = ["-w", "-"]                        # packets on stdout
//! screen = ["-l"]                           # text on stdout, one line per packet
//!
//! [options]                                 # as above
//! buffer = ["-B", "{mib}"]                  # {kib}; {half}; {quarter} and {rest}, which sum up to {mib}
//! snaplen = ["-s", "{snaplen}"]             # bytes
//! filter = ["{filter}"]                     # a tcpdump expression, one argument
//! copies = ["--copies", "{copies}"]         # additional copies of each packet in memory
//! compression = ["-z", "{compression}"]     # zlib's level
//! lanes = ["--lanes", "{lanes}"]            # threads that share the interface
//! spread = ["--spread", "{spread}"]         # the rule that assigns packets to them
//! via = ["--via", "{via}"]                  # the kernel's interface for receiving
//! ```

mod counter;
mod file;
mod file_reader;
mod filter;
mod flow_meter;
mod line;
mod own;
mod resolve;
mod setting;

pub use counter::{Counter, each};
pub use file::{read, shipped};
pub use file_reader::{FileReader, resolve_readers, shipped_readers};
pub use flow_meter::{FlowMeter, MeterPlaces, read_meter, resolve_meters, shipped_meters};
pub use line::Places;
pub use own::from_command;
pub use resolve::{Present, Resolved, resolve};
pub use setting::{Filter, Output, Setting};

use quaff_os::Signal;
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};

/// Name of `quaff tap` as a capturer, which forwards a line and records it.
pub const OWN_TAP: &str = "quaff tap";

/// A capturer. Arguments have placeholders in braces, which [`Tool::command_line`] replaces.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The name in tables.
    pub name: String,
    /// Installation command or hint; empty for quaff and for a user's tool.
    #[serde(default)]
    pub install: String,
    /// True for a variant of another tool that must be requested by name.
    #[serde(default)]
    pub hidden: bool,
    /// A path, or a name in PATH. `{quaff}` is the quaff executable.
    pub program: PathBuf,
    /// A command that prints the version; placeholder `{program}`. Empty: the version is not queried.
    #[serde(default)]
    pub version: Vec<String>,
    /// Arguments for all outputs; placeholders `{interface}`, `{other}`, `{file}`, `{dir}`, `{core}`, `{quaff}`.
    pub args: Vec<String>,
    pub output: Outputs,
    #[serde(default)]
    pub options: Options,
    /// The smallest buffer that it accepts, MiB.
    #[serde(default)]
    pub buffer_min_mib: u64,
    /// The default buffer, as text; empty if unknown.
    #[serde(default)]
    pub own_buffer: String,
    /// Directories that it needs in `{dir}`.
    #[serde(default)]
    pub dirs: Vec<String>,
    /// The sign that it is capturing.
    pub ready: Ready,
    /// Files unchanged for this time are complete, ms.
    #[serde(default = "settle_ms")]
    pub settle_ms: u64,
    /// Time limit to be ready, and to end, s.
    #[serde(default = "patience_s")]
    pub patience_s: u64,
    /// The signal that stops it; SIGKILL is sent once the files no longer change.
    #[serde(default = "interrupt", deserialize_with = "stop_signal")]
    pub stop: Signal,
    /// A command that stops it instead of the signal; for flow meters only.
    #[serde(skip)]
    pub stop_command: Vec<String>,
    /// The count of lost packets in its output; `None` if it reports none.
    pub drops: Option<Counter>,
    /// The count of captured packets in its output; required if no packet is kept.
    pub captured: Option<Counter>,
    /// The packets of each lane in its JSON output: paths of lists, which are summed element by element.
    #[serde(default)]
    pub lane_packets: Vec<String>,
    #[serde(default)]
    pub format: Format,
}

/// The arguments for each output; `None`: unsupported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Outputs {
    /// Files in `{dir}`, or one `{file}` there.
    pub disk: Option<Vec<String>>,
    /// Packets to /dev/null.
    pub null: Option<Vec<String>>,
    /// Packets to stdout, which is a pipe.
    pub pipe: Option<Vec<String>>,
    /// One line per packet to stdout, which is a pipe.
    pub screen: Option<Vec<String>>,
}

/// The arguments for other settings; `None`: unsupported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The buffer; placeholders `{mib}`, `{kib}`, `{half}`, and `{quarter}` and `{rest}` (MiB), whose sum is `{mib}`;
    /// several lanes share the rest equally.
    pub buffer: Option<Vec<String>>,
    /// The snaplen; placeholder `{snaplen}`, bytes.
    pub snaplen: Option<Vec<String>>,
    /// Additional copies of each packet; placeholder `{copies}`.
    pub copies: Option<Vec<String>>,
    /// Compression of each packet; placeholder `{compression}`, the level of zlib.
    pub compression: Option<Vec<String>>,
    /// A tcpdump filter; placeholder `{filter}`.
    pub filter: Option<Vec<String>>,
    /// Lanes; placeholder `{lanes}`.
    pub lanes: Option<Vec<String>>,
    /// The rule that assigns packets to lanes; placeholder `{spread}`.
    pub spread: Option<Vec<String>>,
    /// The kernel's interface for receiving; placeholder `{via}`.
    pub via: Option<Vec<String>>,
}

/// The sign that a capturer is capturing.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// A line on stderr that contains this text.
    Says(String),
    /// Its packet socket is bound and running (`/proc/net/packet`).
    Socket,
    /// No sign: wait for this time, ms.
    AfterMs(u64),
}

/// The format of a capturer's files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Capture files, pcap or pcapng.
    #[default]
    Capture,
    /// TPACKET_V3 blocks as filled by the kernel (linux/if_packet.h).
    Blocks,
}

impl Tool {
    /// A tool without options, which SIGINT stops.
    fn bare(name: &str, program: &Path, args: Vec<String>, output: Outputs, ready: Ready) -> Self {
        Self {
            name: name.to_owned(),
            install: String::new(),
            hidden: false,
            program: program.to_owned(),
            version: Vec::new(),
            args,
            output,
            options: Options::default(),
            buffer_min_mib: 0,
            own_buffer: String::new(),
            dirs: Vec::new(),
            ready,
            settle_ms: settle_ms(),
            patience_s: patience_s(),
            stop: interrupt(),
            stop_command: Vec::new(),
            drops: None,
            captured: None,
            lane_packets: Vec::new(),
            format: Format::default(),
        }
    }

    /// A tool that keeps no packets and ends by itself, or by a signal.
    fn keeping_nothing(
        name: &str,
        install: &str,
        program: &Path,
        version: &[String],
        args: Vec<String>,
    ) -> Self {
        let output = Outputs { null: Some(Vec::new()), ..Outputs::default() };
        let bare = Self::bare(name, program, args, output, Ready::AfterMs(0));
        Self { install: install.to_owned(), version: version.to_owned(), ..bare }
    }

    /// True if it forwards between two ports of a line, instead of listening on one interface.
    pub fn is_in_line(&self) -> bool {
        self.args.iter().any(|arg| arg.contains("{other}"))
    }
}

fn settle_ms() -> u64 {
    700
}

fn patience_s() -> u64 {
    30
}

fn interrupt() -> Signal {
    Signal::SIGINT
}

/// Parses the name of a signal in a description.
fn stop_signal<'de, D: Deserializer<'de>>(from: D) -> Result<Signal, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Stop {
        Interrupt,
        Terminate,
        Kill,
    }
    Ok(match Stop::deserialize(from)? {
        Stop::Interrupt => Signal::SIGINT,
        Stop::Terminate => Signal::SIGTERM,
        Stop::Kill => Signal::SIGKILL,
    })
}

#[cfg(test)]
mod tests;
