//! `quaff lab demo`: the same traffic to quaff and to its rivals, and the number of frames in each one's file.
//!
//! The disk is measured first, and the loads are chosen by its write rate. All counts come from the files.

mod finding;
mod loads;
mod table;

use crate::cmd::bench::promises::Setup;
use crate::cmd::verify;
use crate::exit::Exit;
use crate::flags::{AgainstArg, CountArg, of};
use crate::show;
use anyhow::Context;
use finding::{Measured, Scene};
use loads::{Abilities, Load};
use quaff::memory;
use quaff::plan::{default_buffer_bytes, default_ring_bytes};
use quaff_bench::method::RunDir;
use quaff_lab::Error;
use quaff_lab::tool::Present;
use quaff_lab::traffic::Traffic;
use quaff_os::rtnl::Rtnl;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;
use table::{Outcome, Style};

const OURS: &str = "quaff";
/// Duration of the measurement of the disk.
const DISK_TIME: Duration = Duration::from_secs(2);
/// Frames of the run that measures the generator.
const WARM_UP: u64 = 300_000;
/// Smallest room for a file, bytes, at which the loads differ.
const ROOM_MIN: u64 = 40 << 20;
/// The sizes that `--sizes` takes.
const SIZES: [u32; 3] = [64, 512, 1500];

/// Capture the same traffic with quaff and with its rivals, side by side
///
/// Measures the disk, then offers loads relative to its measured write rate to quaff and, if they are installed, to
/// tcpdump, dumpcap and netsniff-ng: well below it, near it, above it, and small frames as fast as possible. They
/// run one after the other, on the same core, with the same buffer, onto the same disk; then quaff runs once more
/// with its default buffer. The captured frames are counted in the files. It takes about three minutes, needs root,
/// and removes its files.
///
/// Exit status: 0 measured, with or without loss; 1 a capturer failed, or quaff's count of lost frames
/// differs from the frames missing in its file; 2 the measurement failed.
#[derive(Debug, clap::Args)]
#[command(
    mut_args(of("against", |arg| arg
        .value_delimiter(',')
        .default_value("tcpdump,dumpcap,netsniff-ng")
        .help("Capturers to compare with, if installed; '' for none"))),
    mut_args(of("count", |arg| arg.help("Largest number of frames of a run")))
)]
pub(crate) struct Args {
    #[command(flatten)]
    against: AgainstArg<String>,
    /// Frame sizes: 512 and 1500 for the loads of the disk, 64 as fast as possible
    #[arg(long, value_name = "BYTES[,BYTES]", value_delimiter = ',', default_value = "1500,64")]
    sizes: Vec<u32>,
    /// Directory for the files during the demo, some GiB [default: /var/tmp, or here if that is no disk]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    count: CountArg,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    anyhow::ensure!(
        !args.sizes.is_empty() && args.sizes.iter().all(|size| SIZES.contains(size)),
        "the demo has frames of 64, 512 and 1500 bytes"
    );
    let names: Vec<_> = [OURS]
        .into_iter()
        .chain(args.against.iter().map(String::as_str).filter(|name| !name.is_empty()))
        .collect();
    let setup = Setup::new(&names, args.dir.as_deref())?;
    let colours = std::io::stdout().is_terminal() && show::is_coloured();
    let mut demo =
        Demo { setup, style: Style { colours }, measured: Vec::new(), broken: Vec::new(), last: None };
    show::print_styled(&demo.introduction());
    match demo.measure(args) {
        Ok(()) => {}
        Err(error) if matches!(error.downcast_ref(), Some(Error::Interrupted)) => {
            show::message("interrupted; all files are removed");
            return Ok(Exit::judged(None));
        }
        Err(error) => return Err(error),
    }
    demo.verify();
    show::print_styled(&demo.invitation());
    Ok(Exit::judged(demo.broken.is_empty()))
}

struct Demo {
    setup: Setup,
    style: Style,
    measured: Vec<Measured>,
    /// Capturers that failed and counts that differ, one sentence each.
    broken: Vec<String>,
    /// Files of the last run of quaff.
    last: Option<RunDir>,
}

impl Demo {
    fn measure(&mut self, args: &Args) -> anyhow::Result<()> {
        let disk = self.measure_disk()?;
        let able = self.warm_up(disk, args)?;
        let loads = able.loads(&args.sizes, *args.count);
        let scene = scene(&able);
        self.setup.expect("", (loads.len() * (self.setup.present.len() + 1)) as u64);
        self.setup.print(&format!("\n{}", self.style.heading()));
        for (at, load) in loads.into_iter().enumerate() {
            let space = if at > 0 { "\n" } else { "" };
            self.setup.print(&format!("{space}{}", self.style.strong(&load.title(able.disk))));
            self.setup.title(&format!("{} B", load.traffic.frame_bytes));
            let measured = self.one(load, scene)?;
            self.measured.push(measured);
        }
        self.setup.end();
        show::print_styled(&self.conclusion(scene));
        Ok(())
    }

