//! `quaff verify -i`: the evidence of an interface's packets, a line each second, and the report at the end.

use super::args::Args;
use super::conclusion::{conclude, write_page};
use super::text::print;
use crate::exit::Exit;
use crate::flags::text;
use crate::shell::{Part, Product, Settings, Shell};
use crate::show;
use crate::written_file::WrittenFile;
use quaff::LaneGauges;
use quaff::plan::{InputPlan, SandboxPlan};
use quaff::proof::{Proof, ProofPlan};
use quaff_file::verify::Report;
use quaff_file::write::Output;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval of the lines.
const LINE: Duration = Duration::from_secs(1);

/// Counters of all lanes.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    packets: u64,
    /// Packets whose loss would be seen, and the lost ones.
    proven: u64,
    lost: u64,
    kernel_dropped: u64,
    nic_dropped: u64,
}

impl Seen {
    fn of(lanes: &[Arc<LaneGauges>]) -> Self {
        let sum = |of: fn(&LaneGauges) -> u64| lanes.iter().map(|lane| of(lane)).sum();
        Self {
            packets: sum(|lane| lane.received.get()),
            proven: sum(|lane| lane.proof_seen.get()),
            lost: sum(|lane| lane.proof_lost.get()),
            kernel_dropped: sum(|lane| lane.kernel_dropped.get()),
            nic_dropped: sum(|lane| lane.nic_dropped.get()),
        }
    }

    /// The counters, and the rates since `before`.
    fn words(&self, before: &Self, seconds: f64) -> String {
        let rate = show::pps(self.packets.saturating_sub(before.packets) as f64 / seconds.max(1e-3));
        let mut words = format!(
            "{}, {rate} | {} with evidence | {} lost",
            show::number_of(self.packets, "packet"),
            show::count(self.proven),
            show::count(self.lost)
        );
        // Late packets take losses back.
        match self.lost.saturating_sub(before.lost) {
            0 => {}
            new => words += &format!(" (+{})", show::count(new)),
        }
        let drops = [
            (self.kernel_dropped, "dropped in the kernel's ring"),
            (self.nic_dropped, "dropped at the interface"),
        ];
        show::present(drops).for_each(|drop| words += &format!(" | {drop}"));
        words
    }
}

/// Watches an interface until the end of the duration, or a signal.
pub(super) fn run(args: &Args, interface: &str) -> anyhow::Result<Exit> {
    let mut shell =
        Shell::new(Settings { stats: Some(LINE), duration: args.end.duration, ..Settings::default() })?;
    let page = args.html.as_deref().map(WrittenFile::open).transpose()?;
    let plan = plan(args, interface);
    let proof = shell.start(|stop| Proof::start(plan, stop))?;
    shell.notes(&proof.notes);
    shell.begun(true);
    let report = shell.run(Running { proof, last: Instant::now(), before: Seen::default() })?;
    let exit = conclude(&report, &report.outcome, args.report.json, |out| print(out, &report, None))?;
    write_page(page, &[PathBuf::from(interface)], &report)?;
    Ok(if report.outcome.error.is_some() { Exit::judged(None) } else { exit })
}

fn plan(args: &Args, interface: &str) -> ProofPlan {
    let lanes = args.lanes.plan(vec![interface.to_owned()], &[], 0);
    ProofPlan {
        input: InputPlan { filter: text(&args.filter), ..lanes },
        also_written: args.html.iter().cloned().map(Output::File).collect(),
        sandbox: (!*args.no_sandbox).then(SandboxPlan::default),
    }
}

/// The evidence of an interface, as the shell watches it.
struct Running {
    proof: Proof,
    /// The time and the counters of the last line.
    last: Instant,
    before: Seen,
}

impl Product for Running {
    const LOSS: &'static str = "there is no report";
    type Report = Report;

    fn is_over(&self) -> bool {
        self.proof.is_over()
    }

    fn finish(self) -> Report {
        self.proof.finish()
    }

    fn progress(&mut self) -> Vec<Part> {
        let now = Seen::of(&self.proof.lanes);
        let words = now.words(&self.before, self.last.elapsed().as_secs_f64());
        (self.last, self.before) = (Instant::now(), now);
        vec![Part::new(words, "", 0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rates_and_new_losses() {
        let before = Seen { packets: 1000, proven: 500, lost: 2, ..Seen::default() };
        let now = Seen { packets: 3000, proven: 1500, lost: 5, kernel_dropped: 7, nic_dropped: 0 };
        let words =
            "3,000 packets, 1.00 kpps | 1,500 with evidence | 5 lost (+3) | 7 dropped in the kernel's ring";
        assert_eq!(now.words(&before, 2.0), words);
        assert_eq!(now.words(&now, 1.0).split(" | ").nth(2), Some("5 lost"));
    }
}
