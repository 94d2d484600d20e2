//! Tests guarantees with numbers: lateness, memory under a flood, and that the oldest flow leaves first.

use super::*;
use quaff_wire::flow::mix;

/// The time at which each record was emitted, ns.
#[derive(Default)]
struct Timed {
    now_ns: u64,
    records: Vec<(u64, FlowRecord)>,
}

impl FlowSink for Timed {
    fn take(&mut self, records: &[FlowRecord]) {
        self.records.extend(records.iter().map(|record| (self.now_ns, record.clone())));
    }
}

fn number_frame(number: u32, flags: u8) -> Vec<u8> {
    let mut frame = Spec { flags, ..Spec::default() }.frame();
    frame[26..30].copy_from_slice(&(0x0b00_0000 + number).to_be_bytes());
    frame
}

/// Also if the active timeout is the shorter one: the first packet after a piece makes the flow due earlier than
/// before.
#[test]
fn no_record_leaves_later_than_a_tick_after_it_is_due() {
    for (active_s, idle_s) in [(10, 3), (3, 10)] {
        leaves_in_time(MeterPlan {
            active_ns: active_s * SECOND,
            idle_ns: idle_s * SECOND,
            ..MeterPlan::default()
        });
    }
}

/// 10,000 flows with random durations, some of them closed; the time advances by whole ms.
fn leaves_in_time(plan: MeterPlan) {
    let (mut meter, mut sink) = (Meter::new(plan.clone(), SECRET), Timed::default());
    let start = Spec::default().time_ns;
    let mut events: Vec<(u64, u32, u8)> = Vec::new();
    for flow in 0..10_000u32 {
        let random = |part: u64| mix(flow.into(), part);
        let begin = random(0) % (20 * SECOND);
        let life = random(1) % (if flow % 10 == 0 { 25 } else { 2 } * SECOND);
        let packets = 1 + life / (2 * SECOND) + random(2) % 3;
        events.extend((0..packets).map(|at| (begin + life * at / packets, flow, ACK)));
        if flow % 3 == 0 {
            events.push((begin + life, flow, RST));
        }
    }
    events.sort_unstable();
    let mut next = events.iter().peekable();
    for ms in 0..60_000 {
        while let Some((at, flow, flags)) = next.next_if(|(at, ..)| *at < ms * MS) {
            sink.now_ns = start + at;
            meter.take(&[packet(start + at, &number_frame(*flow, *flags))], &mut sink);
        }
        sink.now_ns = start + ms * MS;
        meter.nudge_to(sink.now_ns, &mut sink);
    }
    assert_eq!(meter.ledger().flows_live, 0, "all are over after a minute");
    assert!(sink.records.len() > 10_000);
    for (left_ns, record) in &sink.records {
        let due_ns = match record.end_reason {
            EndReason::Idle => record.last_ns() + plan.idle_ns,
            EndReason::Active => record.first_ns() + plan.active_ns,
            EndReason::EndOfFlow => record.last_ns() + plan.linger_ns,
            other => panic!("{other:?}"),
        };
        assert!((due_ns..due_ns + MS).contains(left_ns), "{} ns after {record:?}", left_ns - due_ns);
    }
}

/// A flood of SYNs, each from another address, while fifty connections stay active.
#[test]
fn a_flood_drives_out_no_connection_that_is_active() {
    for active_s in [120, 10] {
        let plan = MeterPlan { flows_max: 10_000, active_ns: active_s * SECOND, ..MeterPlan::default() };
        let (mut meter, mut records) = (Meter::new(plan, SECRET), Vec::new());
        let start = Spec::default().time_ns;
        let live: Vec<Vec<u8>> = (0..50).map(|number| number_frame(0x10_0000 + number, ACK)).collect();
        for number in 0..100_000u32 {
            let time_ns = start + u64::from(number) * 10_000;
            if number % 2_000 == 0 {
                let packets: Vec<Packet<'_>> = live.iter().map(|frame| packet(time_ns, frame)).collect();
                meter.take(&packets, &mut records);
            }
            meter.take(&[packet(time_ns, &number_frame(number, SYN))], &mut records);
        }
        meter.finish(&mut records);
        assert_ended(&meter, &records, 100_000 + 50 * 50);
        let whole = records.iter().filter(|record| record.packets() == 50).count();
        assert_eq!(whole, 50, "connections in one record each, active {active_s} s");
    }
}

