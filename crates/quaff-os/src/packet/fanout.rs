//! A group of receive rings on one interface, among which the kernel spreads its packets (PACKET_FANOUT, packet(7)).
//!
//! ```text
//!   bound, rejects all → joins → … → the last one joins → all are opened → … → all are closed
//! ```
//!
//! The kernel changes the share of each member whenever one joins or leaves. So every member rejects all packets until
//! all have joined, and all are opened, and closed, one right after the other by one thread. In between, no packet of a
//! conversation changes its ring. A group takes as many members as it was made for, so that no other process can join
//! it and take packets away.
//!
//! Never used: DEFRAG (the kernel reassembles fragments into frames that were never sent), ROLLOVER and LB, which split
//! conversations.

use super::{Insn, REJECT_ALL, RxRing, socket};
use crate::{Result, Try};
use std::os::fd::OwnedFd;

// linux/if_packet.h; the libc crate lacks some.
const PACKET_FANOUT_HASH: u16 = 0;
const PACKET_FANOUT_CPU: u16 = 2;
const PACKET_FANOUT_QM: u16 = 5;
const PACKET_FANOUT_CBPF: u16 = 6;
/// The kernel chooses a number that no group of the network namespace has (Linux 4.13).
const PACKET_FANOUT_FLAG_UNIQUEID: u16 = 0x2000;
/// No member receives what the interface sends (Linux 5.18).
const PACKET_FANOUT_FLAG_IGNORE_OUTGOING: u16 = 0x4000;
/// The largest group (`PACKET_FANOUT_MAX`).
pub(crate) const FANOUT_MAX: usize = 1 << 16;

/// The rule by which the kernel chooses the ring of a packet, by its position in the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fan {
    /// The flow hash of addresses and ports, equal in both directions; fragments have only their addresses.
    Hash,
    /// The receive queue of the adapter, modulo the number of members.
    Queue,
    /// The core that receives the packet, modulo the number of members.
    Core,
    /// The result of a program, modulo the number of members. Of received frames its loads begin after the link
    /// header.
    Program(Vec<Insn>),
}

impl Fan {
    fn mode(&self) -> u16 {
        match self {
            Self::Hash => PACKET_FANOUT_HASH,
            Self::Queue => PACKET_FANOUT_QM,
            Self::Core => PACKET_FANOUT_CPU,
            Self::Program(_) => PACKET_FANOUT_CBPF,
        }
    }
}

/// `struct fanout_args` of linux/if_packet.h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct FanoutArgs {
    #[cfg(target_endian = "little")]
    id: u16,
    mode: u16,
    #[cfg(target_endian = "big")]
    id: u16,
    members_max: u32,
}

/// The rings of a group. Its own copies of the sockets keep them in the group until it is dropped.
#[derive(Debug)]
pub struct Fanout {
    fan: Fan,
    size: usize,
    incoming_only: bool,
    /// The group's number, from its first member on.
    id: Option<u16>,
    members: Vec<OwnedFd>,
}

impl Fanout {
    /// A group for `size` rings. With `incoming_only` it receives no copies of the frames that the interface sends.
    pub fn new(fan: Fan, size: usize, incoming_only: bool) -> Self {
        Self { fan, size, incoming_only, id: None, members: Vec::new() }
    }

