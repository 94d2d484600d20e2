//! `quaff flows top`: the largest flows, hosts, ports and applications while packets arrive. Flows are metered in short
//! pieces, so that rates are those of the last whole interval, and means those of the last seconds; the sums of the
//! pieces are exact.

mod bars;
mod draw;
mod keys;
mod lists;
#[cfg(test)]
mod screens;
mod view;

use super::progress::{LOOK, Progress, progress};
use super::report;
use super::sums::{BY, GroupsJson, ORDERS, Rates, SumJson, columns_of_top, together};
use crate::exit::Exit;
use crate::flags::{CoresArg, LaneArgs, MatchArg, MeteredArgs, NoSandboxArg, SortArg, WideArg, of, values};
use crate::screen::{DRAWING, ENDING, Keyboard, Pressed, Screen};
use crate::shell::{Part, Product, QuietArgs, ReadProgress, ReportArgs, Settings, Shell};
use crate::show::{self, Stream};
use crate::terminal_table::{self, Columns};
use crate::units::{self, choice};
use anyhow::ensure;
use bars::{BARS, Bars};
use draw::Picture;
use quaff::flows::{FlowReport, Flows, FlowsPlan};
use quaff::plan::SandboxPlan;
use quaff_file::write::Output;
use quaff_flow::choice::Choice;
use quaff_flow::collector::SinkPlan;
use quaff_flow::plan::{ExtrasPlan, MeterPlan};
use quaff_flow::summary::{By, Order, Query, Ranked, Row, Summary, SummaryPlan};
use quaff_os::clock::wall_ns;
use quaff_os::{Reason, Signal, Wakeup};
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use view::{Effect, Extent, View};

/// Show the largest flows, hosts, ports and applications while packets arrive
///
/// A table that is refreshed each --interval: sort it with s, choose another view with Tab, type a text after / to
/// see only rows with it; ? lists all keys. Rates are those of the last whole interval, 2s, 10s and 40s the means of
/// the last seconds, bytes and packets those since the start. Bytes are those of IP packets. A flow counts at both its
/// hosts; a port is that of the service. The bar of a row is its mean of 10 s.
///
/// With --read, the flows of a file are shown, rates are means from its first to its last packet, and the bar of a row
/// is its share of bytes.
///
/// --once meters for an interval, or to the end of a file, prints one table and ends.
///
/// Exit status: 0 nothing was lost; 1 packets were lost, or an input file is damaged; 2 it failed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_args(of("json", |arg| arg.requires("once"))),
    mut_args(of("wide", |arg| arg.requires("once"))),
    mut_args(of("sort", |arg| arg.default_value("rate"))),
    mut_args(of("quiet", |arg| arg.requires("once").help("Print nothing but the table and errors")))
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: MeteredArgs,

    /// View to begin with
    #[arg(long, value_name = "VIEW", default_value = "flow", value_parser = choice(BY), help_heading = "View")]
    by: By,
    #[command(flatten, next_help_heading = "View")]
    sort: SortArg<Order>,
    /// Show the smallest rows first
    #[arg(long, help_heading = "View")]
    reverse: bool,
    #[command(flatten, next_help_heading = "View")]
    text: MatchArg,
    /// Show names in the place of addresses and ports
    ///
    /// Hosts have those of /etc/hosts, then of DNS answers among the packets, then those that clients of TLS and QUIC
    /// requested; ports those of /etc/services. No name server is asked.
    #[arg(long, help_heading = "View")]
    show_names: bool,
    /// Scale of the bars
    #[arg(
        long,
        value_name = "SCALE",
        default_value = "linear",
        value_parser = choice(BARS),
        conflicts_with = "once",
        help_heading = "View"
    )]
    bars: Bars,
    /// Refresh each TIME, at least 100ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration, help_heading = "View")]
    interval: Duration,

    /// Print one table, and end: after --duration, or after --interval without it
    #[arg(long, help_heading = "Report")]
    once: bool,
    /// Rows of that table
    #[arg(long, value_name = "N", default_value_t = 20, requires = "once", help_heading = "Report")]
    rows: usize,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    wide: WideArg,
    #[command(flatten)]
    quiet: QuietArgs,

    #[command(flatten)]
    lanes: LaneArgs,
    #[command(flatten, next_help_heading = "Performance")]
    cpu: CoresArg,

    #[command(flatten)]
    no_sandbox: NoSandboxArg,
}

