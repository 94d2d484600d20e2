//! `quaff generate`: stamped UDP frames, injected into or sent from an interface, exactly paced.

use crate::exit::Exit;
use crate::{show, units};
use anyhow::Context as _;
use quaff::send::{self, Control, Length, Pace, SendPlan, SendReport, Snapshot, Via, Witness};
use quaff_os::signal::{Signal, Signals};
use quaff_wire::udp::{FRAME_BYTES_MAX, TPID_CUSTOMER, TPID_SERVICE, Tag};
use std::io::{IsTerminal as _, Write as _};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Send numbered, time-stamped UDP frames at an exact pace
///
/// Every frame carries a stamp: a stream id, a sequence number, when it should have been sent and
/// how much later it was, under a checksum. 'quaff verify' reads the stamps back from a capture and
/// tells which frames are missing, doubled, out of order or damaged.
///
/// With --inject the frames arrive on the interface as if from the wire: this is how to try a
/// capture on one machine, at up to some million frames per second, with no cable and no second
/// interface. With -o they are sent from the interface.
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
        quaff generate --inject eth0 --size 64 --duration 10s     (as fast as possible)"
)]
pub(crate) struct Args {
    /// Have the frames arrive on this interface, as if from the wire
    #[arg(long, value_name = "IF", group = "interface")]
    inject: Option<String>,
    /// Send the frames from this interface
    #[arg(short = 'o', long = "out", value_name = "IF", group = "interface")]
    out: Option<String>,

    /// Bytes of a frame, from 64 to 9000: VLAN tags are counted, the FCS is not
    ///
    /// Injected frames have to fit a page of the kernel's with its headroom: about 3400 bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 512, value_parser = frame_bytes)]
    size: usize,

    /// Frames per second, such as 20, 0.5, 400k or 1.5M [default: as fast as possible]
    #[arg(long, value_name = "RATE", value_parser = units::decimal, conflicts_with = "mbps")]
    pps: Option<f64>,
    /// Megabits per second (10^6) of whole frames without FCS [default: as fast as possible]
    #[arg(long, value_name = "RATE", value_parser = units::decimal)]
    mbps: Option<f64>,

    /// End after so many frames, such as 1000 or 3M [default: go on until SIGINT]
    #[arg(long, value_name = "N", value_parser = units::whole, conflicts_with = "duration")]
    count: Option<u64>,
    /// End after so long, such as 5s, 1.5m or 250ms; with a rate that is a fixed number of frames
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,

    /// The number by which 'quaff verify' tells streams apart; it is the UDP source port
    #[arg(long, value_name = "ID", default_value_t = 1)]
    stream: u16,
    /// Destination MAC; for one that is not its own, the receiving stack drops frames soonest
    #[arg(long, value_name = "MAC", default_value = "02:71:75:61:66:02", value_parser = mac)]
    dst_mac: Mac,
    /// Source MAC [default: for -o the interface's own, for --inject 02:71:75:61:66:01]
    #[arg(long, value_name = "MAC", value_parser = mac)]
    src_mac: Option<Mac>,
    /// Source address
    #[arg(long, value_name = "ADDR", default_value = "198.18.0.1")]
    src_ip: Ipv4Addr,
    /// Destination address
    #[arg(long, value_name = "ADDR", default_value = "198.18.0.2")]
    dst_ip: Ipv4Addr,
    /// VLAN tags, the outer one first: [TPID:]TCI[,[TPID:]TCI], such as 100 or 0x88a8:5,0x8100:100
    ///
    /// The TPID is 0x8100 or 0x88a8; without one a single or inner tag has 0x8100, an outer 0x88a8.
    #[arg(long, value_name = "TAGS", value_parser = tags)]
    vlan: Option<Tags>,

    /// Send the frames as a switch's mirror port does: inside ERSPAN type II of this session
    ///
    /// --size is that of the frames inside; the headers before them are 50 bytes. The numbers of the
    /// stamps are those of the session too, so that 'quaff capture --decap erspan' misses what is lost.
    #[arg(long, value_name = "SESSION", value_parser = clap::value_parser!(u16).range(0..1024))]
    erspan: Option<u16>,
    /// Pin the sending thread to this core
    #[arg(long, value_name = "CORE")]
    cpu: Option<usize>,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

type Mac = [u8; 6];

/// A type of its own, or clap would take the list for a repeatable option.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tags(Vec<Tag>);

/// How often the progress line is written.
const PROGRESS: Duration = Duration::from_millis(250);

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let signals = Signals::block(&[Signal::SIGINT, Signal::SIGTERM])?;
    let json = args.json;
    let plan = plan(args);
    let mut watch = Watch::new(signals, &plan);
    let report = send::run(&plan, |snapshot, wait| watch.look(snapshot, wait));
    watch.clear_line();
    let report = report?;
    if json {
        println!("{}", serde_json::to_string(&report).context("write the report")?);
    } else {
        print!("{}", in_words(&report));
    }
    Ok(if report.agrees() { Exit::Done } else { Exit::Loss })
}