/// All flows of a full table were active since the last round; one in 64 has been silent for longer than the others.
#[test]
fn of_flows_that_are_all_active_the_longest_silent_one_leaves() {
    let plan = MeterPlan { flows_max: 640, ..MeterPlan::default() };
    let (mut meter, mut records) = (Meter::new(plan, SECRET), Vec::new());
    let start = Spec::default().time_ns;
    let is_old = |number: &u32| number % 64 == number / 64 * 7;
    let mut take = |second: u64, numbers: Vec<u32>| {
        let frames: Vec<Vec<u8>> = numbers.iter().map(|number| number_frame(*number, ACK)).collect();
        let packets: Vec<Packet<'_>> =
            frames.iter().map(|frame| packet(start + second * SECOND, frame)).collect();
        meter.take(&packets, &mut records);
    };
    take(0, (0..640).collect());
    take(1, (0..640).filter(is_old).collect());
    take(2, (0..640).filter(|number| !is_old(number)).collect());
    take(3, (1000..1010).collect());
    assert!(records.iter().all(|record| record.end_reason == EndReason::LackOfResources));
    let lasts: Vec<u64> = records.iter().map(FlowRecord::last_ns).collect();
    assert_eq!(lasts, [start + SECOND; 10]);
}

/// The end of an era takes the flows from the wheel, so it costs time for those in the table only.
#[test]
fn at_an_end_flows_leave_in_the_order_in_which_they_were_filed() {
    let (mut meter, mut records) = (Meter::new(MeterPlan::default(), SECRET), Vec::new());
    let start = Spec::default().time_ns;
    for (ms, number, flags) in [(0, 0, RST), (1, 1, ACK), (3000, 2, ACK)] {
        meter.take(&[packet(start + ms * MS, &number_frame(number, flags))], &mut records);
    }
    assert_eq!(records.len(), 1, "the first flow has left, and the third one has its place");
    // Earlier by more than the idle timeout.
    meter.take(&[packet(start - 40 * SECOND, &number_frame(0, ACK))], &mut records);
    let lasts: Vec<u64> = records.iter().map(FlowRecord::last_ns).collect();
    assert_eq!(lasts, [start, start + MS, start + 3000 * MS]);
}

/// A flood of SYNs, each from another address, while one connection stays active.
#[test]
fn a_flood_stays_in_its_memory_and_the_oldest_leaves_first() {
    let plan = MeterPlan { flows_max: 10_000, ..MeterPlan::default() };
    let (mut meter, mut sink) = (Meter::new(plan, SECRET), Timed::default());
    let start = Spec::default().time_ns;
    let live = Spec::default().frame();
    let flood = 200_000u32;
    for number in 0..flood {
        let time_ns = start + u64::from(number) * 10_000;
        meter.take(&[packet(time_ns, &number_frame(number, SYN))], &mut sink);
        if number % 100 == 0 {
            meter.take(&[packet(time_ns, &live)], &mut sink);
        }
    }
    let ledger = meter.ledger();
    ledger.check().unwrap();
    assert!(ledger.memory_bytes <= ledger.memory_bytes_max, "{ledger:?}");
    assert_eq!((ledger.flows_live, ledger.flows_high), (10_000, 10_000));
    assert_eq!(ledger.flows_by_reason[EndReason::LackOfResources as usize], u64::from(flood) + 1 - 10_000);
    let lasts: Vec<u64> = sink.records.iter().map(|(_, record)| record.last_ns()).collect();
    // The connection that is active is never the oldest.
    assert!(lasts.is_sorted());
    assert!(sink.records.iter().all(|(_, record)| record.packets() == 1));
    meter.finish(&mut sink);
    let records: Vec<FlowRecord> = sink.records.into_iter().map(|(_, record)| record).collect();
    assert_ended(&meter, &records, (flood + flood / 100) as usize);
}

