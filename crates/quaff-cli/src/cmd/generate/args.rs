//! What can be said on the command line of `quaff generate`, and how its words are read.

use crate::units;
use quaff_send::synth::Shape;
use quaff_wire::synth::{Addresses, Damage, New, Ports, Sizes};
use quaff_wire::udp::{TPID_CUSTOMER, TPID_SERVICE, Tag};
use std::path::PathBuf;
use std::time::Duration;

/// Send made-up traffic at an exact pace: numbered, time-stamped UDP frames, or what you ask for
///
/// Every UDP frame that has room carries a stamp: a stream id, a sequence number, when it should have
/// been sent and how much later it was, under a checksum. 'quaff verify' reads the stamps back from a
/// capture and tells which frames are missing, doubled, out of order or damaged. A stamp takes 22 bytes
/// behind the headers: a frame of 64 bytes in IPv4, of 84 in IPv6. Frames without room, pieces of
/// datagrams, TCP, ICMP and ports of your own go without; the stamps of the others are numbered
/// without gaps.
///
/// With --inject the frames arrive on the interface as if from the wire: this is how to try a
/// capture on one machine, at up to some million frames per second, with no cable and no second
/// interface. With -o they are sent from the interface. With -w they go into a file.
///
/// The same command makes the same frames again: what is random comes from --seed.
///
/// At the end three counts are told: frames intended, frames handed to the kernel, and frames that
/// the interface itself has counted. Exit status: 0 when the three agree, 1 when they do not, 2 when
/// nothing could be sent. A run that SIGINT or SIGTERM ended early is fine (0) when all frames that
/// were sent are confirmed; a second SIGINT ends it at once, without a report.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("interface").required(true),
    after_help = "Examples:\n  \
        quaff generate --inject eth0 --size 1500 --pps 400k --count 3M\n  \
        quaff generate -o eth1 --size 512 --mbps 900 --duration 1m\n  \
        quaff generate --inject eth0 --size 64 --duration 10s     (as fast as possible)\n  \
        quaff generate --inject eth0 --size 64 --new-flows each   (each frame a new 5-tuple)\n  \
        quaff generate --inject eth0 --tcp syn --src-ip 10.0.0.0/8 --src-port 1024-65535 --new-flows each\n  \
        quaff generate -o eth1 --size imix --pps 100k --shape poisson --flows 5000\n  \
        quaff generate -o eth1 --sizes-from office.pcap --tcp talk --flows 1000 --vxlan 7\n  \
        quaff generate -w try.pcap --size 64-1500 --damage checksum=1%,cut=0.1% --count 1M"
)]
pub(crate) struct Args {
    /// Have the frames arrive on this interface, as if from the wire
    #[arg(long, value_name = "IF", group = "interface", help_heading = "Where")]
    pub(super) inject: Option<String>,
    /// Send the frames from this interface
    #[arg(short = 'o', long = "out", value_name = "IF", group = "interface", help_heading = "Where")]
    pub(super) out: Option<String>,
    /// Write the frames to a pcap file, '-' is stdout; their times are those at which they would be sent
    #[arg(short = 'w', long = "write", value_name = "FILE", group = "interface", help_heading = "Where")]
    pub(super) write: Option<PathBuf>,
    /// Pin the sending thread to this core
    #[arg(long, value_name = "CORE", help_heading = "Where")]
    pub(super) cpu: Option<usize>,

