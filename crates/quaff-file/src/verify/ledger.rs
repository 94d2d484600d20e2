//! The ledger found inside the files: what the capturer counted, set against what is there.
//!
//! Counters of an Interface Statistics Block run since the capture began. quaff writes them at the
//! head of each file, each second, and at its end, so what a file should hold is the difference of
//! its last and its first block, and a file of a rotation that is missing shows at the seam.
//! Others write one block at the end (dumpcap) or none (pcap): then nothing can be contradicted.

use quaff_wire::decode::{Frame, Interface, Statistics};
use serde::Serialize;

/// Enough to see what is wrong.
const CONTRADICTIONS_MAX: usize = 8;
/// Enough to know an interface again.
const NAME_BYTES_MAX: usize = 64;

/// What the ledger in the files says, all interfaces and files together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// Whether the ledger agrees with itself and with the packets in the files.
    pub consistent: bool,
    /// Packets that the capturer says were lost: the three that follow.
    pub recorded_drops: u64,
    /// Lost for want of room in the interface (`isb_ifdrop`).
    pub ifdrop: u64,
    /// Lost for want of room in the operating system (`isb_osdrop`).
    pub osdrop: u64,
    /// Lost between operating system and file (`isb_filteraccept` - `isb_osdrop` - `isb_usrdeliv`).
    pub undelivered: u64,
    /// Sum of the drop counts that stand at packets (`epb_dropcount`).
    pub epb_dropcount: u64,
    /// Frames that are lost by their sequence numbers, less those recorded as dropped.
    pub unexplained: i64,
    /// Packets behind the last counters: the capture was cut off, and nothing speaks for its end.
    pub frames_behind: u64,
    /// What does not agree, the first few.
    pub contradictions: Vec<String>,
}

/// Keeps the books while files are read.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// The interfaces of the section that is being read.
    open: Vec<Account>,
    /// Those of the section before.
    previous: Vec<Account>,
    sum: Ledger,
    any: bool,
}

#[derive(Debug, Default)]
struct Account {
    name: Vec<u8>,
    now: Seen,
    first: Option<Told>,
    last: Option<Told>,
}

/// What has gone by of an interface.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    frames: u64,
    dropcount: u64,
}

/// A block of counters, and what had gone by before it.
#[derive(Debug, Clone, Copy)]
struct Told {
    seen: Seen,
    statistics: Statistics,
}

impl Books {
    /// A file or a section begins: no interface is known any more.
    pub(super) fn begin(&mut self) {
        if self.open.is_empty() {
            return;
        }
        for account in &self.open {
            let before = self.previous.iter().find(|previous| account.continues(previous));
            self.any |= account.last.is_some() || account.now.dropcount > 0;
            account.close(before, &mut self.sum);
        }
        self.previous = std::mem::take(&mut self.open);
    }

    pub(super) fn interface(&mut self, interface: &Interface<'_>) {
        let name = interface.name.unwrap_or_default();
        let name = name[..name.len().min(NAME_BYTES_MAX)].to_vec();
        self.open.push(Account { name, ..Account::default() });
    }

    #[inline]
    pub(super) fn frame(&mut self, frame: &Frame<'_>) {
        if let Some(account) = self.open.get_mut(frame.interface as usize) {
            account.now.frames += 1;
            account.now.dropcount = account.now.dropcount.saturating_add(frame.dropcount);
        }
    }

    pub(super) fn statistics(&mut self, statistics: Statistics) {
        if let Some(account) = self.open.get_mut(statistics.interface as usize) {
            let told = Told { seen: account.now, statistics };
            account.first.get_or_insert(told);
            account.last = Some(told);
        }
    }

    /// The ledger, or `None` when the files hold none. `lost` is by sequence numbers.
    pub(super) fn finish(mut self, lost: u64) -> Option<Ledger> {
        self.begin();
        let mut ledger = self.sum;
        ledger.recorded_drops =
            ledger.ifdrop.saturating_add(ledger.osdrop).saturating_add(ledger.undelivered);
        let unexplained = i128::from(lost) - i128::from(ledger.recorded_drops);
        ledger.unexplained = unexplained.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        ledger.consistent = ledger.contradictions.is_empty();
        self.any.then_some(ledger)
    }
}