fn plan(args: Args) -> SendPlan {
    let pace = match (args.pps, args.mbps) {
        (Some(pps), _) => Pace::PerSecond(pps),
        (None, Some(mbps)) => Pace::PerSecond(mbps * 1e6 / (args.size as f64 * 8.0)),
        (None, None) => Pace::Unpaced,
    };
    let length = match (args.count, args.duration) {
        (Some(count), _) => Length::Count(count),
        (None, Some(duration)) => Length::Duration(duration),
        (None, None) => Length::Endless,
    };
    let (via, interface) = match (args.inject, args.out) {
        (Some(interface), _) => (Via::Inject, interface),
        // The group has one of the two.
        (None, out) => (Via::Send, out.unwrap_or_default()),
    };
    SendPlan {
        via,
        interface,
        frame_bytes: args.size,
        pace,
        length,
        stream: args.stream,
        mirror: args.erspan,
        dst_mac: args.dst_mac,
        src_mac: args.src_mac,
        src_ip: args.src_ip,
        dst_ip: args.dst_ip,
        tags: args.vlan.map_or_else(Vec::new, |Tags(tags)| tags),
        core: args.cpu,
    }
}

/// Listens for signals and writes the progress line.
struct Watch {
    signals: Signals,
    stopping: bool,
    line: bool,
    written: Option<(Instant, u64)>,
    paced: bool,
}

impl Watch {
    fn new(signals: Signals, plan: &SendPlan) -> Self {
        let paced = plan.pace != Pace::Unpaced;
        Self { signals, stopping: false, line: std::io::stderr().is_terminal(), written: None, paced }
    }

    fn look(&mut self, snapshot: &Snapshot, wait: Duration) -> Control {
        if self.line {
            self.write_line(snapshot);
        }
        // A signalfd that cannot be read would leave us deaf; better to end with a report.
        let heard = self.signals.next(wait).unwrap_or(Some(Signal::SIGTERM));
        if heard.is_some() && self.stopping {
            self.clear_line();
            eprintln!("quaff: ended at once, without a report");
            std::process::exit(2);
        }
        self.stopping |= heard.is_some();
        if self.stopping { Control::Stop } else { Control::Go }
    }

    fn write_line(&mut self, snapshot: &Snapshot) {
        let now = Instant::now();
        let (then, sent) = *self.written.get_or_insert((now, snapshot.sent));
        let passed = now - then;
        if passed < PROGRESS {
            return;
        }
        let rate = (snapshot.sent - sent) as f64 / passed.as_secs_f64();
        let mut line = format!("sent {}  {}", show::count(snapshot.sent), show::pps(rate));
        if self.paced {
            line += &format!("  latest {}", nanoseconds(snapshot.late_max_ns));
        }
        if snapshot.retried > 0 {
            line += &format!("  retried {}", show::count(snapshot.retried));
        }
        eprint!("\r\x1b[2K{line}");
        self.written = Some((now, snapshot.sent));
    }

    fn clear_line(&mut self) {
        if self.line {
            eprint!("\r\x1b[2K");
            let _ = std::io::stderr().flush();
        }
    }
}

fn in_words(report: &SendReport) -> String {
    let how = if report.via == "inject" { "injected into" } else { "sent from" };
    let mut text = format!(
        "{} B frames of stream {} {how} {}\n  intended   {}\n  sent       {}\n  confirmed  {}  ({})\n  \
         time       {:.3} s, {}, {}\n",
        report.frame_bytes,
        report.stream,
        report.interface,
        show::count(report.intended),
        show::count(report.sent),
        show::count(report.confirmed),
        verdict(report),
        report.seconds,
        show::pps(report.pps),
        show::bits(report.bits_per_second),
    );
    if let Some(error) = report.pace_error {
        text += &format!("  pace       {:+.4} % off the mean gap\n", error * 100.0);
    }
    if let Some(late) = report.lateness {
        let [mean, p50, p99, max] = [late.mean_ns, late.p50_ns, late.p99_ns, late.max_ns].map(nanoseconds);
        text += &format!("  late       mean {mean}, median {p50}, p99 {p99}, max {max}\n");
    }
    if report.retried > 0 {
        text += &format!("  retried    {} times for want of room\n", show::count(report.retried));
    }
    text
}

/// Who has confirmed, and what the three counts mean together.
fn verdict(report: &SendReport) -> String {
    let mut words = vec![
        match report.witness {
            Witness::Tap => "by a counting tap",
            Witness::RxOtherhostDropped => "by rx_otherhost_dropped",
            Witness::TxPackets => "by tx_packets",
            Witness::Softnet => "by what the stack took in",
        }
        .to_owned(),
    ];
    if report.others() > 0 {
        words.push(format!("{} of them others'", show::count(report.others())));
    }
    if !report.agrees() {
        words.push("the counts do not agree".to_owned());
    }
    if report.interrupted {
        words.push("ended early".to_owned());
    }
    words.join(", ")
}

/// A span of time in the unit that reads best.
fn nanoseconds(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

fn frame_bytes(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|_| "not a number of bytes".to_owned())?;
    if (64..=FRAME_BYTES_MAX).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("a frame has 64 to {FRAME_BYTES_MAX} bytes"))
    }
}

fn mac(text: &str) -> Result<Mac, String> {
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
    fn spans_read_well() {
        assert_eq!(nanoseconds(256), "256 ns");
        assert_eq!(nanoseconds(27_392), "27.4 µs");
        assert_eq!(nanoseconds(3_210_000), "3.2 ms");
        assert_eq!(nanoseconds(1_500_000_000), "1.50 s");
    }
}
