//! `quaff extcap`: what Wireshark asks of a capture program of its own kind (extcap(4)).
//!
//! Wireshark calls it several times: which interfaces are there, what can be set, is this filter
//! right, and at last: capture into this pipe. The capture is a native command line like any other.

mod install;
mod sentences;

use super::capture;
use crate::Command;
use crate::exit::Exit;
use crate::show::{count, print, say};
use anyhow::{Context, bail};
use quaff_os::filter;
use quaff_os::rtnl::{self, Link};
use quaff_wire::linktype;
use std::ffi::OsString;
use std::path::PathBuf;

/// What our interfaces are called in Wireshark: this, and the interface's own name.
const PREFIX: &str = "quaff-";

/// Let Wireshark and tshark capture with quaff
///
/// After 'quaff extcap --install' Wireshark's list of interfaces has one more for each interface
/// here, with options behind its gear: snaplen, filter, decapsulation, ring and buffer, and a folder
/// (--tee) that gets every packet, whatever the window on the screen can take. A capture that is
/// started there is quaff's, and ends with Wireshark's.
///
/// The other options are those that Wireshark calls it with.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Have Wireshark find quaff: puts a small script into its folder for such programs
    #[arg(long, help_heading = "Set up")]
    install: bool,
    /// With --install: for all users of this machine
    #[arg(long, requires = "install", help_heading = "Set up")]
    global: bool,

    /// List the interfaces
    #[arg(long, help_heading = "Asked by Wireshark")]
    extcap_interfaces: bool,
    /// Wireshark's version
    #[arg(long, value_name = "VERSION", num_args = 0..=1, help_heading = "Asked by Wireshark")]
    extcap_version: Option<Option<String>>,
    /// The interface that is meant
    #[arg(long, value_name = "IF", help_heading = "Asked by Wireshark")]
    extcap_interface: Option<String>,
    /// List its link types
    #[arg(long, help_heading = "Asked by Wireshark")]
    extcap_dlts: bool,
    /// List its options
    #[arg(long, help_heading = "Asked by Wireshark")]
    extcap_config: bool,
    /// With --extcap-config: list the values of one option again
    #[arg(long, value_name = "OPTION", help_heading = "Asked by Wireshark")]
    extcap_reload_option: Option<String>,
    /// The capture filter; without --capture, say what is wrong with it
    #[arg(long, value_name = "EXPR", help_heading = "Asked by Wireshark")]
    extcap_capture_filter: Option<String>,
    /// Capture
    #[arg(long, requires_all = ["fifo", "extcap_interface"], help_heading = "Asked by Wireshark")]
    capture: bool,
    /// The pipe that packets go to
    #[arg(long, value_name = "PIPE", help_heading = "Asked by Wireshark")]
    fifo: Option<PathBuf>,

    /// Pipes of a toolbar; we have none
    #[arg(long, hide = true)]
    extcap_control_in: Option<PathBuf>,
    #[arg(long, hide = true)]
    extcap_control_out: Option<PathBuf>,
    /// Called when Wireshark has killed us; nothing is left behind
    #[arg(long, hide = true)]
    extcap_cleanup_postkill: bool,

    #[command(flatten)]
    options: Options,
}

