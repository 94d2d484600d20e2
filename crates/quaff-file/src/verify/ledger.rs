//! The ledger inside the files: the capturer's own counters, compared with the packets present.
//!
//! Counters of an Interface Statistics Block run from the start of the capture. quaff writes them at the start of each
//! file, each second, and at the end. The difference between the last and the first block is the number of packets that
//! a file should hold, and a gap between the counters of two files shows a missing file. Other programs write one block
//! at the end (dumpcap) or none (pcap); they cannot be checked.

use quaff_wire::decode::{Frame, Interface, Item, Statistics};
use quaff_wire::format::{clause, count};
use serde::Serialize;
use std::collections::HashMap;

/// Largest number of contradictions reported.
const CONTRADICTIONS_MAX: usize = 8;
/// Bytes of an interface name that are compared.
const NAME_BYTES_MAX: usize = 64;

/// The sums of the counters in all files, over all interfaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// The counters agree with each other and with the packets in the files.
    pub consistent: bool,
    /// Packets that the capturer recorded as lost: the sum of the next three.
    pub recorded_drops: u64,
    /// Dropped by the interface (`isb_ifdrop`).
    pub ifdrop: u64,
    /// Dropped by the operating system (`isb_osdrop`).
    pub osdrop: u64,
    /// Lost between operating system and file (`isb_filteraccept` - `isb_osdrop` - `isb_usrdeliv`).
    pub undelivered: u64,
    /// Sum of the drop counts of packets (`epb_dropcount`).
    pub epb_dropcount: u64,
    /// Frames missing by sequence numbers, less `recorded_drops`.
    pub unexplained: i64,
    /// Packets after the last counters: the capture was interrupted.
    pub frames_behind: u64,
    /// Each interface with packets has counters of drops, and they follow its last packet.
    pub covers_all: bool,
    /// The first few disagreements.
    pub contradictions: Vec<String>,
}

/// The drops that a section records for one of its interfaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordedDrops {
    /// Dropped by the interface.
    pub ifdrop: u64,
    /// Dropped by the operating system, or between it and the file.
    pub osdrop: u64,
    /// The sum of the drop counts of packets; normally part of the other two.
    pub dropcount: u64,
}

impl RecordedDrops {
    /// Returns the parts of `ifdrop` and `osdrop` that no drop count of a packet has.
    pub fn without_place(&self) -> (u64, u64) {
        let elsewhere = self.dropcount.saturating_sub(self.osdrop);
        (self.ifdrop.saturating_sub(elsewhere), self.osdrop.saturating_sub(self.dropcount))
    }
}

/// The identity of an interface: name, start of the run in ns since 1970, and its number among those of its section
/// that have the same two.
type Key<'a> = (&'a [u8], u64, usize);

/// Collects the ledger while files are read.
#[derive(Debug, Default)]
pub struct LedgerBuilder {
    /// The interfaces of the section that is being read.
    open: Vec<InterfaceCounters>,
    /// Those of the previous section.
    previous: Vec<InterfaceCounters>,
    sum: Ledger,
    any: bool,
    /// Some packets are not covered by counters of drops.
    is_uncovered: bool,
}

/// The counters of an interface in one section, and its packets.
#[derive(Debug, Clone, Default)]
pub(crate) struct InterfaceCounters {
    name: Vec<u8>,
    now: Passed,
    first: Option<CounterBlock>,
    last: Option<CounterBlock>,
}

/// The packets of an interface read so far.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    frames: u64,
    dropcount: u64,
}

/// A block of counters, and the packets read before it.
#[derive(Debug, Clone, Copy)]
struct CounterBlock {
    seen: Passed,
    statistics: Statistics,
}

impl LedgerBuilder {
    /// Begins a file or a section, which describes its interfaces anew.
    pub fn begin(&mut self) {
        self.begin_with(|_, _| {});
    }

    /// As [`LedgerBuilder::begin`]; passes the drops of each interface of the section that ends to `each`, by number.
    pub fn begin_with(&mut self, mut each: impl FnMut(usize, RecordedDrops)) {
        if self.open.is_empty() {
            return;
        }
        let places = Self::places(&self.previous);
        let mut counted = HashMap::new();
        for (number, interface) in self.open.iter().enumerate() {
            let key = interface.key(&mut counted);
            let before = key.and_then(|key| places.get(&key)).map(|place| &self.previous[*place]);
            self.any |= interface.last.is_some() || interface.now.dropcount > 0;
            self.is_uncovered |= !interface.is_covered();
            each(number, interface.close(before, &mut self.sum));
        }
        self.previous = std::mem::take(&mut self.open);
    }

