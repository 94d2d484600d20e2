//! The verdict of a run: lossless, lossy or unknown, by the ledger and by the counters below the capture sockets.
//!
//! Some counters of the kernel and of drivers count other packets as well:
//!
//! * `rx_dropped` of the interface: the driver or a core's backlog (`net.core.netdev_max_backlog`) had no room. It also
//!   counts frames that no protocol of the stack handles, *after* the packet sockets have received them. Those are
//!   among the frames that the lane saw with another protocol than IP and ARP, and among those that a filter hid. What
//!   exceeds both is lost; less may be.
//! * `dropped` of `/proc/net/softnet_stat`: only the backlogs, but of all interfaces that a core serves.
//! * counters of `ethtool -S` that quaff does not know, or that other functions of the card share.
//! * counters of the interfaces below: the card of a VLAN, the ports of a bridge or a bond. What these drop may have
//!   been for another interface.
//! * drops of XDP programs, which drop on purpose what no socket has seen.
//!
//! None of them is in the sums of the ledger. A counter that moved and may be of this capture makes the verdict
//! unknown. [`quaff_os::link_counters`] says which packet is in which counter. This module never reads an interface.

use crate::format::{clause, count, number_of, times};
use crate::plan::SNAPLEN_MAX;
use crate::tally::{BelowTap, InputTally, LaneTally, Reasons, Verdict};
use quaff_file::moment;
use quaff_file::tally::WriterTally;
use quaff_os::link_counters::{BeforeTap, LowerDrops};
use quaff_os::softnet::{SoftnetMeter, SoftnetRises};
use std::collections::BTreeSet;

impl Verdict {
    /// `is_counted_lost`: a sum of the ledger has lost packets. After a failure the sums may be incomplete.
    pub(crate) fn new(is_counted_lost: bool, reasons: &Reasons, is_failed: bool) -> Self {
        match is_counted_lost || !reasons.lossy.is_empty() {
            true => Self::Lossy,
            false if is_failed || !reasons.unknown.is_empty() => Self::Unknown,
            false => Self::Lossless,
        }
    }
}

/// Compares the counters. `softnet` is `None` for files, and where `/proc/net/softnet_stat` cannot be read. With
/// `has_hotplug` an interface that was removed is captured again when it comes back.
pub(crate) fn judge(
    lanes: &[LaneTally],
    softnet: Option<SoftnetMeter>,
    has_hotplug: bool,
) -> (BelowTap, Reasons) {
    let judged = |rises: &SoftnetRises| {
        let (found, mut reasons) = of(lanes, rises);
        let removed = lanes.iter().filter(|lane| lane.removed_ns > 0 && lanes.len() > 1 && !has_hotplug);
        reasons.unknown.extend(removed.map(gone));
        reasons.unknown.extend(lanes.iter().filter_map(displaced));
        reasons.unknown.extend(lanes.iter().filter_map(added_queues));
        (found, reasons)
    };
    let none = SoftnetRises::default();
    let Some(mut softnet) = softnet else { return judged(&none) };
    match softnet.read() {
        Ok(rises) => judged(rises),
        Err(error) => {
            let (found, mut reasons) = judged(&none);
            reasons.unknown.push(format!("the drops of the cores' backlogs are not known: {error}"));
            (found, reasons)
        }
    }
}

