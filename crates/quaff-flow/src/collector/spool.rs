//! The spool of a collector: messages on disk while it is away, delivered in their order when it is back, also by a
//! later run.
//!
//! A folder has segments `NAME-NNNNNNNN.spool`, and a lock `NAME.lock`: one exporter at a time has a spool. A segment
//! is removed when all of it was acknowledged, and never before: if quaff is killed, the messages that were on their
//! way are sent again. Nothing is synced: the spool survives the process, not the machine. The frames are in `segment`.

use super::segment::{
    FRAME_HEADER, MAGIC, MESSAGE_BYTES_MAX, SpoolFrame, append_frame, parse_frame, template_records,
};
use crate::export::{Message, Version};
use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A segment that is longer is not written to any more.
const SEGMENT_BYTES_MAX: u64 = 4 << 20;
/// The number of the first segment of an empty folder. Lower ones are for messages that were on their way when a run
/// ended, and that precede what the spool has.
const FIRST_NUMBER: u32 = 10_000_000;
/// Numbers have eight digits.
const NUMBERS: u32 = 100_000_000;
/// A symbolic link is not followed, and a pipe does not block.
const NO_LINKS: i32 = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;

/// A spool.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    name: String,
    version: Version,
    bytes_max: u64,
    /// Segments on disk, the oldest first; the last may be the one that is written to.
    segments: VecDeque<Segment>,
    /// The file of the last segment, while it is written to.
    writing: Option<File>,
    reading: Option<Reading>,
    /// Messages that were popped and not acknowledged: the number of the segment, the end of the frame.
    popped: VecDeque<(u32, u64)>,
    next: u32,
    /// Bytes of all segments.
    bytes: u64,
    pub(super) damaged_bytes: u64,
    /// Held until the run ends.
    _lock: File,
}

/// A file of the spool.
#[derive(Debug)]
struct Segment {
    number: u32,
    bytes: u64,
    /// The end of the last frame that was acknowledged; 0 for none.
    acknowledged: u64,
    /// All of it was popped.
    is_read: bool,
    /// An earlier run wrote it.
    is_earlier: bool,
}

impl Segment {
    fn new(number: u32, bytes: u64, is_earlier: bool) -> Self {
        Self { number, bytes, acknowledged: 0, is_read: false, is_earlier }
    }
}

/// The segment that messages are popped from.
#[derive(Debug)]
struct Reading {
    number: u32,
    file: File,
    at: u64,
    head: Arc<SpoolHead>,
}

/// The beginning of a segment: the templates of its messages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SpoolHead {
    pub(super) messages: Vec<Message>,
    /// The templates alone, without headers and options: the same for the same templates, at any time.
    pub(super) templates: Vec<u8>,
    /// An earlier run made its messages.
    pub(super) is_earlier: bool,
}

