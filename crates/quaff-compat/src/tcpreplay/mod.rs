//! tcpreplay's command line, with every option of its manual, its flow statistics and its final output.

mod flows;
mod native;
mod options;
mod stats;
mod table;
mod text;

pub use flows::Counts;
pub use stats::Stats;

use crate::{Error, Native};
use options::Options;
use quaff_send::ReplayReport;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use text::{Device, Totals};

/// Deepest level of subfolders that is searched.
const DEPTH_MAX: u32 = 40;

/// The list of tcpreplay's options, for a help text.
pub const OPTIONS: &str = "\
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

SIGUSR1 suspends the process, and SIGCONT continues it.

Examples:
  quaff tcpreplay -i eth7 -tK --loop 50 --unique-ip smallFlows.pcap
  quaff tcpreplay -i eth7 -K --mbps 3500 --loop 50 --unique-ip bigFlows.pcap
  quaff tcpreplay --dry-run -i eth7 -p 1000 trace.pcap";

/// The lines of `--version`.
pub const VERSION: &str =
    concat!("tcpreplay version: 4.4.3 (quaff ", env!("CARGO_PKG_VERSION"), ")\nCache file supported: 04");

/// The request of a command line of tcpreplay.
#[derive(Debug)]
pub enum Asked {
    /// Its help.
    Help,
    /// Its version.
    Version,
    /// The list of interfaces.
    Interfaces,
    /// A run.
    Replay(Box<Replay>),
}

/// A translated command line of tcpreplay, with the lines around its run.
#[derive(Debug)]
pub struct Replay {
    /// The command line to run.
    pub native: Native,
    /// `--dry-run`: prints the native command line, and runs nothing.
    pub is_dry_run: bool,
    /// `-q`: prints the final statistics only.
    pub is_quiet: bool,
    options: Options,
    files: Vec<PathBuf>,
}

/// Parses and translates a command line, and searches the folders that it names.
///
/// # Errors
/// All mistakes in the options, or a file or folder that cannot be read.
pub fn read(args: &[OsString]) -> Result<Asked, Error> {
    let options =
        Options::read(args).map_err(|mistakes| Error::Options { command: "tcpreplay", mistakes })?;
    if options.has("version") {
        return Ok(Asked::Version);
    }
    if ["help", "less-help", "more-help"].iter().any(|name| options.has(name)) {
        return Ok(Asked::Help);
    }
    if options.has("listnics") {
        return Ok(Asked::Interfaces);
    }
    let missing = |words: &str| Err(Error::Missing(words.to_owned()));
    if !options.has("intf1") && !options.has("write") {
        return missing("the intf1 option is required: name the interface with -i IF");
    }
    if options.files.is_empty() {
        return missing("no input: name a file or a folder");
    }
    let files = files(&options.files)?;
    Ok(Asked::Replay(Box::new(Replay {
        native: Native::tcpreplay(&options, &files),
        is_dry_run: options.has("dry-run") || options.has("native"),
        is_quiet: options.has("quiet"),
        options,
        files,
    })))
}

/// The named files, with folders expanded in the order of their names.
fn files(named: &[OsString]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for name in named {
        let path = PathBuf::from(name);
        if name != "-" && path.metadata().map_err(Error::io("open", &path))?.is_dir() {
            walk(&path, DEPTH_MAX, &mut files)?;
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

fn walk(dir: &Path, depth: u32, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path()));
        entries.collect()
    };
    let mut paths = read().map_err(Error::io("read", dir))?;
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

impl Replay {
    /// The lines before the first packet, for stderr.
    pub fn greeting(&self) -> Vec<String> {
        let pid = self.options.has("pid").then(|| format!("PID: {}", std::process::id()));
        let is_cached = self.options.has("preload-pcap") && !self.is_quiet;
        pid.into_iter().chain(is_cached.then(|| "File Cache is enabled".to_owned())).collect()
    }

    /// The arguments of tcpdump for each file that `--verbose` decodes.
    pub fn decodings(&self) -> Vec<Vec<OsString>> {
        let files = self.files.iter().filter(|_| self.options.has("verbose"));
        let more = self.options.value("decode").map(|args| args.to_string_lossy().into_owned());
        let more: Vec<_> = more.iter().flat_map(|args| args.split_whitespace()).map(OsString::from).collect();
        let decoding = |file: &PathBuf| {
            let own = ["-n", "-l", "-r"].map(OsString::from).into_iter();
            own.chain([file.into()]).chain(more.clone()).collect()
        };
        files.map(decoding).collect()
    }

    /// The flow statistics of a run.
    pub fn counts(&self) -> Counts {
        Counts::new(&self.options)
    }

    /// The progress lines of a run.
    pub fn stats(&self) -> Stats {
        Stats::new(&self.options)
    }

    /// The final output, without the end of its last line; empty if nothing was sent.
    pub fn summary(&self, report: &ReplayReport, counts: &Counts) -> String {
        let has_flows = report.interfaces.len() > 1 && !self.options.has("preload-pcap");
        let devices = report.interfaces.iter().enumerate().map(|(place, one)| Device {
            flows: if has_flows { counts.of_device(place, report) } else { None },
            name: one.name.clone(),
            successful: one.sent,
            failed: one.failed,
            truncated: 0,
            enobufs: one.enobufs,
            eagain: one.eagain,
        });
        let totals = Totals {
            packets: report.sent,
            bytes: report.bytes,
            failed: report.interfaces.iter().map(|one| one.failed).sum(),
            span_us: (report.seconds * 1e6).round() as u64,
            flows: counts.figures(&self.options, report),
            devices: devices.collect(),
        };
        totals.text().trim_end_matches('\n').to_owned()
    }
}
