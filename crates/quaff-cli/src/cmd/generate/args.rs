//! The arguments of `quaff generate`, and the parsers of their values.

use crate::flags::{
    ContentArg, CoreArg, CountArg, MacArgs, MbpsArg, NoSandboxArg, PpsArg, SeedArg, SendArgs, SizeArgs, of,
    values,
};
use crate::shell::{DurationArgs, ONLY_ERRORS, ReportArgs, WatchArgs};
use crate::units::{self, Choice, choice};
use quaff_send::ArrivalPattern;
use quaff_wire::net::{TPID_CUSTOMER, TPID_SERVICE, VlanTag};
use quaff_wire::synth::{Addresses, Content, Damage, New, Ports, Sizes};
use std::path::PathBuf;
use std::time::Duration;

/// Send synthetic traffic at an exact rate: numbered UDP frames, TCP, ICMP, tunnels
///
/// Every UDP frame with enough room carries a probe header: stream id, sequence number, scheduled time and
/// delay against it, under a checksum. 'quaff verify' reads these from a capture and reports missing,
/// duplicate, reordered and damaged frames. The header takes 22 bytes of payload: frames of 64 bytes with
/// IPv4, 84 with IPv6. Shorter frames, fragments, TCP, ICMP and frames with --src-port or --dst-port carry
/// none; the others are numbered without gaps.
///
/// With --inject the frames arrive on the interface as if from the wire, at up to several million frames per
/// second: a capture can be tested on one machine without a cable or a second interface. With -o they leave
/// by the interface. With -w they are written to a file.
///
/// The same command always makes the same frames; random choices derive from --seed, which is 1 by default. Without
/// --pps and --mbps frames are sent as fast as possible, without --count and --duration until SIGINT.
///
/// The report compares the frames intended, the frames handed to the kernel, and the frames that the
/// interface counted. SIGINT or SIGTERM ends the run with a report; a second SIGINT ends it immediately,
/// without one. SIGUSR1 prints a progress line.
///
/// Exit status: 0 the counts agree, or every frame sent before a signal is confirmed; 1 they differ; 2 nothing
/// could be sent.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("interface").required(true),
    mut_arg("duration", |arg| arg.help_heading("Rate").help(DURATION_HELP)),
    after_help = "Examples:\n  \
        quaff generate --inject eth0 --size 1500 --pps 400k --count 3M\n  \
        quaff generate -o eth1 --size 512 --mbps 900 --duration 1m\n  \
        quaff generate --inject eth0 --wait 10s --pps 1000 --count 5000\n  \
        quaff generate --inject eth0 --size 64 --new-flows each --duration 10s\n  \
        quaff generate -o eth1 --tcp syn --src-ip 10.0.0.0/8 --new-flows each\n  \
        quaff generate -o eth1 --size imix --pps 100k --shape poisson --flows 5000\n  \
        quaff generate -o eth1 --sizes-from office.pcap --tcp talk --vxlan 7\n  \
        quaff generate -w try.pcap --size 64-1500 --damage checksum=1% --count 1M",
    mut_args(of("quiet", |arg| arg.help(ONLY_ERRORS))),
    mut_args(of("count", |arg| arg.value_parser(units::whole).conflicts_with("duration"))),
    mut_args(of("no_sandbox", |arg| arg.help("Do not restrict the process that reads the file of --sizes-from")))
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) send: SendArgs,
    /// Before the first frame, wait until a program captures from the interface; fail if none does within TIME
    ///
    /// For scripts that start a capture in the background. A program that captures has a packet socket for all
    /// protocols, which the kernel lists in /proc/net/packet.
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "inject", help_heading = "Output")]
    pub(super) wait: Option<Duration>,

    #[command(flatten, next_help_heading = "Sizes")]
    pub(super) sizes: SizeArgs<Sizes>,
    /// Write the size distribution to a text file; a line '64-79 12' holds sizes and their frequency
    #[arg(long, value_name = "FILE", help_heading = "Sizes")]
    pub(super) sizes_save: Option<PathBuf>,
    /// Smallest frame; headers always fit [default: 60 with --sizes-from]
    #[arg(long, value_name = "BYTES", help_heading = "Sizes")]
    pub(super) size_min: Option<u32>,
    /// Largest frame [default: 1514 with --sizes-from]
    #[arg(long, value_name = "BYTES", help_heading = "Sizes")]
    pub(super) size_max: Option<u32>,

    #[command(flatten, next_help_heading = "Rate")]
    pub(super) pps: PpsArg<f64>,
    #[command(flatten, next_help_heading = "Rate")]
    pub(super) mbps: MbpsArg<f64>,
    /// Distribution of the frames over time: constant, poisson, bursts=N, ramp=FROM:TIME, on-off=TIME:TIME
    ///
    /// --pps or --mbps sets the mean rate (poisson, bursts), the final rate (ramp, which starts at FROM), or the
    /// rate while sending (on-off).
    #[arg(long, value_name = "SHAPE", default_value = "constant", value_parser = shape, help_heading = "Rate")]
    pub(super) shape: ArrivalPattern,
    #[command(flatten, next_help_heading = "Rate")]
    pub(super) count: CountArg,
    #[command(flatten)]
    pub(super) end: DurationArgs,

    /// Stream id, by which 'quaff verify' separates streams; also the UDP source port
    #[arg(long, value_name = "ID", default_value_t = 1, help_heading = "Content")]
    pub(super) stream: u16,
    /// Send no probe headers
    #[arg(long, help_heading = "Content")]
    pub(super) no_stamp: bool,
    #[command(flatten, next_help_heading = "Content")]
    pub(super) content: ContentArg<Content>,
    /// Take the payload from this file (its first MiB), repeated
    #[arg(long, value_name = "FILE", conflicts_with = "content", help_heading = "Content")]
    pub(super) content_from: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Content")]
    pub(super) seed: SeedArg,

    /// Number of concurrent flows, which take turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole, help_heading = "Flows")]
    pub(super) flows: u64,
    /// Flows replaced by new ones per second; 'each' makes every frame a new flow
    #[arg(long, value_name = "RATE", default_value = "0", value_parser = new_flows, help_heading = "Flows")]
    pub(super) new_flows: New,
    /// Source addresses: one, a network (10.0.0.0/16) or a range (10.0.0.1-10.0.0.9) [default: 198.18.0.1;
    /// for several flows 198.18.0.0/16]
    ///
    /// Flows use up the 5-tuples of the ranges in this order: source addresses, destination addresses, source
    /// ports, destination ports.
    #[arg(long, value_name = "ADDRS", help_heading = "Flows")]
    pub(super) src_ip: Option<Addresses>,
    /// Destination addresses [default: 198.18.0.2; for several flows 198.19.0.0/16]
    #[arg(long, value_name = "ADDRS", help_heading = "Flows")]
    pub(super) dst_ip: Option<Addresses>,
    /// Default to IPv6 addresses: 2001:2::1 and 2001:2::2, for several flows 2001:2::/112 and 2001:2:0:1::/112
    #[arg(short = '6', long, help_heading = "Flows")]
    pub(super) ipv6: bool,
    /// Source ports, such as 5000 or 1024-65535; disables probe headers [default: the stream id]
    #[arg(long, value_name = "PORTS", help_heading = "Flows")]
    pub(super) src_port: Option<Ports>,
    /// Destination ports; disables probe headers [default: 29045, which identifies them]
    #[arg(long, value_name = "PORTS", help_heading = "Flows")]
    pub(super) dst_port: Option<Ports>,

    /// Send TCP: 'syn' for SYN segments only, 'talk' for complete conversations
    ///
    /// A conversation is SYN, SYN-ACK, ACK; data segments from both ends in turn; FIN from both. --flows sets
    /// the number of concurrent conversations. Both directions leave by the same interface.
    #[arg(long, value_name = "KIND", value_enum, conflicts_with = "icmp", help_heading = "Protocol")]
    pub(super) tcp: Option<TcpKind>,
    /// Data segments of a conversation
    #[arg(long, value_name = "N", default_value_t = 10, requires = "tcp", help_heading = "Protocol")]
    pub(super) segments: u32,
    /// Send ICMP echo requests
    #[arg(long, help_heading = "Protocol")]
    pub(super) icmp: bool,
    /// Fragment IP packets, with at most BYTES of payload in each fragment
    #[arg(long, value_name = "BYTES", help_heading = "Protocol")]
    pub(super) fragment: Option<u32>,
    /// Damage a share of the frames: checksum=1%,ip-checksum=1%,flip=0.5%,cut=0.1%
    ///
    /// checksum: that of UDP, TCP or ICMP; ip-checksum: that of the IPv4 header; flip: one bit of the IP
    /// payload; cut: the frame is truncated. The report has the numbers.
    #[arg(long, value_name = "SHARES", value_parser = damage, help_heading = "Protocol")]
    pub(super) damage: Option<Damage>,

    #[command(flatten, next_help_heading = "Encapsulation")]
    pub(super) macs: MacArgs<Mac>,
    /// VLAN tags, outermost first: [TPID:]TCI[,[TPID:]TCI], such as 100 or 0x88a8:5,0x8100:100
    ///
    /// The TPID is 0x8100 or 0x88a8. By default the innermost tag has 0x8100, an outer one 0x88a8. A decimal TCI is a
    /// VLAN id, up to 4094; a hexadecimal one has the priority too: 0xa064 is VLAN 100 with priority 5.
    #[arg(long, value_name = "TAGS", value_parser = tags, help_heading = "Encapsulation")]
    pub(super) vlan: Option<Tags>,
    /// MPLS labels, outermost first, such as 16 or 16,17
    #[arg(long, value_name = "LABELS", value_delimiter = ',', help_heading = "Encapsulation")]
    pub(super) mpls: Vec<u32>,
    /// Send the frames inside ERSPAN type II with this session id, as a switch's mirror port does
    ///
    /// --size is the size of the inner frames; 50 bytes of headers are added. Frames are numbered, so that
    /// 'quaff capture --decap erspan' counts lost ones.
    #[arg(long, value_name = "SESSION", value_parser = clap::value_parser!(u16).range(0..1024), help_heading = "Encapsulation")]
    pub(super) erspan: Option<u16>,
    /// Send the frames inside VXLAN with this network identifier; --size is the size of the inner frames
    #[arg(long, value_name = "VNI", value_parser = clap::value_parser!(u32).range(0..1 << 24), conflicts_with = "erspan", help_heading = "Encapsulation")]
    pub(super) vxlan: Option<u32>,

    #[command(flatten)]
    pub(super) cpu: CoreArg,

    #[command(flatten)]
    pub(super) report: ReportArgs,
    #[command(flatten)]
    pub(super) watch: WatchArgs,

    #[command(flatten)]
    pub(super) no_sandbox: NoSandboxArg,
}

