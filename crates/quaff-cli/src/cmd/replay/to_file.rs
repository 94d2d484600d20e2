//! `quaff replay -w`: the frames go into a file. Their bytes are the only thing that reaches stdout past `show.rs`.

use super::{Args, rate, rewritten, source};
use crate::cmd::sending::Watch;
use anyhow::{Context as _, bail};
use quaff_file::write::Format;
use quaff_os::{Signal, Signals, Stop};
use quaff_send::{Snapshot, ToFilePlan, ToFileReport, replay_to_file};
use std::fs::{File, canonicalize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Writes the frames into a file and returns the report, without printing it.
pub(crate) fn write(args: &Args, path: &Path) -> anyhow::Result<ToFileReport> {
    let is_same =
        |input: &PathBuf| canonicalize(input).is_ok_and(|input| canonicalize(path).ok() == Some(input));
    if args.files.iter().any(is_same) {
        bail!("a file cannot be read and written at once: give another one to --write");
    }
    let signals = Signals::block(&[Signal::SIGINT, Signal::SIGTERM])?;
    let stop = Stop::default();
    let feed = rewritten(source(args, &stop)?, args)?;
    let name = path.display().to_string();
    let mut out: Box<dyn Write> = match path.as_os_str() == "-" {
        true => Box::new(std::io::stdout().lock()),
        false => Box::new(File::create(path).with_context(|| format!("create {name}"))?),
    };
    let is_pcapng = path.extension().is_some_and(|suffix| suffix == "pcapng" || suffix == "ntar");
    let plan = ToFilePlan {
        format: args.format.unwrap_or(if is_pcapng { Format::Pcapng } else { Format::Pcap }),
        rate: rate(args)?,
        gap_max: args.max_gap,
        loops: (args.r#loop > 0).then_some(args.r#loop),
        unique_ip: args.unique_ip,
        limit: args.count,
        duration: args.duration,
    };
    let mut watch = Watch::new(signals, args.stats, args.quiet, false);
    let look = |snapshot: &Snapshot| watch.look(snapshot, Duration::ZERO);
    let written = replay_to_file(&plan, feed, &mut out, &name, look);
    watch.clear_line();
    Ok(written?)
}
