//! `quaff lab demo`: the same traffic to quaff and to its rivals, and what each has in its file.

mod table;

use super::measure::{Present, Progress, Setup, rate_words};
use crate::cmd::verify;
use crate::exit::Exit;
use crate::show;
use quaff_lab::Error;
use quaff_lab::method::{RunDir, Traffic};
use quaff_os::rtnl::{self, Link};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use table::Style;

/// Who is shown, when they are installed; quaff first.
const NAMES: [&str; 4] = ["quaff", "tcpdump", "dumpcap", "netsniff-ng"];
/// MiB of buffer that each is given.
const BUFFER_MIB: u64 = 256;
/// Frame size, frames/s (0: as fast as possible), frames. Enough of them to fill the buffers of
/// whoever does not keep up.
const TRAFFIC: [(u32, u64, u64); 6] = [
    (64, 400_000, 600_000),
    (64, 0, 1_500_000),
    (512, 400_000, 600_000),
    (512, 0, 1_500_000),
    (1500, 400_000, 2_000_000),
    (1500, 0, 1_500_000),
];
/// Fewer frames than this show nothing.
const COUNT_MIN: u64 = 10_000;

/// Capture the same traffic with quaff and with its rivals, side by side
///
/// In a lab of its own, frames of 64, 512 and 1500 bytes are offered to quaff and, where they are
/// installed, to tcpdump, dumpcap and netsniff-ng: one after the other, on the same core, with the
/// same buffer, onto the same disk. What each has captured is counted by reading its file. It takes
/// about two minutes, needs root, and leaves nothing behind.
///
/// Exit status: 0 quaff lost nothing, 1 it did, 2 it could not be measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the files go meanwhile, some GiB [default: here or /var/tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// At most so many frames a run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let setup = Setup::new(&NAMES, args.dir.as_deref())?;
    let traffic = fit(&setup, args.count.unwrap_or(u64::MAX))?;
    let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut demo = Demo { setup, style: Style { colours }, totals: BTreeMap::new(), last: None };
    println!("{}", demo.introduction());
    if let Err(error) = demo.measure(&traffic) {
        return match error {
            Error::Interrupted => {
                eprintln!("quaff: interrupted; all that was made is removed");
                Ok(Exit::Failed)
            }
            error => Err(error.into()),
        };
    }
    println!("{}", demo.conclusion());
    demo.verify();
    println!("{}", demo.invitation());
    Ok(if demo.is_lossless() { Exit::Done } else { Exit::Loss })
}

/// The traffic, cut down to what the disk has room for: quaff's last file and that of one rival.
fn fit(setup: &Setup, count_max: u64) -> anyhow::Result<Vec<Traffic>> {
    let room_bytes = setup.place.free_bytes()? / 10 * 9 / 2;
    let mut traffic = Vec::new();
    for (frame_bytes, pps, count) in TRAFFIC {
        let pps = Some(pps).filter(|pps| *pps > 0);
        let mut one = Traffic { frame_bytes, pps, count: count.min(count_max) };
        if one.file_bytes() > room_bytes {
            one.count = (one.count as f64 * room_bytes as f64 / one.file_bytes() as f64) as u64;
            let parent = setup.place.parent().display();
            anyhow::ensure!(one.count >= COUNT_MIN, "too little room in {parent}; say where with --dir DIR");
            eprintln!(
                "quaff: room in {parent} for {} frames of {frame_bytes} B only",
                show::count(one.count)
            );
        }
        traffic.push(one);
    }
    Ok(traffic)
}

struct Demo {
    setup: Setup,
    style: Style,
    /// Offered and in the file, for each that was measured, over all runs.
    totals: BTreeMap<String, (u64, u64)>,
    /// What quaff captured last.
    last: Option<RunDir>,
}

