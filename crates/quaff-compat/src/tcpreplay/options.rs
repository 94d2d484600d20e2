//! Parses tcpreplay's command line as AutoOpts does. No translation.
//!
//! Names may be abbreviated as long as they are unique, `_` equals `-`, and files may stand between the options.

use super::table::{self, Kind, Spec};
use crate::getopt::{self, Program};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A parsed command line of tcpreplay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// The last value of each given option; empty for flags.
    given: BTreeMap<&'static str, OsString>,
    /// Files and folders, in order.
    pub(super) files: Vec<OsString>,
}

impl Options {
    /// Parses a command line.
    ///
    /// # Errors
    /// All mistakes.
    pub(super) fn read(args: &[OsString]) -> Result<Self, Vec<String>> {
        let mut options = Self::default();
        let mut mistakes = getopt::read(&mut options, args);
        mistakes.extend(options.load());
        mistakes.extend(options.mistakes());
        if mistakes.is_empty() { Ok(options) } else { Err(mistakes) }
    }

    /// Adds the options of the file of `--load-opts`; returns its mistakes. Those of the command line count more.
    fn load(&mut self) -> Vec<String> {
        let Some(path) = self.value("load-opts").map(PathBuf::from) else { return Vec::new() };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => return vec![format!("--load-opts: read {}: {error}", path.display())],
        };
        let (mut loaded, mut mistakes) = (Self::default(), Vec::new());
        // What comes before the first section is for every program.
        let mut is_ours = true;
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(program) = section(line) {
                is_ours = program.eq_ignore_ascii_case("tcpreplay");
            } else if !is_ours {
                continue;
            } else if let Err(mistake) = loaded.line(line) {
                mistakes.push(format!("{}:{number}: {mistake}", path.display()));
            }
        }
        for (name, value) in loaded.given {
            self.given.entry(name).or_insert(value);
        }
        mistakes
    }

    /// A line of a file of options as AutoOpts writes it: a name without dashes, then its value after blanks, `=` or
    /// `:`, perhaps in quotes; `#` begins a comment.
    fn line(&mut self, line: &str) -> Result<(), String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let end = line.find(|c: char| c.is_whitespace() || "=:".contains(c)).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        let rest = rest.trim_start();
        let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim();
        let quoted = ['"', '\''].iter().find_map(|mark| rest.strip_prefix(*mark)?.strip_suffix(*mark));
        let spec = table::by_name(name.trim_start_matches('-'))?;
        match (spec.kind, quoted.unwrap_or(rest)) {
            (Kind::Flag, value) if !value.is_empty() => Err(format!("{} takes no value", spec.name)),
            (Kind::Flag | Kind::Perhaps, value) => self.take(spec, value.into()),
            (_, "") => Err(format!("{} needs a value", spec.name)),
            (_, value) => self.take(spec, value.into()),
        }
    }

    /// True if an option was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The value of an option, if it was given.
    pub(super) fn value(&self, name: &str) -> Option<&OsStr> {
        self.given.get(name).map(OsString::as_os_str)
    }

    /// The value of an option that is a whole number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.value(name).and_then(whole)
    }

    /// The value of an option that is a number, possibly fractional.
    pub(super) fn fraction(&self, name: &str) -> Option<f64> {
        self.value(name).and_then(fraction)
    }

    /// The conflicts between options.
    fn mistakes(&self) -> Vec<String> {
        let given = self.given.keys().filter_map(|name| table::by_name(name).ok());
        let mut mistakes = Vec::new();
        for spec in given {
            let missing = spec.needs.iter().filter(|other| !self.has(other));
            mistakes.extend(missing.map(|other| format!("--{} needs --{other}", spec.name)));
            let clash = spec.never_with.iter().filter(|other| self.has(other) && **other > spec.name);
            mistakes.extend(clash.map(|other| format!("--{} and --{other} cannot be combined", spec.name)));
        }
        if self.has("intf2") && !["cachefile", "dualfile"].iter().any(|name| self.has(name)) {
            mistakes.push("--intf2 needs --cachefile or --dualfile".into());
        }
        if self.has("dualfile") && self.files.len() % 2 == 1 {
            mistakes.push("--dualfile takes files in pairs: one for each interface".into());
        }
        if let Some(name) =
            self.value("timer").filter(|name| !table::TIMERS.iter().any(|timer| timer == name))
        {
            mistakes.push(format!("--timer: '{}' is none of {}", name.display(), table::TIMERS.join(", ")));
        }
        if self.fraction("unique-ip-loops").is_some_and(|loops| loops < 1.0) {
            mistakes.push("--unique-ip-loops: at least 1".into());
        }
        mistakes
    }
}

