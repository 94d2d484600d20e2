//! The sinks of `quaff flows`: collectors and files, as arguments and as plans.

use super::parquet::ParquetArgs;
use crate::capture_files::is_capture_file;
use crate::flags::{CsvArg, FlushArg, JsonlArg, of};
use crate::units::{self, Choice, choice};
use anyhow::{Context, anyhow, bail};
use quaff_flow::collector::{
    CollectorPlan, CollectorUrl, FileKind, KernelNextHops, RateLimit, SinkPlan, SpoolPlan, Target,
    TemplateRefresh, TlsPlan, Transport,
};
use quaff_flow::export::{
    AsTable, BiflowPolicy, EncoderPlan, Names, NextHops, Routes, SamplingView, Scene, TEMPLATE_ID, Template,
    Timeouts, Version,
};
use quaff_flow::plan::{ExtrasPlan, MeterPlan};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The collectors and files of a run, and their formats.
#[derive(Debug, clap::Args)]
#[command(mut_args(of("flush", |arg| {
    arg.help_heading("Export").help("Longest time until a message leaves that is not full [default: 1s]")
})))]
pub(crate) struct SinkArgs {
    /// Export to a collector, such as udp://10.0.0.1:4739, tcp://[2001:db8::1]:4739 or tls://host; repeat it for more
    #[arg(short = 'n', long = "collector", value_name = "URL", help_heading = "Export")]
    collector: Vec<CollectorUrl>,
    /// Send records to the collectors in turns, instead of all to each
    #[arg(long, requires = "collector", help_heading = "Export")]
    pub(super) round_robin: bool,
    /// Version of the export: 5 or 9 (NetFlow), or 10 (IPFIX)
    #[arg(short = 'V', long = "export-version", value_name = "N", default_value = "10", value_parser = choice(VERSIONS), help_heading = "Export")]
    version: Version,
    /// Fields of the records, such as '%IPV4_SRC_ADDR %IPV4_DST_ADDR %IN_BYTES', by nProbe's names or those of IPFIX
    ///
    /// The fields of IPv6 follow from those of IPv4. Without a field of the reverse direction, each direction of a
    /// conversation is a record.
    #[arg(short = 'T', long, value_name = "TEXT", value_parser = template, help_heading = "Export")]
    template: Option<Template>,
    /// Number of the first template
    #[arg(long, value_name = "N", default_value_t = TEMPLATE_ID, value_parser = clap::value_parser!(u16).range(256..), help_heading = "Export")]
    template_id: u16,
    /// Over UDP, repeat the templates each TIME [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Export")]
    template_interval: Option<Duration>,
    /// Over UDP, repeat the templates after N messages; 0 never [default: 100]
    #[arg(long, value_name = "N", help_heading = "Export")]
    template_messages: Option<u32>,
    /// Observation domain (IPFIX), source id (NetFlow v9), engine id (NetFlow v5)
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Export")]
    domain: u32,
    /// Conversations to export: all, or those with packets of both directions (answered) or of one (unanswered)
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = choice(BIFLOWS), help_heading = "Export")]
    biflows: BiflowPolicy,
    #[command(flatten)]
    flush: FlushArg,
    /// Send at most N records per second to each collector, such as 20k
    #[arg(long, value_name = "N", value_parser = units::packets, help_heading = "Export")]
    rate: Option<u64>,
    /// Wait TIME after each message, such as 5ms
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Export")]
    pause: Option<Duration>,
    /// Wait only after each N-th message
    #[arg(long, value_name = "N", default_value_t = 1, requires = "pause", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Export")]
    pause_messages: u32,
    /// Records that may wait for each collector or file
    #[arg(long, value_name = "N", default_value = "512000", value_parser = units::packets, help_heading = "Export")]
    queue: u64,
    /// Own address, over UDP
    #[arg(long, value_name = "ADDRESS", help_heading = "Export")]
    source: Option<IpAddr>,
    /// Index of the input interface, for all records [default: that of the kernel]
    #[arg(long, value_name = "N", help_heading = "Export")]
    in_index: Option<u32>,
    /// Index of the output interface, for all records
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Export")]
    out_index: u32,
    /// AS numbers and prefixes of addresses: a text of prefix and number in each line (IPASN), or a database of MaxMind
    #[arg(long = "as", value_name = "FILE", help_heading = "Export")]
    as_table: Option<PathBuf>,
    /// Look up the next hop to each destination in the kernel's routing tables of this machine
    #[arg(long, help_heading = "Export")]
    next_hop: bool,
    /// Keep what a TCP or TLS collector cannot take in files in DIR, and send it when the collector is back
    #[arg(long, value_name = "DIR", requires = "collector", help_heading = "Export")]
    spool: Option<PathBuf>,
    /// Most bytes in DIR
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = units::bytes, requires = "spool", help_heading = "Export")]
    spool_size: u64,
    /// Certificates (PEM) that sign those of TLS collectors
    #[arg(long, value_name = "FILE", help_heading = "Export")]
    tls_ca: Option<PathBuf>,
    /// Own certificate (PEM), for TLS collectors that ask for one
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Export")]
    tls_cert: Option<PathBuf>,
    /// Key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Export")]
    tls_key: Option<PathBuf>,

    #[command(flatten)]
    jsonl: JsonlArg,
    #[command(flatten)]
    csv: CsvArg,
    /// Write records to FILE as Zeek's conn.log; '-' is stdout
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    zeek: Option<PathBuf>,
    /// Write records to FILE as IPFIX (RFC 5655); '-' is stdout
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    ipfix: Option<PathBuf>,
    /// Record the application and the server's name of each flow in --parquet and --ipfix [default: of files]
    ///
    /// Of interfaces they cost whole packets in the kernel's ring, and up to 5 KB of memory for a flow.
    #[arg(long, overrides_with = "no_applications", help_heading = "Files")]
    applications: bool,
    /// Do not record applications and names of servers
    #[arg(long, overrides_with = "applications", help_heading = "Files")]
    no_applications: bool,
    /// Names of columns in JSON, CSV and Parquet: ipfix, nprobe, zeek or ecs
    #[arg(long, value_name = "WORD", default_value = "ipfix", help_heading = "Files")]
    names: Names,
    /// Character between the fields of CSV
    #[arg(long, value_name = "CHAR", default_value = ",", value_parser = separator, help_heading = "Files")]
    separator: u8,
    #[command(flatten)]
    parquet: ParquetArgs,

    /// Print the report as JSON on stdout; on stderr where stdout has records. With FILE it is the old name of --jsonl
    #[arg(long, value_name = "FILE", num_args = 0..=1, help_heading = "Report")]
    json: Option<Option<PathBuf>>,
}

