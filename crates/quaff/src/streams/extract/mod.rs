//! Each side of each connection to a file, and an index of the connections.
//!
//! | module | task |
//! |---|---|
//! | `files` | buffers and open files, within limits |
//! | `index` | the line of a connection |
//! | `bodies` | bodies of HTTP, if they are requested |
//! | `objects` | bodies decoded, in files named for their URL, in the place of streams |
//!
//! A gap is not written; the index has its offset. The first failure ends the run: later bytes are counted as skipped.

mod bodies;
mod files;
mod index;
mod objects;

use super::folder::{Folder, stream_name};
use crate::output::{ReaderTally, StreamReader};
use crate::{Error, Result};
use bodies::{Bodies, BodySide, BodyStep, BodyWriter, body_name};
use files::{Files, Owner, StreamFile};
use index::{LISTS_BYTES_MAX, Line, Shown, Stream};
use objects::{Objects, PAGE, TABLE};
use quaff_os::{Reason, Stop};
use quaff_stream::tracker::{Closed, ConnectionSink, Opened};
use quaff_stream::{Event, Sender};
use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// The name of the index in the folder.
pub(crate) const INDEX: &str = "index.jsonl";

/// Bytes of the index that are collected before they are written.
const INDEX_BUFFER_BYTES: usize = 256 << 10;

/// The destination of the index.
pub enum IndexTarget {
    /// The file [`INDEX`] in the folder.
    Folder,
    Writer(Box<dyn Write + Send>),
}

/// The folder, the index, and the rules for files.
pub struct ExtractPlan {
    pub dir: PathBuf,
    pub index: IndexTarget,
    /// Files of the same names are replaced.
    pub overwrites: bool,
    /// Most files.
    pub files_max: u64,
    /// The files.
    pub contents: Contents,
}

/// The files that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Each side of each connection.
    Streams,
    /// The same, and the bodies of HTTP as they were sent.
    StreamsAndBodies,
    /// The bodies of HTTP alone: decoded, named for their URL, with a page and a table of them.
    Objects,
}

/// A connection in the table.
#[derive(Debug, Default)]
struct Connection {
    opened: Option<Opened>,
    /// The connection's number among those between the same ends that have files; 0 before the first byte.
    reuse: u32,
    streams: [Stream; 2],
    files: [StreamFile; 2],
    bodies: Option<Box<Bodies>>,
}

impl Connection {
    /// The file of an owner, and its name.
    fn file(&mut self, owner: Owner) -> Option<(&mut StreamFile, String)> {
        let opened = self.opened.filter(|opened| opened.number == owner.number)?;
        let stream = |side: usize| name_of(&opened, SENDERS[side], self.reuse);
        match owner.side.checked_sub(bodies::SIDES) {
            None => Some((&mut self.files[owner.side], stream(owner.side))),
            Some(side) => {
                let BodySide { file, message, .. } = &mut self.bodies.as_mut()?.sides[side];
                Some((file, body_name(&stream(side), *message)))
            }
        }
    }

    fn has_buffer(&self, owner: &Owner) -> bool {
        let is_its = self.opened.is_some_and(|opened| opened.number == owner.number);
        let body =
            |side: usize| self.bodies.as_ref().is_some_and(|bodies| bodies.sides[side].file.has_buffer());
        let side = owner.side.checked_sub(bodies::SIDES);
        is_its && side.map_or_else(|| self.files[owner.side].has_buffer(), body)
    }
}

/// The reader that writes files.
pub(super) struct Extract {
    connections: Vec<Connection>,
    files: Files,
    files_max: u64,
    contents: Contents,
    objects: Option<Objects>,
    /// Connections with files, by a hash of their ends. If two pairs of ends share a hash, a number is skipped.
    names: HashMap<u64, u32>,
    index: BufWriter<Box<dyn Write + Send>>,
    lists_bytes: usize,
    stop: Stop,
    tally: ReaderTally,
}

impl Extract {
    /// Opens the folder and the index.
    pub(super) fn open(plan: ExtractPlan, stop: Stop) -> Result<Self> {
        let folder = Folder::open(&plan.dir, plan.overwrites)?;
        let index: Box<dyn Write + Send> = match plan.index {
            IndexTarget::Folder => Box::new(folder.create(INDEX)?),
            IndexTarget::Writer(writer) => writer,
        };
        let objects = match plan.contents {
            Contents::Objects => Some(Objects::open(&folder)?),
            Contents::Streams | Contents::StreamsAndBodies => None,
        };
        Ok(Self {
            connections: Vec::new(),
            files: Files::new(folder),
            files_max: plan.files_max,
            contents: plan.contents,
            objects,
            names: HashMap::new(),
            index: BufWriter::with_capacity(INDEX_BUFFER_BYTES, index),
            lists_bytes: 0,
            stop,
            tally: ReaderTally::default(),
        })
    }

