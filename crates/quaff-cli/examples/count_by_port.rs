//! Counts packets by TCP and UDP destination port: `count_by_port FILE…`, or `count_by_port -i INTERFACE`. A product of
//! its own on the engine's lanes, with the shell of quaff: signals, duration, progress, ledger, exit status.

use clap::Parser;
use quaff::batch::{Frame, Memory};
use quaff::output::{Arrival, Output, OutputTally};
use quaff::plan::{InputPlan, SandboxPlan};
use quaff::tally::Ledger;
use quaff::{Run, RunPlan};
use quaff_cli::Exit;
use quaff_cli::shell::{DurationArgs, Part, Product, ReportArgs, Settings, Shell, WatchArgs, print};
use quaff_file::tally::Counts;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

/// Count packets by TCP and UDP destination port
#[derive(Parser)]
struct Args {
    /// Capture files
    #[arg(required_unless_present = "interface")]
    files: Vec<PathBuf>,
    /// Count the packets of an interface
    #[arg(short, long, conflicts_with = "files")]
    interface: Vec<String>,
    #[command(flatten)]
    end: DurationArgs,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

type Ports = BTreeMap<u16, u64>;

/// The output of one lane. It shares nothing until it ends.
#[derive(Clone, Default)]
struct CountByPort {
    ports: Ports,
    taken: u64,
    sum: Arc<Mutex<Ports>>,
}

impl Output for CountByPort {
    fn take(&mut self, memory: Memory<'_>, frames: &mut [Frame], _: Arrival) -> usize {
        for frame in frames.iter() {
            let bytes = memory.of(frame);
            let ip = quaff_wire::net::layers(bytes).and_then(|layers| layers.ip);
            if let Some([_, destination]) = ip.and_then(|ip| ip.ports(bytes)) {
                *self.ports.entry(destination).or_default() += 1;
            }
        }
        self.taken += frames.len() as u64;
        frames.len()
    }

    fn finish(&mut self, _: u64, _: &dyn Fn(&mut Counts)) {
        let mut sum = self.sum.lock().expect("no lane panicked");
        self.ports.iter().for_each(|(port, packets)| *sum.entry(*port).or_default() += packets);
    }

    fn tally(&self) -> OutputTally {
        OutputTally { taken: self.taken, ..OutputTally::default() }
    }
}

/// The run, as the shell watches it.
struct Running(Run);

impl Product for Running {
    const LOSS: &'static str = "the counts are lost";
    type Report = Ledger;

    fn is_over(&self) -> bool {
        self.0.is_over()
    }

    fn finish(self) -> Ledger {
        self.0.finish()
    }

    fn progress(&mut self) -> Vec<Part> {
        let packets: u64 = self.0.lanes.iter().map(|lane| lane.received.get()).sum();
        vec![Part::new(format!("{packets} packets"), "", 0)]
    }
}

fn run(args: Args) -> anyhow::Result<Exit> {
    let is_live = !args.interface.is_empty();
    let input = if is_live { InputPlan::live(args.interface) } else { InputPlan::files(args.files) };
    let plan = RunPlan { input, also_written: Vec::new(), sandbox: Some(SandboxPlan::default()) };
    let sum = Arc::<Mutex<Ports>>::default();
    let lane = CountByPort { sum: sum.clone(), ..CountByPort::default() };
    let output = move |_, _: &_| Box::new(lane.clone()) as _;
    let mut shell = Shell::new(Settings::new(&args.watch, args.end.duration))?;
    let run = shell.start(|stop| Run::start(plan, stop, output))?;
    shell.begun(is_live);
    let ledger = shell.run(Running(run))?;
    let ports = sum.lock().expect("no lane panicked");
    if args.report.json {
        print(&serde_json::to_string(&(&*ports, &ledger))?);
    } else {
        ports.iter().for_each(|(port, packets)| print(&format!("{port} {packets}")));
        let (offered, written, lossless) = (ledger.offered, ledger.written, ledger.lossless);
        print(&format!("offered {offered}, counted {written}, lossless {lossless}"));
    }
    ledger.failure.iter().for_each(|failure| print(&format!("failed: {failure}")));
    Ok(Exit::of(&ledger))
}

fn main() -> ExitCode {
    quaff_cli::ended(run(Args::parse()))
}
