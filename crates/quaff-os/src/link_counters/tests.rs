//! Readings as the drivers give them, replayed: the counters have the names of the drivers' sources in Linux. A test
//! that names a public thread has the names of a printout there, and some of its values.

use super::drivers::{self, Driver};
use super::meter::{Reading, drops};
use super::*;
use crate::rtnl::LowerLink;

/// A reading from lines of `NAME VALUE`; the names of route netlink have the prefix `rtnl.`.
fn reading(driver: &Driver, lines: &str) -> Reading {
    let mut found = Reading::default();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        let value = value.parse().expect("a number");
        match name.trim().strip_prefix("rtnl.") {
            Some("rx_missed") => found.stats.rx_missed = value,
            Some("rx_fifo") => found.stats.rx_fifo = value,
            Some("rx_over") => found.stats.rx_over = value,
            Some("rx_dropped") => found.stats.rx_dropped = value,
            Some(name) => panic!("{name}"),
            None if driver.meaning(name.trim()).is_none() => {}
            None => *found.counters.entry(name.trim().to_owned()).or_default() += value,
        }
    }
    found
}

/// The drops of a driver between two readings: (nic_dropped, rx_dropped, driver_dropped), and the counters shown.
fn replay(name: &str, before: &str, after: &str) -> ((u64, u64, u64), Vec<(String, u64)>) {
    let driver = drivers::of(Some(name));
    let found = drops(driver, &reading(driver, before), &reading(driver, after));
    let dropped = (found.nic_dropped, found.rx_dropped, found.driver_dropped);
    (dropped, found.driver_counters.into_iter().collect())
}

fn shown(counters: &[(&str, u64)]) -> Vec<(String, u64)> {
    counters.iter().map(|(name, rise)| ((*name).to_owned(), *rise)).collect()
}

#[test]
fn ena_has_all_drops_in_rx_dropped() {
    let before = "rtnl.rx_dropped 10
        rx_drops 10
        bw_in_allowance_exceeded 0
        queue_0_rx_csum_bad 0";
    let after = "rtnl.rx_dropped 130
        rx_drops 130
        bw_in_allowance_exceeded 0
        queue_0_rx_csum_bad 0";
    assert_eq!(replay("ena", before, after), ((0, 120, 0), vec![]));
    let shaped = after.replace("bw_in_allowance_exceeded 0", "bw_in_allowance_exceeded 150");
    let expected = shown(&[("bw_in_allowance_exceeded", 150)]);
    assert_eq!(replay("ena", before, &shaped), ((0, 120, 150), expected));
}

#[test]
fn tg3_has_one_event_in_two_counters() {
    let before = "rtnl.rx_missed 0
        rtnl.rx_over 0
        rx_discards 0
        rxbds_empty 0";
    let after = "rtnl.rx_missed 500
        rtnl.rx_over 480
        rx_discards 500
        rxbds_empty 480
        tx_discards 7";
    assert_eq!(replay("tg3", before, after), ((500, 0, 0), vec![]));
}

#[test]
fn mlx5e_has_drops_of_the_port_beside() {
    let before = "rtnl.rx_missed 4
        rx_out_of_buffer 4
        rx_discards_phy 1000
        rx_prio0_discards 1000
        rx0_packets 5";
    let after = "rtnl.rx_missed 44
        rx_out_of_buffer 44
        rx_discards_phy 1000
        rx_prio0_discards 1000
        rx0_packets 500
        tx_discards_phy 9";
    assert_eq!(replay("mlx5_core", before, after), ((40, 0, 0), vec![]));
    // Before Linux 6.13 the port's drops are in no field of route netlink; since then they are in rx_dropped.
    let old = after.replace("phy 1000", "phy 1700").replace("prio0_discards 1000", "prio0_discards 1700");
    let port = shown(&[("rx_discards_phy", 700)]);
    assert_eq!(replay("mlx5_core", before, &old), ((40, 0, 660), port.clone()));
    let new = format!("{old}\nrtnl.rx_dropped 700");
    assert_eq!(replay("mlx5_core", before, &new), ((40, 700, 660), port));
}