fn of(lanes: &[LaneTally], rises: &SoftnetRises) -> (BelowTap, Reasons) {
    let serving = rises.of(cores(lanes).as_ref());
    let (softnet_dropped, softnet_squeezed) = (rises.of(None).dropped, serving.squeezed);
    let mut found = BelowTap { softnet_dropped, softnet_squeezed, ..BelowTap::default() };
    let mut reasons = Reasons { lossy: lanes.iter().filter_map(cut).collect(), ..Reasons::default() };
    let mut unexplained = serving.dropped;
    let before: Vec<_> = lanes.iter().map(|lane| lane.tap().before_tap(&mut unexplained)).collect();
    for (lane, before) in lanes.iter().zip(before) {
        on_interface(lane, before, &mut found, &mut reasons);
    }
    below(lanes, &mut unexplained, &mut found, &mut reasons);
    if unexplained > 0 {
        reasons.unknown.push(format!(
            "the kernel dropped {} of other interfaces of this machine before any socket (softnet_stat): they need not \
             be of this capture",
            number_of(unexplained, "packet")
        ));
    }
    reasons.notes.extend(lanes.iter().flat_map(of_xdp));
    let is_dropped = found.rx_dropped > 0 || lanes.iter().any(|lane| lane.nic_dropped > 0);
    if is_dropped && softnet_squeezed > 0 {
        reasons.notes.push(format!(
            "the network softirq used up its budget {} with frames left (softnet_stat): raise net.core.netdev_budget \
             and net.core.netdev_budget_usecs",
            times(softnet_squeezed)
        ));
    }
    (found, reasons)
}

/// Sentences about the places of AF_XDP losses, which are in the sums.
fn of_xdp(lane: &LaneTally) -> Vec<String> {
    let (Some(xdp), name) = (&lane.xdp, &lane.interface) else { return Vec::new() };
    let places = [
        (
            xdp.fill_empty,
            "found no free memory of an AF_XDP socket (fill_empty): its lane was late; raise `ring`, or give the lane a core",
        ),
        (xdp.ring_full, "found the receive ring of an AF_XDP socket full (ring_full)"),
        (
            xdp.dropped - xdp.unexplained,
            "were dropped at an AF_XDP socket (dropped), mostly frames longer than the MTU allows: GRO off keeps them whole",
        ),
        (xdp.unexplained, "were redirected and reached no AF_XDP socket (unexplained)"),
        (xdp.invalid, "were lost to invalid descriptors (invalid)"),
        (
            xdp.passed,
            "came by receive queues without a lane (passed): the host received them, and they are not captured",
        ),
    ];
    let some = places.into_iter().filter(|(count, _)| *count > 0);
    let mut all: Vec<_> =
        some.map(|(count, place)| format!("{name}: {}", clause(count, "packet", place))).collect();
    if xdp.starved > 0 {
        all.push(format!(
            "{name}: the driver found no free memory of an AF_XDP socket {} (starved)",
            times(xdp.starved)
        ));
    }
    all
}

/// The cores that serve the interfaces; `None` if any may.
fn cores(lanes: &[LaneTally]) -> Option<BTreeSet<usize>> {
    let mut all = BTreeSet::new();
    for lane in lanes {
        all.extend(lane.link.cores.as_ref()?);
    }
    Some(all)
}

/// Judges the counters of an interface and its driver.
fn on_interface(lane: &LaneTally, before: BeforeTap, found: &mut BelowTap, reasons: &mut Reasons) {
    found.rx_dropped += before.dropped;
    if before.dropped > 0 {
        let places = if before.sure > 0 { &mut reasons.lossy } else { &mut reasons.unknown };
        places.push(rx_dropped(lane, before));
    }
    let doubtful = lane.link.driver_dropped_beyond(before.dropped);
    found.driver_dropped += doubtful;
    if doubtful > 0 {
        reasons.unknown.push(driver(lane, doubtful));
    }
    found.xdp_dropped += lane.link.xdp_dropped;
    if lane.link.xdp_dropped > 0 {
        reasons.unknown.push(xdp(lane));
    }
    if lane.link.is_unread {
        let interface = &lane.interface;
        let text = "the drop counters of the driver could not be read at the end (ethtool -S)";
        reasons.unknown.push(format!("{text}: {interface}"));
    }
}

