//! IPFIX files: each message counts whole, and what the files record of themselves shows what is missing. It meters
//! nothing.

use super::counters::{Counters, Line, OF_APPLICATION, add, add_ignored};
use super::records::Records;
use crate::show::{self, LiveLine};
use anyhow::{Context as _, bail};
use quaff::flows::FlowReport;
use quaff_flow::collector::FlowSum;
use quaff_flow::export::{Carried, IPFIX_HEADER_BYTES, IpfixBatch, IpfixReader, IpfixTotals};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 18;

/// The files that were read, and the sum of their counters.
#[derive(Debug, Default)]
pub(super) struct ReadFiles {
    /// The files whose records are in the sums.
    files: Vec<PathBuf>,
    /// Device and number of each file.
    known: BTreeSet<(u64, u64)>,
    counters: Counters,
}

/// The end of a file, and its mistakes.
struct Ended {
    totals: IpfixTotals,
    /// The first mistake, and the number of messages that have one.
    mistake: Option<String>,
    mistakes: u64,
    /// Bytes of a message that is not complete.
    cut_at: Option<u64>,
}

/// Reads files. A message with a mistake is left out, and costs no other one.
///
/// # Errors
/// None of them has a record.
pub(super) fn read(
    files: &[PathBuf],
    records: &mut dyn Records,
    live: LiveLine,
) -> anyhow::Result<ReadFiles> {
    let begun = Instant::now();
    let mut line = Line::new(live, "files", files.len());
    let mut read = ReadFiles::default();
    for path in files {
        if line.read > 0 && !records.takes_more() {
            break;
        }
        if let Err(error) = read.add(path, records, &mut line) {
            read.counters.reasons.lossy.push(format!("{error:#}: its records are in no sum"));
        }
        line.read += 1;
    }
    line.end();
    if read.files.is_empty() {
        bail!("no file of IPFIX can be read: {}", read.counters.reasons.lossy.join("; "));
    }
    read.counters.seconds = begun.elapsed().as_secs_f64();
    Ok(read)
}

impl ReadFiles {
    fn add(&mut self, path: &Path, records: &mut dyn Records, line: &mut Line) -> anyhow::Result<()> {
        let tried = || format!("read {}", path.display());
        let file = File::open(path).with_context(tried)?;
        let found = file.metadata().with_context(tried)?;
        if !self.known.insert((found.dev(), found.ino())) {
            let note = format!("{} is named twice, and counts once", path.display());
            self.counters.reasons.notes.push(note);
            return Ok(());
        }
        let mut sums = |batch: &IpfixBatch| {
            self.counters.lacks_applications |= batch.lacking.contains(&OF_APPLICATION[0]);
            records.lack(&batch.lacking);
            batch.records.iter().for_each(|record| records.add(record));
            line.count(batch.records.len());
        };
        let ended = messages(BufReader::with_capacity(BUFFER_BYTES, file), &mut sums).with_context(tried)?;
        if ended.totals.found.records == 0
            && let Some(mistake) = ended.mistake
        {
            bail!("{} is not IPFIX that this quaff can read: {mistake}", path.display());
        }
        self.count(path, &ended);
        self.files.push(path.to_owned());
        Ok(())
    }

    /// Adds the counters of a file, with a reason for each thing that it lacks.
    fn count(&mut self, path: &Path, ended: &Ended) {
        let (name, totals) = (path.display(), &ended.totals);
        let Carried { records, packets, bytes } = totals.found;
        add(&mut self.counters.kept, FlowSum { records, packets, bytes });
        add_ignored(&mut self.counters.ignored, &totals.ledger.ignored);
        let reasons = &mut self.counters.reasons;
        if let Some(mistake) = &ended.mistake {
            let messages = show::number_of(ended.mistakes, "message");
            reasons
                .lossy
                .push(format!("{name} is damaged at {mistake}: {messages} with mistakes are in no sum"));
        }
        if totals.missing_records > 0 {
            let records = show::number_of(totals.missing_records, "record");
            reasons.lossy.push(format!("{name} lacks {records}, by the numbers of its messages"));
        }
        match ended.cut_at {
            Some(at) => reasons
                .unknown
                .push(format!("{name} ends within a message at byte {at}: it was cut, or is being written")),
            None if totals.open_runs > 0 || totals.runs == 0 => reasons.unknown.push(format!(
                "{name} does not have the counters of the end of its run: it was cut, or is being written"
            )),
            None => {}
        }
        if totals.missing_packets > 0 {
            let packets = show::number_of(totals.missing_packets, "packet");
            reasons.unknown.push(format!(
                "{name} lacks {packets} that its meter had in flows: the writer missed them, or --biflows left them out"
            ));
        }
        if !totals.has_biflows && records > 0 {
            reasons.notes.push(format!(
                "{name} has a record of each direction, so that a port may be that of a client: with a field such as \
                 %reversePacketDeltaCount in -T, a conversation is one record"
            ));
        }
    }

    /// The files, and the ledger of all of them together.
    pub(super) fn report(self, needs_applications: bool) -> (Vec<PathBuf>, FlowReport) {
        (self.files, self.counters.report(needs_applications))
    }
}

/// Reads the messages of a file. After bytes that are no header the rest cannot be read.
fn messages(mut file: impl Read, sums: &mut dyn FnMut(&IpfixBatch)) -> std::io::Result<Ended> {
    let (mut reader, mut message) = (IpfixReader::default(), Vec::new());
    let (mut mistake, mut mistakes, mut cut_at) = (None, 0, None);
    loop {
        let mut header = [0; IPFIX_HEADER_BYTES];
        let at = reader.position();
        match fill(&mut file, &mut header)? {
            0 => break,
            IPFIX_HEADER_BYTES => {}
            _ => {
                cut_at = Some(at);
                break;
            }
        }
        let length = match reader.message_bytes(&header) {
            Ok(length) => length,
            Err(error) => {
                (mistake, mistakes) =
                    (mistake.or(Some(format!("{error}, and the rest cannot be read"))), mistakes + 1);
                break;
            }
        };
        message.resize(length, 0);
        message[..IPFIX_HEADER_BYTES].copy_from_slice(&header);
        let rest = &mut message[IPFIX_HEADER_BYTES..];
        if fill(&mut file, rest)? < rest.len() {
            cut_at = Some(at);
            break;
        }
        match reader.read(&message) {
            Ok(batches) => batches.iter().for_each(&mut *sums),
            Err(error) => (mistake, mistakes) = (mistake.or(Some(error.to_string())), mistakes + 1),
        }
    }
    Ok(Ended { totals: reader.finish(), mistake, mistakes, cut_at })
}

/// Reads until the bytes are full or the file ends; returns the number of bytes that were read.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
