//! Labs on the real kernel.

use quaff_lab::{Error, FAR, Lab, LabPlan, Layout, RX, TX};
use quaff_os::Netns;
use quaff_os::bpf::{Asm, Program, Reg, Verdict};
use quaff_os::ethtool::Card;
use quaff_os::packet::{CountingTap, Qdisc, TxSocket};
use quaff_os::rtnl::{LinkChange, Rtnl, link};
use quaff_testkit::{lab, lab_of, test_name};
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

/// Ethernet with a type that no protocol answers (IEEE 802 local experimental, 0x88b5).
fn frame(bytes: usize) -> Vec<u8> {
    let mut frame = [RX.mac.as_slice(), &TX.mac, &[0x88, 0xb5]].concat();
    frame.resize(bytes, 0x5a);
    frame
}

#[test]
fn both_ends_are_there_as_planned() {
    let plan = LabPlan { mtu: 9216, queues: 2, ..LabPlan::default() };
    let Some(lab) = lab_of(test_name!(), &plan) else { return };
    for (netns, name, mac) in [(&lab.tx, TX.name, TX.mac), (&lab.rx, RX.name, RX.mac)] {
        let (link, card) = netns.run(|| (link(name).unwrap(), Card::read(name))).expect("entered");
        assert_eq!((link.mtu, link.mac, link.up, link.running), (9216, mac, true, true));
        assert_eq!(card.driver.as_ref().unwrap().as_deref(), Some("veth"));
        let is_on = |(name, it): (&String, &quaff_os::ethtool::Feature)| {
            it.is_on && (name.starts_with("tx-checksum-") || ["rx-gro", "rx-lro"].contains(&name.as_str()))
        };
        assert!(!card.features.unwrap().iter().any(is_on));
    }
    let mut ls = lab.rx.command("ls").unwrap();
    let listed = ls.arg("/sys/class/net").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "lo\nrx0\n");
}

#[test]
fn the_two_sides_can_talk() {
    let Some(lab) = lab(test_name!()) else { return };
    let to = lab.rx.run(|| UdpSocket::bind((RX.ip, 0)).unwrap()).unwrap();
    let from = lab.tx.run(|| UdpSocket::bind((TX.ip, 0)).unwrap()).unwrap();
    to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    from.send_to(b"hello", to.local_addr().unwrap()).unwrap();
    let mut bytes = [0; 16];
    let (length, sender) = to.recv_from(&mut bytes).unwrap();
    assert_eq!((&bytes[..length], sender), (b"hello".as_slice(), from.local_addr().unwrap()));
}

#[test]
fn only_sent_frames_are_on_the_wire() {
    let Some(lab) = lab(test_name!()) else { return };
    let from = lab.tx.run(|| UdpSocket::bind((TX.ip, 0)).unwrap()).unwrap();
    for _ in 0..10 {
        // No socket listens there, and no ICMP error reports it.
        from.send_to(b"anybody?", (RX.ip, 9)).unwrap();
    }
    std::thread::sleep(Duration::from_secs(3));
    let (rx, tx) = (lab.stats(RX).unwrap(), lab.stats(TX).unwrap());
    assert_eq!((rx.rx_packets, rx.tx_packets), (10, 0), "{rx:?}");
    assert_eq!((tx.rx_packets, tx.tx_packets), (0, 10), "{tx:?}");
}

#[test]
fn sent_frames_are_counted_at_the_other_end() {
    let Some(lab) = lab(test_name!()) else { return };
    let sender = lab
        .tx
        .run(|| TxSocket::open(link(TX.name).unwrap().index, "the end", Qdisc::Through))
        .unwrap()
        .unwrap();
    let mut bytes = 0;
    for i in 0..20_000 {
        let frame = frame(64 + i % 1400);
        sender.send_one(&frame).unwrap();
        bytes += frame.len() as u64;
    }
    let rx = lab.stats(RX).unwrap();
    assert_eq!((rx.rx_packets, rx.rx_bytes), (20_000, bytes));
    assert_eq!((rx.rx_missed, rx.rx_fifo, rx.rx_over), (0, 0, 0));
}

#[test]
fn nothing_is_left_of_a_lab_that_was_dropped() {
    let Some(lab) = lab(test_name!()) else { return };
    let names = [lab.tx.name.clone(), lab.rx.name.clone()];
    let name = lab.name.clone();
    assert!(Lab::list().unwrap().iter().any(|info| info.name == name && info.in_use && !info.persistent));
    drop(lab);
    assert!(!Lab::list().unwrap().iter().any(|info| info.name == name));
    assert!(names.iter().all(|name| !Path::new("/run/netns").join(name).exists()), "{names:?}");
    assert!(matches!(Lab::attach(&name), Err(Error::Unknown { .. })));
}

/// Takes a kept lab down, however its test ends.
struct DownAtLast(String);

impl Drop for DownAtLast {
    fn drop(&mut self) {
        let _ = Lab::take_down(&self.0);
    }
}

