//! The source of frames from capture files, one file after another. It never sends.
//!
//! The files may have any format and compression that quaff reads. Each is read ahead by a thread of its own, so the
//! disk works while frames are sent.

use crate::arena::{Arena, FrameMeta};
use crate::error::{PlanError, SendError};
use crate::feed::Feed;
use crate::ranges::Ranges;
use crate::tally::FeedTally;
use quaff_file::read::{self, Advance, CaptureFile, GONE, Options, is_gone};
use quaff_os::{Stop, Try};
use quaff_wire::decode::{Frame, Item};
use quaff_wire::linktype;
use quaff_wire::tcpprep::{Assignment, Cache};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longest gap between two files that is kept, ns: the files belong to one capture. After a longer gap the next file
/// follows at once.
const SEAM_NS: u64 = 100_000_000;
/// Longest wait for data of a pipe before checking for a stop.
const LOOK: Duration = Duration::from_millis(20);

/// A selection of packets from files.
#[derive(Debug, Clone, Default)]
pub struct FilePlan {
    /// The files, in order; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// Those of `files` that were found in a folder, from which another process may remove or rename them meanwhile.
    pub found: Arc<BTreeSet<PathBuf>>,
    /// Send only these packets, numbered from 1 across all files.
    pub include: Option<Ranges>,
    /// Skip these packets.
    pub exclude: Option<Ranges>,
    /// Cache file of tcpprep: the output interface of each packet, numbered from 1 in each file.
    pub cache: Option<PathBuf>,
}

/// A file that is being opened in a separate thread; `None` of one that was found in a folder, and is gone.
type Opening = Receiver<quaff_os::Result<Option<CaptureFile>>>;

/// The feed of the frames in files.
struct FileFeed {
    plan: FilePlan,
    /// The contents of the cache file.
    sides: Option<Cache>,
    stop: Stop,
    left: VecDeque<PathBuf>,
    file: Option<CaptureFile>,
    /// A file that is being opened: opening a pipe waits for its writer.
    opening: Option<(PathBuf, Opening)>,
    bytes: Option<u64>,
    /// Packets of this pass so far.
    number: u64,
    /// Packets of this file so far.
    in_file: u64,
    is_first_pass: bool,
    tally: FeedTally,
    clock: Clock,
    damage: Option<String>,
    /// A frame that did not fit in the last arena.
    held: Option<(Vec<u8>, FrameMeta)>,
}

/// Joins the times of several files into one sequence.
#[derive(Debug, Default)]
struct Clock {
    shift_ns: i128,
    last_ns: u64,
    is_seam: bool,
}

impl FilePlan {
    /// The files as a feed; checks that each exists. `stop` ends the reading of a file that may have no end.
    pub fn open(self, stop: Stop) -> Result<Box<dyn Feed>, SendError> {
        let mut bytes = Some(0);
        for path in &self.files {
            let length = match length(path) {
                Err(_) if self.found.contains(path) && is_gone(path) => Some(0),
                length => length?,
            };
            bytes = bytes.zip(length).map(|(sum, more)| sum + more);
        }
        let left = self.files.iter().cloned().collect();
        Ok(Box::new(FileFeed {
            plan: self,
            sides: None,
            stop,
            left,
            file: None,
            opening: None,
            bytes,
            number: 0,
            in_file: 0,
            is_first_pass: true,
            tally: FeedTally::default(),
            clock: Clock::default(),
            damage: None,
            held: None,
        }))
    }

    fn excludes(&self, number: u64) -> bool {
        self.include.as_ref().is_some_and(|ranges| !ranges.contains(number))
            || self.exclude.as_ref().is_some_and(|ranges| ranges.contains(number))
    }
}

