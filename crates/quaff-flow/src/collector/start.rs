//! Opens a sink: resolves its name, opens its socket or file. Its thread starts later, when the time of the input is
//! known.

use super::connection::Connector;
use super::counters::Counters;
use super::files::{FileFormat, FileSink};
use super::handle::Sink;
use super::memory::MemorySink;
use super::pace::Pace;
use super::plan::{CollectorPlan, FileKind, InputStart, Pressure, SinkPlan, SinksPlan, Target};
use super::queue::{CloseAtEnd, Queue};
use super::shared::{ExportClock, Shared};
use super::sink::{CollectorSink, Link, Pulse};
use super::spool::Spool;
use super::store::{RecordStore, StoreSink};
use super::stream::StreamLink;
use super::tls::TlsClient;
use super::udp::UdpLink;
use super::url::{CollectorUrl, Transport};
use crate::export::{
    Encoder, EncoderPlan, FileEncoder, Names, Scene, Template, TemplateError, TextEncoder, TextFormat,
    Version,
};
use crate::record::FlowSink;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use quaff_os::disk::open_output;
use quaff_os::{Error, Result, Try};
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Maximum bytes of a message over TCP and TLS.
const STREAM_BYTES_MAX: usize = 16 << 10;

/// Starts the thread of an open sink.
pub(super) type OpenSink = Box<dyn FnOnce(&SinksPlan, InputStart) -> Result<Sink>>;

/// Opens one sink.
pub(super) fn open(sink: SinkPlan, plan: &SinksPlan) -> Result<OpenSink> {
    let is_biflow = match &sink {
        SinkPlan::Collector(collector) => is_biflow_of(&collector.encoder),
        SinkPlan::File { kind, .. } => match kind {
            FileKind::Ipfix(encoder) => is_biflow_of(encoder),
            FileKind::Json { names, template } | FileKind::Csv { names, template, .. } => {
                TextEncoder::new(TextFormat::Json, *names, template).is_biflow()
            }
            FileKind::Zeek => true,
        },
        SinkPlan::Store { .. } => true,
        SinkPlan::Memory { .. } => true,
    };
    let shared = Arc::new(Shared {
        is_biflow,
        lost: AtomicU64::new(0),
        queue: Queue::new(plan.queue_records),
        counters: Counters::default(),
        failure: Mutex::new(None),
        damaged: Mutex::new(Vec::new()),
        ledger: Mutex::new(None),
        is_abandoned: AtomicBool::new(false),
        ended: AtomicU8::new(0),
        deadline_ms: AtomicU64::new(u64::MAX),
        start: Instant::now(),
    });
    match sink {
        SinkPlan::Collector(collector) => open_collector(*collector, shared),
        SinkPlan::File { target, kind, scene } => open_export(target, kind, scene, plan, shared),
        SinkPlan::Store { mut store, scene } => {
            store.open(scene)?;
            Ok(Box::new(move |_, _| start_store(store, shared)))
        }
        SinkPlan::Memory { name, sink } => Ok(Box::new(move |_, _| start_memory(name, sink, shared))),
    }
}

/// Returns `true` if a conversation is one record.
fn is_biflow_of(encoder: &EncoderPlan) -> bool {
    encoder.version != Version::V5 && encoder.template.is_biflow()
}

fn is_live(plan: &SinksPlan) -> bool {
    matches!(plan.pressure, Pressure::Drop)
}

fn refused(tried: String, error: &TemplateError) -> Error {
    Error::new(tried, io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))
}

fn spawn(
    name: &str,
    shared: &Shared,
    run: impl FnOnce() + Send + 'static,
) -> Result<std::thread::JoinHandle<()>> {
    let closes = CloseAtEnd(shared.queue.clone());
    quaff_os::spawn(name, move || {
        let _closes = closes;
        run();
    })
}

/// Resolves the addresses of a collector.
fn resolve(url: &CollectorUrl) -> Result<Vec<SocketAddr>> {
    let found = (url.host.as_str(), url.port).to_socket_addrs();
    let found: Vec<SocketAddr> = found.trying(|| format!("resolve the collector {url}"))?.collect();
    if found.is_empty() {
        let error = io::Error::new(io::ErrorKind::NotFound, "no address");
        return Err(Error::new(format!("resolve the collector {url}"), error));
    }
    Ok(found)
}

fn open_collector(mut collector: CollectorPlan, shared: Arc<Shared>) -> Result<OpenSink> {
    let addresses = resolve(&collector.url)?;
    let (link, bytes_max) = match collector.url.transport {
        Transport::Udp => {
            // Relaxed: written before the thread that reads it starts. Over UDP there is no connection to make.
            shared.counters.is_up.store(1, Ordering::Relaxed);
            open_udp(&collector, &addresses)?
        }
        Transport::Tcp | Transport::Tls => open_stream(&collector, addresses, &shared)?,
    };
    collector.encoder.bytes_max = bytes_max.min(collector.encoder.bytes_max);
    // A template that cannot be encoded fails here, before any input is read.
    drop(encoder_of(&collector)?);
    Ok(Box::new(move |plan, start| start_collector(collector, link, (plan, start), shared)))
}

