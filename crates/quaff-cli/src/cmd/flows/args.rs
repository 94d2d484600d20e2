//! The arguments of `quaff flows`, and the plan they make.

use super::report::Ledger;
use super::sinks::SinkArgs;
use super::{breakdown, list, top};
use crate::flags::{CoresArg, LaneArgs, MaxFlowsArg, MeteredArgs, TimeoutArgs, UserArgs, nanoseconds, of};
use crate::shell::{Settings, WatchArgs};
use crate::show;
use crate::units;
use crate::written_file::WrittenFile;
use anyhow::bail;
use quaff::flows::FlowsPlan;
use quaff_file::write::Output;
use quaff_flow::meter::room;
use quaff_flow::plan::{KeyPlan, MeterPlan, Sampling};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::Duration;

/// Meter flows: of interfaces or capture files, exported as NetFlow or IPFIX, or written as text or Parquet
///
/// Both directions of a conversation are one flow, and its source is the end that began it. A flow ends when it is
/// closed, when it is silent for --idle, or, piece by piece, each --active. Time is that of the packets: the same
/// file gives the same records at any speed, and each record leaves at most 1 ms after it is due.
///
/// Each packet is in a flow or counted as ignored, by reason; the sums are checked at the end. When the table is
/// full, the flow that was idle for longest ends early, with that reason in its record. A slow collector never
/// stops the meter: what it misses is counted.
///
/// SIGINT or SIGTERM ends the meter and exports the flows in the table; a second one ends it immediately. SIGUSR1
/// prints a progress line.
///
/// Exit status: 0 nothing was lost; 1 packets or records were lost, or an input file is damaged; 2 it failed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    mut_args(of("active", |arg| arg.default_value("120s"))),
    mut_args(of("idle", |arg| arg.default_value("30s")))
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<FlowsCommand>,

    #[command(flatten)]
    pub(super) input: MeteredArgs,
    /// Meter one packet of N: 1/N each N-th, ~1/N at random. Records count what was metered; the export has the N
    #[arg(long, value_name = "1/N", value_parser = sampling, help_heading = "Filter")]
    sample: Option<Sampling>,

    #[command(flatten, next_help_heading = "Flows")]
    timeouts: TimeoutArgs,
    /// End a closed TCP connection after TIME without a packet; until then late packets are still its own
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::duration, help_heading = "Flows")]
    tcp_linger: Duration,
    /// Fields of the key: addresses, ports and protocol always, and a list of vlan, mpls, interface, tos, tunnel
    /// [default: vlan,tunnel]
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', value_parser = KEYS, help_heading = "Flows")]
    key: Option<Vec<String>>,
    /// Meter each direction as a flow of its own
    #[arg(long, help_heading = "Flows")]
    uniflow: bool,
    #[command(flatten, next_help_heading = "Flows")]
    max_flows: MaxFlowsArg,
    /// Most memory of the table of a lane, at least 1M [default: 1G, with --max-flows as much as that needs]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Flows")]
    max_memory: Option<u64>,

    #[command(flatten)]
    pub(super) sinks: SinkArgs,

    #[command(flatten)]
    lanes: LaneArgs,

    #[command(flatten, next_help_heading = "Performance")]
    cpu: CoresArg,

    #[command(flatten)]
    user: UserArgs,

    /// Write the counters as JSON to FILE at the end; '-' is stdout
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    pub(super) ledger: Option<PathBuf>,
    #[command(flatten)]
    pub(super) watch: WatchArgs,
}

/// Commands that look at flows instead of exporting them.
#[derive(Debug, clap::Subcommand)]
pub(super) enum FlowsCommand {
    Top(Box<top::Args>),
    Report(Box<breakdown::Args>),
    List(Box<list::Args>),
}

