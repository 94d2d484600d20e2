//! Readings of a healthy machine, and the finding for each deviation.

use super::super::look::machine;
use super::super::machine::{ClockSource, Frequency, IdleState, Mount, Owner, Power};
use super::super::readings::{
    InterfaceReadings, MachineReadings, Readings, Rise, TargetReadings, Wanted, WriteRate,
};
use super::super::{Diagnosis, Setting, Severity, judge};
use crate::cores::{Core, Irq, Nic, Topology};
use quaff_os::clock::Discipline;
use quaff_os::ethtool::{Channels, Coalescing, Feature, RxRingSize};
use quaff_os::packet::PacketSocket;
use quaff_os::softnet::Softnet;
use std::collections::BTreeMap;
use std::time::Duration;

/// Two nodes of four cores each.
fn topology(allowed: &[usize]) -> Topology {
    let core = |id: usize| Core {
        id,
        siblings: vec![id],
        l2: vec![id],
        l3: if id < 4 { vec![0, 1, 2, 3] } else { vec![4, 5, 6, 7] },
        node: Some(id / 4),
        is_allowed: allowed.contains(&id),
    };
    Topology { cores: (0..8).map(core).collect() }
}

fn feature(is_on: bool, is_fixed: bool) -> Feature {
    Feature { is_on, is_fixed }
}

fn features(gro: Feature, gro_hw: Feature, lro: Feature) -> BTreeMap<String, Feature> {
    let vlan = feature(true, false);
    let all = [
        ("rx-gro", gro),
        ("rx-gro-hw", gro_hw),
        ("rx-lro", lro),
        ("rx-vlan-hw-parse", vlan),
        ("rx-vlan-filter", vlan),
    ];
    all.map(|(name, feature)| (name.to_owned(), feature)).into()
}

/// A card of 10 Gb/s on node 1, with an interrupt on each of `cores`.
fn card(cores: &[usize]) -> InterfaceReadings {
    let off = feature(false, false);
    let irq = |(at, core): (usize, &usize)| Irq {
        number: 100 + at,
        name: format!("eth7-TxRx-{at}"),
        cores: vec![*core],
    };
    InterfaceReadings {
        name: "eth7".into(),
        index: 9,
        is_up: true,
        is_running: true,
        is_below: false,
        is_hardware: true,
        driver: Ok(Some("ixgbe".into())),
        speed_mbps: Ok(Some(10_000)),
        ring: Ok(Some(RxRingSize { frames: 8192, frames_max: 8192 })),
        channels: Ok(Some(Channels { receiving: 2, receiving_max: 8, is_combined: true })),
        coalescing: Ok(Some(Coalescing { rx_usecs: 50, rx_frames: 0, is_adaptive: false })),
        features: Ok(Some(features(off, off, off))),
        rss: Ok(Some(vec![0, 1, 0, 1])),
        nic: Nic { name: "eth7".into(), node: Some(1), irqs: cores.iter().enumerate().map(irq).collect() },
        lane_core: None,
        has_rps: false,
        xdp: None,
        readers: Ok(Some(Vec::new())),
        owners: Vec::new(),
        dropped: Ok(Some(0)),
        dropped_rise: Some(Rise { time: Duration::from_secs(1), by: 0 }),
    }
}

fn healthy() -> Readings {
    let all: Vec<_> = (0..8).collect();
    let power = |core: usize| Power {
        core,
        frequency: Some(Frequency {
            governor: "performance".into(),
            governors: vec!["performance".into(), "powersave".into()],
            khz_min: 800_000,
            khz_max: 3_600_000,
            path: format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor").into(),
        }),
        idle: vec![idle(core, 1, "C1", 2), idle(core, 2, "C6", 133)],
    };
    let softnet = |core: usize| Softnet { core, processed: 1_000_000, dropped: 0, squeezed: 3 };
    let mut machine = MachineReadings {
        topology: Ok(Some(topology(&all))),
        power: all.iter().map(|core| power(*core)).collect(),
        backlog_frames: Ok(Some(1000)),
        budget_frames: Ok(Some(300)),
        budget_us: Ok(Some(2000)),
        rmem_max_bytes: Ok(Some(4 << 20)),
        softnet: Ok(Some(all.iter().map(|core| softnet(*core)).collect())),
        uptime: Ok(Some(Duration::from_secs(86_400))),
        clock_source: Ok(Some(ClockSource {
            current: "tsc".into(),
            available: vec!["tsc".into(), "hpet".into()],
            path: "/sys/devices/system/clocksource/clocksource0/current_clocksource".into(),
        })),
        discipline: Ok(Some(Discipline { is_synchronised: true, error_max: Duration::from_millis(3) })),
        ..MachineReadings::none()
    };
    // A card of 10 Gb/s with a ring of 8192 frames can wait for 275 µs.
    for core in &mut machine.power {
        core.idle[1].latency_us = 133;
    }
    let target = TargetReadings {
        dir: "/data".into(),
        refused: None,
        mount: Ok(Some(Mount {
            fs_type: "xfs".into(),
            device: "/dev/nvme0n1".into(),
            mount_point: "/data".into(),
            is_read_only: false,
        })),
        is_memory: false,
        free_bytes: Ok(Some(2 << 40)),
        direct_align: Ok(Some(512)),
        written: Ok(Some(WriteRate { bytes: 2_000_000_000, seconds: 1.0 })),
    };
    let wanted = Wanted { rate_bps: None, locked_bytes: 8 << 30, buffer_bytes: 8 << 30 };
    Readings { machine, interfaces: vec![card(&[5, 6])], target: Some(target), wanted }
}

