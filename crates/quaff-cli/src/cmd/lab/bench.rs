//! `quaff lab bench`: what must hold of quaff, measured beside its rivals in the same minutes.

mod check;
mod decap;
mod pipe;
mod replay;

use super::measure::{Progress, Setup, rate_words};
use crate::exit::Exit;
use crate::show;
use anyhow::bail;
use check::{Check, Series};
use comfy_table::{ContentArrangement, Table, presets};
use pipe::Rates;
use quaff_bench::method::fio;
use quaff_lab::Error;
use quaff_lab::tool::PIPED;
use quaff_lab::traffic::Traffic;
use replay::Sent;
use std::path::PathBuf;
use std::time::Duration;

const NAMES: [&str; 8] = [
    "quaff",
    "tcpdump",
    "dumpcap",
    "stenographer",
    PIPED,
    "quaff --decap",
    "quaff --inner",
    "quaff --inner-user",
];
/// MiB of buffer for each, except where ours is to show its defaults.
const BUFFER_MIB: u64 = 256;
const IDLE: Duration = Duration::from_secs(30);
/// The long run, bytes.
const LONG_BYTES: u64 = 20_000_000_000;
/// What fio writes to tell the speed of the disk, bytes.
const FIO_BYTES: u64 = 8_000_000_000;
/// Columns of the table; longer words are wrapped.
const TABLE_WIDTH: u16 = 100;
/// A rate at which nobody loses, frames/s.
const EASY_PPS: u64 = 200_000;

/// Measure what must hold of quaff beside its rivals
///
/// Each line is one thing that must hold, with what was measured. Capturers take turns on the same
/// core, the same traffic and the same disk, and numbers are medians over the runs. It takes about
/// half an hour, needs root and some 6 GiB of disk (24 with --long), and leaves nothing behind.
///
/// Exit status: 0 all holds, 1 something does not, 2 it could not be measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Runs of each capturer on each traffic
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Only these: 1 400 kpps, 2 small frames at full speed, 3 large ones, 4 CPU, 8 idle, 32 tunnels, 33 tunnels in a
    /// file, 34 pipe, 41 replay at full speed, 42 what arrives of it, 43 its pace, 44 new flows, 45 a file of 30 GB,
    /// 48 interrupts
    #[arg(
        long,
        value_name = "N[,N]",
        value_delimiter = ',',
        default_value = "1,2,3,4,8,32,33,34,41,42,43,44,48"
    )]
    only: Vec<u8>,
    /// The long runs too: with 3, 20 GB captured; with 42, a file replayed in its own time
    #[arg(long)]
    long: bool,
    /// The capture that is replayed [default: mix.pcap of $QUAFF_CAPTURES, or one that is made]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print all numbers as one JSON object instead
    #[arg(long)]
    json: bool,
    /// Where the files go meanwhile [default: here or /var/tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Frames a run [default: what each thing that must hold says]
    #[arg(long, value_name = "N", hide = true)]
    count: Option<u64>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let setup = Setup::new(&NAMES, args.dir.as_deref())?;
    for rival in &setup.absent {
        eprintln!("quaff: {} is not installed ({})", rival.name, rival.install);
    }
    let progress = Progress::new(0);
    let mut bench = Bench {
        args,
        setup,
        progress,
        checks: Vec::new(),
        series: Vec::new(),
        rates: Vec::new(),
        sent: Vec::new(),
    };
    let done = bench.all();
    bench.progress.end();
    match done {
        Err(Error::Interrupted) => bail!("interrupted; all that was made is removed"),
        done => done?,
    }
    if args.json {
        println!(
            "{}",
            serde_json::json!({ "checks": bench.checks, "series": bench.series, "pipes": bench.rates, "sent": bench.sent })
        );
    } else {
        println!("{}", table(&bench.checks).trim_fmt());
    }
    let holds = bench.checks.iter().all(|check| check.holds != Some(false));
    Ok(if holds { Exit::Done } else { Exit::Loss })
}

struct Bench<'a> {
    args: &'a Args,
    setup: Setup,
    progress: Progress,
    checks: Vec<Check>,
    /// Each run of each capturer, for --json.
    series: Vec<Series>,
    /// Each run of each program in the middle of a pipeline.
    rates: Vec<Rates>,
    /// Each run of each sender.
    sent: Vec<Sent>,
}

