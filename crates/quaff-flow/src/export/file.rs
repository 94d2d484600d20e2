//! IPFIX files (RFC 5655): messages one after another, templates and descriptions first, the time window last.
//!
//! Returns bytes; the caller writes them. A file that is cut between two messages is a valid shorter one.

use super::encoder::{Encoder, EncoderPlan, WINDOW_TEMPLATE};
use super::ipfix::{self, FieldSpec};
use super::message::{Carried, Entry, Message, Packer, Session, Version};
use super::options::Statistics;
use super::template::{Dialect, TemplateError};
use super::time_base::{Stamp, Uptime};
use super::value::Scene;
use crate::record::FlowRecord;

/// Maximum bytes of a message in a file: its length has 16 bits.
const BYTES_MAX: usize = 65_535;

/// The encoder of one file.
#[derive(Debug)]
pub(crate) struct FileEncoder {
    encoder: Encoder,
    session: Session,
    window_id: u16,
    domain: u32,
    window: Option<Window>,
    carried: Carried,
    /// The part of `carried` that `take_carried` has not returned yet.
    fresh: Carried,
    messages: u64,
    bytes: u64,
}

/// Times of all records of a file, ns since 1970.
#[derive(Debug, Clone, Copy)]
struct Window {
    first_ns: u64,
    last_ns: u64,
}

impl FileEncoder {
    /// An encoder whose file begins with the templates of `plan`, which must be one of IPFIX.
    pub(crate) fn new(plan: EncoderPlan, scene: Scene) -> Result<Self, TemplateError> {
        let plan = EncoderPlan { version: Version::Ipfix, bytes_max: BYTES_MAX, ..plan };
        let (template_id, domain) = (plan.template_id, plan.domain);
        let (encoder, session) = (Encoder::new(plan, scene)?, Session::new(Version::Ipfix));
        let window_id = template_id + WINDOW_TEMPLATE;
        let (carried, fresh) = (Carried::default(), Carried::default());
        Ok(Self { encoder, session, window_id, domain, window: None, carried, fresh, messages: 0, bytes: 0 })
    }

    /// Appends the first messages of a file.
    pub(crate) fn begin(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        for message in self.encoder.announce(now_ns) {
            self.append(message, out);
        }
    }

    /// Encodes a record, and appends complete messages.
    pub(crate) fn push(&mut self, record: &FlowRecord, now_ns: u64, out: &mut Vec<u8>) {
        let (first_ns, last_ns) = (record.first_ns(), record.last_ns());
        let window = self.window.get_or_insert(Window { first_ns, last_ns });
        window.first_ns = window.first_ns.min(first_ns);
        window.last_ns = window.last_ns.max(last_ns);
        self.encoder.push(record, now_ns);
        self.drain(out);
    }

    /// Appends the message that is being filled, for readers who follow the file.
    pub(crate) fn flush(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        self.encoder.flush(now_ns);
        self.drain(out);
    }

    /// Appends the last messages: records, statistics and the time window. `meter` is the ledger of the meter; the
    /// counts of the exporter are those of this file.
    pub(crate) fn finish(&mut self, meter: Statistics, now_ns: u64, out: &mut Vec<u8>) {
        self.flush(now_ns, out);
        let counts =
            Statistics { messages: self.messages, records: self.carried.records, bytes: self.bytes, ..meter };
        self.encoder.statistics(&counts, now_ns);
        self.drain(out);
        if let Some(window) = self.window {
            self.append_window(window, now_ns, out);
        }
    }

    /// Records, packets and bytes that became messages since the last call.
    pub(crate) fn take_carried(&mut self) -> Carried {
        std::mem::take(&mut self.fresh)
    }

    /// Counts of records that did not become part of a message.
    pub(crate) fn unencoded(&self) -> super::Unencoded {
        self.encoder.unencoded()
    }

    fn drain(&mut self, out: &mut Vec<u8>) {
        while let Some(message) = self.encoder.pop() {
            self.append(message, out);
        }
    }

    fn append(&mut self, mut message: Message, out: &mut Vec<u8>) {
        self.session.seal(&mut message);
        self.carried += message.carried;
        self.fresh += message.carried;
        self.messages += 1;
        self.bytes += message.bytes.len() as u64;
        out.extend(&message.bytes);
    }

    /// The time window (RFC 5655, 8.1.2): sessionScope; minFlowStart- and maxFlowEndMilliseconds.
    fn append_window(&mut self, window: Window, now_ns: u64, out: &mut Vec<u8>) {
        let fields = [(267, 1), (272, 8), (269, 8)].map(|(id, bytes)| FieldSpec { id, pen: 0, bytes });
        let stamp = Stamp { now_ns, uptime: Uptime::new(0) };
        let entry = |set, units| Entry { set, bytes_min: 4, units, carried: Carried::default() };
        let mut packer = Packer::new(Dialect::Ipfix, self.domain, BYTES_MAX);
        let id = self.window_id;
        let template = |out: &mut Vec<u8>| ipfix::append_options_template(out, id, 1, &fields);
        let _ = packer.append(entry(ipfix::OPTIONS_TEMPLATES, 0), stamp, template);
        let _ = packer.append(entry(id, 1), stamp, |out| {
            out.push(0);
            out.extend((window.first_ns / 1_000_000).to_be_bytes());
            out.extend(window.last_ns.div_ceil(1_000_000).to_be_bytes());
        });
        packer.flush(stamp);
        if let Some(message) = packer.ready.pop_front() {
            self.append(message, out);
        }
    }
}
