//! `quaff verify -i`: the evidence of an interface's packets, a line each second, and the report at the end.

use super::{Args, conclude, print, write_page};
use crate::cmd::lanes;
use crate::cmd::receiving::{self, Asked, LOOK_END};
use crate::exit::Exit;
use crate::show::{self, message, say};
use quaff::plan::{InputPlan, SandboxPlan, default_rings_bytes};
use quaff::proof::{Proof, ProofPlan};
use quaff::{LaneGauges, memory};
use quaff_file::write::Output;
use quaff_os::{Reason, Signals, Stop, Wakeup};
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
            "{} packets, {rate} | {} with evidence | {} lost",
            show::count(self.packets),
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
    let (signals, stop) = (receiving::signals(&[])?, Stop::default());
    let plan = plan(args, interface);
    let started = receiving::start(&signals, &stop, |stop| Proof::start(plan, stop))?;
    let Some(proof) = started else { return Ok(Exit::Failed) };
    proof.notes.iter().for_each(|note| message(note));
    // Scripts wait for this word: from now on every packet is evidence.
    say("capturing");
    watch(args, &proof, &signals, &stop)?;
    let report = proof.finish();
    let exit = conclude(&report, &report.outcome, args.json, |out| print(out, &report))?;
    write_page(args.html.as_deref(), &[PathBuf::from(interface)], &report)?;
    Ok(if report.outcome.error.is_some() { Exit::Failed } else { exit })
}

fn plan(args: &Args, interface: &str) -> ProofPlan {
    let filter = args.filter.clone().filter(|text| !text.trim().is_empty());
    let names = vec![interface.to_owned()];
    let counts = args.lanes.counts(&names);
    ProofPlan {
        input: InputPlan {
            filter,
            ring_bytes: default_rings_bytes(memory::free_bytes(), counts.iter().sum()),
            interfaces: lanes::interfaces(names, &counts, &[]),
            spread: args.lanes.spread(),
            ..InputPlan::default()
        },
        also_written: args.html.iter().cloned().map(Output::File).collect(),
        sandbox: (!args.no_sandbox).then(SandboxPlan::default),
    }
}

/// Prints a line each second, until the end.
fn watch(args: &Args, proof: &Proof, signals: &Signals, stop: &Stop) -> anyhow::Result<()> {
    let started = Instant::now();
    let ending = Wakeup::new()?;
    stop.wake(ending.clone());
    let (mut asked, mut shown, mut before) = (Asked::new(stop), started, Seen::default());
    while !proof.is_over() {
        let left = args.duration.map_or(LINE, |time| time.saturating_sub(started.elapsed()));
        let wait = LINE.saturating_sub(shown.elapsed()).min(left);
        let wait = if stop.raised() { LOOK_END } else { wait };
        if let Some(heard) = signals.next_or(&ending, wait)?
            && asked.is_second(heard.signal, stop)
        {
            message("ended immediately, without a report");
            show::close();
            std::process::exit(2);
        }
        if !stop.raised() && args.duration.is_some_and(|duration| started.elapsed() >= duration) {
            stop.raise(Reason::Duration);
        }
        if shown.elapsed() >= LINE {
            let now = Seen::of(&proof.lanes);
            say(&now.words(&before, shown.elapsed().as_secs_f64()));
            (shown, before) = (Instant::now(), now);
        }
        ending.clear();
    }
    Ok(())
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