#[test]
fn a_limit_in_bytes_is_a_limit_in_flows() {
    let plan = MeterPlan { bytes_max: 1 << 20, ..MeterPlan::default() };
    let extras = crate::plan::ExtrasPlan { tcp: true, payload_bytes: 1000, ..Default::default() };
    for (plan, most) in [(plan.clone(), 5808), (MeterPlan { extras, ..plan }, 500)] {
        let (mut meter, mut records) = (Meter::new(plan, SECRET), Vec::new());
        for number in 0..10_000 {
            meter.take(&[packet(1, &number_frame(number, SYN))], &mut records);
        }
        let ledger = meter.ledger();
        assert!(ledger.flows_live <= most, "{} flows", ledger.flows_live);
        assert!(ledger.memory_bytes <= 1 << 20 && ledger.memory_bytes_max <= 1 << 20, "{ledger:?}");
    }
}

/// The kernel provides a huge page for the first line of the index, and one for the first record.
#[test]
fn a_table_in_huge_pages_counts_those_that_it_has_begun_to_use() {
    let ledger = |flows_max, bytes_max, flows| {
        let plan = MeterPlan { flows_max, bytes_max, ..MeterPlan::default() };
        let (mut meter, mut records) = (Meter::new(plan, SECRET), Vec::new());
        (0..flows).for_each(|number| meter.take(&[packet(1, &number_frame(number, SYN))], &mut records));
        meter.ledger()
    };
    let spare = 4 << 20;
    for (flows_max, bytes_max) in [(1000, u64::MAX), (1 << 20, 1 << 20), (400_000, 1 << 30)] {
        let ledger = ledger(flows_max, bytes_max, 20_000);
        assert!(ledger.memory_bytes < spare + 1000, "{ledger:?}");
        assert!(ledger.memory_bytes <= ledger.memory_bytes_max && ledger.memory_bytes_max <= bytes_max);
    }
    for (flows_max, bytes_max) in [(1 << 20, 64 << 20), (1 << 20, 1 << 30), (500_000, u64::MAX)] {
        let ledger = ledger(flows_max, bytes_max, 20_000);
        assert!((spare + 20_000 * 144..64 << 20).contains(&ledger.memory_bytes), "{ledger:?}");
        assert!(ledger.memory_bytes <= ledger.memory_bytes_max && ledger.memory_bytes_max <= bytes_max);
    }
    let full = ledger(1 << 20, 64 << 20, 450_000);
    assert!(full.flows_by_reason[EndReason::LackOfResources as usize] > 0);
    // No fragment has arrived yet, but their memory is counted.
    let fragments_bytes = FragmentLimits::within((64 << 20) / FRAGMENTS_PART).memory_bytes();
    let bytes = full.memory_bytes + fragments_bytes;
    assert!(bytes <= full.memory_bytes_max && full.memory_bytes_max <= 64 << 20, "{full:?}");
}

/// Fragments of many datagrams beside the maximum number of flows.
#[test]
fn a_limit_in_bytes_holds_for_fragments_too() {
    let plan = MeterPlan { bytes_max: 1 << 20, ..MeterPlan::default() };
    let (mut meter, mut records) = (Meter::new(plan, SECRET), Vec::new());
    let [source, destination] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Ipv4Addr::from);
    let whole = build::ipv4(source, destination, 17, &[], &build::udp(9, 53, &[1; 60]));
    let pieces: Vec<Vec<u8>> =
        build::ipv4_fragments(&whole, 48).iter().map(|piece| build::ethernet(&[], 0x0800, piece)).collect();
    for number in 0..10_000_u32 {
        meter.take(&[packet(1, &number_frame(number, SYN))], &mut records);
        // Every other datagram lacks its first fragment.
        let mut piece = pieces[number as usize % 2].clone();
        piece[18..20].copy_from_slice(&(number as u16).to_be_bytes());
        meter.take(&[packet(1, &piece)], &mut records);
    }
    let ledger = meter.ledger();
    ledger.check().unwrap();
    assert!(ledger.held.packets > 0 && ledger.fragments_unmatched > 0, "{ledger:?}");
    assert!(ledger.memory_bytes <= 1 << 20 && ledger.memory_bytes_max <= 1 << 20, "{ledger:?}");
    let without = ledger.memory_bytes - meter.table.memory_bytes();
    assert_eq!(without, WHEEL_BYTES + meter.fragments.memory_bytes());
    assert!(without > 10_000, "{without} bytes");
}

