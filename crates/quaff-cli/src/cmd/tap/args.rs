//! The arguments of `quaff tap`, and the command line of its recorder.

use crate::units::{Choice, choice};
use anyhow::ensure;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const FORWARDS: [Choice<Forward>; 3] = [
    ("kernel", Forward::Kernel, "tc in the kernel sends by each port what the other one receives"),
    ("xdp", Forward::Xdp, "the same by an XDP program in the drivers, which copies frames to a ring"),
    ("none", Forward::None, "nothing is changed: two feeds of a passive tap, or two mirror ports"),
];
const ON_EXITS: [Choice<OnExit>; 2] = [
    ("stop", OnExit::Stop, "the redirect is removed, and the ports are restored"),
    ("forward", OnExit::Forward, "the line stays up, without a recorder"),
];

/// Record a line that runs through two ports of this machine
///
/// The kernel sends by each port what the other one receives, by a redirect of tc, and quaff listens: what it does,
/// and its end, never delays or stops a frame. All frames pass, also those of STP, LACP, LLDP and 802.1X, and the
/// host sends and answers nothing on the ports. A link that is lost on one side is lost on the other one too.
/// --forward xdp does the same before the kernel's stack, for ports whose drivers run XDP programs.
///
/// While it runs the ports have no IPv6, no ARP, and no offload that merges frames; all of that is restored at the
/// end. A recorder that is killed, or fails, leaves the line up: --remove ends that. Ports with IP addresses, in a
/// bridge or a bond, or with programs of tc or XDP are refused.
///
/// The report has both directions: received = recorded + lost, and received = forwarded + forward_dropped, each term
/// from a counter of its own.
///
/// Exit status: 0 nothing was lost, and every frame passed; 1 frames were lost or did not pass; 2 the tap failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The two ports
    #[arg(value_names = ["A", "B"], num_args = 2, required = true)]
    pub(super) ports: Vec<String>,
    /// Part that forwards
    #[arg(long, value_name = "HOW", default_value = "kernel", value_parser = choice(FORWARDS), help_heading = "Line")]
    pub(super) forward: Forward,
    /// State of the line after the end
    #[arg(long, value_name = "STATE", default_value = "stop", value_parser = choice(ON_EXITS), help_heading = "Line")]
    pub(super) on_exit: OnExit,
    /// Remove the redirect that an earlier tap has left between A and B, and restore the ports
    #[arg(long, help_heading = "Line")]
    pub(super) remove: bool,
    /// Print what would be changed and the plan of the recorder, and do nothing
    #[arg(long, help_heading = "Line")]
    pub(super) dry_run: bool,

    #[command(flatten)]
    pub(super) recorder: RecorderArgs,

    /// Print the ledger as JSON, with both directions
    #[arg(long, help_heading = "Report")]
    pub(super) json: bool,
}

