//! Translates nProbe's options to a native command line of `quaff`.

use super::options::Options;
use crate::cmd::native::Native;
use std::path::Path;

/// The collector that nProbe exports to without `-n`, and the port of a collector that is named without one.
const COLLECTOR: &str = "127.0.0.1:2055";
const PORT: &str = "2055";
/// nProbe's version of the export without `-V`.
const VERSION: &str = "9";
/// Fields of nProbe's `-p`, in its order, as `--key` names them.
const KEY: [&str; 5] = ["vlan", "protocol", "addresses", "ports", "tos"];

/// Options that are accepted without effect, and why.
const IDLE: [(&str, &str); 32] = [
    ("daemon-mode", "quaff stays in the foreground: start it by systemd-run, or with nohup and &"),
    ("num-threads", "each interface has a thread"),
    ("dump-frequency", "each file has the flows of the whole run"),
    ("dump-format", "the files of -P are text"),
    ("syslog", "messages go to stderr"),
    ("hash-size", "the table grows as needed"),
    ("discard-unknown-flows", "all flows are exported"),
    ("flow-delay", "collectors have queues of their own; --rate of 'quaff flows' limits the rate"),
    ("packet-count", "collectors have queues of their own; --rate of 'quaff flows' limits the rate"),
    ("min-flow-size", "all flows are exported"),
    ("flow-lock", "there is no active and passive probe"),
    ("min-num-flows", "a message leaves when it is full, or after a second"),
    ("pid-file", "the caller knows the process id"),
    ("local-networks", "directions are those of the conversations"),
    ("local-hosts-only", "all flows are exported: select packets with -f"),
    ("local-traffic-direction", "directions are those of the conversations"),
    ("if-networks", "the index of an interface is the kernel's, or that of -u and -Q"),
    ("cpu-affinity", "threads run on any core"),
    ("smart-udp-frags", "fragments belong to the flow of their first one"),
    ("dump-stats", "--ledger of 'quaff flows' writes all counters"),
    ("city-list", "places of addresses are not looked up"),
    ("minute-expire", "flows end by their timeouts, at most a millisecond late"),
    ("dont-nest-dump-dirs", "there is one file"),
    ("dont-reforge-time", "times are those of the packets"),
    ("intra-templ", "templates are repeated each minute, and after each 100 messages"),
    ("black-list", "all hosts are metered: select packets with -f"),
    ("white-list", "all hosts are metered: select packets with -f"),
    ("capture-direction", "packets of both directions are metered"),
    ("unprivileged-user", "the process stays the user that it is"),
    ("dont-drop-privileges", "the process stays the user that it is"),
    ("account-l2", "bytes are those of IP packets"),
    ("vlanid-as-iface-idx", "the VLAN is in the key, and the index that of the interface"),
];

impl Native {
    /// Translates nProbe's `options`; `template` is the value of `-T` without names that are unknown.
    pub(super) fn nprobe(options: &Options, template: Option<&str>) -> Self {
        let mut native = Self::default();
        native.add(["flows"]);
        native.input(options);
        native.meter(options);
        native.export(options, template);
        for (name, why) in IDLE {
            if options.has(name) {
                native.note(format!("--{name} has no effect: {why}"));
            }
        }
        native
    }

    /// The sources of packets.
    fn input(&mut self, options: &Options) {
        let given = options.parts("interface");
        for name in &given {
            // nProbe takes an interface for a file if there is a file of that name.
            let is_file = Path::new(name).is_file();
            self.value(if is_file { "--read" } else { "-i" }, name);
        }
        for list in options.values("pcap-file-list") {
            match std::fs::read_to_string(list) {
                Ok(text) => {
                    let files = text.lines().map(str::trim).filter(|line| !line.is_empty());
                    files.for_each(|file| self.value("--read", file));
                }
                Err(error) => self.note(format!("--pcap-file-list {}: {error}", list.display())),
            }
        }
        self.given("-f", options.value("bpf-filter"));
        self.given("-s", options.value("snaplen"));
        self.given("-c", options.value("count"));
        if options.has("no-promisc") {
            self.add(["--no-promiscuous"]);
        }
        if options.has("tunnel") {
            self.add(["--decap", "auto"]);
            self.given("--decap-depth", options.value("max-num-untunnels"));
        }
    }

