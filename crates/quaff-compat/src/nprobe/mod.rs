//! nProbe's command line, as far as a probe has it, and the lines that it prints.

mod lines;
mod native;
mod options;

pub use lines::{Counters, Periodic, Totals};

use crate::{Error, Native};
use lines::stamped;
use options::Options;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The list of nProbe's options, for a help text.
pub const OPTIONS: &str = "\
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

/// The request of a command line of nProbe.
#[derive(Debug)]
pub enum Asked {
    /// Its help.
    Help,
    /// Its version.
    Version,
    /// A run.
    Probe(Box<Probe>),
}

/// A translated command line of nProbe, with the lines around its run.
#[derive(Debug)]
pub struct Probe {
    /// The command line to run.
    pub native: Native,
    /// `--dry-run`: prints the native command line, and runs nothing.
    pub is_dry_run: bool,
    /// Lines about names of a template that are discarded.
    pub discarded: Vec<String>,
    /// Lines before the first packet.
    pub greeting: Vec<String>,
    /// The lines while packets are metered; `None` for `-b 0`.
    pub periodic: Option<Periodic>,
}

/// The fields of a template, as the exporter knows them.
#[derive(Debug, Default)]
pub struct Fields {
    /// It names at least one that is known.
    pub has_any: bool,
    /// The names that are unknown, without `%`.
    pub unknown: Vec<String>,
}

/// Parses and translates a command line, or the file of options that it names. `fields` looks up a template.
///
/// # Errors
/// All mistakes in the options, or the file that cannot be read.
pub fn read(words: &[OsString], fields: &dyn Fn(&str) -> Fields) -> Result<Asked, Error> {
    let is_dry_run = words.iter().any(|word| word == "--dry-run");
    let options = options(&given(words)?)?;
    if options.has("help") {
        return Ok(Asked::Help);
    }
    if options.has("version") {
        return Ok(Asked::Version);
    }
    let inputs = options.parts("interface");
    let missing = |words: &str| Err(Error::Missing(words.to_owned()));
    if inputs.iter().any(|name| name == "none") {
        return missing(
            "-i none makes nProbe a collector, and this is a probe: name an interface or a capture file",
        );
    }
    if inputs.is_empty() && !options.has("pcap-file-list") {
        return missing("no interface: name one with -i; 'quaff interfaces' lists them");
    }
    let mut native = Native::default();
    let text = options.value("flow-templ").map(|text| text.to_string_lossy());
    let (template, discarded) = text.map(|text| template(&text, fields, &mut native)).unwrap_or_default();
    // As nProbe does: without any known field, the default template.
    native.nprobe(&options, Some(template.as_str()).filter(|text| !text.is_empty()))?;
    let periodic = (options.value("verbose") != Some("0".as_ref())).then(Periodic::new);
    let greeting = greeting(&options, &inputs);
    Ok(Asked::Probe(Box::new(Probe { native, is_dry_run, discarded, greeting, periodic })))
}

/// Returns true if the command line meters interfaces, as far as its words show: [`read`] reports mistakes in them.
pub fn is_live(words: &[OsString]) -> bool {
    // A pipe of options, as `<(…)` is, can be read once only.
    if options_file(words).is_some_and(|file| !Path::new(file).is_file()) {
        return true;
    }
    let Ok(options) = given(words).and_then(|words| options(&words)) else { return false };
    options.parts("interface").iter().any(|name| !Path::new(name).is_file())
}

fn options(words: &[OsString]) -> Result<Options, Error> {
    Options::read(words).map_err(|mistakes| Error::Options { command: "nprobe", mistakes })
}

/// The file of options, if the command line names nothing else.
fn options_file(words: &[OsString]) -> Option<&OsStr> {
    let mut words = words.iter().filter(|word| *word != "--dry-run");
    let (file, None) = (words.next()?, words.next()) else { return None };
    (!file.as_encoded_bytes().starts_with(b"-")).then_some(file.as_os_str())
}

/// The words of the command line, or of the file of options.
fn given(words: &[OsString]) -> Result<Vec<OsString>, Error> {
    let Some(file) = options_file(words) else {
        return Ok(words.iter().filter(|word| *word != "--dry-run").cloned().collect());
    };
    let text = std::fs::read_to_string(file).map_err(Error::io("read", file))?;
    Ok(options::words(&text))
}

/// A template without the names that are unknown, and nProbe's line for each of these.
fn template(text: &str, fields: &dyn Fn(&str) -> Fields, native: &mut Native) -> (String, Vec<String>) {
    let unknown = fields(text).unknown;
    let discarded =
        |name| stamped("template.c", 2134, &format!("Unable to locate template '{name}'. Discarded."));
    let groups = text.split_whitespace().filter(|word| word.starts_with('@') && !fields(word).has_any);
    groups.for_each(|word| native.note(format!("-T: {word} stands for no field here")));
    // The words are kept as they are: the template knows names of groups too.
    let is_known = |word: &&str| !unknown.iter().any(|name| word.strip_prefix('%') == Some(name));
    let spaced = text.replace('%', " %");
    let template = spaced.split_whitespace().filter(is_known).collect::<Vec<_>>().join(" ");
    (template, unknown.iter().map(discarded).collect())
}

/// The lines before the first packet that are true here.
fn greeting(options: &Options, inputs: &[String]) -> Vec<String> {
    let (version, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let mut lines = vec![(2822, format!("Welcome to quaff nprobe v.{version} for {arch}"))];
    if let Some(bytes) = options.number("snaplen").filter(|bytes| *bytes > 0) {
        lines.push((3145, format!("Using packet capture length {bytes}")));
    }
    if !options.has("as-list") {
        lines.push((4222, "Flows ASs will not be computed ".to_owned()));
    }
    for name in inputs {
        let what = if Path::new(name).is_file() {
            "Reading packets from file"
        } else {
            "Capturing packets from interface"
        };
        lines.push((4298, format!("{what} {name}")));
    }
    lines.iter().map(|(line, words)| stamped("nprobe.c", *line, words)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_taken_out_of_a_template_and_nothing_else() {
        let fields = |text: &str| Fields {
            has_any: !text.contains("@NONE@"),
            unknown: text.contains("%BOGUS").then(|| "BOGUS".to_owned()).into_iter().collect(),
        };
        for (given, left) in [
            ("%IN_BYTES %BOGUS %PROTOCOL", "%IN_BYTES %PROTOCOL"),
            ("%IN_BYTES%BOGUS%PROTOCOL", "%IN_BYTES %PROTOCOL"),
            ("@NTOPNG@ %BOGUS %PROTOCOL", "@NTOPNG@ %PROTOCOL"),
            ("%BOGUS", ""),
        ] {
            let (text, discarded) = template(given, &fields, &mut Native::default());
            assert_eq!(text, left, "{given}");
            assert!(discarded[0].ends_with("Unable to locate template 'BOGUS'. Discarded."), "{discarded:?}");
        }
        let mut native = Native::default();
        template("@NONE@ %IN_BYTES", &fields, &mut native);
        assert_eq!(native.notes, ["-T: @NONE@ stands for no field here"]);
    }
}