#[test]
fn ixgbe_drops_in_the_queues_are_not_in_rx_missed() {
    let before = "rtnl.rx_missed 1
        rx_missed_errors 1
        rx_no_dma_resources 10
        fdir_miss 77";
    let after = "rtnl.rx_missed 6
        rx_missed_errors 6
        rx_no_dma_resources 30
        fdir_miss 9999
        alloc_rx_page_failed 3";
    assert_eq!(replay("ixgbe", before, after), ((5 + 20, 0, 0), shown(&[("rx_no_dma_resources", 20)])));
}

#[test]
fn igb_drops_in_the_queues_are_rx_fifo() {
    let before = "rtnl.rx_fifo 0
        rx_queue_0_drops 0
        rx_queue_1_drops 0";
    let after = "rtnl.rx_missed 3
        rtnl.rx_fifo 12
        rx_missed_errors 3
        rx_fifo_errors 12
        rx_no_buffer_count 900
        rx_queue_0_drops 5
        rx_queue_1_drops 7";
    assert_eq!(replay("igb", before, after), ((15, 0, 0), vec![]));
}

#[test]
fn virtio_net_and_veth_drops_in_the_queues_are_rx_dropped() {
    let after = "rtnl.rx_dropped 9
        rx_queue_0_drops 4
        rx_queue_1_drops 5
        tx_queue_0_xdp_xmit_errors 1";
    for name in ["virtio_net", "veth"] {
        assert_eq!(replay(name, "", after), ((0, 9, 0), vec![]), "{name}");
        let driver = drivers::of(Some(name));
        assert_eq!(drops(driver, &Reading::default(), &reading(driver, after)).rx_dropped_by_driver, 9);
    }
    // Drops that the host reports (Linux 6.10).
    let device = "rx0_hw_drops 6
        rx0_hw_drop_overruns 6
        rx0_drops 0";
    assert_eq!(replay("virtio_net", "", device), ((6, 0, 0), shown(&[("rx0_hw_drops", 6)])));
}

#[test]
fn vmxnet3_has_the_same_names_for_each_queue() {
    let before = "Rx Queue# 0
        pkts rx OOB 2
        Rx Queue# 1
        pkts rx OOB 3";
    let after = "Rx Queue# 0
        pkts rx OOB 12
        Rx Queue# 1
        pkts rx OOB 33
        drv dropped rx total 4
        drv dropped tx total 8
        rtnl.rx_dropped 4";
    assert_eq!(replay("vmxnet3", before, after), ((40, 4, 0), shown(&[("pkts rx OOB", 40)])));
}

#[test]
fn an_unknown_drop_counter_counts_as_far_as_others_do_not_explain_it() {
    let after = "rtnl.rx_missed 100
        rx_chip_discards 100
        rxq0_nobuf_drop 60
        rx_packets 5
        tx_drops 3";
    let all = shown(&[("rx_chip_discards", 100), ("rxq0_nobuf_drop", 60)]);
    assert_eq!(replay("somenic", "", after), ((100, 0, 0), all.clone()));
    let more = after.replace("rtnl.rx_missed 100", "rtnl.rx_missed 30");
    assert_eq!(replay("somenic", "", &more), ((30, 0, 70), all));
}