impl FileFeed {
    /// Copies the frames that have been read. Returns `false` if the arena is full.
    fn walk(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
        let Some(file) = &mut self.file else { return Ok(true) };
        let sides = self.sides.as_ref();
        let (plan, tally, clock, held) = (&self.plan, &mut self.tally, &mut self.clock, &mut self.held);
        let (number, count) = (&mut self.number, u64::from(self.is_first_pass));
        let (in_file, mut beyond) = (&mut self.in_file, None);
        let walked = file.walk(|item, _| {
            let Item::Frame(frame) = item else { return true };
            (*number, *in_file) = (*number + 1, *in_file + 1);
            tally.seen += count;
            let mut meta = clock.meta(&frame);
            let side = match sides.map(|sides| sides.side(*in_file).ok_or(sides.packets)) {
                Some(Err(packets)) => {
                    beyond = Some(packets);
                    return false;
                }
                Some(Ok(side)) => side,
                None => Assignment::Primary,
            };
            meta.out = u8::from(side == Assignment::Secondary);
            if side == Assignment::NotSent || plan.excludes(*number) {
                tally.excluded += count;
            } else if frame.linktype != linktype::ETHERNET.linktype {
                tally.link_type += count;
            } else {
                tally.cut += if (frame.data.len() as u32) < frame.wire_len { count } else { 0 };
                if !arena.push(frame.data, meta) {
                    *held = Some((frame.data.to_vec(), meta));
                    return false;
                }
            }
            true
        });
        let is_full = held.is_some();
        if let Some(packets) = beyond {
            return Err(PlanError::Sides { packets }.into());
        }
        walked.or_else(|error| self.skip_rest(error))?;
        Ok(!is_full)
    }

    /// Skips the rest of a damaged file.
    fn skip_rest(&mut self, error: read::Error) -> Result<(), SendError> {
        if matches!(error, read::Error::Os(_)) {
            return Err(error.into());
        }
        self.damage.get_or_insert(error.to_string());
        (self.file, self.clock.is_seam) = (None, true);
        Ok(())
    }

    /// Waits briefly for more packets of this file, or of the next one.
    fn advance(&mut self) -> Result<Advance, SendError> {
        loop {
            if self.stop.raised() {
                return Ok(Advance::End);
            }
            if let Some(file) = &mut self.file {
                match file.advance(Some(LOOK)) {
                    Ok(Advance::End) => (self.file, self.clock.is_seam) = (None, true),
                    Ok(other) => return Ok(other),
                    Err(error) => self.skip_rest(error)?,
                }
            }
            if let Some((path, opening)) = &self.opening {
                match opening.recv_timeout(LOOK) {
                    Ok(file) => {
                        self.file = file?;
                        if self.file.is_none() {
                            self.damage.get_or_insert(format!("MISSING: {}, {GONE}", path.display()));
                        }
                        self.opening = None;
                    }
                    Err(_) => return Ok(Advance::Idle),
                }
                continue;
            }
            let Some(path) = self.left.pop_front() else { return Ok(Advance::End) };
            let opening = open(path.clone(), options(&self.stop, &self.plan))?;
            self.opening = Some((path, opening));
            self.in_file = 0;
        }
    }
}

impl Feed for FileFeed {
    fn begin(&mut self, _: bool) -> Result<(), SendError> {
        self.sides = match self.plan.cache.clone() {
            Some(path) => read_cache(path, &self.stop)?,
            None => None,
        };
        self.plan.files.iter().try_for_each(|path| check(path, &self.stop, &self.plan))
    }

    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
        if let Some((frame, meta)) = self.held.take()
            && !arena.push(&frame, meta)
        {
            if arena.is_empty() {
                return Err(PlanError::FrameBytes { bytes: frame.len() }.into());
            }
            self.held = Some((frame, meta));
            return Ok(true);
        }
        loop {
            if !self.walk(arena)? {
                return Ok(true);
            }
            match self.advance()? {
                Advance::End => return Ok(false),
                Advance::Idle => return Ok(true),
                Advance::More => {}
            }
        }
    }

    fn rewind(&mut self) -> Result<bool, SendError> {
        if self.bytes.is_none() {
            return Ok(false);
        }
        self.left = self.plan.files.iter().cloned().collect();
        (self.file, self.opening) = (None, None);
        (self.number, self.in_file) = (0, 0);
        self.is_first_pass = false;
        self.clock = Clock::default();
        self.held = None;
        Ok(true)
    }

    fn bytes_hint(&self) -> Option<u64> {
        self.bytes
    }

    fn tally(&self) -> FeedTally {
        self.tally
    }

    fn damage(&self) -> Option<String> {
        self.damage.clone()
    }
}

impl Clock {
    fn meta(&mut self, frame: &Frame<'_>) -> FrameMeta {
        if std::mem::take(&mut self.is_seam) {
            let gap_ns = (i128::from(frame.time_ns) + self.shift_ns) - i128::from(self.last_ns);
            if !(0..=i128::from(SEAM_NS)).contains(&gap_ns) {
                self.shift_ns -= gap_ns;
            }
        }
        let time_ns = (i128::from(frame.time_ns) + self.shift_ns).clamp(0, i128::from(u64::MAX)) as u64;
        self.last_ns = time_ns;
        FrameMeta { time_ns, wire_len: frame.wire_len, out: 0 }
    }
}

