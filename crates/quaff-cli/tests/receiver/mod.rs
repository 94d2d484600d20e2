//! What arrives in a lab, taken in by a ring that is not the command's own.

use quaff_lab::Lab;
use quaff_lab::lab::RX_IF;
use quaff_os::event::Event;
use quaff_os::packet::block::{Cursor, Packet};
use quaff_os::packet::{RingPlan, RxRing, TimeSource, accept};
use quaff_os::rtnl;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A ring that takes in all that arrives.
pub(crate) fn ring(lab: &Lab) -> RxRing {
    let plan = RingPlan {
        block_bytes: 1 << 20,
        block_count: 16,
        retire_ms: 10,
        promiscuous: false,
        filter: vec![accept(u32::MAX)],
        time_source: TimeSource::Host,
    };
    let open = || RxRing::open(rtnl::link(RX_IF)?.index, RX_IF, &plan);
    lab.rx().run(open).expect("a thread in the namespace").expect("a ring")
}

/// The first `count` frames in a ring, with the VLAN tag put back that the kernel took out.
pub(crate) fn received(mut ring: RxRing, count: usize) -> Vec<Vec<u8>> {
    let bell = Event::new().expect("a bell");
    let begun = Instant::now();
    let mut frames = Vec::new();
    while frames.len() < count && begun.elapsed() < PATIENCE {
        let Some(block) = ring.block() else {
            ring.wait(&bell, Duration::from_millis(10)).expect("a wait");
            continue;
        };
        Cursor::new(block).walk(block, u32::MAX, |packet| frames.push(whole(block, &packet)));
        ring.release();
    }
    frames
}

fn whole(block: &[u8], packet: &Packet) -> Vec<u8> {
    let mut frame = block[packet.start as usize..][..packet.snaplen as usize].to_vec();
    if let Some((tpid, tci)) = packet.vlan {
        let tag = [tpid.to_be_bytes(), tci.to_be_bytes()].concat();
        frame.splice(12..12, tag);
    }
    frame
}
