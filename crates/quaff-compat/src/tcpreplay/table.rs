//! tcpreplay's options: those of 4.4, and the additions of 4.5 and 4.6.

use crate::getopt::{self, Takes};

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

/// In the order of their names.
const SPECS: &[Spec] = &[
    spec("cachefile", b'c', Kind::Text).once().needs(&["intf2"]).never_with(&["dualfile"]),
    spec("dbug", b'd', Kind::Number { least: 0, most: 5 }).once(),
    spec("decode", b'A', Kind::Text).once().needs(&["verbose"]),
    spec("dry-run", 0, Kind::Flag), // of quaff: prints the native command line
    spec("dualfile", b'2', Kind::Flag).once().needs(&["intf2"]).never_with(&["cachefile"]),
    spec("duration", 0, from(1)).once(),
    spec("exclude", 0, Kind::Text).once().never_with(&["include"]),
    spec("flow-expiry", 0, from(0)).never_with(&["no-flow-stats"]),
    spec("help", b'H', Kind::Flag),
    spec("include", 0, Kind::Text).once().never_with(&["exclude"]),
    spec("intf1", b'i', Kind::Text).once(),
    spec("intf2", b'I', Kind::Text).once(),
    spec("io-uring", 0, Kind::Flag),
    spec("less-help", b'h', Kind::Flag),
    spec("limit", b'L', from(1)).once(),
    spec("listnics", 0, Kind::Flag),
    spec("load-opts", 0, Kind::Text),
    spec("loop", b'l', from(0)).once(),
    spec("loopdelay-ms", 0, from(0)).needs(&["loop"]),
    spec("loopdelay-ns", 0, from(0)).needs(&["loop"]),
    spec("loss", 0, Kind::Fraction),
    spec("maxsleep", 0, from(0)),
    spec("mbps", b'M', Kind::Fraction).once().never_with(RATES),
    spec("more-help", b'!', Kind::Flag),
    spec("multiplier", b'x', Kind::Fraction).once().never_with(RATES),
    spec("native", 0, Kind::Flag), // the older name of dry-run
    spec("netmap", 0, Kind::Flag),
    spec("nm-delay", 0, from(0)).needs(&["netmap"]),
    spec("no-flow-stats", 0, Kind::Flag).never_with(&["flow-expiry"]),
    spec("no-load-opts", 0, Kind::Flag),
    spec("oneatatime", b'o', Kind::Flag).never_with(RATES),
    spec("pid", b'P', Kind::Flag),
    spec("pktlen", 0, Kind::Flag).once(),
    spec("pps", b'p', Kind::Fraction).once().never_with(RATES),
    spec("pps-multi", 0, from(1)).needs(&["pps"]),
    spec("preload-pcap", b'K', Kind::Flag),
    spec("quiet", b'q', Kind::Flag),
    spec("raw", 0, Kind::Flag),
    spec("save-opts", 0, Kind::Perhaps),
    spec("stats", 0, from(0)),
    spec("suppress-warnings", b'W', Kind::Flag),
    spec("timer", b'T', Kind::Text).once(),
    spec("topspeed", b't', Kind::Flag).never_with(RATES),
    spec("unique-ip", 0, Kind::Flag).needs(&["loop"]),
    spec("unique-ip-loops", 0, Kind::Fraction).once().needs(&["unique-ip"]),
    spec("verbose", b'v', Kind::Flag).once(),
    spec("version", b'V', Kind::Flag),
    spec("write", b'w', Kind::Text).once().never_with(&["intf1"]),
    spec("xdp", 0, Kind::Flag),
    spec("xdp-batch-size", 0, Kind::Number { least: 1, most: 4096 }),
];

impl getopt::Spec for Spec {
    fn name(&self) -> &'static str {
        self.name
    }

    fn letter(&self) -> Option<u8> {
        self.letter
    }

    fn takes(&self) -> Takes {
        match self.kind {
            Kind::Flag => Takes::Nothing,
            Kind::Perhaps => Takes::Perhaps,
            Kind::Text | Kind::Number { .. } | Kind::Fraction => Takes::Value,
        }
    }
}

/// An option by its name or a unique prefix of it; `_` equals `-`.
pub(super) fn by_name(name: &str) -> Result<&'static Spec, String> {
    getopt::named(SPECS, name, &name.to_ascii_lowercase().replace('_', "-"))
}

/// An option by its letter.
pub(super) fn by_letter(letter: u8) -> Result<&'static Spec, String> {
    getopt::lettered(SPECS, letter)
}
