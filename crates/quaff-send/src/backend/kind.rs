//! The transmit backends that there are, and what each one does and counts. It opens none.

use quaff_os::Result;
use quaff_os::packet::TxCounts;
use quaff_os::rtnl::Link;
use quaff_wire::add_each;
use quaff_wire::net;
use serde::Serialize;

/// A transmit backend of one interface.
pub(crate) trait Backend: Send {
    /// Accepts frames in order and returns their number; 0 if there is no room now.
    fn send(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> Result<usize>;

    /// Accepts one frame; returns 0 if there is no room now.
    fn send_one(&mut self, frame: &[u8]) -> Result<usize> {
        self.send(&mut std::iter::once(frame))
    }

    /// Waits until the accepted frames have been sent, or until no further frame is sent.
    fn flush(&mut self) -> Result<()>;

    /// Counts since the start.
    fn report(&self) -> BackendReport;
}

/// The choice of a transmit backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TxBackend {
    /// The fastest of those that keep the order, measured on the first frames of the run.
    Auto,
    /// Packet socket, many frames per system call, bypassing the queueing discipline.
    Sendmmsg,
    /// Like `Sendmmsg`, through the queueing discipline.
    SendmmsgQdisc,
    /// Transmit ring of a packet socket, bypassing the queueing discipline.
    TxRing,
    /// Like `TxRing`, through the queueing discipline.
    TxRingQdisc,
    /// AF_XDP: one socket per queue if the driver supports zero-copy, which keeps the order only between the same two
    /// addresses; otherwise one socket.
    AfXdp,
    /// One AF_XDP socket on the first queue, which keeps the order of all frames.
    AfXdpQueue0,
}

/// Counts of a transmit backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BackendReport {
    pub name: String,
    /// Why it was chosen.
    pub remark: Option<String>,
    /// Frames that were accepted and later refused or dropped.
    pub refused: u64,
    /// Frames that were accepted but not completed by the driver at the end.
    pub pending: u64,
    /// Bytes of the refused and pending frames.
    pub unsent_bytes: u64,
    /// Calls that found no room: ENOBUFS.
    pub retried_enobufs: u64,
    /// Calls that found no room: EAGAIN, and full rings.
    pub retried_eagain: u64,
}

/// Longest frame of an interface, bytes: an MTU includes neither the Ethernet header nor one VLAN tag.
pub(crate) fn frame_bytes_max(link: &Link) -> usize {
    link.mtu as usize + net::ETHERNET_BYTES + net::TAG_BYTES
}

impl BackendReport {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Sums the counts of the rings of one backend.
    pub(super) fn of(name: &str, rings: impl IntoIterator<Item = TxCounts>) -> Self {
        let mut report = Self::new(name);
        for counts in rings {
            report.refused += counts.refused;
            report.pending += counts.pending;
            report.unsent_bytes += counts.unsent_bytes;
            report.retried_eagain += counts.retried;
        }
        report
    }

    /// Adds the counts of another backend.
    pub(crate) fn add(&mut self, other: &Self) {
        add_each!(self, other; refused, pending, unsent_bytes, retried_enobufs, retried_eagain);
    }
}

impl TxBackend {
    /// The name in reports and on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Sendmmsg => "sendmmsg",
            Self::SendmmsgQdisc => "sendmmsg-qdisc",
            Self::TxRing => "tx-ring",
            Self::TxRingQdisc => "tx-ring-qdisc",
            Self::AfXdp => "af-xdp",
            Self::AfXdpQueue0 => "af-xdp-queue0",
        }
    }
}
