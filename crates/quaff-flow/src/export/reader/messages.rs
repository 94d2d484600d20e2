//! Messages and sets: templates, and the records that follow them.

use super::super::ipfix::{HEADER_BYTES, OPTIONS_TEMPLATES, TEMPLATES};
use super::bytes::{Bytes, Result, number};
use super::draft::Draft;
use super::layout::{Layout, Part};
use super::totals::{IpfixTotals, Run};
use crate::record::FlowRecord;
use crate::summary::By;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of the header of a message, which has the length of the message.
pub const IPFIX_HEADER_BYTES: usize = HEADER_BYTES;
/// Maximum templates, and maximum fields of all templates together.
const TEMPLATES_MAX: usize = 4096;
const FIELDS_MAX: usize = 1 << 16;
/// Maximum observation domains of a file.
const DOMAINS_MAX: usize = 256;
/// Version of IPFIX.
const VERSION: u16 = 10;
/// Numbers below this are reserved for sets (RFC 7011, 3.4.1).
const DATA_MIN: u16 = 256;

/// Records of one set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpfixBatch {
    /// The properties that their template does not have.
    pub lacking: Arc<[By]>,
    pub records: Vec<FlowRecord>,
}

/// Reads the messages of one file, in order.
#[derive(Debug, Default)]
pub struct IpfixReader {
    /// By observation domain and number.
    layouts: HashMap<(u32, u16), Arc<Layout>>,
    /// Fields of all templates.
    fields: usize,
    /// The next sequence number of each observation domain.
    sequences: HashMap<u32, u32>,
    /// Bytes before the present message.
    at: u64,
    run: Run,
    totals: IpfixTotals,
}

/// The results of a message that is not complete yet.
#[derive(Debug, Default)]
struct Taken {
    batches: Vec<IpfixBatch>,
    /// Data records, also those of options.
    data_records: u32,
    run: Run,
}

/// Returns whether a file that begins so is IPFIX: a header whose length has room for the set that follows, which is
/// one of templates.
pub fn is_ipfix(head: &[u8]) -> bool {
    let Some(head) = head.first_chunk::<{ HEADER_BYTES + 4 }>() else { return false };
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let room = usize::from(word(2)).saturating_sub(HEADER_BYTES);
    let is_template = matches!(word(HEADER_BYTES), TEMPLATES | OPTIONS_TEMPLATES);
    word(0) == VERSION && is_template && (4..=room).contains(&usize::from(word(HEADER_BYTES + 2)))
}

impl IpfixReader {
    /// The length of the next message, by its header.
    ///
    /// # Errors
    /// The bytes are no header. What follows them in the file cannot be found any more.
    pub fn message_bytes(&self, header: &[u8; IPFIX_HEADER_BYTES]) -> Result<usize> {
        let mut header = Bytes { rest: header, at: self.at };
        let (start, version) = (header, header.u16("a version")?);
        let length = usize::from(header.u16("a length")?);
        match version {
            VERSION if length > HEADER_BYTES => Ok(length),
            VERSION => Err(start.error(format!("a message of {length} bytes has no room for a set"))),
            _ => Err(start.error(format!("no message of IPFIX: its version is {version}, not {VERSION}"))),
        }
    }

    /// Reads a message and returns its records, by sets.
    ///
    /// # Errors
    /// The message has a mistake, and none of its records counts. The next one can be read.
    pub fn read(&mut self, message: &[u8]) -> Result<Vec<IpfixBatch>> {
        let bytes = Bytes { rest: message, at: self.at };
        self.at += message.len() as u64;
        self.message(bytes)
    }

    /// Bytes of the messages that were read.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The counters of the file, at its end.
    pub fn finish(mut self) -> IpfixTotals {
        self.totals.end(&std::mem::take(&mut self.run));
        self.totals
    }

    fn message(&mut self, mut bytes: Bytes<'_>) -> Result<Vec<IpfixBatch>> {
        let mut header = bytes.take(HEADER_BYTES, "a header")?;
        let _ = header.take(8, "version, length and time")?;
        let place = header;
        let (sequence, domain) = (header.u32("a sequence number")?, header.u32("a domain")?);
        if self.sequences.len() >= DOMAINS_MAX && !self.sequences.contains_key(&domain) {
            return Err(place.error(format!("more than {DOMAINS_MAX} observation domains")));
        }
        let mut taken = Taken::default();
        while !bytes.rest.is_empty() {
            self.set(&mut bytes, domain, &mut taken)?;
        }
        self.count(sequence, domain, &taken);
        Ok(taken.batches)
    }

