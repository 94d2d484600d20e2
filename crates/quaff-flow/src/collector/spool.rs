//! The spool of a collector: messages on disk while it is away, delivered in their order when it is back, also by a
//! later run.
//!
//! A folder has segments `NAME-NNNNNNNN.spool`, and a lock `NAME.lock`: one exporter at a time has a spool. A segment
//! is removed when all of it was acknowledged, and never before: if quaff is killed, the messages that were on their
//! way are sent again. One that is damaged, or shorter than the length that it records, is kept as
//! `NAME-NNNNNNNN.damaged` instead; of one that a killed run left open it is unknown. Nothing is synced: the spool
//! survives the process, not the machine. Files of other users count for nothing. The frames are in `segment`.

use super::segment::{
    BEGINNING, FRAME_HEADER, LENGTH_AT, MESSAGE_BYTES_MAX, RecordedLength, SpoolFrame, append_frame,
    beginning, parse_beginning, parse_frame, set_length, template_records,
};
use crate::export::{Message, Version};
use quaff_os::disk::{LockPatience, Owners, PrivateLock, rename_new};
use std::collections::VecDeque;
use std::fs::{self, File};
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
/// Names that may be taken by other files before a new one.
const TAKEN_MAX: u32 = 64;
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
    /// Segments that a killed run left open: they may have had more messages.
    pub(super) open_segments: u64,
    /// Damaged segments, where they are now: kept aside, or not to be opened.
    pub(super) damaged: Vec<PathBuf>,
    /// Held until the run ends.
    _lock: PrivateLock,
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
    /// It is kept at its end.
    is_damaged: bool,
}

