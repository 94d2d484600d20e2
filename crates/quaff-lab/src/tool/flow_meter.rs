//! Flow meters under test as plain data: how each is started on an interface and on a file, and where it exports to. A
//! meter on an interface runs as a [`Tool`] that keeps no packets. Only a version query is run here.
//!
//! The built-in ones are in this crate (`meters/*.toml`). Users describe theirs in the same format:
//!
//! ```toml
//! name = "mine"                             # the name in tables
//! install = "apt-get install mine"          # printed when it is not installed
//! program = "mine"                          # a path, or a name in PATH
//! version = ["{program}", "--version"]
//! protocol = "NetFlow v9"                   # for the report; v5, v9, IPFIX and nfdump's own are decoded
//! remark = "IPv4 only."                     # for the report
//! live = ["-i", "{interface}"]              # first arguments on an interface,
//! file = ["-r", "{input}"]                  # and with a file; absent: it reads none
//! export = ["-n", "{collector}"]            # arguments in both cases, after those
//! config = "receiver: {collector}"          # text of the file {config}
//! ready = "socket"                          # as for capturers: { says = "capturing" }, { after_ms = 500 }
//! stop = "interrupt"                        # or "terminate", "kill"
//! stop_command = ["minectl", "{dir}/socket"] # ends it on an interface instead of the signal
//! patience_s = 120                          # time limit to be ready, and to end
//! ```

use super::line::{filled, places_in};
use super::{Present, Ready, Tool, interrupt, stop_signal};
use crate::{Error, Result};
use quaff_os::{Signal, Try};
use serde::Deserialize;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The built-in descriptions, in the order of tables.
const SHIPPED: [(&str, &str); 6] = [
    ("quaff.toml", include_str!("../../meters/quaff.toml")),
    ("softflowd.toml", include_str!("../../meters/softflowd.toml")),
    ("nfpcapd.toml", include_str!("../../meters/nfpcapd.toml")),
    ("pmacctd.toml", include_str!("../../meters/pmacctd.toml")),
    ("fprobe.toml", include_str!("../../meters/fprobe.toml")),
    ("yaf.toml", include_str!("../../meters/yaf.toml")),
];
/// Placeholders in arguments and in the configuration file.
const PLACES: [&str; 13] = [
    "interface",
    "input",
    "collector",
    "host",
    "port",
    "active",
    "idle",
    "flows",
    "mib",
    "kib",
    "bytes",
    "dir",
    "config",
];
/// Name of the configuration file in the directory of the run.
const CONFIG: &str = "config";
/// Limit of `patience_s`, s.
const PATIENCE_S_MAX: u64 = 600;

/// A flow meter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowMeter {
    /// The name in tables.
    pub name: String,
    /// Installation command or hint; empty for quaff and for a user's meter.
    #[serde(default)]
    pub install: String,
    /// A path, or a name in PATH. `{quaff}` is the quaff executable.
    pub program: PathBuf,
    /// A command that prints the version; placeholder `{program}`. Empty: the version is not queried.
    #[serde(default)]
    pub version: Vec<String>,
    /// Export protocol, for the report.
    pub protocol: String,
    /// A property that explains its results, for the report; empty without one.
    #[serde(default)]
    pub remark: String,
    /// First arguments on an interface.
    pub live: Vec<String>,
    /// First arguments with a file; `None`: it cannot read files.
    pub file: Option<Vec<String>>,
    /// Arguments in both cases, after the first ones.
    #[serde(default)]
    pub export: Vec<String>,
    /// Text of its configuration file; empty: it has none.
    #[serde(default)]
    pub config: String,
    /// The sign that it is metering.
    pub ready: Ready,
    /// The signal that stops it; it then exports its remaining flows.
    #[serde(default = "interrupt", deserialize_with = "stop_signal")]
    pub stop: Signal,
    /// A command that stops it on an interface instead of the signal; empty: the signal does.
    #[serde(default)]
    pub stop_command: Vec<String>,
    /// Time limit to be ready, and to end, s.
    #[serde(default = "patience_s")]
    pub patience_s: u64,
}

/// The values of the placeholders of a [`FlowMeter`].
#[derive(Debug, Clone, Copy)]
pub struct MeterPlaces<'a> {
    /// The interface to meter.
    pub interface: &'a str,
    /// The file to meter; `None`: the interface.
    pub input: Option<&'a Path>,
    /// The address to export to.
    pub collector: SocketAddr,
    /// Active and idle timeout, s.
    pub active_s: u32,
    pub idle_s: u32,
    /// Maximum number of flows in the table.
    pub flows_max: u64,
    /// Buffer between the kernel and the meter, MiB.
    pub buffer_mib: u64,
    /// The directory of the run.
    pub dir: &'a Path,
}

impl FlowMeter {
    /// Path and version if it is installed.
    pub fn present(&self) -> Option<Present> {
        self.tool(Vec::new()).present()
    }