impl Bench<'_> {
    fn all(&mut self) -> quaff_lab::Result<()> {
        let wanted = |number| self.args.only.contains(&number);
        let [paced, small, full_speed, cpu, idle] = [1, 2, 3, 4, 8].map(wanted);
        let [tunnels, tunnels_in_a_file, pipes] = [32, 33, 34].map(wanted);
        if paced {
            self.paced()?;
        }
        if small {
            self.small()?;
        }
        if full_speed {
            self.full_speed()?;
        }
        if self.args.long && full_speed {
            self.long()?;
        }
        if cpu {
            self.cpu()?;
        }
        if idle {
            self.idle()?;
        }
        if tunnels {
            self.tunnels()?;
        }
        if tunnels_in_a_file {
            self.tunnels_in_a_file()?;
        }
        if pipes {
            self.pipes()?;
        }
        self.senders()
    }

    fn senders(&mut self) -> quaff_lab::Result<()> {
        let [speed, fidelity, pace, flows, interrupts] =
            [41, 42, 43, 44, 48].map(|number| self.args.only.contains(&number));
        if speed {
            self.replay_speed()?;
        }
        if fidelity {
            self.replay_fidelity()?;
        }
        if pace {
            self.replay_pace()?;
        }
        if flows {
            self.new_flows()?;
        }
        if self.args.only.contains(&45) {
            self.large_file()?;
        }
        if interrupts {
            self.interrupts()?;
        }
        Ok(())
    }

    fn paced(&mut self) -> quaff_lab::Result<()> {
        let traffic = self.traffic(1500, Some(400_000), 3_000_000);
        let names =
            [("quaff", Some(BUFFER_MIB)), ("tcpdump", Some(BUFFER_MIB)), ("dumpcap", Some(BUFFER_MIB))];
        let [quaff, tcpdump, dumpcap] = self.interleaved(names, &traffic)?;
        self.checks.push(check::paced(&words(&traffic), &quaff, &[&tcpdump, &dumpcap]));
        self.series.extend([quaff, tcpdump, dumpcap]);
        Ok(())
    }

    fn small(&mut self) -> quaff_lab::Result<()> {
        for frame_bytes in [512, 64] {
            let traffic = self.traffic(frame_bytes, None, 3_000_000);
            let [quaff] = self.interleaved([("quaff", None)], &traffic)?;
            self.checks.push(check::lossless("2", &words(&traffic), &quaff, &[]));
            self.series.push(quaff);
        }
        Ok(())
    }

    fn full_speed(&mut self) -> quaff_lab::Result<()> {
        let traffic = self.traffic(1500, None, 3_000_000);
        let [quaff, stenographer] =
            self.interleaved([("quaff", None), ("stenographer", Some(BUFFER_MIB))], &traffic)?;
        self.checks.push(check::full_speed(&words(&traffic), &quaff, &stenographer));
        self.series.extend([quaff, stenographer]);
        Ok(())
    }

    /// fio before, after and between: the disk is asked in the same minutes.
    fn long(&mut self) -> quaff_lab::Result<()> {
        let traffic = self.traffic(1500, None, LONG_BYTES / 1500);
        let (mut rates, mut ours) =
            (vec![self.disk()?], Series { name: "quaff".into(), runs: Vec::new(), failed: None });
        for _ in 0..self.args.runs {
            let [quaff] = self.once([("quaff", None)], &traffic)?;
            ours.runs.extend(quaff.runs);
            ours.failed = ours.failed.or(quaff.failed);
            rates.push(self.disk()?);
        }
        let rates: Vec<_> = rates.into_iter().flatten().collect();
        let fio_rate = quaff_bench::method::median(&rates);
        self.checks.push(check::long(&words(&traffic), &ours, fio_rate));
        self.series.push(ours);
        Ok(())
    }

    fn cpu(&mut self) -> quaff_lab::Result<()> {
        let traffic = self.traffic(512, Some(EASY_PPS), 3_000_000);
        let names =
            [("quaff", Some(BUFFER_MIB)), ("tcpdump", Some(BUFFER_MIB)), ("dumpcap", Some(BUFFER_MIB))];
        let [quaff, tcpdump, dumpcap] = self.interleaved(names, &traffic)?;
        self.checks.push(check::cpu(&words(&traffic), &quaff, &[&tcpdump, &dumpcap]));
        self.series.extend([quaff, tcpdump, dumpcap]);
        Ok(())
    }

    fn idle(&mut self) -> quaff_lab::Result<()> {
        self.progress.expect(1);
        self.progress.about("idle: ".into());
        let quaff = self.setup.present.iter().find(|present| present.rival.name == "quaff");
        if let Some(quaff) = quaff {
            let used = self.setup.idle(quaff, IDLE, &self.progress)?;
            self.checks.push(check::idle(used.as_secs_f64(), IDLE.as_secs_f64()));
        }
        self.progress.done();
        Ok(())
    }

    fn traffic(&self, frame_bytes: u32, pps: Option<u64>, count: u64) -> Traffic {
        Traffic::bytes(frame_bytes, pps, self.args.count.unwrap_or(count))
    }

    /// As many rounds as there are to be, in each of them each capturer once.
    fn interleaved<const N: usize>(
        &mut self,
        names: [(&str, Option<u64>); N],
        traffic: &Traffic,
    ) -> quaff_lab::Result<[Series; N]> {
        let mut all = names.map(|(name, _)| Series { name: name.into(), runs: Vec::new(), failed: None });
        for _ in 0..self.args.runs {
            for (all, one) in all.iter_mut().zip(self.once(names, traffic)?) {
                all.runs.extend(one.runs);
                all.failed = all.failed.take().or(one.failed);
            }
        }
        Ok(all)
    }

    /// One round. A rival that is absent or does not work is told in its series.
    fn once<const N: usize>(
        &mut self,
        names: [(&str, Option<u64>); N],
        traffic: &Traffic,
    ) -> quaff_lab::Result<[Series; N]> {
        let free = self.setup.place.free_bytes()?;
        if traffic.file_bytes() > free / 10 * 9 {
            let (needed, free) = (show::bytes(traffic.file_bytes()), show::bytes(free));
            let parent = self.setup.place.parent().display();
            return Err(Error::Place(format!(
                "{needed} needed in {parent}, {free} free; say where with --dir DIR"
            )));
        }
        self.progress.expect(N as u64);
        self.progress.about(format!("{} B {}", traffic.frame_bytes, rate_words(traffic)));
        let mut all = names.map(|(name, _)| Series { name: name.into(), runs: Vec::new(), failed: None });
        for (series, (name, buffer_mib)) in all.iter_mut().zip(names) {
            let present = self.setup.present.iter().find(|present| present.rival.name == name);
            match present.map(|present| self.setup.run(present, traffic, buffer_mib, &self.progress)) {
                None => series.failed = Some("not installed".into()),
                Some(Ok((outcome, _files))) => series.runs.push(outcome),
                Some(Err(Error::Tool { what, .. })) => series.failed = Some(what),
                Some(Err(error)) => return Err(error),
            }
            self.progress.done();
        }
        Ok(all)
    }

    /// What fio says the disk takes; `None` without fio.
    fn disk(&self) -> quaff_lab::Result<Option<f64>> {
        self.progress.expect(1);
        self.progress.about("fio writes".into());
        let bytes = FIO_BYTES.min(self.setup.place.free_bytes()? / 2);
        let rate = self.setup.disk_rate(bytes, &self.progress);
        self.progress.done();
        match rate {
            Err(Error::Os(error)) if error.errno.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("quaff: {} is not installed (apt-get install {0})", fio::FIO);
                Ok(None)
            }
            rate => rate.map(Some),
        }
    }
}

fn words(traffic: &Traffic) -> String {
    format!("{} × {} B {}", show::count(traffic.count), traffic.frame_bytes, rate_words(traffic))
}

fn table(checks: &[Check]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(TABLE_WIDTH);
    table.set_header(["", "must hold", "measured", ""]);
    for check in checks {
        let verdict = match check.holds {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "open",
        };
        // A number and its sign stay together.
        let words = [check.number, &check.must, &check.measured, verdict];
        table.add_row(words.map(|words| words.replace(" %", "\u{a0}%")));
    }
    table
}
