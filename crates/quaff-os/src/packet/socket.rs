//! The packet socket: one function for each socket option.

use super::{AdapterClock, Insn, REJECT_ALL};
use crate::mem::page_bytes;
use crate::privilege::FILE_CAPABILITIES;
use crate::shared_memory::SharedMemory;
use crate::{Error, Result};
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The path of sent frames to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Qdisc {
    /// Directly (PACKET_QDISC_BYPASS). Captures on the sending interface do not see the frames.
    #[default]
    Bypass,
    /// Through the queueing discipline, which may delay or drop frames; captures see them.
    Through,
}

/// The clock that stamps packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeSource {
    /// The kernel's clock, when the packet reaches the stack.
    #[default]
    Host,
    /// The kernel's clock, when the driver passes the packet on, before it is queued for the stack
    /// (SOF_TIMESTAMPING_RX_SOFTWARE). While such a socket is open the kernel stamps every packet of the host.
    Arrival,
    /// The adapter's clock (SOF_TIMESTAMPING_RAW_HARDWARE).
    Adapter,
}

/// PACKET_STATISTICS since the last call (`struct tpacket_stats_v3`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketStats {
    /// Packets that passed the filter, including dropped ones.
    pub packets: u64,
    /// Packets for which the ring had no room.
    pub drops: u64,
    /// Times that the ring froze because user space still owned the next block.
    pub freezes: u64,
}

/// Opens a socket that receives nothing until it is bound (protocol 0).
pub(crate) fn open() -> Result<OwnedFd> {
    // SAFETY: socket(2) takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        let error = Error::last("open a packet socket");
        return Err(match error.raw() {
            libc::EPERM => error.advise(format!(
                "CAP_NET_RAW is missing: run as root, or as a member of the group for which 'make install' installs quaff \
                 (it does 'setcap {FILE_CAPABILITIES}=p')"
            )),
            _ => error,
        });
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes interface `ifindex` of the calling thread's network namespace promiscuous as long as the result, a packet
/// socket that receives nothing, is open (`PACKET_MR_PROMISC`, packet(7)). The kernel ends that mode when the process
/// ends, however it ends.
pub fn hold_promiscuous(ifindex: u32) -> Result<OwnedFd> {
    let fd = open()?;
    set_promiscuous(&fd, ifindex)?;
    Ok(fd)
}

/// EtherType for local experiments (`ETH_P_802_EX1`, linux/if_ether.h). The kernel reports no error to a socket that is
/// bound to protocol 0.
const ETH_P_802_EX1: u16 = 0x88b5;

/// A packet socket that receives nothing, to which the kernel reports that its interface went down, however short that
/// was (`packet_notifier`, net/packet/af_packet.c).
#[derive(Debug)]
pub struct DownWatch {
    fd: OwnedFd,
}

impl DownWatch {
    /// Watches an interface of the calling thread's network namespace.
    pub fn open(ifindex: u32, name: &str) -> Result<Self> {
        let fd = open()?;
        attach_filter(&fd, &[REJECT_ALL])?;
        bind_protocol(&fd, ifindex, name, ETH_P_802_EX1)?;
        // An interface that is down already does not go down any more.
        take_error(&fd)?;
        Ok(Self { fd })
    }

    /// Returns whether the interface went down since the last call. False also when it is gone.
    pub fn take_down(&self) -> bool {
        take_error(&self.fd).is_ok_and(|errno| errno == libc::ENETDOWN)
    }
}

pub(super) fn set_version(fd: &OwnedFd) -> Result<()> {
    set(fd, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as i32), "use TPACKET_V3")
}

pub(super) fn set_ring(fd: &OwnedFd, request: &libc::tpacket_req3) -> Result<()> {
    set(fd, libc::PACKET_RX_RING, request, "create a receive ring")
}

/// Creates and maps a ring of fixed slots (TPACKET_V2), of at least `bytes`: PACKET_TX_RING, for which TPACKET_V3 has
/// no advantage, or PACKET_RX_RING. Returns its memory and the number of slots.
pub(crate) fn make_slots(
    fd: &OwnedFd,
    option: i32,
    slot_bytes: usize,
    bytes: usize,
    what: &str,
) -> Result<(SharedMemory, usize)> {
    /// Bytes of one block of the ring's memory, which is physically contiguous.
    const BLOCK_BYTES: usize = 1 << 16;
    let block_bytes = slot_bytes.max(BLOCK_BYTES).max(page_bytes());
    let bytes = bytes.max(1).next_multiple_of(block_bytes);
    let slot_count = bytes / slot_bytes;
    let request = libc::tpacket_req {
        tp_block_size: block_bytes as u32,
        tp_block_nr: (bytes / block_bytes) as u32,
        tp_frame_size: slot_bytes as u32,
        tp_frame_nr: slot_count as u32,
    };
    set(fd, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as i32), "use TPACKET_V2")?;
    set(fd, option, &request, &format!("create {what}"))?;
    Ok((SharedMemory::map(fd, bytes, 0, what)?, slot_count))
}

/// SO_ATTACH_FILTER: the kernel copies the program and replaces an earlier filter atomically.
pub(crate) fn attach_filter(fd: &OwnedFd, program: &[Insn]) -> Result<()> {
    let program = as_kernel_reads(program);
    set_at(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program, "attach a filter to a socket")
}