fn idle(core: usize, number: usize, name: &str, latency_us: u64) -> IdleState {
    IdleState {
        name: name.into(),
        latency_us,
        is_enabled: true,
        path: format!("/sys/devices/system/cpu/cpu{core}/cpuidle/state{number}/disable").into(),
    }
}

/// The single finding about a healthy machine after `change`.
#[track_caller]
fn ill(change: impl FnOnce(&mut Readings)) -> super::super::Finding {
    let mut readings = healthy();
    change(&mut readings);
    let found = judge(&readings);
    let [finding] = &found.findings[..] else { panic!("{:#?}", found.findings) };
    assert!(!finding.why.is_empty() && !finding.fix.is_empty());
    assert_eq!(finding.fixable, !finding.changes.is_empty());
    finding.clone()
}

fn find<'a>(found: &'a Diagnosis, id: &str) -> Option<&'a super::super::Finding> {
    found.findings.iter().find(|finding| finding.id == id)
}

/// The changes of a finding, as `setting=value`.
fn sets(finding: &super::super::Finding) -> Vec<String> {
    finding.changes.iter().map(|change| format!("{}={}", change.setting, change.to)).collect()
}

fn eth7(change: impl FnOnce(&mut InterfaceReadings)) -> super::super::Finding {
    let finding = ill(|readings| change(&mut readings.interfaces[0]));
    assert_eq!(finding.interface.as_deref(), Some("eth7"));
    finding
}

#[test]
fn a_healthy_machine_has_no_findings_and_lists_the_checks() {
    let found = judge(&healthy());
    assert_eq!((&found.findings[..], &found.unread[..]), (&[][..], &[][..]));
    let looked: Vec<_> = found.fine.iter().map(|fine| fine.what.as_str()).collect();
    for what in [
        "receive ring of eth7",
        "interrupts of eth7",
        "gro of eth7",
        "VLAN offloads of eth7",
        "other readers of eth7",
        "memory that may be locked",
        "governor",
        "idle states",
        "net.core.netdev_max_backlog",
        "clock",
        "write rate of /data",
    ] {
        assert!(looked.contains(&what), "{what} of {looked:?}");
    }
}

#[test]
fn a_small_ring_is_made_larger() {
    let finding = eth7(|it| it.ring = Ok(Some(RxRingSize { frames: 512, frames_max: 8192 })));
    assert_eq!((finding.id, finding.severity), ("ring", Severity::Warning));
    // 10 Gb/s / 672 bit = 14.88 Mpps; 512 frames are 34.4 µs.
    assert!(finding.why.contains("10 Gb/s") && finding.why.contains("34.4 µs"), "{}", finding.why);
    assert_eq!(finding.fix, "ethtool -G eth7 rx 8192");
    assert_eq!(sets(&finding), ["the receive ring of eth7=8192"]);
    // A slower link needs less: 1488 frames arrive in a ms.
    let finding = eth7(|it| {
        it.ring = Ok(Some(RxRingSize { frames: 256, frames_max: 4096 }));
        it.speed_mbps = Ok(Some(1000));
        it.dropped = Ok(Some(17));
    });
    assert_eq!(sets(&finding), ["the receive ring of eth7=2048"]);
    assert!(finding.why.contains("(17 so far)"), "{}", finding.why);
    // A rate that no link has does not overflow.
    let mut readings = healthy();
    readings.wanted.rate_bps = Some(1e18);
    readings.interfaces[0].ring = Ok(Some(RxRingSize { frames: 512, frames_max: 8192 }));
    assert_eq!(find(&judge(&readings), "ring").unwrap().fix, "ethtool -G eth7 rx 8192");
    // One that has no more to give is no finding, nor one without a known speed that is not small.
    for (ring, speed) in [((256, 256), Some(10_000)), ((1024, 4096), None)] {
        let mut readings = healthy();
        readings.interfaces[0].ring = Ok(Some(RxRingSize { frames: ring.0, frames_max: ring.1 }));
        readings.interfaces[0].speed_mbps = Ok(speed);
        readings.interfaces[0].coalescing = Ok(None);
        readings.machine.power.clear();
        assert_eq!(find(&judge(&readings), "ring"), None);
    }
}