impl Spool {
    /// Opens a folder, which is created, and finds the segments of an earlier run under the same name.
    pub(super) fn open(folder: &Path, name: &str, version: Version, bytes_max: u64) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        let name: String = name.chars().map(|c| if is_word(c) { c } else { '_' }).collect();
        let lock = lock(&folder.join(format!("{name}.lock")))?;
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match number_of(&entry.file_name().to_string_lossy(), &name) {
                Some((number, "spool")) => found.push((number, entry.metadata()?.len())),
                // Half of a segment that a run was killed over; its whole is still there.
                Some((_, "part")) => fs::remove_file(entry.path())?,
                _ => {}
            }
        }
        found.sort_unstable();
        let next = found.last().map_or(FIRST_NUMBER, |(number, _)| number + 1);
        let bytes = found.iter().map(|(_, bytes)| bytes).sum();
        Ok(Self {
            folder: folder.to_owned(),
            name,
            version,
            bytes_max,
            segments: found.into_iter().map(|(number, bytes)| Segment::new(number, bytes, true)).collect(),
            writing: None,
            reading: None,
            popped: VecDeque::new(),
            next,
            bytes,
            damaged_bytes: 0,
            _lock: lock,
        })
    }

    fn path(&self, number: u32, kind: &str) -> PathBuf {
        self.folder.join(format!("{}-{number:08}.{kind}", self.name))
    }

    /// Returns `true` if each message was popped. Some may still be without an acknowledgement.
    pub(super) fn is_drained(&self) -> bool {
        let reading = self.reading.as_ref();
        self.segments.iter().all(|segment| {
            let end = reading.filter(|reading| reading.number == segment.number).map(|reading| reading.at);
            segment.is_read || end == Some(segment.bytes)
        })
    }

    /// Appends a message; `false` if the spool is full. `templates` makes the messages that begin a segment.
    pub(super) fn push(
        &mut self,
        message: &Message,
        templates: &dyn Fn() -> Vec<Message>,
    ) -> io::Result<bool> {
        let is_long = self.segments.back().is_some_and(|segment| segment.bytes >= SEGMENT_BYTES_MAX);
        if is_long {
            self.writing = None;
        }
        let mut bytes = Vec::new();
        if self.writing.is_none() {
            bytes.extend(MAGIC);
            templates().iter().for_each(|template| append_frame(&mut bytes, template));
        }
        append_frame(&mut bytes, message);
        if self.bytes + bytes.len() as u64 > self.bytes_max {
            return Ok(false);
        }
        if self.writing.is_none() {
            let number = self.next;
            if number >= NUMBERS {
                return Err(io::Error::other("the numbers of its segments are used up: empty the folder"));
            }
            // Also a number that cannot be used is used up: the next message tries another.
            self.next += 1;
            self.writing = Some(create(&self.path(number, "spool"))?);
            self.segments.push_back(Segment::new(number, 0, false));
        }
        self.write(&bytes)?;
        Ok(true)
    }

    /// Writes to the last segment. After an error the part that was written is taken back, and the next message begins
    /// another segment; one that has no message is removed: a full disk must not fill with empty ones.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (Some(file), Some(segment)) = (&mut self.writing, self.segments.back_mut()) else {
            return Ok(());
        };
        if let Err(error) = file.write_all(bytes) {
            let is_cut = file.set_len(segment.bytes).is_ok();
            let length = file.metadata().map_or(segment.bytes, |metadata| metadata.len());
            self.writing = None;
            self.bytes += length - segment.bytes.min(length);
            segment.bytes = length;
            if is_cut && length == 0 {
                let number = segment.number;
                self.segments.pop_back();
                fs::remove_file(self.path(number, "spool"))?;
            }
            return Err(error);
        }
        segment.bytes += bytes.len() as u64;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Takes the oldest message that was not taken yet, with the templates that it was made with.
    pub(super) fn pop(&mut self) -> io::Result<Option<(Message, Arc<SpoolHead>)>> {
        loop {
            if self.reading.is_none() && !self.begin_segment() {
                return Ok(None);
            }
            let Some(place) = self.place() else { return Ok(None) };
            let (number, end) = (self.segments[place].number, self.segments[place].bytes);
            let is_writing = self.is_writing(number);
            let Some(reading) = &mut self.reading else { return Ok(None) };
            match read_frame(&reading.file, reading.at, end) {
                Ok(SpoolFrame::Message(message, bytes)) => {
                    reading.at += bytes as u64;
                    // Templates after data do not occur; they would be of no use to a session that has the head.
                    if message.has_templates {
                        continue;
                    }
                    self.popped.push_back((number, reading.at));
                    return Ok(Some((message, reading.head.clone())));
                }
                Ok(SpoolFrame::End) if is_writing => return Ok(None),
                Ok(SpoolFrame::End) => self.end_segment(0)?,
                Ok(SpoolFrame::Damaged) => {
                    let damaged = end.saturating_sub(reading.at);
                    self.end_segment(damaged)?;
                }
                Err(error) => {
                    let damaged = end.saturating_sub(reading.at);
                    self.end_segment(damaged)?;
                    return Err(error);
                }
            }
        }
    }

    /// The place of the segment that is read.
    fn place(&self) -> Option<usize> {
        let reading = self.reading.as_ref()?;
        self.segments.iter().position(|segment| segment.number == reading.number)
    }

    fn is_writing(&self, number: u32) -> bool {
        self.writing.is_some() && self.segments.back().is_some_and(|segment| segment.number == number)
    }

    /// Opens the oldest segment that was not read, and reads its head. One that cannot be opened stays where it is, and
    /// counts as damaged.
    fn begin_segment(&mut self) -> bool {
        while let Some(place) = self.segments.iter().position(|segment| !segment.is_read) {
            let (number, end) = (self.segments[place].number, self.segments[place].bytes);
            // No link is followed: in a shared folder it could lead to a file of another user.
            let opened = File::options().read(true).custom_flags(NO_LINKS).open(self.path(number, "spool"));
            let begun = opened.and_then(|file| {
                let (at, head) = self.read_head(&file, end, self.segments[place].is_earlier)?;
                Ok(Reading { number, file, at, head: Arc::new(head) })
            });
            match begun {
                Ok(reading) => {
                    self.reading = Some(reading);
                    return true;
                }
                Err(_) => {
                    self.damaged_bytes += end;
                    self.bytes -= end;
                    self.segments.remove(place);
                }
            }
        }
        false
    }

    /// Reads the templates that a segment begins with, and the place after them.
    fn read_head(&self, file: &File, end: u64, is_earlier: bool) -> io::Result<(u64, SpoolHead)> {
        let mut magic = [0; MAGIC.len()];
        let length = read_up_to(file, &mut magic, 0)?;
        let mut at = if magic[..length] == *MAGIC { length as u64 } else { 0 };
        let mut head = SpoolHead { is_earlier, ..SpoolHead::default() };
        while let SpoolFrame::Message(message, bytes) = read_frame(file, at, end)? {
            if !message.has_templates {
                break;
            }
            head.templates.extend(template_records(&message.bytes, self.version));
            head.messages.push(message);
            at += bytes as u64;
        }
        Ok((at, head))
    }

    /// Ends the reading of a segment, whose last bytes were damaged. It stays on disk until its messages were
    /// acknowledged.
    fn end_segment(&mut self, damaged: u64) -> io::Result<()> {
        self.damaged_bytes += damaged;
        let place = self.place();
        if let (Some(_), Some(place)) = (self.reading.take(), place) {
            if self.is_writing(self.segments[place].number) {
                self.writing = None;
            }
            self.segments[place].is_read = true;
        }
        self.remove_acknowledged()
    }

    /// The oldest message that was popped has arrived.
    pub(super) fn acknowledge(&mut self) -> io::Result<()> {
        let Some((number, end)) = self.popped.pop_front() else { return Ok(()) };
        if let Some(segment) = self.segments.iter_mut().find(|segment| segment.number == number) {
            segment.acknowledged = end;
        }
        self.remove_acknowledged()
    }

    /// Removes the segments of which each message was acknowledged. The one that is written to is completed for that.
    fn remove_acknowledged(&mut self) -> io::Result<()> {
        while let Some(oldest) = self.segments.front() {
            let number = oldest.number;
            let has_popped = self.popped.front().is_some_and(|(popped, _)| *popped == number);
            let is_over = oldest.is_read || oldest.acknowledged == oldest.bytes && oldest.bytes > 0;
            if has_popped || !is_over {
                return Ok(());
            }
            if self.is_writing(number) {
                self.writing = None;
            }
            if self.reading.as_ref().is_some_and(|reading| reading.number == number) {
                self.reading = None;
            }
            self.bytes -= oldest.bytes;
            self.segments.pop_front();
            fs::remove_file(self.path(number, "spool"))?;
        }
        Ok(())
    }

    /// Ends the run. `unsent` are messages of this run that are older than what the spool has: they become its first
    /// segment. Returns how many of them found room, and an error. The messages of the oldest segment that were
    /// acknowledged are removed from it.
    pub(super) fn close(
        mut self,
        unsent: &[Message],
        templates: &dyn Fn() -> Vec<Message>,
    ) -> (usize, Option<io::Error>) {
        self.writing = None;
        let shortened = self.shorten_oldest();
        match self.push_before(unsent, templates) {
            Ok(kept) => (kept, shortened.err()),
            Err(error) => (0, Some(error)),
        }
    }

    /// Rewrites the oldest segment without the messages that were acknowledged.
    fn shorten_oldest(&mut self) -> io::Result<()> {
        let Some(oldest) = self.segments.front().filter(|oldest| oldest.acknowledged > 0) else {
            return Ok(());
        };
        let (number, bytes, acknowledged) = (oldest.number, oldest.bytes, oldest.acknowledged);
        let path = self.path(number, "spool");
        let file = File::options().read(true).custom_flags(NO_LINKS).open(&path)?;
        let (_, head) = self.read_head(&file, bytes, false)?;
        let mut kept = MAGIC.to_vec();
        head.messages.iter().for_each(|message| append_frame(&mut kept, message));
        let part = self.path(number, "part");
        let mut shorter = create(&part)?;
        shorter.write_all(&kept)?;
        (&file).seek(SeekFrom::Start(acknowledged))?;
        io::copy(&mut file.take(bytes - acknowledged), &mut shorter)?;
        fs::rename(part, path)
    }

    /// Writes messages into a segment before all others.
    fn push_before(
        &mut self,
        messages: &[Message],
        templates: &dyn Fn() -> Vec<Message>,
    ) -> io::Result<usize> {
        if messages.is_empty() {
            return Ok(0);
        }
        let oldest = self.segments.front().map_or(self.next, |segment| segment.number);
        let Some(number) = oldest.checked_sub(1) else {
            return Err(io::Error::other("the numbers of its segments are used up: empty the folder"));
        };
        let mut bytes = MAGIC.to_vec();
        templates().iter().for_each(|template| append_frame(&mut bytes, template));
        let mut kept = 0;
        for message in messages {
            if self.bytes + (bytes.len() + FRAME_HEADER + message.bytes.len()) as u64 > self.bytes_max {
                break;
            }
            append_frame(&mut bytes, message);
            kept += 1;
        }
        if kept == 0 {
            return Ok(0);
        }
        let path = self.path(number, "spool");
        let written = create(&path)?.write_all(&bytes);
        if written.is_err() {
            let _ = fs::remove_file(&path);
        }
        written.map(|()| kept)
    }
}