/// A rate gives frames their times.
const DURATION_HELP: &str =
    "Stop after TIME, such as 5s, 1.5m or 250ms; with a rate this is a fixed number of frames";

/// Payload of the frames.
const CONTENTS: [Choice<Content>; 4] = [
    ("counting", Content::Counting, "Byte i has the value i mod 256"),
    ("zeros", Content::Zeros, "0x00"),
    ("ones", Content::Ones, "0xff"),
    ("random", Content::Random, "Random bytes"),
];

/// Kind of TCP traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TcpKind {
    /// SYN segments only
    Syn,
    /// Complete conversations
    Talk,
}

pub(super) type Mac = [u8; 6];

values! {
    Content: choice(CONTENTS);
    Sizes: |text: &str| text.parse::<Sizes>();
    Mac: mac;
}

/// The destination by default, which belongs to no host.
const DST_MAC: Mac = [0x02, 0x71, 0x75, 0x61, 0x66, 0x02];
/// The size of frames by default, bytes.
const SIZE: &str = "512";

/// VLAN tags. Boxed, because clap would treat a `Vec` as a repeatable option.
type Tags = Box<[VlanTag]>;

impl Args {
    /// The sizes of frames.
    pub(super) fn size(&self) -> Sizes {
        self.sizes.size.clone().unwrap_or_else(|| SIZE.parse().expect("a size"))
    }