impl Program for Options {
    type Spec = Spec;

    const LETTER_EQUALS: bool = false;
    const DASHES_END: bool = true;

    fn by_name(name: &str) -> Result<&'static Spec, String> {
        table::by_name(name)
    }

    fn by_letter(letter: u8) -> Result<&'static Spec, String> {
        table::by_letter(letter)
    }

    fn take(&mut self, spec: &'static Spec, value: OsString) -> Result<(), String> {
        let shown = value.display();
        match spec.kind {
            Kind::Number { least, most } if !whole(&value).is_some_and(|n| (least..=most).contains(&n)) => {
                let range =
                    if most == u64::MAX { format!("{least} or more") } else { format!("{least} to {most}") };
                return Err(format!("--{}: '{shown}' is not a number of {range}", spec.name));
            }
            Kind::Fraction if fraction(&value).is_none() => {
                return Err(format!("--{}: '{shown}' is not a number", spec.name));
            }
            _ => {}
        }
        if self.given.insert(spec.name, value).is_some() && spec.once {
            return Err(format!("--{} was given twice", spec.name));
        }
        Ok(())
    }

    fn operand(&mut self, word: &OsStr) -> Result<(), String> {
        self.files.push(word.to_owned());
        Ok(())
    }
}

/// The program that the following lines of a file of options are for: `[TCPREPLAY]` or `<?program tcpreplay>`.
fn section(line: &str) -> Option<&str> {
    let line = line.trim();
    let bracketed = || line.strip_prefix('[')?.strip_suffix(']');
    let directed = || line.strip_prefix("<?program")?.strip_suffix('>');
    bracketed().or_else(directed).map(str::trim)
}