/// Judges the counters of the interfaces below. One that is captured itself is judged there.
fn below(lanes: &[LaneTally], unexplained: &mut u64, found: &mut BelowTap, reasons: &mut Reasons) {
    let mut judged: BTreeSet<_> = lanes.iter().map(|lane| lane.interface.as_str()).collect();
    for lane in lanes {
        for lower in lane.link.lower.iter().filter(|lower| judged.insert(&lower.interface)) {
            let before = *unexplained;
            let dropped = lower.may_be_above(unexplained);
            found.lower_dropped += dropped;
            if dropped > 0 {
                reasons.unknown.push(on_lower(lane, lower, dropped, *unexplained < before));
            }
        }
    }
}

/// A sentence about packets that were lost when the files were captured, as the files record.
pub(crate) fn recorded(input: &InputTally) -> Option<String> {
    let drops = input.recorded_drops;
    let words = || format!("were lost during the original capture, as {}", recorders(input));
    (drops > 0).then(|| clause(drops, "packet", &words()))
}

/// The files that record drops; of several, the one with the most. It need not have a packet in the output.
fn recorders(input: &InputTally) -> String {
    let files = &input.drops_of_files;
    match files.iter().max_by_key(|(_, drops)| *drops).filter(|_| input.files > 1) {
        None => "the files record".to_owned(),
        Some((name, _)) if files.len() == 1 => format!("{name} records"),
        Some((name, drops)) => {
            format!("{} files record: {name} has the most, {}", count(files.len() as u64), count(*drops))
        }
    }
}

/// Packets whose times the output cannot have.
pub(crate) fn outside_times(input: &InputTally) -> impl Iterator<Item = String> {
    let InputTally { late_times: late, early_times: early, .. } = *input;
    let late = (late > 0).then(|| {
        let words = "have times that the output cannot have (pcap ends in 2106, pcapng in 2554): it has its last one \
                     instead";
        clause(late, "packet", words)
    });
    let early = (early > 0).then(|| {
        clause(early, "packet", "have times before 1970, which the output cannot have: it has 1970 instead")
    });
    late.into_iter().chain(early)
}

/// A sentence about files that may not be on disk.
pub(crate) fn unsynced(writer: &WriterTally) -> Option<String> {
    let files = writer.unsynced_files;
    let words = "could not be synced or finished: their packets may not be on disk";
    (files > 0).then(|| clause(files, "file", words))
}

/// Sentences about files that were removed while they were written.
pub(crate) fn removed(writer: &WriterTally) -> impl Iterator<Item = String> {
    let sentence = |(path, packets): &(String, u64)| {
        format!("{path} was removed while it was written: its {}", clause(*packets, "packet", "are lost"))
    };
    writer.removed.iter().map(sentence)
}

/// A sentence about packets that were cut without a snaplen.
fn cut(lane: &LaneTally) -> Option<String> {
    let LaneTally { truncated, interface, .. } = lane;
    (*truncated > 0).then(|| {
        let words = format!(
            "of {interface} are cut: longer than {} bytes, than a block of the kernel's ring, or than a chunk of the \
             output",
            count(SNAPLEN_MAX.into())
        );
        clause(*truncated, "packet", &words)
    })
}

/// A sentence about an interface that was removed while others were captured.
fn gone(lane: &LaneTally) -> String {
    format!(
        "{} was removed at {}: what arrived later on an interface of this name is not in the output",
        lane.interface,
        moment::text(lane.removed_ns, 3)
    )
}

/// A sentence about receive queues without a lane. In generic mode the program runs on all of them, and counts.
fn added_queues(lane: &LaneTally) -> Option<String> {
    let xdp = lane.xdp.as_ref().filter(|xdp| xdp.added_queues > 0 && xdp.mode.starts_with("native"))?;
    Some(format!(
        "{}: {}: the driver need not run the XDP program on them, so packets may be missing that nothing counts",
        lane.interface,
        clause(xdp.added_queues, "receive queue", "were added without a lane during the capture")
    ))
}