/// The number and the kind of a file of this spool.
fn number_of<'a>(file: &'a str, name: &str) -> Option<(u32, &'a str)> {
    let (number, kind) = file.strip_prefix(name)?.strip_prefix('-')?.split_once('.')?;
    let is_number = number.len() == 8 && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| is_number).map(|number| (number, kind))
}

/// Creates a file for records of traffic: never through a link, and not for everyone.
fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o640).custom_flags(NO_LINKS).open(path)
}

/// Locks a spool, or returns an error that names the process that has it.
fn lock(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o640).custom_flags(NO_LINKS);
    let mut file = options.open(path)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0)?;
            file.write_all(format!("{}\n", std::process::id()).as_bytes())?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            let owner = match owner.trim() {
                "" => "another process".to_owned(),
                owner => format!("process {owner}"),
            };
            let reason = format!("{owner} has the spool of this collector: use a folder for each exporter");
            Err(io::Error::new(ErrorKind::ResourceBusy, reason))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Reads one frame of a segment that ends at `end`.
fn read_frame(file: &File, at: u64, end: u64) -> io::Result<SpoolFrame> {
    let left = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; left.min(FRAME_HEADER)];
    let length = read_up_to(file, &mut bytes, at)?;
    bytes.truncate(length);
    if let Some(word) = bytes.first_chunk::<4>().filter(|_| length == FRAME_HEADER) {
        let message = (u32::from_le_bytes(*word) as usize).min(left - FRAME_HEADER).min(MESSAGE_BYTES_MAX);
        bytes.resize(FRAME_HEADER + message, 0);
        let length = read_up_to(file, &mut bytes[FRAME_HEADER..], at + FRAME_HEADER as u64)?;
        bytes.truncate(FRAME_HEADER + length);
    }
    Ok(parse_frame(&bytes))
}

