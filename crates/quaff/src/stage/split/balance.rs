//! Counts the frames of each member of a bundle: totals, peaks and conversations. Conversations are exact up to a
//! limit; beyond it the smaller half is dropped, so that the largest ones stay.

use super::recent::Table;
use quaff_wire::flow::FlowKey;

/// The windows of the peaks, ns.
pub(crate) const PEAK_WINDOWS_NS: [u64; 4] = [1_000_000_000, 100_000_000, 10_000_000, 1_000_000];
/// Maximum number of conversations in memory.
const CONVERSATIONS_MAX: usize = 1 << 18;

/// The counts of a bundle.
#[derive(Debug)]
pub(crate) struct Balance {
    pub members: Vec<Share>,
    /// The sum of all members.
    pub all: Share,
    /// Time of the first frame and of the last one, ns since 1970.
    pub span_ns: Option<(u64, u64)>,
    /// Fragments that waited for the first one of their datagram and follow frames of later times at their member.
    pub delayed: u64,
    conversations: Table<Conversation>,
    most: usize,
    dropped: u64,
    dropped_bytes_max: u64,
}

/// The counts of one member, or of all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Share {
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// The peak for each of [`PEAK_WINDOWS_NS`].
    pub peaks: [Peak; PEAK_WINDOWS_NS.len()],
}

/// The maximum in one window of time. Windows begin at multiples of their length since 1970.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peak {
    /// Frames in the window with the most frames.
    pub packets: u64,
    /// Bytes in the window with the most bytes.
    pub bytes: u64,
    /// The number of the current window, and its counts.
    window: u64,
    now: (u64, u64),
}

/// The counts of one conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conversation {
    pub key: FlowKey,
    /// The member that got its last frame.
    pub member: usize,
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

impl Balance {
    pub(super) fn new(members: usize) -> Self {
        Self {
            members: vec![Share::default(); members],
            all: Share::default(),
            span_ns: None,
            delayed: 0,
            conversations: Table::with_capacity_and_hasher(CONVERSATIONS_MAX, Default::default()),
            most: CONVERSATIONS_MAX,
            dropped: 0,
            dropped_bytes_max: 0,
        }
    }

    /// Counts a frame of a conversation.
    #[inline]
    pub(super) fn count(&mut self, member: usize, hash: u64, key: &FlowKey, time_ns: u64, bytes: u32) {
        let bytes = u64::from(bytes);
        self.members[member].count(time_ns, bytes);
        self.all.count(time_ns, bytes);
        self.span_ns = Some(match self.span_ns {
            Some((first, last)) => (first.min(time_ns), last.max(time_ns)),
            None => (time_ns, time_ns),
        });
        if self.conversations.len() >= self.most && !self.conversations.contains_key(&hash) {
            self.drop_smaller_half();
        }
        let none = Conversation { key: *key, member, packets: 0, bytes: 0 };
        let conversation = self.conversations.entry(hash).or_insert(none);
        conversation.member = member;
        conversation.packets += 1;
        conversation.bytes += bytes;
    }

    /// Drops the smaller half of the conversations.
    #[cold]
    fn drop_smaller_half(&mut self) {
        let mut sizes: Vec<_> = self.conversations.values().map(|conversation| conversation.bytes).collect();
        let middle = sizes.len() / 2;
        let (_, median, _) = sizes.select_nth_unstable(middle);
        let median = *median;
        let before = self.conversations.len();
        self.conversations.retain(|_, conversation| conversation.bytes > median);
        self.dropped += (before - self.conversations.len()) as u64;
        self.dropped_bytes_max = self.dropped_bytes_max.max(median);
    }

    /// The number of conversations, and whether it is exact: a dropped one that continues counts twice.
    pub(crate) fn conversations(&self) -> (u64, bool) {
        (self.conversations.len() as u64 + self.dropped, self.dropped == 0)
    }

    /// The conversations of a member that are in memory.
    pub(crate) fn conversations_of(&self, member: usize) -> u64 {
        self.conversations.values().filter(|conversation| conversation.member == member).count() as u64
    }

    /// The conversation with the most bytes, of a member or of all, and the number of bytes by which its count may be
    /// too small because conversations were dropped.
    pub(crate) fn largest(&self, of: Option<usize>) -> Option<(Conversation, u64)> {
        let wanted = |conversation: &&Conversation| of.is_none_or(|member| conversation.member == member);
        let size = |conversation: &&Conversation| {
            (conversation.bytes, conversation.packets, conversation.key.hash(0))
        };
        let largest = self.conversations.values().filter(wanted).max_by_key(size)?;
        Some((*largest, self.dropped_bytes_max))
    }
}

impl Share {
    #[inline]
    fn count(&mut self, time_ns: u64, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
        for (peak, window_ns) in self.peaks.iter_mut().zip(PEAK_WINDOWS_NS) {
            peak.count(time_ns / window_ns, bytes);
        }
    }
}

impl Peak {
    #[inline]
    fn count(&mut self, window: u64, bytes: u64) {
        // A slightly late frame belongs to the current window; a distant time is another file.
        if window > self.window || window + 1 < self.window {
            self.window = window;
            self.now = (0, 0);
        }
        self.now = (self.now.0 + 1, self.now.1 + bytes);
        self.packets = self.packets.max(self.now.0);
        self.bytes = self.bytes.max(self.now.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_those_of_the_busiest_window() {
        let mut share = Share::default();
        for (time_ns, bytes) in [(0, 100), (900_000_000, 100), (1_000_000_000, 150), (1_001_000_000, 30)] {
            share.count(time_ns, bytes);
        }
        let peaks = share.peaks.map(|peak| (peak.packets, peak.bytes));
        assert_eq!(peaks, [(2, 200), (2, 180), (2, 180), (1, 150)]);
        assert_eq!((share.packets, share.bytes), (4, 380));
    }

    #[test]
    fn the_largest_conversation_stays_however_many_there_are() {
        let mut balance = Balance::new(2);
        balance.most = 100;
        for round in 0..50u64 {
            balance.count(1, 7, &FlowKey::Macs([[1; 6], [2; 6]]), round, 1000);
            (0..90).for_each(|more| balance.count(0, 1000 + round * 90 + more, &FlowKey::Nothing, round, 60));
        }
        let (largest, unsure_bytes) = balance.largest(None).unwrap();
        assert_eq!((largest.bytes, largest.packets, largest.member), (50_000, 50, 1));
        assert_eq!((unsure_bytes, balance.conversations()), (60, (4501, false)));
        assert_eq!((balance.all.packets, balance.members[1].packets), (50 * 91, 50));
        assert!(balance.conversations.len() <= 100);
    }
}
