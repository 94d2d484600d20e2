//! Options and counters of sockets that the standard library lacks: bytes that the peer has not acknowledged, the MTU
//! of the path, peers that are gone, datagrams that are sent together, the receive buffer and its drops. Never reads.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Bytes that a TCP socket was given and the peer has not acknowledged (SIOCOUTQ).
pub fn unacknowledged_bytes(socket: impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int, which is local.
    match unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &mut bytes) } {
        0 => Ok(usize::try_from(bytes).unwrap_or(0)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends a TCP connection whose peer acknowledges nothing for `wait`, whether data are on their way or not (TCP's own
/// limit is a quarter of an hour with data, and none without).
pub fn end_when_peer_is_gone(socket: impl AsFd, wait: Duration) -> io::Result<()> {
    let seconds = wait.as_secs().clamp(3, 3600) as libc::c_int;
    set(&socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, seconds * 1000)?;
    // Three probes within the time.
    set(&socket, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds / 3)?;
    set(&socket, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds / 3)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)
}

/// Asks for a receive buffer of `bytes`, beyond `net.core.rmem_max` where this process may (SO_RCVBUFFORCE needs
/// CAP_NET_ADMIN). Returns the bytes granted; the kernel counts its own overhead of each datagram in them.
pub fn set_receive_buffer(socket: impl AsFd, bytes: usize) -> io::Result<usize> {
    let wanted = libc::c_int::try_from(bytes / 2).unwrap_or(libc::c_int::MAX);
    // Both double the requested number.
    set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, wanted)
        .or_else(|_| set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, wanted))?;
    Ok(memory(&socket)?[SK_MEMINFO_RCVBUF] as usize)
}

/// Datagrams that the kernel dropped at a socket since it was opened, because its receive buffer was full or a checksum
/// was wrong.
pub fn dropped_datagrams(socket: impl AsFd) -> io::Result<u64> {
    Ok(memory(&socket)?[SK_MEMINFO_DROPS].into())
}

/// Fields of SO_MEMINFO (linux/sock_diag.h).
const SK_MEMINFO_RCVBUF: usize = 1;
const SK_MEMINFO_DROPS: usize = 8;
const SK_MEMINFO_VARS: usize = 9;

fn memory(socket: &impl AsFd) -> io::Result<[u32; SK_MEMINFO_VARS]> {
    let mut fields = [0u32; SK_MEMINFO_VARS];
    let mut bytes = size_of_val(&fields) as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `bytes` bytes into the local array, and their number.
    let failed = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, (&raw mut fields).cast(), &mut bytes)
    };
    match failed {
        0 => Ok(fields),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the kernel refuse a datagram that is longer than the path takes (EMSGSIZE) instead of sending it in fragments.
pub fn never_fragment(socket: impl AsFd, is_ipv6: bool) -> io::Result<()> {
    match is_ipv6 {
        true => set(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
        false => set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
    }
}

/// Makes the kernel send a datagram that is longer than the path takes in fragments, as it does by default.
pub fn allow_fragments(socket: impl AsFd, is_ipv6: bool) -> io::Result<()> {
    match is_ipv6 {
        true => set(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_WANT),
        false => set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT),
    }
}

/// Most datagrams of one call of [`send_together`] (UDP_MAX_SEGMENTS of the kernels before 6.6).
pub const TOGETHER_MAX: usize = 64;
/// Most bytes of such a call: those of one packet of either family.
pub const TOGETHER_BYTES_MAX: usize = 65_487;

/// Sends datagrams by one call and one walk through the stack (UDP_SEGMENT, Linux 4.18): all have the length of the
/// first but the last, which may be shorter. After an error none of them was sent.
///
/// Not sendmsg(2): it takes an address too, and so a sandbox refuses it.
pub fn send_together(socket: impl AsFd, datagrams: &[IoSlice<'_>]) -> io::Result<()> {
    let bytes = datagrams.first().map_or(0, |first| first.len());
    let bytes = u16::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EMSGSIZE))?;
    let segment = |bytes: u16| set(&socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT, bytes.into());
    segment(bytes)?;
    let sent = nix::sys::uio::writev(&socket, datagrams);
    // Otherwise a longer datagram would be cut later.
    segment(0)?;
    sent?;
    Ok(())
}

