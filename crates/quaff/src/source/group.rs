//! The lanes of one interface share the kernel's group of their rings, the tap before their filter, and the moments at
//! which the capture begins and ends.
//!
//! ```text
//!   lane 0 joins, lane 1 joins, … the last one: joins, binds the tap, opens all
//!   the first lane that ends: closes all, then the tap      the last one: compares the tap with all rings
//! ```
//!
//! The tap sees each packet once, before any ring, so it is of the interface and not of a lane. No counter of the
//! kernel is `offered` (`rx_packets` counts before GRO, and not what is injected): it is the sum of the interface's
//! drops, the rings' count, and the packets that only the tap saw.

use crate::{Error, Result};
use nix::libc;
use quaff_os::packet::{CountingTap, Fan, Fanout, Insn, RxRing};
use quaff_os::rtnl::Link;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The lanes of one interface. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Group(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Among which the kernel spreads packets; `None` for one lane.
    lanes: Option<(usize, Fan)>,
    /// Frames that the interface sends are not captured.
    is_incoming: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    fanout: Option<Fanout>,
    joined: usize,
    tap: Option<CountingTap>,
    is_closed: bool,
    /// Lanes that have ended, the packets that their rings counted, and the times that the interface was down.
    ended: usize,
    packets: u64,
    downs: u64,
}

impl Group {
    /// Lanes to which packets are dealt by a rule; the default is a single one. With `is_incoming` none receives what
    /// the interface sends.
    pub(super) fn new(lanes: usize, fan: Fan, is_incoming: bool) -> Self {
        let lanes = (lanes > 1).then_some((lanes, fan));
        Self(Arc::new(Shared { lanes, is_incoming, ..Shared::default() }))
    }

    /// A single lane whose ring receives already.
    pub(super) fn of_one(tap: Option<CountingTap>) -> Self {
        let state = State { joined: 1, tap, ..State::default() };
        Self(Arc::new(Shared { state: state.into(), ..Shared::default() }))
    }

    fn size(&self) -> usize {
        self.0.lanes.as_ref().map_or(1, |(lanes, _)| *lanes)
    }

    /// Returns whether the next lane is the last one, which reads the counters of the interface for all.
    pub(super) fn is_last_next(&self) -> bool {
        self.state().joined + 1 == self.size()
    }

    /// Binds the ring of the next lane. With the last one the capture begins: all rings receive what passes `filter`.
    /// With `is_filtered` the tap counts what the filter drops.
    pub(super) fn bind(&self, ring: &RxRing, link: &Link, filter: &[Insn], is_filtered: bool) -> Result<()> {
        // A loopback interface offers each packet a second time, as received.
        let is_incoming = self.0.is_incoming || link.arphrd == libc::ARPHRD_LOOPBACK;
        let mut state = self.state();
        state.joined += 1;
        let Some((lanes, fan)) = &self.0.lanes else {
            state.tap = bind_alone(ring, link, is_filtered.then_some(filter), is_incoming)?;
            return Ok(());
        };
        let is_last = state.joined == *lanes;
        let fanout = state.fanout.get_or_insert_with(|| Fanout::new(fan.clone(), *lanes, is_incoming));
        fanout.join(ring, link.index, &link.name)?;
        // A run that was ended while its lanes opened has closed those before: they hear of no later end.
        if is_last && !state.is_closed {
            state.tap = is_filtered.then(|| open_tap(link, is_incoming)).transpose()?;
            state.fanout.as_ref().map_or(Ok(()), |fanout| fanout.open(filter))?;
        }
        Ok(())
    }

    /// Reads the tap, whose counter overflows unless this is called often.
    pub(super) fn poll(&self) -> Result<()> {
        match &mut self.state().tap {
            Some(tap) => Ok(tap.read().map(drop)?),
            None => Ok(()),
        }
    }

    /// Has all lanes receive nothing more: they stop together, whichever of them hears of the end first.
    pub(super) fn close(&self, ring: &RxRing) -> Result<()> {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_closed, true) {
            return Ok(());
        }
        match &state.fanout {
            Some(fanout) => fanout.close()?,
            None => ring.stop_receiving()?,
        }
        Ok(state.tap.as_ref().map_or(Ok(()), CountingTap::stop)?)
    }

    /// A lane has ended, whose ring counted `packets`. Returns the packets that the filter dropped if it is the last
    /// one, else 0.
    ///
    /// # Errors
    /// The tap counted fewer packets than the rings.
    pub(super) fn finish(&self, packets: u64, downs: u64, interface: &str) -> Result<u64> {
        let (mut state, size) = (self.state(), self.size());
        state.ended += 1;
        state.packets += packets;
        state.downs += downs;
        let State { ended, packets, downs, tap, .. } = &mut *state;
        match tap {
            Some(tap) if *ended == size => filtered(tap.read()?, *packets, *downs, interface),
            _ => Ok(0),
        }
    }

    /// Ignores poisoning: a lane that panicked ends the run.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Binds the ring of an only lane, and the tap that counts what the ring's `filter` drops, if it has one.