const EXAMPLES: &str = "\
Examples:
  quaff flows -i eth0 -n udp://10.0.0.1:4739
  quaff flows -i eth0 -n udp://10.0.0.1:2055 -V 9 -T '%PROTOCOL %IN_BYTES'
  quaff flows day.pcapng --jsonl flows.json --json
  quaff flows -i eth0 --parquet /var/lib/flows --probe berlin-1
  quaff flows --read day.pcapng --decap vxlan --csv - --idle 10s
  quaff flows top -i eth0
  quaff flows report day.pcapng --by host,application --over 1m
  quaff flows list /flows --where 'host 192.168.1.7' --sort bytes --top 20";

/// Fields of `--key`. Those of nProbe's `-p` that are always in the key are accepted.
const KEYS: [&str; 8] = ["vlan", "mpls", "interface", "tos", "tunnel", "addresses", "ports", "protocol"];

/// Bytes of a live packet that are looked at: headers, also after tags, labels and extension headers, and the first
/// ones of payload.
const SNAPLEN_LIVE: u32 = 256;
const PAYLOAD_LIVE: u16 = 64;
/// Most flows of a table.
const FLOWS_MAX: u64 = 1 << 30;

impl Args {
    /// Meters interfaces, not files.
    pub(crate) fn is_live(&self) -> bool {
        match &self.command {
            None => self.input.is_live(),
            Some(FlowsCommand::Top(args)) => args.is_live(),
            Some(FlowsCommand::Report(_) | FlowsCommand::List(_)) => false,
        }
    }

    /// The lines that the run shows, and its duration.
    pub(super) fn settings(&self) -> Settings {
        Settings::new(&self.watch, self.input.end.duration)
    }

    /// Records, or the counters of --ledger, go to stdout.
    pub(super) fn takes_stdout(&self) -> bool {
        let files = [self.ledger.as_deref()].into_iter().chain(self.sinks.files());
        files.flatten().any(|path| path.as_os_str() == "-")
    }

    /// The plan, with default sizes for this machine.
    pub(super) fn plan(&self) -> anyhow::Result<FlowsPlan> {
        let files = [self.ledger.as_deref()].into_iter().chain(self.sinks.files());
        if files.flatten().filter(|path| path.as_os_str() == "-").count() > 1 {
            bail!("stdout can have one of --ledger and the files of records: name a file for the others");
        }
        let (input, meter) =
            (self.input.plan(&self.lanes, &self.cpu, self.snaplen_live(), &[])?, self.meter_plan()?);
        let sinks = self.sinks.plan(&meter)?;
        let (is_round_robin, queue_records) = (self.sinks.round_robin, self.sinks.queue_records());
        let also_written = self.ledger.as_deref().into_iter().filter(|path| path.as_os_str() != "-");
        let mut also_written: Vec<_> = also_written.map(|path| Output::File(path.to_owned())).collect();
        if self.takes_stdout() || self.sinks.prints_json() {
            also_written.push(Output::Stdout);
        }
        let (sandbox, owner) = (self.user.sandbox(), self.user.caller());
        Ok(FlowsPlan {
            input,
            meter,
            sinks,
            is_round_robin,
            queue_records,
            also_written,
            draws: false,
            sandbox,
            owner,
        })
    }

    /// Opens the file of --ledger; `None` without one.
    pub(super) fn open_ledger(&self) -> anyhow::Result<Option<Ledger>> {
        let Some(path) = &self.ledger else { return Ok(None) };
        if path.as_os_str() == "-" {
            return Ok(Some(Ledger::Stdout));
        }
        WrittenFile::open_for(path, self.user.owner()?.as_ref()).map(|file| Some(Ledger::File(file)))
    }

