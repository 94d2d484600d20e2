//! Counters that travel with the chunks of a capture, and what the writer counted.
//!
//! [`Counts`] is what a lane had counted when it sealed a chunk; [`statistics`] turns it into Interface
//! Statistics Blocks. [`WriterTally`] is what became of the chunks.

use quaff_wire::pcapng::encode::Statistics;
use serde::Serialize;

/// The counters of one lane at one moment; they go into the file as an Interface Statistics Block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// When, ns since 1970.
    pub time_ns: u64,
    /// Packets that the interface received since the capture began.
    pub nic_received: u64,
    /// Packets that the interface had no room for.
    pub nic_dropped: u64,
    /// Packets for which the kernel's ring had no room.
    pub kernel_dropped: u64,
    /// Packets packed into chunks, those of sessions among them.
    pub packed: u64,
    /// Packets for which the buffer had no room.
    pub lost: u64,
    /// ns that the interface was down.
    pub down_ns: u64,
    /// The sessions of tunnels that the lane has seen, in the order of their interfaces.
    pub sessions: Vec<SessionCounts>,
}

/// The counters of one session of a tunnel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Its interface, by its number in [`crate::interfaces`].
    pub interface: u16,
    /// Packets packed into chunks.
    pub packed: u64,
    /// Packets that its sequence numbers say were lost before they reached us.
    pub missing: u64,
    /// Packets that were dropped just before packets of it; they are counted among the lane's too.
    pub dropped: u64,
}

impl Counts {
    /// The counters of the session with this interface, from nothing on.
    pub fn session(&mut self, interface: u16) -> &mut SessionCounts {
        let found = self.sessions.binary_search_by_key(&interface, |session| session.interface);
        let at = found.unwrap_or_else(|at| {
            self.sessions.insert(at, SessionCounts { interface, ..SessionCounts::default() });
            at
        });
        &mut self.sessions[at]
    }

    /// Packets packed that belong to no session.
    pub fn packed_plain(&self) -> u64 {
        let in_sessions: u64 = self.sessions.iter().map(|session| session.packed).sum();
        self.packed.saturating_sub(in_sessions)
    }
}

/// What the writer has to say at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriterTally {
    /// Packets that are in the output.
    pub written: u64,
    /// Packets that were handed to the writer and could not be written.
    pub lost: u64,
    /// Packets that came after the reader of the output had gone. Nobody wanted them.
    pub after_close: u64,
    /// Packets that cannot be sent from an interface: larger than its MTU allows, say.
    pub unsendable: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Files finished.
    pub files: u64,
    /// Files removed by retention.
    pub pruned: u64,
    /// The longest that one write took, ns.
    pub write_high_ns: u64,
    /// What became of the copy for who looks on, if there was one.
    pub copy: Option<CopyTally>,
    /// The user's commands that were run on finished files.
    pub after: Runs,
}

/// How the commands went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Runs {
    /// How many were run.
    pub count: u64,
    /// How many of them failed, or could not be run at all.
    pub failed: u64,
}

/// What became of a copy of the output (`--tee`). It may lack packets: that is no loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CopyTally {
    /// Packets that its reader has taken.
    pub written: u64,
    /// Packets that it lacks, since its reader was too slow.
    pub lost: u64,
    /// Packets that came after its reader had gone.
    pub after_close: u64,
    /// Bytes that its reader has taken.
    pub bytes: u64,
}

/// A lane's counts as Interface Statistics Blocks say them: its own interface's, then its sessions'.
/// What `filter_accepted` has more than `os_dropped` and `delivered` together was lost in our own
/// buffer. What a session lost before it reached us is `interface_dropped` of the session.
pub fn statistics(
    interface: u32,
    start_ns: u64,
    counts: &Counts,
) -> impl Iterator<Item = Statistics> + use<'_> {
    let packed = counts.packed_plain();
    // What is told at packets of sessions is not told of the lane's own interface again.
    let elsewhere: u64 = counts.sessions.iter().map(|session| session.dropped).sum();
    let os_dropped = counts.kernel_dropped.saturating_sub(elsewhere);
    let lost = counts.lost.saturating_sub(elsewhere.saturating_sub(counts.kernel_dropped));
    let own = Statistics {
        interface,
        time_ns: counts.time_ns,
        start_ns,
        received: counts.nic_received,
        interface_dropped: counts.nic_dropped,
        filter_accepted: os_dropped + lost + packed,
        os_dropped,
        delivered: packed,
        comment: (counts.down_ns > 0)
            .then(|| format!("the interface was down for {:.3} s", counts.down_ns as f64 / 1e9)),
    };
    let sessions = counts.sessions.iter().map(move |session| Statistics {
        interface: u32::from(session.interface),
        time_ns: counts.time_ns,
        start_ns,
        received: session.packed,
        interface_dropped: session.missing,
        filter_accepted: session.packed + session.dropped,
        os_dropped: session.dropped,
        delivered: session.packed,
        comment: (session.missing > 0)
            .then(|| format!("{} packets were lost before they reached us", session.missing)),
    });
    std::iter::once(own).chain(sessions)
}