/// Options with the meaning that they have for 'quaff capture', which checks their values.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Recording, as for 'quaff capture'")]
pub(super) struct RecorderArgs {
    /// Write a file for each rotation into DIR; with two, the files of a port each
    #[arg(long, value_name = "DIR", required_unless_present_any = ["write", "remove", "dry_run"], conflicts_with = "write")]
    dir: Vec<PathBuf>,
    /// Write to FILE
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Name of files in DIR
    #[arg(long, value_name = "TEMPLATE", requires = "dir")]
    name: Option<String>,
    /// Start a new file after SIZE
    #[arg(long, value_name = "SIZE", requires = "dir")]
    rotate_size: Option<String>,
    /// Start a new file after TIME
    #[arg(long, value_name = "TIME", requires = "dir")]
    rotate_time: Option<String>,
    /// Keep at most N files
    #[arg(long, value_name = "N", requires = "dir")]
    keep_files: Option<String>,
    /// Keep at most SIZE
    #[arg(long, value_name = "SIZE", requires = "dir")]
    keep_size: Option<String>,
    /// Keep at least PERCENT of the disk free
    #[arg(long, value_name = "PERCENT", requires = "dir")]
    keep_free: Option<String>,
    /// Compress files
    #[arg(long, value_name = "METHOD")]
    compress: Option<String>,
    /// Bytes to keep of each packet
    #[arg(short, long, value_name = "BYTES")]
    snaplen: Option<String>,
    /// Stop after TIME
    #[arg(short, long, value_name = "TIME")]
    duration: Option<String>,
    /// Clock that time-stamps the packets
    #[arg(short = 'j', long, value_name = "TYPE")]
    time_stamp_type: Option<String>,
    /// Size of the kernel's receive ring of each port
    #[arg(long, value_name = "SIZE")]
    ring: Option<String>,
    /// Size of the buffer between kernel and disk
    #[arg(long, value_name = "SIZE")]
    buffer: Option<String>,
    /// Cores of the lanes, the first one for A
    #[arg(long, value_name = "CORES")]
    cpu: Option<String>,
    /// Core of the writer
    #[arg(long, value_name = "CORE")]
    writer_cpu: Option<String>,
    /// Have the recorder become the user NAME, who owns the files
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Interval of progress lines
    #[arg(long, value_name = "TIME")]
    stats: Option<String>,
    /// Print only errors and "capturing"; twice: only errors
    #[arg(short, long, action = clap::ArgAction::Count)]
    quiet: u8,
}

const EXAMPLES: &str = "\
Examples:
  quaff tap eth0 eth1 --dir /data --rotate-size 1G --keep-free 10
  quaff tap eth0 eth1 --dir /data --on-exit forward --json
  quaff tap eth0 eth1 --dir /data --forward xdp --ring 512M
  quaff tap --remove eth0 eth1
  quaff tap tap0 tap1 --forward none -w both.pcapng";

/// The part that forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forward {
    Kernel,
    Xdp,
    None,
}

impl Forward {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Xdp => "xdp",
            Self::None => "none",
        }
    }
}

/// The state of the line after the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnExit {
    Stop,
    Forward,
}

impl OnExit {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Stop => "the redirect is removed, and the ports are restored",
            Self::Forward => "the redirect stays; 'quaff tap --remove' removes it",
        }
    }
}

impl RecorderArgs {
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet > 0
    }

    /// The command line of the recorder, without the word `quaff`.
    pub(super) fn line(&self, ports: &[String; 2], forward: Forward) -> anyhow::Result<Vec<OsString>> {
        let is_stdout = self.write.as_deref() == Some(Path::new("-"));
        ensure!(!is_stdout, "a tap writes to files: -w - is for 'quaff capture'");
        let mut line: Vec<OsString> = ["capture", "--json", "--incoming"].map(OsString::from).into();
        line.extend(ports.iter().map(|port| format!("--interface={port}").into()));
        line.extend((forward == Forward::Xdp).then(|| "--via=tap".into()));
        let mut path = |option: &str, path: &Path| line.extend([option.into(), path.into()]);
        self.dir.iter().for_each(|dir| path("--dir", dir));
        self.write.iter().for_each(|file| path("--write", file));
        for (option, value) in [
            ("--name", &self.name),
            ("--rotate-size", &self.rotate_size),
            ("--rotate-time", &self.rotate_time),
            ("--keep-files", &self.keep_files),
            ("--keep-size", &self.keep_size),
            ("--keep-free", &self.keep_free),
            ("--compress", &self.compress),
            ("--snaplen", &self.snaplen),
            ("--duration", &self.duration),
            ("--time-stamp-type", &self.time_stamp_type),
            ("--ring", &self.ring),
            ("--buffer", &self.buffer),
            ("--cpu", &self.cpu),
            ("--writer-cpu", &self.writer_cpu),
            ("--user", &self.user),
            ("--stats", &self.stats),
        ] {
            line.extend(value.iter().map(|value| format!("{option}={value}").into()));
        }
        line.extend(std::iter::repeat_n(OsString::from("--quiet"), self.quiet.into()));
        Ok(line)
    }
}