#[test]
fn a_lab_that_is_kept_stays_until_it_is_taken_down() {
    let Some(lab) = lab(test_name!()) else { return };
    let kept = lab.keep().unwrap();
    let _down = DownAtLast(kept.name.clone());
    // A new lab sweeps those that were left behind.
    drop(Lab::create(&LabPlan::default()).unwrap());
    let used = Lab::attach(&kept.name).unwrap();
    let beside = Lab::attach(&kept.name).unwrap();
    assert_eq!(used.mtu, LabPlan::default().mtu);
    assert!(matches!(Lab::take_down(&kept.name), Err(Error::InUse { .. })));
    drop((used, beside));
    assert_eq!(Lab::join(&kept.name).unwrap().rx.name, kept.rx);
    assert!(Netns::open(&kept.rx).is_ok(), "letting go of it leaves it up");
    assert!(matches!(
        Lab::create(&LabPlan { name: Some(kept.name.clone()), ..LabPlan::default() }),
        Err(Error::Taken(_))
    ));
    Lab::take_down(&kept.name).unwrap();
    assert!(Netns::open(&kept.rx).is_err());
    assert!(matches!(Lab::take_down(&kept.name), Err(Error::Unknown { .. })));
}

#[test]
fn labs_made_at_once_do_not_collide() {
    let Some(first) = lab(test_name!()) else { return };
    let mut names: Vec<_> = std::thread::scope(|scope| {
        let make = || Lab::create(&LabPlan::default()).map(|lab| lab.name.clone());
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
    });
    names.push(first.name.clone());
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 7);
}

#[test]
fn plans_that_cannot_be_are_refused_before_anything_is_made() {
    for mtu in [0, 67, 9217, u32::MAX] {
        assert!(matches!(Lab::create(&LabPlan { mtu, ..LabPlan::default() }), Err(Error::Mtu { .. })));
    }
    let test = test_name!();
    if lab(test).is_none() {
        return;
    }
    for name in ["", ".", "..", "a/b", "-x", ".x", "ä", "a b", &"x".repeat(65)] {
        let plan = LabPlan { name: Some(name.to_owned()), ..LabPlan::default() };
        assert!(matches!(Lab::create(&plan), Err(Error::Name { .. })), "{name:?}");
        assert!(matches!(Lab::attach(name), Err(Error::Name { .. })), "{name:?}");
        assert!(matches!(Lab::take_down(name), Err(Error::Name { .. })), "{name:?}");
    }
}

#[test]
fn the_link_takes_a_native_xdp_program_unless_its_frames_are_too_large() {
    let test = test_name!();
    let Some(lab) = lab(test) else { return };
    let mut asm = Asm::default();
    asm.mov64(Reg::R0, Verdict::XdpDrop);
    asm.exit();
    let drop_all = Program::load_xdp("quaff_test", asm).unwrap();
    let sender = lab
        .tx
        .run(|| TxSocket::open(link(TX.name).unwrap().index, "the end", Qdisc::Through))
        .unwrap()
        .unwrap();
    let seen = |attached: bool| {
        lab.rx.run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            let index = rtnl.link(RX.name).unwrap().index;
            rtnl.change(index, LinkChange::Xdp(attached.then_some(&drop_all))).unwrap();
            let mut tap = CountingTap::open(index, RX.name, None).unwrap();
            (0..10).for_each(|_| sender.send_one(&frame(64)).unwrap());
            tap.read().unwrap()
        })
    };
    assert_eq!((seen(true).unwrap(), seen(false).unwrap()), (0, 10));

    let large = Lab::create(&LabPlan { mtu: 9000, ..LabPlan::default() }).unwrap();
    let attach = || {
        Rtnl::open().unwrap().change(link(RX.name).unwrap().index, LinkChange::Xdp(Some(&drop_all))).map(drop)
    };
    assert!(large.rx.run(attach).unwrap().is_err());
}

#[test]
fn each_topology_passes_frames_and_shows_them_as_its_layout_describes() {
    let test = test_name!();
    // What is counted at either end and at the third, where one end sends 30 frames and the other 12. A counter
    // on a sender's interface has what it has sent, too.
    for (layout, expected) in [
        (Layout::Span, [42, 42, 42]),
        (Layout::Tap, [42, 42, 42]),
        (Layout::Bridge, [42, 42, 0]),
        (Layout::Apart, [30, 12, 0]),
    ] {
        let plan = LabPlan { layout, ..LabPlan::default() };
        let Some(lab) = lab_of(test, &plan) else { return };
        let far = lab.far.as_ref().expect("a second end");
        let count = |netns: &Netns, name: &'static str| {
            netns.run(|| CountingTap::open(link(name).unwrap().index, name, None).unwrap()).unwrap()
        };
        let (mut near, mut other, mut seen) =
            (count(&lab.tx, TX.name), count(far, FAR.name), count(&lab.rx, RX.name));
        for (netns, name, frames) in [(&lab.tx, TX.name, 30), (far, FAR.name, 12)] {
            let sender = netns
                .run(|| TxSocket::open(link(name).unwrap().index, "the end", Qdisc::Through).unwrap())
                .unwrap();
            (0..frames).for_each(|_| sender.send_one(&frame(200)).unwrap());
        }
        std::thread::sleep(Duration::from_millis(200));
        let counts = [near.read().unwrap(), other.read().unwrap(), seen.read().unwrap()];
        assert_eq!(counts, expected, "{layout:?}");
        let names = ["tx", "far", "mid", "rx"].map(|part| format!("{}-{part}", lab.name));
        lab.down().unwrap();
        assert!(names.iter().all(|name| Netns::open(name).is_err()), "{layout:?}");
    }
}
