//! The arguments of `quaff bench capture`.

use super::values::{self, Content, List};
use crate::cmd::experiment::ResultArgs;
use crate::flags::{
    BedArg, BufferArg, CompressArg, ContentArg, CopiesArg, CoreListArg, CountArg, FilterArg, LinkArg,
    MbpsArg, PlanArgs, PpsArg, ReplayArg, SearchArgs, SeedArg, SizeArgs, SnaplenArg, UtilArg, of, reworded,
};
use crate::shell::DurationArgs;
use crate::units;
use quaff_bench::bench::plan::{Rate, Topology};
use quaff_lab::tool::{Filter, Output};
use quaff_lab::traffic::Size;
use std::path::PathBuf;

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
    group = clap::ArgGroup::new("pace"),
    after_help = "Examples:\n  \
        quaff bench capture --preset quick\n  \
        quaff bench capture --preset whitepaper --rivals quaff,tshark --out laptop\n  \
        quaff bench capture --size 64,1500 --pps 200k,400k,max --buffer 256M\n  \
        quaff bench capture --command 'mine=./mine -i {interface} -w {file}'\n  \
        quaff bench capture --find-max --size 64,512,1500 --rivals quaff,tcpdump\n  \
        quaff bench capture --preset quick --send-on eth0 --receive-on eth1,eth2\n  \
        quaff bench capture --preset pam2007 --dry-run > mine.toml",
    mut_args(of("duration", |arg| arg.help_heading("Traffic").help("Duration of each run, such as 10s or 1m"))),
    mut_args(of("size", |arg| reworded(arg, SIZE).alias("sizes"))),
    mut_args(of("fcs", |arg| reworded(arg, FCS).requires("size"))),
    mut_args(of("replay", |arg| arg.conflicts_with_all(["size", "sizes_from"]))),
    mut_args(of("pps", |arg| {
        arg.help("Frames per second: 400k, several values, steps such as 100k-1M/100k, or max [default: max]")
    })),
    mut_args(of("link", |arg| arg.default_value("1G").requires("util"))),
    mut_args(of("count", |arg| {
        arg.value_parser(units::whole).conflicts_with("duration").help("Frames of each run [default: 1M]")
    })),
    mut_args(of("buffer", |arg| {
        arg.help("Buffer of each capturer, such as 256M; 'own' leaves its default [default: 256M, or as the plan has it]")
    })),
    mut_args(of("compress", |arg| {
        reworded(arg, "zlib level (0 to 9) for compressing each packet, for programs that support it [default: 0]").value_name("LEVEL")
    })),
    mut_args(of("filter", |arg| arg.short(None).value_name("KIND[,KIND]").help(
        "Capture filter: none, accept (everything, after some 50 instructions), reject (everything) [default: none]"
    ))),
    mut_args(of("cores", |arg| arg.help("Cores for generator and capturer together, 1 or 2 [default: 2]"))),
    mut_args(of("snaplen", |arg| arg.short(None).help("Bytes to keep of each packet; 'full' keeps all [default: full]")))
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) from: PlanArgs,
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
    #[command(flatten, next_help_heading = "Test plan")]
    pub(super) seed: SeedArg,

    #[command(flatten, next_help_heading = "Traffic")]
    pub(super) sizes: SizeArgs<List<Size>>,
    #[command(flatten)]
    pub(super) replay: ReplayArg,
    #[command(flatten, next_help_heading = "Traffic")]
    pub(super) content: ContentArg<Content>,
    #[command(flatten, next_help_heading = "Traffic")]
    pub(super) pps: PpsArg<List<Rate>>,
    #[command(flatten, next_help_heading = "Traffic")]
    pub(super) mbps: MbpsArg<List<Rate>>,
    #[command(flatten, next_help_heading = "Traffic")]
    pub(super) util: UtilArg<List<Rate>>,
    #[command(flatten, next_help_heading = "Traffic")]
    pub(super) link: LinkArg,
    #[command(flatten, next_help_heading = "Traffic")]
    pub(super) count: CountArg,
    #[command(flatten)]
    pub(super) end: DurationArgs,

    #[command(flatten, next_help_heading = "Capturers")]
    pub(super) buffer: BufferArg<List<Option<u64>>>,
    /// Capturers that run at the same time [default: 1]
    #[arg(long, value_name = "N[,N]", value_parser = values::numbers, help_heading = "Capturers")]
    pub(super) capturers: Option<List<u32>>,
    #[command(flatten, next_help_heading = "Capturers")]
    pub(super) filter: FilterArg<List<Filter>>,
    #[command(flatten, next_help_heading = "Capturers")]
    pub(super) copies: CopiesArg<List<u32>>,
    #[command(flatten, next_help_heading = "Capturers")]
    pub(super) compress: CompressArg<List<u32>>,
    #[command(flatten, next_help_heading = "Capturers")]
    pub(super) snaplen: SnaplenArg<List<Option<u32>>>,
    /// Output of the capturers: disk, null, pipe, screen [default: disk]
    #[arg(long, value_name = "KIND[,KIND]", value_parser = values::outputs, help_heading = "Capturers")]
    pub(super) output: Option<List<Output>>,
    #[command(flatten, next_help_heading = "Capturers")]
    pub(super) cores: CoreListArg<List<u32>>,

    #[command(flatten, next_help_heading = "Topology")]
    pub(super) bed: BedArg<Topology>,
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
    /// Folder for the captured files during the test, on a disk [default: /var/tmp, or the current folder if that is no
    /// disk]
    #[arg(long, value_name = "DIR", help_heading = "Topology")]
    pub(super) dir: Option<PathBuf>,

    #[command(flatten)]
    pub(super) search: SearchArgs,
    /// Find the longest burst without loss (RFC 2544, section 26.4; RFC 9004)
    #[arg(long, help_heading = "Searches")]
    pub(super) find_burst: bool,
    /// Measure loss at decreasing rates, from the highest until there is none (RFC 2544, section 26.3)
    #[arg(long, help_heading = "Searches")]
    pub(super) curve: bool,
    #[command(flatten)]
    pub(super) report: ResultArgs,
}

/// One size after the other.
const SIZE: &str = "Frame sizes in bytes without FCS, or named mixes: imix, imix1500, tolly, cisco, rpr3 [default: 64,512,1500]";
/// `--mbps` never counts the FCS.
const FCS: &str = "Count the FCS in --size, as RFC 2544 does: 64 is a frame of 60 bytes plus FCS";
