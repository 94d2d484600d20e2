//! The sockets that send, between two namespaces: what they say they sent is what arrives, to the
//! byte and in order, and what cannot be sent is counted.

use quaff_lab::{Lab, RX, TX};
use quaff_os::packet::TxCounts;
use quaff_os::packet::{Qdisc, TxRing, TxSocket};
use quaff_os::rtnl::{self, Link, LinkChange, Rtnl};
use quaff_os::xdp::{XdpMode, XdpTx};
use quaff_testkit::{self as testing, Receiver, test_name};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
const MTU: usize = 3000;
/// Limit of the frame length: the MTU, the Ethernet header, one tag.
const FRAME_BYTES_MAX: usize = MTU + 18;

/// One of the sockets.
enum Tx {
    Socket(TxSocket),
    Ring(TxRing),
    Xdp(XdpTx),
}

impl Tx {
    /// All there are, by name.
    fn all(lab: &Lab) -> Vec<(String, Self)> {
        let link = link(lab);
        let open = || {
            let mut all = Vec::new();
            for qdisc in [Qdisc::Bypass, Qdisc::Through] {
                let socket = TxSocket::open(link.index, TX.name, qdisc).expect("a socket");
                all.push((format!("socket {qdisc:?}"), Self::Socket(socket)));
                let ring = TxRing::open(link.index, TX.name, FRAME_BYTES_MAX, qdisc).expect("a ring");
                all.push((format!("ring {qdisc:?}"), Self::Ring(ring)));
            }
            match XdpTx::open(link.index, TX.name, 0, FRAME_BYTES_MAX, None) {
                Ok(xdp) => all.push(("xdp".to_owned(), Self::Xdp(xdp))),
                Err(error) if testing::is_refusal(&error) => {
                    testing::skip("transmit: AF_XDP", &error.to_string());
                }
                Err(error) => panic!("{error}"),
            }
            all
        };
        lab.tx.run(open).expect("a thread in the namespace")
    }