    /// Bytes of a frame: one size; 64,128,256 in turn; 64-1500 at random; 64:7,570:4 by weight; or a set
    ///
    /// Sets: rfc2544 (64 to 1518 in turn), imix (64, 570, 1518 as 7:4:1), imix1500 (64, 570, 1514), cisco (64, 594, 1518 as 7:4:1),
    /// tolly (64, 78, 576, 1518 as 55:5:17:23), rpr3 (64, 512, 1518 as 60:20:20), rpr4 (64, 512, 1518,
    /// 9218 as 50:15:15:20). VLAN tags are counted, the FCS is not (but see --fcs), nor are the headers of
    /// --erspan and --vxlan. Injected frames have to fit a page of the kernel's with its headroom: about
    /// 3400 bytes.
    #[arg(long, value_name = "SIZES", default_value = "512", value_parser = Sizes::parse, help_heading = "Sizes")]
    pub(super) size: Sizes,
    /// Draw sizes as they are distributed in this capture, or in a file that --sizes-save wrote
    ///
    /// A size that at least 1 packet in 500 has is kept exactly; others are put into bins of 20 bytes.
    #[arg(long, value_name = "FILE", conflicts_with = "size", help_heading = "Sizes")]
    pub(super) sizes_from: Option<PathBuf>,
    /// Write the distribution to a small text file: a line '64-79 12' has sizes, and how often
    #[arg(long, value_name = "FILE", help_heading = "Sizes")]
    pub(super) sizes_save: Option<PathBuf>,
    /// Make no frame smaller than that; headers always fit [default: with --sizes-from 60]
    #[arg(long, value_name = "BYTES", help_heading = "Sizes")]
    pub(super) size_min: Option<u32>,
    /// Make no frame larger than that [default: with --sizes-from 1514]
    #[arg(long, value_name = "BYTES", help_heading = "Sizes")]
    pub(super) size_max: Option<u32>,
    /// Count the FCS in all sizes and in --mbps, as RFC 2544 does: 64 is a frame of 60 bytes and its FCS
    ///
    /// Such a frame has no room for a stamp.
    #[arg(long, help_heading = "Sizes")]
    pub(super) fcs: bool,

    /// Frames per second, such as 20, 0.5, 400k or 1.5M [default: as fast as possible]
    #[arg(long, value_name = "RATE", value_parser = units::decimal, conflicts_with = "mbps", help_heading = "Pace")]
    pub(super) pps: Option<f64>,
    /// Megabits per second (10^6) of whole frames without FCS [default: as fast as possible]
    #[arg(long, value_name = "RATE", value_parser = units::decimal, help_heading = "Pace")]
    pub(super) mbps: Option<f64>,
    /// How the frames are spread: constant, poisson, bursts=N, ramp=FROM:TIME, on-off=TIME:TIME
    ///
    /// The pace is the mean of poisson and bursts, where a ramp ends that begins with the rate FROM, and
    /// the rate of the times that are on.
    #[arg(long, value_name = "SHAPE", default_value = "constant", value_parser = shape, help_heading = "Pace")]
    pub(super) shape: Shape,
    /// End after so many frames, such as 1000 or 3M [default: go on until SIGINT]
    #[arg(long, value_name = "N", value_parser = units::whole, conflicts_with = "duration", help_heading = "Pace")]
    pub(super) count: Option<u64>,
    /// End after so long, such as 5s, 1.5m or 250ms; with a rate that is a fixed number of frames
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Pace")]
    pub(super) duration: Option<Duration>,

    /// The number by which 'quaff verify' tells streams apart; it is the UDP source port
    #[arg(long, value_name = "ID", default_value_t = 1, help_heading = "Content")]
    pub(super) stream: u16,
    /// Send no stamps
    #[arg(long, help_heading = "Content")]
    pub(super) no_stamp: bool,
    /// What is behind the headers, or behind the stamp
    ///
    /// With any but counting, 'quaff verify' takes a stamped frame that a snaplen cut for a damaged one.
    #[arg(long, value_name = "KIND", value_enum, default_value_t, help_heading = "Content")]
    pub(super) content: ContentKind,
    /// Send the bytes of this file (its first MiB), again and again
    #[arg(long, value_name = "FILE", conflicts_with = "content", help_heading = "Content")]
    pub(super) content_from: Option<PathBuf>,
    /// From which random numbers come: sizes, content, damage, gaps
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Content")]
    pub(super) seed: u64,

