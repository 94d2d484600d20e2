//! One packet for a meter, and the clock by which flows end.

/// A packet of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Packet<'a> {
    /// The captured bytes, from the link header.
    pub bytes: &'a [u8],
    /// ns since 1970.
    pub time_ns: u64,
    /// The time of the whole input, if its packets are distributed to several lanes: see [`Clock`]. `None` with a
    /// single lane, whose meter has a clock of its own.
    pub now: Option<Instant>,
    pub wire_bytes: u32,
    /// LINKTYPE of the bytes.
    pub linktype: u16,
    /// Number of the interface in the input.
    pub interface: u16,
    /// TPID and TCI of a VLAN tag that the kernel removed.
    pub tag: Option<(u16, u16)>,
    /// VNI, TEID, key or session of the removed tunnel; 0: none.
    pub tunnel: u32,
}

/// A moment of the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    /// Number of times that the input's time went back.
    pub era: u32,
    /// The latest packet time of the era, ns since 1970.
    pub ns: u64,
}

/// The time of an input: that of the latest packet so far. A packet that is earlier by more than the idle timeout, as
/// between files that are read out of order, begins an era: all flows end, and timeouts start again.
///
/// Timeouts depend only on this and on the packets of the flow. So the records are the same for any number of lanes, if
/// one clock stamps the packets before they are distributed, and if every lane is nudged to the last moment of an era
/// before it ends. Limits (flows, held fragments) and the sampling apply to each lane by itself; to sample the whole
/// input, select packets before they are distributed.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    now: Instant,
    back_ns: u64,
}

impl Clock {
    /// A clock at time 0; `idle_ns` is the meters' idle timeout.
    pub fn new(idle_ns: u64) -> Self {
        Self { now: Instant::default(), back_ns: idle_ns }
    }

    /// Advances to the time of the next packet of the input, and returns the moment for its [`Packet::now`].
    #[inline]
    pub fn see(&mut self, time_ns: u64) -> Instant {
        // Due times saturate at `u64::MAX`, which the clock never reaches.
        let time_ns = time_ns.min(u64::MAX - 1);
        if time_ns > self.now.ns {
            self.now.ns = time_ns;
        } else if time_ns.saturating_add(self.back_ns) < self.now.ns {
            self.now = Instant { era: self.now.era + 1, ns: time_ns };
        }
        self.now
    }

    /// Advances over packets between `first_ns` and `last_ns`, whose times go back by no more than the idle timeout,
    /// and returns the moment before them; `None`, without a change, if one of them begins an era. Without packets
    /// `first_ns` is the greater one.
    pub(crate) fn pass(&mut self, first_ns: u64, last_ns: u64) -> Option<Instant> {
        let before = self.now;
        (first_ns.saturating_add(self.back_ns) >= before.ns).then(|| {
            if first_ns <= last_ns {
                self.see(last_ns);
            }
            before
        })
    }

    /// The latest moment.
    pub fn now(&self) -> Instant {
        self.now
    }
}
