//! The arguments of `quaff flows report`, and the plans that they make.

use crate::capture_files::Found;
use crate::cmd::flows::records::RecordsArgs;
use crate::cmd::flows::sums::property;
use crate::flags::{HtmlArg, MatchArg, NoSandboxArg, TopArg, UtcArg, of};
use crate::shell::{QuietArgs, ReportArgs};
use crate::units;
use anyhow::ensure;
use quaff::flows::FlowsPlan;
use quaff_file::write::Output;
use quaff_flow::collector::SinkPlan;
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
    mut_args(of("html", |arg| arg.help("Write a page with pictures to FILE instead of tables"))),
    mut_args(of("quiet", |arg| arg.help("Print neither progress nor the sums of the run"))),
    mut_args(of("top", |arg| arg.default_value("10").help(TOP)))
)]
pub(in crate::cmd) struct Args {
    #[command(flatten)]
    pub(super) records: RecordsArgs,
    #[command(flatten, next_help_heading = "Filter")]
    pub(super) text: MatchArg,

    /// Properties to sum by: flow, host, source, destination, port, application, server, protocol, vlan and others;
    /// several together with +, such as source+port
    ///
    /// The others are source-port, version, tos, flags, icmp, interface, inner-vlan, mpls, tunnel, end, rule, alpn and
    /// continued; source/24 and destination/64 are nets. A property that the records do not have is 'not recorded'; what
    /// was recorded and not recognized is 'unknown'.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "host,port,application,protocol", value_parser = property, help_heading = "Report")]
    pub(super) by: Vec<By>,
    #[command(flatten)]
    top: TopArg,
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

const TOP: &str = "Rows of each property; the rest is the row 'others'";

const EXAMPLES: &str = "\
Examples:
  quaff flows report day.pcapng
  quaff flows report /data --by host,server --over 1m
  quaff flows report /var/lib/flows/dt=2026-11-23 --by source --top 20
  quaff flows report /data --where 'host 10.0.0.7 and port 443' --by flow
  quaff flows report day.ipfix --by source+port,destination+flags
  quaff flows report day.pcapng --by application --top 20 --json
  quaff flows report day.pcapng --over 10s --html traffic.html";

/// Rows of a property, by default.
const ROWS: usize = 10;
/// Most groups of a property.
const GROUPS_MAX: usize = 1_000_000;
/// Most values over time of all groups, 24 bytes each.
pub(super) const CELLS_MAX: usize = 1 << 24;
/// Most intervals, with --over and without it.
pub(super) const INTERVALS_MAX: [u64; 2] = [10_000, 120];
/// Shortest interval, ns.
const INTERVAL_MIN_NS: u64 = 1_000_000;

impl Args {
    /// A progress line is drawn.
    pub(super) fn has_line(&self) -> bool {
        std::io::stderr().is_terminal() && !self.quiet.is_set()
    }

    /// A property is asked for that only the application of a flow has.
    pub(super) fn needs_applications(&self) -> bool {
        let of_application = [By::Application, By::Server, By::Alpn];
        let is_summed = self.by.iter().any(|by| of_application.iter().any(|of| by.has(*of)));
        is_summed || self.records.choice.needs_applications()
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
            choice: self.records.choice.choice()?,
        })
    }

    pub(super) fn plan(&self, found: Found, summary: &Arc<Mutex<Summary>>) -> FlowsPlan {
        let has_applications = self.needs_applications() || self.by.contains(&By::Flow);
        let sink = SinkPlan::Memory { name: "report".to_owned(), sink: Box::new(summary.clone()) };
        let also_written = self.html.iter().cloned().map(Output::File).chain([Output::Stdout]).collect();
        self.records.plan(found, has_applications, sink, also_written, !*self.no_sandbox)
    }

    pub(super) fn query(&self, by: By) -> Query<'_> {
        let (order, count) = (Order::Bytes, self.top.unwrap_or(ROWS));
        Query { by, order, is_reversed: false, text: &self.text, first: 0, count, at: None, has_rest: true }
    }
}
