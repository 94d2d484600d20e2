//! What `demo` and `bench` share: signals, a lab, a disk, the capturers that are installed; and a
//! progress line over many runs.

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use quaff_bench::method::delivery::{self, Delivered, Post, Sender};
use quaff_bench::method::pipeline::{Feed, Middle, Stripper};
use quaff_bench::method::{Bench, Cores, Outcome, Place, RunDir, fio};
use quaff_lab::ConsumerKind;
use quaff_lab::tool::{self, Present, Tool, shipped};
use quaff_lab::topology::LabSite;
use quaff_lab::topology::Stage;
use quaff_lab::traffic::Traffic;
use quaff_lab::{Error, Lab, LabPlan};
use quaff_os::{Signal, Signals};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// All that a measurement needs, taken down when it is dropped.
pub(super) struct Setup {
    signals: Signals,
    quaff: PathBuf,
    bed: LabSite,
    pub(super) place: Place,
    pub(super) cores: Cores,
    pub(super) present: Vec<Present>,
    pub(super) absent: Vec<Tool>,
}

impl Setup {
    /// Makes a lab, and looks for the capturers of those `names`, in that order.
    pub(super) fn new(names: &[&str], dir: Option<&Path>) -> anyhow::Result<Self> {
        // Before the first thread: from here on a signal is something to read.
        let signals = Signals::block(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
        let quaff = std::env::current_exe().context("find the program that runs")?;
        let tool::Resolved { present, absent } = tool::resolve(names, &shipped(&quaff))?;
        let place = Place::find(dir)?;
        let bed = LabSite { lab: Lab::create(&LabPlan::default())?, quaff: quaff.clone() };
        Ok(Self { signals, quaff, bed, place, cores: Cores::pick()?, present, absent })
    }

    /// One run; a signal ends it.
    pub(super) fn run(
        &self,
        rival: &Present,
        traffic: &Traffic,
        buffer_mib: Option<u64>,
        progress: &Progress,
    ) -> quaff_lab::Result<(Outcome, RunDir)> {
        let Present { rival, program, .. } = rival;
        self.bench().capture(rival, program, traffic, buffer_mib, &mut |stage| {
            progress.stage(&rival.name, stage);
            self.goes_on()
        })
    }

    /// CPU time without traffic; a signal ends it.
    pub(super) fn idle(
        &self,
        rival: &Present,
        idle: Duration,
        progress: &Progress,
    ) -> quaff_lab::Result<Duration> {
        let Present { rival, program, .. } = rival;
        self.bench().idle(rival, program, idle, &mut |_| {
            progress.say(&format!("{} waits for traffic that does not come", rival.name));
            self.goes_on()
        })
    }

    /// What fio says the disk takes, bytes/s; a signal ends it.
    pub(super) fn disk_rate(&self, bytes: u64, progress: &Progress) -> quaff_lab::Result<f64> {
        fio::write_rate(&self.place, bytes, self.cores.capturer, &mut |_| {
            progress.say("");
            self.goes_on()
        })
    }

    /// What a program in the middle of a pipeline passes on, bytes/s; a signal ends it.
    pub(super) fn pipe_rate(
        &self,
        middle: &Middle,
        feed: &Feed,
        into_file: bool,
        progress: &Progress,
    ) -> quaff_lab::Result<f64> {
        let place = into_file.then_some(&self.place);
        middle.rate(&self.quaff, feed, place, &mut |_| {
            progress.say(&format!(": {}", middle.name));
            self.goes_on()
        })
    }

    /// How fast a program takes mirrors' headers off the frames of a file, bytes/s; a signal ends it.
    pub(super) fn strip_rate(
        &self,
        stripper: &Stripper,
        from: &Path,
        progress: &Progress,
    ) -> quaff_lab::Result<f64> {
        stripper.rate(&self.quaff, from, &self.place, &mut |_| {
            progress.say(&format!(": {}", stripper.name));
            self.goes_on()
        })
    }

    /// Bytes/s that fio reads of a file; `None` without fio. A signal ends it.
    pub(super) fn read_rate(&self, file: &Path, progress: &Progress) -> quaff_lab::Result<Option<f64>> {
        let rate = fio::read_rate(file, self.cores.capturer, &mut |_| {
            progress.say("fio reads");
            self.goes_on()
        });
        match rate {
            Err(Error::Os(error)) if error.errno.kind() == std::io::ErrorKind::NotFound => Ok(None),
            rate => rate.map(Some),
        }
    }

    /// What arrives of what a sender sends; a signal ends it.
    pub(super) fn deliver(
        &self,
        sender: &Sender,
        file: &Path,
        kind: ConsumerKind,
        progress: &Progress,
    ) -> quaff_lab::Result<Delivered> {
        sender.deliver(&self.post(), file, kind, &mut |_| {
            progress.say(&format!(": {}", sender.name));
            self.goes_on()
        })
    }

    /// What `quaff verify --against` says of a file that was sent and captured; a signal ends it.
    pub(super) fn replay_and_capture(
        &self,
        sender: &Sender,
        file: &Path,
        progress: &Progress,
    ) -> quaff_lab::Result<serde_json::Value> {
        delivery::replay_and_capture(&self.post(), sender, file, &mut |_| {
            progress.say("");
            self.goes_on()
        })
    }

    /// Whether an XDP program is at either end of the lab.
    pub(super) fn has_xdp(&self) -> quaff_lab::Result<bool> {
        delivery::has_xdp(&self.bed.lab)
    }

    /// Whether no signal has asked us to end.
    pub(super) fn goes_on(&self) -> bool {
        // Who cannot hear is not asked.
        matches!(self.signals.next(Duration::ZERO), Ok(None) | Err(_))
    }

    fn post(&self) -> Post<'_> {
        Post { quaff: &self.quaff, lab: &self.bed.lab, place: &self.place, cores: self.cores }
    }

    fn bench(&self) -> Bench<'_> {
        Bench { site: &self.bed, quaff: &self.quaff, place: &self.place, cores: self.cores }
    }
}

/// A line on a terminal that says how far it has come; nothing elsewhere.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// For so many runs.
    pub(super) fn new(runs: usize) -> Self {
        let line = "{spinner} {bar:20} {pos:>2}/{len} {elapsed:>4}  {prefix}{wide_msg}";
        let style = ProgressStyle::with_template(line).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(runs as u64).with_style(style.progress_chars("━╸ "));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar }
    }

    /// So many runs more.
    pub(super) fn expect(&self, runs: u64) {
        self.bar.inc_length(runs);
    }

    /// What the runs from now on are about.
    pub(super) fn about(&self, what: String) {
        self.bar.set_prefix(what);
    }

    fn stage(&self, rival: &str, stage: Stage) {
        self.say(&format!(": {rival} {}", stage.describe()));
    }

    fn say(&self, words: &str) {
        self.bar.set_message(words.to_owned());
    }

    /// One run is done.
    pub(super) fn done(&self) {
        self.bar.inc(1);
    }

    /// Prints to stdout above the line.
    pub(super) fn print(&self, text: &str) {
        self.bar.suspend(|| println!("{text}"));
    }

    /// Takes the line away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// "400 kpps (4.80 Gb/s)", or "as fast as possible".
pub(super) fn rate_words(traffic: &Traffic) -> String {
    match traffic.pps {
        Some(pps) => {
            let bits = pps as f64 * f64::from(traffic.frame_bytes) * 8.0;
            format!("at {} ({})", crate::show::pps(pps as f64), crate::show::bits(bits))
        }
        None => "as fast as possible".into(),
    }
}