impl Demo {
    fn measure(&mut self, traffic: &[Traffic]) -> quaff_lab::Result<()> {
        println!("{}", self.style.heading());
        let progress = Progress::new(traffic.len() * self.setup.present.len());
        for (at, traffic) in traffic.iter().enumerate() {
            let title = format!("{} B {}", traffic.frame_bytes, rate_words(traffic));
            let space = if at > 0 { "\n" } else { "" };
            progress.print(&format!("{space}{}", self.style.strong(&title)));
            progress.about(format!("{} B", traffic.frame_bytes));
            for at in 0..self.setup.present.len() {
                self.one(at, traffic, &progress)?;
                progress.done();
            }
        }
        progress.end();
        Ok(())
    }

    /// One run and its row. A rival that does not work is told and passed over; ours is not.
    fn one(&mut self, at: usize, traffic: &Traffic, progress: &Progress) -> quaff_lab::Result<()> {
        let present = &self.setup.present[at];
        let is_ours = at == 0;
        if is_ours {
            self.last = None;
        }
        match self.setup.run(present, traffic, Some(BUFFER_MIB), progress) {
            Ok((outcome, dir)) => {
                progress.print(&self.style.row(&outcome));
                self.last = if is_ours { Some(dir) } else { self.last.take() };
                let total = self.totals.entry(outcome.rival).or_default();
                *total = (total.0 + outcome.offered, total.1 + outcome.in_file);
                Ok(())
            }
            Err(Error::Rival { name, what }) if !is_ours && name == present.rival.name => {
                progress.print(&self.style.failure(&name, &what));
                Ok(())
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
        let mut text = format!(
            "The same traffic to each of {}.\nFrames arrive from core {}; whoever captures has core {}, {BUFFER_MIB} MiB of buffer, and {} for its file.\n",
            names.join(", "),
            cores.generator,
            cores.capturer,
            place.parent().display(),
        );
        for rival in absent {
            text +=
                &format!("Not installed, so left out: {} (apt-get install {})\n", rival.name, rival.package);
        }
        text
    }

    fn conclusion(&self) -> String {
        let buffer =
            |present: &Present| format!("{} {}", present.rival.name, present.rival.buffer_words(BUFFER_MIB));
        let buffers: Vec<_> = self.setup.present.iter().map(buffer).collect();
        let legend = format!(
            "\nin the file: read and counted by us. own drops: what the tool itself says that it lost.\nCPU s: user and system time of its process. Buffers: {}.\n",
            buffers.join(", ")
        );
        let mut text = self.style.dim(&legend);
        for present in &self.setup.present {
            let Some((offered, in_file)) = self.totals.get(present.rival.name) else { continue };
            let (lost, offered_words) = (offered.saturating_sub(*in_file), show::count(*offered));
            let name = present.rival.name;
            text += &match lost {
                0 => self.style.good(&format!("\n{name} has all {offered_words} frames")),
                lost => {
                    let percent = 100.0 * lost as f64 / (*offered).max(1) as f64;
                    format!("\n{name} lost {} of {offered_words}, {percent:.1} %", show::count(lost))
                }
            };
        }
        text + "\n"
    }

    /// What `quaff verify` says of the file that quaff wrote last, which was the hardest.
    fn verify(&self) {
        let files = self.last.as_ref().and_then(|dir| dir.files().ok()).unwrap_or_default();
        println!("{}", self.style.strong("$ quaff verify the last file of quaff's"));
        if let Err(error) = verify::check(&files, quaff::verify::Options::default(), false) {
            eprintln!("quaff: {error:#}");
        }
    }

    fn invitation(&self) -> String {
        let name = interface(&rtnl::links().unwrap_or_default());
        format!(
            "\nOn a real interface: {}\nand 'quaff capture --help' for all it can do.",
            self.style.strong(&format!("quaff capture -i {name} -w all.pcapng"))
        )
    }

    fn is_lossless(&self) -> bool {
        self.totals.get(NAMES[0]).is_some_and(|(offered, in_file)| in_file >= offered)
    }
}

/// An interface of this machine to try it on.
fn interface(links: &[Link]) -> String {
    let is_real = |link: &&Link| link.name != "lo" && link.running;
    links.iter().find(is_real).map_or_else(|| "eth0".into(), |link| link.name.clone())
}