/// A sentence about an XDP program that another program has detached or replaced.
fn displaced(lane: &LaneTally) -> Option<String> {
    let time_ns = lane.xdp.as_ref().map(|xdp| xdp.displaced_ns).filter(|time_ns| *time_ns > 0)?;
    let time = moment::text(time_ns, 3);
    Some(format!(
        "{}: another program had detached or replaced the XDP program of the capture, as was found at {time}: what \
         arrived from up to a second before is not in the output ('bpftool net' shows what is attached)",
        lane.interface
    ))
}

/// A sentence about the packets of `rx_dropped`.
fn rx_dropped(lane: &LaneTally, before: BeforeTap) -> String {
    let BeforeTap { dropped, sure, in_backlog } = before;
    let mut text = format!(
        "the kernel dropped {} on {} before the capture socket (rx_dropped)",
        number_of(dropped, "packet"),
        lane.interface
    );
    if in_backlog > 0 {
        text += BACKLOG_ADVICE;
    }
    if sure < dropped {
        let doubtful = count(dropped - sure);
        text += &format!("; {doubtful} of them may be frames that no protocol of this machine handles");
    }
    text
}

const BACKLOG_ADVICE: &str =
    ": raise net.core.netdev_max_backlog, or spread the interface's interrupts over more cores";

/// The counters of the driver that nothing else explains, with their numbers.
fn driver(lane: &LaneTally, doubtful: u64) -> String {
    let counters = lane.link.driver_counters.iter().filter(|(name, _)| !is_of_xdp(name));
    format!(
        "drop counters of {}'s driver rose by {} beyond those of the kernel (ethtool -S: {}): they need not be of this \
         capture",
        lane.interface,
        count(doubtful),
        listed(counters)
    )
}

/// The drops of an XDP program.
fn xdp(lane: &LaneTally) -> String {
    let counters = lane.link.driver_counters.iter().filter(|(name, _)| is_of_xdp(name));
    format!(
        "an XDP program dropped {} on {} before the capture socket (ethtool -S: {}): what it drops, no \
         capture sees",
        number_of(lane.link.xdp_dropped, "packet"),
        lane.interface,
        listed(counters)
    )
}

fn is_of_xdp(counter: &str) -> bool {
    counter.contains("xdp")
}

/// The drops of an interface below.
fn on_lower(lane: &LaneTally, lower: &LowerDrops, dropped: u64, is_in_backlog: bool) -> String {
    format!(
        "{} on {}, which is below {} ({}): they need not be of this capture{}",
        clause(dropped, "packet", "were dropped"),
        lower.interface,
        lane.interface,
        listed(&lower.counters),
        if is_in_backlog { BACKLOG_ADVICE } else { "" }
    )
}

