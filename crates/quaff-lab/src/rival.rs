//! The capturers that are measured beside each other, as plain data: how each is started, stopped
//! and asked, and where it leaves its packets. Nothing is run here but a question for a version.

mod counter;

pub use counter::Counter;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Directories of tools for root, which not every PATH has.
const ROOT_DIRS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
/// The most that is read of what a tool says of its version.
const VERSION_CHARS_MAX: usize = 40;

/// A capturer. Arguments hold places, words in braces, that [`Rival::command_line`] fills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    /// What it is called in a table.
    pub name: &'static str,
    /// The Debian package that brings it; empty for one that no package brings.
    pub package: &'static str,
    /// The program: a path, or a name to look for in PATH.
    pub program: PathBuf,
    /// A command that says its version.
    pub version: &'static [&'static str],
    /// Its arguments; places `{interface}`, `{file}`, `{dir}`.
    pub args: &'static [&'static str],
    /// The arguments that give it a buffer; places `{mib}`, `{kib}`, and `{quarter}` and `{rest}`,
    /// which are MiB that sum up to `{mib}`.
    pub buffer: &'static [&'static str],
    /// The arguments that give it a filter; place `{filter}`. Empty where it knows no tcpdump filter.
    pub filter: &'static [&'static str],
    /// Directories that it wants to find in `{dir}`.
    pub dirs: &'static [&'static str],
    /// How it shows that it captures.
    pub ready: Ready,
    /// How long its files must have stood still before it may be taken to have written everything.
    pub settle: Duration,
    /// How it is stopped.
    pub stop: Stop,
    /// Where it says how many packets it has lost.
    pub drops: Counter,
    /// What it writes.
    pub output: Output,
}

/// How a capturer shows that it captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// A line on stderr that holds these words.
    Says(&'static str),
    /// Its packet socket is bound and up (`/proc/net/packet`).
    Socket,
}

/// How a capturer is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// By SIGINT.
    Interrupt,
    /// By SIGKILL, when its files stand still: it does not end otherwise.
    Kill,
}

/// What a capturer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Capture files, pcap or pcapng.
    Capture,
    /// Files of TPACKET_V3 blocks, as the kernel has filled them (linux/if_packet.h).
    Blocks,
}

/// What the places in a rival's arguments stand for.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The interface to capture from.
    pub interface: &'a str,
    /// The directory for its files.
    pub dir: &'a Path,
    /// MiB of buffer, all together; `None` leaves it at the tool's own default.
    pub buffer_mib: Option<u64>,
    /// A tcpdump expression.
    pub filter: Option<&'a str>,
}

/// All capturers that we know; `quaff` is the program of ours.
pub fn shipped(quaff: &Path) -> Vec<Rival> {
    let ours = Rival { program: quaff.to_owned(), ..QUAFF };
    let others = [tcpdump(), dumpcap(), netsniff(), stenographer(), gulp(), piped(quaff)];
    [ours].into_iter().chain(others).chain(tunnels(quaff)).collect()
}

/// Ours, with a mirror's headers taken off: each frame inside is looked at; or one in a hundred is
/// kept, by the number in its stamp, with the kernel's help and without.
fn tunnels(quaff: &Path) -> [Rival; 3] {
    let ours = |name, args| Rival { name, args, program: quaff.to_owned(), ..QUAFF };
    [
        ours("quaff --decap", tunnel_args!("udp", "--inner-user")),
        ours("quaff --inner", tunnel_args!("udp[16:2] % 100 = 0")),
        ours("quaff --inner-user", tunnel_args!("udp[16:2] % 100 = 0", "--inner-user")),
    ]
}

/// What [`tunnels`] have in common, and what they have not.
macro_rules! tunnel_args {
    ($($own:literal),*) => {
        &["capture", "-i", "{interface}", "-w", "{file}", "--json", "--decap", "erspan", "--inner", $($own),*]
    };
}
use tunnel_args;

const QUAFF: Rival = Rival {
    name: "quaff",
    package: "",
    program: PathBuf::new(),
    version: &["{program}", "--version"],
    args: &["capture", "-i", "{interface}", "-w", "{file}", "--json"],
    // What is in the ring helps when the disk stands still, and when the capturer itself does.
    buffer: &["--ring", "{rest}M", "--buffer", "{quarter}M"],
    filter: &["-f", "{filter}"],
    dirs: &[],
    ready: Ready::Says("capturing"),
    settle: Duration::from_millis(700),
    stop: Stop::Interrupt,
    drops: Counter::Json(&["nic_dropped", "kernel_dropped", "lost"]),
    output: Output::Capture,
};

fn tcpdump() -> Rival {
    Rival {
        name: "tcpdump",
        package: "tcpdump",
        program: "tcpdump".into(),
        args: &["-i", "{interface}", "-s0", "-n", "-Z", "root", "-w", "{file}"],
        buffer: &["-B", "{kib}"],
        filter: &["{filter}"],
        ready: Ready::Says("listening on"),
        drops: Counter::Before("packets dropped by kernel"),
        ..QUAFF
    }
}

fn dumpcap() -> Rival {
    Rival {
        name: "dumpcap",
        package: "wireshark-common",
        program: "dumpcap".into(),
        args: &["-i", "{interface}", "-q", "-w", "{file}"],
        buffer: &["-B", "{mib}"],
        ready: Ready::Says("File: "),
        // "Packets received/dropped on interface 'rx0': 2078718/921282 (pcap:921282/dumpcap:0/…"
        drops: Counter::Before("(pcap:"),
        ..QUAFF
    }
}

