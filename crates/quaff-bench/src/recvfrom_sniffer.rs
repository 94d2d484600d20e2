//! A baseline capturer without a ring: one recvfrom(2) per packet, and buffered writes. Timestamps are those of the
//! calls.

use crate::{Error, Result};
use quaff::Load;
use quaff::plan::LoadPlan;
use quaff_os::clock::wall_ns;
use quaff_os::packet::{Insn, Receiver, accept};
use quaff_os::{Try, filter, rtnl};
use quaff_wire::Record;
use quaff_wire::linktype;
use quaff_wire::pcap::{self, Resolution};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// tcpdump's maximum snaplen, bytes.
pub const SNAPLEN_MAX: u32 = 262_144;
/// Receive timeout before a check for the end.
const WAIT: Duration = Duration::from_millis(100);
/// Packets between two checks for the end.
const LOOK_PACKETS: u64 = 256;

/// The plan of a capture.
#[derive(Debug, Clone)]
pub struct SnifferPlan {
    pub interface: String,
    /// Path of the pcap file; `-` is stdout.
    pub write: PathBuf,
    /// A tcpdump expression.
    pub filter: Option<String>,
    /// Bytes kept of each packet.
    pub snaplen: u32,
    /// Size of the socket's buffer, bytes; `None`: the kernel's default.
    pub buffer_bytes: Option<usize>,
    /// Work per packet.
    pub load: LoadPlan,
}

/// Packet counts of a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SnifferReport {
    /// Written to the file.
    pub captured: u64,
    /// Dropped by the socket.
    pub dropped: u64,
}

/// Captures until `is_running` returns false and the socket is empty. `ready` is called when the socket is bound.
///
/// # Errors
/// An unknown interface, an invalid filter, an error of the kernel, a file that cannot be written.
pub fn capture(
    plan: &SnifferPlan,
    ready: impl FnOnce(),
    is_running: impl Fn() -> bool,
) -> Result<SnifferReport> {
    let link = rtnl::link(&plan.interface)?;
    let mut out = Out::open(&plan.write, plan.snaplen)?;
    let mut receiver = Receiver::open(link.index, &plan.interface, &program(plan)?, plan.buffer_bytes, WAIT)?;
    ready();
    let mut load = (plan.load != LoadPlan::default()).then(|| Load::new(plan.load, plan.snaplen as usize));
    let (mut report, mut packet, mut is_open) =
        (SnifferReport::default(), vec![0; plan.snaplen as usize], true);
    loop {
        let received = receiver.receive(&mut packet)?;
        if let Some(len) = received {
            let bytes = &packet[..len.min(packet.len())];
            if let Some(load) = &mut load {
                load.work(bytes);
            }
            out.write(bytes, len as u32)?;
            report.captured += 1;
        } else if !is_open {
            break;
        }
        if is_open && (received.is_none() || report.captured.is_multiple_of(LOOK_PACKETS)) {
            // The kernel's counter has 32 bits.
            report.dropped += receiver.statistics()?.drops;
            if !is_running() {
                is_open = false;
                receiver.stop_receiving()?;
            }
        }
    }
    report.dropped += receiver.statistics()?.drops;
    out.end()?;
    Ok(report)
}

/// The filter accepts whole packets: the kernel does not return the length of a truncated one.
fn program(plan: &SnifferPlan) -> Result<Vec<Insn>> {
    let Some(expression) = &plan.filter else { return Ok(vec![accept(SNAPLEN_MAX)]) };
    let what = |error: filter::FilterError| Error::Description {
        place: format!("the filter {expression:?}"),
        what: error.to_string(),
    };
    filter::compile(&plan.interface, linktype::ETHERNET.dlt, expression, SNAPLEN_MAX).map_err(what)
}

struct Out {
    name: String,
    file: BufWriter<Box<dyn Write>>,
    record: Vec<u8>,
}

impl Out {
    fn open(path: &Path, snaplen: u32) -> Result<Self> {
        let name = path.display().to_string();
        let file: Box<dyn Write> = if path == Path::new("-") {
            Box::new(io::stdout().lock())
        } else {
            Box::new(File::create(path).trying(|| format!("create {name}"))?)
        };
        let record = vec![0; pcap::record_bytes(snaplen as usize)];
        let mut out = Self { name, file: BufWriter::new(file), record };
        let header = pcap::file_header(Resolution::Nanoseconds, snaplen, linktype::ETHERNET.linktype);
        out.file.write_all(&header).trying(|| format!("write {}", out.name))?;
        // A reader of a pipe gets the header at once.
        out.file.flush().trying(|| format!("write {}", out.name))?;
        Ok(out)
    }

    fn write(&mut self, bytes: &[u8], len: u32) -> Result<()> {
        let packet = Record { time_ns: wall_ns(), bytes, len, ..Record::default() };
        let used = pcap::record(&mut self.record, Resolution::Nanoseconds, &packet);
        Ok(self.file.write_all(&self.record[..used]).trying(|| format!("write {}", self.name))?)
    }

    fn end(mut self) -> Result<()> {
        Ok(self.file.flush().trying(|| format!("write {}", self.name))?)
    }
}
