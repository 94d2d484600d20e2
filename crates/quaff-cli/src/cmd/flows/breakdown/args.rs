//! The arguments of `quaff flows report`, and the plans that they make.

use crate::capture_files::Found;
use crate::cmd::flows::sums::property;
use crate::flags::{
    FileArgs, FilteredArgs, HtmlArg, MatchArg, NoSandboxArg, SpanArgs, TimeoutArgs, UtcArg, nanoseconds, of,
    reworded,
};
use crate::shell::{QuietArgs, ReportArgs};
use crate::units;
use anyhow::{bail, ensure};
use quaff::flows::FlowsPlan;
use quaff::plan::{SandboxPlan, TimeBound};
use quaff_file::write::Output;
use quaff_flow::choice::{Choice, Expression};
use quaff_flow::collector::SinkPlan;
use quaff_flow::plan::{ExtrasPlan, MeterPlan};
use quaff_flow::summary::{By, Order, Query, Summary, SummaryPlan};
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Report the traffic of files by host, port, application and others, and over time
///
/// Meters capture files as 'quaff flows --read' does, or reads what 'quaff flows' wrote with --parquet or --ipfix, and
/// sums the records: a table for each property of --by, JSON, or a page with pictures. Bytes are those of IP packets. A
/// flow counts at both its hosts; a port is that of the service.
///
/// The packets of a record are spread evenly over its time. A long flow has a record each --active: a smaller value
/// shows its changes better [default: --active 120s, --idle 30s].
///
/// Exit status: 0 nothing was lost; 1 an input file is damaged, missing in its run or records losses; 2 it failed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_args(of("words", |arg| arg.help(WORDS))),
    mut_args(of("read", |arg| reworded(arg, READ))),
    mut_args(of("html", |arg| arg.help("Write a page with pictures to FILE instead of tables"))),
    mut_args(of("quiet", |arg| arg.help("Print neither progress nor the sums of the run"))),
    mut_args(of("from", |arg| arg.help(FROM))),
    mut_args(of("to", |arg| arg.help("Sum only flows that had begun before TIME, written as for --from")))
)]
pub(in crate::cmd) struct Args {
    #[command(flatten)]
    pub(super) input: FilteredArgs,
    #[command(flatten)]
    pub(super) packets: FileArgs,
    /// Sum only flows that match, with the words of tcpdump and nfdump, such as 'host 192.168.1.7 and port 443'
    ///
    /// [src|dst] host ADDRESS, net NET, port N or N-N; tcp, udp, icmp, ip, ip6, proto N, vlan N, tos N, flags SA;
    /// bytes, packets, duration, pps, bps, bpp with <, <=, =, >=, > and a number such as 64k; application NAME; server
    /// NAME, in which * stands for any characters; and, or, not, parentheses. A flow longer than --active has several
    /// records, and each is tested.
    #[arg(long = "where", value_name = "EXPR", help_heading = "Filter")]
    condition: Option<Expression>,
    #[command(flatten, next_help_heading = "Filter")]
    span: SpanArgs,
    #[command(flatten, next_help_heading = "Filter")]
    pub(super) text: MatchArg,

    #[command(flatten, next_help_heading = "Flows")]
    pub(super) timeouts: TimeoutArgs,

    /// Properties to sum by: flow, host, source, destination, port, application, server, protocol, vlan and others;
    /// several together with +, such as source+port
    ///
    /// The others are source-port, version, tos, flags, icmp, interface, inner-vlan, mpls, tunnel, end, rule, alpn and
    /// continued. A property that the records do not have is 'not recorded'; what was recorded and not recognized is
    /// 'unknown'.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "host,port,application,protocol", value_parser = property, help_heading = "Report")]
    pub(super) by: Vec<By>,
    /// Rows of each property; the rest is the row 'others'
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Report")]
    pub(super) top: usize,
    /// Show values of each TIME, such as 1s, 5m or 1h [default: in JSON and pages, so that there are 24 to 120 of them]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Report")]
    pub(super) over: Option<Duration>,
    #[command(flatten)]
    pub(super) report: ReportArgs,
    #[command(flatten)]
    _utc: UtcArg,
    #[command(flatten)]
    pub(super) html: HtmlArg,
    #[command(flatten)]
    pub(super) quiet: QuietArgs,

    #[command(flatten)]
    pub(super) no_sandbox: NoSandboxArg,
}

const FROM: &str = "Sum only flows that were there at TIME or later: '2026-11-23 04:55:00' (local time, or UTC with \
     --utc), with Z or +01:00 at its end (UTC or that offset), or @SECONDS since 1970";

const EXAMPLES: &str = "\
Examples:
  quaff flows report day.pcapng
  quaff flows report /data --by host,server --over 1m
  quaff flows report /var/lib/flows/dt=2026-11-23 --by source --top 20
  quaff flows report /data --where 'host 10.0.0.7 and port 443' --by flow
  quaff flows report day.ipfix --by source+port,destination+flags
  quaff flows report day.pcapng --by application --top 20 --json
  quaff flows report day.pcapng --over 10s --html traffic.html";

const WORDS: &str = "Captures, or segments or IPFIX files of flow records, and folders of one kind, as by -r; words after \
                     them are a tcpdump expression, for captures";
const READ: &str = "Read FILE, a capture, or a segment or an IPFIX file of flow records, or those of the folder DIR; '-' \
                    is stdin; repeat it to read several in order";