fn set(socket: &impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let bytes = size_of::<libc::c_int>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads one int, which is local.
    match unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The MTU of the path to the peer of a connected socket, as currently known to the kernel (IP_MTU, IPV6_MTU).
pub fn path_mtu(socket: impl AsFd, is_ipv6: bool) -> Option<usize> {
    let (level, name) = match is_ipv6 {
        true => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
        false => (libc::IPPROTO_IP, libc::IP_MTU),
    };
    let mut mtu: libc::c_int = 0;
    let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `bytes` bytes, one local int, and the length of it.
    let failed = unsafe { libc::getsockopt(fd, level, name, (&raw mut mtu).cast(), &mut bytes) };
    usize::try_from(mtu).ok().filter(|mtu| failed == 0 && *mtu > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn bytes_that_no_peer_read_are_acknowledged_or_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(unacknowledged_bytes(&stream).unwrap(), 0);
        end_when_peer_is_gone(&stream, Duration::from_secs(30)).unwrap();
        stream.set_nonblocking(true).unwrap();
        // Without a reader the windows fill, and what is beyond them stays with the sender.
        let mut written = 0;
        while let Ok(bytes) = stream.write(&[0; 65536]) {
            written += bytes;
        }
        let waiting = unacknowledged_bytes(&stream).unwrap();
        assert!(waiting > 0 && waiting <= written, "{waiting} of {written}");
    }

    /// "All arrived" would make its caller forget what it has to send again.
    #[test]
    fn bytes_that_the_kernel_does_not_report_are_an_error() {
        let no_socket = std::fs::File::open("/dev/null").unwrap();
        assert!(unacknowledged_bytes(&no_socket).is_err());
        assert!(never_fragment(&no_socket, false).is_err());
    }

    #[test]
    fn datagrams_sent_together_arrive_one_by_one() {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(peer.local_addr().unwrap()).unwrap();
        let sent = [vec![1; 1000], vec![2; 1000], vec![3; 17]];
        send_together(&socket, &sent.each_ref().map(|bytes| IoSlice::new(bytes))).unwrap();
        let longer = vec![4; 5000];
        assert_eq!(socket.send(&longer).unwrap(), longer.len(), "by itself, whole");
        let mut bytes = [0; 6000];
        for expected in sent.iter().chain([&longer]) {
            let length = peer.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], expected);
        }
        let long = vec![0; 70_000];
        assert!(send_together(&socket, &[IoSlice::new(&long)]).is_err());
    }

    #[test]
    fn datagrams_beyond_the_receive_buffer_are_counted() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let granted = set_receive_buffer(&receiver, 64 << 10).unwrap();
        assert!((32 << 10..=256 << 10).contains(&granted), "{granted}");
        assert_eq!(dropped_datagrams(&receiver).unwrap(), 0);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sent = 1000;
        for _ in 0..sent {
            sender.send_to(&[0; 1000], receiver.local_addr().unwrap()).unwrap();
        }
        let dropped = dropped_datagrams(&receiver).unwrap();
        receiver.set_nonblocking(true).unwrap();
        let received = std::iter::from_fn(|| receiver.recv(&mut [0; 2000]).ok()).count() as u64;
        assert!(dropped > 0 && received > 0);
        assert_eq!(received + dropped, sent);
    }

    #[test]
    fn loopback_has_an_mtu() {
        for (own, peer) in [("127.0.0.1:0", "127.0.0.1:9"), ("[::1]:0", "[::1]:9")] {
            let Ok(socket) = UdpSocket::bind(own) else { continue };
            socket.connect(peer).unwrap();
            never_fragment(&socket, own.starts_with('[')).unwrap();
            let mtu = path_mtu(&socket, own.starts_with('['));
            assert!(mtu.is_some_and(|mtu| mtu >= 1280), "{mtu:?}");
        }
    }
}
