//! The spool of a collector: messages on disk while it is away, delivered in their order when it is back, also by a
//! later run.
//!
//! A folder has segments `NAME-NNNNNNNN.spool`. A segment begins with eight bytes and the messages of templates that
//! its data needs. Each frame is a header of [`FRAME_HEADER`] bytes (little endian: length, sequence units, records,
//! packets, bytes, flags, checksum) and a message. A frame whose checksum is wrong ends its segment: the rest is
//! counted as damaged. A segment is removed when the collector has acknowledged all of it; if quaff is killed before,
//! its messages are sent again. Nothing is synced: the spool survives the process, not the machine.
//!
//! A spool is of one exporter at a time, by a lock, and of one collector, version and domain, by its name.

use crate::export::{Carried, Message};
use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"quaffsp1";
const FRAME_HEADER: usize = 48;
/// A segment that is longer is not written to any more.
const SEGMENT_BYTES_MAX: u64 = 4 << 20;
/// The longest message.
const MESSAGE_BYTES_MAX: usize = 65_535;
const HAS_TEMPLATES: u32 = 1;

/// A spool.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    name: String,
    bytes_max: u64,
    /// Held while the spool is open: each exporter has its own.
    _lock: File,
    /// Complete segments, the oldest first.
    segments: VecDeque<Segment>,
    writing: Option<Writing>,
    /// Segments of which messages are on their way, the oldest first; the last one is that of `reading`, if there is
    /// one.
    delivering: VecDeque<Delivery>,
    reading: Option<Reading>,
    next: u32,
    /// Bytes of all segments on the disk.
    bytes: u64,
    pub(super) damaged_bytes: u64,
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    bytes: u64,
    /// Data messages at its beginning that were acknowledged.
    acknowledged: u64,
}

#[derive(Debug)]
struct Writing {
    file: File,
    path: PathBuf,
    bytes: u64,
}

#[derive(Debug)]
struct Delivery {
    segment: Segment,
    /// Data messages that were acknowledged before, and that were taken.
    skipped: u64,
    taken: u64,
    /// All of it was taken.
    is_read: bool,
}

/// A segment in memory: one is at most [`SEGMENT_BYTES_MAX`] and a message.
#[derive(Debug)]
struct Reading {
    bytes: Vec<u8>,
    at: usize,
    is_first: bool,
    /// Data messages that were passed.
    data: u64,
}

/// A message of the spool.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) message: Message,
    /// It is the first one of its segment.
    pub(super) is_first: bool,
}

