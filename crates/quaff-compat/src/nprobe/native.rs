//! Translates nProbe's options to a native command line of `quaff`.

use super::options::Options;
use crate::{Error, Native};
use std::path::Path;

/// The collector that nProbe exports to without `-n`, and the port of a collector that is named without one.
const COLLECTOR: &str = "127.0.0.1:2055";
const PORT: &str = "2055";
/// nProbe's version of the export without `-V`.
const VERSION: &str = "9";
/// Fields of nProbe's `-p`, in its order, as `--key` names them.
const KEY: [&str; 5] = ["vlan", "protocol", "addresses", "ports", "tos"];

/// Options that are accepted without effect, and why.
const IDLE: [(&str, &str); 29] = [
    ("daemon-mode", "quaff stays in the foreground: start it by systemd-run, or with nohup and &"),
    ("num-threads", "each interface has a thread"),
    ("dump-frequency", "each file has the flows of the whole run"),
    ("dump-format", "the files of -P are text"),
    ("syslog", "messages go to stderr"),
    ("hash-size", "the table grows as needed"),
    ("discard-unknown-flows", "all flows are exported"),
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
    ///
    /// # Errors
    /// A list of files cannot be read.
    pub(super) fn nprobe(&mut self, options: &Options, template: Option<&str>) -> Result<(), Error> {
        self.add(["flows"]);
        self.input(options)?;
        self.meter(options);
        self.collectors(options);
        self.format(options, template);
        self.files(options);
        self.without_effect(&IDLE, |name| options.has(name));
        Ok(())
    }

    /// The value of an option that is a number above 0; nProbe's default stays without one.
    fn positive(&mut self, options: &Options, name: &str) -> Option<u64> {
        let text = options.value(name)?.to_string_lossy().into_owned();
        let number = options.number(name).filter(|number| *number > 0);
        if number.is_none() {
            self.note(format!("--{name} {text} has no effect: it is not a number above 0"));
        }
        number
    }

    /// The sources of packets.
    fn input(&mut self, options: &Options) -> Result<(), Error> {
        let given = options.parts("interface");
        for name in &given {
            // nProbe takes an interface for a file if there is a file of that name.
            let is_file = Path::new(name).is_file();
            self.value(if is_file { "--read" } else { "-i" }, name);
        }
        for list in options.values("pcap-file-list") {
            let text = std::fs::read_to_string(list).map_err(Error::io("read --pcap-file-list", list))?;
            let mut files = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
            let empty = || Error::Missing(format!("--pcap-file-list {} names no file", list.display()));
            files.peek().ok_or_else(empty)?;
            files.for_each(|file| self.value("--read", file));
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
        Ok(())
    }

    /// The key, the timeouts and the sampling.
    fn meter(&mut self, options: &Options) {
        for (name, option) in [("lifetime-timeout", "--active"), ("idle-timeout", "--idle")] {
            let seconds = self.positive(options, name).map(|seconds| format!("{seconds}s"));
            self.given(option, seconds);
        }
        let flows = self.positive(options, "max-num-flows").map(|flows| flows.to_string());
        self.given("--max-flows", flows);
        self.key(options);
        self.sampling(options);
    }

    /// The key. Addresses, ports and protocol are always in it, and the tunnel if tunnels are removed.
    fn key(&mut self, options: &Options) {
        let Some(mask) = options.value("aggregation") else { return };
        let mask = mask.to_string_lossy().into_owned();
        let parts: Vec<_> = mask.split('/').map(str::trim).collect();
        let is_optional = |name: &str| matches!(name, "vlan" | "tos");
        let is_out = |at: usize| parts.get(at).is_some_and(|part| *part == "0");
        let mut names = Vec::new();
        for (at, name) in KEY.into_iter().enumerate() {
            match is_optional(name) {
                true if parts.get(at).is_none_or(|part| *part == "0") => {}
                false if is_out(at) => {
                    self.note(format!("-p: the key always has {name}"));
                    names.push(name);
                }
                _ => names.push(name),
            }
        }
        names.extend(options.has("tunnel").then_some("tunnel"));
        if parts.len() > KEY.len() {
            self.note("-p: fields after the fifth have no effect");
        }
        self.value("--key", names.join(","));
    }

    /// The sampling, PACKETS:COLLECTED:EXPORTED. '@' says that packets are sampled already.
    fn sampling(&mut self, options: &Options) {
        let rate = options.value("sample-rate").map(|rate| rate.to_string_lossy().into_owned());
        let mut parts = rate.iter().flat_map(|rate| rate.split(':'));
        let packets = parts.next();
        if parts.any(|part| !matches!(part.trim(), "0" | "1")) {
            self.note("-S: only packets are sampled: the numbers after the first have no effect");
        }
        match packets.map(|text| (text.strip_prefix('@'), text.trim_start_matches('@').parse::<u64>())) {
            Some((None, Ok(one_in))) if one_in > 1 => self.value("--sample", format!("1/{one_in}")),
            Some((Some(_), _)) => {
                self.note("-S @N: packets that were sampled before are counted as they come")
            }
            Some((None, Err(_))) => self.note("-S has no effect: it does not begin with a number"),
            _ => {}
        }
    }

    /// The collectors, and how fast messages go to them.
    fn collectors(&mut self, options: &Options) {
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
        let is_udp = collectors.iter().all(|name| !name.contains("://") || name.starts_with("udp://"));
        match options.value("sender-address") {
            Some(_) if !is_udp => {
                self.note("-q has no effect: an address to send from is for udp:// collectors")
            }
            address => self.given("--source", address),
        }
        let seconds = self.positive(options, "queue-timeout").map(|seconds| format!("{seconds}s"));
        self.given("--flush", seconds);
        let [delay, messages] = ["flow-delay", "packet-count"].map(|name| self.positive(options, name));
        match (delay, messages) {
            (Some(ms), _) => {
                self.value("--pause", format!("{ms}ms"));
                self.given("--pause-messages", messages.map(|messages| messages.to_string()));
            }
            (None, Some(_)) => self.note("-B has no effect without -e, the pause after so many messages"),
            (None, None) => {}
        }
    }

    /// The contents of records and messages.
    fn format(&mut self, options: &Options, template: Option<&str>) {
        let version = options.value("flow-version").map(|text| text.to_string_lossy().into_owned());
        let has_templates = version.as_deref() != Some("5");
        self.value("-V", version.unwrap_or_else(|| VERSION.to_owned()));
        match template {
            Some(_) if !has_templates => {
                self.note("-T has no effect with -V 5: NetFlow v5 has a fixed record")
            }
            template => self.given("-T", template),
        }
        self.given("--template-id", options.value("flow-templ-id"));
        let messages = self.positive(options, "intra-templ").map(|messages| messages.to_string());
        self.given("--template-messages", messages);
        match options.value("biflows-export-policy").and_then(|policy| policy.to_str()) {
            Some("1") => self.add(["--biflows", "answered"]),
            Some("2") => self.add(["--biflows", "unanswered"]),
            _ => {}
        }
        self.given("--in-index", options.value("in-iface-idx"));
        self.given("--out-index", options.value("out-iface-idx"));
        self.given("--as", options.value("as-list"));
        if let Some(engine) = options.value("netflow-engine") {
            let engine = engine.to_string_lossy().into_owned();
            let id = engine.rsplit(':').next().unwrap_or_default();
            self.value("--domain", id);
        }
    }

    /// The files of records.
    fn files(&mut self, options: &Options) {
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

    fn translated(line: &str, template: Option<&str>) -> Result<Native, Error> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let mut native = Native::default();
        native.nprobe(&Options::read(&args).expect("nProbe accepts it"), template)?;
        Ok(native)
    }

    fn native(line: &str) -> Native {
        translated(line, None).expect("its files are there")
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
            (
                "-i eth0 -p 1/1/0/0/0 -5 -e 5 -B 10 -o 20 -q 10.0.0.9",
                "flows -i eth0 --decap auto --key vlan,protocol,addresses,ports,tunnel -n udp://127.0.0.1:2055 --source 10.0.0.9 --pause 5ms --pause-messages 10 -V 9 --template-messages 20",
            ),
            ("-i eth0 -n 2001:db8::1 -5", "flows -i eth0 --decap auto -n 'udp://[2001:db8::1]:2055' -V 9"),
        ] {
            assert_eq!(native(nprobe).line(), format!("quaff {quaff}"), "nprobe {nprobe}");
        }
    }

    /// The options with an effect elsewhere than in a native line, or together with another one.
    const OTHERS: [&str; 6] =
        ["version", "help", "verbose", "flow-templ", "csv-separator", "max-num-untunnels"];

    #[test]
    fn each_option_has_an_effect_or_a_note() {
        // Two collectors, without which -a changes nothing.
        let without = native("-i eth0 -n a -n b");
        let others = OTHERS.iter().chain(&["pcap-file-list"]);
        let others: Vec<_> = others.collect();
        for (name, has_value) in Options::known().filter(|(name, _)| !others.contains(&name)) {
            let values: &[&str] = if has_value { &[" 2", " 7"] } else { &[""] };
            let has_effect = |value: &&str| native(&format!("-i eth0 -n a -n b --{name}{value}")) != without;
            assert!(values.iter().any(has_effect), "--{name}");
        }
    }

    #[test]
    fn values_without_effect_are_noted() {
        for (given, words) in [
            ("-t x", "--lifetime-timeout x has no effect"),
            ("-d 0", "--idle-timeout 0 has no effect"),
            ("-M x", "--max-num-flows x has no effect"),
            ("-l 0", "--queue-timeout 0 has no effect"),
            ("-S 1:1:10", "-S: only packets are sampled"),
            ("-S x", "-S has no effect"),
            ("-p 0/0/0/0/0", "-p: the key always has protocol"),
            ("-p 1/1/1/1/1/1", "-p: fields after the fifth"),
            ("-B 5", "-B has no effect without -e"),
            ("-n tcp://a -q 10.0.0.1", "-q has no effect"),
        ] {
            let notes = native(&format!("-i eth0 {given}")).notes;
            assert!(notes.iter().any(|note| note.starts_with(words)), "{given}: {notes:?}");
        }
        let five = translated("-i eth0 -V 5", Some("%IN_BYTES")).expect("no file");
        assert!(five.notes[0].starts_with("-T has no effect") && !five.line().contains("-T"), "{five:?}");
        let none = translated("--pcap-file-list /nowhere/list", None);
        assert!(none.is_err_and(|error| error.to_string().contains("/nowhere/list")));
    }

    #[test]
    fn options_without_effect_are_noted() {
        let notes = native("-i eth0 -w 131072 -G -z 1 -L 10.0.0.0/8").notes;
        assert_eq!(notes.len(), 4, "{notes:?}");
        assert!(notes[0].starts_with("--daemon-mode has no effect"), "{notes:?}");
        assert!(native("-i eth0 -t 1 -d 1 -b 1 -f udp").notes.is_empty());
    }
}