#[test]
fn offloads_that_merge_frames_are_found() {
    let (on, off, fixed) = (feature(true, false), feature(false, false), feature(true, true));
    for (features, id, fix) in [
        (features(on, off, off), "gro", "ethtool -K eth7 gro off"),
        (features(off, on, off), "hw-gro", "ethtool -K eth7 rx-gro-hw off"),
        (features(off, off, on), "lro", "ethtool -K eth7 lro off"),
    ] {
        let finding = eth7(|it| it.features = Ok(Some(features)));
        assert_eq!((finding.id, finding.fix.as_str()), (id, fix));
        assert!(sets(&finding)[0].ends_with("of eth7=off"), "{finding:?}");
    }
    let finding = eth7(|it| it.features = Ok(Some(features(off, off, fixed))));
    assert!(!finding.fixable && finding.fix.contains("does not let"), "{finding:?}");
}

#[test]
fn a_veth_that_leaves_frames_unfinished_is_found() {
    let (on, off) = (feature(true, false), feature(false, false));
    let of = |driver: &str, tso| {
        let mut features = features(off, off, off);
        features.insert("tx-tcp-segmentation".into(), tso);
        features.insert("tx-checksum-ip-generic".into(), tso);
        let mut readings = healthy();
        readings.interfaces[0].driver = Ok(Some(driver.into()));
        readings.interfaces[0].features = Ok(Some(features));
        find(&judge(&readings), "veth-offloads").cloned()
    };
    let finding = of("veth", on).expect("a finding");
    assert_eq!(finding.what, "tso, tx on at eth7, a veth");
    assert!(finding.fix.starts_with("ethtool -K eth7 tso off tx off "), "{finding:?}");
    assert_eq!(sets(&finding).len(), 2);
    // A card finishes what it is given.
    assert!(of("ixgbe", on).is_none() && of("veth", off).is_none());
}

#[test]
fn other_readers_are_named() {
    let socket = PacketSocket { protocol: 3, ifindex: 9, is_running: true, inode: 77 };
    let finding = eth7(|it| {
        it.readers = Ok(Some(vec![socket]));
        it.owners = vec![Owner { inode: 77, pid: 1234, name: "tcpdump".into() }];
    });
    assert_eq!(
        (finding.id, finding.fix.as_str()),
        ("readers", "ps -fp 1234   # shows them; end what is not needed")
    );
    assert_eq!(finding.what, "1 other packet socket on eth7: tcpdump (1234)");
    let finding = eth7(|it| {
        it.readers = Ok(Some(vec![socket]));
        it.owners = vec![Owner { inode: 77, pid: 5, name: "dhclient".into() }];
    });
    assert_eq!(finding.severity, Severity::Note);
    let finding = eth7(|it| it.readers = Ok(Some(vec![socket, socket])));
    assert!(finding.fix.starts_with("ss -0"), "{}", finding.fix);
    let finding = eth7(|it| it.xdp = Some(41));
    assert!(finding.id == "xdp" && finding.fix.starts_with("ip link set dev eth7 xdp off"), "{finding:?}");
}