/// The printout of <https://github.com/isc-projects/ethq/issues/20> has both totals and queues, that of
/// <https://github.com/netdata/netdata/issues/17015> (virtio_net) queues only.
#[test]
fn drops_of_an_xdp_program_are_counted_once_and_apart() {
    let found = |name: &str, after: &str| {
        let driver = drivers::of(Some(name));
        let found = drops(driver, &Reading::default(), &reading(driver, after));
        (found.xdp_dropped, found.rx_dropped, found.rx_dropped_by_driver, found.driver_dropped)
    };
    let mlx5 = "rx_xdp_drop 70
        rx_xdp_redirect 59031087
        rx0_xdp_drop 30
        rx1_xdp_drop 40";
    assert_eq!(found("mlx5_core", mlx5), (70, 0, 0, 0));
    // virtio_net has them in rx_dropped and in the queues' drops as well.
    let virtio = "rtnl.rx_dropped 25
        rx_queue_0_drops 12
        rx_queue_1_drops 13
        rx_queue_0_xdp_drops 10
        rx_queue_1_xdp_drops 9";
    assert_eq!(found("virtio_net", virtio), (19, 6, 6, 0));
    let veth = "rtnl.rx_dropped 4
        rx_queue_0_drops 1
        rx_queue_0_xdp_drops 10
        rx_queue_1_xdp_drops 9";
    assert_eq!(found("veth", veth), (19, 4, 1, 0));
    let unknown = "rx_xdp_drop 19
        rxq0: xdp_drops 10
        rxq1: xdp_drops 9
        rx_xdp_tx_full 5";
    assert_eq!(found("somenic", unknown), (19, 0, 0, 0));
    assert_eq!(found("ena", "queue_0_rx_xdp_drop 4\nqueue_1_rx_xdp_drop 5"), (9, 0, 0, 0));
}

/// Values per second of an XL710 that a sender overran, with one flow (Federico Parola on xdp-newbies, 14 October 2020,
/// "Re: Multi-core scalability problems"): what the port received is what it dropped, what the function dropped, and
/// rx_packets, so the two drops are different packets.
#[test]
fn i40e_drops_of_the_port_are_in_no_other_counter() {
    let after = "rtnl.rx_dropped 17756128
        port.fdir_sb_match 35458700
        port.rx_dropped 7185397
        port.rx_unicast 42644140
        rx_dropped 17756128
        rx_packets 17702594
        rx_unicast 35458743";
    let port = shown(&[("port.rx_dropped", 7_185_397)]);
    assert_eq!(replay("i40e", "", after), ((0, 17_756_128, 7_185_397), port));
    let driver = drivers::of(Some("i40e"));
    let found = drops(driver, &Reading::default(), &reading(driver, after));
    let tap = Tap { link: &found, other_protocols: 0, hidden: 0 };
    let missing = 42_644_140 - 17_702_594;
    assert!(tap.may_lack(0).abs_diff(missing) < 100, "{} of {missing}", tap.may_lack(0));
}

#[test]
fn ice_and_bnxt_have_the_drops_of_the_rings_in_the_kernels_fields() {
    let ice = "rtnl.rx_missed 40
        rtnl.rx_dropped 7
        rx_dropped 7
        rx_dropped.nic 40
        tx_dropped_link_down.nic 3";
    assert_eq!(replay("ice", "", ice), ((40, 7, 0), vec![]));
    let bnxt = "rtnl.rx_missed 23554
        rtnl.rx_dropped 2
        [0]: rx_discards 0
        [2]: rx_discards 23554
        [2]: rx_errors 3
        rx_total_discard_pkts 23554
        rx_total_oom_discards 2
        rx_discard_bytes_cos0 1507456
        rx_discard_packets_cos0 23554
        rx_stat_discard 0";
    let expected = shown(&[("rx_discard_packets_cos0", 23_554)]);
    assert_eq!(replay("bnxt_en", "", bnxt), ((23_554, 2, 0), expected));
    let at_the_port = bnxt.replace("rx_stat_discard 0", "rx_stat_discard 30000");
    assert_eq!(replay("bnxt_en", "", &at_the_port).0, (23_554, 2, 30_000 - 23_554));
}

