//! Readings as the drivers give them, replayed: the counters have the names of the drivers' sources in Linux.

use super::*;

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

/// The drops of a driver between two readings: (nic_dropped, rx_dropped, doubtful), and the counters shown.
fn replay(name: &str, before: &str, after: &str) -> ((u64, u64, u64), Vec<(String, u64)>) {
    let driver = drivers::of(Some(name));
    let found = drops(driver, &reading(driver, before), &reading(driver, after));
    ((found.nic_dropped, found.rx_dropped, found.doubtful), found.counters.into_iter().collect())
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
        rx_queue_0_xdp_drops 100
        tx_queue_0_xdp_xmit_errors 1";
    for driver in ["virtio_net", "veth"] {
        assert_eq!(replay(driver, "", after), ((0, 9, 0), vec![]), "{driver}");
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

#[test]
fn late_counters_are_read_until_two_readings_agree() {
    let driver = drivers::of(Some("mlx5_core"));
    let missed = |count: u64| reading(driver, &format!("rtnl.rx_missed {count}"));
    let settle = |driver: &Driver, counts: &[u64]| {
        let (mut left, mut pauses) = (counts.iter(), 0);
        let read = || left.next().map(|count| missed(*count));
        let found = settled(driver, &missed(5), read, |_| pauses += 1);
        (found.map(|reading| reading.stats.rx_missed), pauses)
    };
    // The first answer is of before the end.
    assert_eq!(settle(driver, &[5, 25, 25, 99]), (Some(25), 2));
    assert_eq!(settle(driver, &[5, 5, 99]), (Some(5), 1));
    // They never agree: it ends all the same.
    assert_eq!(settle(driver, &[6, 7, 8, 9, 10, 11]), (Some(9), 3));
    // The interface went away.
    assert_eq!(settle(driver, &[7]), (Some(7), 1));
    assert_eq!(settle(driver, &[]), (None, 0));
    // An exact driver is read once.
    assert_eq!(settle(drivers::of(Some("veth")), &[7, 8]), (Some(7), 0));
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
    assert_eq!((counters.drops().nic_dropped, counters.drops().doubtful), (0, 0));
    counters.read(&mut rtnl).expect("counters");
}
