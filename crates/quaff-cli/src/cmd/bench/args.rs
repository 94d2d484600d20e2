//! What can be said on the command line of `quaff bench capture`.

use super::values::{self, List};
use crate::units;
use quaff_lab::bench::plan::{Filter, Method, Output, Rate, Size};
use std::path::PathBuf;
use std::time::Duration;

/// Measure capturers beside each other, by the book
///
/// The same frames go to one capturer after the other, in rounds, each in a network namespace of its own
/// (or on real interfaces, --send-on). What was offered is counted at the receiving interface, and what was
/// captured in the file that the capturer wrote: never by its own word, which stands beside it. Of the runs
/// of a case the best and the worst are left out and the others averaged; the median, the spread and all
/// single runs are in the report. First the generator is measured alone, and a result that it limited says
/// so.
///
/// What is to be run comes from a preset, from a file (--plan), or from the flags alone; flags change what a
/// preset or a file says. A flag with several values makes a series of each: '--buffer 1M,256M' measures
/// everything twice.
///
/// The table stands on the terminal; the folder (--out) holds result.json with everything, report.md,
/// report.html, which needs nothing else, and the pictures. ^C ends it: what was measured until then is
/// kept and shown. It needs root, except with --print-plan.
///
/// Exit status: 0 measured, and quaff lost nothing; 1 measured, and quaff lost frames; 2 not measured, or
/// not to the end.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("rate"),
    after_help = "Examples:\n  \
        quaff bench capture --preset quick\n  \
        quaff bench capture --preset whitepaper --rivals quaff,tshark --out laptop\n  \
        quaff bench capture --rivals quaff,dumpcap --sizes 64,1500 --pps 200k,400k,max --count 3M --buffer 256M\n  \
        quaff bench capture --command 'mine=./mine -i {interface} -w {file}' --sizes 512\n  \
        quaff bench capture --find-max --sizes 64,512,1500 --rivals quaff,tcpdump,dumpcap,stenographer\n  \
        quaff bench capture --preset whitepaper --send-on eth0 --receive-on eth1,eth2\n  \
        quaff bench capture --preset pam2007 --print-plan > mine.toml; quaff bench capture --plan mine.toml"
)]
pub(crate) struct Args {
    /// What a study measured, with its numbers beside ours; 'quaff bench list' names them
    #[arg(long, value_name = "NAME", help_heading = "What is run")]
    pub(super) preset: Option<String>,
    /// What a file says; --print-plan shows its form
    #[arg(long, value_name = "FILE.toml", conflicts_with = "preset", help_heading = "What is run")]
    pub(super) plan: Option<PathBuf>,
    /// Who is measured [default: quaff,tcpdump,dumpcap]; who is not installed is named and left out
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',', help_heading = "What is run")]
    pub(super) rivals: Vec<String>,
    /// Measure the capturer that this file describes, too
    #[arg(long, value_name = "FILE.toml", help_heading = "What is run")]
    pub(super) rival_file: Vec<PathBuf>,
    /// Measure this command, too: a name, '=', and words with the places {interface} and {file}
    #[arg(long, value_name = "NAME=WORDS", help_heading = "What is run")]
    pub(super) command: Vec<String>,
    /// Only those series of a preset or a file whose name holds one of these words
    #[arg(long, value_name = "WORD[,WORD]", value_delimiter = ',', help_heading = "What is run")]
    pub(super) series: Vec<String>,
    /// How often each case is run [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "What is run")]
    pub(super) runs: Option<u32>,
    /// From which the order within a round is drawn [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32), help_heading = "What is run")]
    pub(super) seed: Option<u32>,
    /// Print what would be run, as a file for --plan, and how long it would take; run nothing
    #[arg(long, help_heading = "What is run")]
    pub(super) print_plan: bool,

    /// Bytes of a frame, without FCS, or the name of a mix: imix, imix1500, tolly, cisco, rpr3 [default: 64,512,1500]
    #[arg(long, value_name = "SIZE[,SIZE]", value_delimiter = ',', value_parser = values::size, help_heading = "Traffic")]
    pub(super) sizes: Vec<Size>,
    /// Count the FCS in --sizes, as RFC 2544 does: 64 is a frame of 60 bytes and its FCS
    #[arg(long, requires = "sizes", help_heading = "Traffic")]
    pub(super) fcs: bool,
    /// Draw sizes as they are distributed in this capture
    #[arg(long, value_name = "FILE", conflicts_with = "sizes", help_heading = "Traffic")]
    pub(super) sizes_from: Option<PathBuf>,
    /// Replay the packets of this capture
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sizes", "sizes_from"], help_heading = "Traffic")]
    pub(super) replay: Option<PathBuf>,
    /// What is behind the headers: counting, zeros or random [default: counting]
    #[arg(long, value_name = "KIND", value_parser = values::content, help_heading = "Traffic")]
    pub(super) content: Option<values::Content>,
    /// Frames per second: 400k, or several, or 100k-1M/100k in steps, or max [default: max]
    #[arg(long, value_name = "RATE[,RATE]", group = "rate", value_parser = values::pps, help_heading = "Traffic")]
    pub(super) pps: Option<List<Rate>>,
    /// Megabits per second (10^6) of frames without FCS: 950, or 50-950/50, or max
    #[arg(long, value_name = "RATE[,RATE]", group = "rate", value_parser = values::mbps, help_heading = "Traffic")]
    pub(super) mbps: Option<List<Rate>>,
    /// Percent of a link, with preamble, FCS and gap: 37.2, or 10-100/10, or max
    #[arg(long, value_name = "PERCENT[,PERCENT]", group = "rate", value_parser = values::percent, help_heading = "Traffic")]
    pub(super) util: Option<List<Rate>>,
    /// The link that --util is percent of, bits per second
    #[arg(long, value_name = "RATE", default_value = "1G", value_parser = units::decimal, requires = "util", help_heading = "Traffic")]
    pub(super) link: f64,
    /// Frames of a run, such as 1M [default: 1M]
    #[arg(long, value_name = "N", value_parser = units::whole, conflicts_with = "duration", help_heading = "Traffic")]
    pub(super) count: Option<u64>,
    /// How long a run is, such as 10s or 1m
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Traffic")]
    pub(super) duration: Option<Duration>,

    /// Buffer of each, such as 256M; 'own' is what it takes by itself [default: own]
    #[arg(long, value_name = "SIZE[,SIZE]", value_parser = values::buffers, help_heading = "Capturers")]
    pub(super) buffer: Option<List<Option<u64>>>,
    /// How many of them capture at once [default: 1]
    #[arg(long, value_name = "N[,N]", value_parser = values::numbers, help_heading = "Capturers")]
    pub(super) capturers: Option<List<u32>>,
    /// A filter: none, accept (all, after some 50 instructions), reject (all) [default: none]
    #[arg(long, value_name = "KIND[,KIND]", value_parser = values::filters, help_heading = "Capturers")]
    pub(super) filter: Option<List<Filter>>,
    /// Extra copies of each packet in memory, where it can: quaff, recvfrom [default: 0]
    #[arg(long, value_name = "N[,N]", value_parser = values::numbers, help_heading = "Capturers")]
    pub(super) copies: Option<List<u32>>,
    /// zlib's level at which each packet is compressed, 0 to 9, where it can [default: 0]
    #[arg(long, value_name = "LEVEL[,LEVEL]", value_parser = values::numbers, help_heading = "Capturers")]
    pub(super) compress: Option<List<u32>>,
    /// Bytes kept of each packet; 'full' is all [default: full]
    #[arg(long, value_name = "BYTES[,BYTES]", value_parser = values::snaplens, help_heading = "Capturers")]
    pub(super) snaplen: Option<List<Option<u32>>>,
    /// Where packets go: disk, null, pipe, screen [default: disk]
    #[arg(long, value_name = "KIND[,KIND]", value_parser = values::outputs, help_heading = "Capturers")]
    pub(super) output: Option<List<Output>>,
    /// Cores of generator and capturer together, 1 or 2 [default: 2]
    #[arg(long, value_name = "N[,N]", value_parser = values::numbers, help_heading = "Capturers")]
    pub(super) cores: Option<List<u32>>,

    /// In the lab: direct, span (a bridge mirrors a port) or tap (a forwarder copies) [default: direct]
    #[arg(long, value_name = "BED", value_parser = values::bed, help_heading = "Where")]
    pub(super) bed: Option<values::LabBed>,
    /// On real interfaces: the one that sends
    #[arg(long, value_name = "IF", conflicts_with = "bed", requires = "receive_on", help_heading = "Where")]
    pub(super) send_on: Option<String>,
    /// And those that receive, each measured in its turn: built in, on USB, behind a tap
    #[arg(long, value_name = "IF[,IF]", value_delimiter = ',', requires = "send_on", help_heading = "Where")]
    pub(super) receive_on: Vec<String>,
    /// The machine that sends, reached by ssh, with the same quaff in its PATH [default: this one]
    #[arg(long, value_name = "USER@HOST", requires = "send_on", help_heading = "Where")]
    pub(super) sender: Option<String>,
    /// Where captured files go meanwhile, a real disk [default: here or /var/tmp]
    #[arg(long, value_name = "DIR", help_heading = "Where")]
    pub(super) dir: Option<PathBuf>,

    /// Find the highest rate without loss of each, by MLRsearch (RFC 9971), or with =rfc2544 by §26.1
    ///
    /// Searches come after the cases of a preset or a file; alone, they are all that is run. Each capturer
    /// has 256 MiB of buffer in them, unless --buffer says otherwise.
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
    /// Find the longest burst without loss (RFC 2544 §26.4, RFC 9004)
    #[arg(long, help_heading = "Searches")]
    pub(super) find_burst: bool,
    /// The loss at each rate from the highest down, until there is none (RFC 2544 §26.3)
    #[arg(long, help_heading = "Searches")]
    pub(super) curve: bool,
    /// How long the trials are that a result rests on; RFC 2544 has 60s [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Searches")]
    pub(super) trial: Option<Duration>,
    /// Percent of loss that is still taken for none [default: 0]
    #[arg(long, value_name = "PERCENT", help_heading = "Searches")]
    pub(super) goal_loss: Option<f64>,

    /// The folder for the result, a new one [default: bench-NAME-TIME]
    #[arg(long, value_name = "DIR", help_heading = "Result")]
    pub(super) out: Option<PathBuf>,
    /// Print result.json instead of the table
    #[arg(long, help_heading = "Result")]
    pub(super) json: bool,
    /// Print no line for each run
    #[arg(short, long, help_heading = "Result")]
    pub(super) quiet: bool,
}
