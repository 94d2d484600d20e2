//! The packet socket: each socket option is one function.

use super::{Insn, Qdisc};
use crate::{Error, Result};
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Whose clock stamps the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeSource {
    /// The kernel's, when the packet reaches the stack.
    #[default]
    Host,
    /// The kernel's, when the driver hands the packet over, before it waits for the stack
    /// (SOF_TIMESTAMPING_RX_SOFTWARE). While such a socket is open every packet of the machine is stamped.
    Arrival,
    /// The adapter's own (SOF_TIMESTAMPING_RAW_HARDWARE).
    Adapter,
}

/// What PACKET_STATISTICS said since it was last asked (`struct tpacket_stats_v3`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelDrops {
    /// Packets that passed the filter, the dropped ones among them.
    pub packets: u64,
    /// Packets for which the ring had no room.
    pub drops: u64,
    /// How often the ring froze because the next block was still ours.
    pub freezes: u64,
}

/// A socket that receives nothing until it is bound (protocol 0).
pub(crate) fn open() -> Result<OwnedFd> {
    // SAFETY: socket(2) takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        let error = Error::last("open a packet socket");
        return Err(match error.raw() {
            libc::EPERM => error.advise(
                "CAP_NET_RAW is missing: run as root, or once: \
                 sudo setcap cap_net_raw,cap_net_admin,cap_ipc_lock,cap_sys_nice+ep $(command -v quaff)",
            ),
            _ => error,
        });
    }
    // SAFETY: the descriptor was just returned and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn set_version(fd: &OwnedFd) -> Result<()> {
    set(fd, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as i32), "use TPACKET_V3")
}

/// A transmit ring of fixed slots; TPACKET_V3 has nothing to offer there.
pub(super) fn set_tx_ring(fd: &OwnedFd, request: &libc::tpacket_req) -> Result<()> {
    set(fd, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as i32), "use TPACKET_V2")?;
    set(fd, libc::PACKET_TX_RING, request, "make a transmit ring")
}

pub(super) fn set_ring(fd: &OwnedFd, request: &libc::tpacket_req3) -> Result<()> {
    set(fd, libc::PACKET_RX_RING, request, "make a receive ring")
}

/// A receive ring of fixed slots, one for each frame.
pub(super) fn set_rx_slots(fd: &OwnedFd, request: &libc::tpacket_req) -> Result<()> {
    set(fd, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as i32), "use TPACKET_V2")?;
    set(fd, libc::PACKET_RX_RING, request, "make a receive ring")
}

/// SO_ATTACH_FILTER; the kernel replaces a filter atomically and keeps a copy of the program.
pub(crate) fn attach_filter(fd: &OwnedFd, program: &[Insn]) -> Result<()> {
    // The kernel refuses more than BPF_MAXINSNS (4096) instructions, so saturating keeps the error.
    let len = u16::try_from(program.len()).unwrap_or(u16::MAX);
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    set_at(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program, "attach a filter")
}

pub(super) fn set_promiscuous(fd: &OwnedFd, ifindex: u32) -> Result<()> {
    // SAFETY: packet_mreq is plain data; all zero is a valid value.
    let mut request: libc::packet_mreq = unsafe { std::mem::zeroed() };
    request.mr_ifindex = ifindex as i32;
    request.mr_type = libc::PACKET_MR_PROMISC as u16;
    set(fd, libc::PACKET_ADD_MEMBERSHIP, &request, "set promiscuous mode (-p leaves it alone)")
}

/// Nothing, SO_TIMESTAMPING, or PACKET_TIMESTAMP and SIOCSHWTSTAMP on the interface.
pub(super) fn set_time_source(fd: &OwnedFd, name: &str, source: TimeSource) -> Result<()> {
    match source {
        TimeSource::Host => Ok(()),
        TimeSource::Arrival => {
            let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
            set_at(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags, "have packets stamped on arrival")
        }
        TimeSource::Adapter => {
            enable_hardware_stamps(fd, name)?;
            let flags = libc::SOF_TIMESTAMPING_RAW_HARDWARE as i32;
            set(fd, libc::PACKET_TIMESTAMP, &flags, "take the adapter's time stamps")
        }
    }
}

