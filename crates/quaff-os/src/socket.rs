//! The state of connected sockets: bytes that the peer has not acknowledged, the MTU of the path, peers that are gone.
//! Never reads or writes data.

use std::io;
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

/// Has the kernel refuse a datagram that is longer than the path takes (EMSGSIZE) instead of sending it in fragments.
pub fn never_fragment(socket: impl AsFd, is_ipv6: bool) -> io::Result<()> {
    match is_ipv6 {
        true => set(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
        false => set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
    }
}

/// Has the kernel send a datagram that is longer than the path takes in fragments, as it does by default.
pub fn allow_fragments(socket: impl AsFd, is_ipv6: bool) -> io::Result<()> {
    match is_ipv6 {
        true => set(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_WANT),
        false => set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT),
    }
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

/// The MTU of the path to the peer of a connected socket, as far as the kernel knows it (IP_MTU, IPV6_MTU).
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