/// Opens a file in a separate thread; `None` of one that was found in a folder, and is gone.
fn open(path: PathBuf, options: Options) -> Result<Opening, SendError> {
    apart(move || CaptureFile::open_there(&path, options))
}

/// Runs in a separate thread what opens a file, because opening a pipe blocks.
fn apart<T: Send + 'static>(open: impl FnOnce() -> T + Send + 'static) -> Result<Receiver<T>, SendError> {
    let (sender, opened) = channel();
    quaff_os::spawn("quaff-open", move || drop(sender.send(open())))?;
    Ok(opened)
}

fn options(stop: &Stop, plan: &FilePlan) -> Options {
    Options { stop: stop.clone(), found: plan.found.clone(), ..Options::default() }
}

/// Reads a cache file in a separate thread. `None` after the stop.
fn read_cache(path: PathBuf, stop: &Stop) -> Result<Option<Cache>, SendError> {
    let file = path.clone();
    let read = apart(move || std::fs::read(file))?;
    while !stop.raised() {
        let Ok(bytes) = read.recv_timeout(LOOK) else { continue };
        let bytes = bytes.trying(|| format!("read {}", path.display()))?;
        let unusable = |problem: String| PlanError::Cache { path: path.clone(), problem };
        return Ok(Some(Cache::read(&bytes).map_err(|error| unusable(error.to_string()))?));
    }
    Ok(None)
}

/// The length of a file; `None` of a pipe.
fn length(path: &Path) -> Result<Option<u64>, SendError> {
    if path.as_os_str() == "-" {
        return Ok(None);
    }
    let found = path.metadata().trying(|| format!("open {}", path.display()))?;
    Ok(found.is_file().then_some(found.len()))
}