    /// Binds a ring that receives nothing to an interface and adds it to the group; its position is the number of rings
    /// before it.
    pub fn join(&mut self, ring: &RxRing, ifindex: u32, name: &str) -> Result<()> {
        ring.stop_receiving()?;
        ring.bind(ifindex, name)?;
        let fd = ring.socket().try_clone().trying(|| "copy a packet socket")?;
        let flags = if self.incoming_only { PACKET_FANOUT_FLAG_IGNORE_OUTGOING } else { 0 };
        let unique = if self.id.is_none() { PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
        let (id, mode) = (self.id.unwrap_or(0), self.fan.mode() | flags | unique);
        let args = FanoutArgs { id, mode, members_max: self.size.min(FANOUT_MAX) as u32 };
        let tried = format!("add a lane to the others of {name} (PACKET_FANOUT)");
        let joined = socket::set_at(&fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &args, &tried);
        joined.map_err(|error| match error.raw() {
            libc::EINVAL => {
                error.advise("the interface must be up; before Linux 6.13 no lane joins while it is down")
            }
            libc::ENOSPC => error.advise("another process has joined the group; start again"),
            _ => error,
        })?;
        if self.id.is_none() {
            self.id = Some(read_id(&fd)?);
            if let Fan::Program(program) = &self.fan {
                socket::set_program(
                    &fd,
                    libc::PACKET_FANOUT_DATA,
                    program,
                    "set the program that spreads packets",
                )?;
            }
        }
        self.members.push(fd);
        Ok(())
    }

    /// All members receive the packets that pass `filter` from here on.
    pub fn open(&self, filter: &[Insn]) -> Result<()> {
        self.members.iter().try_for_each(|fd| socket::attach_filter(fd, filter))
    }

    /// All members reject all further packets. Those that the kernel has already stored can still be read.
    pub fn close(&self) -> Result<()> {
        self.open(&[REJECT_ALL])
    }
}

/// The number of the group of a socket: the lower half of what the kernel returns.
fn read_id(fd: &OwnedFd) -> Result<u16> {
    let mut found = 0u32;
    socket::get(
        fd,
        libc::SOL_PACKET,
        libc::PACKET_FANOUT,
        &mut found,
        "read the number of a PACKET_FANOUT group",
    )?;
    Ok(found as u16)
}

#[cfg(test)]
mod tests {
    use super::super::{RingPlan, TimeSource, accept};
    use super::*;
    use crate::Netns;
    use crate::rtnl::{self, LinkChange, Rtnl};
    use crate::testing::{is_refusal, skip};

    fn ring() -> RxRing {
        let plan = RingPlan {
            block_bytes: 1 << 16,
            block_count: 4,
            retire_ms: 50,
            promiscuous: false,
            filter: vec![accept(64)],
            time_source: TimeSource::Host,
        };
        RxRing::allocate("lo", &plan).expect("a ring")
    }

    /// Asks for a number as another program would.
    fn ask(id: u16, mode: u16, ifindex: u32) -> Result<OwnedFd> {
        let fd = socket::open()?;
        socket::bind(&fd, ifindex, "lo")?;
        let args = u32::from(id) | u32::from(mode) << 16;
        socket::set_at(&fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &args, "join")?;
        Ok(fd)
    }

    #[test]
    fn a_full_group_takes_no_other_program_and_avoids_its_number() {
        let test = "a_full_group_takes_no_other_program";
        let netns = match Netns::create(&format!("quaff-os-{}-fanout", std::process::id())) {
            Ok(netns) => netns,
            Err(error) if is_refusal(&error) => return skip(test, &error.to_string()),
            Err(error) => panic!("{error}"),
        };
        let name = netns.name.clone();
        netns.run(in_a_namespace).expect("entered");
        Netns::delete(&name).expect("it is there");
    }

    fn in_a_namespace() {
        let lo = rtnl::link("lo").expect("a loopback");
        Rtnl::open().and_then(|mut rtnl| rtnl.change(lo.index, LinkChange::Up(true))).expect("up");
        let mut first = Fanout::new(Fan::Hash, 2, false);
        let rings = [ring(), ring(), ring()];
        first.join(&rings[0], lo.index, "lo").expect("the first one");
        let id = first.id.expect("a number");
        // Made for two: so far another program would get in.
        first.join(&rings[1], lo.index, "lo").expect("the second one");
        let errno = |found: Result<OwnedFd>| found.expect_err("refused").raw();
        assert_eq!(errno(ask(id, PACKET_FANOUT_HASH, lo.index)), libc::ENOSPC);
        assert_eq!(errno(ask(id, PACKET_FANOUT_CPU, lo.index)), libc::EINVAL);
        let refused = first.join(&rings[2], lo.index, "lo").expect_err("a third one");
        assert_eq!(refused.raw(), libc::ENOSPC);
        // Others have the next numbers.
        let others: Vec<_> =
            (1..=8).map(|next| ask(id.wrapping_add(next), PACKET_FANOUT_HASH, lo.index)).collect();
        assert!(others.iter().all(Result::is_ok), "{others:?}");
        let mut second = Fanout::new(Fan::Program(vec![accept(1)]), 1, true);
        second.join(&rings[2], lo.index, "lo").expect("a group of its own");
        let taken = (0..=8).map(|next| id.wrapping_add(next)).any(|taken| second.id == Some(taken));
        assert!(!taken, "{:?} is free", second.id);
    }
}
