//! The promises of `quaff replay` and `quaff generate`, counted where the frames arrive.

use super::long_file::name_of;
use super::verdict::{Bound, Row};
use super::{Bench, Promise, Setup};
use crate::show;
use quaff_bench::method::{self, ConsumerKind, Delivered, Sender, fio};
use quaff_bench::stats::median;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

const OURS: &str = "quaff";
/// Repetitions of the file in a run.
const LOOPS: u64 = 60;
/// Frames/s relative to tcpreplay: to the stack, to an XDP program, and with new addresses in each repetition.
const STACK_RATIO_MIN: f64 = 2.5;
const XDP_RATIO_MIN: f64 = 5.0;
const UNIQUE_RATIO_MIN: f64 = 2.0;
/// Receivers before the stack, each with its name.
const RECEIVERS: [(&str, ConsumerKind); 3] = [
    ("stack after XDP", ConsumerKind::StackXdp),
    ("stack, GRO on", ConsumerKind::StackGro),
    ("stack", ConsumerKind::Stack),
];
/// Paces, frames/s; their duration, and the largest error of their mean.
const PACES: [u64; 3] = [100_000, 553_097, 1_000_000];
const PACE_SECONDS: u64 = 30;
const PACE_ERROR_MAX: f64 = 0.001;
/// Frames that are replayed at the times of the file, without --long.
const SHORT_FRAMES: u64 = 4000;
/// Error of the time between frames, 99th percentile, ns.
const SPACING_NS_MAX: u64 = 20_000;
/// Frames that are each a flow.
const FLOW_FRAMES: u64 = 5_000_000;
/// The file that is larger than memory, its frames, the memory allowed for it, and the rate relative to fio.
const LARGE_BYTES: u64 = 30_000_000_000;
const LARGE_FRAME_BYTES: u64 = 1500;
const MEMORY_BYTES_MAX: u64 = 1_000_000_000;
const DISK_RATIO_MIN: f64 = 0.95;
/// Interrupts, the latest moment of one, and the longest end, s.
const INTERRUPTS: u32 = 20;
const INTERRUPT_LATEST_MS: u32 = 1500;
const ENDING_SECONDS_MAX: f64 = 0.2;

impl Setup {
    /// Has `sender` send `file` to a receiver of that `kind`.
    fn deliver(&self, sender: &Sender, file: &Path, kind: ConsumerKind) -> quaff_lab::Result<Delivered> {
        sender.deliver(&self.post(), file, kind, &mut self.watch(sender.name))
    }
}

