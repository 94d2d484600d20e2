//! `quaff extcap`: Wireshark's interface to external capture programs (extcap(4)).
//!
//! Wireshark calls it several times: to list interfaces and options, to check a filter, and finally to capture
//! into a pipe. The capture is translated to a native command line.

mod install;
mod sentences;

use super::capture;
use crate::exit::Exit;
use crate::line;
use crate::shell::EndedEarly;
use crate::show::{count, message, name, print};
use anyhow::{Context, bail};
use quaff_os::filter;
use quaff_os::rtnl::{self, Link, Rtnl};
use quaff_wire::linktype;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest wait for Wireshark to open the pipe after a capture that could not start.
const READER_PATIENCE: Duration = Duration::from_secs(5);
/// linux/fcntl.h, which is the same on all architectures that quaff is built for.
const O_NONBLOCK: i32 = 0o4000;
/// Prefix of an interface's name in Wireshark.
const PREFIX: &str = "quaff-";

/// Let Wireshark and tshark capture with quaff
///
/// After 'quaff extcap --install', Wireshark lists one additional interface per local interface, with options
/// in its gear menu: snaplen, filter, decapsulation, ring, buffer, and a folder (--tee) that receives every packet
/// even when Wireshark cannot keep up. quaff captures for Wireshark, and stops when Wireshark stops.
///
/// Wireshark itself uses the other options.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Register quaff with Wireshark: write a small script into its extcap folder
    #[arg(long, help_heading = "Installation")]
    install: bool,
    /// Install for all users of this machine
    #[arg(long, requires = "install", help_heading = "Installation")]
    global: bool,

    /// List the interfaces
    #[arg(long, help_heading = "Protocol with Wireshark")]
    extcap_interfaces: bool,
    /// Version of Wireshark
    #[arg(long, value_name = "VERSION", num_args = 0..=1, help_heading = "Protocol with Wireshark")]
    extcap_version: Option<Option<String>>,
    /// Interface to query or capture from
    #[arg(long, value_name = "IF", help_heading = "Protocol with Wireshark")]
    extcap_interface: Option<String>,
    /// List the interface's link types
    #[arg(long, help_heading = "Protocol with Wireshark")]
    extcap_dlts: bool,
    /// List the interface's options
    #[arg(long, help_heading = "Protocol with Wireshark")]
    extcap_config: bool,
    /// List the values of one option again (with --extcap-config)
    #[arg(long, value_name = "OPTION", help_heading = "Protocol with Wireshark")]
    extcap_reload_option: Option<String>,
    /// Capture filter; without --capture, report its errors
    #[arg(long, value_name = "EXPR", help_heading = "Protocol with Wireshark")]
    extcap_capture_filter: Option<String>,
    /// Capture packets
    #[arg(long, requires_all = ["fifo", "extcap_interface"], help_heading = "Protocol with Wireshark")]
    capture: bool,
    /// Pipe to write packets to
    #[arg(long, value_name = "PIPE", help_heading = "Protocol with Wireshark")]
    fifo: Option<PathBuf>,

    /// Pipes of a toolbar, which quaff does not have
    #[arg(long, hide = true)]
    extcap_control_in: Option<PathBuf>,
    #[arg(long, hide = true)]
    extcap_control_out: Option<PathBuf>,
    /// Cleanup after Wireshark killed quaff, which needs none
    #[arg(long, hide = true)]
    extcap_cleanup_postkill: bool,

    #[command(flatten)]
    options: Options,
}