    /// Ends the run, and remembers why.
    #[cold]
    fn fail(&mut self, error: &Error) {
        self.stop.raise(Reason::WriteError(error.to_string()));
        self.tally.failure.get_or_insert_with(|| error.to_string());
    }

    #[inline]
    fn put(&mut self, place: u32, sender: Sender, bytes: &[u8]) {
        let Some(Connection { opened: Some(opened), reuse, streams, files, .. }) =
            self.connections.get_mut(place as usize)
        else {
            return;
        };
        let side = sender.index();
        let is_new = files[side].bytes == 0;
        let is_wanted = self.contents != Contents::Objects;
        let has_room = !is_new || self.tally.files + self.tally.bodies.files < self.files_max;
        if self.tally.failure.is_some() || !has_room || !is_wanted {
            let is_refused = is_wanted && !has_room && streams[side].skipped_bytes == 0;
            self.tally.files_refused += u64::from(is_refused);
            streams[side].skipped_bytes += bytes.len() as u64;
            self.tally.skipped_bytes += bytes.len() as u64;
            return;
        }
        self.tally.files += u64::from(is_new);
        if *reuse == 0 {
            *reuse = next_number(&mut self.names, opened);
        }
        let owner = Owner { place, side, number: opened.number };
        let name = || name_of(opened, sender, *reuse);
        if let Err(error) = self.files.put(owner, &mut files[side], bytes, name) {
            self.fail(&error);
        }
        self.relieve();
    }

    /// Writes buffers until they have no more than their limit.
    #[inline]
    fn relieve(&mut self) {
        while let Some(owner) = self.files.overdue() {
            let Some(connection) = self.connections.get_mut(owner.place as usize) else { continue };
            let Some((file, name)) = connection.file(owner) else { continue };
            if let Err(error) = self.files.relieve(owner, file, || name.clone()) {
                self.fail(&error);
            }
        }
        let connections = &self.connections;
        self.files.forget_stale(|owner| connections[owner.place as usize].has_buffer(owner));
    }

    /// Passes the next step of a stream to the reader of bodies.
    fn step_bodies(&mut self, place: u32, sender: Sender, step: BodyStep) {
        let Some(Connection { opened: Some(opened), reuse, bodies, .. }) =
            self.connections.get_mut(place as usize).filter(|_| self.tally.failure.is_none())
        else {
            return;
        };
        let Some(bodies) = bodies else { return };
        let made = self.tally.files + self.tally.bodies.files;
        let mut writer = BodyWriter {
            files: &mut self.files,
            tally: &mut self.tally.bodies,
            objects: self.objects.as_mut(),
            room: self.files_max.saturating_sub(made),
            place,
            number: opened.number,
            ends: opened.ends,
            names: &|sender| name_of(opened, sender, *reuse),
            list_room: LISTS_BYTES_MAX.saturating_sub(self.lists_bytes),
            list_bytes: 0,
            failure: None,
        };
        bodies.take(sender, step, &mut writer);
        let (list_bytes, failure) = (writer.list_bytes, writer.failure);
        self.lists_bytes += list_bytes;
        if let Some(error) = failure {
            self.fail(&error);
        }
        self.relieve();
    }

    /// Adds a gap or different bytes to a list that has room.
    #[cold]
    fn note(&mut self, place: u32, sender: Sender, event: &Event) {
        let Some(connection) = self.connections.get_mut(place as usize) else { return };
        let side = sender.index();
        let (stream, file) = (&mut connection.streams[side], &connection.files[side]);
        let (before, room) = (stream.lists.bytes, LISTS_BYTES_MAX.saturating_sub(self.lists_bytes));
        match *event {
            Event::Gap { offset, lost_bytes, cause } => {
                stream.note_gap(offset, lost_bytes, cause, file.bytes, room);
            }
            Event::Difference(difference) => stream.note_difference(&difference, room),
            _ => {}
        }
        self.lists_bytes += stream.lists.bytes - before;
    }

    /// Ends a stream: its bytes go to its file, which is closed.
    fn end_stream(&mut self, place: u32, sender: Sender) {
        let Some(Connection { opened: Some(opened), reuse, files, .. }) =
            self.connections.get_mut(place as usize)
        else {
            return;
        };
        let owner = Owner { place, side: sender.index(), number: opened.number };
        let name = || name_of(opened, sender, *reuse);
        if let Err(error) = self.files.end(owner, &mut files[sender.index()], name) {
            self.fail(&error);
        }
    }