impl Segment {
    fn new(number: u32, bytes: u64, is_earlier: bool) -> Self {
        Self { number, bytes, acknowledged: 0, is_read: false, is_earlier, is_damaged: false }
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
        let lock = lock(folder, &format!("{name}.lock"))?;
        let owners = Owners::of(folder)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name_of_file = entry.file_name().to_string_lossy().into_owned();
            let Some((number, kind)) = number_of(&name_of_file, &name) else { continue };
            // Another user may have put it there, or may just remove it.
            let Some(meta) = entry.metadata().ok().filter(|meta| owners.own_file(meta)) else { continue };
            match kind {
                "spool" => found.push((number, meta.len())),
                // Half of a segment that a run was killed over; its whole is still there.
                _ if kind.starts_with("part") => fs::remove_file(entry.path())?,
                _ => {}
            }
        }
        found.sort_unstable();
        let next = found.last().map_or(FIRST_NUMBER, |(number, _)| number + 1).max(FIRST_NUMBER);
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
            open_segments: 0,
            damaged: Vec::new(),
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
            self.complete()?;
        }
        let mut bytes = Vec::new();
        if self.writing.is_none() {
            bytes.extend(beginning());
            templates().iter().for_each(|template| append_frame(&mut bytes, template));
        }
        append_frame(&mut bytes, message);
        if self.bytes + bytes.len() as u64 > self.bytes_max {
            return Ok(false);
        }
        if self.writing.is_none() {
            let (number, file) = self.create_next()?;
            self.writing = Some(file);
            self.segments.push_back(Segment::new(number, 0, false));
        }
        self.write(&bytes)?;
        Ok(true)
    }

    /// Ends the writing to the last segment, and records its length.
    fn complete(&mut self) -> io::Result<()> {
        let (Some(file), Some(segment)) = (self.writing.take(), self.segments.back()) else { return Ok(()) };
        file.write_all_at(&segment.bytes.to_le_bytes(), LENGTH_AT)
    }

    /// Creates the next segment. A number that cannot be used is used up, and one that another file has is skipped.
    fn create_next(&mut self) -> io::Result<(u32, File)> {
        for _ in 0..TAKEN_MAX {
            let number = self.next;
            if number >= NUMBERS {
                return Err(used_up());
            }
            self.next += 1;
            match create(&self.path(number, "spool")) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return created.map(|file| (number, file)),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
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
            self.bytes += length - segment.bytes.min(length);
            segment.bytes = length;
            if is_cut && length == 0 {
                let number = segment.number;
                (self.writing, _) = (None, self.segments.pop_back());
                fs::remove_file(self.path(number, "spool"))?;
            } else {
                // The caller needs the error of the message.
                let _ = self.complete();
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
                // One that is empty has lost what it had: it is made with its first message.
                Ok(SpoolFrame::End) => {
                    let lost = (end == 0 || reading.at < end).then(|| end.saturating_sub(reading.at));
                    self.end_segment(lost)?;
                }
                Ok(SpoolFrame::Damaged) => {
                    let damaged = end.saturating_sub(reading.at);
                    self.end_segment(Some(damaged))?;
                }
                Err(error) => {
                    let damaged = end.saturating_sub(reading.at);
                    self.end_segment(Some(damaged))?;
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
                let (at, length, head) = self.read_head(&file, end, self.segments[place].is_earlier)?;
                Ok((Reading { number, file, at, head: Arc::new(head) }, length))
            });
            match begun {
                Ok((reading, length)) => {
                    self.reading = Some(reading);
                    self.note_length(place, length);
                    return true;
                }
                Err(_) => {
                    self.damaged_bytes += end;
                    self.damaged.push(self.path(number, "spool"));
                    self.bytes -= end;
                    self.segments.remove(place);
                }
            }
        }
        false
    }

    /// Compares a segment with the length that it records.
    fn note_length(&mut self, place: usize, length: RecordedLength) {
        let segment = &mut self.segments[place];
        let difference = length.difference(segment.bytes);
        self.damaged_bytes += difference;
        segment.is_damaged |= difference > 0;
        self.open_segments += u64::from(segment.is_earlier && length == RecordedLength::Open);
    }

    /// Reads the length and the templates that a segment begins with, and the place after them.
    fn read_head(
        &self,
        file: &File,
        end: u64,
        is_earlier: bool,
    ) -> io::Result<(u64, RecordedLength, SpoolHead)> {
        let mut bytes = [0; BEGINNING];
        let read = read_up_to(file, &mut bytes, 0)?;
        let (at, length) = parse_beginning(&bytes[..read]);
        let mut at = at as u64;
        let mut head = SpoolHead { is_earlier, ..SpoolHead::default() };
        while let SpoolFrame::Message(message, bytes) = read_frame(file, at, end)? {
            if !message.has_templates {
                break;
            }
            head.templates.extend(template_records(&message.bytes, self.version));
            head.messages.push(message);
            at += bytes as u64;
        }
        Ok((at, length, head))
    }

    /// Ends the reading of a segment, whose last bytes were `damaged`, if any. It stays on disk until its messages were
    /// acknowledged.
    fn end_segment(&mut self, damaged: Option<u64>) -> io::Result<()> {
        self.damaged_bytes += damaged.unwrap_or(0);
        let place = self.place();
        if let (Some(_), Some(place)) = (self.reading.take(), place) {
            if self.is_writing(self.segments[place].number) {
                self.writing = None;
            }
            self.segments[place].is_read = true;
            self.segments[place].is_damaged |= damaged.is_some();
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
            let is_damaged = oldest.is_damaged;
            self.segments.pop_front();
            match is_damaged {
                true => self.keep_aside(number)?,
                false => fs::remove_file(self.path(number, "spool"))?,
            }
        }
        Ok(())
    }

    /// Renames a damaged segment: nothing reads it again, and a person may.
    fn keep_aside(&mut self, number: u32) -> io::Result<()> {
        let from = self.path(number, "spool");
        for place in 0..TAKEN_MAX {
            let kind = if place == 0 { "damaged".to_owned() } else { format!("damaged{place}") };
            let to = self.path(number, &kind);
            match rename_new(&from, &to) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                renamed => {
                    self.damaged.push(if renamed.is_ok() { to } else { from });
                    return renamed;
                }
            }
        }
        self.damaged.push(from);
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Ends the run. `unsent` are messages of this run that are older than what the spool has: they become its first
    /// segment. Returns how many of them found room, and an error. The messages of the oldest segment that were
    /// acknowledged are removed from it.
    pub(super) fn close(
        mut self,
        unsent: &[Message],
        templates: &dyn Fn() -> Vec<Message>,
    ) -> (usize, Option<io::Error>) {
        let completed = self.complete();
        let shortened = self.shorten_oldest();
        match self.push_before(unsent, templates) {
            Ok(kept) => (kept, shortened.and(completed).err()),
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
        let (_, length, head) = self.read_head(&file, bytes, false)?;
        let mut kept = beginning();
        head.messages.iter().for_each(|message| append_frame(&mut kept, message));
        if length != RecordedLength::Open {
            // What it lacked it still lacks.
            let shorter = kept.len() as u64 + bytes - acknowledged;
            set_length(&mut kept, shorter + length.difference(bytes));
        }
        let (part, mut shorter) = self.create_part(number)?;
        shorter.write_all(&kept)?;
        (&file).seek(SeekFrom::Start(acknowledged))?;
        io::copy(&mut file.take(bytes - acknowledged), &mut shorter)?;
        fs::rename(part, path)
    }

    /// Creates the file that takes the place of a segment.
    fn create_part(&self, number: u32) -> io::Result<(PathBuf, File)> {
        for place in 0..TAKEN_MAX {
            let path = self.path(number, &format!("part{place}"));
            match create(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return created.map(|file| (path, file)),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
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
        let mut bytes = beginning();
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
        let length = bytes.len() as u64;
        set_length(&mut bytes, length);
        let (path, mut file) = self.create_before(oldest)?;
        let written = file.write_all(&bytes);
        if written.is_err() {
            let _ = fs::remove_file(&path);
        }
        written.map(|()| kept)
    }

    /// Creates a segment with a number below `oldest`.
    fn create_before(&self, oldest: u32) -> io::Result<(PathBuf, File)> {
        for number in (0..oldest).rev().take(TAKEN_MAX as usize) {
            let path = self.path(number, "spool");
            match create(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return created.map(|file| (path, file)),
            }
        }
        Err(used_up())
    }
}

fn used_up() -> io::Error {
    io::Error::other("the numbers of its segments are used up: empty the folder")
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
fn lock(folder: &Path, name: &str) -> io::Result<PrivateLock> {
    let lock = PrivateLock::take(folder, name, LockPatience::begin()).map_err(|error| {
        if error.kind() != ErrorKind::WouldBlock {
            return error;
        }
        let owner = match error.to_string().trim() {
            "" => "another process".to_owned(),
            owner => format!("process {owner}"),
        };
        let reason = format!("{owner} has the spool of this collector: use a folder for each exporter");
        io::Error::new(ErrorKind::ResourceBusy, reason)
    })?;
    lock.file.set_len(0)?;
    lock.file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)?;
    Ok(lock)
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
mod tests;
