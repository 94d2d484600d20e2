//! A capture of what others captured: the same lane and writer, with files in the place of the
//! kernel's ring.
//!
//! The first file is read up to its first packet before anything else, since the head of the output
//! tells when it began. No clock of this machine leaves a trace in the output.

use super::{Capture, Setting, Status, give_up, packer, section, spawn, stages, start_pool, start_writer};
use crate::inner::InnerFilter;
use crate::lane::{self, Packing, Reader};
use crate::plan::{CapturePlan, ReadPlan};
use crate::source::files::Offline;
use crate::stage::Quota;
use crate::tally::{InputTally, LaneTally};
use crate::{Error, Result};
use quaff_file::interfaces::Interfaces;
use quaff_file::write::header::Heading;
use quaff_file::write::plan::Output;
use quaff_file::write::target::Target;
use quaff_os::clock::steady_ns;
use quaff_os::cpu;
use quaff_os::stop::{Reason, Stop};
use quaff_os::wakeup::Wakeup;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A packet is in the output after this time only where somebody waits for it.
pub(super) const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Starts it: when this returns, the first packet has been found.
pub(super) fn start(mut plan: CapturePlan, stop: Stop) -> Result<Capture> {
    let read = plan.read.clone().unwrap_or_default();
    let filter = plan.filter.as_deref().map(InnerFilter::new).transpose()?;
    let inner = plan.inner.as_ref().map(|inner| InnerFilter::new(&inner.expression)).transpose()?;
    if !is_live(&read) {
        plan.flush = NEVER;
    }
    refuse_own_output(&read, &plan.output)?;
    refuse_followed_pipe(&read)?;
    let gauges = vec![Arc::default()];
    let (interfaces, cpu) = (Interfaces::default(), read.cpu);
    let source = Offline::open(read, plan.format, interfaces.clone(), stop.clone(), Arc::clone(&gauges[0]))?;
    let wakeup = Wakeup::new()?;
    let outlet = Target::open(&plan.output, plan.live_copy.as_ref(), plan.format, &wakeup, &stop)?;
    let (pool, pools) = start_pool(&plan, &gauges, &stop)?;
    let filters = filter.iter().chain(&inner).cloned().collect();
    let setting = Setting { filter, inner, ..setting(&plan, interfaces, source.first_ns(), &outlet) };
    let mut notes = pool.notes();
    notes.extend(outlet.note());
    let status = Status {
        lanes: gauges,
        writer: Arc::default(),
        ring_blocks: 0,
        pool_buffers: plan.buffers_per_lane() as u64,
    };
    let pool_of_lane = pools.into_iter().next().ok_or(Error::Defect("a lane has no pool".into()))?;
    let (packer, inlet) = packer(&plan, &setting, 0, pool_of_lane, &outlet, &wakeup);
    let writing = outlet.describe();
    let quota = plan.count.map(Quota::new);
    let gauges = status.lanes[0].clone();
    let stages = stages(&plan, &setting, false, gauges.clone(), quota.as_ref(), &stop);
    let writer = start_writer(&plan, &setting, outlet, vec![inlet], &wakeup, &stop, &status)
        .map_err(|error| give_up(error, Vec::new(), &stop))?;
    let (tell, input) = channel();
    let lane = start_lane(Reader { source, stages, packer, stop: stop.clone(), gauges }, cpu, tell)?;
    Ok(Capture {
        stop,
        status,
        lanes: vec![lane],
        writer,
        pool,
        writing,
        plan,
        notes,
        filters,
        input: Some(input),
        started_ns: steady_ns(),
        softnet: None,
    })
}

/// Whether somebody writes the input just now.
pub(super) fn is_live(read: &ReadPlan) -> bool {
    let is_stream =
        |path: &Path| path.as_os_str() == "-" || !path.metadata().is_ok_and(|meta| meta.is_file());
    read.follow || read.files.iter().any(|path| is_stream(path))
}

/// A file that is read and emptied at once holds nothing for anybody.
pub(super) fn refuse_own_output(read: &ReadPlan, output: &Output) -> Result<()> {
    let identity = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    let is_read = |own: Option<_>| own.is_some() && read.files.iter().any(|path| identity(path) == own);
    let refused = match output {
        Output::File(out) => out.is_file() && is_read(identity(out)),
        Output::Stdout => {
            let stdout = Path::new("/dev/stdout");
            stdout.is_file() && is_read(identity(stdout))
        }
        Output::Dir(dir) => {
            let folder = identity(&dir.dir);
            let is_in = |path: &PathBuf| {
                path.parent().is_some_and(|parent| {
                    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                    identity(parent) == folder
                })
            };
            if dir.retention.is_any() && read.files.iter().any(is_in) {
                return Err(Error::Plan(format!(
                    "{} holds files that are read: what may stay there would remove them; give another --dir",
                    dir.dir.display()
                )));
            }
            false
        }
    };
    match refused {
        true => Err(Error::Plan("a file cannot be read and written at once: give another output".into())),
        false => Ok(()),
    }
}

/// A pipe is waited for anyway, and one that is silent could not be left.
pub(super) fn refuse_followed_pipe(read: &ReadPlan) -> Result<()> {
    let is_file =
        |path: &PathBuf| path.as_os_str() != "-" && path.metadata().is_ok_and(|meta| meta.is_file());
    match read.files.iter().find(|path| read.follow && !is_file(path)) {
        Some(path) => {
            Err(Error::Plan(format!("--follow is for files; {} is read to its end anyway", path.display())))
        }
        None => Ok(()),
    }
}

pub(super) fn setting(plan: &CapturePlan, interfaces: Interfaces, start_ns: u64, outlet: &Target) -> Setting {
    let heading = Heading {
        format: plan.format,
        section: section(),
        known: interfaces.count(),
        interfaces: interfaces.clone(),
        lanes: 1,
        start_ns,
        align: outlet.align(),
    };
    let slots = outlet.slots(start_ns);
    Setting { links: Vec::new(), interfaces, filter: None, inner: None, heading, slots, start_ns }
}

pub(super) fn start_lane<P: Packing + 'static>(
    reader: Reader<Offline, P>,
    core: Option<usize>,
    tell: Sender<InputTally>,
) -> Result<JoinHandle<Result<LaneTally>>> {
    let stop = reader.stop.clone();
    spawn("quaff-read", &stop.clone(), move || {
        let place = core.map_or(Ok(()), cpu::pin).map_err(Error::from);
        let ended = place.and_then(|()| lane::read(reader)).map(|ended| sum_up(ended, &tell));
        stop.raise(match &ended {
            Err(error) => Reason::Failed(error.to_string()),
            Ok(_) => Reason::InputEnded,
        });
        ended
    })
}

fn sum_up((source, lane): (Offline, LaneTally), tell: &Sender<InputTally>) -> LaneTally {
    let (source, input) = source.finish();
    // Whoever does not wait for the end does not want to know.
    tell.send(input).ok();
    LaneTally {
        interface: source.interface,
        offered: source.offered,
        truncated: source.truncated,
        unsuited: source.unsuited + lane.unsuited,
        ..lane
    }
}
