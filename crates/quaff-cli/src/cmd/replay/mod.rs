//! `quaff replay`: sends capture files from an interface, each packet when it is due, or writes them into a file.

mod args;
mod confined;
mod feed;
mod report;
mod rewrite;
mod to_file;

pub(crate) use args::Args;
pub(crate) use to_file::write;

use crate::cmd::sending::{OnUsr1, Watch, destination};
use crate::exit::Exit;
use crate::show::{self, Stream};
use anyhow::bail;
use args::{MEMORY_BYTES, Memory};
use feed::{rate, rewritten, source};
use quaff_os::Stop;
use quaff_send::{Feed, ReplayPlan, ReplayReport, ReplayVia, Snapshot};

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(path) = args.send.write.first() {
        let written = write(args, path, OnUsr1::Progress)?;
        let stream = Stream::of_report(path.as_os_str() == "-");
        match args.report.json {
            true => show::json(stream, &written)?,
            false => show::report(stream, report::written(&written, args, path).trim_end()),
        }
        return Ok(Exit::judged(written.is_whole()));
    }
    let report = execute(args)?;
    if args.report.json {
        show::json(Stream::Stdout, &report)?;
    } else {
        show::report(Stream::Stdout, report::text(&report, args).trim_end());
    }
    report.error.iter().for_each(|error| show::message(error));
    Ok(Exit::judged(report.error.is_none().then(|| report.agrees())))
}

/// Runs the replay and returns its report, without printing it.
fn execute(args: &Args) -> anyhow::Result<ReplayReport> {
    execute_with(args, OnUsr1::Progress, |feed| feed, |_| {})
}

/// Runs the replay for another command line: `wrap` may insert a feed between the files and the sender, and `look`
/// receives the progress.
pub(crate) fn execute_with(
    args: &Args,
    on_usr1: OnUsr1,
    wrap: impl FnOnce(Box<dyn Feed>) -> Box<dyn Feed>,
    mut look: impl FnMut(&Snapshot),
) -> anyhow::Result<ReplayReport> {
    let found = args.input.find(&[])?;
    if args.one_at_a_time && found.files.iter().any(|file| file.as_os_str() == "-") {
        bail!("stdin can be the input file or trigger the frames (--one-at-a-time), not both");
    }
    let mut watch = Watch::with(&args.watch, args.one_at_a_time, on_usr1)?;
    let (plan, stop) = (plan(args)?, Stop::default());
    let feed = wrap(rewritten(source(args, &found, &stop)?, args)?);
    let (feed, sandbox) = confined::confined(feed, args, found.with_later_names());
    let report = quaff_send::replay(&plan, feed, stop, |snapshot, wait| {
        look(snapshot);
        watch.look(snapshot, wait)
    });
    watch.clear_line();
    sandbox.finish();
    Ok(report?)
}

fn plan(args: &Args) -> anyhow::Result<ReplayPlan> {
    let (via, interface) = destination(&args.send.inject, &args.send.out, [ReplayVia::Inject, *args.via]);
    Ok(ReplayPlan {
        via,
        interface,
        interface2: args.out2.clone(),
        rate: rate(args)?,
        gap_max: args.max_gap,
        loops: Some(args.turns()).filter(|turns| *turns > 0),
        unique_ip: args.unique_ip,
        limit: *args.count,
        duration: args.end.duration,
        late: args.late,
        stepwise: args.one_at_a_time,
        core: *args.cpu,
        memory_bytes: args.buffer.map_or(MEMORY_BYTES, |Memory(bytes)| bytes),
    })
}