///
/// The kernel offers a packet first to the socket that was bound last (`dev_add_pack`, net/core/dev.c). So the tap has
/// counted each packet before the ring sees it. The ring starts after the tap and stops before it, and can never count
/// more.
fn bind_alone(
    ring: &RxRing,
    link: &Link,
    filter: Option<&[Insn]>,
    is_incoming: bool,
) -> Result<Option<CountingTap>> {
    if is_incoming {
        ring.ignore_outgoing()?;
    }
    let Some(filter) = filter else {
        ring.bind(link.index, &link.name)?;
        return Ok(None);
    };
    ring.stop_receiving()?;
    ring.bind(link.index, &link.name)?;
    let tap = open_tap(link, is_incoming)?;
    ring.start_receiving(filter)?;
    Ok(Some(tap))
}

fn open_tap(link: &Link, is_incoming: bool) -> Result<CountingTap> {
    Ok(match is_incoming {
        true => CountingTap::open_incoming(link.index, &link.name)?,
        false => CountingTap::open(link.index, &link.name, None)?,
    })
}

/// The packets that the filter of the rings dropped: those of the tap (`tapped`) that the rings' counters lack.
///
/// # Errors
/// The tap counted fewer. When an interface comes up again, the kernel binds one socket after the other, and packets
/// between the two are not an error.
fn filtered(tapped: u64, packets: u64, downs: u64, interface: &str) -> Result<u64> {
    match tapped.checked_sub(packets) {
        None if downs == 0 => Err(Error::Defect(format!(
            "of {packets} packets that passed the filter on {interface}, the tap before it counted only {tapped}"
        ))),
        filtered => Ok(filtered.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_os::packet::{RingPlan, TimeSource, accept};
    use quaff_os::testing::{is_refusal, skip};
    use std::net::UdpSocket;

    #[test]
    fn a_tap_that_counts_fewer_than_the_ring_is_a_defect() {
        assert_eq!(filtered(10, 7, 0, "eth0").expect("more"), 3);
        assert_eq!(filtered(7, 7, 0, "eth0").expect("all passed"), 0);
        let defect = filtered(6, 7, 0, "eth0").expect_err("fewer").to_string();
        assert!(
            defect.contains("7 packets") && defect.contains("eth0") && defect.contains("only 6"),
            "{defect}"
        );
        assert_eq!(filtered(6, 7, 1, "eth0").expect("it was down"), 0);
    }

    #[test]
    fn the_last_of_several_lanes_leads() {
        assert!(Group::default().is_last_next() && Group::new(1, Fan::Hash, false).is_last_next());
        let group = Group::new(2, Fan::Hash, false);
        assert!(!group.is_last_next());
        group.state().joined += 1;
        assert!(group.clone().is_last_next(), "clones are one group");
        assert_eq!(group.finish(7, 0, "eth0").expect("no tap"), 0);
    }

    fn ring() -> RxRing {
        let (block_bytes, block_count, filter) = (1 << 16, 4, vec![accept(64)]);
        let time_source = TimeSource::Host;
        let plan =
            RingPlan { block_bytes, block_count, retire_ms: 50, promiscuous: false, filter, time_source };
        RxRing::allocate("lo", &plan).expect("a ring")
    }

    /// A signal may come while lanes open: the first ones hear of it, and close, before the last one has joined.
    #[test]
    fn lanes_that_are_closed_before_all_have_joined_stay_closed() {
        let is_permitted = quaff_os::packet::hold_promiscuous(1);
        if let Err(error) = &is_permitted
            && is_refusal(error)
        {
            return skip("lanes_that_are_closed_before_all_have_joined_stay_closed", &error.to_string());
        }
        let lo = quaff_os::rtnl::link("lo").expect("a loopback");
        let [socket, peer] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        let to = peer.local_addr().expect("a port");
        for is_closed in [false, true] {
            let (group, rings) = (Group::new(2, Fan::Hash, false), [ring(), ring()]);
            let bind = |ring: &RxRing| group.bind(ring, &lo, &[accept(64)], true).expect("a lane");
            bind(&rings[0]);
            if is_closed {
                group.close(&rings[0]).expect("the first lane hears of the end");
            }
            bind(&rings[1]);
            (0..100).for_each(|_| assert_eq!(socket.send_to(b"x", to).expect("sent"), 1));
            group.close(&rings[1]).expect("the last lane hears of the end");
            let packets: u64 = rings.iter().map(|ring| ring.statistics().expect("counted").packets).sum();
            assert!(if is_closed { packets == 0 } else { packets >= 100 }, "{is_closed}: {packets} packets");
            assert_eq!(group.finish(packets, 0, "lo").expect("the first lane"), 0);
            let filtered = group.finish(0, 0, "lo").expect("the last lane");
            assert!(!is_closed || filtered == 0, "{filtered} packets before the begin");
        }
    }
}