/// The options of Wireshark's dialog, with the meaning they have for 'quaff capture'. Empty means unset.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Capture options, as for 'quaff capture'")]
struct Options {
    /// Keep only packets that match a tcpdump expression, in addition to Wireshark's own filter
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,
    /// Bytes to keep of each packet; 0 keeps all
    #[arg(long, value_name = "BYTES")]
    snaplen: Option<String>,
    /// Remove tunnel headers: auto, or a list of kinds
    #[arg(long, value_name = "KINDS")]
    decap: Option<String>,
    /// Keep only frames that match a tcpdump expression after decapsulation
    #[arg(long, value_name = "EXPR")]
    inner: Option<String>,
    /// Do not put the interface into promiscuous mode
    #[arg(long)]
    no_promiscuous: bool,
    /// Size of the kernel's receive ring
    #[arg(long, value_name = "SIZE")]
    ring: Option<String>,
    /// Size of the buffer between kernel and output
    #[arg(long, value_name = "SIZE")]
    buffer: Option<String>,
    /// Write every packet into files in DIR, including those that Wireshark misses
    #[arg(long, value_name = "DIR")]
    tee: Option<String>,
    /// Size of each file there
    #[arg(long, value_name = "SIZE")]
    rotate_size: Option<String>,
    /// Keep at most SIZE there
    #[arg(long, value_name = "SIZE")]
    keep_size: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  quaff extcap --install
  tshark -D
  tshark -i quaff-eth0 -f 'tcp port 443' -o extcap.quaff_eth0.tee:/data";

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    if args.install {
        return install::install(args.global);
    }
    if args.extcap_cleanup_postkill {
        return Ok(Exit::Done);
    }
    if args.extcap_interfaces {
        print(&sentences::interfaces(&links()?));
        return Ok(Exit::Done);
    }
    let Some(name) = &args.extcap_interface else {
        bail!("Wireshark calls this command; 'quaff extcap --install' registers it");
    };
    // Wireshark passes its own name for the interface; a plain name is accepted too.
    let link = rtnl::link(name.strip_prefix(PREFIX).unwrap_or(name))?;
    if args.capture {
        return capture_into_pipe(&args, &link);
    }
    if args.extcap_dlts {
        print(&sentences::dlts(&link));
    } else if args.extcap_config {
        print(&sentences::config(args.extcap_reload_option.as_deref()));
    } else if let Some(expression) = &args.extcap_capture_filter {
        // Wireshark accepts a filter on empty output, and shows any other output as its error.
        if let Some(trouble) = trouble(&link, expression) {
            print(&trouble);
        }
    }
    Ok(Exit::Done)
}

/// The interfaces that quaff can capture from.
fn links() -> anyhow::Result<Vec<Link>> {
    let mut links = Rtnl::open()?.links()?;
    links.retain(|link| linktype::of_arphrd(link.arphrd).is_some() && is_sayable(&link.name));
    // Interfaces that are up come first, as in Wireshark.
    links.sort_by_key(|link| (!link.up, link.index));
    Ok(links)
}

/// Wireshark reads such a name back as it is: it ends no pair of a sentence, and no terminal obeys it.
fn is_sayable(interface: &str) -> bool {
    name(interface) == interface && !interface.contains(['{', '}'])
}

/// The error in a filter, as one line.
fn trouble(link: &Link, expression: &str) -> Option<String> {
    if expression.trim().is_empty() {
        return None;
    }
    let kind = linktype::of_arphrd(link.arphrd).unwrap_or(linktype::ETHERNET);
    filter::compile(&link.name, kind.dlt, expression, 0xffff).err().map(|error| error.message)
}

fn capture_into_pipe(args: &Args, link: &Link) -> anyhow::Result<Exit> {
    let fifo = args.fifo.as_ref().context("--fifo is missing")?;
    let captured = capture_into(fifo, args, link);
    if captured.is_err() {
        release(fifo);
    }
    captured
}