    /// The key, the timeouts and the sampling.
    fn meter(&mut self, options: &Options) {
        let seconds = |name| options.number(name).filter(|seconds| *seconds > 0).map(|n| format!("{n}s"));
        for name in ["lifetime-timeout", "idle-timeout", "max-num-flows", "queue-timeout"] {
            if options.has(name) && options.number(name).is_none_or(|number| number == 0) {
                self.note(format!("--{name} is not a number above 0, so the default holds"));
            }
        }
        self.given("--active", seconds("lifetime-timeout"));
        self.given("--idle", seconds("idle-timeout"));
        self.given("--max-flows", options.number("max-num-flows").filter(|n| *n > 0).map(|n| n.to_string()));
        if let Some(mask) = options.value("aggregation") {
            let mask = mask.to_string_lossy().into_owned();
            let is_set = |part: &str| part.trim() != "0";
            let names = mask.split('/').zip(KEY).filter(|(part, _)| is_set(part)).map(|(_, name)| name);
            let mut names: Vec<_> = names.collect();
            let always = &KEY[1..4];
            if !always.iter().all(|name| names.contains(name)) {
                self.note("-p: addresses, ports and protocol are always in the key");
                names.retain(|name| !always.contains(name));
                names.extend(always);
            }
            if options.has("tunnel") {
                names.push("tunnel");
            }
            self.value("--key", names.join(","));
        }
        // PACKETS:COLLECTED:EXPORTED; the first is ours, '@' says that packets are sampled already.
        let rate = options.value("sample-rate").map(|rate| rate.to_string_lossy().into_owned());
        if rate.as_deref().is_some_and(|rate| rate.split(':').skip(1).any(|part| !matches!(part, "0" | "1")))
        {
            self.note("-S: packets are sampled, flows are not");
        }
        let packets = rate.as_deref().and_then(|rate| rate.split(':').next());
        match packets.map(|text| (text.strip_prefix('@'), text.trim_start_matches('@').parse::<u64>())) {
            Some((None, Ok(one_in))) if one_in > 1 => self.value("--sample", format!("1/{one_in}")),
            Some((Some(_), _)) => {
                self.note("-S @N: packets that were sampled before are counted as they come")
            }
            _ => {}
        }
    }

    /// The collectors and files.
    fn export(&mut self, options: &Options, template: Option<&str>) {
        let mut collectors = options.parts("collector");
        if collectors.is_empty() {
            collectors.push(COLLECTOR.to_owned());
        }
        collectors.retain(|name| name != "none");
        for name in &collectors {
            self.value("-n", url(name));
        }
        if collectors.len() > 1 && !options.has("all-collectors") {
            self.add(["--round-robin"]);
        }
        let version = options.value("flow-version").map(|text| text.to_string_lossy().into_owned());
        let version = version.unwrap_or_else(|| VERSION.to_owned());
        let is_fixed = version == "5";
        self.value("-V", version);
        if is_fixed && template.is_some() {
            self.note("-T has no effect: NetFlow v5 has a fixed record");
        }
        self.given("-T", template.filter(|_| !is_fixed));
        self.given("--template-id", options.value("flow-templ-id"));
        match options.value("biflows-export-policy").and_then(|policy| policy.to_str()) {
            Some("1") => self.add(["--biflows", "answered"]),
            Some("2") => self.add(["--biflows", "unanswered"]),
            _ => {}
        }
        self.given("--flush", options.number("queue-timeout").filter(|n| *n > 0).map(|n| format!("{n}s")));
        self.given("--in-index", options.value("in-iface-idx"));
        self.given("--out-index", options.value("out-iface-idx"));
        self.given("--source", options.value("sender-address"));
        self.given("--as", options.value("as-list"));
        if let Some(engine) = options.value("netflow-engine") {
            let engine = engine.to_string_lossy().into_owned();
            let id = engine.rsplit(':').next().unwrap_or_default();
            self.value("--domain", id);
        }
        if let Some(dir) = options.value("dump-path") {
            self.value("--csv", Path::new(dir).join("flows.csv"));
            self.add(["--names", "nprobe"]);
            self.value("--separator", options.value("csv-separator").unwrap_or("|".as_ref()));
            self.note("-P: one file of text, flows.csv");
        }
    }
}

