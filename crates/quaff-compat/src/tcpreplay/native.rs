//! Translates tcpreplay's options to a native command line of `quaff`.

use super::options::Options;
use crate::Native;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Options that are accepted without effect, and why.
const IDLE: [(&str, &str); 9] = [
    ("timer", "frames are sent at absolute deadlines"),
    ("save-opts", "options are not saved; --load-opts reads a file of them"),
    ("nm-delay", "there is no driver to load"),
    ("pps-multi", "each packet is sent when it is due, at any rate"),
    ("dbug", "there are no debugging messages"),
    ("xdp-batch-size", "batches have the largest possible size"),
    ("loss", "no packets are dropped at random"),
    ("loopdelay-ms", "loops follow each other without a pause"),
    ("loopdelay-ns", "loops follow each other without a pause"),
];
/// Options that select a transmit backend of tcpreplay.
const BACKENDS: [&str; 4] = ["netmap", "xdp", "io-uring", "raw"];
/// Prefixes of an interface name that select netmap.
const NETMAP: [&str; 2] = ["netmap:", "vale:"];

impl Native {
    /// Translates tcpreplay's `options`. `files` are the operands, with folders expanded.
    pub(super) fn tcpreplay(options: &Options, files: &[PathBuf]) -> Self {
        let mut native = Self::default();
        match options.value("write") {
            Some(file) => native.write(options, file, files),
            None => native.replay(options, files),
        }
        native.without_effect(&IDLE, |name| options.has(name));
        native
    }

    fn replay(&mut self, options: &Options, files: &[PathBuf]) {
        self.add(["replay", "--quiet"]);
        let (interface, is_netmap) = interface(options);
        self.value("-o", interface);
        self.given("--out2", options.value("intf2"));
        self.given("--tcpprep", options.value("cachefile"));
        for name in BACKENDS.iter().filter(|name| options.has(name) || is_netmap && **name == "netmap") {
            self.note(format!("--{name}: the fastest backend that works here is used (--via auto)"));
        }
        self.rate(options);
        self.frames(options);
        // Files in pairs, one for each interface.
        let pairs = if options.has("dualfile") { 2 } else { 1 };
        for (place, file) in files.iter().enumerate() {
            match place % pairs {
                0 => self.args.push(operand(file)),
                _ => self.value("--dual", file),
            }
        }
    }

    fn rate(&mut self, options: &Options) {
        let is_nothing = |name: &str| options.fraction(name) == Some(0.0);
        if options.has("oneatatime") {
            self.add(["--one-at-a-time"]);
            self.note("--oneatatime: Enter sends a packet; the end of the input ends it");
        } else if options.has("topspeed") || is_nothing("mbps") || is_nothing("pps") {
            self.add(["--topspeed"]);
        } else {
            for name in ["multiplier", "pps", "mbps"] {
                self.given(&format!("--{name}"), options.fraction(name).map(|rate| rate.to_string()));
            }
        }
        self.gap(options);
    }

    /// `--maxsleep`, whose 0 is no limit.
    fn gap(&mut self, options: &Options) {
        let is_captured = !["oneatatime", "topspeed", "pps", "mbps"].iter().any(|name| options.has(name));
        match options.number("maxsleep").filter(|ms| *ms > 0) {
            Some(ms) if is_captured => self.given("--max-gap", Some(format!("{ms}ms"))),
            Some(_) => self.note("--maxsleep has no effect at a rate: it shortens captured gaps"),
            None => {}
        }
    }

    /// `-w`: into a file instead of an interface, with the captured times.
    fn write(&mut self, options: &Options, file: &OsStr, files: &[PathBuf]) {
        self.add(["replay", "--quiet"]);
        self.value("-w", file);
        self.add(["--format", "pcap-us"]);
        self.frames(options);
        if ["pps", "mbps", "multiplier", "topspeed", "oneatatime", "maxsleep"]
            .iter()
            .any(|name| options.has(name))
        {
            self.note("--write: packets keep their captured times, whatever the rate");
        }
        files.iter().for_each(|file| self.args.push(operand(file)));
    }

    /// The frames to send: loops, limits, ranges, repairs.
    fn frames(&mut self, options: &Options) {
        self.given("--loop", options.number("loop").map(|loops| loops.to_string()));
        if options.has("unique-ip") {
            self.add(["--unique-ip"]);
        }
        if options.has("pktlen") {
            self.add(["--fix-length", "pad"]);
        }
        if options.fraction("unique-ip-loops").is_some_and(|loops| loops > 1.0) {
            self.note("--unique-ip-loops: each loop has addresses of its own");
        }
        self.given("--count", options.number("limit").map(|frames| frames.to_string()));
        self.given("--duration", options.number("duration").map(|seconds| format!("{seconds}s")));
        self.given("--include", options.value("include"));
        self.given("--exclude", options.value("exclude"));
    }
}

