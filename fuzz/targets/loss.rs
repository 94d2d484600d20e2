//! Any TCP segments of a few connections, by which the loss of a capture is estimated: no panic, the estimate lies in
//! its interval, and counters do not contradict each other.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_stream::LossMeter;

/// LINKTYPE_RAW.
const RAW: u16 = 101;

/// Connection and direction, flags, payload, sequence number, acknowledgment, ms since the packet before.
type Step = (u8, u8, u16, u32, u32, u16);

fuzz_target!(|steps: Vec<Step>| {
    let (mut meter, mut now_ns) = (LossMeter::new(7), 0u64);
    for (ends, flags, payload, sequence, acknowledgment, ms) in &steps {
        let mut frame = [0; 40];
        frame[0] = 0x45;
        frame[2..4].copy_from_slice(&payload.to_be_bytes());
        (frame[6], frame[9]) = (if *flags == 0xff { 0x20 } else { 0 }, 6);
        let (from, to) = if ends & 1 == 0 { (15, 19) } else { (19, 15) };
        (frame[from], frame[to], frame[21], frame[23]) = (1, 2, ends >> 6, ends >> 6);
        // Most numbers are near each other.
        let near = |number: u32| if ends & 2 == 0 { number % 5000 } else { number };
        frame[24..28].copy_from_slice(&near(*sequence).to_be_bytes());
        frame[28..32].copy_from_slice(&near(*acknowledgment).to_be_bytes());
        (frame[32], frame[33]) = (0x50, *flags);
        now_ns += u64::from(*ms) * 1_000_000;
        meter.packet(&frame, u32::from(*payload).max(40), RAW, now_ns);
    }
    let report = meter.finish();
    assert!(report.flows <= steps.len() as u64 && report.flows_with_evidence <= report.flows);
    assert!(report.acked_unseen_runs <= report.acked_unseen_packets_estimate);
    assert!(report.acked_unseen_packets_estimate <= report.acked_unseen_bytes);
    assert!(report.leaps_confirmed <= report.jumps && report.untracked_bytes <= report.undecided_bytes);
    assert_eq!(report.loss_ratio.is_some(), report.loss_low.is_some());
    assert!(report.zeek_gaps <= report.zeek_acks && report.intervals.len() <= 64);
    if let (Some(ratio), Some(low), Some(high)) = (report.loss_ratio, report.loss_low, report.loss_high) {
        assert!(0.0 <= low && low <= ratio && ratio <= high && high <= 1.0, "{report:?}");
    }
});