    /// Counts a message, and the records that are missing before it. Where the sequence goes back, the file of another
    /// run follows.
    fn count(&mut self, sequence: u32, domain: u32, taken: &Taken) {
        let expected = self.sequences.get(&domain).copied().unwrap_or(0);
        let missing = sequence.wrapping_sub(expected);
        if missing > u32::MAX / 2 {
            self.totals.end(&std::mem::take(&mut self.run));
        } else {
            self.run.missing = self.run.missing.saturating_add(missing.into());
        }
        self.sequences.insert(domain, sequence.wrapping_add(taken.data_records));
        self.run.add(&taken.run);
    }

    fn set(&mut self, bytes: &mut Bytes<'_>, domain: u32, taken: &mut Taken) -> Result<()> {
        let start = *bytes;
        let (id, length) = (bytes.u16("the number of a set")?, bytes.u16("the length of a set")?);
        let Some(inner) = usize::from(length).checked_sub(4) else {
            return Err(start.error(format!("a set of {length} bytes has no room for its header")));
        };
        let mut set = bytes.take(inner, "a set")?;
        match id {
            TEMPLATES | OPTIONS_TEMPLATES => self.templates(&mut set, id, domain),
            DATA_MIN.. => self.data(&mut set, id, domain, taken),
            _ => Err(start.error(format!("sets of number {id} do not exist"))),
        }
    }

    /// Reads templates, or the withdrawal of templates. Fewer than four bytes at the end are padding.
    fn templates(&mut self, set: &mut Bytes<'_>, kind: u16, domain: u32) -> Result<()> {
        while set.rest.len() >= 4 {
            let start = *set;
            let (id, count) = (set.u16("a template")?, set.u16("a number of fields")?);
            if count == 0 {
                if id == kind {
                    self.withdraw_all(domain, kind)
                } else {
                    self.withdraw(domain, id)
                }
                continue;
            }
            if id < DATA_MIN {
                return Err(start.error(format!("a template of number {id}: they begin at {DATA_MIN}")));
            }
            let layout = Layout::read(set, count, kind == OPTIONS_TEMPLATES)?;
            self.withdraw(domain, id);
            if self.fields + layout.fields() > FIELDS_MAX || self.layouts.len() >= TEMPLATES_MAX {
                let most = format!("more than {TEMPLATES_MAX} templates, or {FIELDS_MAX} fields of them");
                return Err(start.error(most));
            }
            self.fields += layout.fields();
            self.totals.has_biflows |= layout.is_biflow;
            self.layouts.insert((domain, id), Arc::new(layout));
        }
        Ok(())
    }

    /// Removes a template.
    fn withdraw(&mut self, domain: u32, id: u16) {
        let removed = self.layouts.remove(&(domain, id));
        self.fields -= removed.map_or(0, |layout| layout.fields());
    }

    /// Removes all templates of a domain and a kind.
    fn withdraw_all(&mut self, domain: u32, kind: u16) {
        let is_options = kind == OPTIONS_TEMPLATES;
        self.layouts.retain(|(of, _), layout| *of != domain || layout.is_options != is_options);
        self.fields = self.layouts.values().map(|layout| layout.fields()).sum();
    }

    /// Reads data records. What is shorter than a record at the end is padding.
    fn data(&mut self, set: &mut Bytes<'_>, id: u16, domain: u32, taken: &mut Taken) -> Result<()> {
        let Some(layout) = self.layouts.get(&(domain, id)).cloned() else {
            return Err(set.error(format!("records of template {id}, which is not there before them")));
        };
        if let Some(refusal) = &layout.refusal {
            return Err(set.error(refusal.as_str()));
        }
        let mut records = Vec::new();
        while set.rest.len() >= layout.bytes_min {
            taken.data_records = taken.data_records.wrapping_add(1);
            if layout.is_options {
                options(&layout, set, &mut taken.run)?;
                continue;
            }
            let (start, mut draft) = (*set, Draft::default());
            layout.each(set, |part, value| draft.put(part, &value))?;
            records.push(draft.finish(&layout).map_err(|what| start.error(what))?);
        }
        records.iter().for_each(|record| taken.run.see(record));
        if !records.is_empty() {
            taken.batches.push(IpfixBatch { lacking: layout.lacking.clone(), records });
        }
        Ok(())
    }
}

/// Reads a record of options, of which the counters of the exporter and of the meter count.
fn options(layout: &Layout, set: &mut Bytes<'_>, run: &mut Run) -> Result<()> {
    layout.each(set, |part, value| {
        if let Part::Counter(pen, id) = part {
            run.set(*pen, *id, number(value.rest));
        }
        Ok(())
    })
}
