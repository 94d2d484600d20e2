//! `quaff replay -w`: the frames go into a file. It is emptied when nothing of the plan can be refused any more.

use super::args::Args;
use super::confined;
use super::feed::{rate, rewritten, source};
use crate::cmd::packet_file;
use crate::cmd::sending::{OnUsr1, Watch};
use anyhow::bail;
use quaff_os::Stop;
use quaff_send::{Snapshot, ToFilePlan, ToFileReport, replay_to_file};
use std::fs::canonicalize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Writes the frames into a file and returns the report, without printing it.
pub(crate) fn write(args: &Args, path: &Path, on_usr1: OnUsr1) -> anyhow::Result<ToFileReport> {
    let is_same =
        |input: &PathBuf| canonicalize(input).is_ok_and(|input| canonicalize(path).ok() == Some(input));
    let found = args.input.find(&[path])?;
    if found.files.iter().any(is_same) {
        bail!("a file cannot be read and written at once: give another one to --write");
    }
    let plan = ToFilePlan {
        format: packet_file::format(path, *args.send.format),
        rate: rate(args)?,
        gap_max: args.max_gap,
        loops: Some(args.turns()).filter(|turns| *turns > 0),
        unique_ip: args.unique_ip,
        limit: *args.count,
        duration: args.end.duration,
    };
    plan.check()?;
    let mut watch = Watch::with(&args.watch, false, on_usr1)?;
    let file = packet_file::open(path)?;
    let feed = rewritten(source(args, &found, &Stop::default())?, args)?;
    let (mut feed, sandbox) = confined::confined(feed, args, found.with_later_names());
    feed.begin(false)?;
    let mut out = packet_file::begin(file, path)?;
    let look = |snapshot: &Snapshot| watch.look(snapshot, Duration::ZERO);
    let written = replay_to_file(&plan, feed, &mut *out, &path.display().to_string(), look);
    watch.clear_line();
    sandbox.finish();
    Ok(written?)
}