impl Spool {
    /// Opens a folder, which is created, and finds the segments of an earlier run under the same name.
    pub(super) fn open(folder: &Path, name: &str, bytes_max: u64) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        let name: String = name.chars().map(|c| if is_word(c) { c } else { '_' }).collect();
        let lock = lock(&folder.join(format!("{name}.lock")))?;
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let file_name = entry.file_name();
            let rest = file_name.to_str().and_then(|file| file.strip_prefix(&name)?.strip_prefix('-'));
            let number = rest.and_then(|rest| rest.strip_suffix(".spool")?.parse::<u32>().ok());
            if let Some(number) = number {
                found.push((number, entry.path(), entry.metadata()?.len()));
            }
        }
        found.sort_unstable();
        let next = found.last().map_or(0, |(number, ..)| number.saturating_add(1));
        let segments: VecDeque<_> =
            found.into_iter().map(|(_, path, bytes)| Segment { path, bytes, acknowledged: 0 }).collect();
        Ok(Self {
            folder: folder.to_owned(),
            name,
            bytes_max,
            _lock: lock,
            bytes: segments.iter().map(|segment| segment.bytes).sum(),
            segments,
            writing: None,
            delivering: VecDeque::new(),
            reading: None,
            next,
            damaged_bytes: 0,
        })
    }

    /// Returns `true` if all messages were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.writing.is_none() && self.reading.is_none()
    }

    /// Appends a message; `false` if the spool is full. `templates` makes the messages that begin a segment.
    pub(super) fn push(
        &mut self,
        message: &Message,
        templates: &dyn Fn() -> Vec<Message>,
    ) -> io::Result<bool> {
        if self.writing.as_ref().is_some_and(|writing| writing.bytes >= SEGMENT_BYTES_MAX) {
            self.close_segment();
        }
        let mut frame = Vec::with_capacity(FRAME_HEADER + message.bytes.len());
        append_frame(&mut frame, message);
        let mut head = Vec::new();
        if self.writing.is_none() {
            head.extend(MAGIC);
            templates().iter().for_each(|template| append_frame(&mut head, template));
        }
        if self.bytes + (head.len() + frame.len()) as u64 > self.bytes_max {
            return Ok(false);
        }
        if self.writing.is_none() {
            self.open_segment(&head)?;
        }
        self.write(&frame)?;
        Ok(true)
    }

    /// Begins a segment. One that cannot even begin is removed: a full disk must not fill with empty ones.
    fn open_segment(&mut self, head: &[u8]) -> io::Result<()> {
        let path = self.folder.join(format!("{}-{:08}.spool", self.name, self.next));
        // A number that is taken is not tried again.
        self.next = self.next.saturating_add(1);
        let mut file = create(&path)?;
        if let Err(error) = file.write_all(head) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        let bytes = head.len() as u64;
        self.bytes += bytes;
        self.writing = Some(Writing { file, path, bytes });
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        let before = writing.bytes;
        let written = writing.file.write_all(bytes);
        writing.bytes = match written {
            Ok(()) => before + bytes.len() as u64,
            Err(_) => writing.file.metadata().map_or(before, |meta| meta.len()),
        };
        self.bytes += writing.bytes.saturating_sub(before);
        if written.is_err() {
            // A frame that is cut ends the segment when it is read; the next message begins another.
            self.close_segment();
        }
        written
    }

    fn close_segment(&mut self) {
        if let Some(Writing { path, bytes, .. }) = self.writing.take() {
            self.segments.push_back(Segment { path, bytes, acknowledged: 0 });
        }
    }

    /// Takes the oldest message; `None` if none waits. Its segment stays until [`Self::acknowledged`] counts the last
    /// one.
    pub(super) fn pop(&mut self) -> io::Result<Option<Taken>> {
        loop {
            if self.reading.is_none() && !self.read_segment()? {
                return Ok(None);
            }
            let (Some(reading), Some(delivery)) = (&mut self.reading, self.delivering.back_mut()) else {
                return Ok(None);
            };
            match parse_frame(&reading.bytes[reading.at..]) {
                Frame::Message(message, bytes) => {
                    reading.at += bytes;
                    if !message.has_templates {
                        reading.data += 1;
                        if reading.data <= delivery.skipped {
                            continue;
                        }
                        delivery.taken = reading.data;
                    }
                    return Ok(Some(Taken { message, is_first: std::mem::take(&mut reading.is_first) }));
                }
                Frame::End => {}
                Frame::Damaged => self.damaged_bytes += (reading.bytes.len() - reading.at) as u64,
            }
            delivery.is_read = true;
            self.reading = None;
            self.remove_delivered()?;
        }
    }

    /// Reads the oldest segment; the one that is being written is completed first.
    fn read_segment(&mut self) -> io::Result<bool> {
        if self.segments.is_empty() {
            self.close_segment();
        }
        let Some(segment) = self.segments.pop_front() else { return Ok(false) };
        let (bytes, cut_bytes) = read(&segment)?;
        self.damaged_bytes += cut_bytes;
        let at = if bytes.starts_with(MAGIC) { MAGIC.len() } else { 0 };
        self.reading = Some(Reading { bytes, at, is_first: true, data: 0 });
        let (skipped, taken) = (segment.acknowledged, segment.acknowledged);
        self.delivering.push_back(Delivery { segment, skipped, taken, is_read: false });
        Ok(true)
    }

    /// Counts data messages that the collector has, in the order in which they were taken.
    pub(super) fn acknowledged(&mut self, mut messages: u64) -> io::Result<()> {
        for delivery in &mut self.delivering {
            let open = (delivery.taken - delivery.segment.acknowledged).min(messages);
            delivery.segment.acknowledged += open;
            messages -= open;
        }
        self.remove_delivered()
    }

    fn remove_delivered(&mut self) -> io::Result<()> {
        let is_done =
            |delivery: &Delivery| delivery.is_read && delivery.segment.acknowledged == delivery.taken;
        while let Some(delivery) = self.delivering.pop_front_if(|delivery| is_done(delivery)) {
            self.bytes = self.bytes.saturating_sub(delivery.segment.bytes);
            fs::remove_file(delivery.segment.path)?;
        }
        Ok(())
    }

    /// Takes back the messages that were not acknowledged: they are taken again, after the templates of their segment.
    pub(super) fn rewind(&mut self) {
        self.reading = None;
        while let Some(delivery) = self.delivering.pop_back() {
            self.segments.push_front(delivery.segment);
        }
    }

    /// Ends the run: of a segment that was delivered in part, its templates and the rest are kept in its place.
    pub(super) fn close(mut self) -> io::Result<()> {
        self.close_segment();
        self.rewind();
        self.segments.iter().filter(|segment| segment.acknowledged > 0).try_for_each(keep_rest)
    }
}

