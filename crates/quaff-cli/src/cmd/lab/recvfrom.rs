//! `quaff lab recvfrom`: a capturer without a ring, as a baseline for measurements.

use crate::exit::Exit;
use crate::flags::{
    BufferArg, Bytes, CompressArg, CopiesArg, FilterArg, InterfaceArg, SnaplenArg, WriteArg, of, reworded,
    values,
};
use crate::show::{self, Stream};
use clap::ArgAction;
use clap::builder::TypedValueParser as _;
use quaff::plan::LoadPlan;
use quaff_bench::recvfrom_sniffer::{self, SNAPLEN_MAX, SnifferPlan};
use quaff_os::{Signal, Signals};
use std::time::Duration;

/// Capture one packet per system call, as before rings
///
/// One recvfrom(2) for each packet, on a plain packet socket, and buffered writes into a pcap file: the slow
/// capture that 'quaff bench' compares others to. SIGINT or SIGTERM ends it; it prints a JSON object with
/// "captured" and "dropped" at its end, on stderr if packets go to stdout.
///
/// Exit status: 0 nothing was dropped, 1 something was, 2 it failed.
#[derive(Debug, clap::Args)]
#[command(
    mut_args(of("interface", |arg| arg.action(ArgAction::Set).required(true))),
    mut_args(of("write", |arg| arg.required(true))),
    mut_args(of("snaplen", |arg| arg.value_parser(clap::value_parser!(u32).range(1..=i64::from(SNAPLEN_MAX))))),
    mut_args(of("compress", |arg| reworded(arg, "Compress each packet at zlib's LEVEL, and discard the result")))
)]
pub(crate) struct Args {
    #[command(flatten)]
    interface: InterfaceArg,
    #[command(flatten)]
    write: WriteArg,
    #[command(flatten)]
    filter: FilterArg<String>,
    #[command(flatten)]
    snaplen: SnaplenArg<u32>,
    #[command(flatten)]
    buffer: BufferArg<Bytes>,
    #[command(flatten)]
    copies: CopiesArg<u32>,
    #[command(flatten)]
    compress: CompressArg<Level>,
}

/// A level of zlib.
#[derive(Debug, Clone, Copy)]
struct Level(u32);

values! {
    Level: clap::value_parser!(u32).range(0..=9).map(Level);
}

pub(super) fn run(args: Args) -> anyhow::Result<Exit> {
    let signals = Signals::block(&[Signal::SIGINT, Signal::SIGTERM])?;
    let write = args.write.first().cloned().unwrap_or_default();
    let takes_stdout = write.as_os_str() == "-";
    let plan = SnifferPlan {
        interface: args.interface.first().cloned().unwrap_or_default(),
        write,
        filter: (*args.filter).clone(),
        snaplen: args.snaplen.unwrap_or(SNAPLEN_MAX),
        buffer_bytes: args.buffer.map(|Bytes(bytes)| bytes as usize),
        load: LoadPlan {
            copies: args.copies.unwrap_or(0),
            compression: args.compress.map_or(0, |Level(level)| level),
        },
    };
    // An unreadable signal descriptor counts as no signal.
    let no_signal = || matches!(signals.next(Duration::ZERO), Ok(None) | Err(_));
    let report = recvfrom_sniffer::capture(&plan, || show::say("capturing"), no_signal)?;
    show::json(if takes_stdout { Stream::Stderr } else { Stream::Stdout }, &report)?;
    Ok(Exit::judged(report.dropped == 0))
}