/// What can be set in Wireshark's dialog; each is what it is for 'quaff capture'. Empty is not set.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Options of a capture, as 'quaff capture' knows them")]
struct Options {
    /// A tcpdump expression, run in the kernel; with Wireshark's own filter both have to match
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,
    /// Keep only the first BYTES of each packet; 0 is all
    #[arg(long, value_name = "BYTES")]
    snaplen: Option<String>,
    /// Capture what is inside tunnels: auto, or kinds with commas
    #[arg(long, value_name = "KINDS")]
    decap: Option<String>,
    /// Keep only what matches a tcpdump expression when the tunnels are off
    #[arg(long, value_name = "EXPR")]
    inner: Option<String>,
    /// Leave the interface out of promiscuous mode
    #[arg(long)]
    no_promiscuous: bool,
    /// Size of the kernel's ring
    #[arg(long, value_name = "SIZE")]
    ring: Option<String>,
    /// Size of the buffer behind it
    #[arg(long, value_name = "SIZE")]
    buffer: Option<String>,
    /// Every packet into files in DIR, also those for which Wireshark is too slow
    #[arg(long, value_name = "DIR")]
    tee: Option<String>,
    /// Size of a file there
    #[arg(long, value_name = "SIZE")]
    rotate_size: Option<String>,
    /// Keep no more than SIZE there
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
        bail!("Wireshark calls this; 'quaff extcap --install' has it do so");
    };
    // What Wireshark shows is its own name for it; typed by hand, ours will do.
    let link = rtnl::link(name.strip_prefix(PREFIX).unwrap_or(name))?;
    if args.capture {
        return capture_into_pipe(&args, &link);
    }
    if args.extcap_dlts {
        print(&sentences::dlts(&link));
    } else if args.extcap_config {
        print(&sentences::config(args.extcap_reload_option.as_deref()));
    } else if let Some(expression) = &args.extcap_capture_filter {
        // Silence is what Wireshark takes for consent, and a line for what is wrong.
        if let Some(trouble) = trouble(&link, expression) {
            print(&trouble);
        }
    }
    Ok(Exit::Done)
}

/// The interfaces that quaff can capture from.
fn links() -> anyhow::Result<Vec<Link>> {
    let mut links = rtnl::links()?;
    links.retain(|link| linktype::of_arphrd(link.arphrd).is_some());
    // Those that are switched on come first, as Wireshark's own do.
    links.sort_by_key(|link| (!link.up, link.index));
    Ok(links)
}

/// What is wrong with a filter, in a line.
fn trouble(link: &Link, expression: &str) -> Option<String> {
    if expression.trim().is_empty() {
        return None;
    }
    let kind = linktype::of_arphrd(link.arphrd).unwrap_or(linktype::ETHERNET);
    filter::compile(&link.name, kind.dlt, expression, 0xffff).err().map(|error| error.message)
}

fn capture_into_pipe(args: &Args, link: &Link) -> anyhow::Result<Exit> {
    let fifo = args.fifo.as_ref().context("--fifo says where the packets go")?;
    let mut line: Vec<OsString> = ["capture", "-qq", "-i", &link.name].map(OsString::from).into();
    line.extend(["-w".into(), fifo.into()]);
    line.extend(args.options.native(args.extcap_capture_filter.as_deref()));
    let Command::Capture(native) = crate::read(&line)? else { bail!("'{line:?}' captures nothing") };
    let Some(ledger) = capture::capture(&native, &native.plan()?.validate()?)? else { return Ok(Exit::Done) };
    // Wireshark shows what is said here in a window of its own, so only loss is worth a word.
    if ledger.failure.is_none() && !ledger.lossless {
        let lost = ledger.nic_dropped + ledger.kernel_dropped + ledger.lost;
        say(&format!("quaff: {} packets were lost; the capture's statistics say where", count(lost)));
    }
    if let (Some(copy), Some(dir)) = (ledger.tee, &args.options.tee)
        && copy.lost > 0
    {
        say(&format!(
            "quaff: Wireshark was too slow for {} packets; the files in {dir} have them",
            count(copy.lost)
        ));
    }
    Ok(capture::exit(&ledger))
}

impl Options {
    /// As options of `quaff capture`. Wireshark's own filter and ours have to match both.
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
            // Without tunnels to take off there is nothing inside.
            ("--inner", if decap.as_deref().is_some_and(is_set) { &self.inner } else { &None }),
            ("--ring", &self.ring),
            ("--buffer", &self.buffer),
            ("--tee", &self.tee),
            // These are a folder's, and mean nothing without one.
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