fn encoder_of(collector: &CollectorPlan) -> Result<Encoder> {
    Encoder::new(collector.encoder.clone(), collector.scene.clone())
        .map_err(|error| refused(format!("export to {}", collector.url), &error))
}

fn start_collector(
    mut collector: CollectorPlan,
    link: Link,
    (plan, start): (&SinksPlan, InputStart),
    shared: Arc<Shared>,
) -> Result<Sink> {
    collector.encoder.boot_ns = start.boot_ns.unwrap_or(collector.encoder.boot_ns);
    let encoder = encoder_of(&collector)?;
    let kind = match collector.encoder.version {
        Version::V5 => "netflow5",
        Version::V9 => "netflow9",
        Version::Ipfix => "ipfix",
    };
    let now = Instant::now();
    let sink = CollectorSink {
        encoder,
        link,
        shared: shared.clone(),
        pulse: Pulse {
            refresh: collector.refresh,
            linger: collector.linger,
            statistics: collector.statistics,
            is_prompt: plan.is_prompt,
        },
        clock: ExportClock::new(start.now_ns, is_live(plan)),
        wait: match &plan.pressure {
            Pressure::Drop => None,
            Pressure::Wait(stop) => Some(stop.clone()),
        },
        pace: Pace::new(collector.rate, now),
        announced: None,
        since_announced: 0,
        flushed: now,
        ledger: None,
        statistics_sent: now,
    };
    let thread = spawn("quaff-export", &shared, move || sink.run())?;
    let (name, transport) = (collector.url.to_string(), Some(collector.url.transport));
    Ok(Sink { name, kind, transport, shared, thread: Some(thread) })
}

fn open_udp(collector: &CollectorPlan, addresses: &[SocketAddr]) -> Result<(Link, usize)> {
    let is_own_family =
        |address: &&SocketAddr| collector.source.is_none_or(|source| source.is_ipv6() == address.is_ipv6());
    let peer = addresses.iter().find(is_own_family).or(addresses.first()).copied();
    let peer = peer.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    let plan = &collector.encoder;
    let link = UdpLink::open(peer, collector.source, plan.version, plan.bytes_max)?;
    let bytes_max = link.message_bytes_max();
    Ok((Link::Udp(link), bytes_max))
}

fn open_stream(
    collector: &CollectorPlan,
    addresses: Vec<SocketAddr>,
    shared: &Arc<Shared>,
) -> Result<(Link, usize)> {
    let url = &collector.url;
    if collector.source.is_some() {
        let error = io::Error::new(io::ErrorKind::Unsupported, "a source address is for UDP");
        return Err(Error::new(format!("export to {url}"), error));
    }
    let tls = match url.transport {
        Transport::Tls => Some(TlsClient::new(&collector.tls, &url.host)?),
        Transport::Udp | Transport::Tcp => None,
    };
    let spool = match &collector.spool {
        None => None,
        Some(plan) => {
            let tried = || format!("open the spool in {}", plan.folder.display());
            // Spooled messages of another version or domain cannot be sent in this session.
            let (version, domain) = (collector.encoder.version, collector.encoder.domain);
            let name = format!("{url}-v{}-{domain}", version.number());
            Some(Spool::open(&plan.folder, &name, version, plan.bytes_max).trying(tried)?)
        }
    };
    let connector = Connector { addresses, timeout: collector.connect_timeout, tls, name: url.to_string() };
    let format = (collector.encoder.version, collector.encoder.domain);
    let pace = (collector.reconnect, collector.rate);
    let link = StreamLink::new(connector, format, pace, spool, shared.clone());
    Ok((Link::Stream(Box::new(link)), STREAM_BYTES_MAX))
}

/// Opens a file that no other export is writing, without truncating it. Waits until a named pipe has a reader, for at
/// most [`READER_WAIT`].
fn open_file(path: &Path, pressure: &Pressure) -> io::Result<File> {
    let is_pipe = path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo());
    if is_pipe {
        return open_pipe(path, pressure);
    }
    let file = open_output(path, libc::O_WRONLY | libc::O_CREAT)?;
    // On a file system without locks, the file is written without one.
    let is_taken = file.metadata()?.is_file() && matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    match is_taken {
        true => Err(io::Error::new(io::ErrorKind::ResourceBusy, "another export is writing it")),
        false => Ok(file),
    }
}

/// Maximum wait for the reader of a named pipe.
const READER_WAIT: Duration = Duration::from_secs(10);

