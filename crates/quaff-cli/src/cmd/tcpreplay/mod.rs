//! `quaff tcpreplay`: the command line of tcpreplay, translated to a native one.
//!
//! The native command line is parsed and run like any other. Implemented here are tcpreplay's final output, flow
//! statistics, progress lines, and decoding by tcpdump.

mod flows;
mod native;
mod options;
mod stats;
mod table;
mod text;

use super::native::{Native, checked, print_help};
use crate::exit::Exit;
use crate::show::{message, print, say};
use crate::{Command, cmd};
use anyhow::{Context as _, bail};
use flows::Counting;
use options::Options;
use quaff_os::rtnl::Rtnl;
use quaff_send::ReplayReport;
use stats::Stats;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process;
use text::{Device, Totals};

/// Deepest level of subfolders that is searched.
const DEPTH_MAX: u32 = 40;

/// Accept the command line of tcpreplay, with every option of its manual and its exact final output
///
/// tcpreplay's command lines work with 'quaff ' in front, and scripts that parse its output can parse this.
/// Packets are sent by quaff's own backends and deadlines: several times faster, confirmed by the receiver's
/// counters, and without drift. --dry-run prints the equivalent native command.
///
/// Exit status: 0 done; 1 not everything was sent; 2 failed.
#[derive(Debug, clap::Args)]
#[command(after_help = OPTIONS, override_usage = "quaff tcpreplay [OPTIONS] FILE|DIR...")]
pub(crate) struct Args {
    /// Options of tcpreplay
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS", hide = true)]
    options: Vec<OsString>,
}

const OPTIONS: &str = "\
Output:
  -i, --intf1 IF         interface; with two of them, the client side
  -I, --intf2 IF         second interface, for -c or -2
  -c, --cachefile FILE   tcpprep cache that assigns each packet to an interface
  -2, --dualfile         files in pairs, one for each interface, merged by time
  -w, --write FILE       write a pcap file instead
  --listnics             list interfaces, and exit
  --netmap, --xdp, --io-uring, --raw, and netmap:IF
                         accepted; the fastest backend that works is always used

Rate (captured timing by default):
  -x, --multiplier X     X times the captured speed
  -p, --pps N            packets per second, possibly fractional
  -M, --mbps N           megabits per second; 0 is as fast as possible
  -t, --topspeed         as fast as possible
  -o, --oneatatime       one packet for each Enter
  --maxsleep N           shorten captured gaps to N milliseconds at most

Input:
  -l, --loop N           repeat N times; 0 is endless
  --unique-ip            new flows for each loop
  -L, --limit N          stop after N packets
  --duration N           stop after N seconds
  --pktlen               pad truncated packets with zeros to their original length
  --include, --exclude RANGES
                         send only these packets, or all but these: 1-5,7,100-

Report:
  -K, --preload-pcap     count the flows of one loop, as tcpreplay does with -K
  --no-flow-stats        no flow statistics
  --flow-expiry N        flows expire after N seconds without a packet
  --stats N              print progress every N seconds; 0 is after each loop
  -v, --verbose          decode the packets with tcpdump; -A, --decode ARGS for it
  -P, --pid              print the process id
  -q, --quiet            print only the final statistics
  --dry-run              print the equivalent native command, and exit
  --load-opts FILE       read more options from FILE: a name in each line, and its value
  -V, --version; -h, -H, --help

Accepted without effect: -T, --timer; --nm-delay; --pps-multi; --loopdelay-ms;
--loopdelay-ns; --unique-ip-loops; --xdp-batch-size; --loss; --save-opts; -d, --dbug

Examples:
  quaff tcpreplay -i eth7 -tK --loop 50 --unique-ip smallFlows.pcap
  quaff tcpreplay -i eth7 -K --mbps 3500 --loop 50 --unique-ip bigFlows.pcap
  quaff tcpreplay --dry-run -i eth7 -p 1000 trace.pcap";

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let options = checked(Options::read(&args.options), "tcpreplay")?;
    if let Some(exit) = informed(&options) {
        return exit;
    }
    if !options.has("intf1") && !options.has("write") {
        bail!("the intf1 option is required: name the interface with -i IF");
    }
    if options.files.is_empty() {
        bail!("no input: name a file or a folder");
    }
    let files = files(&options.files)?;
    let native = Native::tcpreplay(&options, &files);
    let is_dry_run = options.has("dry-run") || options.has("native");
    if !options.has("quiet") || is_dry_run {
        native.notes.iter().for_each(|note| message(note));
    }
    if is_dry_run {
        print(&native.line());
        return Ok(Exit::Done);
    }
    begin(&options, &files)?;
    match crate::read(&native.args)? {
        Command::Replay(args) => match &args.write {
            Some(path) => {
                let is_whole = cmd::replay::write(&args, path)?.is_whole();
                Ok(if is_whole { Exit::Done } else { Exit::Loss })
            }
            None => replay(&options, &args),
        },
        other => crate::run(other),
    }
}