    /// Its command line as a tool that keeps no packets, for [`MeterPlaces::interface`] or [`MeterPlaces::input`].
    ///
    /// # Errors
    /// A sentence if it cannot read files.
    pub fn command(&self, places: &MeterPlaces<'_>) -> Result<Tool, String> {
        let first = match (places.input, &self.file) {
            (None, _) => &self.live,
            (Some(_), Some(file)) => file,
            (Some(_), None) => return Err(format!("{} reads no files", self.name)),
        };
        let fill = places.fill();
        let fill = |args: &mut dyn Iterator<Item = &String>| args.map(|arg| filled(arg, &fill)).collect();
        let args = fill(&mut first.iter().chain(&self.export));
        Ok(Tool { stop_command: fill(&mut self.stop_command.iter()), ..self.tool(args) })
    }

    /// Writes its configuration file into the directory of the run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_config(&self, places: &MeterPlaces<'_>) -> Result<()> {
        if self.config.is_empty() {
            return Ok(());
        }
        let path = places.dir.join(CONFIG);
        let text = filled(&self.config, &places.fill());
        Ok(fs::write(&path, text).trying(|| format!("write {}", path.display()))?)
    }

    fn tool(&self, args: Vec<String>) -> Tool {
        let Self { name, install, program, version, ready, patience_s, stop, .. } = self;
        Tool {
            ready: ready.clone(),
            patience_s: *patience_s,
            stop: *stop,
            ..Tool::keeping_nothing(name, install, program, version, args)
        }
    }
}

impl MeterPlaces<'_> {
    fn fill(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Path| path.display().to_string();
        vec![
            ("{interface}", self.interface.to_owned()),
            ("{input}", self.input.map(path).unwrap_or_default()),
            ("{collector}", self.collector.to_string()),
            ("{host}", self.collector.ip().to_string()),
            ("{port}", self.collector.port().to_string()),
            ("{active}", self.active_s.to_string()),
            ("{idle}", self.idle_s.to_string()),
            ("{flows}", self.flows_max.to_string()),
            ("{mib}", self.buffer_mib.to_string()),
            ("{kib}", (self.buffer_mib << 10).to_string()),
            ("{bytes}", (self.buffer_mib << 20).to_string()),
            ("{dir}", path(self.dir)),
            ("{config}", path(&self.dir.join(CONFIG))),
        ]
    }
}

/// All built-in flow meters; `quaff` is the path of the executable.
pub fn shipped_meters(quaff: &Path) -> Vec<FlowMeter> {
    // A test parses each of them.
    SHIPPED.iter().filter_map(|(name, text)| parse(name, text, quaff).ok()).collect()
}

/// Reads a user's description of a flow meter.
///
/// # Errors
/// The file cannot be read, is not TOML, or does not describe a flow meter.
pub fn read_meter(path: &Path, quaff: &Path) -> Result<FlowMeter> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).trying(|| format!("read {name}"))?;
    parse(&name, &text, quaff)
}

fn parse(name: &str, text: &str, quaff: &Path) -> Result<FlowMeter> {
    let mut meter: FlowMeter = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        super::file::mistake(name, text, at, error.message().trim())
    })?;
    check(&meter)
        .map_err(|(word, what)| super::file::mistake(name, text, text.find(&word).unwrap_or(0), &what))?;
    if meter.program == Path::new("{quaff}") {
        meter.program = quaff.to_owned();
    }
    Ok(meter)
}

/// Checks a description.
///
/// # Errors
/// The text to locate in the description, and the mistake.
fn check(meter: &FlowMeter) -> Result<(), (String, String)> {
    let wrong = |word: &str, what: String| Err((word.to_owned(), what));
    if meter.name.trim().is_empty() {
        return wrong("name", "a flow meter needs a name".into());
    }
    let lists = [&meter.live, &meter.export, &meter.stop_command].into_iter().chain(&meter.file).flatten();
    let texts: Vec<&str> = lists.map(String::as_str).chain([meter.config.as_str()]).collect();
    if let Some(place) = texts.iter().flat_map(|text| places_in(text)).find(|place| !PLACES.contains(place)) {
        let known = PLACES.map(|place| format!("{{{place}}}")).join(", ");
        return wrong(&format!("{{{place}}}"), format!("{{{place}}} is unknown here; known are {known}"));
    }
    let has = |text: &[&str], place: &str| text.iter().any(|text| text.contains(place));
    let live: Vec<&str> = meter.live.iter().map(String::as_str).chain([meter.config.as_str()]).collect();
    if !has(&live, "{interface}") {
        return wrong("live", "{interface} is missing: the meter has no interface".into());
    }
    if !has(&texts, "{collector}") && !has(&texts, "{port}") {
        return wrong(
            "export",
            "{collector} or {port} is missing: the meter would not know where to export".into(),
        );
    }
    if meter.patience_s > PATIENCE_S_MAX {
        return wrong("patience_s", format!("at most {PATIENCE_S_MAX}"));
    }
    Ok(())
}