    /// Returns the indices of interfaces by the identity that they have in each file of a run.
    fn places(interfaces: &[InterfaceCounters]) -> HashMap<Key<'_>, usize> {
        let mut counted = HashMap::new();
        let keys = interfaces.iter().map(|interface| interface.key(&mut counted));
        keys.enumerate().filter_map(|(place, key)| Some((key?, place))).collect()
    }

    /// Takes the next item of a file.
    #[inline]
    pub fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Frame(frame) => self.frame(frame),
            Item::Section(_) => self.begin(),
            Item::Interface(interface) => self.interface(interface),
            Item::Statistics(statistics) => self.statistics(*statistics),
            Item::Names(_) | Item::Jump(_) => {}
        }
    }

    /// Takes a whole section that was counted elsewhere.
    pub(crate) fn section(&mut self, interfaces: Vec<InterfaceCounters>) {
        self.begin();
        self.open = interfaces;
    }

    fn interface(&mut self, interface: &Interface<'_>) {
        if interface.id == 0 {
            self.begin();
        }
        self.open.push(InterfaceCounters::new(interface));
    }

    /// Takes a packet of the section that is being read.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>) {
        self.frames(frame.interface, 1);
        if frame.dropcount > 0 {
            self.drops(frame.interface, frame.dropcount);
        }
    }

    /// Takes packets of an interface of the section that is being read, before the next item that is no packet.
    #[inline]
    pub fn frames(&mut self, interface: u32, frames: u64) {
        match self.open.get_mut(interface as usize) {
            Some(interface) => interface.frames(frames),
            None => self.is_uncovered = true,
        }
    }

    /// Takes drops that a packet of an interface records. The packet itself is one of [`LedgerBuilder::frames`].
    pub fn drops(&mut self, interface: u32, dropcount: u64) {
        if let Some(interface) = self.open.get_mut(interface as usize) {
            interface.drops(dropcount);
        }
    }

    fn statistics(&mut self, statistics: Statistics) {
        if let Some(interface) = self.open.get_mut(statistics.interface as usize) {
            interface.statistics(statistics);
        }
    }

    /// Returns the ledger; `None` if the files hold no counters. `lost` is by sequence numbers.
    pub fn finish(mut self, lost: u64) -> Option<Ledger> {
        self.begin();
        let mut ledger = self.sum;
        ledger.recorded_drops =
            ledger.ifdrop.saturating_add(ledger.osdrop).saturating_add(ledger.undelivered);
        let unexplained = i128::from(lost) - i128::from(ledger.recorded_drops);
        ledger.unexplained = unexplained.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        ledger.consistent = ledger.contradictions.is_empty();
        ledger.covers_all = !self.is_uncovered;
        self.any.then_some(ledger)
    }
}

impl InterfaceCounters {
    pub(crate) fn new(interface: &Interface<'_>) -> Self {
        let name = interface.name.unwrap_or_default();
        Self { name: name[..name.len().min(NAME_BYTES_MAX)].to_vec(), ..Self::default() }
    }

    /// Takes packets.
    #[inline]
    pub(crate) fn frames(&mut self, frames: u64) {
        self.now.frames += frames;
    }

    /// Takes the drops that a packet records.
    #[inline]
    pub(crate) fn drops(&mut self, dropcount: u64) {
        self.now.dropcount = self.now.dropcount.saturating_add(dropcount);
    }

    /// Takes a block of counters.
    pub(crate) fn statistics(&mut self, statistics: Statistics) {
        let block = CounterBlock { seen: self.now, statistics };
        self.first.get_or_insert(block);
        self.last = Some(block);
    }

    /// Takes what was counted in the part of the section that follows.
    pub(crate) fn absorb(&mut self, later: &Self) {
        let before = self.now;
        let moved = |block: CounterBlock| CounterBlock { seen: before.plus(block.seen), ..block };
        self.first = self.first.or(later.first.map(moved));
        self.last = later.last.map(moved).or(self.last);
        self.now = before.plus(later.now);
    }

    /// Returns the sum of the drops that packets record.
    pub(crate) fn dropcount(&self) -> u64 {
        self.now.dropcount
    }

    /// Returns the last counters.
    pub(crate) fn last(&self) -> Option<Statistics> {
        self.last.map(|block| block.statistics)
    }