#[test]
fn an_interface_that_cannot_receive_is_critical() {
    let finding = eth7(|it| (it.is_up, it.is_running) = (false, false));
    assert_eq!((finding.id, finding.severity), ("down", Severity::Critical));
    assert_eq!(eth7(|it| it.is_running = false).id, "no-link");
    let finding =
        ill(|readings| (readings.interfaces[0].name, readings.interfaces[0].is_up) = ("a;b".into(), false));
    assert_eq!(finding.fix, "ip link set dev 'a;b' up");
    // A name that a program would take for an option, or quaff for a pattern.
    let named = |name: &str, change: fn(&mut Readings)| {
        ill(|readings| {
            readings.interfaces[0].name = name.to_owned();
            change(readings);
        })
    };
    let no_link = |readings: &mut Readings| readings.interfaces[0].is_running = false;
    assert!(named("-x", no_link).fix.contains("'ip link show dev -x'"));
    assert!(named("x", no_link).fix.contains("'ethtool x'"));
    let far = |readings: &mut Readings| readings.machine.topology = Ok(Some(topology(&[0, 1])));
    assert_eq!(named("-x", far).fix, "taskset -c 4-7 quaff capture --interface=-x");
    assert_eq!(named("e*", far).fix, "taskset -c 4-7 quaff capture -i 'e[*]'");
    // Only the name is quoted, not every text that is like it.
    let small = |readings: &mut Readings| {
        readings.interfaces[0].ring = Ok(Some(RxRingSize { frames: 256, frames_max: 8192 }));
    };
    assert_eq!(named("-", small).fix, "ethtool -G - rx 8192");
    let finding = eth7(|it| it.dropped_rise = Some(Rise { time: Duration::from_secs(1), by: 5 }));
    assert_eq!((finding.id, finding.severity), ("nic-drops", Severity::Critical));
}

#[test]
fn queues_and_interrupts_have_cores_of_their_own() {
    let finding =
        eth7(|it| it.channels = Ok(Some(Channels { receiving: 1, receiving_max: 8, is_combined: true })));
    assert_eq!((finding.id, finding.fix.as_str()), ("channels", "ethtool -L eth7 combined 7"));
    let finding = eth7(|it| it.rss = Ok(Some(vec![1; 4])));
    assert_eq!((finding.id, sets(&finding)), ("rss", vec!["the RSS table of eth7=0,1,0,1".to_owned()]));
    let finding = eth7(|it| it.nic.irqs.iter_mut().for_each(|irq| irq.cores = vec![0]));
    assert_eq!(finding.id, "irq-node");
    assert_eq!(finding.fix, "for i in 100 101; do echo 4-7 > /proc/irq/$i/smp_affinity_list; done");
    assert_eq!(finding.changes[0].setting, Setting::Irq(100, "eth7-TxRx-0".into()));
    // The core that was chosen for the lane takes interrupts.
    let finding = eth7(|it| it.lane_core = Some(6));
    assert_eq!((finding.id, finding.severity), ("irq-reader", Severity::Warning));
    assert_eq!(sets(&finding), ["the cores of interrupt 101 (eth7-TxRx-1)=4-5,7"]);
    let finding = ill(|readings| {
        readings.machine.irqbalance = Some(55);
        readings.interfaces[0].lane_core = Some(5);
    });
    assert!(finding.fix.starts_with("systemctl stop irqbalance;"), "{}", finding.fix);
    // Interrupts on all cores and no --cpu: the default of most machines.
    let mut readings = healthy();
    readings.interfaces[0].nic = card(&[0, 1, 2, 3, 4, 5, 6, 7]).nic;
    assert_eq!(judge(&readings).findings, []);
    // None of the node's cores may be used.
    let finding = ill(|readings| readings.machine.topology = Ok(Some(topology(&[0, 1]))));
    assert_eq!((finding.id, finding.fix.as_str()), ("node", "taskset -c 4-7 quaff capture -i eth7"));
}

#[test]
fn a_late_interrupt_and_a_deep_idle_state_are_compared_with_the_ring() {
    // 1000 µs at 14.88 Mpps are 14881 frames; a quarter of 8192 arrive in 137 µs.
    let slow = Coalescing { rx_usecs: 1000, rx_frames: 0, is_adaptive: false };
    let finding = eth7(|it| it.coalescing = Ok(Some(slow)));
    assert_eq!(
        (finding.id, finding.fix.as_str()),
        ("coalescing", "ethtool -C eth7 adaptive-rx off rx-usecs 137")
    );
    assert!(finding.why.contains("14,881"), "{}", finding.why);
    // At 100 Gb/s a ring of 512 is full in 3.4 µs: no sooner interrupt helps.
    let mut readings = healthy();
    readings.machine.power.clear();
    readings.target = None;
    let it = &mut readings.interfaces[0];
    it.speed_mbps = Ok(Some(100_000));
    it.ring = Ok(Some(RxRingSize { frames: 512, frames_max: 512 }));
    it.coalescing = Ok(Some(Coalescing { rx_usecs: 3, ..slow }));
    assert_eq!(judge(&readings).findings, []);
    for fine in [Coalescing { rx_frames: 64, ..slow }, Coalescing { is_adaptive: true, ..slow }] {
        let mut readings = healthy();
        readings.interfaces[0].coalescing = Ok(Some(fine));
        assert_eq!(judge(&readings).findings, []);
    }
    let finding = ill(|readings| readings.machine.power[2].idle[1].latency_us = 300);
    assert_eq!((finding.id, finding.severity), ("idle", Severity::Warning));
    assert_eq!(finding.changes.len(), 8, "no core may sleep deeply");
    let finding = ill(|readings| {
        readings.machine.power[2].idle[1].latency_us = 300;
        readings.interfaces[0].speed_mbps = Ok(None);
    });
    assert_eq!((finding.id, finding.severity), ("idle", Severity::Note));
    let finding = ill(|readings| {
        for core in &mut readings.machine.power[4..] {
            core.frequency.as_mut().unwrap().governor = "powersave".into();
        }
    });
    assert_eq!((finding.id, finding.changes.len()), ("governor", 4));
    assert!(
        finding.what.contains("4-7 is powersave") && finding.why.contains("800 of 3600 MHz"),
        "{finding:?}"
    );
}

