//! `quaff replay` and `quaff generate` beside tcpreplay, counted where the frames arrive.

use super::check::Check;
use super::{Bench, Progress};
use crate::show;
use quaff_bench::method::delivery::{Delivered, Sender};
use quaff_bench::method::median;
use quaff_lab::Error;
use quaff_lab::consumer::Kind;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What ours is called.
const OURS: &str = "quaff";
/// How often a file is sent in a run.
const LOOPS: u64 = 60;
/// Frames/s, ours to the better of the others: to the stack, to an XDP program, and with new addresses in
/// each loop.
const STACK_RATIO_MIN: f64 = 2.5;
const XDP_RATIO_MIN: f64 = 5.0;
const UNIQUE_RATIO_MIN: f64 = 2.0;
/// What frames may be sent to on their way to the stack.
const RECEIVERS: [Kind; 3] = [Kind::Stack, Kind::StackGro, Kind::StackXdp];
/// The paces that are to be kept, frames/s, for how long, and how well.
const PACES: [u64; 3] = [100_000, 553_097, 1_000_000];
const PACE_SECONDS: u64 = 30;
const PACE_ERROR_MAX: f64 = 0.001;
/// Of the file that is sent in its own time, when it need not be long.
const SHORT_FRAMES: u64 = 4000;
/// Time between frames as in the file: the difference that 99 in 100 keep within, ns.
const SPACING_NS_MAX: u64 = 20_000;
/// Frames of which each is a flow.
const FLOW_FRAMES: u64 = 5_000_000;
/// The file that is larger than memory, bytes, its frames' size, and the memory that it may take.
const LARGE_BYTES: u64 = 30_000_000_000;
const LARGE_FRAME_BYTES: u64 = 1500;
const MEMORY_BYTES_MAX: u64 = 1_000_000_000;
/// Bytes/s of a large file, to fio's, at least.
const DISK_RATIO_MIN: f64 = 0.95;
/// Interrupts, the latest moment of one, and how long an end may take, s.
const INTERRUPTS: u32 = 20;
const INTERRUPT_LATEST_MS: u32 = 1500;
const ENDING_SECONDS_MAX: f64 = 0.2;

/// The runs of one sender to one receiver.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sent {
    name: String,
    to: String,
    pub(super) pps: Vec<f64>,
    failed: Option<String>,
}