fn enable_hardware_stamps(fd: &OwnedFd, name: &str) -> Result<()> {
    /// `struct hwtstamp_config`, linux/net_tstamp.h: stamp every received packet, no sent one.
    #[repr(C)]
    struct HwtstampConfig {
        flags: i32,
        tx_type: i32,
        rx_filter: i32,
    }
    const HWTSTAMP_FILTER_ALL: i32 = 1;
    let mut config = HwtstampConfig { flags: 0, tx_type: 0, rx_filter: HWTSTAMP_FILTER_ALL };
    // SAFETY: ifreq is plain data; all zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes().iter().take(libc::IFNAMSIZ - 1)) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut config).cast();
    // SAFETY: the name is NUL-terminated (zeroed above, at most IFNAMSIZ - 1 bytes were copied), and
    // `config` lives until after the call.
    match unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCSHWTSTAMP as _, &raw mut request) } {
        0 => Ok(()),
        _ => Err(Error::last(format!("switch hardware time stamps on at {name}"))
            .advise("leave out --time-stamp-type to use the kernel's clock")),
    }
}

/// The least receive buffer that the kernel grants: it doubles the request and has a lower bound.
pub(super) fn set_receive_buffer_min(fd: &OwnedFd) -> Result<()> {
    set_at(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &1i32, "set a receive buffer")
}

/// Sent frames go to the driver at once, past queueing disciplines (and past taps on the way out), or not.
pub(super) fn set_qdisc(fd: &OwnedFd, qdisc: Qdisc) -> Result<()> {
    let bypass = i32::from(qdisc == Qdisc::Bypass);
    set(fd, libc::PACKET_QDISC_BYPASS, &bypass, "send past queueing disciplines")
}

/// Binds to one interface: packets flow from here on.
pub(super) fn bind(fd: &OwnedFd, ifindex: u32, name: &str) -> Result<()> {
    bind_protocol(fd, ifindex, name, libc::ETH_P_ALL as u16)
}

/// Binds to one interface to send only: protocol 0 receives nothing.
pub(super) fn bind_to_send(fd: &OwnedFd, ifindex: u32, name: &str) -> Result<()> {
    bind_protocol(fd, ifindex, name, 0)
}

/// Binds to one interface for frames of one EtherType; 0 receives nothing.
pub(super) fn bind_protocol(fd: &OwnedFd, ifindex: u32, name: &str, protocol: u16) -> Result<()> {
    // SAFETY: sockaddr_ll is plain data; all zero is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = ifindex as i32;
    let bytes = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes of a valid sockaddr_ll.
    match unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), bytes) } {
        0 => Ok(()),
        _ => Err(Error::last(format!("bind a packet socket to {name}"))),
    }
}

/// Reads PACKET_STATISTICS, which also clears it.
pub(super) fn statistics(fd: &OwnedFd) -> Result<KernelDrops> {
    // SAFETY: tpacket_stats_v3 is plain data; all zero is a valid value.
    let mut stats: libc::tpacket_stats_v3 = unsafe { std::mem::zeroed() };
    get(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut stats, "read the ring's statistics")?;
    Ok(KernelDrops {
        packets: stats.tp_packets.into(),
        drops: stats.tp_drops.into(),
        freezes: stats.tp_freeze_q_cnt.into(),
    })
}

/// Takes the pending error (SO_ERROR), so that poll(2) waits again. 0 when there is none.
pub(super) fn take_error(fd: &OwnedFd) -> Result<i32> {
    let mut errno = 0i32;
    get(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut errno, "read a socket's error")?;
    Ok(errno)
}

fn set<T>(fd: &OwnedFd, option: i32, value: &T, tried: &str) -> Result<()> {
    set_at(fd, libc::SOL_PACKET, option, value, tried)
}

fn set_at<T>(fd: &OwnedFd, level: i32, option: i32, value: &T, tried: &str) -> Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes of `value`; each caller above passes the very type that
    // the option takes, and pointers inside it (sock_fprog) live until the call returns.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (value as *const T).cast(), bytes) } {
        0 => Ok(()),
        _ => Err(Error::last(tried)),
    }
}

fn get<T>(fd: &OwnedFd, level: i32, option: i32, value: &mut T, tried: &str) -> Result<()> {
    let mut bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes into `value`, whose type the option defines.
    match unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, (value as *mut T).cast(), &mut bytes) } {
        0 => Ok(()),
        _ => Err(Error::last(tried)),
    }
}
