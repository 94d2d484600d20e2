//! `quaff lab recvfrom`: a capturer without a ring, as a baseline for measurements.

use crate::exit::Exit;
use crate::show::{self, Stream};
use crate::units;
use quaff::plan::LoadPlan;
use quaff_bench::recvfrom_sniffer::{self, SNAPLEN_MAX, SnifferPlan};
use quaff_os::{Signal, Signals};
use std::path::PathBuf;
use std::time::Duration;

/// Capture one packet per system call, as before rings
///
/// One recvfrom(2) for each packet, on a plain packet socket, and buffered writes into a pcap file: the slow
/// capture that 'quaff bench' compares others to. SIGINT or SIGTERM ends it; it prints a JSON object with
/// "captured" and "dropped" at its end, on stderr if packets go to stdout.
///
/// Exit status: 0 nothing was dropped, 1 something was, 2 it failed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Interface to capture from
    #[arg(short, long, value_name = "IF")]
    interface: String,
    /// Write to FILE; - is stdout
    #[arg(short, long, value_name = "FILE")]
    write: PathBuf,
    /// Keep only packets that match a tcpdump expression
    #[arg(short, long, value_name = "EXPR")]
    filter: Option<String>,
    /// Keep only the first BYTES of each packet
    #[arg(short, long, value_name = "BYTES", default_value_t = SNAPLEN_MAX, value_parser = clap::value_parser!(u32).range(1..=i64::from(SNAPLEN_MAX)))]
    snaplen: u32,
    /// Size of the socket's buffer [default: net.core.rmem_default]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    buffer: Option<u64>,
    /// Copy each packet N additional times
    #[arg(long, value_name = "N", default_value_t = 0)]
    copies: u32,
    /// Compress each packet at zlib's LEVEL, and discard the result
    #[arg(long, value_name = "LEVEL", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=9))]
    compress: u32,
}

pub(super) fn run(args: Args) -> anyhow::Result<Exit> {
    let signals = Signals::block(&[Signal::SIGINT, Signal::SIGTERM])?;
    let takes_stdout = args.write.as_os_str() == "-";
    let plan = SnifferPlan {
        interface: args.interface,
        write: args.write,
        filter: args.filter,
        snaplen: args.snaplen,
        buffer_bytes: args.buffer.map(|bytes| bytes as usize),
        load: LoadPlan { copies: args.copies, compression: args.compress },
    };
    // An unreadable signal descriptor counts as no signal.
    let no_signal = || matches!(signals.next(Duration::ZERO), Ok(None) | Err(_));
    let report = recvfrom_sniffer::capture(&plan, || show::say("capturing"), no_signal)?;
    show::json(if takes_stdout { Stream::Stderr } else { Stream::Stdout }, &report)?;
    Ok(Exit::judged(report.dropped == 0))
}
