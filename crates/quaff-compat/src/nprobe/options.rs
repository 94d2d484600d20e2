//! Parses nProbe's command line as nProbe does: getopt_long(3), and a file of options instead. No translation.

use crate::getopt::{self, Program, Takes};
use std::ffi::{OsStr, OsString};

/// An option of nProbe: its letter (0 without one), its name, and whether it takes a value.
#[derive(Debug)]
pub(super) struct Spec {
    letter: u8,
    name: &'static str,
    has_value: bool,
}

const fn flag(letter: u8, name: &'static str) -> Spec {
    Spec { letter, name, has_value: false }
}

const fn value(letter: u8, name: &'static str) -> Spec {
    Spec { letter, name, has_value: true }
}

/// The options that a probe has; those of nProbe's other tasks (collector, proxy, databases) are in [`ELSEWHERE`].
static KNOWN: [Spec; 62] = [
    value(b'n', "collector"),
    value(b'i', "interface"),
    value(b't', "lifetime-timeout"),
    value(b'd', "idle-timeout"),
    value(b'l', "queue-timeout"),
    value(b's', "snaplen"),
    value(b'p', "aggregation"),
    value(b'f', "bpf-filter"),
    flag(b'a', "all-collectors"),
    value(b'b', "verbose"),
    flag(b'G', "daemon-mode"),
    value(b'O', "num-threads"),
    value(b'P', "dump-path"),
    value(b'F', "dump-frequency"),
    value(b'D', "dump-format"),
    value(b'u', "in-iface-idx"),
    value(b'Q', "out-iface-idx"),
    value(b'I', "syslog"),
    flag(b'v', "version"),
    flag(b'h', "help"),
    value(b'w', "hash-size"),
    value(b'W', "discard-unknown-flows"),
    value(b'e', "flow-delay"),
    value(b'B', "packet-count"),
    value(b'z', "min-flow-size"),
    value(b'M', "max-num-flows"),
    value(b'E', "netflow-engine"),
    value(b'C', "flow-lock"),
    value(b'm', "min-num-flows"),
    value(b'q', "sender-address"),
    value(b'S', "sample-rate"),
    value(b'A', "as-list"),
    value(b'g', "pid-file"),
    value(b'T', "flow-templ"),
    value(b'U', "flow-templ-id"),
    value(b'o', "intra-templ"),
    value(b'V', "flow-version"),
    value(b'L', "local-networks"),
    flag(b'c', "local-hosts-only"),
    flag(b'r', "local-traffic-direction"),
    value(b'1', "if-networks"),
    value(b'2', "count"),
    value(b'4', "cpu-affinity"),
    flag(b'5', "tunnel"),
    flag(b'6', "no-promisc"),
    flag(b'7', "smart-udp-frags"),
    value(b'9', "dump-stats"),
    value(b'N', "biflows-export-policy"),
    value(0, "black-list"),
    value(0, "white-list"),
    value(0, "pcap-file-list"),
    value(0, "csv-separator"),
    value(0, "city-list"),
    value(0, "max-num-untunnels"),
    value(0, "capture-direction"),
    value(0, "unprivileged-user"),
    flag(0, "account-l2"),
    flag(0, "minute-expire"),
    flag(0, "dont-drop-privileges"),
    flag(0, "dont-nest-dump-dirs"),
    flag(0, "vlanid-as-iface-idx"),
    flag(0, "dont-reforge-time"),
];

/// Options of nProbe's other tasks, each with the reason why a probe has none of it.
const ELSEWHERE: [(&str, &str); 8] = [
    ("collector-port", "it makes nProbe a collector, and this is a probe"),
    ("3", "it makes nProbe a collector, and this is a probe"),
    ("collector-passthrough", "it makes nProbe a collector, and this is a probe"),
    ("zmq", "flows are exported as NetFlow, IPFIX or text, which ntopng receives too"),
    ("kafka", "flows are exported as NetFlow, IPFIX or text"),
    ("clickhouse", "flows are exported as NetFlow, IPFIX or text"),
    ("mysql", "flows are exported as NetFlow, IPFIX or text"),
    ("elastic", "flows are exported as NetFlow, IPFIX or text"),
];

/// The options of an nProbe command line, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Options {
    given: Vec<(&'static str, OsString)>,
}

impl Options {
    /// Parses a command line.
    ///
    /// # Errors
    /// All mistakes.
    pub(super) fn read(args: &[OsString]) -> Result<Self, Vec<String>> {
        let mut options = Self::default();
        let mistakes = getopt::read(&mut options, args);
        if mistakes.is_empty() { Ok(options) } else { Err(mistakes) }
    }

    /// The names of all options that are known, and whether they take a value.
    #[cfg(test)]
    pub(super) fn known() -> impl Iterator<Item = (&'static str, bool)> {
        KNOWN.iter().map(|spec| (spec.name, spec.has_value))
    }

    /// Returns true if an option was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// The last value of an option.
    pub(super) fn value(&self, name: &str) -> Option<&OsStr> {
        self.values(name).last()
    }

    /// All values of an option, in their order.
    pub(super) fn values(&self, name: &str) -> impl Iterator<Item = &OsStr> {
        self.given.iter().filter(move |(given, _)| *given == name).map(|(_, value)| value.as_os_str())
    }

    /// The parts of all values of an option that takes a list with commas.
    pub(super) fn parts(&self, name: &str) -> Vec<String> {
        let values = self.values(name).map(|value| value.to_string_lossy().into_owned());
        let parts = values.flat_map(|value| value.split(',').map(str::to_owned).collect::<Vec<_>>());
        parts.map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
    }