    /// The payload.
    pub(super) fn content(&self) -> Content {
        self.content.as_ref().map_or(Content::Counting, Content::clone)
    }

    /// The destination.
    pub(super) fn dst_mac(&self) -> Mac {
        self.macs.dst_mac.unwrap_or(DST_MAC)
    }
}

fn damage(text: &str) -> Result<Damage, String> {
    text.parse().map_err(|error: quaff_wire::ParseError| error.to_string())
}

fn new_flows(text: &str) -> Result<New, String> {
    if text == "each" {
        return Ok(New::EachFrame);
    }
    let rate = units::decimal(text)?;
    Ok(if rate == 0.0 { New::Never } else { New::PerSecond(rate) })
}

/// The rate of a ramp is in the unit of the pace: frames or megabits, which is settled later.
fn shape(text: &str) -> Result<ArrivalPattern, String> {
    const KNOWN: &str = "a shape is constant, poisson, bursts=N, ramp=FROM:TIME or on-off=TIME:TIME";
    let ns = |text| units::duration(text).map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let pair = |text: &str| text.split_once(':').map(|(a, b)| (a.to_owned(), b.to_owned())).ok_or(KNOWN);
    match text.split_once('=') {
        None if text == "constant" => Ok(ArrivalPattern::Constant),
        None if text == "poisson" => Ok(ArrivalPattern::Poisson),
        Some(("bursts", frames)) => units::whole(frames).map(ArrivalPattern::Bursts),
        Some(("ramp", rest)) => {
            let (from, rise) = pair(rest)?;
            Ok(ArrivalPattern::Ramp { from: units::decimal(&from)?, rise_ns: ns(&rise)? })
        }
        Some(("on-off", rest)) => {
            let (on, off) = pair(rest)?;
            Ok(ArrivalPattern::OnOff { on_ns: ns(&on)?, off_ns: ns(&off)? })
        }
        _ => Err(KNOWN.to_owned()),
    }
}