/// A collector as `-n` of `quaff flows` takes it: with a transport and a port.
fn url(name: &str) -> String {
    let (transport, place) = name.split_once("://").unwrap_or(("udp", name));
    // The address of an IPv6 collector has colons, and stands in brackets if a port follows.
    let has_port = match place.rsplit_once(':') {
        Some((host, _)) => host.ends_with(']') || !host.contains(':'),
        None => false,
    };
    match has_port {
        true => format!("{transport}://{place}"),
        false if place.contains(':') && !place.starts_with('[') => format!("{transport}://[{place}]:{PORT}"),
        false => format!("{transport}://{place}:{PORT}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn native(line: &str) -> Native {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Native::nprobe(&Options::read(&args).expect("nProbe accepts it"), None)
    }

    #[test]
    fn nprobes_lines_become_native_ones() {
        for (nprobe, quaff) in [
            ("-i eth7", "flows -i eth7 -n udp://127.0.0.1:2055 -V 9"),
            ("-i eth0,eth1 -n none", "flows -i eth0 -i eth1 -V 9"),
            (
                "-i eth0 -n 10.0.0.1 -n tcp://[2001:db8::1]:99 -V 10 -t 60 -d 15",
                "flows -i eth0 --active 60s --idle 15s -n udp://10.0.0.1:2055 -n 'tcp://[2001:db8::1]:99' --round-robin -V 10",
            ),
            (
                "-i eth0 -n a:1,b:2 -a -p 0/1/1/1/0 -S 100:1:1 -M 9",
                "flows -i eth0 --max-flows 9 --key protocol,addresses,ports --sample 1/100 -n udp://a:1 -n udp://b:2 -V 9",
            ),
            (
                "-i eth0 -n none -p 1/0/1/0/0 -5 -t x",
                "flows -i eth0 --decap auto --key vlan,protocol,addresses,ports,tunnel -V 9",
            ),
            ("-i eth0 -n none -p 0/0/0/0/0", "flows -i eth0 --key protocol,addresses,ports -V 9"),
            ("-i eth0 -n 2001:db8::1 -5", "flows -i eth0 --decap auto -n 'udp://[2001:db8::1]:2055' -V 9"),
        ] {
            assert_eq!(native(nprobe).line(), format!("quaff {quaff}"), "nprobe {nprobe}");
        }
    }

    #[test]
    fn what_cannot_be_taken_is_noted() {
        for line in ["-p 0/0/1/0/0", "-t x", "-d 0", "-S 1:1:10", "-M many", "-l 0"] {
            assert_eq!(native(&format!("-i eth0 -n none {line}")).notes.len(), 1, "{line}");
        }
        let args = ["-i", "eth0", "-V", "5", "-T", "%IN_BYTES"].map(OsString::from);
        let found = Native::nprobe(&Options::read(&args).expect("read"), Some("%IN_BYTES"));
        assert_eq!((found.notes.len(), found.line().contains("-T")), (1, false));
    }

    /// The options with an effect elsewhere than in a native line, or together with another one.
    const OTHERS: [&str; 6] =
        ["version", "help", "verbose", "flow-templ", "csv-separator", "max-num-untunnels"];

    #[test]
    fn each_option_has_an_effect_or_a_note() {
        // Two collectors, without which -a changes nothing.
        let without = native("-i eth0 -n a -n b");
        for (name, has_value) in Options::known().filter(|(name, _)| !OTHERS.contains(name)) {
            let values: &[&str] = if has_value { &[" 2", " 7"] } else { &[""] };
            let has_effect = |value: &&str| native(&format!("-i eth0 -n a -n b --{name}{value}")) != without;
            assert!(values.iter().any(has_effect), "--{name}");
        }
    }

    #[test]
    fn options_without_effect_are_noted() {
        let notes = native("-i eth0 -w 131072 -G -e 1 -L 10.0.0.0/8").notes;
        assert_eq!(notes.len(), 4, "{notes:?}");
        assert!(notes[0].starts_with("--daemon-mode has no effect"), "{notes:?}");
        assert!(native("-i eth0 -t 1 -d 1 -b 1 -f udp").notes.is_empty());
    }
}
