//! The report of a replay, as text.

use super::Args;
use crate::show;
use quaff_send::Witness;
use quaff_send::replay::{ReplayReport, ReplayVia};

pub(super) fn text(report: &ReplayReport, args: &Args) -> String {
    let files = match args.files.as_slice() {
        [one] => one.display().to_string(),
        many => format!("{} files", many.len()),
    };
    let how = match report.via {
        ReplayVia::Inject => "injected into",
        ReplayVia::XdpRedirect => "sent by XDP from",
        ReplayVia::Auto | ReplayVia::User(_) => "sent from",
    };
    let names: Vec<_> = report.interfaces.iter().map(|one| one.name.as_str()).collect();
    let mut text = format!(
        "{files} {how} {}\n  in file    {}{}\n  intended   {}{}\n  sent       {}  ({})\n  \
         confirmed  {}  ({})\n  time       {:.3} s, {}, {}\n",
        names.join(" and "),
        show::count(report.in_file),
        left_out(report),
        show::count(report.intended),
        loops(report),
        show::count(report.sent),
        show::bytes(report.bytes),
        show::count(report.confirmed),
        verdict(report),
        report.seconds,
        show::pps(report.pps),
        show::bits(report.bits_per_second),
    );
    text += &backends(report);
    let more = if report.more_flows { " and more" } else { "" };
    text += &format!("  flows      {}{more}\n", show::count(report.flows));
    text += &pace(report);
    if let Some(damage) = &report.damage {
        text += &format!("  damage     {damage}\n");
    }
    text
}

/// By which ways frames left from user space, and what was refused there.
fn backends(report: &ReplayReport) -> String {
    let mut text = String::new();
    for one in &report.interfaces {
        let Some(backend) = &one.backend else { continue };
        let mut words = backend.name.clone();
        if report.interfaces.len() > 1 {
            words = format!("{}: {} by {words}", one.name, show::count(one.sent));
        }
        for (count, what) in [(one.failed, "refused"), (backend.pending, "not returned by the driver")] {
            if count > 0 {
                words += &format!(", {} {what}", show::count(count));
            }
        }
        if one.enobufs + one.eagain > 0 {
            words +=
                &format!(", {} retries because the queue was full", show::count(one.enobufs + one.eagain));
        }
        text += &format!("  backend    {words}\n");
    }
    if let Some(why) = &report.why {
        text += &format!("             ({why})\n");
    }
    text
}

/// Packets of the files that were not sent or not sent as they are.
fn left_out(report: &ReplayReport) -> String {
    let feed = &report.feed;
    let parts = [
        (feed.excluded, "excluded"),
        (feed.link_type, "not Ethernet"),
        (report.skipped.too_large, "larger than the MTU or a page"),
        (report.skipped.too_short, "without an Ethernet header"),
        (feed.cut, "truncated by the capture, sent as they are"),
        (feed.rewritten.cut_dropped, "truncated by the capture, skipped"),
        (feed.rewritten.mtu_skipped, "longer than the MTU"),
        (feed.rewritten.mtu_cut, "truncated to the MTU"),
        (feed.rewritten.unstamped, "without room for a probe header"),
    ];
    let mut words: Vec<_> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", show::count(count)))
        .collect();
    if feed.rewritten.fragmented > 0 {
        let [whole, pieces] = [feed.rewritten.fragmented, feed.rewritten.fragments].map(show::count);
        words.push(format!("{whole} sent as {pieces} fragments"));
    }
    if words.is_empty() { String::new() } else { format!("  ({})", words.join(", ")) }
}

fn loops(report: &ReplayReport) -> String {
    if report.loops > 1 { format!("  ({} loops)", show::count(report.loops)) } else { String::new() }
}

fn pace(report: &ReplayReport) -> String {
    let mut text = String::new();
    if let Some(error) = report.pace_error {
        text += &format!("  pace       {:+.4} % from the planned duration\n", error * 100.0);
    }
    if let Some(late) = report.lateness {
        let [mean, p50, p99, max] = [late.mean_ns, late.p50_ns, late.p99_ns, late.max_ns].map(show::span_ns);
        text += &format!("  late       mean {mean}, median {p50}, p99 {p99}, max {max}\n");
    }
    if report.longest_burst > 1 {
        text += &format!("  burst      {} frames in a row were late\n", show::count(report.longest_burst));
    }
    if report.late_dropped > 0 {
        text += &format!("  dropped    {} frames that were late\n", show::count(report.late_dropped));
    }
    if report.shifted_ns > 0 {
        text += &format!("  shifted    by {} in all\n", show::span_ns(report.shifted_ns));
    }
    text
}

/// The counter that confirmed the frames, and whether the counts agree.
fn verdict(report: &ReplayReport) -> String {
    let mut words = vec![
        match report.witness {
            Witness::Tap => "by a packet tap",
            Witness::RxOtherhostDropped => "by rx_otherhost_dropped",
            Witness::TxPackets => "by tx_packets",
            Witness::Softnet => "by the softnet counters",
        }
        .to_owned(),
    ];
    if report.others > 0 {
        words.push(format!("{} of them from other senders", show::count(report.others)));
    }
    if report.confirmed < report.sent || !report.interrupted && report.sent != report.intended {
        words.push("the counts do not agree".to_owned());
    }
    if report.confirmed == 0 && report.sent > 0 && report.via == ReplayVia::XdpRedirect {
        words.push(
            "the other end of a veth receives XDP frames only with NAPI: ethtool -K PEER gro on".to_owned(),
        );
    }
    if report.interrupted {
        words.push("interrupted".to_owned());
    }
    words.join(", ")
}