    /// So many flows at a time, which take turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole, help_heading = "Flows")]
    pub(super) flows: u64,
    /// So many flows per second end and make room for new ones; or 'each': every frame is a new flow
    #[arg(long, value_name = "RATE", default_value = "0", value_parser = new_flows, help_heading = "Flows")]
    pub(super) new_flows: New,
    /// Source addresses: one, 10.0.0.0/16 or 10.0.0.1-10.0.0.9 [default: 198.18.0.1; for flows
    /// 198.18.0.0/16]
    ///
    /// Of the 5-tuples that the ranges allow, flows take the source addresses first, then the
    /// destination addresses, the source ports and the destination ports.
    #[arg(long, value_name = "ADDRS", help_heading = "Flows")]
    pub(super) src_ip: Option<Addresses>,
    /// Destination addresses [default: 198.18.0.2; for flows 198.19.0.0/16]
    #[arg(long, value_name = "ADDRS", help_heading = "Flows")]
    pub(super) dst_ip: Option<Addresses>,
    /// Use addresses of IPv6 where none are given: 2001:2::1 and 2001:2::2, for flows 2001:2::/112 and
    /// 2001:2:0:1::/112
    #[arg(short = '6', long, help_heading = "Flows")]
    pub(super) ipv6: bool,
    /// Source ports, such as 5000 or 1024-65535; without stamps [default: the stream id]
    #[arg(long, value_name = "PORTS", help_heading = "Flows")]
    pub(super) src_port: Option<Ports>,
    /// Destination ports; without stamps [default: 29045, by which stamps are found]
    #[arg(long, value_name = "PORTS", help_heading = "Flows")]
    pub(super) dst_port: Option<Ports>,

    /// TCP instead of UDP: 'syn' for first segments only, 'talk' for whole conversations
    ///
    /// A conversation is SYN, SYN-ACK, ACK; segments with data from both ends in turn; FIN from both.
    /// --flows is how many go on at a time. Both directions leave by the same interface.
    #[arg(long, value_name = "KIND", value_enum, conflicts_with = "icmp", help_heading = "Protocol")]
    pub(super) tcp: Option<TcpKind>,
    /// Segments with data in a conversation
    #[arg(long, value_name = "N", default_value_t = 10, requires = "tcp", help_heading = "Protocol")]
    pub(super) segments: u32,
    /// ICMP echo requests instead of UDP
    #[arg(long, help_heading = "Protocol")]
    pub(super) icmp: bool,
    /// Send IP packets in pieces that have at most so many bytes behind the IP header
    #[arg(long, value_name = "BYTES", help_heading = "Protocol")]
    pub(super) fragment: Option<u32>,
    /// Damage a share of the frames: checksum=1%,ip-checksum=1%,flip=0.5%,cut=0.1%
    ///
    /// The checksum of UDP, TCP or ICMP; that of the IPv4 header; a bit behind the IP header; or the
    /// frame ends too early. How many there were is in the report.
    #[arg(long, value_name = "SHARES", value_parser = damage, help_heading = "Protocol")]
    pub(super) damage: Option<Damage>,

    /// Destination MAC; for one that is not its own, the receiving stack drops frames soonest
    #[arg(long, value_name = "MAC", default_value = "02:71:75:61:66:02", value_parser = mac, help_heading = "Around it")]
    pub(super) dst_mac: Mac,
    /// Source MAC [default: for -o the interface's own, otherwise 02:71:75:61:66:01]
    #[arg(long, value_name = "MAC", value_parser = mac, help_heading = "Around it")]
    pub(super) src_mac: Option<Mac>,
    /// VLAN tags, the outer one first: [TPID:]TCI[,[TPID:]TCI], such as 100 or 0x88a8:5,0x8100:100
    ///
    /// The TPID is 0x8100 or 0x88a8; without one a single or inner tag has 0x8100, an outer 0x88a8.
    #[arg(long, value_name = "TAGS", value_parser = tags, help_heading = "Around it")]
    pub(super) vlan: Option<Tags>,
    /// MPLS labels, the outer one first, such as 16 or 16,17
    #[arg(long, value_name = "LABELS", value_delimiter = ',', help_heading = "Around it")]
    pub(super) mpls: Vec<u32>,
    /// Send the frames as a switch's mirror port does: inside ERSPAN type II of this session
    ///
    /// --size is that of the frames inside; the headers before them are 50 bytes. Frames are numbered,
    /// so that 'quaff capture --decap erspan' misses what is lost.
    #[arg(long, value_name = "SESSION", value_parser = clap::value_parser!(u16).range(0..1024), help_heading = "Around it")]
    pub(super) erspan: Option<u16>,
    /// Send the frames inside VXLAN with this network identifier; --size is that of the frames inside
    #[arg(long, value_name = "VNI", value_parser = clap::value_parser!(u32).range(0..1 << 24), conflicts_with = "erspan", help_heading = "Around it")]
    pub(super) vxlan: Option<u32>,