/// Longest time until a message leaves, by default.
const FLUSH: Duration = Duration::from_secs(1);
/// Versions by the names of nProbe's `-V`.
const VERSIONS: [Choice<Version>; 3] =
    [("5", Version::V5, ""), ("9", Version::V9, ""), ("10", Version::Ipfix, "")];
/// Conversations by their answer.
const BIFLOWS: [Choice<BiflowPolicy>; 3] = [
    ("all", BiflowPolicy::All, ""),
    ("answered", BiflowPolicy::Answered, ""),
    ("unanswered", BiflowPolicy::Unanswered, ""),
];

impl SinkArgs {
    /// The files of records.
    pub(super) fn files(&self) -> [Option<&Path>; 4] {
        [self.jsonl(), self.csv.as_ref(), self.zeek.as_ref(), self.ipfix.as_ref()]
            .map(|path| path.map(PathBuf::as_path))
    }

    /// The file of records as JSON.
    fn jsonl(&self) -> Option<&PathBuf> {
        self.jsonl.as_ref().or(self.json.as_ref().and_then(Option::as_ref))
    }

    /// The report is printed as JSON.
    pub(super) fn prints_json(&self) -> bool {
        self.json == Some(None)
    }

    /// `--json FILE`, the old name of --jsonl.
    pub(super) fn has_old_name(&self) -> bool {
        matches!(self.json, Some(Some(_)))
    }