/// Replaces a segment by one without the messages that were acknowledged.
fn keep_rest(segment: &Segment) -> io::Result<()> {
    let (bytes, _) = read(segment)?;
    let (mut kept, mut at, mut data) = (MAGIC.to_vec(), MAGIC.len().min(bytes.len()), 0);
    while let Frame::Message(message, length) = parse_frame(&bytes[at..]) {
        data += u64::from(!message.has_templates);
        if message.has_templates || data > segment.acknowledged {
            kept.extend(&bytes[at..at + length]);
        }
        at += length;
    }
    let aside = segment.path.with_extension("part");
    // Of a run that was killed here.
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create(&aside)?.write_all(&kept)?;
    fs::rename(aside, &segment.path)
}

/// Creates a file, which others cannot read, unless there is one already.
fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o640).open(path)
}

/// The bytes of a segment, and the number of those that are too many. No link is followed: in a shared folder it could
/// lead to a file of another user.
fn read(segment: &Segment) -> io::Result<(Vec<u8>, u64)> {
    let limit = SEGMENT_BYTES_MAX + (4 << 20);
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(&segment.path)?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok((bytes, segment.bytes.saturating_sub(limit)))
}

/// Locks the spool, until the file is closed.
fn lock(path: &Path) -> io::Result<File> {
    let flags = nix::libc::O_NOFOLLOW;
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o640)
        .custom_flags(flags)
        .open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let words = format!("another exporter has locked {}: give another folder", path.display());
            Err(io::Error::new(io::ErrorKind::ResourceBusy, words))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Appends a message as a frame.
fn append_frame(out: &mut Vec<u8>, message: &Message) {
    let start = out.len();
    out.extend((message.bytes.len() as u32).to_le_bytes());
    out.extend(message.units.to_le_bytes());
    for number in [message.carried.records, message.carried.packets, message.carried.bytes] {
        out.extend(number.to_le_bytes());
    }
    let flags = if message.has_templates { HAS_TEMPLATES } else { 0 };
    out.extend(flags.to_le_bytes());
    out.extend([0; 4]);
    let sum = checksum(&out[start..], &message.bytes);
    out.extend(sum.to_le_bytes());
    out.extend(&message.bytes);
}

/// A frame, read.
#[derive(Debug, PartialEq, Eq)]
enum Frame {
    /// The message, and the bytes of its frame.
    Message(Message, usize),
    End,
    Damaged,
}

fn parse_frame(bytes: &[u8]) -> Frame {
    if bytes.is_empty() {
        return Frame::End;
    }
    let Some((header, rest)) = bytes.split_at_checked(FRAME_HEADER) else { return Frame::Damaged };
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let length = word(0) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Frame::Damaged;
    }
    let Some(message) = rest.get(..length) else { return Frame::Damaged };
    if checksum(&header[..40], message) != long(40) {
        return Frame::Damaged;
    }
    let carried = Carried { records: long(8), packets: long(16), bytes: long(24) };
    let has_templates = word(32) & HAS_TEMPLATES != 0;
    let message = Message { bytes: message.to_vec(), units: word(4), carried, has_templates };
    Frame::Message(message, FRAME_HEADER + length)
}