    /// Returns the identity of an interface in one run of a capture, if its counters have the start of the run.
    /// `counted` has the interfaces of its section before it: several may share a name, or have none.
    fn key<'a>(&'a self, counted: &mut HashMap<(&'a [u8], u64), usize>) -> Option<Key<'a>> {
        let began_ns = self.first.and_then(|block| block.statistics.starttime_ns)?;
        let same = counted.entry((&self.name, began_ns)).or_default();
        *same += 1;
        Some((&self.name, began_ns, *same))
    }

    /// Returns the counters at the start of the file, as quaff writes them.
    fn baseline(&self) -> Option<Statistics> {
        self.first
            .filter(|block| block.seen.frames == 0)
            .map(|block| block.statistics)
            .filter(|s| s.usrdeliv.is_some())
    }

    fn close(&self, before: Option<&Self>, sum: &mut Ledger) -> RecordedDrops {
        sum.epb_dropcount = sum.epb_dropcount.saturating_add(self.now.dropcount);
        let mut recorded = RecordedDrops { dropcount: self.now.dropcount, ..RecordedDrops::default() };
        let Some(last) = self.last else { return recorded };
        let baseline = self.baseline();
        let behind = before.map_or(0, Self::frames_behind);
        let before = before.and_then(|before| before.last).map(|block| block.statistics);
        // The first block of the second file records the drops between two files.
        let from = baseline.map_or(Statistics::default(), |baseline| before.unwrap_or(baseline));
        match (drops(&from), drops(&last.statistics)) {
            (Some(from), Some(to)) if (0..3).all(|i| to[i] >= from[i]) => {
                let [ifdrop, osdrop, undelivered] = std::array::from_fn(|i| to[i] - from[i]);
                sum.ifdrop = sum.ifdrop.saturating_add(ifdrop);
                sum.osdrop = sum.osdrop.saturating_add(osdrop);
                sum.undelivered = sum.undelivered.saturating_add(undelivered);
                recorded.ifdrop = ifdrop;
                recorded.osdrop = osdrop.saturating_add(undelivered);
            }
            _ => self.contradict(sum, "its counters run backwards".into()),
        }
        if let Some(baseline) = baseline {
            sum.frames_behind += self.frames_behind();
            // A file that ends before a failed write may lack its last counters.
            let before = before.map(|before| before.usrdeliv.unwrap_or(0) + behind);
            self.compare(&baseline, before, &last, sum);
        }
        recorded
    }

    /// Returns the number of frames after the last counters.
    fn frames_behind(&self) -> u64 {
        self.last.map_or(0, |last| self.now.frames - last.seen.frames)
    }

    /// Returns true if its last counters include drops, and follow its last packet.
    fn is_covered(&self) -> bool {
        let has_drops = |s: &Statistics| {
            s.ifdrop.is_some() || s.osdrop.is_some() || s.filteraccept.is_some() && s.usrdeliv.is_some()
        };
        let is_whole =
            |last: &CounterBlock| last.seen.frames == self.now.frames && has_drops(&last.statistics);
        self.now.frames == 0 || self.last.as_ref().is_some_and(is_whole)
    }

    /// Compares the packets in the file with its counters, and its counters with those at the end of the previous file.
    fn compare(&self, baseline: &Statistics, before: Option<u64>, last: &CounterBlock, sum: &mut Ledger) {
        let usrdeliv = |statistics: &Statistics| statistics.usrdeliv.unwrap_or(0);
        let (begun, ended) = (usrdeliv(baseline), usrdeliv(&last.statistics));
        if ended.checked_sub(begun) != Some(last.seen.frames) {
            let recorded = i128::from(ended) - i128::from(begun);
            let (what, holds) = (if recorded == 1 { "packet" } else { "packets" }, count(last.seen.frames));
            let what = format!("its counters record {recorded} {what}, the file holds {holds}");
            self.contradict(sum, what);
        }
        if let Some(before) = before.filter(|before| *before != begun) {
            let what = match begun.checked_sub(before) {
                Some(missing) => {
                    clause(missing, "packet", "were written between two of these files: is a file missing?")
                }
                None => "a file begins before the previous one has ended: are they in order?".into(),
            };
            self.contradict(sum, what);
        }
        let recorded =
            drops(&last.statistics).map_or(0, |[_, osdrop, undelivered]| osdrop.saturating_add(undelivered));
        if last.seen.dropcount > recorded {
            let what = format!("packets record {} drops, the counters only {recorded}", last.seen.dropcount);
            self.contradict(sum, what);
        }
    }

    fn contradict(&self, sum: &mut Ledger, what: String) {
        if sum.contradictions.len() < CONTRADICTIONS_MAX {
            sum.contradictions.push(format!("interface {}: {what}", String::from_utf8_lossy(&self.name)));
        }
    }
}

impl Passed {
    fn plus(self, later: Self) -> Self {
        let dropcount = self.dropcount.saturating_add(later.dropcount);
        Self { frames: self.frames + later.frames, dropcount }
    }
}

/// Returns the packets dropped by the interface, by the operating system, and between it and the file.
fn drops(statistics: &Statistics) -> Option<[u64; 3]> {
    let (ifdrop, osdrop) = (statistics.ifdrop.unwrap_or(0), statistics.osdrop.unwrap_or(0));
    let undelivered = match (statistics.filteraccept, statistics.usrdeliv) {
        (Some(accepted), Some(delivered)) => accepted.checked_sub(osdrop)?.checked_sub(delivered)?,
        _ => 0,
    };
    Some([ifdrop, osdrop, undelivered])
}
