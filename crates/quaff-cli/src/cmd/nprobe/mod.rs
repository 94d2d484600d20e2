//! `quaff nprobe`: the command line of nProbe, translated to a native one.
//!
//! The native command line is parsed and run like any other. Implemented here are only nProbe's periodic lines.

mod lines;
mod native;
mod options;

use super::flows::{self, Progress};
use super::native::{Native, checked, print_help};
use crate::Command;
use crate::exit::Exit;
use crate::show::{message, print};
use anyhow::{Context as _, bail};
use lines::{Lines, stamped};
use options::Options;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::{Duration, Instant};

/// Interval of nProbe's lines.
const EACH: Duration = Duration::from_secs(30);

/// Accept the command line of nProbe, as far as a probe has it, with its periodic lines
///
/// nProbe's command lines work with 'quaff ' in front; --dry-run prints the equivalent native command. Flows go to
/// the collectors of -n, or to 127.0.0.1:2055, as NetFlow v9 unless -V says otherwise. ^C ends it: the flows of the
/// table are exported, and the report of 'quaff flows' follows.
#[derive(Debug, clap::Args)]
#[command(after_help = OPTIONS, override_usage = "quaff nprobe [OPTIONS]")]
pub(crate) struct Args {
    /// Options of nProbe, or a file of them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS", hide = true)]
    options: Vec<OsString>,
}

impl Args {
    /// Meters interfaces, as far as the words say: mistakes in them are reported later.
    pub(crate) fn is_live(&self) -> bool {
        // A pipe of options, as `<(…)` is, can be read once only.
        if options_file(&self.options).is_some_and(|file| !Path::new(file).is_file()) {
            return true;
        }
        let options = given(&self.options).map(|words| Options::read(&words));
        let Ok(Ok(options)) = options else { return false };
        let is_interface = |name: &String| !Path::new(name).is_file();
        options.parts("interface").iter().any(is_interface)
    }
}

const OPTIONS: &str = "\
Packets:
  -i, --interface IF|FILE    interface, or a capture file; a list with commas for more
  --pcap-file-list FILE      capture files, one in each line
  -f, --bpf-filter EXPR      tcpdump filter
  -s, --snaplen N            bytes to keep of each packet
  -5, --tunnel               flows inside tunnels; --max-num-untunnels N
  -6, --no-promisc           leave the interface as it is
  -S, --sample-rate N:..     one packet of N
  -2, --count N              end after N packets

Flows:
  -t, --lifetime-timeout N   longest time of a flow, seconds [default: 120]
  -d, --idle-timeout N       time without a packet after which it ends [default: 30]
  -p, --aggregation 1/1/..   fields of the key: vlan/protocol/addresses/ports/tos
  -M, --max-num-flows N      most flows at a time

Export:
  -n, --collector H:P|none   udp:// or tcp://; a list with commas, or repeated, in turns
                             [default: 127.0.0.1:2055]
  -a, --all-collectors       all flows to all collectors
  -V, --flow-version N       5, 9 or 10 [default: 9]
  -T, --flow-templ TEXT      fields, such as \"%IPV4_SRC_ADDR %IN_BYTES\"
  -U, --flow-templ-id N      number of the template
  -l, --queue-timeout N      longest time until a record leaves, seconds
  -u, -Q N                   indexes of the interfaces in and out
  -E, --netflow-engine T:I   engine; -q ADDR: address to send from, over UDP
  -e, --flow-delay MS        pause after each message; -B N: after each N-th
  -o, --intra-templ N        messages between templates
  -N, --biflows-export-policy N   0 all conversations, 1 answered, 2 unanswered
  -A, --as-list FILE         AS numbers of addresses
  -P, --dump-path DIR        text in DIR as well; --csv-separator C

  -b 0                       no periodic lines; --dry-run: the native command; -v, -h

Accepted without effect: -1 -4 -7 -9 -C -D -F -G -I -L -O -W -c -g -m -r -w -z
and long options that docs/nprobe.md lists

Examples:
  quaff nprobe -i eth7 -n 10.0.0.1:2055 -V 10
  quaff nprobe --dry-run -i eth7 -n none -t 60";

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let is_dry_run = args.options.iter().any(|word| word == "--dry-run");
    let options = checked(Options::read(&given(&args.options)?), "nprobe")?;
    if options.has("help") {
        return print_help("nprobe");
    }
    if options.has("version") {
        print(concat!("quaff ", env!("CARGO_PKG_VERSION"), ", in the place of nProbe"));
        return Ok(Exit::Done);
    }
    let inputs = options.parts("interface");
    if inputs.iter().any(|name| name == "none") {
        bail!("-i none makes nProbe a collector, and this is a probe: name an interface or a capture file");
    }
    if inputs.is_empty() && !options.has("pcap-file-list") {
        bail!("no interface: name one with -i; 'quaff interfaces' lists them");
    }
    // As nProbe does: without any known field, the default template.
    let template = options.value("flow-templ").map(|text| template(&text.to_string_lossy()));
    let template = template.filter(|text| !text.is_empty());
    let native = Native::nprobe(&options, template.as_deref())?;
    native.notes.iter().for_each(|note| message(note));
    if is_dry_run {
        print(&native.line());
        return Ok(Exit::Done);
    }
    greet(&options, &inputs);
    match crate::read(&native.args)? {
        Command::Flows(flows) => {
            let mut periodic = (options.value("verbose") != Some("0".as_ref())).then(Periodic::new);
            // Its own lines tell the progress.
            flows::run_with(&flows, false, &mut |progress| {
                if let Some(periodic) = &mut periodic {
                    periodic.look(progress);
                }
            })
        }
        other => crate::run(other),
    }
}

