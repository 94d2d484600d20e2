//! A run that reads capture files: its progress, and its end.

use crate::shell::{Part, Product, ReadProgress, Settings, Shell, WatchArgs};
use crate::show;
use quaff::LaneGauges;
use quaff::streams::{Streams, StreamsPlan, StreamsReport};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

/// Reads the files to their end, or to a signal.
pub(super) fn read(
    plan: StreamsPlan,
    watch: &WatchArgs,
    takes_stdout: bool,
) -> anyhow::Result<StreamsReport> {
    let mut shell = Shell::new(settings(watch, None, takes_stdout))?;
    let read = ReadProgress::new(&plan.input);
    let streams = shell.start(|stop| Streams::start(plan, stop))?;
    shell.notes(&streams.notes);
    shell.run(Running { streams, read })
}

/// The settings of the shell. On one terminal, the output would be printed into the progress line.
pub(super) fn settings(watch: &WatchArgs, duration: Option<Duration>, takes_stdout: bool) -> Settings {
    let mut settings = Settings::new(watch, duration);
    settings.has_line &= !(takes_stdout && std::io::stdout().is_terminal());
    settings
}

/// The reassembly, as the shell watches it.
struct Running {
    streams: Streams,
    read: ReadProgress,
}

impl Product for Running {
    const LOSS: &'static str = "bytes in memory are not written";
    type Report = StreamsReport;

    fn is_over(&self) -> bool {
        self.streams.is_over()
    }

    fn finish(self) -> StreamsReport {
        self.streams.finish()
    }

    fn progress(&mut self) -> Vec<Part> {
        progress(&self.streams.lanes, &self.read)
    }
}

/// The parts of a progress line of these lanes.
pub(super) fn progress(lanes: &[Arc<LaneGauges>], read: &ReadProgress) -> Vec<Part> {
    let sum = |of: fn(&LaneGauges) -> u64| lanes.iter().map(|lane| of(lane)).sum::<u64>();
    let packets = Part::new(show::number_of(sum(|lane| lane.received.get()), "packet"), "", 4);
    let lost = sum(|lane| lane.nic_dropped.get() + lane.kernel_dropped.get());
    let lost = Part::new(format!("lost {}", show::count(lost)), "", 3);
    vec![read.part(sum(|lane| lane.input_bytes.get())), packets, lost]
}