#[test]
fn the_backlog_matters_to_interfaces_that_use_it() {
    let virtual_one = |readings: &mut Readings| {
        let it = &mut readings.interfaces[0];
        (it.is_hardware, it.driver) = (false, Ok(Some("veth".into())));
        it.nic.irqs.clear();
    };
    let finding = ill(virtual_one);
    assert_eq!(
        (finding.id, finding.fix.as_str()),
        ("backlog", "sysctl -w net.core.netdev_max_backlog=10000")
    );
    assert!(finding.why.contains("frames of eth7") && finding.why.contains("1 ms"), "{}", finding.why);
    assert_eq!(ill(|readings| readings.interfaces[0].has_rps = true).id, "backlog");
    let finding = ill(|readings| readings.machine.softnet.as_mut().unwrap().as_mut().unwrap()[3].dropped = 9);
    assert!(finding.id == "backlog" && finding.why.contains("9 since"), "{finding:?}");
    let finding = ill(|readings| {
        let now = Softnet { core: 3, processed: 9, dropped: 2, squeezed: 0 };
        readings.machine.softnet_rise = Some(Rise { time: Duration::from_secs(1), by: vec![now] });
    });
    assert_eq!((finding.id, finding.severity), ("softnet-drops", Severity::Critical));
    assert!(finding.why.contains("core 3"), "{}", finding.why);
}

#[test]
fn a_budget_that_runs_out_is_doubled() {
    let squeezed = |squeezed| Softnet { core: 0, processed: 9, dropped: 0, squeezed };
    let finding = ill(|readings| {
        let time = Duration::from_secs(1);
        readings.machine.softnet_rise = Some(Rise { time, by: vec![squeezed(4)] });
    });
    assert_eq!((finding.id, finding.severity, finding.changes.len()), ("budget", Severity::Warning, 2));
    // A day has 1440 minutes.
    let finding = ill(|readings| readings.machine.softnet = Ok(Some(vec![squeezed(1441)])));
    assert_eq!((finding.id, finding.severity), ("budget", Severity::Note));
    let mut readings = healthy();
    readings.machine.softnet = Ok(Some(vec![squeezed(1441)]));
    readings.machine.budget_frames = Ok(Some(600));
    assert_eq!(judge(&readings).findings, []);
}

#[test]
fn permissions_memory_and_clocks() {
    let finding = ill(|readings| readings.machine.packet_socket = Some("Operation not permitted".into()));
    assert_eq!((finding.id, finding.severity), ("capability", Severity::Critical));
    assert!(finding.fix.starts_with("setcap cap_net_raw"), "{}", finding.fix);
    let finding = ill(|readings| readings.machine.memlock_bytes = Ok(Some(8 << 20)));
    assert_eq!((finding.id, finding.severity), ("memlock", Severity::Warning));
    assert!(finding.what.contains("8 MiB") && finding.what.contains("8 GiB"), "{}", finding.what);
    assert_eq!(ill(|readings| readings.machine.has_nice = false).id, "priority");
    assert_eq!(ill(|readings| readings.machine.io_uring = Some("EPERM".into())).id, "io_uring");
    fn clock(readings: &mut Readings) -> &mut ClockSource {
        readings.machine.clock_source.as_mut().unwrap().as_mut().unwrap()
    }
    let finding = ill(|readings| clock(readings).current = "hpet".into());
    assert_eq!((finding.id, finding.fixable), ("clock-source", false), "reported, never changed");
    assert!(finding.fix.starts_with("echo tsc > /sys"), "{}", finding.fix);
    let finding = ill(|readings| {
        *clock(readings) =
            ClockSource { current: "acpi_pm".into(), available: vec!["acpi_pm".into()], path: "x".into() };
    });
    assert!(finding.fix.contains("no better one"), "{finding:?}");
    let finding = ill(|readings| {
        readings.machine.discipline =
            Ok(Some(Discipline { is_synchronised: false, error_max: Duration::from_secs(16) }));
    });
    assert!(finding.id == "clock-sync" && finding.why.contains("16 s"), "{finding:?}");
}

