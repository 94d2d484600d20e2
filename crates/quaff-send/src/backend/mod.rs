//! The transmit backends in user space: sendmmsg(2) and TX_RING, each with or without the queueing discipline, and
//! AF_XDP. The fastest one depends on the driver; `auto` measures. A backend never waits or paces.

mod auto;
mod kind;

pub(crate) use kind::{Backend, frame_bytes_max};
pub use kind::{BackendReport, TxBackend};

use auto::AutoBackend;
use quaff_os::packet::{Qdisc, TxRing, TxSocket};
use quaff_os::rtnl::Link;
use quaff_os::xdp::{FRAME_BYTES_MAX, XdpMode, XdpTx};
use quaff_os::{Errno, Error, Result};
use quaff_wire::net;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// Maximum number of queues to open.
const QUEUES_MAX: u32 = 64;

impl TxBackend {
    /// Opens the backend on an interface, without sending.
    pub(crate) fn open(self, link: &Link) -> Result<Box<dyn Backend>> {
        Ok(match self {
            Self::Auto => Box::new(AutoBackend::open(link, Self::open)?),
            Self::Sendmmsg => Box::new(SocketBackend::open(link, Qdisc::Bypass, self.name())?),
            Self::SendmmsgQdisc => Box::new(SocketBackend::open(link, Qdisc::Through, self.name())?),
            Self::TxRing => Box::new(RingBackend::open(link, Qdisc::Bypass, self.name())?),
            Self::TxRingQdisc => Box::new(RingBackend::open(link, Qdisc::Through, self.name())?),
            Self::AfXdp => Box::new(XdpBackend::open(link, true)?),
            Self::AfXdpQueue0 => Box::new(XdpBackend::open(link, false)?),
        })
    }
}

/// sendmmsg(2) on a packet socket.
struct SocketBackend {
    socket: TxSocket,
    report: BackendReport,
}

impl SocketBackend {
    fn open(link: &Link, qdisc: Qdisc, name: &str) -> Result<Self> {
        let socket = TxSocket::open(link.index, &link.name, qdisc)?;
        Ok(Self { socket, report: BackendReport::new(name) })
    }

    /// Turns errors that mean a full queue into 0 frames.
    fn taken(&mut self, sent: Result<usize>) -> Result<usize> {
        let refused = match sent {
            Ok(taken) => return Ok(taken),
            Err(error) => error,
        };
        match Errno::from_raw(refused.raw()) {
            Errno::ENOBUFS => self.report.retried_enobufs += 1,
            Errno::EAGAIN => self.report.retried_eagain += 1,
            Errno::EINTR => {}
            _ => return Err(refused),
        }
        Ok(0)
    }
}

impl Backend for SocketBackend {
    fn send(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> Result<usize> {
        let sent = self.socket.send(frames);
        self.taken(sent)
    }

    fn send_one(&mut self, frame: &[u8]) -> Result<usize> {
        let sent = self.socket.send_one(frame).map(|()| 1);
        self.taken(sent)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn report(&self) -> BackendReport {
        self.report.clone()
    }
}

/// TX_RING of a packet socket.
struct RingBackend {
    ring: TxRing,
    name: &'static str,
}

impl RingBackend {
    fn open(link: &Link, qdisc: Qdisc, name: &'static str) -> Result<Self> {
        Ok(Self { ring: TxRing::open(link.index, &link.name, frame_bytes_max(link), qdisc)?, name })
    }
}

impl Backend for RingBackend {
    fn send(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> Result<usize> {
        self.ring.send(frames)
    }

    fn flush(&mut self) -> Result<()> {
        self.ring.flush()
    }

    fn report(&self) -> BackendReport {
        BackendReport::of(self.name, [self.ring.counts()])
    }
}

/// AF_XDP, one socket for each queue in use.
struct XdpBackend {
    queues: Vec<XdpTx>,
    /// For each queue: true if frames were pushed since its last kick.
    pushed: Vec<bool>,
    mtu: u32,
    name: String,
    hash: RandomState,
    /// An error after frames were accepted, which the next call returns.
    failed: Option<Error>,
}

impl XdpBackend {
    fn open(link: &Link, all_queues: bool) -> Result<Self> {
        let frame_bytes = frame_bytes_max(link).min(FRAME_BYTES_MAX);
        let open = |queue| XdpTx::open(link.index, &link.name, queue, frame_bytes, None);
        let mut sockets = vec![open(0)?];
        let mode = sockets[0].mode;
        if all_queues && mode == XdpMode::ZeroCopy {
            // The first queue that cannot be opened ends the list.
            sockets.extend((1..QUEUES_MAX).map_while(|queue| open(queue).ok()));
        }
        let how = match mode {
            XdpMode::ZeroCopy => format!("zero-copy, queues: {}", sockets.len()),
            XdpMode::Copy => "the kernel copies".to_owned(),
        };
        Ok(Self {
            pushed: vec![false; sockets.len()],
            queues: sockets,
            mtu: link.mtu,
            name: format!("af-xdp ({how})"),
            hash: RandomState::new(),
            failed: None,
        })
    }

    /// The queue of a frame: the same for all frames between the same two addresses.
    fn queue_of(&self, frame: &[u8]) -> usize {
        if self.queues.len() == 1 {
            return 0;
        }
        let Some(ip) = net::layers(frame).and_then(|layers| layers.ip) else { return 0 };
        let bits = |address| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let [one, other] = ip.addresses.map(bits);
        self.hash.hash_one(one ^ other) as usize % self.queues.len()
    }

    /// Pushes a frame to its queue. Returns `false` when there is no room. Refuses frames that the interface cannot
    /// carry, which AF_XDP would drop silently.
    fn push(&mut self, frame: &[u8]) -> Result<bool> {
        let refuse = |errno: Errno| {
            Error::new(
                format!("send a frame of {} bytes by AF_XDP", frame.len()),
                std::io::Error::from(errno),
            )
        };
        if frame.len() < net::ETHERNET_BYTES {
            return Err(refuse(Errno::EINVAL));
        }
        if frame.len() > net::frame_bytes_max(frame, self.mtu as usize) {
            return Err(refuse(Errno::EMSGSIZE));
        }
        let queue = self.queue_of(frame);
        let socket = &mut self.queues[queue];
        if !socket.has_room()? {
            return Ok(false);
        }
        socket.push(frame)?;
        self.pushed[queue] = true;
        Ok(true)
    }
}

impl Backend for XdpBackend {
    fn send(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> Result<usize> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut taken = 0;
        let mut refused = None;
        for frame in frames {
            match self.push(frame) {
                Ok(true) => taken += 1,
                Ok(false) => break,
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        let mut kicked = Ok(());
        for (socket, pushed) in self.queues.iter_mut().zip(&mut self.pushed) {
            if std::mem::take(pushed) || taken == 0 {
                kicked = kicked.and(socket.kick());
            }
        }
        match kicked {
            // The frames are accepted; the next call returns the error.
            Err(error) if taken > 0 => self.failed = Some(error),
            kicked => kicked?,
        }
        match refused {
            Some(error) if taken == 0 => Err(error),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.queues.iter_mut().try_for_each(XdpTx::flush)
    }

    fn report(&self) -> BackendReport {
        BackendReport::of(&self.name, self.queues.iter().map(XdpTx::counts))
    }
}
