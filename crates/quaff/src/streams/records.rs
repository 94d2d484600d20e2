//! The destination of the rows and packets that scripts record: a folder with a file for each list, or lines of JSON on
//! a stream.
//!
//! A run from files waits for it on the lane. A run from an interface does not: a thread writes for all lanes, and
//! pieces without room in its queue are dropped and counted.

use super::folder::{Folder, Identity, identity_of, stream_name};
use crate::output::{RecordSink, RecordTally, Recorded};
use crate::{Error, Result};
use quaff_os::{Reason, Stop};
use quaff_script::{Recorder, SavedPiece};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Pieces that may wait for the thread of an interface's run: 64 KiB each in the usual case.
const QUEUE_PIECES: usize = 1024;
/// Bytes that may wait for it: a single event may have made a piece of many MiB.
const QUEUE_BYTES: u64 = 64 << 20;

/// The destination of rows and packets.
pub enum RecordTarget {
    Folder(RecordFolder),
    /// Lines of JSON, without packets.
    Lines(Box<dyn Write + Send>),
}

/// A folder, which is made if it does not exist.
#[derive(Debug, Clone)]
pub struct RecordFolder {
    pub dir: PathBuf,
    /// Files of the same names are replaced.
    pub overwrites: bool,
    /// Most files with packets of flows.
    pub files_max: u64,
    pub has_json: bool,
    pub has_csv: bool,
}

/// Writes on the thread that calls it.
pub(super) struct Records {
    target: Target,
    stop: Stop,
    tally: RecordTally,
}

enum Target {
    Lines(Box<dyn Write + Send>),
    Folder { folder: Folder, lists: HashMap<String, File>, flows: Flows, files_max: u64 },
}

/// Files with packets of flows.
#[derive(Default)]
struct Flows {
    /// By the number of the flow; `None` if it has no file.
    open: HashMap<u64, Option<(String, Identity)>>,
    /// Flows between the same ends.
    names: HashMap<[SocketAddr; 2], u32>,
    made: u64,
}

impl Records {
    pub(super) fn open(target: RecordTarget, stop: Stop) -> Result<Self> {
        let target = match target {
            RecordTarget::Lines(writer) => Target::Lines(writer),
            RecordTarget::Folder(RecordFolder { dir, overwrites, files_max, .. }) => Target::Folder {
                folder: Folder::open(&dir, overwrites)?,
                lists: HashMap::new(),
                flows: Flows::default(),
                files_max,
            },
        };
        Ok(Self { target, stop, tally: RecordTally::default() })
    }

    fn write(&mut self, recorded: &Recorded) -> Result<()> {
        let tally = &mut self.tally;
        match (&mut self.target, recorded) {
            (Target::Lines(writer), Recorded::Rows { json, .. }) => match writer.write_all(json) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => self.stop.raise(Reason::OutputClosed),
                Err(error) => return Err(Error::path("write to", "stdout", error)),
                Ok(()) => tally.bytes += json.len() as u64,
            },
            (Target::Lines(_), Recorded::Packets(piece)) => tally.dropped_bytes += piece.bytes.len() as u64,
            (Target::Folder { folder, lists, .. }, Recorded::Rows { recorder, json, csv }) => {
                for (bytes, suffix) in [(json, "jsonl"), (csv, "csv")] {
                    if !bytes.is_empty() {
                        append_rows(folder, lists, recorder, (suffix, bytes), tally)?;
                    }
                }
            }
            (Target::Folder { folder, flows, files_max, .. }, Recorded::Packets(piece)) => {
                flows.append(folder, piece, *files_max, tally)?;
            }
        }
        Ok(())
    }
}

fn append_rows(
    folder: &Folder,
    lists: &mut HashMap<String, File>,
    recorder: &Recorder,
    (suffix, bytes): (&str, &[u8]),
    tally: &mut RecordTally,
) -> Result<()> {
    let name = format!("{}-{}.{suffix}", recorder.script, recorder.name);
    if !lists.contains_key(&name) {
        let mut file = folder.create(&name)?;
        tally.files += 1;
        if suffix == "csv" {
            let head = recorder.csv_head();
            file.write_all(&head).map_err(|error| folder.error("write to", &name, error))?;
            tally.bytes += head.len() as u64;
        }
        lists.insert(name.clone(), file);
    }
    if let Some(file) = lists.get_mut(&name) {
        file.write_all(bytes).map_err(|error| folder.error("write to", &name, error))?;
    }
    tally.bytes += bytes.len() as u64;
    Ok(())
}

