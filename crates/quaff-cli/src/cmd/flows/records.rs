//! The arguments that `quaff flows report` and `quaff flows list` share: the files, the choice of packets and of
//! records, and the plan of a meter for captures.

use super::stored::Inputs;
use crate::capture_files::Found;
use crate::flags::{ChoiceArgs, FileArgs, FilteredArgs, TimeoutArgs, nanoseconds, of, reworded};
use anyhow::bail;
use quaff::flows::FlowsPlan;
use quaff::plan::SandboxPlan;
use quaff_file::write::Output;
use quaff_flow::collector::SinkPlan;
use quaff_flow::plan::{ExtrasPlan, MeterPlan};
use std::path::PathBuf;
use std::time::Duration;

/// Files with flow records, or captures of which records are made.
#[derive(Debug, clap::Args)]
#[command(
    mut_args(of("words", |arg| arg.help(WORDS))),
    mut_args(of("read", |arg| reworded(arg, READ)))
)]
pub(super) struct RecordsArgs {
    #[command(flatten)]
    input: FilteredArgs,
    #[command(flatten)]
    packets: FileArgs,
    #[command(flatten)]
    pub(super) choice: ChoiceArgs,
    #[command(flatten, next_help_heading = "Flows")]
    timeouts: TimeoutArgs,
}

const WORDS: &str = "Captures, or segments or IPFIX files of flow records, and folders of one kind, as by -r; words after \
                     them are a tcpdump expression, for captures";
const READ: &str = "Read FILE, a capture, or a segment or an IPFIX file of flow records, or those of the folder DIR; '-' \
                    is stdin; repeat it to read several in order";

/// Defaults of `--active` and `--idle`.
const ACTIVE: Duration = Duration::from_secs(120);
const IDLE: Duration = Duration::from_secs(30);
/// Records that may wait for the sink.
const QUEUE_RECORDS: usize = 1 << 16;

impl RecordsArgs {
    /// The files, by their content.
    pub(super) fn inputs(&self) -> anyhow::Result<Inputs> {
        Inputs::find(self.input.named())
    }

    /// Captures, of which some were found in folders.
    pub(super) fn found(&self, files: &[PathBuf]) -> Found {
        let in_folders = files.iter().filter(|file| !self.input.named().contains(file)).cloned().collect();
        Found { files: files.to_vec(), in_folders }
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
                "{name} is for packets, and these files have flow records: leave it out; --where chooses flows"
            );
        }
        Ok(())
    }

    /// Maximum duration of a record.
    pub(super) fn active(&self) -> Duration {
        self.timeouts.active_ns().map_or(ACTIVE, Duration::from_nanos)
    }

    /// The plan of a meter of captures with one sink. It recognizes the application of each flow if `has_applications`.
    pub(super) fn plan(
        &self,
        found: Found,
        has_applications: bool,
        sink: SinkPlan,
        also_written: Vec<Output>,
        is_confined: bool,
    ) -> FlowsPlan {
        FlowsPlan {
            input: self.packets.plan(found),
            meter: MeterPlan {
                active_ns: nanoseconds(self.active()),
                idle_ns: self.timeouts.idle_ns().unwrap_or(nanoseconds(IDLE)),
                extras: ExtrasPlan { application: has_applications, ..ExtrasPlan::default() },
                ..MeterPlan::default()
            },
            sinks: vec![sink],
            is_round_robin: false,
            queue_records: QUEUE_RECORDS,
            also_written,
            draws: false,
            sandbox: is_confined.then(SandboxPlan::default),
            owner: None,
        }
    }
}