/// The primary interface, and true if its name selects netmap.
fn interface(options: &Options) -> (OsString, bool) {
    let name = options.value("intf1").unwrap_or_default();
    let text = name.to_string_lossy();
    match NETMAP.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        Some(rest) => (rest.into(), true),
        None => (name.into(), false),
    }
}

/// A file whose name is not taken for an option.
fn operand(file: &std::path::Path) -> OsString {
    let name = file.as_os_str();
    if name.as_encoded_bytes().starts_with(b"-") && name != "-" {
        return std::path::Path::new(".").join(file).into();
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(line: &str) -> Native {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let options = Options::read(&args).unwrap_or_else(|mistakes| panic!("{line}: {mistakes:?}"));
        let files: Vec<_> = options.files.iter().map(PathBuf::from).collect();
        Native::tcpreplay(&options, &files)
    }

    /// The lines of Tcpreplay's how-to, and each option.
    #[test]
    fn tcpreplays_lines_become_native_ones() {
        for (tcpreplay, quaff) in [
            ("-i eth7 -tK --loop 50 --unique-ip a.pcap", "-o eth7 --topspeed --loop 50 --unique-ip a.pcap"),
            (
                "-i eth7 -K --mbps 3500 --loop 50 --unique-ip a.pcap",
                "-o eth7 --mbps 3500 --loop 50 --unique-ip a.pcap",
            ),
            (
                "-i eth7 -tK --loop 50 --unique-ip --netmap a.pcap",
                "-o eth7 --topspeed --loop 50 --unique-ip a.pcap",
            ),
            ("-i netmap:eth7 a.pcap", "-o eth7 a.pcap"),
            ("-i a f", "-o a f"),
            ("-i a -x 0.7 f", "-o a --multiplier 0.7 f"),
            ("-i a -p 0.25 f g", "-o a --pps 0.25 f g"),
            ("-i a -p 200 --pps-multi 10 f", "-o a --pps 200 f"),
            ("-i a -M 0 f", "-o a --topspeed f"),
            ("-i a -o f", "-o a --one-at-a-time f"),
            ("-i a -l 0 -L 10 --duration 5 -", "-o a --loop 0 --count 10 --duration 5s -"),
            ("-i a --include 1-5,9 f", "-o a --include 1-5,9 f"),
            ("-i a -qvPKW --no-flow-stats --stats 3 -T nano --maxsleep 0 f", "-o a f"),
            ("-i a --maxsleep 20 f", "-o a --max-gap 20ms f"),
            ("-i a -x 2 --maxsleep=20 f", "-o a --multiplier 2 --max-gap 20ms f"),
            ("-i a -p 2 --maxsleep=20 f", "-o a --pps 2 f"),
            ("-w out -l 2 a b", "-w out --format pcap-us --loop 2 a b"),
            ("-w out --include=1-3,7 -L 5 a", "-w out --format pcap-us --count 5 --include 1-3,7 a"),
            (
                "-w out -l 2 --unique-ip --exclude 1 a",
                "-w out --format pcap-us --loop 2 --unique-ip --exclude 1 a",
            ),
            ("-i a --pktlen f", "-o a --fix-length pad f"),
            ("-i a -- -f", "-o a ./-f"),
            ("-i a -I b -c c f", "-o a --out2 b --tcpprep c f"),
            ("-i a -I b -2 f g h k", "-o a --out2 b f --dual g h --dual k"),
        ] {
            assert_eq!(
                native(tcpreplay).line(),
                format!("quaff replay --quiet {quaff}"),
                "tcpreplay {tcpreplay}"
            );
        }
    }

    #[test]
    fn options_without_effect_are_noted() {
        for (line, notes) in [
            ("-i a -tK f", 0),
            ("-i a -T nano --maxsleep 9 --netmap --nm-delay 5 f", 3),
            ("-i a -p 9 --maxsleep 9 --save-opts f", 2),
            ("-i vale:a f", 1),
            ("-i a -p 5 --pps-multi 2 f", 1),
            ("-i a -l 2 --unique-ip --unique-ip-loops 2 f", 1),
            ("-i a -l 2 --unique-ip --unique-ip-loops 1 f", 0),
            ("-i a -o f", 1),
            ("-w f -L 5 g", 0),
            ("-w f -p 5 g", 1),
        ] {
            assert_eq!(native(line).notes.len(), notes, "{line}: {:?}", native(line).notes);
        }
    }
}