    /// Records that may wait for a sink.
    pub(super) fn queue_records(&self) -> usize {
        self.queue as usize
    }

    /// Applications are recorded in segments, or in IPFIX files whose fields are the default ones.
    fn records_applications(&self, is_live: bool) -> bool {
        let is_stored = !self.parquet.is_none() || (self.ipfix.is_some() && self.template.is_none());
        is_stored && !self.no_applications && (self.applications || !is_live)
    }

    /// The fields that the meter has to compute for the templates, and for the formats with columns of their own.
    pub(super) fn extras(&self, is_live: bool) -> ExtrasPlan {
        let of_template = self.template.as_ref().map_or_else(ExtrasPlan::default, Template::extras);
        let has_names = self.jsonl().is_some() || self.csv.is_some();
        let has_columns = has_names && matches!(self.names, Names::Zeek | Names::Ecs);
        let is_zeek = self.zeek.is_some() || has_columns;
        ExtrasPlan {
            tcp: of_template.tcp || is_zeek,
            statistics: of_template.statistics || is_zeek,
            application: of_template.application || is_zeek || self.records_applications(is_live),
            ..of_template
        }
    }

    /// IPFIX goes to stdout.
    pub(super) fn has_binary_stdout(&self) -> bool {
        self.ipfix.as_deref().is_some_and(|path| path.as_os_str() == "-")
    }

    /// There is no collector and no file.
    pub(super) fn is_none(&self) -> bool {
        self.collector.is_empty() && self.files().iter().all(Option::is_none) && self.parquet.is_none()
    }

    pub(super) fn plan(&self, meter: &MeterPlan) -> anyhow::Result<Vec<SinkPlan>> {
        if self.jsonl.is_some() && self.has_old_name() {
            bail!("--json FILE is the old name of --jsonl FILE: give one of them");
        }
        if let Some(Some(path)) =
            self.json.as_ref().filter(|path| path.as_deref().is_some_and(is_capture_file))
        {
            bail!(
                "--json FILE writes records, and {} is a capture: name it before --json, or with -r",
                path.display()
            );
        }
        if self.applications && self.parquet.is_none() && self.ipfix.is_none() {
            bail!(
                "--applications is for --parquet and --ipfix: name %applicationName in -T of other outputs"
            );
        }
        let (mut sinks, scene) = (Vec::new(), self.scene(meter)?);
        for url in &self.collector {
            sinks.push(SinkPlan::Collector(Box::new(self.collector(url, meter, scene.clone())?)));
        }
        let template = || self.template.clone().unwrap_or_else(Template::default_text);
        let names = self.names;
        let kinds = [
            (self.jsonl(), FileKind::Json { names, template: template() }),
            (self.csv.as_ref(), FileKind::Csv { names, template: template(), separator: self.separator }),
            (self.zeek.as_ref(), FileKind::Zeek),
            (self.ipfix.as_ref(), FileKind::Ipfix(Box::new(self.file_encoder(meter)))),
        ];
        for (path, kind) in kinds {
            let Some(path) = path else { continue };
            let target = match path.as_os_str() == "-" {
                true => Target::Writer("stdout".into(), Box::new(stdout()?)),
                false => Target::Path(path.clone()),
            };
            sinks.push(SinkPlan::File { target, kind, scene: scene.clone() });
        }
        sinks.extend(self.parquet.plan(names, meter.extras, &scene)?);
        Ok(sinks)
    }