/// <https://github.com/luigirizzo/netmap/issues/649>: ifconfig showed `dropped 48`, which adds `rx_missed` to
/// `rx_dropped`, and `ethtool -S` `rx_out_of_buffer: 48`.
#[test]
fn mlx5e_without_buffers_is_counted_once() {
    let after = "rtnl.rx_missed 48
        rx_out_of_buffer 48";
    assert_eq!(replay("mlx5_core", "", after), ((48, 0, 0), vec![]));
}

/// <https://github.com/netdata/netdata/issues/988>, an e1000e: `rx_missed_errors: 4954`, `rx_no_buffer_count: 527`, and
/// `dropped:7183` by ifconfig, which adds `rx_missed` to `rx_dropped`.
#[test]
fn e1000e_has_frames_that_waited_beside_those_dropped() {
    let after = "rtnl.rx_missed 4954
        rtnl.rx_dropped 2229
        rx_no_buffer_count 527
        rx_missed_errors 4954
        tx_dropped 0";
    assert_eq!(replay("e1000e", "", after), ((4954, 2229, 0), vec![]));
}

/// Names of a be2net (<https://github.com/strizhechenko/netutils-linux/issues/208>) and of a bnx2x
/// (<https://github.com/isc-projects/ethq/issues/6>), which are not listed: the queues of a counter are added up.
#[test]
fn queues_of_an_unknown_driver_are_added_up() {
    let be2net = "rtnl.rx_fifo 5
        rx_drops_no_pbuf 5
        rxq0: rx_drops_no_frags 100
        rxq1: rx_drops_no_frags 200
        rxq0: rx_drops_no_skbs 7
        rx_address_filtered 40618447
        rx_pkts 388869057759";
    assert_eq!(replay("be2net", "", be2net).0, (5, 0, 295));
    let bnx2x = "[0]: rx_discards 3
        [1]: rx_discards 4
        [0]: rx_phy_ip_err_discards 1
        [0]: driver_filtered_tx_pkt 9";
    let expected =
        shown(&[("[0]: rx_discards", 3), ("[0]: rx_phy_ip_err_discards", 1), ("[1]: rx_discards", 4)]);
    assert_eq!(replay("bnx2x", "", bnx2x), ((0, 0, 7), expected));
}

/// <https://github.com/amzn/amzn-drivers/issues/185>: packets above the instance's allowance are in no field of the
/// kernel.
#[test]
fn ena_allowances_are_doubtful() {
    let after = "pps_allowance_exceeded 900
        bw_out_allowance_exceeded 5
        rtnl.rx_dropped 0";
    assert_eq!(replay("ena", "", after), ((0, 0, 900), shown(&[("pps_allowance_exceeded", 900)])));
}

#[test]
fn late_counters_are_read_until_two_readings_agree() {
    let count = |refresh: Duration, counts: &[u64]| {
        let (mut left, mut last, mut pauses) = (counts.iter(), None, 0);
        let read = || {
            let next = left.next().copied();
            last = next.or(last);
            next
        };
        settle(refresh, read, |_| pauses += 1);
        (last, pauses)
    };
    let late = drivers::of(Some("mlx5_core")).refresh;
    // The first answer is of before the end.
    assert_eq!(count(late, &[5, 25, 25, 99]), (Some(25), 2));
    assert_eq!(count(late, &[5, 5, 99]), (Some(5), 1));
    // They never agree: it ends all the same.
    assert_eq!(count(late, &[6, 7, 8, 9, 10, 11]), (Some(9), 3));
    // The interface went away.
    assert_eq!(count(late, &[7]), (Some(7), 1));
    assert_eq!(count(late, &[]), (None, 0));
    // An exact driver is read once.
    assert_eq!(count(drivers::of(Some("veth")).refresh, &[7, 8]), (Some(7), 0));
}