const EXAMPLES: &str = "\
Examples:
  quaff flows top -i eth0
  quaff flows top -i eth0 --by host -f 'not port 22'
  quaff flows top -i eth0 --sort 10s --show-names
  quaff flows top --read day.pcapng --by application --once
  quaff flows top -i eth0 --once --duration 10s --json";

/// Bytes of a live packet that are looked at: with the server name of a client's first packet.
const SNAPLEN_LIVE: u32 = 1600;
/// Shortest interval of a screen: a shorter one is not seen, and has a value of each piece of a flow in it.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Longest piece of a flow: a second, the unit of the means. A shorter one is half an interval.
const PIECE_MAX: Duration = Duration::from_secs(1);
/// Shortest piece: each costs a record.
const PIECE_MIN: Duration = Duration::from_millis(50);
/// Most time from the end of a piece until its record is summed: the wait of an idle lane, its list, the exporter.
const RECORD_DELAY: Duration = Duration::from_millis(500);
/// A second, ns.
const SECOND_NS: u64 = 1_000_000_000;
/// Most groups of a view.
const GROUPS_MAX: usize = 100_000;
/// Records that may wait to be summed.
const QUEUE_RECORDS: usize = 1 << 20;

values! {
    Order: choice(ORDERS);
}

/// The summary that the meter's sink fills, and the screen reads.
type Shared = Arc<Mutex<Summary>>;

impl Args {
    pub(super) fn is_live(&self) -> bool {
        self.input.is_live()
    }

    fn view(&self) -> View {
        let view = View::new(self.by, self.sort.unwrap_or(Order::Rate), &self.text);
        View { is_reversed: self.reverse, bars: self.bars, has_names: self.show_names, ..view }
    }

    /// Length of the pieces in which flows are metered.
    fn piece(&self) -> Duration {
        match self.has_intervals() {
            true => (self.interval / 2).clamp(PIECE_MIN, PIECE_MAX),
            false => PIECE_MAX,
        }
    }

    /// Rates are those of intervals: not of files, nor of a run that is one interval.
    fn has_intervals(&self) -> bool {
        self.is_live() && !self.once
    }

    fn summary(&self) -> Shared {
        let cell_ns = if self.has_intervals() { self.interval.as_nanos() as u64 } else { 0 };
        let by = BY.iter().map(|(_, by, _)| *by).collect();
        // Intervals are dropped after they were shown: they need no other limit.
        let (intervals_max, cells_max) = (u64::MAX, usize::MAX);
        let plan = SummaryPlan {
            by,
            cell_ns,
            intervals_max,
            groups_max: GROUPS_MAX,
            cells_max,
            choice: Choice::default(),
        };
        Arc::new(Mutex::new(Summary::new(plan).with_means().with_names(lists::names())))
    }

    fn plan(&self, summary: &Shared) -> anyhow::Result<FlowsPlan> {
        Ok(FlowsPlan {
            input: self.input.plan(&self.lanes, &self.cpu, SNAPLEN_LIVE, &[])?,
            meter: MeterPlan {
                active_ns: self.piece().as_nanos() as u64,
                extras: ExtrasPlan { application: true, addresses: true, ..ExtrasPlan::default() },
                ..MeterPlan::default()
            },
            sinks: vec![SinkPlan::Memory { name: "top".to_owned(), sink: Box::new(summary.clone()) }],
            is_round_robin: false,
            queue_records: QUEUE_RECORDS,
            also_written: vec![Output::Stdout],
            draws: !self.once,
            sandbox: (!*self.no_sandbox).then(SandboxPlan::default),
            owner: None,
        })
    }
}