/// A whole number, decimal or hexadecimal.
fn whole(text: &OsStr) -> Option<u64> {
    let text = text.to_str()?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn fraction(text: &OsStr) -> Option<f64> {
    text.to_str()?.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, Vec<String>> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Options::read(&args)
    }

    #[track_caller]
    fn mistakes(line: &str) -> Vec<String> {
        read(line).expect_err(line)
    }

    #[test]
    fn words_are_parsed_as_by_autoopts() {
        let options = read("-i eth7 -tK --loop 50 --unique-ip bigFlows.pcap").unwrap();
        assert!(["topspeed", "preload-pcap", "unique-ip"].iter().all(|name| options.has(name)));
        assert_eq!((options.value("intf1"), options.number("loop")), (Some("eth7".as_ref()), Some(50)));
        assert_eq!(options.files, ["bigFlows.pcap"]);
        let same = read("--intf1=eth7 --tops --preload_PCAP -l50 --unique-ip -- bigFlows.pcap").unwrap();
        assert_eq!(same, options);
        assert_eq!(read("-ieth7 -Ktl 50 --unique-ip bigFlows.pcap").unwrap(), options);
        assert_eq!(read("-i eth7 a.pcap -tK - b").unwrap().files, ["a.pcap", "-", "b"]);
        assert_eq!(read("-i a -2 -I b x y").unwrap().files.len(), 2);
    }

    #[test]
    fn numbers_are_numbers() {
        assert_eq!(read("-i a -M 3500.5").unwrap().fraction("mbps"), Some(3500.5));
        assert_eq!(read("-i a -p 0.25").unwrap().fraction("pps"), Some(0.25));
        assert_eq!(read("-i a -l 0x10").unwrap().number("loop"), Some(16));
        for line in ["-l -1", "-l x", "-L 0", "-x fast", "--duration 0", "-d 6", "--stats", "-p nan", "-M -1"]
        {
            assert_eq!(mistakes(line).len(), 1, "{line}");
        }
    }

    #[test]
    fn options_come_from_a_file_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("options");
        let file = format!("--load-opts={}", path.display());
        std::fs::write(&path, "# replay\nintf1 = eth7\n\npps 5\nloop: 3\ninclude = '1-5,7'\nquiet\n")
            .unwrap();
        let options = read(&format!("{file} -p 9 f")).unwrap();
        assert_eq!(options.value("intf1"), Some(OsStr::new("eth7")));
        assert_eq!((options.fraction("pps"), options.number("loop")), (Some(9.0), Some(3)));
        assert_eq!((options.value("include"), options.has("quiet")), (Some(OsStr::new("1-5,7")), true));
        std::fs::write(&path, "quiet yes\nnonsense\npps\nloop x\nintf1 a\n").unwrap();
        let reported = mistakes(&file);
        let expected = [
            ":1: quiet takes no value",
            ":2: there is no option --nonsense",
            ":3: pps needs",
            ":4: --loop: 'x'",
        ];
        assert!(
            reported.len() == 4 && reported.iter().zip(expected).all(|(one, part)| one.contains(part)),
            "{reported:?}"
        );
        // As in the file of tcpreplay's own tests.
        let shared = "quiet\n[TCPREPLAY]\ncachefile   cache\nintf1 a\nintf2 b\ntopspeed\n\n\
            [TCPREWRITE]\ninfile test.pcap\nvlan add\n[ tcpreplay ]\nlimit 7\n[TCPPREP]\nauto bridge\n\
            <?program tcpreplay>\nloop 3\n<?program tcpprep>\nnonip\n";
        std::fs::write(&path, shared).unwrap();
        let options = read(&format!("{file} f")).unwrap();
        assert!(["quiet", "topspeed"].iter().all(|name| options.has(name)));
        assert_eq!(
            ["intf1", "intf2", "cachefile"].map(|name| options.value(name).unwrap()),
            ["a", "b", "cache"]
        );
        assert_eq!((options.number("limit"), options.number("loop")), (Some(7), Some(3)));
        assert!(mistakes("--load-opts=/nowhere/options -i a")[0].contains("/nowhere/options"));
    }

    #[test]
    fn conflicts_are_reported() {
        for (line, reported) in [
            ("-t -p 5", "--pps and --topspeed cannot be combined"),
            ("-x 2 -M 5", "--mbps and --multiplier cannot be combined"),
            ("--unique-ip", "--unique-ip needs --loop"),
            ("-c f -i a", "--cachefile needs --intf2"),
            ("-i a -I b f", "--intf2 needs --cachefile or --dualfile"),
            ("-i a -I b -2 f", "--dualfile takes files in pairs: one for each interface"),
            ("-A -e", "--decode needs --verbose"),
            ("-t -t -i a -i b", "--intf1 was given twice"),
            ("-T clock", "--timer: 'clock' is none of select, ioport, gtod, nano"),
            ("--lo 5", "--lo could be --load-opts, --loop, --loopdelay-ms, --loopdelay-ns, --loss"),
            ("--wrong", "there is no option --wrong"),
            ("-z", "there is no option -z"),
            ("--quiet=5", "--quiet takes no value"),
            ("-i", "-i needs a value"),
        ] {
            assert_eq!(mistakes(line), [reported], "{line}");
        }
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        assert_eq!(mistakes("-t -x 1 -p 5 --nope").len(), 4);
    }
}