/// Checks that the packets of a file can be sent; a pipe is not opened.
fn check(path: &Path, stop: &Stop, plan: &FilePlan) -> Result<(), SendError> {
    // A pipe is in no folder that is searched.
    if !plan.found.contains(path) && length(path)?.is_none() {
        return Ok(());
    }
    let Some(mut file) = CaptureFile::open_there(path, options(stop, plan))? else { return Ok(()) };
    let mut found_type = None;
    while found_type.is_none() {
        if file.advance(None)? == Advance::End {
            break;
        }
        file.walk(|item, _| {
            if let Item::Interface(interface) = item {
                found_type = Some(interface.linktype);
            }
            found_type.is_none()
        })?;
    }
    match found_type {
        Some(linktype) if linktype != linktype::ETHERNET.linktype => {
            Err(PlanError::LinkType { path: path.into(), linktype }.into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::testing::drain_times;
    use quaff_wire::Record;
    use quaff_wire::pcapng::{Interface, Section, epb, epb_bytes, idb, shb};
    use std::io::Write;

    /// A file with a packet for each time and content.
    fn file(linktype: u16, packets: &[(u64, &[u8])]) -> tempfile::NamedTempFile {
        let mut bytes = Vec::new();
        shb(&mut bytes, &Section::default());
        idb(&mut bytes, &Interface { linktype, ..Interface::default() });
        for (time_ns, content) in packets {
            let len = content.len() as u32 + 1;
            let record = Record { time_ns: *time_ns, bytes: content, len, ..Record::default() };
            let mut room = vec![0; epb_bytes(content.len())];
            let written = epb(&mut room, 0, &record);
            bytes.extend_from_slice(&room[..written]);
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        file
    }

    fn feed(files: &[&tempfile::NamedTempFile], include: &str, exclude: &str) -> Box<dyn Feed> {
        let ranges = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
        let files = files.iter().map(|file| file.path().to_owned()).collect();
        let plan =
            FilePlan { files, include: ranges(include), exclude: ranges(exclude), ..FilePlan::default() };
        begun(plan)
    }

    #[test]
    fn files_follow_each_other_and_restart() {
        let first = file(1, &[(1_000, b"a"), (3_000, b"bb"), (2_000, b"ccc")]);
        let soon = file(1, &[(52_000, b"d")]);
        let hours_ago = file(1, &[(5, b"e"), (9, b"ff")]);
        let mut feed = feed(&[&first, &soon, &hours_ago], "", "");
        let expected: Vec<(Vec<u8>, u64)> = [
            (&b"a"[..], 1_000),
            (b"bb", 3_000),
            (b"ccc", 2_000),
            (b"d", 52_000),
            (b"e", 52_000),
            (b"ff", 52_004),
        ]
        .map(|(content, time_ns)| (content.to_vec(), time_ns))
        .to_vec();
        assert_eq!(drain_times(&mut *feed, 1000), expected);
        for arena_bytes in [3, 4, 5] {
            assert!(feed.rewind().unwrap());
            assert_eq!(drain_times(&mut *feed, arena_bytes), expected, "in arenas of {arena_bytes} bytes");
        }
        assert_eq!(feed.tally(), FeedTally { seen: 6, cut: 6, ..FeedTally::default() });
        assert!(feed.bytes_hint().is_some_and(|bytes| bytes > 300));
    }

    #[test]
    fn packet_ranges_span_all_files() {
        let first = file(1, &[(1, b"a"), (2, b"b"), (3, b"c")]);
        let second = file(1, &[(4, b"d"), (5, b"e")]);
        let mut feed = feed(&[&first, &second], "2-4", "3");
        let contents: Vec<_> = drain_times(&mut *feed, 100).into_iter().map(|(content, _)| content).collect();
        assert_eq!(contents, [b"b", b"d"]);
        assert_eq!((feed.tally().seen, feed.tally().excluded), (5, 3));
    }

    #[test]
    fn a_file_of_a_folder_that_is_gone_is_named() {
        let there = file(1, &[(1, b"a")]);
        let gone = PathBuf::from("/nowhere/a.pcap");
        let files = vec![gone.clone(), there.path().to_owned()];
        let mut feed = begun(FilePlan { files, found: Arc::new([gone].into()), ..FilePlan::default() });
        assert_eq!(drain_times(&mut *feed, 100).len(), 1);
        assert_eq!(feed.damage(), Some(format!("MISSING: /nowhere/a.pcap, {GONE}")));
    }

    fn begun(plan: FilePlan) -> Box<dyn Feed> {
        let mut feed = plan.open(Stop::default()).unwrap();
        feed.begin(false).unwrap();
        feed
    }

    /// A cache file whose packets have these bits.
    fn cache(packets: u64, sides: u8) -> tempfile::NamedTempFile {
        let mut bytes = b"tcpprep\x0004\0\0".to_vec();
        bytes.extend(packets.to_be_bytes());
        bytes.extend([0, 4, 0, 0, sides]);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        file
    }

    #[test]
    fn a_tcpprep_cache_selects_the_interface() {
        let file = file(1, &[(1, b"a"), (2, b"b"), (3, b"c")]);
        let files = vec![file.path().to_owned(), file.path().to_owned()];
        let open = |cache: tempfile::NamedTempFile| {
            let cache = Some(cache.path().to_owned());
            begun(FilePlan { files: files.clone(), cache, ..FilePlan::default() })
        };
        let mut feed = open(cache(3, 0b10_00_11));
        for _ in 0..2 {
            let mut arena = Arena::new(100, 10);
            while feed.fill(&mut arena).unwrap() {}
            let sent: Vec<_> = arena.frames().map(|(frame, meta)| (frame[0], meta.out)).collect();
            assert_eq!(sent, [(b'a', 0), (b'c', 1), (b'a', 0), (b'c', 1)]);
            assert!(feed.rewind().unwrap());
        }
        assert_eq!((feed.tally().seen, feed.tally().excluded), (6, 2));
        let mut short = open(cache(2, 0b11_11));
        let error = short.fill(&mut Arena::new(100, 10)).unwrap_err();
        assert!(error.to_string().contains("2 packets"), "{error}");
    }

    #[test]
    fn other_link_types_are_rejected_before_the_first_frame() {
        let files = vec![file(1, &[]).path().to_owned(), file(101, &[(1, b"a")]).path().to_owned()];
        let gone = FilePlan { files, ..FilePlan::default() }.open(Stop::default()).err();
        assert!(matches!(gone, Some(SendError::Os(_))), "the files were removed: {gone:?}");
        let raw = file(101, &[(1, b"a")]);
        let plan = FilePlan { files: vec![raw.path().to_owned()], ..FilePlan::default() };
        let error = plan.open(Stop::default()).unwrap().begin(false).err().unwrap();
        assert!(error.to_string().contains("link type 101"), "{error}");
    }
}