pub(super) fn open_pipe(path: &Path, pressure: &Pressure) -> io::Result<File> {
    let end = Instant::now() + READER_WAIT;
    let is_stopped = || matches!(pressure, Pressure::Wait(stop) if stop.raised());
    loop {
        match open_output(path, libc::O_WRONLY | libc::O_NONBLOCK) {
            Err(error) if error.raw_os_error() == Some(nix::libc::ENXIO) => {
                if Instant::now() >= end || is_stopped() {
                    return Err(io::Error::new(error.kind(), "the pipe has no reader: start it first"));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            Ok(pipe) => {
                // From here on, writes block, as they should. Opening the pipe again instead could wait for a reader
                // that has left.
                fcntl(&pipe, FcntlArg::F_SETFL(OFlag::empty()))?;
                return Ok(pipe);
            }
            Err(error) => return Err(error),
        }
    }
}

/// An open file or stream.
struct OpenExport {
    name: String,
    out: Box<dyn Write + Send>,
    file: Option<File>,
}

fn open_export(
    target: Target,
    kind: FileKind,
    scene: Scene,
    plan: &SinksPlan,
    shared: Arc<Shared>,
) -> Result<OpenSink> {
    let open = match target {
        Target::Writer(name, out) => OpenExport { name, out, file: None },
        Target::Path(path) => {
            let tried = || format!("create {}", path.display());
            let out = open_file(&path, &plan.pressure).trying(tried)?;
            let is_file = out.metadata().trying(tried)?.is_file();
            let file = is_file.then(|| out.try_clone()).transpose().trying(tried)?;
            OpenExport { name: path.display().to_string(), out: Box::new(out), file }
        }
    };
    drop(format_of(&open.name, kind.clone(), scene.clone(), None)?);
    Ok(Box::new(move |plan, start| start_file(open, (kind, scene), (plan, start), shared)))
}

/// The name of a format, and its encoder.
fn format_of(
    name: &str,
    kind: FileKind,
    scene: Scene,
    boot_ns: Option<u64>,
) -> Result<(&'static str, FileFormat)> {
    let text = |format: TextFormat, names: Names, template: &Template, scene: Scene| {
        FileFormat::Text(TextEncoder::new(format, names, template), Box::new(scene))
    };
    Ok(match kind {
        FileKind::Json { names, template } => ("json", text(TextFormat::Json, names, &template, scene)),
        FileKind::Csv { names, template, separator } => {
            ("csv", text(TextFormat::Csv { separator }, names, &template, scene))
        }
        FileKind::Zeek => ("zeek", text(TextFormat::Zeek, Names::Zeek, &Template::default_text(), scene)),
        FileKind::Ipfix(mut encoder) => {
            encoder.boot_ns = boot_ns.unwrap_or(encoder.boot_ns);
            let encoder = FileEncoder::new(*encoder, scene);
            let encoder = encoder.map_err(|error| refused(format!("export to {name}"), &error))?;
            ("ipfix", FileFormat::Ipfix(Box::new(encoder)))
        }
    })
}

fn start_file(
    OpenExport { name, out, file }: OpenExport,
    (kind, scene): (FileKind, Scene),
    (plan, start): (&SinksPlan, InputStart),
    shared: Arc<Shared>,
) -> Result<Sink> {
    let (kind, format) = format_of(&name, kind, scene, start.boot_ns)?;
    // Relaxed: written before the thread that reads it starts.
    shared.counters.is_up.store(1, Ordering::Relaxed);
    let clock = ExportClock::new(start.now_ns, is_live(plan));
    let linger = Duration::from_secs(1);
    let is_prompt = plan.is_prompt;
    let is_emptied = false;
    let sink = FileSink { format, out, file, is_emptied, shared: shared.clone(), clock, linger, is_prompt };
    let thread = spawn("quaff-export", &shared, move || sink.run())?;
    Ok(Sink { name, kind, transport: None, shared, thread: Some(thread) })
}

fn start_store(store: Box<dyn RecordStore>, shared: Arc<Shared>) -> Result<Sink> {
    let (name, kind) = (store.folder().display().to_string(), store.kind());
    // Relaxed: written before the thread that reads it starts.
    shared.counters.is_up.store(1, Ordering::Relaxed);
    let sink = StoreSink { store, shared: shared.clone() };
    let thread = spawn("quaff-store", &shared, move || sink.run())?;
    Ok(Sink { name, kind, transport: None, shared, thread: Some(thread) })
}

fn start_memory(name: String, sink: Box<dyn FlowSink + Send>, shared: Arc<Shared>) -> Result<Sink> {
    // Relaxed: written before the thread that reads it starts.
    shared.counters.is_up.store(1, Ordering::Relaxed);
    let memory = MemorySink { sink, shared: shared.clone() };
    let thread = spawn("quaff-export", &shared, move || memory.run())?;
    Ok(Sink { name, kind: "memory", transport: None, shared, thread: Some(thread) })
}