impl Bench<'_> {
    pub(super) fn replay_speed(&mut self) -> quaff_lab::Result<()> {
        let file = self.traffic_file()?;
        let title = format!("{} × {LOOPS}", name_of(&file));
        self.race(&title, &file, "", &RECEIVERS, STACK_RATIO_MIN)?;
        self.race(&title, &file, "", &[("XDP program", ConsumerKind::Xdp)], XDP_RATIO_MIN)?;
        self.race(&title, &file, " --unique-ip", &RECEIVERS, UNIQUE_RATIO_MIN)
    }

    /// quaff and tcpreplay to each of the receivers; quaff's live frames do not reach a plain stack.
    fn race(
        &mut self,
        title: &str,
        file: &Path,
        more: &str,
        receivers: &[(&str, ConsumerKind)],
        least: f64,
    ) -> quaff_lab::Result<()> {
        let theirs = format!("tcpreplay -q -tK --loop {LOOPS}{more} -i {{tx}} {{file}}");
        let theirs = Sender::new("tcpreplay -tK", &theirs);
        let ours = replay(&format!("-t --loop {LOOPS}{more}"));
        let reached: Vec<_> = receivers.iter().filter(|(_, kind)| *kind != ConsumerKind::Stack).collect();
        let all: Vec<_> = reached
            .iter()
            .map(|(name, kind)| (&ours, *name, *kind))
            .chain(receivers.iter().map(|(name, kind)| (&theirs, *name, *kind)))
            .collect();
        let names: Vec<_> = all.iter().map(|(sender, to, _)| format!("{} ({to})", sender.name)).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let title = format!("{title}{more}");
        let samples = self.rounds(Promise::ReplaySpeed, &title, "frames/s", &names, |setup, at| {
            let (sender, _, kind) = all[at];
            Ok(setup.deliver(sender, file, kind)?.pps())
        })?;
        let to = if receivers.len() == 1 { "an XDP program" } else { "the stack" };
        let limit = format!("{title} to {to}: at least {least} times the frames/s of tcpreplay");
        let both = samples.split_at(reached.len());
        self.judge(Row::ratio(Promise::ReplaySpeed, limit, Bound::AtLeast(least), show::pps, both));
        Ok(())
    }

    pub(super) fn replay_fidelity(&mut self) -> quaff_lab::Result<()> {
        let file = self.traffic_file()?;
        let runs = self.args.runs();
        self.replay_and_capture(&file, "--pps 100k", runs)?;
        if self.args.long {
            return self.replay_and_capture(&file, "", 1);
        }
        let short = self.setup.place.path.join("short.pcapng");
        let line =
            format!("{{quaff}} capture --read {} -w {{file}} --count {SHORT_FRAMES} --json", file.display());
        self.setup.deliver(&Sender::new("quaff capture", &line), &short, ConsumerKind::Stack)?;
        self.replay_and_capture(&short, "", runs)
    }

    /// Without a `pace` the times of the file are kept, and judged.
    fn replay_and_capture(&mut self, file: &Path, pace: &str, runs: u32) -> quaff_lab::Result<()> {
        let sender = replay(pace);
        let pace_words = if pace.is_empty() { "as captured" } else { pace };
        let title = format!("replay {} {pace_words} and capture", name_of(file));
        self.begin(Promise::ReplayFidelity, &title, runs.into());
        let mut verdicts = Vec::new();
        for _ in 0..runs {
            let mut watch = self.setup.watch("");
            verdicts.push(method::replay_and_capture(&self.setup.post(), &sender, file, &mut watch)?);
            drop(watch);
            self.setup.done();
        }
        self.judge(faithful(&name_of(file), pace, &verdicts));
        Ok(())
    }

    pub(super) fn replay_pace(&mut self) -> quaff_lab::Result<()> {
        let file = self.traffic_file()?;
        for pps in PACES {
            let pace = format!("--pps {pps} for {PACE_SECONDS} s");
            let sender = replay(&format!("--pps {pps} --duration {PACE_SECONDS}s --loop 0"));
            let errors = self.rounds(Promise::ReplayPace, &pace, "ratio", &[OURS], |setup, _| {
                let sent = setup.deliver(&sender, &file, ConsumerKind::XdpTimes)?;
                let mean = sent.frames.saturating_sub(1) as f64 / sent.span_seconds.max(1e-9);
                Ok((mean / pps as f64 - 1.0).abs())
            })?;
            let worst = errors[0].values.iter().copied().fold(0.0, f64::max);
            let measured = match &errors[0].failed {
                Some(why) => why.clone(),
                None => format!("worst of {}: {:.5} %", self.args.runs(), worst * 100.0),
            };
            let limit = format!("{pace}: mean rate at the receiver within {} %", PACE_ERROR_MAX * 100.0);
            let holds = Some(errors[0].failed.is_none() && worst <= PACE_ERROR_MAX);
            self.judge(Row::new(Promise::ReplayPace, limit, measured, holds));
        }
        Ok(())
    }

    pub(super) fn new_flows(&mut self) -> quaff_lab::Result<()> {
        let file = self.traffic_file()?;
        let ours = format!(
            "{{quaff}} generate -o {{tx}} --size 64 --no-stamp --new-flows each --count {FLOW_FRAMES} --json"
        );
        let theirs = format!("tcpreplay -q -tK --loop {LOOPS} -i {{tx}} {{file}}");
        let senders = [
            (Sender::new("quaff generate", &ours), ConsumerKind::XdpFlows),
            (Sender::new("tcpreplay -tK", &theirs), ConsumerKind::Xdp),
        ];
        let names = [senders[0].0.name, senders[1].0.name];
        let (mut fewest, mut unique) = (u64::MAX, true);
        let title = "64 B, each frame a flow";
        let all = self.rounds(Promise::NewFlows, title, "frames/s", &names, |setup, at| {
            let sent = setup.deliver(&senders[at].0, &file, senders[at].1)?;
            if let Some(flows) = sent.flows {
                unique &= flows == sent.frames && flows == FLOW_FRAMES;
                fewest = fewest.min(flows);
            }
            Ok(sent.pps())
        })?;
        let limit = format!(
            "{} frames of 64 B to an XDP program: as many flows, at least {XDP_RATIO_MIN} times the frames/s of \
             tcpreplay",
            show::count(FLOW_FRAMES)
        );
        let row =
            Row::ratio(Promise::NewFlows, limit, Bound::AtLeast(XDP_RATIO_MIN), show::pps, all.split_at(1));
        let flows = if fewest == u64::MAX { "no".into() } else { show::count(fewest) };
        self.judge(row.and(&format!("{flows} flows"), unique));
        Ok(())
    }

    /// A file larger than memory; fio reads it in the same rounds.
    pub(super) fn large_file(&mut self) -> quaff_lab::Result<()> {
        let frames = LARGE_BYTES / (LARGE_FRAME_BYTES + 16);
        self.begin(Promise::LargeFile, &format!("a file of {}", show::bytes(LARGE_BYTES)), 1);
        let dir = self.setup.place.run_dir()?;
        let file = dir.path.join("large.pcap");
        let make =
            format!("{{quaff}} generate -w {{file}} --size {LARGE_FRAME_BYTES} --count {frames} --json");
        self.setup.deliver(&Sender::new("quaff generate", &make), &file, ConsumerKind::Stack)?;
        self.setup.done();
        // Not pinned: a second thread reads ahead.
        let sender = Sender { pinned: false, ..replay("-t") };
        let (mut memory, mut missing) = (0, 0);
        let names = ["quaff replay", fio::FIO];
        let all = self.rounds(Promise::LargeFile, "30 GB", "bytes/s", &names, |setup, at| {
            if at == 1 {
                return fio::read_rate(&file, setup.cores.capturer, &mut setup.watch("fio reads"));
            }
            quaff_os::disk::drop_page_cache(&file)?;
            let sent = setup.deliver(&sender, &file, ConsumerKind::Xdp)?;
            memory = memory.max(sent.finished.usage.memory_bytes_max);
            missing += frames - sent.frames;
            Ok(sent.pps() * (LARGE_FRAME_BYTES + 16) as f64)
        })?;
        let limit = format!(
            "a file of {} as fast as possible: no frame missing, memory below {}, {:.0} % of the bytes/s that fio \
             reads",
            show::bytes(LARGE_BYTES),
            show::bytes(MEMORY_BYTES_MAX),
            DISK_RATIO_MIN * 100.0
        );
        let unit = |rate| format!("{}/s", show::bytes(rate as u64));
        let row =
            Row::ratio(Promise::LargeFile, limit, Bound::AtLeast(DISK_RATIO_MIN), unit, all.split_at(1));
        let first = format!("{missing} missing, {} of memory", show::bytes(memory));
        self.judge(row.and(&first, memory < MEMORY_BYTES_MAX && missing == 0));
        Ok(())
    }

    pub(super) fn interrupts(&mut self) -> quaff_lab::Result<()> {
        let file = self.traffic_file()?;
        let flags = ["-t --loop 0", "--pps 50k --loop 0", "", "--via af-xdp -t --loop 0"];
        self.begin(Promise::Interrupts, &format!("{INTERRUPTS} interrupts"), INTERRUPTS.into());
        let (mut worst, mut wrong, mut left) = (0.0_f64, 0, 0);
        for number in 0..INTERRUPTS {
            let flags = flags[number as usize % flags.len()];
            let after_ms = INTERRUPT_LATEST_MS * (number + 1) / INTERRUPTS;
            let sender =
                Sender { interrupt_after: Some(Duration::from_millis(after_ms.into())), ..replay(flags) };
            let sent = self.setup.deliver(&sender, &file, ConsumerKind::StackGro)?;
            worst = worst.max(sent.ending_seconds.unwrap_or(f64::INFINITY));
            wrong += u64::from(!is_true(&sent));
            left += u64::from(method::has_xdp(self.setup.post().lab)?);
            self.setup.done();
        }
        let limit = format!(
            "{INTERRUPTS} interrupts of quaff replay: an end within {ENDING_SECONDS_MAX} s, a true report, no XDP \
             program left"
        );
        let measured = format!("slowest {worst:.3} s, {wrong} wrong reports, {left} programs left");
        let holds = worst <= ENDING_SECONDS_MAX && wrong == 0 && left == 0;
        self.judge(Row::new(Promise::Interrupts, limit, measured, Some(holds)));
        Ok(())
    }

    /// The file of the arguments, real traffic if there is some, or generated traffic.
    fn traffic_file(&self) -> quaff_lab::Result<PathBuf> {
        if let Some(file) = self.real_file() {
            return Ok(file);
        }
        let made = self.setup.place.path.join("made.pcap");
        if !made.is_file() {
            let line = "{quaff} generate -w {file} --size imix --flows 6000 --pps 10k --count 45k --json";
            self.setup.deliver(&Sender::new("quaff generate", line), &made, ConsumerKind::Stack)?;
        }
        Ok(made)
    }

    /// The file of the arguments, or real traffic if there is some.
    pub(super) fn real_file(&self) -> Option<PathBuf> {
        let captures = std::env::var_os("QUAFF_CAPTURES").map_or("../shared/captures".into(), PathBuf::from);
        let mix = captures.join("mix.pcap");
        self.args.file.clone().or_else(|| mix.is_file().then_some(mix))
    }
}