/// The flow meters in `names`, in that order, each with its program if it is installed. The last one with a name
/// counts, so that a user's meter replaces a built-in one.
///
/// # Errors
/// [`Error::UnknownMeter`]: an unknown name.
pub fn resolve_meters(names: &[String], all: &[FlowMeter]) -> Result<Vec<(FlowMeter, Option<Present>)>> {
    let find = |name: &String| {
        let known = || all.iter().map(|meter| meter.name.clone()).collect();
        let found = all.iter().rfind(|meter| meter.name == *name);
        let meter = found.ok_or_else(|| Error::UnknownMeter { name: name.clone(), known: known() })?;
        Ok((meter.clone(), meter.present()))
    };
    names.iter().map(find).collect()
}

/// Exporting the remaining records at the end takes a while.
fn patience_s() -> u64 {
    120
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(input: Option<&Path>) -> MeterPlaces<'_> {
        MeterPlaces {
            interface: "rx0",
            input,
            collector: ([127, 0, 0, 1], 2055).into(),
            active_s: 120,
            idle_s: 30,
            flows_max: 1000,
            buffer_mib: 16,
            dir: Path::new("/data/7"),
        }
    }

    fn of(name: &str) -> FlowMeter {
        shipped_meters(Path::new("/opt/quaff")).into_iter().find(|meter| meter.name == name).expect("shipped")
    }

    #[test]
    fn every_shipped_meter_is_read_and_no_place_is_left_open() {
        let all = shipped_meters(Path::new("/opt/quaff"));
        let files = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/meters")).expect("they are here");
        assert_eq!(all.len(), files.count());
        for meter in all {
            for input in [None, Some(Path::new("/data/a.pcap"))] {
                let Ok(tool) = meter.command(&places(input)) else {
                    assert_eq!(meter.name, "fprobe", "all others read files");
                    continue;
                };
                assert!(!tool.args.iter().any(|arg| arg.contains(['{', '}'])), "{:?}", tool.args);
            }
        }
    }

    #[test]
    fn a_command_line_has_collector_timeouts_and_input() {
        let line = |name: &str, input| of(name).command(&places(input)).expect("it can").args.join(" ");
        assert_eq!(
            line("quaff", None),
            "flows -i rx0 --ring 16M -V 9 --active 120s --idle 30s --max-flows 1000 -q -n udp://127.0.0.1:2055"
        );
        assert!(
            line("softflowd", Some(Path::new("/a.pcap"))).starts_with("-r /a.pcap -v 9 -n 127.0.0.1:2055")
        );
        assert_eq!(line("nfpcapd", None), "-i rx0 -b 16 -e 120,30 -B 1000 -H 127.0.0.1/2055");
        assert!(line("fprobe", None).ends_with("-d 30 -e 120 127.0.0.1:2055"));
        let error = of("fprobe").command(&places(Some(Path::new("/a.pcap")))).expect_err("none");
        assert_eq!(error, "fprobe reads no files");
    }

    #[test]
    fn settings_are_written_into_the_directory_of_the_run() {
        let dir = std::env::temp_dir().join(format!("quaff-meter-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("made");
        let places = MeterPlaces { dir: &dir, ..places(None) };
        of("pmacctd").write_config(&places).expect("written");
        let text = fs::read_to_string(dir.join("config")).expect("there");
        fs::remove_dir_all(&dir).expect("removed");
        assert!(text.contains("\nnfprobe_receiver: 127.0.0.1:2055\n") && !text.contains('{'), "{text}");
        assert!(text.contains(":icmp=30:general=30:maxlife=120"), "{text}");
    }

    #[test]
    fn a_mistake_is_reported_with_line_and_key() {
        const MINE: &str = "name = \"mine\"\nprogram = \"mine\"\nprotocol = \"IPFIX\"\n\
            live = [\"{interface}\"]\nexport = [\"{collector}\"]\nready = \"socket\"\n";
        let parse = |text: &str| parse("mine.toml", text, Path::new("q"));
        assert!(parse(MINE).is_ok());
        for (from, to, message) in [
            ("{interface}", "x", "line 4, key `live`: {interface} is missing"),
            ("{collector}", "x", "line 5, key `export`: {collector} or {port} is missing"),
            ("{collector}", "{colector}", "line 5, key `export`: {colector} is unknown here"),
            ("{collector}", "{collector} {quaff}", "line 5, key `export`: {quaff} is unknown here"),
            ("ready", "redy", "line 6, key `redy`"),
            ("ready", "patience_s = 601\nready", "line 6, key `patience_s`: at most 600"),
            ("\"mine\"\nprogram", "\"\"\nprogram", "line 1, key `name`: a flow meter needs a name"),
        ] {
            let error = parse(&MINE.replacen(from, to, 1)).expect_err(to).to_string();
            assert!(error.contains(message), "{to}: {error}");
        }
    }
}