fn lock(summary: &Shared) -> MutexGuard<'_, Summary> {
    summary.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    ensure!(args.once || args.interval >= INTERVAL_MIN, "--interval: at least 100ms");
    let summary = args.summary();
    let plan = args.plan(&summary)?;
    if args.once { once(args, plan, &summary) } else { live(args, plan, summary) }
}

/// The JSON of `--once`.
#[derive(Debug, Serialize)]
struct OnceJson {
    /// The time of the rates.
    seconds: f64,
    total: SumJson,
    #[serde(flatten)]
    groups: GroupsJson,
}

/// Meters until the end, and prints the largest rows.
fn once(args: &Args, plan: FlowsPlan, summary: &Shared) -> anyhow::Result<Exit> {
    let interval = args.is_live().then_some(args.interval);
    let duration = args.input.end.duration.or(interval);
    let settings = Settings { quiet: 1 + u8::from(args.quiet.is_set()), duration, ..Settings::default() };
    let report = super::metering::meter(plan, settings, &mut |_| {})?;
    let ended_ns = wall_ns();
    let mut summary = lock(summary);
    let seconds = if args.is_live() { report.seconds } else { mean_seconds(&summary) };
    let [begin_ns, end_ns] = match args.is_live() {
        true => [ended_ns.saturating_sub((seconds * 1e9) as u64), ended_ns],
        false => span_ns(&summary),
    };
    summary.look_back(begin_ns, end_ns);
    let view = args.view();
    let ranked = summary.ranked(&Query { count: args.rows, ..query(&view, 0, None) });
    let rates = Rates::Mean(seconds);
    match args.report.json {
        true => {
            let groups = GroupsJson::new(view.by, &ranked, rates, None);
            let total = summary.total().0.into();
            show::json(Stream::Stdout, &OnceJson { seconds, total, groups })?;
        }
        false => show::print(&table(&view, &ranked, rates, Columns::wide(*args.wide))),
    }
    report::sum_up(&report, summary.total().0.flows, args.quiet.is_set());
    Ok(Exit::of(&report))
}

/// The rows as a table.
fn table(view: &View, ranked: &Ranked, rates: Rates, shown: Columns) -> String {
    let columns = columns_of_top(view.by, view.order);
    let heads = columns.iter().map(|column| column.of_table(view.by)).collect();
    let rows = ranked.rows.iter().chain(&ranked.others);
    let cells = |row: &Row| -> Vec<String> {
        let mut cells: Vec<_> = columns.iter().map(|column| (column.cell)(row, rates)).collect();
        cells[0] = together(&cells[0], shown);
        cells
    };
    terminal_table::of_columns(heads, rows.map(cells), shown)
}

fn query(view: &View, page: usize, at: Option<u64>) -> Query<'_> {
    let View { by, order, is_reversed, text, first, has_names, .. } = view;
    let (by, order, is_reversed, is_named, first) = (*by, *order, *is_reversed, *has_names, *first);
    Query { by, order, is_reversed, is_named, text, first, count: page, at, has_rest: false }
}

/// Seconds from the first to the last packet.
fn mean_seconds(summary: &Summary) -> f64 {
    summary.span_ns().map_or(0.0, |[first, last]| (last - first) as f64 / 1e9)
}

/// The times of the first packet, and just after the last one; no time without two.
fn span_ns(summary: &Summary) -> [u64; 2] {
    let span_ns = summary.span_ns().filter(|[first, last]| last > first);
    span_ns.map_or([0; 2], |[first, last]| [first, last.saturating_add(1)])
}