/// A sender that replays the file with these flags.
fn replay(flags: &str) -> Sender {
    Sender::new(OURS, &format!("{{quaff}} replay -o {{tx}} {flags} -q --json {{file}}"))
}

/// The report of a sender equals the number of frames that arrived.
fn is_true(sent: &Delivered) -> bool {
    // Interrupted before its start, it prints no report.
    if sent.finished.stdout.is_empty() {
        return sent.frames == 0;
    }
    let report = serde_json::from_slice::<Value>(&sent.finished.stdout).unwrap_or_default();
    report["sent"].as_u64() == Some(sent.frames)
}

/// The results of `quaff verify --against` for a file that was sent and captured, one for each run.
fn faithful(name: &str, pace: &str, verdicts: &[Value]) -> Row {
    let worst =
        |field: &str| verdicts.iter().map(|verdict| verdict[field].as_u64().unwrap_or(u64::MAX)).max();
    let worst = ["lost", "duplicates", "reordered", "altered", "extra"]
        .map(|field| (field, worst(field).unwrap_or(0)));
    let is_whole = !verdicts.is_empty() && worst.iter().all(|(_, count)| *count == 0);
    let mut measured = worst.map(|(field, count)| format!("{count} {field}")).join(", ");
    if !pace.is_empty() {
        let limit = format!("{name} {pace}, captured by quaff: every byte, in order, no frame missing");
        return Row::new(Promise::ReplayFidelity, limit, measured, Some(is_whole));
    }
    let spacing: Vec<_> =
        verdicts.iter().filter_map(|verdict| verdict["spacing_error_ns"]["p99"].as_f64()).collect();
    let p99_ns = median(&spacing);
    measured += &format!("; p99 {:.1} µs", p99_ns.unwrap_or(f64::NAN) / 1000.0);
    let limit = format!(
        "{name} as captured, captured by quaff: every byte, in order, no frame missing; time between frames within {} \
         µs at p99",
        SPACING_NS_MAX / 1000
    );
    let holds = p99_ns.map(|p99_ns| is_whole && p99_ns <= SPACING_NS_MAX as f64);
    Row::new(Promise::ReplayFidelity, limit, measured, holds)
}