pub(crate) fn mac(text: &str) -> Result<Mac, String> {
    let wrong = || "write a MAC as six hexadecimal bytes, such as 02:00:00:00:00:01".to_owned();
    let bytes: Vec<u8> = text
        .split([':', '-'])
        .map(|part| (part.len() <= 2).then(|| u8::from_str_radix(part, 16).ok()).flatten())
        .collect::<Option<_>>()
        .ok_or_else(wrong)?;
    bytes.try_into().map_err(|_| wrong())
}

/// The highest VLAN id that a frame may have (IEEE 802.1Q, table 9-2).
const VLAN_ID_MAX: u16 = 4094;

fn tags(text: &str) -> Result<Tags, String> {
    let parts: Vec<_> = text.split(',').collect();
    let inner = parts.len() - 1;
    let tag = |(i, part): (usize, &&str)| {
        let (tpid, tci) = match part.split_once(':') {
            Some((tpid, tci)) => (number(tpid)?, tci),
            None => (if i == inner { TPID_CUSTOMER } else { TPID_SERVICE }, *part),
        };
        let tci = match (number(tci)?, tci.starts_with("0x")) {
            (id, false) if id > VLAN_ID_MAX => {
                return Err(format!(
                    "{id} is no VLAN id, which is at most {VLAN_ID_MAX}; write a TCI with priority in hexadecimal"
                ));
            }
            (tci, _) => tci,
        };
        if matches!(tpid, TPID_CUSTOMER | TPID_SERVICE) {
            Ok(VlanTag { tpid, tci })
        } else {
            Err(format!("a TPID is {TPID_CUSTOMER:#x} or {TPID_SERVICE:#x}, not {tpid:#x}"))
        }
    };
    parts.iter().enumerate().map(tag).collect()
}

/// 16 bits, decimal or, with 0x, hexadecimal.
fn number(text: &str) -> Result<u16, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}' is not a number of 16 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_are_read() {
        assert_eq!(mac("02:00:00:0a:FF:1"), Ok([2, 0, 0, 10, 255, 1]));
        assert_eq!(mac("02-00-00-00-00-01"), Ok([2, 0, 0, 0, 0, 1]));
        for wrong in ["", "02:00", "02:00:00:00:00:001", "02:00:00:00:00:0g", "1:2:3:4:5:6:7"] {
            assert!(mac(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tags_are_read() {
        let tag = |tpid, tci| VlanTag { tpid, tci };
        assert_eq!(tags("100"), Ok([tag(0x8100, 100)].into()));
        assert_eq!(tags("4094"), Ok([tag(0x8100, 4094)].into()));
        assert_eq!(tags("5,0xa064"), Ok([tag(0x88a8, 5), tag(0x8100, 0xa064)].into()));
        assert_eq!(tags("0x8100:1,0x8100:2"), Ok([tag(0x8100, 1), tag(0x8100, 2)].into()));
        for wrong in ["", "x", "0x9100:1", "70000", "4095", "0x8100:5000", "1,", "0x8100:"] {
            assert!(tags(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shapes_are_read() {
        assert_eq!(shape("poisson"), Ok(ArrivalPattern::Poisson));
        assert_eq!(shape("bursts=1k"), Ok(ArrivalPattern::Bursts(1000)));
        assert_eq!(shape("ramp=0.5k:2s"), Ok(ArrivalPattern::Ramp { from: 500.0, rise_ns: 2_000_000_000 }));
        assert_eq!(
            shape("on-off=1ms:1s"),
            Ok(ArrivalPattern::OnOff { on_ns: 1_000_000, off_ns: 1_000_000_000 })
        );
        for wrong in ["", "bursts", "bursts=x", "ramp=5", "on-off=1s", "sine=1:2", "constant=1"] {
            assert!(shape(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_of_new_flows_are_read() {
        assert_eq!(new_flows("each"), Ok(New::EachFrame));
        assert_eq!(new_flows("0"), Ok(New::Never));
        assert_eq!(new_flows("2k"), Ok(New::PerSecond(2000.0)));
        assert!(new_flows("some").is_err());
    }
}