fn listed<'a>(counters: impl IntoIterator<Item = (&'a String, &'a u64)>) -> String {
    let counters: Vec<_> =
        counters.into_iter().map(|(name, rise)| format!("{name} by {}", count(*rise))).collect();
    counters.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Terms;
    use Verdict::{Lossless, Lossy, Unknown};
    use quaff_os::link_counters::LinkDrops;
    use quaff_os::softnet::SoftnetRise;

    fn lane(rx_dropped: u64, other_protocols: u64, filtered: u64) -> LaneTally {
        let link = LinkDrops { rx_dropped, ..LinkDrops::default() };
        LaneTally { link, ..of_interface("eth0", other_protocols, filtered) }
    }

    fn of_interface(interface: &str, other_protocols: u64, filtered: u64) -> LaneTally {
        let terms = Terms { filtered, ..Terms::default() };
        LaneTally { interface: interface.into(), other_protocols, terms, ..LaneTally::default() }
    }

    /// Drops of core 0.
    fn softnet(dropped: u64) -> SoftnetRises {
        [(0, SoftnetRise { dropped, ..SoftnetRise::default() })].into_iter().collect()
    }

    /// The verdict of lanes without loss in the sums, with the numbers, and the reasons.
    fn judged(lanes: &[LaneTally], dropped: u64) -> (Verdict, BelowTap, Vec<String>) {
        let (found, reasons) = of(lanes, &softnet(dropped));
        let verdict = Verdict::new(false, &reasons, false);
        (verdict, found, [reasons.lossy, reasons.unknown].concat())
    }

    #[test]
    fn an_interface_that_was_removed_among_others_is_unknown() {
        let removed = LaneTally { removed_ns: 1_790_000_000_000_000_000, ..lane(0, 0, 0) };
        let unknown = |lanes: &[LaneTally], has_hotplug| judge(lanes, None, has_hotplug).1.unknown;
        assert!(unknown(std::slice::from_ref(&removed), false).is_empty(), "the run ended with it");
        let both = [removed, of_interface("lo", 0, 0)];
        assert!(unknown(&both, false)[0].starts_with("eth0 was removed at 2026-09-21T14:13:20.000Z"));
        assert!(unknown(&both, true).is_empty(), "it is captured again");
    }

    #[test]
    fn a_file_that_may_not_be_on_disk_is_a_reason() {
        assert_eq!(unsynced(&WriterTally::default()), None);
        let reason = unsynced(&WriterTally { unsynced_files: 2, ..WriterTally::default() });
        assert!(reason.unwrap().starts_with("2 files could not be synced"));
    }

    #[test]
    fn a_file_that_was_removed_is_a_reason() {
        let removed = vec![("/d/a.pcapng".to_owned(), 7)];
        let reasons: Vec<_> = removed_of(&WriterTally { removed, ..WriterTally::default() });
        assert_eq!(reasons, ["/d/a.pcapng was removed while it was written: its 7 packets are lost"]);
    }

    fn removed_of(writer: &WriterTally) -> Vec<String> {
        super::removed(writer).collect()
    }

    #[test]
    fn drops_after_the_socket_do_not_count() {
        for lane in [lane(100, 100, 0), lane(0, 100, 0), lane(0, 0, 100)] {
            assert_eq!(judged(&[lane], 0), (Lossless, BelowTap::default(), vec![]));
        }
    }

    #[test]
    fn drops_before_the_socket_are_lossy_with_their_number() {
        let (verdict, found, reasons) = judged(&[lane(150, 100, 0), lane(0, 0, 0)], 50);
        assert_eq!((verdict, found.rx_dropped, found.softnet_dropped), (Lossy, 50, 50));
        let words = "the kernel dropped 50 packets on eth0 before the capture socket (rx_dropped): raise";
        assert!(reasons.len() == 1 && reasons[0].starts_with(words), "{reasons:?}");
        // A driver that had no room, and a filter that hid fewer frames than were dropped.
        for (lane, dropped) in [(lane(7, 0, 0), 7), (lane(100, 0, 60), 100)] {
            let (verdict, found, _) = judged(&[lane], 0);
            assert_eq!((verdict, found.rx_dropped), (Lossy, dropped));
        }
    }

    #[test]
    fn drops_that_frames_without_a_handler_may_explain_are_unknown() {
        // A filter hid the protocols of 100 frames.
        let (verdict, found, reasons) = judged(&[lane(80, 0, 100)], 0);
        assert_eq!((verdict, found.rx_dropped), (Unknown, 80));
        assert!(
            reasons[0].contains("80 packets on eth0") && reasons[0].contains("no protocol"),
            "{reasons:?}"
        );
        // A backlog dropped 50, but the frames of other protocols could be the 50 of rx_dropped.
        let (verdict, found, _) = judged(&[lane(50, 100, 0)], 50);
        assert_eq!((verdict, found.rx_dropped), (Unknown, 50));
    }

    #[test]
    fn drops_of_other_interfaces_are_unknown() {
        let (verdict, found, reasons) = judged(&[lane(0, 0, 0)], 10);
        assert_eq!((verdict, found.rx_dropped, found.softnet_dropped), (Unknown, 0, 10));
        assert!(reasons[0].contains("10 packets of other interfaces"), "{reasons:?}");
        // Some are of this one: then it is lossy, and both are reported.
        let (verdict, _, reasons) = judged(&[lane(3, 0, 0)], 10);
        assert!(
            verdict == Lossy && reasons.len() == 2 && reasons[1].contains("7 packets of other"),
            "{reasons:?}"
        );
    }

    #[test]
    fn counters_of_a_driver_are_unknown_with_their_names() {
        let of_driver = |rx_dropped, other_protocols| {
            let mut lane = lane(rx_dropped, other_protocols, 0);
            lane.link.driver_dropped = 40;
            lane.link.driver_counters = [("rx_chip_discards".to_owned(), 40)].into();
            lane
        };
        let (verdict, found, reasons) = judged(&[of_driver(0, 0)], 0);
        assert_eq!((verdict, found.driver_dropped), (Unknown, 40));
        assert!(reasons[0].contains("rx_chip_discards by 40"), "{reasons:?}");
        // rx_dropped has them as well: they are lost.
        let (verdict, found, reasons) = judged(&[of_driver(40, 0)], 0);
        assert_eq!((verdict, found.driver_dropped, reasons.len()), (Lossy, 0, 1), "{reasons:?}");
        // What rx_dropped has are frames of other protocols.
        assert_eq!(judged(&[of_driver(40, 40)], 0).0, Unknown);
    }

    #[test]
    fn drops_that_the_driver_counts_are_lossy_whatever_a_filter_hid() {
        let mut lane = lane(80, 0, 100);
        lane.link.rx_dropped_by_driver = 30;
        let (verdict, found, reasons) = judged(&[lane], 0);
        assert_eq!((verdict, found.rx_dropped), (Lossy, 80));
        assert!(reasons[0].ends_with("50 of them may be frames that no protocol of this machine handles"));
    }

    #[test]
    fn drops_on_cores_that_do_not_serve_the_interface_are_not_its() {
        let mut lane = lane(0, 0, 0);
        lane.link.cores = Some([1, 2].into());
        let (verdict, found, _) = judged(std::slice::from_ref(&lane), 10);
        assert_eq!((verdict, found.softnet_dropped), (Lossless, 10));
        lane.link.cores = Some([0, 2].into());
        assert_eq!(judged(std::slice::from_ref(&lane), 10).0, Unknown);
        // Any core may serve the other interface.
        lane.link.cores = Some([1].into());
        assert_eq!(judged(&[lane, of_interface("lo", 0, 0)], 10).0, Unknown);
    }

    fn above(name: &str, lower: LowerDrops) -> LaneTally {
        let mut lane = of_interface(name, 0, 0);
        lane.link.lower = vec![lower];
        lane
    }

    #[test]
    fn drops_below_are_unknown_and_counted_once() {
        let lower = LowerDrops {
            interface: "eth0".into(),
            dropped: 5,
            rx_dropped: 7,
            is_listed: true,
            counters: [("nic_dropped".to_owned(), 5), ("rx_dropped".to_owned(), 7)].into(),
            ..LowerDrops::default()
        };
        // Two VLANs of one card; the 7 are of no backlog: nothing handled them.
        let lanes = [above("vlan5", lower.clone()), above("vlan6", lower.clone())];
        let (verdict, found, reasons) = judged(&lanes, 0);
        assert_eq!((verdict, found.lower_dropped, reasons.len()), (Unknown, 5, 1), "{reasons:?}");
        let words =
            "5 packets were dropped on eth0, which is below vlan5 (nic_dropped by 5, rx_dropped by 7): they";
        assert!(reasons[0].starts_with(words), "{reasons:?}");
        // Those of a backlog, of which 3 are of others.
        let (_, found, reasons) = judged(&lanes, 10);
        assert_eq!((found.lower_dropped, reasons.len()), (12, 2), "{reasons:?}");
        assert!(reasons[0].contains("netdev_max_backlog") && reasons[1].contains("dropped 3 packets"));
        // The card is captured too, and there the frames were seen.
        let lanes = [above("vlan5", lower), lane(7, 7, 0)];
        let (verdict, found, _) = judged(&lanes, 0);
        assert_eq!((verdict, found.lower_dropped), (Lossless, 0));
    }

    #[test]
    fn drops_of_an_xdp_program_are_unknown() {
        let mut lane = lane(0, 0, 0);
        lane.link.xdp_dropped = 9;
        lane.link.driver_counters = [("rx_xdp_drop".to_owned(), 9)].into();
        let (verdict, found, reasons) = judged(&[lane], 0);
        assert_eq!((verdict, found.xdp_dropped, found.driver_dropped), (Unknown, 9, 0));
        assert!(reasons[0].starts_with("an XDP program dropped 9 packets on eth0"), "{reasons:?}");
        assert!(reasons[0].contains("rx_xdp_drop by 9"), "{reasons:?}");
    }

    #[test]
    fn counters_that_cannot_be_read_are_unknown() {
        let mut lane = lane(0, 0, 0);
        lane.link.is_unread = true;
        let (verdict, _, reasons) = judged(&[lane], 0);
        assert!(verdict == Unknown && reasons[0].ends_with("(ethtool -S): eth0"), "{reasons:?}");
    }

    #[test]
    fn an_exhausted_budget_is_a_note_beside_a_loss() {
        let rises = [(0, SoftnetRise { squeezed: 3, ..SoftnetRise::default() })].into_iter().collect();
        let (found, reasons) = of(&[lane(0, 0, 0)], &rises);
        assert_eq!((found.softnet_squeezed, reasons), (3, Reasons::default()));
        let lossy = LaneTally { terms: Terms { nic_dropped: 2, ..Terms::default() }, ..lane(0, 0, 0) };
        let (_, reasons) = of(&[lossy], &rises);
        assert!(reasons.unknown.is_empty() && reasons.notes[0].contains("3 times"), "{reasons:?}");
    }

    #[test]
    fn cut_packets_are_lossy() {
        let cut = LaneTally { truncated: 3, ..lane(0, 0, 0) };
        let (verdict, _, reasons) = judged(&[cut, lane(0, 0, 0)], 0);
        assert_eq!((verdict, reasons.len()), (Lossy, 1));
        assert!(reasons[0].starts_with("3 packets of eth0 are cut"), "{reasons:?}");
    }

    #[test]
    fn of_several_files_those_that_record_drops_are_named() {
        let of = |files: u64, drops: &[(&str, u64)]| {
            let drops_of_files: Vec<_> =
                drops.iter().map(|(name, drops)| ((*name).to_owned(), *drops)).collect();
            let recorded_drops: u64 = drops_of_files.iter().map(|(_, drops)| drops).sum();
            recorded(&InputTally { files, recorded_drops, drops_of_files, ..InputTally::default() })
        };
        assert_eq!(of(2, &[]), None);
        for (files, drops, expected) in [
            (1, &[("a", 7)][..], "7 packets were lost during the original capture, as the files record"),
            (2, &[("a", 1)], "1 packet was lost during the original capture, as a records"),
            (
                3,
                &[("a", 7), ("b", 2000)],
                "2,007 packets were lost during the original capture, as 2 files record: b has the most, 2,000",
            ),
        ] {
            assert_eq!(of(files, drops).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_counted_loss_is_lossy_and_a_failure_alone_is_unknown() {
        let none = Reasons::default();
        assert_eq!(Verdict::new(false, &none, false), Lossless);
        assert_eq!(Verdict::new(true, &none, true), Lossy);
        assert_eq!(Verdict::new(false, &none, true), Unknown);
    }
}
