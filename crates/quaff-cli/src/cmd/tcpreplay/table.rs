//! tcpreplay's options: those of 4.4, and the additions of 4.5 and 4.6.

/// An option.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) letter: Option<u8>,
    pub(super) kind: Kind,
    /// It may be given only once.
    pub(super) once: bool,
    pub(super) needs: &'static [&'static str],
    pub(super) never_with: &'static [&'static str],
}

/// The value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Flag,
    Text,
    /// Optional text, after `=` only.
    Perhaps,
    Number {
        least: u64,
        most: u64,
    },
    Fraction,
}

/// `-T`
pub(super) const TIMERS: [&str; 4] = ["select", "ioport", "gtod", "nano"];

/// The rate options, which exclude each other.
const RATES: &[&str] = &["mbps", "multiplier", "oneatatime", "pps", "topspeed"];

const fn spec(name: &'static str, letter: u8, kind: Kind) -> Spec {
    let letter = if letter == 0 { None } else { Some(letter) };
    Spec { name, letter, kind, once: false, needs: &[], never_with: &[] }
}

impl Spec {
    const fn once(mut self) -> Self {
        self.once = true;
        self
    }

    const fn needs(mut self, others: &'static [&'static str]) -> Self {
        self.needs = others;
        self
    }

    const fn never_with(mut self, others: &'static [&'static str]) -> Self {
        self.never_with = others;
        self
    }
}

const fn from(least: u64) -> Kind {
    Kind::Number { least, most: u64::MAX }
}

const SPECS: &[Spec] = &[
    spec("dbug", b'd', Kind::Number { least: 0, most: 5 }).once(),
    spec("quiet", b'q', Kind::Flag),
    spec("timer", b'T', Kind::Text).once(),
    spec("maxsleep", 0, from(0)),
    spec("verbose", b'v', Kind::Flag).once(),
    spec("decode", b'A', Kind::Text).once().needs(&["verbose"]),
    spec("preload-pcap", b'K', Kind::Flag),
    spec("cachefile", b'c', Kind::Text).once().needs(&["intf2"]).never_with(&["dualfile"]),
    spec("dualfile", b'2', Kind::Flag).once().needs(&["intf2"]).never_with(&["cachefile"]),
    spec("intf1", b'i', Kind::Text).once(),
    spec("intf2", b'I', Kind::Text).once(),
    spec("write", b'w', Kind::Text).once().never_with(&["intf1"]),
    spec("include", 0, Kind::Text).once().never_with(&["exclude"]),
    spec("exclude", 0, Kind::Text).once().never_with(&["include"]),
    spec("listnics", 0, Kind::Flag),
    spec("loop", b'l', from(0)).once(),
    spec("loopdelay-ms", 0, from(0)).needs(&["loop"]),
    spec("loopdelay-ns", 0, from(0)).needs(&["loop"]),
    spec("pktlen", 0, Kind::Flag).once(),
    spec("limit", b'L', from(1)).once(),
    spec("duration", 0, from(1)).once(),
    spec("multiplier", b'x', Kind::Fraction).once().never_with(RATES),
    spec("pps", b'p', Kind::Fraction).once().never_with(RATES),
    spec("mbps", b'M', Kind::Fraction).once().never_with(RATES),
    spec("topspeed", b't', Kind::Flag).never_with(RATES),
    spec("oneatatime", b'o', Kind::Flag).never_with(RATES),
    spec("pps-multi", 0, from(1)).needs(&["pps"]),
    spec("unique-ip", 0, Kind::Flag).needs(&["loop"]),
    spec("unique-ip-loops", 0, Kind::Fraction).once().needs(&["unique-ip"]),
    spec("netmap", 0, Kind::Flag),
    spec("nm-delay", 0, from(0)).needs(&["netmap"]),
    spec("no-flow-stats", 0, Kind::Flag).never_with(&["flow-expiry"]),
    spec("flow-expiry", 0, from(0)).never_with(&["no-flow-stats"]),
    spec("pid", b'P', Kind::Flag),
    spec("stats", 0, from(0)),
    spec("suppress-warnings", b'W', Kind::Flag),
    spec("xdp", 0, Kind::Flag),
    spec("xdp-batch-size", 0, Kind::Number { least: 1, most: 4096 }),
    spec("io-uring", 0, Kind::Flag),
    spec("raw", 0, Kind::Flag),
    spec("loss", 0, Kind::Fraction),
    spec("version", b'V', Kind::Flag),
    spec("less-help", b'h', Kind::Flag),
    spec("help", b'H', Kind::Flag),
    spec("more-help", b'!', Kind::Flag),
    spec("save-opts", 0, Kind::Perhaps),
    spec("load-opts", 0, Kind::Text),
    spec("no-load-opts", 0, Kind::Flag),
    // Additions of quaff: print the native command line. "native" is the older name.
    spec("dry-run", 0, Kind::Flag),
    spec("native", 0, Kind::Flag),
];

/// An option by its name or a unique prefix of it.
pub(super) fn by_name(name: &str) -> Result<&'static Spec, String> {
    let wanted = name.to_ascii_lowercase().replace('_', "-");
    if let Some(spec) = SPECS.iter().find(|spec| spec.name == wanted) {
        return Ok(spec);
    }
    let mut fitting: Vec<_> =
        SPECS.iter().filter(|spec| !wanted.is_empty() && spec.name.starts_with(&wanted)).collect();
    fitting.sort_by_key(|spec| spec.name);
    match fitting[..] {
        [spec] => Ok(spec),
        [] => Err(format!("there is no option --{name}")),
        _ => {
            let names: Vec<_> = fitting.iter().map(|spec| format!("--{}", spec.name)).collect();
            Err(format!("--{name} could be {}", names.join(", ")))
        }
    }
}

/// An option by its letter.
pub(super) fn by_letter(letter: u8) -> Result<&'static Spec, String> {
    let unknown = || format!("there is no option -{}", char::from(letter));
    SPECS.iter().find(|spec| spec.letter == Some(letter)).ok_or_else(unknown)
}