    /// Print the report as one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// What frames carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum ContentKind {
    /// Byte i has the value i mod 256
    #[default]
    Counting,
    /// 0x00
    Zeros,
    /// 0xff
    Ones,
    /// Random bytes
    Random,
}

/// Which TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TcpKind {
    /// First segments only
    Syn,
    /// Whole conversations
    Talk,
}

pub(super) type Mac = [u8; 6];

/// A type of its own, or clap would take the list for a repeatable option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tags(pub(super) Vec<Tag>);

fn damage(text: &str) -> Result<Damage, String> {
    text.parse().map_err(|error: quaff_wire::synth::DamageError| error.to_string())
}

fn new_flows(text: &str) -> Result<New, String> {
    if text == "each" {
        return Ok(New::EachFrame);
    }
    let rate = units::decimal(text)?;
    Ok(if rate == 0.0 { New::Never } else { New::PerSecond(rate) })
}

/// The rate of a ramp is in the unit of the pace: frames or megabits, which is settled later.
fn shape(text: &str) -> Result<Shape, String> {
    const KNOWN: &str = "a shape is constant, poisson, bursts=N, ramp=FROM:TIME or on-off=TIME:TIME";
    let ns = |text| units::duration(text).map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let pair = |text: &str| text.split_once(':').map(|(a, b)| (a.to_owned(), b.to_owned())).ok_or(KNOWN);
    match text.split_once('=') {
        None if text == "constant" => Ok(Shape::Constant),
        None if text == "poisson" => Ok(Shape::Poisson),
        Some(("bursts", frames)) => units::whole(frames).map(Shape::Bursts),
        Some(("ramp", rest)) => {
            let (from, rise) = pair(rest)?;
            Ok(Shape::Ramp { from: units::decimal(&from)?, rise_ns: ns(&rise)? })
        }
        Some(("on-off", rest)) => {
            let (on, off) = pair(rest)?;
            Ok(Shape::OnOff { on_ns: ns(&on)?, off_ns: ns(&off)? })
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

fn tags(text: &str) -> Result<Tags, String> {
    let parts: Vec<_> = text.split(',').collect();
    let inner = parts.len() - 1;
    let tag = |(i, part): (usize, &&str)| {
        let (tpid, tci) = match part.split_once(':') {
            Some((tpid, tci)) => (number(tpid)?, number(tci)?),
            None => (if i == inner { TPID_CUSTOMER } else { TPID_SERVICE }, number(part)?),
        };
        if matches!(tpid, TPID_CUSTOMER | TPID_SERVICE) {
            Ok(Tag { tpid, tci })
        } else {
            Err(format!("a TPID is {TPID_CUSTOMER:#x} or {TPID_SERVICE:#x}, not {tpid:#x}"))
        }
    };
    parts.iter().enumerate().map(tag).collect::<Result<_, _>>().map(Tags)
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
        let tag = |tpid, tci| Tag { tpid, tci };
        assert_eq!(tags("100"), Ok(Tags(vec![tag(0x8100, 100)])));
        assert_eq!(tags("5,0xa064"), Ok(Tags(vec![tag(0x88a8, 5), tag(0x8100, 0xa064)])));
        assert_eq!(tags("0x8100:1,0x8100:2"), Ok(Tags(vec![tag(0x8100, 1), tag(0x8100, 2)])));
        for wrong in ["", "x", "0x9100:1", "70000", "1,", "0x8100:"] {
            assert!(tags(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shapes_are_read() {
        assert_eq!(shape("poisson"), Ok(Shape::Poisson));
        assert_eq!(shape("bursts=1k"), Ok(Shape::Bursts(1000)));
        assert_eq!(shape("ramp=0.5k:2s"), Ok(Shape::Ramp { from: 500.0, rise_ns: 2_000_000_000 }));
        assert_eq!(shape("on-off=1ms:1s"), Ok(Shape::OnOff { on_ns: 1_000_000, off_ns: 1_000_000_000 }));
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
