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
use crate::show::{message, name, number_of, print};
use anyhow::{Context, bail};
use clap::{Arg, ArgAction, ArgMatches, FromArgMatches};
use quaff::source::literal;
use quaff_os::filter;
use quaff_os::rtnl::{self, Link, Rtnl};
use quaff_wire::linktype;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest wait for Wireshark to open the pipe after a capture that could not start.
const READER_PATIENCE: Duration = Duration::from_secs(5);
/// linux/fcntl.h, which is the same on all architectures that quaff is built for.
const O_NONBLOCK: i32 = 0o4000;

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

/// The options of Wireshark's dialog by the names of capture's flags, whose meaning they have. Empty means unset.
#[derive(Debug, Default)]
struct Options(BTreeMap<&'static str, String>);

impl clap::Args for Options {
    /// Adds the flags of capture that the dialog has, without their conflicts and as text, which may be empty.
    fn augment_args(command: clap::Command) -> clap::Command {
        let native = capture::Args::augment_args(clap::Command::new("capture"));
        sentences::flags().fold(command, |command, (flag, help)| {
            let Some(of) = native.get_arguments().find(|arg| arg.get_long() == Some(flag)) else {
                return command;
            };
            let arg =
                Arg::new(flag).long(flag).help(help).help_heading("Capture options, as for 'quaff capture'");
            command.arg(match of.get_action() {
                ArgAction::SetTrue => arg.action(ArgAction::SetTrue),
                _ => arg.value_names(of.get_value_names().unwrap_or_default().iter().cloned()),
            })
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let value = |flag| match matches.try_get_one::<String>(flag) {
            Ok(text) => text.cloned(),
            // A flag without a value.
            Err(_) => matches.get_flag(flag).then(|| "true".to_owned()),
        };
        Ok(Self(sentences::flags().filter_map(|(flag, _)| Some((flag, value(flag)?))).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
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
    let link = rtnl::link(name.strip_prefix(sentences::PREFIX).unwrap_or(name))?;
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
    let interface = format!("--interface={}", literal(&link.name));
    let mut line: Vec<OsString> = ["capture", "-qq", &interface].map(OsString::from).into();
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
            message(&format!("lost {}; the capture's statistics show where", number_of(lost, "packet")));
        }
        let reasons = ledger.reasons.lossy.iter().chain(&ledger.reasons.unknown);
        reasons.for_each(|reason| message(reason));
    }
    if let (Some(copy), Some(dir)) = (ledger.tee, args.options.get("tee"))
        && copy.lost > 0
    {
        message(&format!(
            "Wireshark was too slow for {}; the files in {dir} have all",
            number_of(copy.lost, "packet")
        ));
    }
    Ok(Exit::of(&ledger))
}

impl Options {
    /// The value of an option that is set.
    fn get(&self, flag: &str) -> Option<&str> {
        self.0.get(flag).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The options of `quaff capture`. A packet must match Wireshark's filter and this one.
    fn native(&self, wireshark_filter: Option<&str>) -> Vec<OsString> {
        let wireshark = wireshark_filter.map(str::trim).filter(|text| !text.is_empty());
        let filter = match (wireshark, self.get("filter")) {
            (Some(one), Some(other)) => Some(format!("({one}) and ({other})")),
            (one, other) => one.or(other).map(str::to_owned),
        };
        let is_removing = self.get("decap").is_some_and(|kinds| kinds != sentences::NO_DECAP);
        let word = |flag: &'static str| {
            let value = match flag {
                "filter" => filter.clone()?,
                // Without decapsulation there are no inner frames.
                "decap" | "inner" if !is_removing => return None,
                // These need a folder.
                "rotate-size" | "keep-size" if self.get("tee").is_none() => return None,
                "no-promiscuous" => return self.get(flag).map(|_| "--no-promiscuous".into()),
                _ => self.get(flag)?.to_owned(),
            };
            Some(format!("--{flag}={value}").into())
        };
        sentences::flags().filter_map(|(flag, _)| word(flag)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;

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
        let options = |values: &[(&'static str, &str)]| {
            Options(values.iter().map(|(flag, value)| (*flag, (*value).to_owned())).collect())
        };
        assert_eq!(native(Options::default(), None), [""; 0]);
        let empty = options(&[("decap", "none"), ("inner", "tcp"), ("snaplen", ""), ("keep-size", "1G")]);
        assert_eq!(native(empty, Some(" ")), [""; 0]);
        let all = options(&[
            ("filter", "udp"),
            ("snaplen", "96"),
            ("decap", "erspan,vxlan"),
            ("inner", "tcp"),
            ("no-promiscuous", "true"),
            ("ring", "64M"),
            ("buffer", "1G"),
            ("tee", "/data"),
            ("rotate-size", "256M"),
            ("keep-size", "10G"),
        ]);
        assert_eq!(
            native(all, Some("port 53 or port 54")),
            [
                "--filter=(port 53 or port 54) and (udp)",
                "--snaplen=96",
                "--decap=erspan,vxlan",
                "--inner=tcp",
                "--no-promiscuous",
                "--ring=64M",
                "--buffer=1G",
                "--tee=/data",
                "--rotate-size=256M",
                "--keep-size=10G",
            ]
        );
    }

    #[test]
    fn the_flags_of_the_dialog_are_those_of_capture() {
        let command = Options::augment_args(clap::Command::new("extcap"));
        let flags: Vec<_> = command.get_arguments().filter_map(|arg| arg.get_long()).collect();
        assert_eq!(flags, sentences::flags().map(|(flag, _)| flag).collect::<Vec<_>>());
        let line = ["extcap", "--ring", "", "--decap", "gre", "--no-promiscuous"];
        let options = Options::from_arg_matches(&command.get_matches_from(line)).unwrap();
        let set = ["ring", "decap", "no-promiscuous", "snaplen"].map(|flag| options.get(flag));
        assert_eq!(set, [None, Some("gre"), Some("true"), None]);
    }
}