/// Reads as many bytes as there are.
fn read_up_to(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], at + length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::Carried;

    fn open(folder: &Path, name: &str, bytes_max: u64) -> Spool {
        Spool::open(folder, name, Version::Ipfix, bytes_max).unwrap()
    }

    fn message(n: u32) -> Message {
        let carried = Carried { records: n.into(), packets: 2, bytes: 3 };
        Message { bytes: vec![n as u8; 1000 + n as usize % 300], units: n, carried, has_templates: false }
    }

    /// A message of IPFIX with a set of templates, whose one record has this byte.
    fn template(byte: u8) -> Message {
        let bytes = [&[0; 16][..], &[0, 2, 0, 8, byte, byte, byte, byte]].concat();
        Message { bytes, has_templates: true, ..Message::default() }
    }

    fn none() -> Vec<Message> {
        Vec::new()
    }

    fn popped(spool: &mut Spool, count: usize) -> Vec<Message> {
        std::iter::from_fn(|| spool.pop().unwrap()).take(count).map(|(message, _)| message).collect()
    }

    /// Takes all messages, and acknowledges each.
    fn all(spool: &mut Spool) -> Vec<Message> {
        let messages = popped(spool, usize::MAX);
        messages.iter().for_each(|_| spool.acknowledge().unwrap());
        messages
    }

    fn closed(spool: Spool) {
        assert!(matches!(spool.close(&[], &none), (0, None)));
    }

    fn files(folder: &Path) -> usize {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| !name.to_str().unwrap().ends_with(".lock")).count()
    }

    #[test]
    fn messages_come_back_in_order_over_segments() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), "tcp://[::1]:4739", 1 << 30);
        assert!(spool.is_drained());
        let messages: Vec<Message> = (0..9000).map(message).collect();
        for message in &messages {
            assert!(spool.push(message, &|| vec![template(1)]).unwrap());
        }
        assert!(files(folder.path()) > 2 && !spool.is_drained());
        assert!(all(&mut spool) == messages);
        assert!(spool.is_drained() && files(folder.path()) == 0 && spool.bytes == 0);
    }

    #[test]
    fn a_later_run_finds_what_was_not_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), "one", 1 << 30);
        (0..100).for_each(|n| assert!(spool.push(&message(n), &|| vec![template(1)]).unwrap()));
        assert_eq!(popped(&mut spool, 5), (0..5).map(message).collect::<Vec<_>>());
        spool.acknowledge().unwrap();
        spool.acknowledge().unwrap();
        spool.push(&message(100), &|| vec![template(1)]).unwrap();
        closed(spool);
        assert_eq!(all(&mut open(folder.path(), "other", 1 << 30)), []);
        let mut again = open(folder.path(), "one", 1 << 30);
        let (first, head) = again.pop().unwrap().unwrap();
        assert_eq!((first, &head.messages[..], head.is_earlier), (message(2), &[template(1)][..], true));
        assert_eq!(popped(&mut again, 98), (3..=100).map(message).collect::<Vec<_>>());
    }

    /// A kill is the end without `close`: each message that was not acknowledged is there, in order.
    #[test]
    fn a_killed_run_loses_nothing_that_was_not_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), "one", 1 << 30);
        (0..6000).for_each(|n| assert!(spool.push(&message(n), &none).unwrap()));
        assert_eq!(popped(&mut spool, 6000).len(), 6000);
        (0..10).for_each(|_| spool.acknowledge().unwrap());
        drop(spool);
        let mut again = open(folder.path(), "one", 1 << 30);
        assert_eq!(all(&mut again), (0..6000).map(message).collect::<Vec<_>>());
    }

    /// A collector that is a little too slow: messages come back from the segment that is being written.
    #[test]
    fn one_segment_serves_many_messages() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), "one", 1 << 30);
        let templates = std::cell::Cell::new(0);
        for n in 0..50 {
            let announced = || {
                templates.set(templates.get() + 1);
                vec![template(1)]
            };
            spool.push(&message(n), &announced).unwrap();
            assert_eq!(popped(&mut spool, 9), [message(n)]);
            assert!(spool.is_drained());
            // The message before has arrived; this one is on its way.
            if n > 0 {
                spool.acknowledge().unwrap();
            }
        }
        assert_eq!((templates.get(), files(folder.path())), (1, 1));
        spool.acknowledge().unwrap();
        assert_eq!(files(folder.path()), 0);
    }

    /// The limit is one of the files on disk, with their templates, until they are removed.
    #[test]
    fn a_full_spool_refuses() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), "one", 5000);
        let push = |spool: &mut Spool, n| spool.push(&message(n), &|| vec![template(1)]).unwrap();
        assert_eq!((0..10).filter(|n| push(&mut spool, *n)).count(), 4);
        let on_disk = || -> u64 {
            let entries = fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
            let segments = entries.filter(|entry| entry.path().extension().unwrap() == "spool");
            segments.map(|entry| entry.metadata().unwrap().len()).sum()
        };
        assert!(on_disk() <= 5000 && on_disk() == spool.bytes);
        assert_eq!(popped(&mut spool, 9).len(), 4);
        assert!(!push(&mut spool, 1), "popped is not yet acknowledged");
        (0..4).for_each(|_| spool.acknowledge().unwrap());
        assert_eq!(on_disk(), 0);
        assert!(push(&mut spool, 1));
    }

    #[test]
    fn damage_ends_a_segment_and_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), "one", 1 << 30);
        (0..10).for_each(|n| assert!(spool.push(&message(n), &none).unwrap()));
        closed(spool);
        let path = folder.path().join("one-10000000.spool");
        let mut bytes = fs::read(&path).unwrap();
        bytes[5000] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let mut spool = open(folder.path(), "one", 1 << 30);
        let found = all(&mut spool);
        assert_eq!(found, (0..4).map(message).collect::<Vec<_>>());
        assert!(spool.damaged_bytes > 5000, "{}", spool.damaged_bytes);
        assert_eq!((files(folder.path()), spool.bytes), (0, 0));
    }

    /// Two exporters with one spool would send and remove each other's messages.
    #[test]
    fn a_spool_has_one_exporter() {
        let folder = tempfile::tempdir().unwrap();
        let spool = open(folder.path(), "one", 1 << 30);
        let error = Spool::open(folder.path(), "one", Version::Ipfix, 1 << 30).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        assert!(error.to_string().contains(&format!("process {} has", std::process::id())), "{error}");
        open(folder.path(), "other", 1 << 30);
        drop(spool);
        open(folder.path(), "one", 1 << 30);
    }

    /// In a folder that others may write to, a link in the place of a file leads nowhere, and a planted number ends no
    /// run.
    #[test]
    fn files_of_others_in_the_folder_do_no_harm() {
        use std::os::unix::fs::{MetadataExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "of another user").unwrap();
        for name in ["one-10000000.part", "one-10000001.spool"] {
            symlink(&victim, folder.path().join(name)).unwrap();
        }
        for number in ["4294967295", "99999999999", "1"] {
            fs::write(folder.path().join(format!("one-{number}.spool")), "").unwrap();
        }
        let mut spool = open(folder.path(), "one", 1 << 30);
        (0..9).for_each(|n| assert!(spool.push(&message(n), &none).unwrap()));
        assert_eq!(popped(&mut spool, 99).len(), 9);
        spool.acknowledge().unwrap();
        closed(spool);
        assert_eq!(fs::read(&victim).unwrap(), b"of another user");
        let kept = fs::metadata(folder.path().join("one-10000002.spool")).unwrap();
        assert_eq!(kept.mode() & 0o777 & !0o640, 0);
        let left = all(&mut open(folder.path(), "one", 1 << 30));
        assert_eq!(left, (1..9).map(message).collect::<Vec<_>>());
    }

    /// Messages that were on their way when the run ended are older than what the spool has.
    #[test]
    fn messages_on_their_way_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), "one", 1 << 30);
        (5..9).for_each(|n| assert!(spool.push(&message(n), &none).unwrap()));
        let unsent: Vec<Message> = (0..5).map(message).collect();
        assert!(matches!(spool.close(&unsent, &none), (5, None)));
        assert_eq!(all(&mut open(folder.path(), "one", 1 << 30)), (0..9).map(message).collect::<Vec<_>>());
    }

    /// The same templates at another time, in another message, with other options.
    #[test]
    fn templates_are_compared_without_their_surroundings() {
        let set = |byte: u8| [0, 2, 0, 8, byte, byte, byte, byte];
        let data = [1, 0, 0, 6, 9, 9];
        let of = |parts: &[&[u8]]| {
            let mut message = vec![7; 16];
            parts.iter().for_each(|part| message.extend(*part));
            template_records(&message, Version::Ipfix)
        };
        assert_eq!(of(&[&set(1), &data, &set(2)]), of(&[&set(1), &set(2), &data, &data]));
        assert_ne!(of(&[&set(1)]), of(&[&set(2)]));
        for broken in [&[0, 2, 0, 3, 1][..], &[0, 2, 0, 200, 1], &[0, 2, 0]] {
            assert!(of(&[broken]).is_empty());
        }
    }
}