/// Sets an option of packet sockets that takes a program, which the kernel copies.
pub(super) fn set_program(fd: &OwnedFd, option: i32, program: &[Insn], tried: &str) -> Result<()> {
    set(fd, option, &as_kernel_reads(program), tried)
}

/// Points to the program, which must outlive the system call.
fn as_kernel_reads(program: &[Insn]) -> libc::sock_fprog {
    // The kernel refuses more than BPF_MAXINSNS (4096) instructions, so saturating keeps the error.
    let len = u16::try_from(program.len()).unwrap_or(u16::MAX);
    libc::sock_fprog { len, filter: program.as_ptr().cast_mut() }
}

pub(crate) fn set_promiscuous(fd: &OwnedFd, ifindex: u32) -> Result<()> {
    // SAFETY: packet_mreq is plain data; all zero is a valid value.
    let mut request: libc::packet_mreq = unsafe { std::mem::zeroed() };
    request.mr_ifindex = ifindex as i32;
    request.mr_type = libc::PACKET_MR_PROMISC as u16;
    set(fd, libc::PACKET_ADD_MEMBERSHIP, &request, "set promiscuous mode")
}

/// The socket receives no copies of the frames that its interface sends (PACKET_IGNORE_OUTGOING, Linux 4.20).
pub(super) fn ignore_outgoing(fd: &OwnedFd) -> Result<()> {
    /// linux/if_packet.h; the libc crate lacks it.
    const PACKET_IGNORE_OUTGOING: i32 = 23;
    set(fd, PACKET_IGNORE_OUTGOING, &1i32, "exclude sent frames")
}

/// Sets SO_TIMESTAMPING, or PACKET_TIMESTAMP, for which the adapter stamps packets as long as the result exists;
/// nothing for `Host`.
pub(crate) fn set_time_source(fd: &OwnedFd, name: &str, source: TimeSource) -> Result<Option<AdapterClock>> {
    match source {
        TimeSource::Host => Ok(None),
        TimeSource::Arrival => {
            let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
            set_at(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags, "enable time stamps on arrival")?;
            Ok(None)
        }
        TimeSource::Adapter => {
            let clock = AdapterClock::start(fd, name)?;
            let flags = libc::SOF_TIMESTAMPING_RAW_HARDWARE as i32;
            set(fd, libc::PACKET_TIMESTAMP, &flags, "select the adapter's time stamps")?;
            Ok(Some(clock))
        }
    }
}

/// Sets the smallest receive buffer that the kernel grants.
pub(super) fn set_receive_buffer_min(fd: &OwnedFd) -> Result<()> {
    set_at(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &1i32, "set a receive buffer")
}

/// PACKET_QDISC_BYPASS; a bypassing frame is not visible to captures on the sending interface.
pub(super) fn set_qdisc(fd: &OwnedFd, qdisc: Qdisc) -> Result<()> {
    let bypass = i32::from(qdisc == Qdisc::Bypass);
    set(fd, libc::PACKET_QDISC_BYPASS, &bypass, "bypass the queueing discipline")
}

/// Binds to one interface; packets arrive from then on.
pub(crate) fn bind(fd: &OwnedFd, ifindex: u32, name: &str) -> Result<()> {
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
pub(crate) fn statistics(fd: &OwnedFd) -> Result<PacketStats> {
    // SAFETY: tpacket_stats_v3 is plain data; all zero is a valid value.
    let mut stats: libc::tpacket_stats_v3 = unsafe { std::mem::zeroed() };
    get(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut stats, "read the ring's statistics")?;
    Ok(PacketStats {
        packets: stats.tp_packets.into(),
        drops: stats.tp_drops.into(),
        freezes: stats.tp_freeze_q_cnt.into(),
    })
}

/// Reads and clears the pending error (SO_ERROR), so that poll(2) waits again; 0 when there is none.
pub(crate) fn take_error(fd: &OwnedFd) -> Result<i32> {
    let mut errno = 0i32;
    get(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut errno, "read a socket's error")?;
    Ok(errno)
}

fn set<T>(fd: &OwnedFd, option: i32, value: &T, tried: &str) -> Result<()> {
    set_at(fd, libc::SOL_PACKET, option, value, tried)
}

/// setsockopt(2). `value` must have the type that the option takes.
pub(crate) fn set_at<T>(fd: &OwnedFd, level: i32, option: i32, value: &T, tried: &str) -> Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes of `value`. Each caller passes the type that the option
    // takes; pointers inside it (sock_fprog) outlive the call.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (value as *const T).cast(), bytes) } {
        0 => Ok(()),
        _ => Err(Error::last(tried)),
    }
}

/// getsockopt(2). `value` must have the type that the option returns.
pub(crate) fn get<T>(fd: &OwnedFd, level: i32, option: i32, value: &mut T, tried: &str) -> Result<()> {
    let mut bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to `value`; each caller passes the type that the
    // option returns, valid for any bytes.
    match unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, (value as *mut T).cast(), &mut bytes) } {
        0 => Ok(()),
        _ => Err(Error::last(tried)),
    }
}