    fn collector(
        &self,
        url: &CollectorUrl,
        meter: &MeterPlan,
        scene: Scene,
    ) -> anyhow::Result<CollectorPlan> {
        let is_stream = url.transport != Transport::Udp;
        if self.version == Version::V5 && self.template.is_some() {
            bail!("--template is for NetFlow v9 and IPFIX: NetFlow v5 has a fixed record");
        }
        if self.version == Version::V5 && self.domain > 255 {
            bail!("--domain: the engine ids of NetFlow v5 end at 255");
        }
        if self.spool.is_some() && !is_stream {
            bail!("--spool is for tcp:// and tls:// collectors: over UDP it is unknown what has arrived");
        }
        let spool = self.spool.clone().map(|folder| SpoolPlan { folder, bytes_max: self.spool_size });
        let mut refresh = TemplateRefresh::default();
        refresh.every = self.template_interval.unwrap_or(refresh.every);
        refresh.messages = self.template_messages.unwrap_or(refresh.messages);
        let records_per_s = self.rate.map_or(Ok(0), u32::try_from).context("--rate: at most 4G")?;
        let tls = TlsPlan {
            ca: self.tls_ca.clone(),
            certificate: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            server_name: None,
        };
        let plan = CollectorPlan::new(url.clone(), self.encoder(self.version, meter));
        Ok(CollectorPlan {
            scene,
            source: self.source,
            refresh,
            rate: RateLimit {
                records_per_s,
                pause: self.pause.unwrap_or_default(),
                pause_messages: self.pause_messages,
            },
            linger: self.flush.unwrap_or(FLUSH),
            spool,
            tls,
            ..plan
        })
    }

    /// The encoder of an IPFIX file, which has all fields that a report may name unless a template chooses others.
    fn file_encoder(&self, meter: &MeterPlan) -> EncoderPlan {
        let default = || Template::default_file(meter.extras.application);
        let template = self.template.clone().unwrap_or_else(default);
        EncoderPlan { template, ..self.encoder(Version::Ipfix, meter) }
    }

    fn encoder(&self, version: Version, meter: &MeterPlan) -> EncoderPlan {
        let plan = EncoderPlan::new(version);
        let seconds = |ns: u64| (ns / 1_000_000_000).try_into().unwrap_or(u16::MAX);
        EncoderPlan {
            template: self.template.clone().unwrap_or(plan.template),
            template_id: self.template_id,
            domain: self.domain,
            key: meter.key,
            timeouts: Timeouts { active_s: seconds(meter.active_ns), idle_s: seconds(meter.idle_ns) },
            biflows: self.biflows,
            ..plan
        }
    }

    fn scene(&self, meter: &MeterPlan) -> anyhow::Result<Scene> {
        Ok(Scene {
            input_index: self.in_index,
            output_index: self.out_index,
            sampling: SamplingView::from(meter.sampling),
            engine_id: self.domain as u8,
            routes: self.as_table.as_deref().map(routes).transpose()?,
            next_hops: self.next_hop.then(next_hops).transpose()?,
            ..Scene::default()
        })
    }
}

/// The stream of stdout without the lock that all of this process share: a sink that stands still would keep it.
fn stdout() -> anyhow::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned().context("duplicate stdout")?.into())
}

fn next_hops() -> anyhow::Result<Arc<dyn NextHops>> {
    Ok(Arc::new(KernelNextHops::open().context("--next-hop")?))
}

/// The table of AS numbers in a file.
fn routes(path: &Path) -> anyhow::Result<Arc<dyn Routes>> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let table = AsTable::parse(bytes).map_err(|error| anyhow!("--as {}: {error}", path.display()))?;
    Ok(Arc::new(table))
}

fn template(text: &str) -> Result<Template, String> {
    Template::parse(text).map_err(|error| error.to_string())
}

/// One character of ASCII; `\t` or `tab` is a tab.
fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" | b"tab" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err(format!("'{text}' is not one character of ASCII")),
    }
}