    /// Sentences about the flags.
    pub(super) fn notes(&self, meter: &MeterPlan) -> impl Iterator<Item = String> {
        let old = "--json FILE writes records: its name is now --jsonl FILE; --json alone prints the report";
        let none = "no collector and no file is named: flows are counted only; 'quaff flows report FILE' sums them up, \
                    --csv FILE writes a line for each, --collector HOST sends them";
        let words = [(self.sinks.has_old_name(), old), (self.sinks.is_none(), none)];
        let words = words.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words.to_owned());
        self.room_note(meter).into_iter().chain(words)
    }

    /// A sentence about limits that are lower than what was asked for.
    fn room_note(&self, meter: &MeterPlan) -> Option<String> {
        let (room, flows_max) = (room(meter), u64::from(meter.flows_max));
        let is_less = (self.max_flows.is_some() || self.max_memory.is_some()) && room < flows_max;
        is_less.then(|| {
            format!("a table has {} flows at most: --max-memory has no room for more", show::count(room))
        })
    }

    /// Bytes of a live packet that are looked at by default; 0 is all.
    fn snaplen_live(&self) -> u32 {
        // What an application says of itself is beyond the headers.
        let extras = self.sinks.extras(self.input.is_live());
        if extras.application || extras.payload_bytes > PAYLOAD_LIVE { 0 } else { SNAPLEN_LIVE }
    }

    fn meter_plan(&self) -> anyhow::Result<MeterPlan> {
        let default = MeterPlan::default();
        let flows_max = self.max_flows.unwrap_or(default.flows_max.into());
        let flows_max = u32::try_from(flows_max.min(FLOWS_MAX + 1)).unwrap_or(u32::MAX);
        if u64::from(flows_max) > FLOWS_MAX {
            bail!("--max-flows: at most {FLOWS_MAX}");
        }
        // Who names a number of flows alone gets it.
        let bytes_max = if self.max_flows.is_some() { u64::MAX } else { default.bytes_max };
        let has = |name: &str| self.key.as_ref().is_some_and(|fields| fields.iter().any(|of| of == name));
        let key = KeyPlan {
            vlan: has("vlan"),
            mpls: has("mpls"),
            interface: has("interface"),
            tos: has("tos"),
            tunnel: has("tunnel"),
        };
        Ok(MeterPlan {
            key: if self.key.is_some() { key } else { default.key },
            is_biflow: !self.uniflow,
            active_ns: self.timeouts.active_ns().unwrap_or(default.active_ns),
            idle_ns: self.timeouts.idle_ns().unwrap_or(default.idle_ns),
            linger_ns: nanoseconds(self.tcp_linger),
            flows_max,
            bytes_max: self.max_memory.unwrap_or(bytes_max),
            sampling: self.sample.unwrap_or(Sampling::All),
            extras: self.sinks.extras(self.input.is_live()),
        })
    }
}