    /// Writes the line of a connection that has something to say.
    fn write_line(&mut self, connection: &Connection, opened: &Opened, closed: &Closed) {
        let Connection { streams, files, reuse, bodies, .. } = connection;
        let has_line = |side: usize| files[side].bytes > 0 || streams[side].is_worth_a_line();
        if !has_line(0) && !has_line(1) {
            return;
        }
        self.tally.connections += 1;
        let shown = SENDERS.map(|sender| {
            let bytes = files[sender.index()].bytes;
            let file = (bytes > 0).then(|| name_of(opened, sender, *reuse));
            let bodies = bodies.as_ref().map(|bodies| &bodies.sides[sender.index()]);
            Shown { stream: &streams[sender.index()], file, bytes, bodies }
        });
        let line = Line::new(opened, closed, shown);
        let written = serde_json::to_writer(&mut self.index, &line).map_err(std::io::Error::from);
        if let Err(error) = written.and_then(|()| self.index.write_all(b"\n")) {
            self.fail_index(error);
        }
    }

    #[cold]
    fn fail_index(&mut self, error: std::io::Error) {
        let is_closed = error.kind() == std::io::ErrorKind::BrokenPipe;
        let reason = if is_closed { Reason::OutputClosed } else { Reason::WriteError(error.to_string()) };
        self.stop.raise(reason);
        if !is_closed {
            self.tally.failure.get_or_insert_with(|| format!("cannot write the index: {error}"));
        }
    }
}

const SENDERS: [Sender; 2] = [Sender::A, Sender::B];

fn name_of(opened: &Opened, sender: Sender, reuse: u32) -> String {
    let [from, to] = [sender, sender.other()].map(|sender| opened.ends[sender.index()]);
    stream_name(from, to, reuse)
}

/// The number of a connection among those between its ends.
fn next_number(names: &mut HashMap<u64, u32>, opened: &Opened) -> u32 {
    use std::hash::BuildHasher;
    let hash = names.hasher().hash_one(opened.ends);
    let number = names.entry(hash).or_default();
    *number += 1;
    *number
}

impl ConnectionSink for Extract {
    fn begin(&mut self, place: u32, opened: &Opened) {
        let at = place as usize;
        if self.connections.len() <= at {
            self.connections.resize_with(at + 1, Connection::default);
        }
        let bodies = (self.contents != Contents::Streams).then(Box::default);
        // Without streams, the names of bodies need only differ until they are objects.
        let reuse = if self.contents == Contents::Objects { opened.number as u32 } else { 0 };
        self.connections[at] = Connection { opened: Some(*opened), reuse, bodies, ..Connection::default() };
    }

    #[inline]
    fn event(&mut self, place: u32, sender: Sender, _: u64, event: Event) {
        match event {
            Event::Data { bytes, .. } => self.put(place, sender, bytes),
            Event::Urgent { byte, .. } => self.put(place, sender, &[byte]),
            Event::Gap { .. } | Event::Difference(_) => self.note(place, sender, &event),
            Event::End { offset, reason } => {
                if let Some(connection) = self.connections.get_mut(place as usize) {
                    connection.streams[sender.index()].note_end(offset, reason);
                }
                self.end_stream(place, sender);
            }
        }
        if self.contents != Contents::Streams {
            match event {
                Event::Data { bytes, .. } => self.step_bodies(place, sender, BodyStep::Data(bytes)),
                Event::Gap { lost_bytes, .. } => self.step_bodies(place, sender, BodyStep::Gap(lost_bytes)),
                Event::End { reason, .. } => self.step_bodies(place, sender, BodyStep::End(reason)),
                Event::Urgent { .. } | Event::Difference(_) => {}
            }
        }
    }

    fn end(&mut self, place: u32, closed: &Closed) {
        let Some(connection) = self.connections.get_mut(place as usize) else { return };
        let connection = std::mem::take(connection);
        if let Some(opened) = connection.opened {
            self.write_line(&connection, &opened, closed);
        }
        self.tally.bytes += connection.files.iter().map(|file| file.bytes).sum::<u64>();
        let of_bodies = connection.bodies.as_ref().map_or(0, |bodies| bodies.list_bytes());
        let of_streams: usize = connection.streams.iter().map(|stream| stream.lists.bytes).sum();
        self.lists_bytes -= of_bodies + of_streams;
    }
}

impl StreamReader for Extract {
    fn finish(&mut self) -> ReaderTally {
        if let Err(error) = self.index.flush() {
            self.fail_index(error);
        }
        let objects = self.objects.as_mut().map(|objects| objects.finish(self.files.folder()));
        if let Some(Err(error)) = objects {
            self.fail(&error);
        }
        self.tally.objects = self.objects.as_ref().map(Objects::tally);
        let made = self.tally.files + self.tally.bodies.files;
        debug_assert!(self.tally.failure.is_some() || self.files.made == made);
        self.tally.clone()
    }
}

/// Returns the paths of the files beside the streams: the index, unless it is written elsewhere, and the lists of
/// objects.
pub(super) fn list_files(plan: &ExtractPlan) -> Vec<PathBuf> {
    let index = matches!(plan.index, IndexTarget::Folder).then_some(INDEX);
    let of_objects: &[&str] = if plan.contents == Contents::Objects { &[PAGE, TABLE] } else { &[] };
    index.iter().chain(of_objects).map(|name| plan.dir.join(name)).collect()
}