impl Flows {
    fn append(
        &mut self,
        folder: &Folder,
        piece: &SavedPiece,
        files_max: u64,
        tally: &mut RecordTally,
    ) -> Result<()> {
        let SavedPiece { number, client, server, bytes, is_first, is_last } = piece;
        let known = match self.open.get(number) {
            Some(known) => known.clone(),
            // The first piece, with the header of the file, had no room.
            None if !is_first => None,
            None => {
                let has_room = self.made < files_max;
                tally.files_refused += u64::from(!has_room);
                let made = has_room.then(|| self.make(folder, [*client, *server])).transpose()?;
                tally.files += u64::from(made.is_some());
                self.open.insert(*number, made.clone());
                made
            }
        };
        match known {
            Some((name, identity)) => {
                let mut file = folder.append(&name, identity)?;
                file.write_all(bytes).map_err(|error| folder.error("write to", &name, error))?;
                tally.bytes += bytes.len() as u64;
            }
            None => tally.dropped_bytes += bytes.len() as u64,
        }
        if *is_last {
            self.open.remove(number);
        }
        Ok(())
    }

    fn make(&mut self, folder: &Folder, ends: [SocketAddr; 2]) -> Result<(String, Identity)> {
        let count = self.names.entry(ends).or_default();
        *count += 1;
        let name = format!("{}.pcapng", stream_name(ends[0], ends[1], *count));
        let file = folder.create(&name)?;
        self.made += 1;
        let identity = identity_of(&file).map_err(|error| folder.error("look at", &name, error))?;
        Ok((name, identity))
    }
}

impl Recorded {
    fn bytes(&self) -> u64 {
        match self {
            Self::Rows { json, csv, .. } => (json.len() + csv.len()) as u64,
            Self::Packets(piece) => piece.bytes.len() as u64,
        }
    }
}

impl RecordSink for Records {
    fn put(&mut self, recorded: Recorded) {
        let written = match self.tally.failure {
            None => self.write(&recorded),
            Some(_) => {
                self.tally.dropped_bytes += recorded.bytes();
                return;
            }
        };
        if let Err(error) = written {
            self.stop.raise(Reason::WriteError(error.to_string()));
            self.tally.dropped_bytes += recorded.bytes();
            self.tally.failure = Some(error.to_string());
        }
    }

    fn finish(&mut self) -> RecordTally {
        if let Target::Lines(writer) = &mut self.target {
            // The command reports errors of stdout.
            let _ = writer.flush();
        }
        self.tally.clone()
    }
}

/// The thread that writes what all lanes of an interface recorded.
pub(super) struct RecordsThread {
    to: SyncSender<Recorded>,
    thread: JoinHandle<RecordTally>,
    queued_bytes: Arc<AtomicU64>,
}

/// Passes what one lane recorded to the thread.
pub(super) struct QueuedRecords {
    /// The queue, until the end of the lane.
    to: Option<SyncSender<Recorded>>,
    /// Bytes in the queue. The lanes add, the thread subtracts what it has written; a number only: Relaxed.
    queued_bytes: Arc<AtomicU64>,
    /// Flows of which a piece had no room. The file of each ends there: a gap would look like a loss on the wire.
    cut: HashSet<u64>,
    dropped_bytes: u64,
}

impl RecordsThread {
    pub(super) fn start(records: Records) -> Result<Self> {
        let (to, from) = sync_channel(QUEUE_PIECES);
        let queued_bytes = Arc::<AtomicU64>::default();
        let queued = queued_bytes.clone();
        let thread = quaff_os::spawn("quaff-rows", move || write_all(records, &from, &queued))?;
        Ok(Self { to, thread, queued_bytes })
    }

    /// The sink of one lane.
    pub(super) fn sink(&self) -> QueuedRecords {
        let (to, queued_bytes) = (Some(self.to.clone()), self.queued_bytes.clone());
        QueuedRecords { to, queued_bytes, cut: HashSet::new(), dropped_bytes: 0 }
    }