/// `1/100`, `~1/100`.
fn sampling(text: &str) -> Result<Sampling, String> {
    let (rest, is_random) = match text.strip_prefix('~') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let interval = rest.strip_prefix("1/").and_then(|number| number.parse::<u32>().ok());
    match interval {
        None | Some(0) => Err(format!("'{text}' is not of the form 1/N or ~1/N")),
        Some(1) => Ok(Sampling::All),
        Some(interval) if is_random => {
            let seed = RandomState::new().hash_one(0);
            Ok(Sampling::Random { interval, seed })
        }
        Some(interval) => Ok(Sampling::Systematic { interval }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use quaff::plan::SNAPLEN_MAX;
    use std::ffi::OsString;

    fn plan(line: &str) -> anyhow::Result<FlowsPlan> {
        let words = line.split_whitespace().map(OsString::from);
        let line: Vec<_> = std::iter::once("flows".into()).chain(words).collect();
        match crate::read(&line)? {
            Command::Flows(args) => args.plan(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_defaults_are_those_of_nprobe() {
        let meter = plan("--read a.pcap").unwrap().meter;
        assert_eq!((meter.active_ns, meter.idle_ns), (120_000_000_000, 30_000_000_000));
        assert_eq!(meter, MeterPlan::default());
    }

    #[test]
    fn flags_set_the_key_and_the_sampling() {
        let meter =
            plan("--read a --key tos,interface --uniflow --sample 1/50 --max-flows 2k").unwrap().meter;
        let key = KeyPlan { vlan: false, mpls: false, interface: true, tos: true, tunnel: false };
        assert_eq!((meter.key, meter.is_biflow, meter.flows_max), (key, false, 2000));
        assert_eq!(meter.sampling, Sampling::Systematic { interval: 50 });
        assert!(matches!(sampling("~1/9"), Ok(Sampling::Random { interval: 9, .. })));
        for wrong in ["2/3", "1/0", "1/", "9", "~9"] {
            assert!(sampling(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn packets_are_kept_as_far_as_the_fields_need_them() {
        let snaplen = |line: &str| plan(line).unwrap().input.snaplen;
        assert_eq!(snaplen("--read a"), SNAPLEN_MAX);
        assert_eq!(snaplen("-i lo"), SNAPLEN_LIVE);
        assert_eq!(snaplen("-i lo -T %IN_BYTES%TLS_SERVER_NAME"), SNAPLEN_MAX);
        assert_eq!(snaplen("-i lo --zeek a"), SNAPLEN_MAX);
        for columns in ["--zeek b", "--csv b --names zeek", "--jsonl b --names ecs"] {
            let extras = plan(&format!("--read a {columns} -T %IN_SRC_MAC")).unwrap().meter.extras;
            assert!(
                extras.tcp && extras.statistics && extras.application && extras.macs,
                "{columns}: {extras:?}"
            );
        }
    }

    /// Of files the packets are there; of interfaces whole packets have to be kept.
    #[test]
    fn stored_flows_of_files_have_applications() {
        for (line, expected) in [
            ("--read a --parquet b", true),
            ("--read a --ipfix b", true),
            ("--read a --ipfix b --no-applications", false),
            ("--read a --parquet b --no-applications --applications", true),
            ("--read a --ipfix b -T %IN_BYTES%IN_PKTS", false),
            ("--read a --jsonl b", false),
            ("-i lo --parquet b", false),
            ("-i lo --parquet b --applications", true),
        ] {
            let plan = plan(line).unwrap();
            assert_eq!(plan.meter.extras.application, expected, "{line}");
            let is_short = plan.input.snaplen == SNAPLEN_LIVE;
            assert_eq!(is_short, line.starts_with("-i") && !expected, "{line}");
        }
        assert!(plan("--read a --jsonl b --applications").is_err());
    }

    #[test]
    fn limits_are_those_that_were_asked_for() {
        let meter = |line: &str| plan(line).unwrap().meter;
        assert_eq!(meter("--read a --max-flows 10M").bytes_max, u64::MAX);
        assert_eq!(meter("--read a --max-flows 10M --max-memory 1G").bytes_max, 1 << 30);
        let words = ["flows", "--read", "a", "--max-flows", "10M", "--max-memory", "1G"].map(OsString::from);
        for (words, notes) in [(&words[..], 1), (&words[..5], 0), (&words[..3], 0)] {
            match crate::read(words) {
                Ok(Command::Flows(args)) => {
                    assert_eq!(args.room_note(&args.plan().unwrap().meter).iter().len(), notes)
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(plan("--read a --max-flows 2G").is_err());
        assert!(plan("--read a --max-memory 1k").unwrap().validate().is_err());
        assert!(plan("--read a -V 5 --domain 300 -n udp://h").is_err());
    }

    #[test]
    fn stdout_has_one_output() {
        let error =
            plan("--read a --jsonl - --ledger -").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("--ledger"), "{error}");
        assert!(plan("--read a --jsonl - --ledger b").is_ok());
    }

    #[test]
    fn json_without_a_file_is_the_report_and_with_one_an_old_name() {
        let sinks = |line: &str| plan(line).unwrap().sinks.len();
        let counts =
            ["--read a --json", "--read a --jsonl b", "--read a --json b", "--json --read a --jsonl b"];
        assert_eq!(counts.map(sinks), [0, 1, 1, 1]);
        assert!(plan("--read a --json b --jsonl c").is_err());
    }
}
