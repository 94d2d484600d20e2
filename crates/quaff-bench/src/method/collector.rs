//! The collector of a flow meter under test: keeps each datagram as it was received, and the kernel's count of those
//! that it dropped. Nothing is decoded while a meter runs: that would take CPU time from it.

use crate::Result;
use quaff_os::{Netns, Try, cpu, socket};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Receive buffer, bytes: a meter that ends exports its whole table at once.
const BUFFER_BYTES: usize = 512 << 20;
/// Limit of the datagrams that are kept, bytes; those beyond it are counted.
const KEPT_BYTES_MAX: usize = 2 << 30;
/// Time without a datagram after which all have come: loopback delivers them before the call that sends returns.
const SILENCE: Duration = Duration::from_millis(50);
/// The longest datagram of UDP.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// A collector that receives.
#[derive(Debug)]
pub(super) struct Collector {
    /// The address to export to.
    pub(super) address: SocketAddr,
    socket: UdpSocket,
    stop: Stop,
    thread: JoinHandle<io::Result<Collected>>,
}

/// Ends the thread when it is dropped: with the collector, after a failed run too. The owner of the collector sets the
/// flag, the thread reads it. Relaxed: the datagrams are returned by the join.
#[derive(Debug)]
struct Stop(Arc<AtomicBool>);

/// The datagrams of a collector.
#[derive(Debug, Default)]
pub(super) struct Collected {
    /// Each datagram after its length, a u32 in the order of this machine.
    bytes: Vec<u8>,
    /// Datagrams that were received.
    pub(super) datagrams: u64,
    /// Of these, those beyond the limit of memory, which were not kept; and those that the kernel dropped.
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
            // On any core it receives as well.
            let _ = cpu::pin(core);
            receive(&receiving, &stopped)
        };
        let thread = Builder::new().name("collector".into()).spawn(work).trying(tried)?;
        Ok(Self { address, socket, stop, thread })
    }

    /// Ends it once no datagram comes any more.
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

/// Receives until the collector is stopped and no datagram comes any more. An error is no result: the rest would count
/// as lost by the meter.
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