/// Opens the pipe and closes it: Wireshark waits for its end without a limit, although quaff has ended.
fn release(fifo: &Path) {
    let begun = Instant::now();
    // Without a reader there is nothing to open yet, and an error.
    while begun.elapsed() < READER_PATIENCE {
        if File::options().write(true).custom_flags(O_NONBLOCK).open(fifo).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn capture_into(fifo: &Path, args: &Args, link: &Link) -> anyhow::Result<Exit> {
    let mut line: Vec<OsString> = ["capture", "-qq", "-i", &link.name].map(OsString::from).into();
    line.extend(["-w".into(), fifo.into()]);
    line.extend(args.options.native(args.extcap_capture_filter.as_deref()));
    let native: capture::Args = line::parse(&line)?;
    let ledger = match capture::capture(&native, &native.plan()?.validate()?) {
        Ok(ledger) => ledger,
        // Wireshark ended it before the first packet.
        Err(error) if error.is::<EndedEarly>() => return Ok(Exit::Done),
        Err(error) => return Err(error),
    };
    // Wireshark shows each line on stderr in a window, so only loss is reported.
    if ledger.failure.is_none() && !ledger.lossless {
        let lost = ledger.nic_dropped + ledger.kernel_dropped + ledger.lost;
        if lost > 0 {
            message(&format!("{} packets were lost; the capture's statistics show where", count(lost)));
        }
        let reasons = ledger.reasons.lossy.iter().chain(&ledger.reasons.unknown);
        reasons.for_each(|reason| message(reason));
    }
    if let (Some(copy), Some(dir)) = (ledger.tee, &args.options.tee)
        && copy.lost > 0
    {
        message(&format!(
            "Wireshark was too slow for {} packets; the files in {dir} have them",
            count(copy.lost)
        ));
    }
    Ok(Exit::of(&ledger))
}

impl Options {
    /// The options of `quaff capture`. A packet must match Wireshark's filter and this one.
    fn native(&self, wireshark_filter: Option<&str>) -> Vec<OsString> {
        let filters: Vec<_> = [wireshark_filter, self.filter.as_deref()]
            .into_iter()
            .flatten()
            .filter(|text| is_set(text))
            .collect();
        let filter = match filters[..] {
            [] => None,
            [one] => Some(one.to_owned()),
            _ => Some(format!("({})", filters.join(") and ("))),
        };
        let decap = self.decap.clone().filter(|kinds| kinds != sentences::NO_DECAP);
        let mut line = Vec::new();
        for (option, value) in [
            ("--filter", &filter),
            ("--snaplen", &self.snaplen),
            ("--decap", &decap),
            // Without decapsulation there are no inner frames.
            ("--inner", if decap.as_deref().is_some_and(is_set) { &self.inner } else { &None }),
            ("--ring", &self.ring),
            ("--buffer", &self.buffer),
            ("--tee", &self.tee),
            // These need a folder.
            ("--rotate-size", self.of_folder(&self.rotate_size)),
            ("--keep-size", self.of_folder(&self.keep_size)),
        ] {
            if let Some(value) = value.as_deref().filter(|value| is_set(value)) {
                line.push(format!("{option}={}", value.trim()).into());
            }
        }
        if self.no_promiscuous {
            line.push("--no-promiscuous".into());
        }
        line
    }

    fn of_folder<'a>(&self, value: &'a Option<String>) -> &'a Option<String> {
        if self.tee.as_deref().is_some_and(is_set) { value } else { &None }
    }
}

fn is_set(text: &str) -> bool {
    !text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(options: Options, filter: Option<&str>) -> Vec<String> {
        options.native(filter).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn names_that_would_break_a_sentence_are_not_listed() {
        assert!(is_sayable("eth0.100") && is_sayable("wg-µ"));
        assert!(!is_sayable("a}{b=c}") && !is_sayable("a\u{1b}[m") && !is_sayable("a\u{202e}b"));
    }

    #[test]
    fn options_become_those_of_capture() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(native(Options::default(), None), [""; 0]);
        let empty = Options {
            decap: some("none"),
            inner: some("tcp"),
            snaplen: some(""),
            keep_size: some("1G"),
            ..Options::default()
        };
        assert_eq!(native(empty, Some(" ")), [""; 0]);
        let options = Options {
            filter: some("udp"),
            snaplen: some("96"),
            decap: some("erspan,vxlan"),
            inner: some("tcp"),
            no_promiscuous: true,
            ring: some("64M"),
            buffer: some("1G"),
            tee: some("/data"),
            rotate_size: some("256M"),
            keep_size: some("10G"),
        };
        assert_eq!(
            native(options, Some("port 53 or port 54")),
            [
                "--filter=(port 53 or port 54) and (udp)",
                "--snaplen=96",
                "--decap=erspan,vxlan",
                "--inner=tcp",
                "--ring=64M",
                "--buffer=1G",
                "--tee=/data",
                "--rotate-size=256M",
                "--keep-size=10G",
                "--no-promiscuous"
            ]
        );
    }
}