/// FNV-1a over both. It finds damage, not malice: who can write the spool can write messages.
fn checksum(header: &[u8], message: &[u8]) -> u64 {
    header
        .iter()
        .chain(message)
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Reads all messages of a segment's bytes, up to damage. For tests of the format: a spool reads one at a time.
pub fn parse_segment(bytes: &[u8]) -> Vec<Message> {
    let mut at = if bytes.starts_with(MAGIC) { MAGIC.len() } else { 0 };
    let mut messages = Vec::new();
    while let Frame::Message(message, length) = parse_frame(&bytes[at..]) {
        messages.push(message);
        at += length;
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(n: u32) -> Message {
        let carried = Carried { records: n.into(), packets: 2, bytes: 3 };
        Message { bytes: vec![n as u8; 1000 + n as usize % 300], units: n, carried, has_templates: false }
    }

    fn template() -> Message {
        Message { bytes: vec![9; 40], has_templates: true, ..Message::default() }
    }

    fn all(spool: &mut Spool) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(taken) = spool.pop().unwrap() {
            spool.acknowledged(u64::from(!taken.message.has_templates)).unwrap();
            messages.push(taken.message);
        }
        messages
    }

    fn files(folder: &Path) -> usize {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|end| end == "spool")).count()
    }

    #[test]
    fn messages_come_back_in_order_over_segments() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), "tcp://[::1]:4739", 1 << 30).unwrap();
        assert!(spool.is_empty());
        let messages: Vec<Message> = (0..9000).map(message).collect();
        for message in &messages {
            assert!(spool.push(message, &|| vec![template()]).unwrap());
        }
        assert!(files(folder.path()) > 2);
        let (templates, data): (Vec<_>, Vec<_>) =
            all(&mut spool).into_iter().partition(|one| one.has_templates);
        assert!(data == messages && templates.len() > 2);
        assert!(spool.is_empty() && files(folder.path()) == 0);
    }

    #[test]
    fn a_later_run_finds_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), "one", 1 << 30).unwrap();
        (0..100).for_each(|n| assert!(spool.push(&message(n), &|| vec![template()]).unwrap()));
        for (number, expected) in [template(), message(0), message(1), message(2)].into_iter().enumerate() {
            assert_eq!(spool.pop().unwrap(), Some(Taken { message: expected, is_first: number == 0 }));
        }
        // The collector has two of the three.
        spool.acknowledged(2).unwrap();
        assert_eq!(files(folder.path()), 1);
        spool.push(&message(100), &|| vec![template()]).unwrap();
        spool.close().unwrap();
        let mut other = Spool::open(folder.path(), "other", 1 << 30).unwrap();
        assert_eq!(all(&mut other), []);
        let mut again = Spool::open(folder.path(), "one", 1 << 30).unwrap();
        let data: Vec<Message> = all(&mut again).into_iter().filter(|one| !one.has_templates).collect();
        assert_eq!(data, (2..=100).map(message).collect::<Vec<_>>());
    }

    #[test]
    fn a_connection_that_ends_takes_messages_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), "one", 1 << 30).unwrap();
        (0..9000).for_each(|n| assert!(spool.push(&message(n), &|| vec![template()]).unwrap()));
        let before = files(folder.path());
        // All were taken, none was acknowledged: every segment is there still.
        while spool.pop().unwrap().is_some() {}
        assert!(spool.is_empty() && files(folder.path()) == before && before > 2);
        spool.acknowledged(5000).unwrap();
        assert!(files(folder.path()) < before);
        spool.rewind();
        let first = spool.pop().unwrap().unwrap();
        assert!(first.is_first && first.message.has_templates, "the templates come first again");
        let data: Vec<Message> = all(&mut spool).into_iter().filter(|one| !one.has_templates).collect();
        assert!(data == (5000..9000).map(message).collect::<Vec<_>>());
        assert_eq!(files(folder.path()), 0);
    }

    #[test]
    fn a_spool_has_one_exporter() {
        let folder = tempfile::tempdir().unwrap();
        let one = Spool::open(folder.path(), "one", 1 << 30).unwrap();
        let error = Spool::open(folder.path(), "one", 1 << 30).unwrap_err();
        assert!(error.to_string().contains("another exporter"), "{error}");
        drop(one);
        assert!(Spool::open(folder.path(), "one", 1 << 30).is_ok());
    }

    #[test]
    fn a_full_spool_refuses() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), "one", 5000).unwrap();
        let taken = (0..10).filter(|n| spool.push(&message(*n), &Vec::new).unwrap()).count();
        assert_eq!(taken, 4);
        assert_eq!(all(&mut spool).len(), 4);
        assert!(spool.push(&message(1), &Vec::new).unwrap());
    }

    #[test]
    fn damage_ends_a_segment_and_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), "one", 1 << 30).unwrap();
        (0..10).for_each(|n| assert!(spool.push(&message(n), &Vec::new).unwrap()));
        spool.close().unwrap();
        let path = folder.path().join("one-00000000.spool");
        let mut bytes = fs::read(&path).unwrap();
        bytes[5000] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let mut spool = Spool::open(folder.path(), "one", 1 << 30).unwrap();
        let found = all(&mut spool);
        assert_eq!(found, (0..4).map(message).collect::<Vec<_>>());
        assert!(spool.damaged_bytes > 5000, "{}", spool.damaged_bytes);
    }
}
