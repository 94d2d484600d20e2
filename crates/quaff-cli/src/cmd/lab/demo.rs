//! `quaff lab demo`: the same traffic to quaff and to its rivals, and what each has in its file.

mod table;

use super::measure::{Progress, Setup, rate_words};
use crate::cmd::verify;
use crate::exit::Exit;
use crate::show;
use quaff_bench::method::RunDir;
use quaff_lab::Error;
use quaff_lab::tool::Present;
use quaff_lab::traffic::Traffic;
use quaff_os::rtnl::{self, Link};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use table::Style;

/// Ours comes first.
const OURS: &str = "quaff";
/// MiB of buffer that each is given.
const BUFFER_MIB: u64 = 256;
/// Frame size, frames/s (0: as fast as possible), frames. Enough of them to fill the buffers of
/// whoever does not keep up.
const TRAFFIC: [(u32, u64, u64); 6] = [
    (64, 400_000, 600_000),
    (64, 0, 1_000_000),
    (512, 400_000, 600_000),
    (512, 0, 1_500_000),
    (1500, 400_000, 3_000_000),
    (1500, 0, 2_000_000),
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
    /// The capturers beside quaff, where they are installed; '' for none
    #[arg(
        long,
        value_name = "NAME[,NAME]",
        value_delimiter = ',',
        default_value = "tcpdump,dumpcap,netsniff-ng"
    )]
    against: Vec<String>,
    /// Frame sizes, out of 64, 512 and 1500
    #[arg(long, value_name = "BYTES[,BYTES]", value_delimiter = ',', default_value = "64,512,1500")]
    sizes: Vec<u32>,
    /// Where the files go meanwhile, some GiB [default: here or /var/tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// At most so many frames a run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let names: Vec<_> = [OURS]
        .into_iter()
        .chain(args.against.iter().map(String::as_str).filter(|name| !name.is_empty()))
        .collect();
    let setup = Setup::new(&names, args.dir.as_deref())?;
    let traffic = traffic(&setup, args)?;
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

/// The traffic that is wanted, cut down to what the disk has room for: quaff's last file and that of
/// one rival.
fn traffic(setup: &Setup, args: &Args) -> anyhow::Result<Vec<Traffic>> {
    let room_bytes = setup.place.free_bytes()? / 10 * 9 / 2;
    let mut traffic = Vec::new();
    for (frame_bytes, pps, count) in TRAFFIC.into_iter().filter(|(size, ..)| args.sizes.contains(size)) {
        let pps = Some(pps).filter(|pps| *pps > 0);
        let mut one = Traffic::bytes(frame_bytes, pps, count.min(args.count.unwrap_or(count)));
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
    anyhow::ensure!(!traffic.is_empty(), "the demo has frames of 64, 512 and 1500 bytes");
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
        self.warm_up(&progress)?;
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

    /// A run that nobody sees: on a virtual machine, whoever touches memory for the first time pays for
    /// the host to find it, and that is not the capturer's work.
    fn warm_up(&self, progress: &Progress) -> quaff_lab::Result<()> {
        progress.about("warming up".into());
        let traffic = Traffic::bytes(64, None, COUNT_MIN);
        self.setup.run(&self.setup.present[0], &traffic, Some(BUFFER_MIB), progress).map(|_| ())
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
        let mut text = show::wrap(
            table::WIDTH,
            &format!(
                "The same traffic to each of {}. Each has core {}, {BUFFER_MIB} MiB of buffer and the same disk; \
             frames arrive from core {}. The files go to {}, and are removed.",
                names.join(", "),
                cores.capturer,
                cores.generator,
                place.parent().display(),
            ),
        );
        for rival in absent {
            text += &format!("Not installed, so left out: {} ({})\n", rival.name, rival.install);
        }
        text
    }

    fn conclusion(&self) -> String {
        let buffer =
            |present: &Present| format!("{} {}", present.rival.name, present.rival.buffer_words(BUFFER_MIB));
        let buffers: Vec<_> = self.setup.present.iter().map(buffer).collect();
        let legend = show::wrap(
            table::WIDTH,
            &format!(
                "lost: what is missing in the file, which we read and count ourselves. own drops: what the tool \
             says that it lost. CPU s: user and system time of its process. Buffers: {}.",
                buffers.join(", ")
            ),
        );
        let mut text = format!("\n{}\n", self.style.dim(legend.trim_end()));
        for Present { rival, .. } in &self.setup.present {
            let Some((offered, in_file)) = self.totals.get(&rival.name) else { continue };
            let all = show::count(*offered);
            text += &match offered.saturating_sub(*in_file) {
                0 => self.style.good(&format!("\n  {:12}has all {all} frames", rival.name)),
                lost => {
                    let percent = 100.0 * lost as f64 / (*offered).max(1) as f64;
                    format!("\n  {:12}lost {} of {all} frames, {percent:.1} %", rival.name, show::count(lost))
                }
            };
        }
        text + "\n"
    }

    /// What `quaff verify` says of the file that quaff wrote last, which was the hardest.
    fn verify(&self) {
        let files = self.last.as_ref().and_then(|dir| dir.files().ok()).unwrap_or_default();
        println!("{}", self.style.strong("quaff verify, on the file that quaff wrote last"));
        if let Err(error) = verify::check(&files, quaff_file::verify::Options::default(), false) {
            eprintln!("quaff: {error:#}");
        }
    }

    fn invitation(&self) -> String {
        let links = rtnl::links().unwrap_or_default();
        let command = format!("{} capture -i {} -w all.pcapng", program(), interface(&links));
        format!("\nTo try it on a real interface\n  {}", self.style.strong(&command))
    }

    fn is_lossless(&self) -> bool {
        self.totals.get(OURS).is_some_and(|(offered, in_file)| in_file >= offered)
    }
}

/// What to type for this program: from here, when it is below.
fn program() -> String {
    let (exe, here) = (std::env::current_exe().ok(), std::env::current_dir().ok());
    let below = exe.as_ref().zip(here.as_ref()).and_then(|(exe, here)| exe.strip_prefix(here).ok());
    below.map_or_else(|| "quaff".into(), |below| below.display().to_string())
}

/// An interface of this machine to try it on.
fn interface(links: &[Link]) -> String {
    let is_real = |link: &&Link| link.name != "lo" && link.running;
    links.iter().find(is_real).map_or_else(|| "eth0".into(), |link| link.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_offered_that_is_there() {
        let link = |name: &str, running| Link {
            index: 1,
            name: name.into(),
            mac: [0; 6],
            mtu: 1500,
            arphrd: 1,
            up: true,
            running,
            master: None,
        };
        assert_eq!(interface(&[link("lo", true), link("eno1", false), link("eno2", true)]), "eno2");
        assert_eq!(interface(&[link("lo", true)]), "eth0");
    }
}
