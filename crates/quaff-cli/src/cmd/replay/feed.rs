//! The frames of a replay, as its arguments choose them, and their rate.

use super::args::Args;
use crate::capture_files::Found;
use anyhow::{Context as _, bail};
use quaff_os::{Stop, rtnl};
use quaff_send::{Feed, FilePlan, Layer, Rate, Ratio, merge};
use std::sync::Arc;

/// Inserts the rewriting of the flags.
pub(super) fn rewritten(feed: Box<dyn Feed>, args: &Args) -> anyhow::Result<Box<dyn Feed>> {
    let mut mtu = u32::MAX;
    for interface in [&args.send.inject, &args.send.out, &args.out2].into_iter().flatten() {
        mtu = mtu.min(rtnl::link(interface)?.mtu);
    }
    let plan = args.rewrite.plan(mtu, args.out2.is_some() && args.tcpprep.is_none() && args.dual.is_empty());
    if plan.stamp.is_some() && args.turns() != 1 {
        bail!("--stamp numbers the frames of a single pass: omit --loop");
    }
    Ok(plan.apply(feed))
}

/// The feed of the files that are `found`, or of both directions of a link.
pub(super) fn source(args: &Args, found: &Found, stop: &Stop) -> anyhow::Result<Box<dyn Feed>> {
    let (include, exclude) = (args.ranges.include.clone(), args.ranges.exclude.clone());
    let (files, in_folders) = (found.files.clone(), Arc::new(found.in_folders.clone()));
    let plan = FilePlan { files, found: in_folders, include, exclude, cache: args.tcpprep.clone() };
    let other = FilePlan { files: args.dual.clone(), ..plan.clone() };
    let feed = plan.open(stop.clone())?;
    if args.dual.is_empty() { Ok(feed) } else { Ok(merge(feed, other.open(stop.clone())?)) }
}

/// The rate of the frames.
pub(super) fn rate(args: &Args) -> anyhow::Result<Rate> {
    let layer = match args.layer {
        1 => Layer::L1,
        3 => Layer::L3,
        _ => Layer::L2,
    };
    let too_fast = "the rate is out of range";
    if args.topspeed || args.one_at_a_time {
        return Ok(Rate::Topspeed);
    }
    if let Some(pps) = *args.pps {
        return Ok(Rate::Frames(pps));
    }
    if let Some(mbps) = *args.mbps {
        let bps = Ratio::of(mbps.value() * 1e6).context(too_fast)?;
        return Ok(Rate::Bits(bps, layer));
    }
    if let Some((percent, bps)) = args.util.zip(*args.link) {
        let bps = Ratio::of(bps * percent / 100.0).context(too_fast)?;
        return Ok(Rate::Bits(bps, Layer::L1));
    }
    let as_captured = Ratio { num: 1, den: 1 };
    Ok(Rate::Captured(args.multiplier.unwrap_or(as_captured)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use std::ffi::OsString;

    fn args(line: &str) -> Args {
        let line: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        let Ok(Command::Replay(args)) = crate::read(&line) else { panic!("{line:?}") };
        *args
    }

    #[test]
    fn rate_flags_select_the_rate() {
        let ratio = |value| Ratio::of(value).unwrap();
        for (line, expected) in [
            ("", Rate::Captured(Ratio { num: 1, den: 1 })),
            ("-x 2.5", Rate::Captured(ratio(2.5))),
            ("--pps 553097", Rate::Frames(ratio(553_097.0))),
            ("--mbps 9.5", Rate::Bits(ratio(9.5e6), Layer::L2)),
            ("--mbps 100 --layer 3", Rate::Bits(ratio(1e8), Layer::L3)),
            ("--util 80 --link 1G", Rate::Bits(ratio(8e8), Layer::L1)),
            ("-t", Rate::Topspeed),
        ] {
            assert_eq!(rate(&args(&format!("replay -o a f {line}"))).unwrap(), expected, "{line}");
        }
    }
}