    fn send<'a>(&mut self, mut frames: impl Iterator<Item = &'a [u8]>) -> quaff_os::Result<usize> {
        match self {
            Self::Socket(socket) => socket.send(frames),
            Self::Ring(ring) => ring.send(frames),
            Self::Xdp(xdp) => {
                let mut taken = 0;
                while xdp.has_room()? {
                    let Some(frame) = frames.next() else { break };
                    match xdp.push(frame) {
                        Err(error) if taken == 0 => return Err(error),
                        Err(_) => break,
                        Ok(()) => taken += 1,
                    }
                }
                xdp.kick().map(|()| taken)
            }
        }
    }

    fn flush(&mut self) {
        match self {
            Self::Socket(_) => {}
            Self::Ring(ring) => ring.flush().expect("a flush"),
            Self::Xdp(xdp) => xdp.flush().expect("a flush"),
        }
    }

    fn counts(&self) -> Option<TxCounts> {
        match self {
            Self::Socket(_) => None,
            Self::Ring(ring) => Some(ring.counts()),
            Self::Xdp(xdp) => Some(xdp.counts()),
        }
    }

    /// Sends all frames, in order; those that are refused by name of their errno are left out.
    fn send_all(&mut self, frames: &[Vec<u8>]) -> usize {
        let (mut at, mut refused, begun) = (0, 0, Instant::now());
        while at < frames.len() {
            assert!(begun.elapsed() < PATIENCE, "no room for ever");
            match self.send(frames[at..].iter().map(Vec::as_slice)) {
                Ok(taken) => at += taken,
                Err(error) if matches!(error.raw(), 90 | 22) => {
                    refused += 1;
                    at += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        self.flush();
        refused
    }
}

fn link(lab: &Lab) -> Link {
    lab.tx.run(|| rtnl::link(TX.name)).expect("a thread in the namespace").expect("a link")
}

/// A frame of a protocol that only the receiving ring takes, with its number and as many bytes more.
fn frame(number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x02, b'q', b'u', b'a', b'f', 2, 0x02, b'q', b'u', b'a', b'f', 1, 0x88, 0xb5];
    frame.extend(number.to_be_bytes());
    frame.extend((frame.len()..bytes).map(|at| (at as u32 * 7 + number) as u8));
    frame
}

#[test]
fn all_arrives_to_the_byte_in_order_and_is_confirmed() {
    let Some(lab) = testing::lab(test_name!()) else { return };
    // Several times what the rings hold, of all sizes.
    let frames: Vec<_> = (0..5000).map(|at| frame(at, 60 + (at as usize * 37) % (MTU - 60))).collect();
    for (name, mut tx) in Tx::all(&lab) {
        let receiver = Receiver::at(&lab, RX.name);
        assert_eq!(tx.send_all(&frames), 0, "{name}");
        if let Some(counts) = tx.counts() {
            let sent = TxCounts { confirmed: 5000, retried: counts.retried, ..TxCounts::default() };
            assert_eq!(counts, sent, "{name}");
        }
        let arrived = receiver.bytes(frames.len());
        assert_eq!(arrived.len(), frames.len(), "{name}");
        for (at, (arrived, sent)) in arrived.iter().zip(&frames).enumerate() {
            assert!(arrived == sent, "{name}: frame {at} is another");
        }
    }
}

#[test]
fn frames_that_the_interface_cannot_carry_are_counted_and_the_others_arrive() {
    let test = test_name!();
    let Some(lab) = testing::lab(test) else { return };
    // Every seventh is longer than the MTU permits, but fits a slot of a ring.
    let bytes = |at: u32| if at % 7 == 3 { MTU + 15 } else { 100 };
    let frames: Vec<_> = (0..700).map(|at| frame(at, bytes(at))).collect();
    let fitting: Vec<_> = frames.iter().filter(|frame| frame.len() == 100).cloned().collect();
    for (name, mut tx) in Tx::all(&lab) {
        if matches!(tx, Tx::Xdp(_)) {
            // AF_XDP takes them and loses them; who uses it has to look first.
            continue;
        }
        let receiver = Receiver::at(&lab, RX.name);
        let refused = tx.send_all(&frames);
        let later = tx.counts().map_or(0, |counts| counts.refused as usize);
        assert_eq!(refused + later, 100, "{name}");
        assert!(receiver.bytes(fitting.len()) == fitting, "{name}");
    }
}

#[test]
fn a_frame_too_long_for_a_slot_is_refused_alone() {
    let Some(lab) = testing::lab(test_name!()) else { return };
    let frames = [frame(0, 100), frame(1, 9000), frame(2, 100)];
    for (name, mut tx) in Tx::all(&lab) {
        let receiver = Receiver::at(&lab, RX.name);
        assert_eq!(tx.send_all(&frames), 1, "{name}");
        assert!(receiver.bytes(2) == [frames[0].clone(), frames[2].clone()], "{name}");
    }
}

#[test]
fn an_interface_that_goes_down_ends_it_with_an_error() {
    let Some(lab) = testing::lab(test_name!()) else { return };
    let mut all = Tx::all(&lab);
    let index = link(&lab).index;
    let down = || Rtnl::open()?.change(index, LinkChange::Up(false));
    lab.tx.run(down).expect("a thread in the namespace").expect("switched off");
    for (name, tx) in &mut all {
        // A ring has taken the first one before it hears.
        let mut send = || tx.send([frame(0, 100)].iter().map(Vec::as_slice));
        let error = send().and_then(|_| send()).expect_err(name);
        assert!(matches!(error.raw(), 100 | 6), "{name}: {error}");
    }
}

#[test]
fn veth_has_no_zero_copy_and_one_program_has_a_queue() {
    let Some(lab) = testing::lab(test_name!()) else { return };
    let index = link(&lab).index;
    let open = |mode| XdpTx::open(index, TX.name, 0, FRAME_BYTES_MAX, Some(mode));
    let try_all = || {
        let copy = match open(XdpMode::Copy) {
            Err(error) if testing::is_refusal(&error) => {
                testing::skip(test_name!(), &error.to_string());
                return;
            }
            copy => copy.expect("a socket"),
        };
        assert_eq!(copy.mode, XdpMode::Copy);
        assert!(open(XdpMode::Copy).is_err(), "the queue is taken");
        drop(copy);
        assert!(open(XdpMode::ZeroCopy).is_err());
        let either = XdpTx::open(index, TX.name, 0, FRAME_BYTES_MAX, None).expect("a socket");
        assert_eq!(either.mode, XdpMode::Copy);
        drop(either);
        assert!(XdpTx::open(index, TX.name, 7, FRAME_BYTES_MAX, None).is_err(), "there is no such queue");
        let jumbo = XdpTx::open(index, TX.name, 0, 9018, None).expect_err("too long");
        assert_eq!(jumbo.raw(), 90, "{jumbo}");
    };
    lab.tx.run(try_all).expect("a thread in the namespace");
}