impl Account {
    /// The same interface in the same run of a capture.
    fn continues(&self, previous: &Self) -> bool {
        let began = |account: &Self| account.first.and_then(|told| told.statistics.starttime_ns);
        self.name == previous.name && began(self).is_some() && began(self) == began(previous)
    }

    /// What the counters were when the file began: those at its head, as quaff writes them.
    fn baseline(&self) -> Option<Statistics> {
        self.first
            .filter(|told| told.seen.frames == 0)
            .map(|told| told.statistics)
            .filter(|s| s.usrdeliv.is_some())
    }

    fn close(&self, before: Option<&Self>, sum: &mut Ledger) {
        sum.epb_dropcount = sum.epb_dropcount.saturating_add(self.now.dropcount);
        let Some(last) = self.last else { return };
        let baseline = self.baseline();
        let before = before.and_then(|before| before.last).map(|told| told.statistics);
        // What was dropped between two files is told by the first block of the second.
        let from = baseline.map_or(Statistics::default(), |baseline| before.unwrap_or(baseline));
        match (drops(&from), drops(&last.statistics)) {
            (Some(from), Some(to)) if (0..3).all(|i| to[i] >= from[i]) => {
                sum.ifdrop = sum.ifdrop.saturating_add(to[0] - from[0]);
                sum.osdrop = sum.osdrop.saturating_add(to[1] - from[1]);
                sum.undelivered = sum.undelivered.saturating_add(to[2] - from[2]);
            }
            _ => self.contradict(sum, "its counters run backwards".into()),
        }
        if let Some(baseline) = baseline {
            sum.frames_behind += self.now.frames - last.seen.frames;
            self.compare(&baseline, before.as_ref(), &last, sum);
        }
    }

    /// The packets in the file against its counters, and its counters against the file before.
    fn compare(&self, baseline: &Statistics, before: Option<&Statistics>, last: &Told, sum: &mut Ledger) {
        let usrdeliv = |statistics: &Statistics| statistics.usrdeliv.unwrap_or(0);
        let (begun, ended) = (usrdeliv(baseline), usrdeliv(&last.statistics));
        if ended.checked_sub(begun) != Some(last.seen.frames) {
            let told = i128::from(ended) - i128::from(begun);
            let what = format!("its counters speak of {told} packets, the file holds {}", last.seen.frames);
            self.contradict(sum, what);
        }
        if let Some(before) = before.map(usrdeliv).filter(|before| *before != begun) {
            let what = match begun.checked_sub(before) {
                Some(missing) => {
                    format!("{missing} packets were written between two of these files: is a file missing?")
                }
                None => "a file begins before the one given ahead of it has ended: are they in order?".into(),
            };
            self.contradict(sum, what);
        }
        let recorded =
            drops(&last.statistics).map_or(0, |[_, osdrop, undelivered]| osdrop.saturating_add(undelivered));
        if last.seen.dropcount > recorded {
            let what =
                format!("packets carry {} drops, the counters know only {recorded}", last.seen.dropcount);
            self.contradict(sum, what);
        }
    }

    fn contradict(&self, sum: &mut Ledger, what: String) {
        if sum.contradictions.len() < CONTRADICTIONS_MAX {
            sum.contradictions.push(format!("interface {}: {what}", self.name.escape_ascii()));
        }
    }
}

/// Packets dropped by the interface, by the operating system, and behind it.
fn drops(statistics: &Statistics) -> Option<[u64; 3]> {
    let (ifdrop, osdrop) = (statistics.ifdrop.unwrap_or(0), statistics.osdrop.unwrap_or(0));
    let undelivered = match (statistics.filteraccept, statistics.usrdeliv) {
        (Some(accepted), Some(delivered)) => accepted.checked_sub(osdrop)?.checked_sub(delivered)?,
        _ => 0,
    };
    Some([ifdrop, osdrop, undelivered])
}