    /// The value of an option that is a whole number, as atoi(3) reads it.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let text = self.value(name)?.to_string_lossy().into_owned();
        let digits: String = text.trim().chars().take_while(char::is_ascii_digit).collect();
        Some(digits.parse().unwrap_or(0))
    }
}

impl getopt::Spec for Spec {
    fn name(&self) -> &'static str {
        self.name
    }

    fn letter(&self) -> Option<u8> {
        Some(self.letter).filter(|letter| *letter != 0)
    }

    fn takes(&self) -> Takes {
        if self.has_value { Takes::Value } else { Takes::Nothing }
    }
}

impl Program for Options {
    type Spec = Spec;

    const LETTER_EQUALS: bool = true;
    const DASHES_END: bool = false;

    fn by_name(name: &str) -> Result<&'static Spec, String> {
        let is_known = KNOWN.iter().any(|spec| spec.name == name);
        let refusal = elsewhere(name).filter(|_| !is_known);
        refusal.map_or_else(|| getopt::named(&KNOWN, name, name), Err)
    }

    fn by_letter(letter: u8) -> Result<&'static Spec, String> {
        let refusal = |unknown| elsewhere(&char::from(letter).to_string()).unwrap_or(unknown);
        getopt::lettered(&KNOWN, letter).map_err(refusal)
    }

    fn take(&mut self, spec: &'static Spec, value: OsString) -> Result<(), String> {
        self.given.push((spec.name, value));
        Ok(())
    }

    fn operand(&mut self, word: &OsStr) -> Result<(), String> {
        Err(format!("'{}' is not an option", word.display()))
    }
}

/// The words of a file of options: one option in each line, `-i=eth0`, `--interface=eth0` or `-i eth0`; `#` begins a
/// comment.
pub(super) fn words(file: &str) -> Vec<OsString> {
    let lines = file.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let words = lines.flat_map(|line| {
        let end = line.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        let value = rest.trim().trim_start_matches('=').trim().trim_matches(['"', '\'']);
        match (rest.trim().strip_prefix('='), value) {
            (_, "") => vec![name.to_owned()],
            (Some(_), value) => vec![format!("{name}={value}")],
            (None, value) => vec![name.to_owned(), value.to_owned()],
        }
    });
    words.map(OsString::from).collect()
}

/// The error for an option of another task.
fn elsewhere(name: &str) -> Option<String> {
    let (_, why) = ELSEWHERE.iter().find(|(known, _)| *known == name)?;
    let dashes = if name.len() == 1 { "-" } else { "--" };
    Some(format!("{dashes}{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, Vec<String>> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Options::read(&args)
    }

    #[test]
    fn words_are_read_as_getopt_long_reads_them() {
        let options = read("-aGi eth7 -t60 --idle 15 -n 1.2.3.4:33,[::1]:34 --collector=h -V=10").unwrap();
        assert!(options.has("all-collectors") && options.has("daemon-mode") && !options.has("tunnel"));
        assert_eq!(options.value("interface"), Some(OsStr::new("eth7")));
        assert_eq!(
            (options.number("lifetime-timeout"), options.number("idle-timeout")),
            (Some(60), Some(15))
        );
        assert_eq!(options.parts("collector"), ["1.2.3.4:33", "[::1]:34", "h"]);
        assert_eq!(options.number("flow-version"), Some(10));
    }

    #[test]
    fn a_file_of_options_gives_the_same_words() {
        let file = "# probe\n-i=eth7\n\n--idle-timeout=15\n-T=\"%IN_BYTES %PROTOCOL\"\n-G\n-V 5\n";
        let options = Options::read(&words(file)).unwrap();
        assert_eq!(options.value("flow-templ"), Some(OsStr::new("%IN_BYTES %PROTOCOL")));
        assert_eq!(options.value("interface"), Some(OsStr::new("eth7")));
        assert!(options.has("daemon-mode"));
        assert_eq!(options.number("flow-version"), Some(5));
        assert_eq!(options.value("flow-version"), Some(OsStr::new("5")));
        // A value with white space and '=', with quotes or without.
        for line in
            ["-f \"port 5 and len = 9\"", "-f=port 5 and len = 9", "--bpf-filter 'port 5 and len = 9'"]
        {
            let options = Options::read(&words(line)).unwrap();
            assert_eq!(options.value("bpf-filter"), Some(OsStr::new("port 5 and len = 9")), "{line}");
        }
        let spaced = Options::read(&words("--interface eth0\n-T \"%IN_BYTES %PROTOCOL\"\n")).unwrap();
        assert_eq!(spaced.value("flow-templ"), Some(OsStr::new("%IN_BYTES %PROTOCOL")));
        assert_eq!(spaced.value("interface"), Some(OsStr::new("eth0")));
    }

    #[test]
    fn all_mistakes_are_reported() {
        let mistakes = read("--zmq tcp://x -3 2055 -X --dump x -t").unwrap_err();
        assert!(mistakes.len() >= 5, "{mistakes:?}");
        assert!(mistakes.iter().any(|words| words.contains("this is a probe")), "{mistakes:?}");
        let of_dump = mistakes.iter().find(|words| words.starts_with("--dump could be"));
        assert!(of_dump.is_some_and(|words| words.contains("--dump-path, --dump-frequency")), "{mistakes:?}");
    }

    #[test]
    fn letters_and_names_are_each_of_one_option() {
        for (at, spec) in KNOWN.iter().enumerate() {
            let same =
                |other: &&Spec| other.name == spec.name || spec.letter != 0 && other.letter == spec.letter;
            assert!(KNOWN[..at].iter().find(same).is_none(), "{}", spec.name);
        }
    }
}