/// Meters, and shows the rows on the terminal until the user quits.
fn live(args: &Args, plan: FlowsPlan, summary: Shared) -> anyhow::Result<Exit> {
    let keyboard = Keyboard::open()?;
    let plan = plan.validate()?;
    let extra: Vec<_> = ENDING.into_iter().chain(DRAWING).collect();
    let mut shell = Shell::with_signals(Settings::default(), &extra)?;
    let read = ReadProgress::new(&plan.input);
    let flows = shell.start(|stop| Flows::start(plan, stop))?;
    let shown = Top::new(args, summary.clone(), flows, (keyboard, read)).map(|mut top| {
        let shown = top.run(&shell);
        // The terminal is restored before anything is printed.
        drop(top.screen);
        (top.flows, shown)
    });
    let (flows, shown) = shown?;
    shell.ask();
    let report = shell.run(Ending(flows))?;
    report::sum_up(&report, lock(&summary).total().0.flows, false);
    shown?;
    Ok(Exit::of(&report))
}

/// The end of a meter whose screen is closed.
struct Ending(Flows);

impl Product for Ending {
    const LOSS: &'static str = "there is no report";
    type Report = FlowReport;

    fn is_over(&self) -> bool {
        self.0.is_over()
    }

    fn finish(self) -> FlowReport {
        self.0.finish()
    }

    fn progress(&mut self) -> Vec<Part> {
        Vec::new()
    }
}

/// A running top.
struct Top<'a> {
    args: &'a Args,
    summary: Shared,
    flows: Flows,
    screen: Screen,
    wakeup: Wakeup,
    view: View,
    read: ReadProgress,
    begun: Instant,
    begun_ns: u64,
    /// The interval of the rates.
    at: Option<u64>,
    /// The rows that are shown, and the time of their rates.
    ranked: Ranked,
    rates: Rates,
    extent: Extent,
    /// The progress at the last refresh, the rates since the one before, and its time.
    last: (Progress, Instant),
    status: Vec<Part>,
}

impl<'a> Top<'a> {
    fn new(
        args: &'a Args,
        summary: Shared,
        flows: Flows,
        (keyboard, read): (Keyboard, ReadProgress),
    ) -> anyhow::Result<Self> {
        let (wakeup, now) = (Wakeup::new()?, Instant::now());
        let screen = Screen::open(keyboard, wakeup.clone())?;
        Ok(Self {
            args,
            summary,
            flows,
            screen,
            wakeup,
            view: args.view(),
            read,
            begun: now,
            begun_ns: wall_ns(),
            at: None,
            ranked: Ranked::default(),
            rates: Rates::Mean(0.0),
            extent: Extent::default(),
            last: (Progress::default(), now),
            status: Vec::new(),
        })
    }