/// Answers the options that only print something.
fn informed(options: &Options) -> Option<anyhow::Result<Exit>> {
    if options.has("version") {
        say(concat!("tcpreplay version: 4.4.3 (quaff ", env!("CARGO_PKG_VERSION"), ")"));
        say("Cache file supported: 04");
        return Some(Ok(Exit::Done));
    }
    if ["help", "less-help", "more-help"].iter().any(|name| options.has(name)) {
        return Some(print_help("tcpreplay"));
    }
    options.has("listnics").then(|| {
        print("Available network interfaces:");
        Rtnl::open()?.links()?.iter().for_each(|link| print(&link.name));
        Ok(Exit::Done)
    })
}

/// The named files, with folders expanded in the order of their names.
fn files(named: &[OsString]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for name in named {
        let path = PathBuf::from(name);
        if name != "-" && path.metadata().with_context(|| format!("open {}", path.display()))?.is_dir() {
            walk(&path, DEPTH_MAX, &mut files)?;
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

fn walk(dir: &Path, depth: u32, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path()));
        entries.collect()
    };
    let mut paths = read().with_context(|| format!("read {}", dir.display()))?;
    paths.sort();
    for path in paths {
        if path.is_dir() && depth > 0 {
            walk(&path, depth - 1, files)?;
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

/// Prints the lines that tcpreplay prints before the first packet.
fn begin(options: &Options, files: &[PathBuf]) -> anyhow::Result<()> {
    if options.has("pid") {
        say(&format!("PID: {}", process::id()));
    }
    if options.has("preload-pcap") && !options.has("quiet") {
        say("File Cache is enabled");
    }
    if options.has("verbose") {
        for file in files {
            let mut tcpdump = process::Command::new("tcpdump");
            tcpdump.args(["-n", "-l"]).arg("-r").arg(file);
            if let Some(args) = options.value("decode") {
                tcpdump.args(args.to_string_lossy().split_whitespace());
            }
            tcpdump.status().context("run tcpdump, which decodes for --verbose")?;
        }
    }
    Ok(())
}

fn replay(options: &Options, args: &cmd::replay::Args) -> anyhow::Result<Exit> {
    let counts = (!options.has("no-flow-stats")).then(|| flows::Shared::new(options));
    let mut stats = Stats::new(options);
    let wrap = |feed| match &counts {
        Some(counts) => Box::new(Counting::new(feed, counts)),
        None => feed,
    };
    let report = cmd::replay::execute_with(args, wrap, |snapshot| stats.look(snapshot))?;
    stats.end(&report);
    let totals = totals(options, &report, counts.as_ref());
    let text = totals.text();
    if !text.is_empty() {
        print(text.trim_end_matches('\n'));
    }
    Ok(if report.agrees() { Exit::Done } else { Exit::Loss })
}

fn totals(options: &Options, report: &ReplayReport, counts: Option<&flows::Shared>) -> Totals {
    let flows = counts.map(|counts| counts.figures(options, report));
    let of_device = |place: usize| {
        let has_flows = report.interfaces.len() > 1 && !options.has("preload-pcap");
        counts.filter(|_| has_flows).map(|counts| counts.of_device(place, report))
    };
    let devices = report.interfaces.iter().enumerate().map(|(place, one)| Device {
        flows: of_device(place),
        name: one.name.clone(),
        successful: one.sent,
        failed: one.failed,
        truncated: 0,
        enobufs: one.enobufs,
        eagain: one.eagain,
    });
    Totals {
        packets: report.sent,
        bytes: report.bytes,
        failed: report.interfaces.iter().map(|one| one.failed).sum(),
        span_us: (report.seconds * 1e6).round() as u64,
        flows,
        devices: devices.collect(),
    }
}