/// The drops of an interface above eth0, whose counters rose to `below`.
fn replay_above(kind: (&str, &str), below: (&str, &str)) -> LinkDrops {
    let meter = |name: &str, (driver, lines): (&str, &str)| {
        let driver = drivers::of(Some(driver));
        Meter::replayed(name, driver, reading(driver, lines))
    };
    let (own, lower) = (meter("upper", kind), vec![Lower::replayed(meter("eth0", below))]);
    LinkCounters { own, disciplines: Wrapping::default(), lower, links: None, cores: None }.drops()
}

/// `bond_get_stats` adds the counters of the ports up.
#[test]
fn drops_of_a_port_are_not_those_of_the_bond_too() {
    let port = "rtnl.rx_missed 4
        rx_missed_errors 4
        rtnl.rx_dropped 10";
    let bond = "rtnl.rx_missed 4
        rtnl.rx_dropped 13";
    let found = replay_above(("bonding", bond), ("ixgbe", port));
    assert_eq!((found.nic_dropped, found.rx_dropped), (4, 3));
    assert_eq!((found.lower[0].dropped, found.lower[0].rx_dropped), (0, 10));
    // Below a VLAN they are in one counter only.
    let found = replay_above(("802.1Q VLAN Support", "rtnl.rx_dropped 2"), ("ixgbe", port));
    assert_eq!((found.nic_dropped, found.rx_dropped), (0, 2));
    assert_eq!((found.lower[0].dropped, found.lower[0].rx_dropped), (4, 10));
    let counters = [("eth0 nic_dropped".to_owned(), 4), ("eth0 rx_dropped".to_owned(), 10)];
    assert_eq!(found.lower_counters, counters.into());
    // Drops of the port that the driver has in rx_dropped as well count once.
    let mlx5 = "rtnl.rx_dropped 700
        rx_discards_phy 700";
    let found = replay_above(("bridge", ""), ("mlx5_core", mlx5));
    assert_eq!((found.lower[0].dropped, found.lower[0].rx_dropped), (0, 700));
}

#[test]
fn interfaces_below_are_found_at_any_depth() {
    let link = |index: u32, master: Option<u32>, lower: Option<LowerLink>| Link {
        index,
        name: format!("if{index}"),
        mac: [0; 6],
        mtu: 1500,
        arphrd: 1,
        up: true,
        running: true,
        promiscuous: false,
        arp: true,
        kind: String::new(),
        master,
        lower,
        xdp_program: None,
    };
    // A VLAN (5) on a bond (4) of two cards (2, 3); another VLAN (6) of the first card; a bridge (7) with the first
    // VLAN.
    let links = [
        link(1, None, None),
        link(2, Some(4), None),
        link(3, Some(4), None),
        link(4, None, None),
        link(5, Some(7), Some(LowerLink::Here(4))),
        link(6, None, Some(LowerLink::Here(2))),
        link(7, None, None),
        link(8, None, Some(LowerLink::Elsewhere)),
    ];
    let below = |at: usize| {
        let (found, has_others) = interfaces_below(&links[at - 1], &links);
        (found.into_iter().map(|link| link.index).collect::<Vec<_>>(), has_others)
    };
    assert_eq!(below(7), (vec![5, 4, 2, 3], false));
    assert_eq!((below(6), below(2)), ((vec![2], false), (vec![], false)));
    assert_eq!(below(8), (vec![], true));
}

#[test]
fn loopback_is_read() {
    let mut rtnl = Rtnl::open().expect("a socket");
    let link = rtnl.link("lo").expect("every namespace has lo");
    let mut counters = LinkCounters::open(&link, &mut rtnl).expect("counters");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.send_to(b"one frame", socket.local_addr().expect("bound")).expect("sent");
    counters.restart_rx_dropped(&mut rtnl).expect("counters");
    counters.settle(&mut rtnl);
    assert!(counters.received() >= 1);
    assert_eq!((counters.nic_dropped(), counters.drops().driver_dropped), (0, 0));
    assert_eq!((counters.drops().lower.len(), counters.drops().cores), (0, None));
    counters.read(&mut rtnl).expect("counters");
}