    /// Runs until a key or a signal ends it, or the duration.
    fn run(&mut self, shell: &Shell) -> anyhow::Result<()> {
        let mut refreshed: Option<Instant> = None;
        // A signal may have come during the start. At the end of a file the table stays on the screen.
        while shell.stop().reason() != Some(Reason::Signal) {
            let since = refreshed.map_or(self.args.interval, |refreshed| refreshed.elapsed());
            if since >= self.args.interval {
                refreshed = Some(Instant::now());
                self.refresh();
            }
            self.draw()?;
            let left = self.args.interval.saturating_sub(since).clamp(Duration::from_millis(1), LOOK);
            let heard = shell.signals().next_or(&self.wakeup, left)?.map(|heard| heard.signal);
            self.wakeup.clear();
            match heard {
                None | Some(Signal::SIGWINCH) => {}
                Some(Signal::SIGTSTP) => self.screen.suspend()?,
                Some(Signal::SIGCONT) => self.screen.resume()?,
                Some(_) => return Ok(()),
            }
            let is_late =
                self.args.input.end.duration.is_some_and(|duration| self.begun.elapsed() >= duration);
            if is_late || !self.screen.is_open() || !self.press_keys()? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes the keys that were pressed; returns whether to continue.
    fn press_keys(&mut self) -> anyhow::Result<bool> {
        loop {
            let bytes = match self.screen.pressed() {
                Pressed::Bytes(bytes) => bytes,
                Pressed::Nothing => return Ok(true),
                Pressed::Closed => return Ok(false),
            };
            for key in keys::keys(&bytes) {
                match self.view.press(key, self.extent) {
                    Effect::Quit => return Ok(false),
                    Effect::Suspend => self.screen.suspend()?,
                    Effect::Nothing => {}
                }
            }
            self.look();
        }
    }

    /// Takes the sums of the next interval, unless paused. Older intervals are dropped in any case, but the one that is
    /// shown.
    fn refresh(&mut self) {
        let at = self.args.has_intervals().then(|| shown_interval(self.args, wall_ns()));
        if let Some(at) = at {
            let shown = self.at.filter(|_| self.view.is_paused);
            lock(&self.summary).forget_before(at, shown);
        }
        if self.view.is_paused {
            return;
        }
        let now = progress(&self.flows);
        self.status = self.status(&now);
        self.last = (now, Instant::now());
        self.at = at;
        self.look_back();
        self.look();
    }

    /// Takes the means of the last whole seconds, or of those before the last packet of a file.
    fn look_back(&self) {
        let mut summary = lock(&self.summary);
        let [begin_ns, end_ns] = match self.args.is_live() {
            true => [self.begun_ns, summed_ns(self.args, wall_ns()) / SECOND_NS * SECOND_NS],
            false => span_ns(&summary),
        };
        summary.look_back(begin_ns, end_ns);
    }

    /// Takes the rows of the view.
    fn look(&mut self) {
        let summary = lock(&self.summary);
        self.rates = match self.at {
            Some(_) => Rates::Interval(self.args.interval.as_secs_f64()),
            None => Rates::Mean(mean_seconds(&summary)),
        };
        self.ranked = summary.ranked(&query(&self.view, self.extent.page, self.at));
        self.extent.rows = self.ranked.matching;
        // Rows may have become fewer.
        let last = self.extent.rows.saturating_sub(self.extent.page);
        if self.view.first > last {
            self.view.first = last;
            self.ranked = summary.ranked(&query(&self.view, self.extent.page, self.at));
        }
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        let Self { screen, view, status, ranked, rates, extent, .. } = self;
        let mut page = extent.page;
        screen.draw(|frame| {
            page = draw::page(frame.area().height, ranked.others.is_some());
            draw::draw(frame, &Picture { view, status, ranked, rates: *rates });
        })?;
        if page != extent.page {
            extent.page = page;
            self.look();
            return self.draw();
        }
        Ok(())
    }

    /// The status line: the input, rates of all packets, flows in the table, losses.
    fn status(&self, now: &Progress) -> Vec<Part> {
        let (last, at) = &self.last;
        let seconds = at.elapsed().as_secs_f64().max(1e-3);
        let rate = |now: u64, last: u64| now.saturating_sub(last) as f64 / seconds;
        let bits = show::bits(8.0 * rate(now.bytes, last.bytes));
        let pps = show::pps(rate(now.packets, last.packets));
        let input_bytes = self.flows.lanes.iter().map(|lane| lane.input_bytes.get()).sum();
        let of_input =
            if self.flows.is_over() { Part::new("read", "", 5) } else { self.read.part(input_bytes) };
        let of_input = if self.args.is_live() { Part::new("", "", 0) } else { of_input };
        let missed = match now.missed.flows {
            0 => String::new(),
            records => format!("missed {}", show::number_of(records, "record")),
        };
        vec![
            Part::new(show::name(&self.args.input.names()), "", 1),
            of_input,
            Part::new(format!("{bits} {pps}"), bits, 4),
            Part::new(show::number_of(now.active, "flow"), "", 2),
            Part::new(format!("lost {}", show::count(now.dropped)), "", 3),
            Part::new(missed, "", 3),
        ]
    }
}

/// The last interval of which all pieces have been summed.
fn shown_interval(args: &Args, now_ns: u64) -> u64 {
    let interval_ns = args.interval.as_nanos().max(1) as u64;
    (summed_ns(args, now_ns) / interval_ns).saturating_sub(1)
}

/// The time until which all pieces have been summed.
fn summed_ns(args: &Args, now_ns: u64) -> u64 {
    now_ns.saturating_sub((args.piece() + RECORD_DELAY).as_nanos() as u64)
}