    /// Bytes/s of new blocks, and the bytes that one file may have.
    fn measure_disk(&self) -> anyhow::Result<(f64, u64)> {
        let place = &self.setup.place;
        let (free, parent) = (place.free_bytes()?, place.parent().display());
        // The last file of quaff and that of the next run exist at the same time.
        let room = free / 10 * 9 / 2;
        anyhow::ensure!(
            room >= ROOM_MIN,
            "{parent} has {} free, too little for the demo; choose another disk with --dir DIR",
            show::bytes(free)
        );
        let (bytes, seconds) = quaff::doctor::write_rate(&place.path, DISK_TIME, room)
            .with_context(|| format!("measure the disk of {parent}"))?;
        let rate = bytes as f64 / seconds;
        let words = format!(
            "The disk of {parent} took {} in the test: {} of new blocks in {:.1} s, written as quaff writes.",
            show::byte_rate(rate),
            show::bytes(bytes),
            seconds
        );
        show::print(show::wrap(table::WIDTH, &words).trim_end());
        Ok((rate.max(1.0), room))
    }

    /// A run without a row, because on a virtual machine the first process that touches memory waits for the host to
    /// allocate it. It measures the generator.
    fn warm_up(&self, (disk, room): (f64, u64), args: &Args) -> anyhow::Result<Abilities> {
        self.setup.expect("warming up", 1);
        let bytes = args.sizes.iter().copied().max().unwrap_or(1500);
        let mut traffic = Traffic::bytes(bytes, None, WARM_UP.min(args.count.unwrap_or(WARM_UP)));
        loads::fit(&mut traffic, room);
        let able = Abilities { disk, pps: 0.0, room };
        let buffer = Some(able.buffer_mib());
        let (run, _) = self.setup.capture(&self.setup.present[0], &traffic, buffer)?;
        self.setup.done();
        let pps = run.offered_pps();
        let small =
            if able.buffer_mib() < 256 { ", because the disk has room for small files only" } else { "" };
        let words = format!(
            "This machine sent {} frames of {bytes} B a second in the test. All buffers are {} MiB{small}.",
            show::count(pps as u64),
            able.buffer_mib()
        );
        self.setup.print(show::wrap(table::WIDTH, &words).trim_end());
        Ok(Abilities { pps, ..able })
    }

    /// Runs one load, and prints the rows.
    fn one(&mut self, load: Load, scene: Scene) -> quaff_lab::Result<Measured> {
        let mut measured = Measured { load, equal: Vec::new(), default: None };
        for at in 0..self.setup.present.len() {
            measured.equal.extend(self.capture(at, Some(scene.equal_mib), scene, &measured.load)?);
        }
        measured.default = self.capture(0, None, scene, &measured.load)?;
        Ok(measured)
    }