#[test]
fn a_slow_or_full_folder_is_found() {
    fn target(readings: &mut Readings) -> &mut TargetReadings {
        readings.target.as_mut().unwrap()
    }
    let slow = WriteRate { bytes: 250_000_000, seconds: 1.0 };
    let finding = ill(|readings| target(readings).written = Ok(Some(slow)));
    // 8 GiB at 1250 - 250 MB/s.
    assert!(finding.id == "write-rate" && finding.why.contains("8.59 s"), "{finding:?}");
    assert_eq!(finding.severity, Severity::Warning);
    let finding = ill(|readings| readings.wanted.rate_bps = Some(20e9));
    assert_eq!((finding.id, finding.severity), ("write-rate", Severity::Critical), "the rate was stated");
    // A minute at 10 Gb/s is 75 GB.
    let finding = ill(|readings| target(readings).free_bytes = Ok(Some(70_000_000_000)));
    assert_eq!((finding.id, finding.severity), ("space", Severity::Warning));
    let finding = ill(|readings| target(readings).free_bytes = Ok(Some(1 << 20)));
    assert_eq!((finding.id, finding.severity), ("space", Severity::Critical));
    assert_eq!(ill(|readings| target(readings).is_memory = true).id, "memory-fs");
    assert_eq!(ill(|readings| target(readings).direct_align = Ok(None)).id, "direct");
    let finding = ill(|readings| {
        target(readings).refused = Some("Read-only file system".into());
        target(readings).mount.as_mut().unwrap().as_mut().unwrap().is_read_only = true;
    });
    assert_eq!((finding.id, finding.fix.as_str()), ("read-only", "mount -o remount,rw /data"));
    let finding = ill(|readings| target(readings).refused = Some("No such file or directory".into()));
    assert_eq!((finding.id, finding.severity), ("dir", Severity::Critical));
}

#[test]
fn failures_to_read_are_separate_and_the_most_severe_is_first() {
    let mut readings = healthy();
    let it = &mut readings.interfaces[0];
    it.ring = Err("permission denied".into());
    it.is_up = false;
    readings.machine.has_nice = false;
    readings.machine.backlog_frames = Err("not here".into());
    readings.machine.power.clear();
    let found: Diagnosis = judge(&readings);
    let ids: Vec<_> = found.findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, ["down", "priority"]);
    let unread: Vec<_> = found.unread.iter().map(|it| it.what.as_str()).collect();
    assert_eq!(unread, ["receive ring of eth7", "net.core.netdev_max_backlog"]);
}

#[test]
fn another_machine_is_read_below_a_root() {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for (path, text) in [
        ("sys/devices/system/cpu/online", "0-1\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "ondemand\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_min_freq", "1200000\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq", "2400000\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
        ("sys/devices/system/clocksource/clocksource0/available_clocksource", "hpet tsc\n"),
        ("proc/sys/net/core/rmem_max", "212992\n"),
        ("proc/sys/net/core/netdev_budget", "300\n"),
        ("proc/sys/net/core/netdev_budget_usecs", "2000\n"),
        ("proc/net/softnet_stat", "00000010 00000000 00000fff\n"),
        ("proc/uptime", "600.00 1000.00\n"),
    ] {
        put(path, text);
    }
    let readings = Readings {
        machine: machine(root.path()),
        interfaces: Vec::new(),
        target: None,
        wanted: Wanted::default(),
    };
    let found = judge(&readings);
    for (id, fixable) in [("governor", true), ("clock-source", false), ("budget", true)] {
        assert!(find(&found, id).is_some_and(|finding| finding.fixable == fixable), "{id} of {found:#?}");
    }
    assert!(
        found.unread.iter().any(|it| it.what.contains("backlog") && it.why.contains("nsenter")),
        "{found:#?}"
    );
}
