//! The equipment that 'bench promises' and 'lab demo' share: a lab, a disk, the installed capturers, and a progress
//! line. It judges nothing.

use crate::show;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use quaff_bench::bench::Events;
use quaff_bench::bench::result::{Case, Report};
use quaff_bench::experiment;
use quaff_bench::method::{Bench, Cores, MeterBench, Place, Post, Run, RunDir};
use quaff_lab::tool::{self, Present, Tool, shipped};
use quaff_lab::topology::{LabSite, Stage};
use quaff_lab::traffic::Traffic;
use quaff_lab::{Error, Lab, LabPlan};
use quaff_os::{Signal, Signals};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A lab, a folder for files, and capturers; dropping it removes the first two.
pub(crate) struct Setup {
    signals: Signals,
    pub(crate) quaff: PathBuf,
    bed: LabSite,
    pub(crate) place: Place,
    pub(crate) cores: Cores,
    pub(crate) present: Vec<Present>,
    pub(crate) absent: Vec<Tool>,
    bar: ProgressBar,
}

impl Setup {
    /// Creates a lab, and finds the capturers called `names`, in that order.
    pub(crate) fn new(names: &[&str], dir: Option<&Path>) -> anyhow::Result<Self> {
        // Blocked before the first thread starts, so that each signal is read here.
        let signals = Signals::block(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
        let quaff = std::env::current_exe().context("find the running program")?;
        let tool::Resolved { present, absent } = tool::resolve(names, &shipped(&quaff))?;
        let place = Place::find(dir)?;
        let bed = LabSite { lab: Lab::create(&LabPlan::default())?, quaff: quaff.clone() };
        let line = "{spinner} {bar:20} {pos:>2}/{len} {elapsed:>4}  {prefix}{wide_msg}";
        let style = ProgressStyle::with_template(line).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(0).with_style(style.progress_chars("━╸ "));
        Ok(Self { signals, quaff, bed, place, cores: Cores::pick()?, present, absent, bar })
    }

    /// Adds `runs` to the progress line, which names them by `title`.
    pub(crate) fn expect(&self, title: &str, runs: u64) {
        self.bar.enable_steady_tick(Duration::from_millis(100));
        self.bar.inc_length(runs);
        self.title(title);
    }

    pub(crate) fn title(&self, title: &str) {
        self.bar.set_prefix(format!("{}: ", show::name(title)));
    }

    /// One run has ended.
    pub(crate) fn done(&self) {
        self.bar.inc(1);
    }

    /// Prints to stdout above the progress line.
    pub(crate) fn print(&self, text: &str) {
        self.above(|| show::print_styled(text));
    }

    /// Has `print` write above the progress line.
    pub(super) fn above(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Removes the progress line.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Shows `words` while a program runs; a signal ends the program.
    pub(crate) fn watch(&self, words: &str) -> impl FnMut(Stage) -> bool {
        self.bar.set_message(show::name(words).into_owned());
        |_| self.no_signal()
    }

    /// One run of `capturer`, and its files.
    pub(crate) fn capture(
        &self,
        capturer: &Present,
        traffic: &Traffic,
        buffer_mib: Option<u64>,
    ) -> quaff_lab::Result<(Run, RunDir)> {
        let (needed, free) = (traffic.file_bytes(), self.place.free_bytes()?);
        if needed > free / 10 * 9 {
            let (needed, free, parent) =
                (show::bytes(needed), show::bytes(free), self.place.parent().display());
            return Err(Error::Place(format!(
                "{needed} needed in {parent}, {free} free; choose another `dir`"
            )));
        }
        let Present { rival, program, .. } = capturer;
        self.bench().capture(rival, program, traffic, buffer_mib, &mut |stage| {
            self.bar.set_message(format!("{} {}", show::name(&rival.name), stage.describe()));
            self.no_signal()
        })
    }

    pub(super) fn no_signal(&self) -> bool {
        // An unreadable signal descriptor counts as no signal.
        matches!(self.signals.next(Duration::ZERO), Ok(None) | Err(_))
    }

    pub(crate) fn post(&self) -> Post<'_> {
        Post { quaff: &self.quaff, lab: &self.bed.lab, place: &self.place, cores: self.cores }
    }

    pub(crate) fn bench(&self) -> Bench<'_> {
        Bench { site: &self.bed, quaff: &self.quaff, place: &self.place, cores: self.cores }
    }

    /// Flow meters that read a file on these cores, with the settings that a bench of meters has by default.
    pub(super) fn meters<'a>(&'a self, file_cores: &'a [usize]) -> MeterBench<'a> {
        let (site, place, cores) = (&self.bed, &self.place, self.cores);
        let (active_s, idle_s, flows_max, buffer_mib) = (120, 30, 4_000_000, 256);
        MeterBench { site, place, cores, file_cores, active_s, idle_s, flows_max, buffer_mib }
    }
}

impl Events for &Setup {
    fn begins(&mut self, runs_total: usize) {
        self.bar.inc_length(runs_total as u64);
    }

    fn run_done(&mut self, _case: &Case, _run: &Run, _left: Duration) {
        self.done();
    }
}

impl experiment::Events<Report> for &Setup {
    fn stage(&mut self, what: &str) {
        self.bar.set_message(show::name(what).into_owned());
    }

    fn place(&mut self, dir: &Path) {
        let words =
            format!("files are in {}, and are removed at the end", show::name(&dir.display().to_string()));
        self.above(|| show::message(&words));
    }

    fn note(&mut self, sentence: &str) {
        self.above(|| show::message(sentence));
    }

    fn continues(&mut self) -> bool {
        self.no_signal()
    }
}