impl Bench<'_> {
    /// 41: as fast as possible.
    pub(super) fn replay_speed(&mut self) -> quaff_lab::Result<()> {
        let file = self.traffic_file()?;
        let theirs = |name, more: &str| {
            Sender::new(name, &format!("tcpreplay -q -tK --loop {LOOPS}{more} -i {{tx}} {{file}}"))
        };
        let ours = |more: &str| {
            Sender::new(
                OURS,
                &format!("{{quaff}} replay -o {{tx}} -t --loop {LOOPS}{more} -q --json {{file}}"),
            )
        };
        let what = format!("{} × {LOOPS}", name_of(&file));
        let quaff = ours("");
        let tcpreplay = theirs("tcpreplay -tK", "");
        let stack = [(&quaff, Kind::StackXdp), (&quaff, Kind::StackGro)]
            .into_iter()
            .chain(RECEIVERS.map(|kind| (&tcpreplay, kind)))
            .collect::<Vec<_>>();
        self.race(&what, &file, &stack, STACK_RATIO_MIN)?;
        self.race(&what, &file, &[(&quaff, Kind::Xdp), (&tcpreplay, Kind::Xdp)], XDP_RATIO_MIN)?;
        let quaff = ours(" --unique-ip");
        let tcpreplay = theirs("tcpreplay -tK", " --unique-ip");
        let unique = [(&quaff, Kind::StackXdp), (&quaff, Kind::StackGro)]
            .into_iter()
            .chain(RECEIVERS.map(|kind| (&tcpreplay, kind)))
            .collect::<Vec<_>>();
        self.race(&format!("{what}, --unique-ip"), &file, &unique, UNIQUE_RATIO_MIN)
    }

    /// 42: byte by byte, in order, and at the times of the file.
    pub(super) fn replay_fidelity(&mut self) -> quaff_lab::Result<()> {
        let file = self.traffic_file()?;
        self.replay_and_capture(&file, "--pps 100k", self.args.runs, false)?;
        if self.args.long {
            return self.replay_and_capture(&file, "", 1, true);
        }
        let short = self.setup.place.path().join("short.pcapng");
        let line =
            format!("{{quaff}} capture --read {} -w {{file}} --count {SHORT_FRAMES} --json", file.display());
        self.setup.deliver(&Sender::new("quaff capture", &line), &short, Kind::Stack, &self.progress)?;
        self.replay_and_capture(&short, "", self.args.runs, true)
    }

    fn replay_and_capture(
        &mut self,
        file: &Path,
        pace: &str,
        runs: u64,
        timed: bool,
    ) -> quaff_lab::Result<()> {
        let sender = Sender::new(OURS, &format!("{{quaff}} replay -o {{tx}} {pace} -q --json {{file}}"));
        self.progress.expect(runs);
        self.progress.about(format!("replay {} and capture", name_of(file)));
        let mut verdicts = Vec::new();
        for _ in 0..runs {
            verdicts.push(self.setup.replay_and_capture(&sender, file, &self.progress)?);
            self.progress.done();
        }
        let pace = if timed { "as captured" } else { pace };
        self.checks.push(faithful(&name_of(file), pace, timed, &verdicts));
        Ok(())
    }

    /// 43: the mean of a pace, by the receiver's clock.
    pub(super) fn replay_pace(&mut self) -> quaff_lab::Result<()> {
        let file = self.traffic_file()?;
        for pps in PACES {
            let line = format!(
                "{{quaff}} replay -o {{tx}} --pps {pps} --duration {PACE_SECONDS}s --loop 0 -q --json {{file}}"
            );
            let sender = Sender::new(OURS, &line);
            let mut errors = Vec::new();
            self.progress.expect(self.args.runs);
            self.progress.about(format!("{} for {PACE_SECONDS} s", show::pps(pps as f64)));
            for _ in 0..self.args.runs {
                let sent = self.setup.deliver(&sender, &file, Kind::XdpTimes, &self.progress)?;
                let mean = sent.frames.saturating_sub(1) as f64 / sent.span_seconds.max(1e-9);
                errors.push(mean / pps as f64 - 1.0);
                self.progress.done();
            }
            let worst = errors.iter().fold(0.0, |worst: f64, error| worst.max(error.abs()));
            self.checks.push(Check {
                number: "43",
                must: format!(
                    "--pps {pps} for {PACE_SECONDS} s: the mean at the receiver within {} %",
                    PACE_ERROR_MAX * 100.0
                ),
                measured: format!("worst of {}: {:.5} %", errors.len(), worst * 100.0),
                holds: Some(worst <= PACE_ERROR_MAX),
            });
        }
        Ok(())
    }

    /// 44: each frame a flow.
    pub(super) fn new_flows(&mut self) -> quaff_lab::Result<()> {
        let file = self.traffic_file()?;
        let ours = format!(
            "{{quaff}} generate -o {{tx}} --size 64 --no-stamp --new-flows each --count {FLOW_FRAMES} --json"
        );
        let theirs = format!("tcpreplay -q -tK --loop {LOOPS} -i {{tx}} {{file}}");
        let (ours, theirs) = (Sender::new("quaff generate", &ours), Sender::new("tcpreplay -tK", &theirs));
        let (mut rates, mut flows, mut failed) = ([Vec::new(), Vec::new()], Vec::new(), None);
        self.progress.expect(2 * self.args.runs);
        self.progress.about("64 B, each frame a flow".into());
        for _ in 0..self.args.runs {
            let sent = self.setup.deliver(&ours, &file, Kind::XdpFlows, &self.progress)?;
            rates[0].push(sent.pps());
            flows.push((sent.flows.unwrap_or(0), sent.frames));
            self.progress.done();
            match self.try_deliver(&theirs, &file, Kind::Xdp)? {
                Ok(sent) => rates[1].push(sent.pps()),
                Err(why) => failed = Some(why),
            }
            self.progress.done();
        }
        let [ours, theirs] = rates.map(|rates| median(&rates));
        let ours = ours.unwrap_or(0.0);
        let unique = flows.iter().all(|(flows, frames)| flows == frames && *frames == FLOW_FRAMES);
        let beside = match theirs {
            Some(theirs) => format!("{}: {:.2}", show::pps(theirs), ours / theirs),
            None => failed.unwrap_or_default(),
        };
        let fewest = flows.iter().map(|(flows, _)| *flows).min().unwrap_or(0);
        self.checks.push(Check {
            number: "44",
            must: format!(
                "{} frames of 64 B to an XDP program, each a new flow: all of them unique there, and at least \
                 {XDP_RATIO_MIN} times the frames/s of tcpreplay -tK",
                show::count(FLOW_FRAMES)
            ),
            measured: format!("{} flows, {}, tcpreplay {beside}", show::count(fewest), show::pps(ours)),
            holds: theirs.map(|theirs| unique && ours >= XDP_RATIO_MIN * theirs),
        });
        Ok(())
    }

    /// 45: a file that memory would not hold.
    pub(super) fn large_file(&mut self) -> quaff_lab::Result<()> {
        let count = LARGE_BYTES / (LARGE_FRAME_BYTES + 16);
        self.progress.expect(2 + 2 * self.args.runs);
        self.progress.about(format!("a file of {}", show::bytes(LARGE_BYTES)));
        let dir = self.setup.place.run_dir()?;
        let file = dir.path().join("large.pcap");
        let make =
            format!("{{quaff}} generate -w {{file}} --size {LARGE_FRAME_BYTES} --count {count} --json");
        self.setup.deliver(&Sender::new("quaff generate", &make), &file, Kind::Stack, &self.progress)?;
        self.progress.done();
        let mut replay = Sender::new(OURS, "{quaff} replay -o {tx} -t -q --json {file}");
        // It reads ahead beside sending.
        replay.pinned = false;
        let (mut disk, mut ours, mut memory, mut missing) = (Vec::new(), Vec::new(), 0, 0);
        disk.extend(self.setup.read_rate(&file, &self.progress)?);
        self.progress.done();
        for _ in 0..self.args.runs {
            quaff_os::disk::drop_page_cache(&file)?;
            let sent = self.setup.deliver(&replay, &file, Kind::Xdp, &self.progress)?;
            ours.push(sent.frames as f64 * (LARGE_FRAME_BYTES + 16) as f64 / sent.seconds.max(1e-9));
            memory = memory.max(sent.finished.usage.memory_bytes_max);
            missing += count - sent.frames;
            self.progress.done();
            disk.extend(self.setup.read_rate(&file, &self.progress)?);
            self.progress.done();
        }
        let (ours, disk) = (median(&ours).unwrap_or(0.0), median(&disk));
        let ratio = disk.map(|disk| ours / disk);
        self.checks.push(Check {
            number: "45",
            must: format!(
                "a file of {} at top speed: all frames arrive, memory below {}, at {:.0} % of the disk's speed",
                show::bytes(LARGE_BYTES),
                show::bytes(MEMORY_BYTES_MAX),
                DISK_RATIO_MIN * 100.0
            ),
            measured: format!(
                "{missing} missing, {} of memory, {}/s, fio reads {}/s: {:.2}",
                show::bytes(memory),
                show::bytes(ours as u64),
                show::bytes(disk.unwrap_or(0.0) as u64),
                ratio.unwrap_or(0.0)
            ),
            holds: ratio
                .map(|ratio| ratio >= DISK_RATIO_MIN && memory < MEMORY_BYTES_MAX && missing == 0),
        });
        Ok(())
    }

    /// 48: Ctrl-C, at any moment.
    pub(super) fn interrupts(&mut self) -> quaff_lab::Result<()> {
        let file = self.traffic_file()?;
        let lines = [
            "{quaff} replay -o {tx} -t --loop 0 -q --json {file}",
            "{quaff} replay -o {tx} --pps 50k --loop 0 -q --json {file}",
            "{quaff} replay -o {tx} -q --json {file}",
            "{quaff} replay -o {tx} --via af-xdp -t --loop 0 -q --json {file}",
        ];
        self.progress.expect(u64::from(INTERRUPTS));
        self.progress.about("interrupts".into());
        let (mut worst, mut untrue, mut left) = (0.0_f64, 0, 0);
        for number in 0..INTERRUPTS {
            let mut sender = Sender::new(OURS, lines[number as usize % lines.len()]);
            let after = INTERRUPT_LATEST_MS * (number + 1) / INTERRUPTS;
            sender.interrupt_after = Some(Duration::from_millis(after.into()));
            let sent = self.setup.deliver(&sender, &file, Kind::StackGro, &self.progress)?;
            worst = worst.max(sent.ending_seconds.unwrap_or(f64::INFINITY));
            untrue += u64::from(!is_true(&sent));
            left += u64::from(self.setup.has_xdp()?);
            self.progress.done();
        }
        self.checks.push(Check {
            number: "48",
            must: format!(
                "{INTERRUPTS} interrupts at different moments: an end within {ENDING_SECONDS_MAX} s, a report that is \
                 true, no XDP program left"
            ),
            measured: format!("slowest {worst:.3} s, {untrue} untrue, {left} left"),
            holds: Some(worst <= ENDING_SECONDS_MAX && untrue == 0 && left == 0),
        });
        Ok(())
    }

    /// Each sender once in each round; ours has to be faster than each of the others.
    fn race(
        &mut self,
        what: &str,
        file: &Path,
        senders: &[(&Sender, Kind)],
        ratio_min: f64,
    ) -> quaff_lab::Result<()> {
        let to = |kind| match kind {
            Kind::Stack => "stack",
            Kind::StackGro => "stack, GRO on",
            Kind::StackXdp => "stack behind XDP",
            _ => "XDP program",
        };
        let mut all: Vec<_> = senders
            .iter()
            .map(|(sender, kind)| Sent {
                name: sender.name.into(),
                to: to(*kind).into(),
                pps: Vec::new(),
                failed: None,
            })
            .collect();
        self.progress.expect(self.args.runs * senders.len() as u64);
        self.progress.about(what.into());
        for _ in 0..self.args.runs {
            for ((sender, kind), sent) in senders.iter().zip(&mut all) {
                match self.try_deliver(sender, file, *kind)? {
                    Ok(delivered) => sent.pps.push(delivered.pps()),
                    Err(why) => sent.failed = Some(why),
                }
                self.progress.done();
            }
        }
        self.checks.push(faster(what, ratio_min, &all));
        self.sent.extend(all);
        Ok(())
    }

    /// What one that may be absent, or fail, has sent; or why it has not.
    fn try_deliver(
        &self,
        sender: &Sender,
        file: &Path,
        kind: Kind,
    ) -> quaff_lab::Result<Result<Delivered, String>> {
        match self.setup.deliver(sender, file, kind, &self.progress) {
            Ok(delivered) => Ok(Ok(delivered)),
            Err(Error::Tool { what, .. }) => Ok(Err(what)),
            Err(Error::Os(error)) if error.errno.kind() == std::io::ErrorKind::NotFound => {
                Ok(Err("not installed".into()))
            }
            Err(error) => Err(error),
        }
    }

    /// What is replayed: what was asked for, real traffic where there is some, or made.
    fn traffic_file(&mut self) -> quaff_lab::Result<PathBuf> {
        if let Some(file) = &self.args.file {
            return Ok(file.clone());
        }
        let captures = std::env::var_os("QUAFF_CAPTURES").map_or("../shared/captures".into(), PathBuf::from);
        let mix = captures.join("mix.pcap");
        if mix.is_file() {
            return Ok(mix);
        }
        let made = self.setup.place.path().join("made.pcap");
        if !made.is_file() {
            let line = "{quaff} generate -w {file} --size imix --flows 6000 --pps 10k --count 45k --json";
            self.setup.deliver(
                &Sender::new("quaff generate", line),
                &made,
                Kind::Stack,
                &Progress::new(0),
            )?;
        }
        Ok(made)
    }
}