    /// Passes on rows after the last packet: waiting for room costs nothing then.
    pub(super) fn put(&self, recorded: Recorded) {
        self.queued_bytes.fetch_add(recorded.bytes(), Ordering::Relaxed);
        // Only a thread that panicked does not receive it, which is reported at the end.
        let _ = self.to.send(recorded);
    }

    /// Ends the thread after the sinks of all lanes: everything that they passed on is written, or has failed.
    pub(super) fn finish(self) -> RecordTally {
        drop(self.to);
        let lost =
            |_| RecordTally { failure: Some("the thread of rows panicked".into()), ..RecordTally::default() };
        self.thread.join().unwrap_or_else(lost)
    }
}

fn write_all(mut records: Records, from: &Receiver<Recorded>, queued_bytes: &AtomicU64) -> RecordTally {
    for recorded in from {
        let bytes = recorded.bytes();
        records.put(recorded);
        queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
    records.finish()
}

impl QueuedRecords {
    /// Queues a piece; returns false if there is no room.
    fn queue(&self, recorded: Recorded) -> bool {
        let Some(to) = &self.to else { return false };
        let bytes = recorded.bytes();
        // Lanes add before they compare, so that they do not exceed the bound together. A piece that is larger than the
        // queue has room in an empty queue.
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = before == 0 || before + bytes <= QUEUE_BYTES;
        let is_queued = has_room && to.try_send(recorded).is_ok();
        if !is_queued {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_queued
    }
}

impl RecordSink for QueuedRecords {
    fn put(&mut self, recorded: Recorded) {
        let (bytes, flow) = match &recorded {
            Recorded::Packets(piece) => (recorded.bytes(), Some((piece.number, piece.is_last))),
            Recorded::Rows { .. } => (recorded.bytes(), None),
        };
        let is_cut = flow.is_some_and(|(number, _)| self.cut.contains(&number));
        if !is_cut && self.queue(recorded) {
            return;
        }
        self.dropped_bytes += bytes;
        match flow {
            Some((number, true)) => drop(self.cut.remove(&number)),
            Some((number, false)) => drop(self.cut.insert(number)),
            None => {}
        }
    }

    /// Returns the bytes that the lane could not pass on; the thread counts all others.
    fn finish(&mut self) -> RecordTally {
        self.to = None;
        RecordTally { dropped_bytes: std::mem::take(&mut self.dropped_bytes), ..RecordTally::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_script::RecorderKind;
    use std::sync::mpsc::{Sender, channel};

    fn rows(json: &str, csv: &str) -> Recorded {
        let recorder = Recorder {
            script: "a".into(),
            name: "b".into(),
            kind: RecorderKind::List,
            columns: vec!["one".into(), "two, three".into()],
        };
        Recorded::Rows { recorder, json: json.into(), csv: csv.into() }
    }

    fn folder(dir: PathBuf, files_max: u64) -> RecordTarget {
        RecordTarget::Folder(RecordFolder {
            dir,
            overwrites: false,
            files_max,
            has_json: true,
            has_csv: true,
        })
    }

    fn piece(number: u64, bytes: &[u8], (is_first, is_last): (bool, bool)) -> Recorded {
        let [client, server] = ["10.0.0.1:4711", "10.0.0.2:80"].map(|end| end.parse().unwrap());
        Recorded::Packets(SavedPiece { number, client, server, bytes: bytes.to_vec(), is_first, is_last })
    }

    /// Stdout that takes nothing until the test lets it.
    struct Held(Receiver<()>, Sender<()>);

    impl Write for Held {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.1.send(()).unwrap();
            self.0.recv().unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_queue_is_bounded_in_bytes() {
        let ((go, wait), (came, arrived)) = (channel(), channel());
        let lines = RecordTarget::Lines(Box::new(Held(wait, came)));
        let thread = RecordsThread::start(Records::open(lines, Stop::default()).unwrap()).unwrap();
        let mut queue = thread.sink();
        let large = "x".repeat(QUEUE_BYTES as usize + 1);
        queue.put(rows(&large, ""));
        arrived.recv().unwrap();
        queue.put(rows("no room", ""));
        go.send(()).unwrap();
        let is_empty = || queue.queued_bytes.load(Ordering::Relaxed) == 0;
        while !is_empty() {
            std::thread::yield_now();
        }
        queue.put(rows("room", ""));
        go.send(()).unwrap();
        let mut tally = queue.finish();
        tally.add(thread.finish());
        assert_eq!((tally.bytes, tally.dropped_bytes), (large.len() as u64 + 4, 7));
    }

    #[test]
    fn the_file_of_a_flow_has_no_hole_and_begins_with_its_header() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let mut records = Records::open(folder(out.clone(), 10), Stop::default()).unwrap();
        records.put(piece(1, b"headless", (false, false)));
        records.put(piece(1, b"too", (false, true)));
        assert_eq!(records.tally.dropped_bytes, 11);
        // The thread is busy until the test ends that, so the queue is full.
        let thread = RecordsThread::start(records).unwrap();
        let mut queue = thread.sink();
        queue.put(piece(2, b"begin", (true, false)));
        queue.queued_bytes.fetch_add(QUEUE_BYTES, Ordering::Relaxed);
        queue.put(piece(2, b"hole", (false, false)));
        queue.queued_bytes.fetch_sub(QUEUE_BYTES, Ordering::Relaxed);
        queue.put(piece(2, b"after", (false, false)));
        queue.put(piece(2, b"end", (false, true)));
        assert!(queue.cut.is_empty());
        let mut tally = queue.finish();
        tally.add(thread.finish());
        assert_eq!((tally.files, tally.bytes, tally.dropped_bytes), (1, 5, 11 + 4 + 5 + 3));
        let name = "010.000.000.001.04711-010.000.000.002.00080.pcapng";
        assert_eq!(std::fs::read_to_string(out.join(name)).unwrap(), "begin");
    }

    #[test]
    fn lanes_write_to_the_same_files() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let thread = RecordsThread::start(Records::open(folder(out.clone(), 1), Stop::default()).unwrap());
        let thread = thread.unwrap();
        let mut lanes = [thread.sink(), thread.sink()];
        for lane in &mut lanes {
            lane.put(rows("{}\n", "1,2\r\n"));
        }
        lanes[0].put(piece(1, b"x", (true, false)));
        lanes[1].put(piece(2, b"no", (true, true)));
        lanes[0].put(piece(1, b"y", (false, true)));
        let mut tally = RecordTally::default();
        lanes.iter_mut().for_each(|lane| tally.add(lane.finish()));
        thread.put(rows("{1}\n", ""));
        tally.add(thread.finish());
        assert_eq!((tally.files, tally.files_refused, tally.dropped_bytes, &tally.failure), (3, 1, 2, &None));
        let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
        assert_eq!(read("a-b.jsonl"), "{}\n{}\n{1}\n");
        assert_eq!(read("a-b.csv"), "one,\"two, three\"\r\n1,2\r\n1,2\r\n", "one heading");
        assert_eq!(read("010.000.000.001.04711-010.000.000.002.00080.pcapng"), "xy");
    }

    #[test]
    fn a_list_has_a_file_for_each_format_and_a_flow_one_for_its_packets() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let mut records = Records::open(folder(out.clone(), 1), Stop::default()).unwrap();
        records.put(rows("{}\n", "1,2\r\n"));
        records.put(rows("{}\n", ""));
        records.put(piece(1, b"xy", (true, false)));
        records.put(piece(2, b"no", (true, true)));
        records.put(piece(1, b"z", (false, true)));
        let tally = records.finish();
        assert_eq!((tally.files, tally.files_refused, tally.dropped_bytes), (3, 1, 2));
        let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
        assert_eq!(
            (read("a-b.jsonl"), read("a-b.csv")),
            ("{}\n{}\n".into(), "one,\"two, three\"\r\n1,2\r\n".into())
        );
        assert_eq!(read("010.000.000.001.04711-010.000.000.002.00080.pcapng"), "xyz");
    }

    #[test]
    fn a_file_that_is_in_the_way_ends_the_run() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a-b.jsonl"), "kept").unwrap();
        let stop = Stop::default();
        let mut records = Records::open(folder(dir.path().to_owned(), 1), stop.clone()).unwrap();
        records.put(rows("{}\n", ""));
        records.put(rows("{}\n", ""));
        let tally = records.finish();
        assert!(stop.raised() && tally.failure.unwrap().contains("exists"));
        assert_eq!(tally.dropped_bytes, 6);
        assert_eq!(std::fs::read_to_string(dir.path().join("a-b.jsonl")).unwrap(), "kept");
    }
}