/// Defaults of `--active` and `--idle`.
const ACTIVE: Duration = Duration::from_secs(120);
const IDLE: Duration = Duration::from_secs(30);
/// Most groups of a property.
const GROUPS_MAX: usize = 1_000_000;
/// Most values over time of all groups, 24 bytes each.
pub(super) const CELLS_MAX: usize = 1 << 24;
/// Most intervals, with --over and without it.
pub(super) const INTERVALS_MAX: [u64; 2] = [10_000, 120];
/// Shortest interval, ns.
const INTERVAL_MIN_NS: u64 = 1_000_000;
/// Records that may wait to be summed.
const QUEUE_RECORDS: usize = 1 << 16;

impl Args {
    /// A progress line is drawn.
    pub(super) fn has_line(&self) -> bool {
        std::io::stderr().is_terminal() && !self.quiet.is_set()
    }

    /// Options that choose packets or make records of them have no meaning where the records are there already.
    pub(super) fn refuse_choices_of_packets(&self) -> anyhow::Result<()> {
        let given = [
            self.packets.given(),
            self.timeouts.active_ns().map(|_| "--active"),
            self.timeouts.idle_ns().map(|_| "--idle"),
        ];
        if let Some(name) = given.into_iter().flatten().next() {
            bail!(
                "{name} is for packets, and these files have flow records: leave it out; --where chooses flows, --match rows"
            );
        }
        Ok(())
    }

    /// A property is asked for that only the application of a flow has.
    pub(super) fn needs_applications(&self) -> bool {
        let of_application = [By::Application, By::Server, By::Alpn];
        let is_summed = self.by.iter().any(|by| of_application.iter().any(|of| by.has(*of)));
        is_summed || self.condition.as_ref().is_some_and(Expression::needs_applications)
    }

    pub(super) fn active(&self) -> Duration {
        self.timeouts.active_ns().map_or(ACTIVE, Duration::from_nanos)
    }

    /// Values over time are asked for.
    pub(super) fn has_values(&self) -> bool {
        self.over.is_some() || self.report.json || self.html.is_some()
    }

    /// The properties, each once.
    pub(super) fn properties(&self) -> Vec<By> {
        let mut all = Vec::new();
        for by in &self.by {
            if !all.contains(by) {
                all.push(*by);
            }
        }
        all
    }

    /// The records that are summed.
    fn choice(&self) -> anyhow::Result<Choice> {
        let bound = |name: &str, bound: Option<TimeBound>| match bound {
            Some(TimeBound::AfterFirst(_)) => {
                bail!("{name}: a report has no first packet: give a date and a time")
            }
            Some(TimeBound::At(ns)) => Ok(Some(ns)),
            None => Ok(None),
        };
        let (from_ns, to_ns) = (bound("--from", self.span.from)?, bound("--to", self.span.to)?);
        ensure!(
            from_ns.zip(to_ns).is_none_or(|(from_ns, to_ns)| from_ns < to_ns),
            "--from is not before --to: no flow is in between; exchange them, or leave one out"
        );
        Ok(Choice { expression: self.condition.clone(), from_ns, to_ns })
    }

    /// The flags that choose records, as they were given.
    pub(super) fn choice_words(&self) -> String {
        let given = [
            ("--where", self.condition_text()),
            ("--from", self.span.from.map(|_| String::new())),
            ("--to", self.span.to.map(|_| String::new())),
        ];
        let words = given.into_iter().filter_map(|(name, text)| {
            let text = text?;
            Some(if text.is_empty() { name.to_owned() } else { format!("{name} '{text}'") })
        });
        words.collect::<Vec<_>>().join(", ")
    }

    fn condition_text(&self) -> Option<String> {
        self.condition.as_ref().map(|condition| condition.text().to_owned())
    }

    pub(super) fn summary(&self) -> anyhow::Result<SummaryPlan> {
        let over = self.over.map(|over| over.as_nanos() as u64);
        ensure!(
            over.is_none_or(|over_ns| over_ns >= INTERVAL_MIN_NS),
            "--over: intervals are at least 1ms long"
        );
        let cell_ns = over.unwrap_or(if self.has_values() { INTERVAL_MIN_NS } else { 0 });
        let intervals_max = INTERVALS_MAX[usize::from(over.is_none())];
        Ok(SummaryPlan {
            by: self.properties(),
            cell_ns,
            intervals_max,
            groups_max: GROUPS_MAX,
            cells_max: CELLS_MAX,
            choice: self.choice()?,
        })
    }

    pub(super) fn plan(&self, found: Found, summary: &Arc<Mutex<Summary>>) -> FlowsPlan {
        let application = self.needs_applications() || self.by.contains(&By::Flow);
        FlowsPlan {
            input: self.packets.plan(found),
            meter: MeterPlan {
                active_ns: nanoseconds(self.active()),
                idle_ns: self.timeouts.idle_ns().unwrap_or(nanoseconds(IDLE)),
                extras: ExtrasPlan { application, ..ExtrasPlan::default() },
                ..MeterPlan::default()
            },
            sinks: vec![SinkPlan::Memory { name: "report".to_owned(), sink: Box::new(summary.clone()) }],
            is_round_robin: false,
            queue_records: QUEUE_RECORDS,
            also_written: self.html.iter().cloned().map(Output::File).chain([Output::Stdout]).collect(),
            draws: false,
            sandbox: (!*self.no_sandbox).then(SandboxPlan::default),
            owner: None,
        }
    }

    pub(super) fn query(&self, by: By) -> Query<'_> {
        let (order, count) = (Order::Bytes, self.top);
        Query {
            by,
            order,
            is_reversed: false,
            is_named: false,
            text: &self.text,
            first: 0,
            count,
            at: None,
            has_rest: true,
        }
    }
}