#[test]
fn extras_come_with_the_record_and_for_its_piece() {
    let extras = crate::plan::ExtrasPlan {
        macs: true,
        tcp: true,
        ack_times: true,
        statistics: true,
        payload_bytes: 4,
        application: false,
        addresses: false,
    };
    let plan = MeterPlan { extras, ..MeterPlan::default() };
    let specs = [
        Spec::tcp(0, SYN, 9),
        Spec::tcp(7, SYN | ACK, 5).back(),
        Spec::tcp(9, ACK, 10),
        Spec { payload: 6, ..Spec::tcp(10, ACK, 10) },
        Spec { payload: 6, ..Spec::tcp(15, ACK, 10) },
        Spec { hosts: [8, 9], ..Spec::at(40_000) },
    ];
    let records = metered(&plan, &Frames::of(&specs).packets(), 9);
    let found = records[0].extras.as_ref().unwrap();
    assert_eq!((found.server_rtt_ns, found.client_rtt_ns), (Some(7 * MS), Some(2 * MS)));
    assert_eq!((found.forward.retransmitted_packets, found.forward.payload_bytes), (1, 12));
    assert_eq!((found.forward.packet_bytes_min, found.forward.packet_bytes_max), (40, 46));
    assert_eq!((found.forward.gap_min_ns, found.forward.gap_max_ns), (MS, 9 * MS));
    assert_eq!(found.forward.payload, [7; 4]);
    assert_eq!(found.forward.macs, [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]]);
    assert_eq!(found.reverse.window_max, 256);
    assert_eq!(records[1].extras.as_ref().unwrap().forward.payload_bytes, 0);
}

/// Both ends send data, which the other end acknowledges 3 and 40 ms later; one segment is repeated.
#[test]
fn acks_are_timed_in_both_directions() {
    let extras = crate::plan::ExtrasPlan { ack_times: true, ..Default::default() };
    let data = |ms, sequence| Spec { payload: 10, ..Spec::tcp(ms, ACK, sequence) };
    let steps = [
        (Spec::tcp(0, SYN, 9), 0),
        (Spec::tcp(5, SYN | ACK, 99).back(), 10),
        (Spec::tcp(6, ACK, 10), 100),
        (data(10, 10), 100),
        (data(13, 100).back(), 20),
        (data(53, 20), 110),
        (data(60, 20), 110),
        (Spec::tcp(70, ACK, 110).back(), 30),
    ];
    let mut frames = Frames::of(&steps.map(|(spec, _)| spec));
    for ((_, frame), (_, acknowledgment)) in frames.0.iter_mut().zip(steps) {
        frame[42..46].copy_from_slice(&u32::to_be_bytes(acknowledgment));
    }
    let plan = MeterPlan { extras, ..MeterPlan::default() };
    let records = metered(&plan, &frames.packets(), 3);
    let found = records[0].extras.as_ref().unwrap();
    let times = [&found.forward, &found.reverse].map(|side| side.ack_times);
    assert_eq!(times.map(|times| (times.samples, times.max_ns)), [(1, 3 * MS), (1, 40 * MS)]);
    let without = metered(&MeterPlan::default(), &frames.packets(), 3);
    assert!(without[0].extras.is_none());
}

/// The last time of an era may be that of a packet that is in no flow.
#[test]
fn an_era_ends_at_its_latest_packet_in_any_batch() {
    let plan = MeterPlan::default();
    let arp = build::ethernet(&[], 0x0806, &[0; 46]);
    let idle_ms = plan.idle_ns / MS;
    let first = Spec::at(10_000 + 3 * idle_ms);
    let (late, early) = (Spec::at(10_001 + 4 * idle_ms), Spec::at(10_000));
    let frames = [first, late, early, first].map(|spec| (spec.time_ns, spec.frame()));
    let mut packets: Vec<_> = frames.iter().map(|(time_ns, bytes)| packet(*time_ns, bytes)).collect();
    packets[1].bytes = &arp;
    for batch in [1, 2, 3, 4] {
        let reasons: Vec<_> =
            metered(&plan, &packets, batch).iter().map(|record| record.end_reason).collect();
        assert_eq!(reasons[0], EndReason::Idle, "in batches of {batch}: {reasons:?}");
    }
}
