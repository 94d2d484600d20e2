//! The arguments of `quaff tap`, and the command line of its recorder.

use crate::flags::{
    BufferArg, Bytes, CaptureCores, ClockArg, CompressArg, DryRunArg, Given, OwnerArgs, RingArg,
    RotationArgs, SnaplenArg, WriteArg, of,
};
use crate::shell::{DurationArgs, ReportArgs, WatchArgs};
use crate::units::{Choice, choice};
use anyhow::ensure;
use quaff::source::literal;
use quaff_file::write::Codec;
use std::ffi::OsString;

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
    #[command(flatten, next_help_heading = "Line")]
    pub(super) dry_run: DryRunArg,

    #[command(flatten)]
    pub(super) recorder: Given<RecorderArgs>,

    #[command(flatten)]
    pub(super) report: ReportArgs,
}

/// The flags of the recorder, which are those of 'quaff capture'.
#[derive(Debug, clap::Args)]
#[command(
    mut_args(of("write", |arg| arg.help("Write to FILE"))),
    mut_args(of("dir", |arg| arg.required_unless_present_any(["write", "remove", "dry_run"])))
)]
pub(super) struct RecorderArgs {
    #[command(flatten, next_help_heading = "Input")]
    clock: ClockArg,
    #[command(flatten)]
    end: DurationArgs,
    #[command(flatten, next_help_heading = "Filter")]
    snaplen: SnaplenArg<u32>,
    #[command(flatten)]
    write: WriteArg,
    #[command(flatten, next_help_heading = "Output")]
    compress: CompressArg<Codec>,
    #[command(flatten)]
    rotation: RotationArgs,
    #[command(flatten)]
    ring: RingArg,
    #[command(flatten, next_help_heading = "Performance")]
    buffer: BufferArg<Bytes>,
    #[command(flatten)]
    cores: CaptureCores,
    #[command(flatten)]
    owner: OwnerArgs,
    #[command(flatten)]
    watch: WatchArgs,
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
        self.watch.quiet.is_set()
    }
}

impl Args {
    /// The command line of the recorder of these ports, without the word `quaff`.
    pub(super) fn line(&self, ports: &[String; 2]) -> anyhow::Result<Vec<OsString>> {
        let is_stdout = self.recorder.write.first().is_some_and(|file| file.as_os_str() == "-");
        ensure!(!is_stdout, "a tap writes to files: -w - is for 'quaff capture'");
        let mut line: Vec<OsString> = ["capture", "--json", "--incoming"].map(OsString::from).into();
        line.extend(ports.iter().map(|port| format!("--interface={}", literal(port)).into()));
        line.extend((self.forward == Forward::Xdp).then(|| "--via=tap".into()));
        line.extend_from_slice(&self.recorder.words);
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;

    #[test]
    fn the_recorder_gets_the_flags_that_were_given() {
        let words = "tap a b --dir /d --rotate-size 1M --cpu 0,1 -q -s 96 --exec gzip -d 5s --user daemon";
        let words: Vec<_> = words.split(' ').map(OsString::from).collect();
        let Command::Tap(args) = crate::read(&words).unwrap() else { panic!("{words:?}") };
        let line = args.line(&["a".to_owned(), "b".to_owned()]).unwrap();
        let expected = "capture --json --incoming --interface=a --interface=b --duration=5s --snaplen=96 --dir=/d \
                        --rotate-size=1M --exec=gzip --cpu=0 --cpu=1 --user=daemon --quiet";
        assert_eq!(line, expected.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(matches!(crate::read(&line), Ok(Command::Capture(_))));
        let stdout = ["tap", "a", "b", "-w", "-"].map(OsString::from);
        let Command::Tap(args) = crate::read(&stdout).unwrap() else { panic!("{stdout:?}") };
        assert!(args.line(&["a".to_owned(), "b".to_owned()]).is_err(), "packets go to files");
    }
}