    /// One run and its row. The row of a rival that fails is its error; if quaff fails, the demo ends.
    fn capture(
        &mut self,
        at: usize,
        buffer_mib: Option<u64>,
        scene: Scene,
        load: &Load,
    ) -> quaff_lab::Result<Option<Outcome>> {
        let present = &self.setup.present[at];
        let is_ours = at == 0;
        if is_ours {
            self.last = None;
        }
        let result = self.setup.capture(present, &load.traffic, buffer_mib);
        self.setup.done();
        match result {
            Ok((run, dir)) => {
                let outcome = Outcome { rival: present.rival.name.clone(), run };
                let name =
                    if buffer_mib.is_some() { outcome.rival.clone() } else { format!("{OURS}, default") };
                let bytes = buffer_mib.map_or(scene.default_bytes, |mib| mib << 20);
                let rate = load.file_rate(outcome.run.offered_pps());
                self.setup.print(&self.style.row(&name, bytes, rate, &outcome));
                if is_ours {
                    self.broken.extend(disagreement(&outcome));
                    self.last = Some(dir);
                }
                Ok(Some(outcome))
            }
            Err(Error::Tool { name, what }) if !is_ours && name == present.rival.name => {
                self.setup.print(&self.style.failure(&name, &what));
                self.broken.push(format!("{name} could not be measured: {what}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn introduction(&self) -> String {
        let Setup { present, absent, cores, place, .. } = &self.setup;
        let named = |present: &Present| {
            let version = present.version.as_deref().unwrap_or("of unknown version");
            format!("{} {version}", present.rival.name)
        };
        let names: Vec<_> = present.iter().map(named).collect();
        let mut text = show::wrap(
            table::WIDTH,
            &format!(
                "The same traffic to each of {}, one after the other: on core {}, with the same buffer, onto the \
                 same disk; frames arrive from core {}. Then again to quaff with its default buffer. The files are \
                 in {}, and are removed.",
                names.join(", "),
                cores.capturer,
                cores.generator,
                place.path.display(),
            ),
        );
        for rival in absent {
            text += &format!("Not installed, skipped: {} ({})\n", rival.name, rival.install);
        }
        text
    }

    fn conclusion(&self, scene: Scene) -> String {
        let buffer = |present: &Present| {
            format!("{} {}", present.rival.name, present.rival.buffer_words(scene.equal_mib))
        };
        let buffers: Vec<_> = self.setup.present.iter().map(buffer).collect();
        let legend = format!(
            "arrived at: bytes for the file. lost: frames missing in the file, which was read and counted. \
             CPU s: user and system time of the process. Buffers: {}.",
            buffers.join(", ")
        );
        let mut text = format!("\n{}\n", self.style.dim(show::wrap(table::WIDTH, &legend).trim_end()));
        text += &format!("\n{}\n", self.style.strong("Findings"));
        for measured in &self.measured {
            text += &item(&measured.words(scene));
        }
        for broken in &self.broken {
            text += &self.style.bad(&item(&format!("BROKEN: {broken}.")));
        }
        text
    }

    /// Prints the result of `quaff verify` for the last file of quaff.
    fn verify(&self) {
        let files = self.last.as_ref().and_then(|dir| dir.files().ok()).unwrap_or_default();
        show::print_styled(&self.style.strong("quaff verify, on the last file that quaff wrote"));
        if let Err(error) = verify::check(&files, quaff_file::verify::Options::default(), false, None, None) {
            show::message(&format!("{error:#}"));
        }
    }

    fn invitation(&self) -> String {
        let links = Rtnl::open().and_then(|mut rtnl| rtnl.links()).unwrap_or_default();
        let links: Vec<_> = links.iter().map(|link| (link.name.as_str(), link.running)).collect();
        let command = format!("{} capture -i {} -w all.pcapng", program(), interface(&links));
        format!("\nTo try it on a real interface\n  {}", self.style.strong(&command))
    }
}

/// The sizes of the buffers; quaff's default depends on the free memory.
fn scene(able: &Abilities) -> Scene {
    let free = memory::free_bytes();
    Scene {
        disk: able.disk,
        equal_mib: able.buffer_mib(),
        default_bytes: (default_buffer_bytes(free) + default_ring_bytes(free)) as u64,
    }
}

/// The difference between quaff's own count of losses and the frames missing in its file.
fn disagreement(outcome: &Outcome) -> Option<String> {
    let (lost, own_drops) = (outcome.run.lost(), outcome.run.tool_drops);
    match own_drops {
        Some(drops) if drops != lost => {
            Some(format!("quaff reported {drops} lost frames, and its file lacks {lost}"))
        }
        _ if outcome.run.accounted == Some(false) => {
            Some(format!("the file of quaff does not account for {lost} lost frames"))
        }
        _ => None,
    }
}

/// A paragraph as an item of a list.
fn item(text: &str) -> String {
    let wrapped = show::wrap(table::WIDTH - 4, text);
    let mark = |(at, line)| format!("  {} {line}\n", if at == 0 { "-" } else { " " });
    wrapped.lines().enumerate().map(mark).collect()
}

/// The path of this program, relative to the working directory if it is below that.
fn program() -> String {
    let (exe, here) = (std::env::current_exe().ok(), std::env::current_dir().ok());
    let below = exe.as_ref().zip(here.as_ref()).and_then(|(exe, here)| exe.strip_prefix(here).ok());
    below.map_or_else(|| "quaff".into(), |below| below.display().to_string())
}

/// An interface of this machine for the example.
fn interface<'a>(links: &[(&'a str, bool)]) -> &'a str {
    links.iter().find(|(name, running)| *name != "lo" && *running).map_or("eth0", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_differ_are_broken() {
        let outcome = |drops| table::outcome(OURS, 100, 90, drops);
        assert_eq!(disagreement(&outcome(Some(10))), None);
        assert_eq!(disagreement(&outcome(None)), None);
        assert!(disagreement(&outcome(Some(9))).is_some());
        let mut silent = outcome(Some(10));
        silent.run.accounted = Some(false);
        assert!(disagreement(&silent).is_some());
    }

    #[test]
    fn an_interface_is_offered_that_is_there() {
        assert_eq!(interface(&[("lo", true), ("eno1", false), ("eno2", true)]), "eno2");
        assert_eq!(interface(&[("lo", true)]), "eth0");
    }
}
