//! The report of a replay as text. It never prints.

use super::args::Args;
use crate::cmd::sending::{confirmation, counts, dropped_of, lateness, pace, sent};
use crate::show::{self, name};
use quaff_send::{FeedTally, ReplayReport, ReplayVia, Skipped, ToFileReport};
use std::path::Path;

pub(super) fn text(report: &ReplayReport, args: &Args) -> String {
    let files = files(args);
    let how = match report.via {
        ReplayVia::Inject => "injected into",
        ReplayVia::XdpRedirect => "sent by XDP from",
        ReplayVia::Auto | ReplayVia::User(_) => "sent from",
    };
    let names: Vec<_> = report.interfaces.iter().map(|one| name(&one.name)).collect();
    let mut text = format!(
        "{files} {how} {}\n  in file    {}{}\n  intended   {}{}\n",
        names.join(" and "),
        show::count(report.in_file),
        excluded(&report.feed, report.skipped),
        show::count(report.intended),
        loops(report),
    );
    text += &sent(report, &verdict(report));
    text += &backends(report);
    let more = if report.more_flows { " and more" } else { "" };
    text += &format!("  flows      {}{more}\n", show::count(report.flows));
    text += &timing(report);
    if let Some(damage) = &report.damage {
        text += &format!("  damage     {}\n", name(damage));
    }
    text
}

/// The report of frames that were written into a file.
pub(super) fn written(report: &ToFileReport, args: &Args, path: &Path) -> String {
    let mut text = format!(
        "{} written to {}\n  in file    {}{}\n  written    {} of {}\n",
        files(args),
        name(&path.display().to_string()),
        show::count(report.in_file),
        excluded(&report.feed, Skipped::default()),
        show::count(report.written),
        show::bytes(report.bytes),
    );
    if report.loops > 1 {
        text += &format!("  loops      {}\n", show::count(report.loops));
    }
    if let Some(damage) = &report.damage {
        text += &format!("  damage     {}\n", name(damage));
    }
    text
}

fn files(args: &Args) -> String {
    match args.input.named() {
        [one] => name(&one.display().to_string()).into_owned(),
        many => format!("{} files", many.len()),
    }
}

/// The backends in user space, with refused frames and retries.
fn backends(report: &ReplayReport) -> String {
    let mut text = String::new();
    for one in &report.interfaces {
        let Some(backend) = &one.backend else { continue };
        let mut words = backend.name.clone();
        if report.interfaces.len() > 1 {
            words = format!("{}: {} by {words}", name(&one.name), show::count(one.sent));
        }
        let trouble = [
            (one.failed, "refused"),
            (backend.pending, "not returned by the driver"),
            (one.enobufs + one.eagain, "retries because the queue was full"),
        ];
        let words: Vec<_> = std::iter::once(words).chain(show::present(trouble)).collect();
        text += &format!("  backend    {}\n", words.join(", "));
    }
    if let Some(why) = &report.why {
        text += &format!("             ({})\n", name(why));
    }
    text
}

/// Packets of the files that were skipped or changed.
fn excluded(feed: &FeedTally, skipped: Skipped) -> String {
    let parts = [
        (feed.excluded, "excluded"),
        (feed.link_type, "not Ethernet"),
        (skipped.too_large, "larger than the MTU or a page"),
        (skipped.too_short, "without an Ethernet header"),
        (feed.cut, "truncated by the capture, sent as they are"),
        (feed.rewritten.cut_dropped, "truncated by the capture, skipped"),
        (feed.rewritten.mtu_skipped, "longer than the MTU"),
        (feed.rewritten.mtu_cut, "truncated to the MTU"),
        (feed.rewritten.unstamped, "without room for a probe header"),
    ];
    let mut words: Vec<_> = show::present(parts).collect();
    if feed.rewritten.fragmented > 0 {
        let [whole, pieces] = [feed.rewritten.fragmented, feed.rewritten.fragments].map(show::count);
        words.push(format!("{whole} sent as {pieces} fragments"));
    }
    if words.is_empty() { String::new() } else { format!("  ({})", words.join(", ")) }
}

fn loops(report: &ReplayReport) -> String {
    if report.loops > 1 { format!("  ({} loops)", show::count(report.loops)) } else { String::new() }
}

fn timing(report: &ReplayReport) -> String {
    let mut text = pace(report.pace_error, "the planned duration") + &lateness(report.lateness);
    let burst = if report.longest_burst > 1 { report.longest_burst } else { 0 };
    text += &show::counted("  burst      ", [(burst, "frames in a row were late")]);
    text += &show::counted("  dropped    ", [(report.late_dropped, "frames too late")]);
    if report.shifted_ns > 0 {
        text += &format!("  shifted    by {} in all\n", show::span_ns(report.shifted_ns));
    }
    text
}

fn verdict(report: &ReplayReport) -> String {
    let is_veth_mute = report.confirmed == 0 && report.sent > 0 && report.via == ReplayVia::XdpRedirect;
    let hint = "the other end of a veth receives XDP frames only with NAPI: ethtool -K PEER gro on";
    let hint = if is_veth_mute { Some(hint.to_owned()) } else { dropped_of(report) };
    confirmation(report.witness, report.others, &counts(report), hint.as_deref(), report.interrupted)
}
