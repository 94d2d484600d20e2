//! The collector of a flow meter under test: stores each datagram as received, and the kernel's count of drops. Nothing
//! is decoded while a meter runs: that would take CPU time from it.

use crate::Result;
use quaff_os::{Netns, Try, cpu, socket};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Receive buffer, bytes: a meter that stops exports its whole table at once.
const BUFFER_BYTES: usize = 512 << 20;
/// Limit of stored datagrams, bytes; datagrams above it are only counted.
const KEPT_BYTES_MAX: usize = 2 << 30;
/// Silence after which all datagrams have arrived: loopback delivers them before the send call returns.
const SILENCE: Duration = Duration::from_millis(50);
/// Largest UDP datagram, bytes.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// A running collector.
#[derive(Debug)]
pub(super) struct Collector {
    /// The address to export to.
    pub(super) address: SocketAddr,
    socket: UdpSocket,
    stop: Stop,
    thread: JoinHandle<io::Result<Collected>>,
}

/// Stops the thread on drop, also after a failed run. The collector's owner sets the flag, the thread reads it.
/// Relaxed: the join returns the datagrams.
#[derive(Debug)]
struct Stop(Arc<AtomicBool>);

/// The datagrams of a collector.
#[derive(Debug, Default)]
pub(super) struct Collected {
    /// Each datagram, preceded by its length as a u32 in native byte order.
    bytes: Vec<u8>,
    /// Number of received datagrams.
    pub(super) datagrams: u64,
    /// Received datagrams that exceeded the memory limit, plus those that the kernel dropped.
    pub(super) missed: u64,
}

impl Collector {
    /// Binds a port on loopback of a namespace, and receives on `core`.
    pub(super) fn start(netns: &Netns, core: usize) -> Result<Self> {
        let tried = || "open the collector of a flow meter";
        let socket = netns.run(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)))?.trying(tried)?;
        socket::set_receive_buffer(&socket, BUFFER_BYTES).trying(tried)?;
        socket.set_read_timeout(Some(SILENCE)).trying(tried)?;
        let address = socket.local_addr().trying(tried)?;
        let (receiving, stopped) = (socket.try_clone().trying(tried)?, Arc::<AtomicBool>::default());
        let stop = Stop(stopped.clone());
        let work = move || {
            // An unpinned collector works, too.
            let _ = cpu::pin(core);
            receive(&receiving, &stopped)
        };
        let thread = quaff_os::spawn("collector", work)?;
        Ok(Self { address, socket, stop, thread })
    }

    /// Stops once no more datagrams arrive.
    pub(super) fn stop(self) -> Result<Collected> {
        drop(self.stop);
        let panicked = |_| io::Error::other("a defect of quaff: its thread panicked");
        let received = self.thread.join().map_err(panicked).flatten();
        let mut collected = received.trying(|| "receive the records of a flow meter")?;
        let dropped = socket::dropped_datagrams(&self.socket).trying(|| "read the drops of the collector")?;
        collected.missed += dropped;
        Ok(collected)
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Receives until the collector is stopped and no more datagrams arrive. A partial result after an error would count
/// the rest as lost by the meter, so the error is returned.
fn receive(socket: &UdpSocket, stopped: &AtomicBool) -> io::Result<Collected> {
    let (mut collected, mut datagram) = (Collected::default(), vec![0; DATAGRAM_BYTES_MAX]);
    loop {
        match socket.recv(&mut datagram) {
            Ok(bytes) => collected.keep(&datagram[..bytes]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if stopped.load(Ordering::Relaxed) {
                    return Ok(collected);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl Collected {
    pub(super) fn keep(&mut self, datagram: &[u8]) {
        self.datagrams += 1;
        if self.bytes.len() + datagram.len() > KEPT_BYTES_MAX {
            self.missed += 1;
            return;
        }
        self.bytes.extend((datagram.len() as u32).to_ne_bytes());
        self.bytes.extend_from_slice(datagram);
    }

    /// The kept datagrams, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first_chunk::<4>()?;
            let (datagram, next) = after.split_at_checked(u32::from_ne_bytes(*length) as usize)?;
            rest = next;
            Some(datagram)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_kept_as_they_came() {
        let mut collected = Collected::default();
        for datagram in [&b"one"[..], b"", b"three"] {
            collected.keep(datagram);
        }
        assert_eq!(collected.iter().collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
        assert_eq!((collected.datagrams, collected.missed), (3, 0));
    }
}