/// Whether what it says that it has sent is what arrived.
fn is_true(sent: &Delivered) -> bool {
    // One that was interrupted before it began has nothing to say.
    if sent.finished.stdout.is_empty() {
        return sent.frames == 0;
    }
    let said = serde_json::from_slice::<serde_json::Value>(&sent.finished.stdout).unwrap_or_default();
    said["sent"].as_u64() == Some(sent.frames)
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Each where it is fastest.
fn faster(what: &str, ratio_min: f64, all: &[Sent]) -> Check {
    let rate = |sent: &Sent| median(&sent.pps);
    let words = |sent: &Sent| match (rate(sent), &sent.failed) {
        (Some(rate), _) => format!("{} ({}) {}", sent.name, sent.to, show::pps(rate)),
        (None, failed) => format!("{}: {}", sent.name, failed.as_deref().unwrap_or("not measured")),
    };
    let mut measured = all.iter().map(words).collect::<Vec<_>>().join(", ");
    let best_of = |ours: bool| {
        all.iter().filter(|sent| (sent.name == OURS) == ours).filter_map(rate).max_by(f64::total_cmp)
    };
    let (ours, best) = (best_of(true), best_of(false));
    let ratio = ours.zip(best).map(|(ours, best)| ours / best);
    if let Some(ratio) = ratio {
        measured += &format!(": {ratio:.2}");
    }
    let to = all
        .first()
        .map_or("", |first| if first.to == "XDP program" { "an XDP program" } else { "the stack" });
    Check {
        number: "41",
        must: format!("{what} to {to}: quaff replay -t sends at least {ratio_min} times as many frames/s"),
        measured,
        holds: ratio.map(|ratio| ratio >= ratio_min),
    }
}

/// What verify says of a file that was sent and captured, in each run.
fn faithful(name: &str, pace: &str, timed: bool, verdicts: &[serde_json::Value]) -> Check {
    let sum = |field: &str| verdicts.iter().map(|verdict| verdict[field].as_u64().unwrap_or(u64::MAX)).max();
    let worst =
        ["lost", "duplicates", "reordered", "altered", "extra"].map(|field| (field, sum(field).unwrap_or(0)));
    let spacing: Vec<_> =
        verdicts.iter().filter_map(|verdict| verdict["spacing_error_ns"]["p99"].as_f64()).collect();
    let p99_ns = median(&spacing);
    let is_whole = !verdicts.is_empty() && worst.iter().all(|(_, count)| *count == 0);
    let mut must = format!("{name} {pace}, and captured by quaff: each byte, in order, none missing");
    let mut measured = worst.map(|(field, count)| format!("{count} {field}")).join(", ");
    let mut holds = Some(is_whole);
    if timed {
        must += &format!("; between frames the file's times, to {} µs at p99", SPACING_NS_MAX / 1000);
        measured += &format!("; p99 {:.1} µs", p99_ns.unwrap_or(f64::NAN) / 1000.0);
        holds = p99_ns.map(|p99_ns| is_whole && p99_ns <= SPACING_NS_MAX as f64);
    }
    Check { number: "42", must, measured, holds }
}