fn netsniff() -> Rival {
    Rival {
        name: "netsniff-ng",
        package: "netsniff-ng",
        program: "netsniff-ng".into(),
        args: &["--in", "{interface}", "--out", "{file}", "-s"],
        buffer: &["--ring-size", "{mib}MiB"],
        filter: &["{filter}"],
        // Its words are still in its own buffer when it begins.
        ready: Ready::Socket,
        drops: Counter::Before("packets failed filter (out of space)"),
        ..QUAFF
    }
}

/// The writer of Google's Stenographer, one thread, without its index.
fn stenographer() -> Rival {
    Rival {
        name: "stenographer",
        package: "stenographer",
        program: "stenotype".into(),
        // stenotype does not say.
        version: &["dpkg-query", "-W", "-f", "${Version}", "stenographer"],
        args: &[
            "--iface={interface}",
            "--dir={dir}",
            "--no_index",
            "--threads=1",
            // One file holds a run; 4095 is the most.
            "--filesize_mb=4095",
            "--fileage_sec=3600",
            "--blockage_sec=1",
            "--uid=root",
            "--gid=root",
            // Its own filter of system calls is older than the C library of today.
            "--seccomp=none",
            "--stats_blocks=16",
            "-v",
        ],
        // Blocks of 1 MiB.
        buffer: &["--blocks={mib}"],
        filter: &[],
        dirs: &["PKT0", "IDX0"],
        ready: Ready::Says("starting to process packets"),
        settle: Duration::from_millis(2500),
        // 1.0.1 hears SIGINT, waits for traffic that does not come, and its watchdog aborts it after
        // 20 minutes. By then each block that was retired has long been on disk.
        stop: Stop::Kill,
        drops: Counter::After("drops="),
        output: Output::Blocks,
    }
}

/// Corey Satten's Gulp. Its two threads choose their cores themselves.
fn gulp() -> Rival {
    Rival {
        name: "gulp",
        program: "gulp".into(),
        version: &["{program}", "-v"],
        args: &["-i", "{interface}", "-o", "{dir}", "-n", "capture"],
        buffer: &["-r", "{mib}"],
        ready: Ready::Socket,
        drops: Counter::Before("packets dropped by kernel"),
        ..QUAFF
    }
}

/// The name of tcpdump with our ring behind it.
pub const PIPED: &str = "tcpdump | quaff pipe";

/// tcpdump, whose output goes through `quaff pipe` into the file. bash, so that the process that is
/// started, asked for its CPU time and told to end is tcpdump.
fn piped(quaff: &Path) -> Rival {
    let line = format!(
        "exec tcpdump -i {{interface}} -s0 -n -Z root \"$@\" -w - > >(exec '{}' pipe -q > {{file}})",
        quaff.display()
    );
    // A few bytes that stay as long as the process, as the words of the others do.
    let args = vec!["-c", line.leak(), "bash"].leak();
    Rival {
        name: PIPED,
        program: "bash".into(),
        version: &["tcpdump", "--version"],
        args,
        filter: &[],
        ..tcpdump()
    }
}

impl Rival {
    /// The program, where it is installed; `None` where it is not.
    pub fn find(&self) -> Option<PathBuf> {
        if self.program.components().count() > 1 {
            return self.program.is_file().then(|| self.program.clone());
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let dirs: Vec<_> = env::split_paths(&path).chain(ROOT_DIRS.iter().map(PathBuf::from)).collect();
        dirs.iter().map(|dir| dir.join(&self.program)).find(|file| file.is_file())
    }

    /// Program and arguments.
    pub fn command_line(&self, program: &Path, places: &Places<'_>) -> (OsString, Vec<OsString>) {
        let file = places.dir.join("capture");
        let path = |path: &Path| path.display().to_string();
        let mut fill = vec![
            ("{interface}", places.interface.to_owned()),
            ("{file}", path(&file)),
            ("{dir}", path(places.dir)),
        ];
        let mut args = self.args.to_vec();
        if let Some(mib) = places.buffer_mib {
            let quarter = mib / 4;
            let sizes =
                [("{mib}", mib), ("{kib}", mib << 10), ("{quarter}", quarter), ("{rest}", mib - quarter)];
            fill.extend(sizes.map(|(place, size)| (place, size.to_string())));
            args.extend(self.buffer);
        }
        if let Some(filter) = places.filter {
            fill.push(("{filter}", filter.to_owned()));
            args.extend(self.filter);
        }
        let fill = |arg: &&str| {
            OsString::from(
                fill.iter().fold((*arg).to_owned(), |arg, (place, value)| arg.replace(place, value)),
            )
        };
        (program.into(), args.iter().map(fill).collect())
    }

    /// The buffer as its user would give it: `-B 262144`.
    pub fn buffer_words(&self, mib: u64) -> String {
        let places = Places { interface: "", dir: Path::new(""), buffer_mib: Some(mib), filter: None };
        let (_, args) = self.command_line(Path::new(""), &places);
        let words: Vec<_> = args[self.args.len()..].iter().map(|arg| arg.to_string_lossy()).collect();
        words.join(" ")
    }

    /// The version that it says it is; `None` when it says nothing that looks like one.
    pub fn version(&self, program: &Path) -> Option<String> {
        let (asked, args) = self.version.split_first()?;
        let asked = if *asked == "{program}" { program.as_os_str() } else { asked.as_ref() };
        let output = Command::new(asked).args(args).stdin(Stdio::null()).output().ok()?;
        let said = [output.stdout, output.stderr].concat();
        version_in(&String::from_utf8_lossy(&said)).map(str::to_owned)
    }
}

/// The first word that begins with a number and has a dot.
fn version_in(text: &str) -> Option<&str> {
    text.split_whitespace()
        .map(|word| word.trim_end_matches(['.', ',']))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
        .filter(|word| word.len() <= VERSION_CHARS_MAX)
}

#[cfg(test)]
mod tests;