/// The file of options, if the command line names nothing else.
fn options_file(words: &[OsString]) -> Option<&OsStr> {
    let mut words = words.iter().filter(|word| *word != "--dry-run");
    let (file, None) = (words.next()?, words.next()) else { return None };
    (!file.as_encoded_bytes().starts_with(b"-")).then_some(file.as_os_str())
}

/// The words of the command line, or of the file of options.
fn given(words: &[OsString]) -> anyhow::Result<Vec<OsString>> {
    let Some(file) = options_file(words) else {
        return Ok(words.iter().filter(|word| *word != "--dry-run").cloned().collect());
    };
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    Ok(options::words(&text))
}

/// A template without the names that are unknown; a line names each of these, as nProbe's does.
fn template(text: &str) -> String {
    let unknown = flows::unknown_fields(text);
    for name in &unknown {
        print(&stamped("template.c", 2134, &format!("Unable to locate template '{name}'. Discarded.")));
    }
    for word in text.split_whitespace().filter(|word| word.starts_with('@') && !flows::has_fields(word)) {
        message(&format!("-T: {word} stands for no field here"));
    }
    // The words are kept as they are: the template knows names of groups too.
    let is_known = |word: &&str| !unknown.iter().any(|name| word.strip_prefix('%') == Some(name));
    let spaced = text.replace('%', " %");
    spaced.split_whitespace().filter(is_known).collect::<Vec<_>>().join(" ")
}

/// The lines before the first packet that are true here.
fn greet(options: &Options, inputs: &[String]) {
    let arch = std::env::consts::ARCH;
    let say = |line, words: &str| print(&stamped("nprobe.c", line, words));
    say(2822, &format!("Welcome to quaff nprobe v.{} for {arch}", env!("CARGO_PKG_VERSION")));
    if let Some(bytes) = options.number("snaplen").filter(|bytes| *bytes > 0) {
        say(3145, &format!("Using packet capture length {bytes}"));
    }
    if !options.has("as-list") {
        say(4222, "Flows ASs will not be computed ");
    }
    for name in inputs {
        match Path::new(name).is_file() {
            true => say(4298, &format!("Reading packets from file {name}")),
            false => say(4298, &format!("Capturing packets from interface {name}")),
        }
    }
}

/// nProbe's lines, at their times and at the end.
struct Periodic {
    lines: Lines,
    begun: Instant,
    shown: Instant,
}

impl Periodic {
    fn new() -> Self {
        let now = Instant::now();
        Self { lines: Lines::default(), begun: now, shown: now }
    }

    fn look(&mut self, progress: &Progress) {
        let (now, counters) = (self.begun.elapsed(), counters(progress));
        self.lines.see(now, &counters);
        if self.shown.elapsed() >= EACH || progress.is_last {
            self.shown = Instant::now();
            self.lines.report(now, &counters).iter().for_each(|line| print(line));
        }
    }
}

fn counters(progress: &Progress) -> lines::Counters {
    let totals = |of: &flows::Totals| lines::Totals { flows: of.flows, packets: of.packets, bytes: of.bytes };
    lines::Counters {
        packets: progress.packets,
        bytes: progress.bytes,
        exported: totals(&progress.exported),
        sent: totals(&progress.sent),
        missed: totals(&progress.missed),
        active: progress.active,
        allocated: progress.allocated,
        fragments: progress.fragments,
        evicted: progress.evicted,
        queued: progress.queued,
        queue_max: progress.queue_max,
        probes_max: progress.probes_max,
        received: progress.received,
        dropped: progress.dropped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_taken_out_of_a_template_and_nothing_else() {
        for (given, left) in [
            ("%IN_BYTES %BOGUS %PROTOCOL", "%IN_BYTES %PROTOCOL"),
            ("%IN_BYTES%BOGUS%PROTOCOL", "%IN_BYTES %PROTOCOL"),
            ("@NTOPNG@ %BOGUS %PROTOCOL", "@NTOPNG@ %PROTOCOL"),
            ("%BOGUS", ""),
        ] {
            assert_eq!(template(given), left, "{given}");
        }
    }
}
