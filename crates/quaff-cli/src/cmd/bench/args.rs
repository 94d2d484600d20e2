//! The arguments of `quaff bench capture`.

use super::values::{self, List};
use crate::cmd::experiment::ReportArgs;
use crate::units;
use quaff_bench::bench::plan::{Method, Rate, Topology};
use quaff_lab::tool::{Filter, Output};
use quaff_lab::traffic::Size;
use std::path::PathBuf;
use std::time::Duration;

/// Measure packet capturers side by side, under controlled conditions
///
/// The same frames go to one capturer after the other, in rounds, each in its own network namespace (or on
/// real interfaces, --send-on). Offered frames are counted at the receiving interface, captured frames in the
/// file that the capturer wrote; the capturer's own counts are reported beside them but never used. The best
/// and the worst run of a case are dropped and the others averaged; the report also has the median, the
/// spread and every single run. The generator is measured alone first, and results that it limited are marked.
///
/// The test plan comes from a preset, from a file (--plan), or from the flags alone; flags override a preset
/// or a file. A flag with several values makes a series of each: '--buffer 1M,256M' measures everything twice.
///
/// The terminal shows the table; the folder (--out) holds result.json with all results, report.md, a
/// self-contained report.html, and the charts. ^C ends the test; what was measured until then is kept and
/// shown. Needs root, except with --dry-run.
///
/// Exit status: 0 measured, and quaff lost nothing; 1 measured, and quaff lost frames; 2 not measured, or not
/// completely.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("rate"),
    after_help = "Examples:\n  \
        quaff bench capture --preset quick\n  \
        quaff bench capture --preset whitepaper --rivals quaff,tshark --out laptop\n  \
        quaff bench capture --size 64,1500 --pps 200k,400k,max --buffer 256M\n  \
        quaff bench capture --command 'mine=./mine -i {interface} -w {file}'\n  \
        quaff bench capture --find-max --size 64,512,1500 --rivals quaff,tcpdump\n  \
        quaff bench capture --preset quick --send-on eth0 --receive-on eth1,eth2\n  \
        quaff bench capture --preset pam2007 --dry-run > mine.toml"
)]
pub(crate) struct Args {
    /// Run a named test plan; 'quaff bench list' lists them, with the studies whose numbers they compare to
    #[arg(long, value_name = "NAME", help_heading = "Test plan")]
    pub(super) preset: Option<String>,
    /// Read the test plan from FILE; --dry-run prints a template
    #[arg(long, value_name = "FILE.toml", conflicts_with = "preset", help_heading = "Test plan")]
    pub(super) plan: Option<PathBuf>,
    /// Capturers to measure [default: quaff,tcpdump,dumpcap]; those not installed are reported and skipped
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',', help_heading = "Test plan")]
    pub(super) rivals: Vec<String>,
    /// Also measure the capturer that FILE describes
    #[arg(long, value_name = "FILE.toml", help_heading = "Test plan")]
    pub(super) rival_file: Vec<PathBuf>,
    /// Also measure this command: a name, '=', and a command line with the placeholders {interface} and {file}
    #[arg(long, value_name = "NAME=COMMAND", help_heading = "Test plan")]
    pub(super) command: Vec<String>,
    /// Run only the series of the plan whose name contains one of these words
    #[arg(long, value_name = "WORD[,WORD]", value_delimiter = ',', help_heading = "Test plan")]
    pub(super) series: Vec<String>,
    /// Runs of each case [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Test plan")]
    pub(super) runs: Option<u32>,
    /// Random seed for the order of the runs in a round [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32), help_heading = "Test plan")]
    pub(super) seed: Option<u32>,
    /// Print the plan as TOML for --plan, with its duration and disk space; run nothing
    #[arg(long, alias = "print-plan", help_heading = "Test plan")]
    pub(super) dry_run: bool,

    /// Frame sizes in bytes without FCS, or named mixes: imix, imix1500, tolly, cisco, rpr3 [default: 64,512,1500]
    #[arg(long = "size", alias = "sizes", value_name = "SIZE[,SIZE]", value_delimiter = ',', value_parser = values::size, help_heading = "Traffic")]
    pub(super) sizes: Vec<Size>,
    /// Count the FCS in --size, as RFC 2544 does: 64 is a frame of 60 bytes plus FCS
    #[arg(long, requires = "sizes", help_heading = "Traffic")]
    pub(super) fcs: bool,
    /// Draw sizes from the distribution in this capture
    #[arg(long, value_name = "FILE", conflicts_with = "sizes", help_heading = "Traffic")]
    pub(super) sizes_from: Option<PathBuf>,
    /// Replay the packets of this capture
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sizes", "sizes_from"], help_heading = "Traffic")]
    pub(super) replay: Option<PathBuf>,
    /// Payload: counting, zeros or random [default: counting]
    #[arg(long, value_name = "KIND", value_parser = values::content, help_heading = "Traffic")]
    pub(super) content: Option<values::Content>,
    /// Frames per second: 400k, several values, steps such as 100k-1M/100k, or max [default: max]
    #[arg(long, value_name = "RATE[,RATE]", group = "rate", value_parser = values::pps, help_heading = "Traffic")]
    pub(super) pps: Option<List<Rate>>,
    /// Megabits per second (10^6) of frames without FCS: 950, 50-950/50, or max
    #[arg(long, value_name = "RATE[,RATE]", group = "rate", value_parser = values::mbps, help_heading = "Traffic")]
    pub(super) mbps: Option<List<Rate>>,
    /// Percent of the --link rate, including preamble, FCS and gap: 37.2, 10-100/10, or max
    #[arg(long, value_name = "PERCENT[,PERCENT]", group = "rate", value_parser = values::percent, help_heading = "Traffic")]
    pub(super) util: Option<List<Rate>>,
    /// Link rate for --util, in bits per second
    #[arg(long, value_name = "RATE", default_value = "1G", value_parser = units::decimal, requires = "util", help_heading = "Traffic")]
    pub(super) link: f64,
    /// Frames of each run [default: 1M]
    #[arg(short, long, value_name = "N", value_parser = units::whole, conflicts_with = "duration", help_heading = "Traffic")]
    pub(super) count: Option<u64>,
    /// Duration of each run, such as 10s or 1m
    #[arg(short, long, value_name = "TIME", value_parser = units::duration, help_heading = "Traffic")]
    pub(super) duration: Option<Duration>,

    /// Buffer of each capturer, such as 256M; 'own' leaves its default [default: 256M, or as the plan has it]
    #[arg(long, value_name = "SIZE[,SIZE]", value_parser = values::buffers, help_heading = "Capturers")]
    pub(super) buffer: Option<List<Option<u64>>>,
    /// Capturers that run at the same time [default: 1]
    #[arg(long, value_name = "N[,N]", value_parser = values::numbers, help_heading = "Capturers")]
    pub(super) capturers: Option<List<u32>>,
    /// Capture filter: none, accept (everything, after some 50 instructions), reject (everything) [default: none]
    #[arg(long, value_name = "KIND[,KIND]", value_parser = values::filters, help_heading = "Capturers")]
    pub(super) filter: Option<List<Filter>>,
    /// Additional memory copies of each packet, for capturers that support it: quaff, recvfrom [default: 0]
    #[arg(long, value_name = "N[,N]", value_parser = values::numbers, help_heading = "Capturers")]
    pub(super) copies: Option<List<u32>>,
    /// zlib level (0 to 9) for compressing each packet, for capturers that support it [default: 0]
    #[arg(long, value_name = "LEVEL[,LEVEL]", value_parser = values::numbers, help_heading = "Capturers")]
    pub(super) compress: Option<List<u32>>,
    /// Bytes to keep of each packet; 'full' keeps all [default: full]
    #[arg(long, value_name = "BYTES[,BYTES]", value_parser = values::snaplens, help_heading = "Capturers")]
    pub(super) snaplen: Option<List<Option<u32>>>,
    /// Output of the capturers: disk, null, pipe, screen [default: disk]
    #[arg(long, value_name = "KIND[,KIND]", value_parser = values::outputs, help_heading = "Capturers")]
    pub(super) output: Option<List<Output>>,
    /// Cores for generator and capturer together, 1 or 2 [default: 2]
    #[arg(long, value_name = "N[,N]", value_parser = values::numbers, help_heading = "Capturers")]
    pub(super) cores: Option<List<u32>>,

    /// Topology of the lab: direct, span (a bridge mirrors a port), tap (a forwarder copies) or line (captured at a
    /// port, at a mirror port of 1 Gbit/s, and by 'quaff tap' in it, each in turn) [default: direct]
    #[arg(long, value_name = "BED", value_parser = values::bed, help_heading = "Topology")]
    pub(super) bed: Option<Topology>,
    /// Interface to send from, instead of a lab
    #[arg(
        long,
        value_name = "IF",
        conflicts_with = "bed",
        requires = "receive_on",
        help_heading = "Topology"
    )]
    pub(super) send_on: Option<String>,
    /// Interfaces to receive on, each measured in turn
    #[arg(
        long,
        value_name = "IF[,IF]",
        value_delimiter = ',',
        requires = "send_on",
        help_heading = "Topology"
    )]
    pub(super) receive_on: Vec<String>,
    /// Host that sends, reached by ssh, with the same quaff in its PATH [default: this host]
    #[arg(long, value_name = "USER@HOST", requires = "send_on", help_heading = "Topology")]
    pub(super) sender: Option<String>,
    /// Folder for the captured files during the test, on a disk [default: the current folder or /var/tmp]
    #[arg(long, value_name = "DIR", help_heading = "Topology")]
    pub(super) dir: Option<PathBuf>,

    /// Find the highest rate without loss, by MLRsearch (RFC 9971), or with =rfc2544 by RFC 2544, section 26.1
    ///
    /// Searches follow the cases of a preset or a file; alone, nothing else runs. Each capturer has the buffer that the
    /// plan gives it, or 256 MiB, unless --buffer sets one.
    #[arg(
        long,
        value_name = "METHOD",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "mlr",
        value_parser = values::method,
        help_heading = "Searches"
    )]
    pub(super) find_max: Option<Method>,
    /// Find the longest burst without loss (RFC 2544, section 26.4; RFC 9004)
    #[arg(long, help_heading = "Searches")]
    pub(super) find_burst: bool,
    /// Measure loss at decreasing rates, from the highest until there is none (RFC 2544, section 26.3)
    #[arg(long, help_heading = "Searches")]
    pub(super) curve: bool,
    /// Duration of a full-length trial; RFC 2544 has 60s [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Searches")]
    pub(super) trial: Option<Duration>,
    /// Loss that counts as none, in percent [default: 0]
    #[arg(long, value_name = "PERCENT", help_heading = "Searches")]
    pub(super) goal_loss: Option<f64>,

    #[command(flatten)]
    pub(super) report: ReportArgs,
}
