//! A run of a bench, with any setting and one or several capturers. A failure of a capturer is part of the result.

use super::capturer::{Capturer, Ended, failed};
use super::count::{self, count};
use super::place::RunDir;
use super::run::Bench;
use crate::method::{Contents, Run, Sample};
use crate::{Error, Result};
use quaff_lab::tool::{Filter, Format, Output, Setting, Tool, each};
use quaff_lab::topology::{Sampled, Stage, Watch, pause};
use quaff_lab::traffic::{Content, Size, Traffic};
use quaff_os::cpu;
use quaff_wire::probe::ProbeHeader;
use serde::Deserialize;
use std::path::Path;

/// Bytes that a tool may reserve in a file in addition to the frames.
const FILE_SLACK_BYTES: u64 = 1 << 30;

/// The report of `quaff verify --json`.
#[derive(Debug, Deserialize)]
struct Piped {
    /// Frames with a probe header, without duplicates.
    received: u64,
    frames: u64,
    #[serde(default)]
    unreadable: bool,
    error: Option<String>,
}

/// The counts of one capturer.
struct Found {
    captured: u64,
    drops: Option<u64>,
    bytes: u64,
    accounted: Option<bool>,
}

impl Bench<'_> {
    /// Performs one run of `tool`, found at `program`, under `setting`, which also gives the number of capturers.
    ///
    /// A failure of the tool is in [`Run::failed`]; all its processes have ended. The caller sets `Run::round`.
    ///
    /// # Errors
    /// Failures of anything but the tool: the generator fails, the disk is full, or the watch ends the run.
    pub fn run(
        &self,
        tool: &Tool,
        program: &Path,
        traffic: &Traffic,
        setting: &Setting,
        watch: Watch<'_>,
    ) -> Result<Run> {
        let counted_by = match tool.output_under(setting) {
            Output::Disk => "file",
            Output::Pipe => "pipe",
            Output::Screen => "lines",
            Output::Null => "tool",
        };
        let mut run = Run { intended: traffic.count, counted_by: counted_by.into(), ..Run::default() };
        if let Err(cannot) = tool.can(setting) {
            return Ok(Run { failed: Some(cannot), ..run });
        }
        match self.measure(tool, program, traffic, setting, &mut run, watch) {
            Err(Error::Tool { name, what }) if name == tool.name => run.failed = Some(what),
            done => drop(done?),
        }
        Ok(run)
    }

    /// Like [`Self::run`] with a buffer of `buffer_mib`; also returns the files of the run.
    ///
    /// # Errors
    /// Those of [`Self::run`], and [`Error::Tool`] if the tool fails.
    pub fn capture(
        &self,
        tool: &Tool,
        program: &Path,
        traffic: &Traffic,
        buffer_mib: Option<u64>,
        watch: Watch<'_>,
    ) -> Result<(Run, RunDir)> {
        let setting = Setting { buffer_mib, ..Setting::default() };
        let mut run = Run { intended: traffic.count, counted_by: "file".into(), ..Run::default() };
        let dirs = self.measure(tool, program, traffic, &setting, &mut run, watch)?;
        let dir = dirs.into_iter().next().ok_or_else(|| failed(tool, "did not run", ""))?;
        Ok((run, dir))
    }

    fn measure(
        &self,
        tool: &Tool,
        program: &Path,
        traffic: &Traffic,
        setting: &Setting,
        run: &mut Run,
        watch: Watch<'_>,
    ) -> Result<Vec<RunDir>> {
        let mut capturers = Vec::new();
        for at in 0..setting.capturers.max(1) as usize {
            let cores = self.cores_for(setting, at)?;
            capturers.push(Capturer::start(self, tool, program, setting, &cores)?);
        }
        for capturer in &mut capturers {
            capturer.ready(watch)?;
        }
        let mut look = || capturers.iter_mut().for_each(Capturer::look);
        let sent = self.site.send(traffic, self.cores.generator, watch, &mut look)?;
        run.samples = samples(&sent.samples, &capturers);
        (run.offered, run.seconds, run.receiver_drops) = (sent.offered, sent.seconds, sent.receiver_drops);
        (run.sent, run.others, run.cores, run.line) = (sent.sent, sent.others, sent.cores, sent.line);
        // Mirrored frames arrive inside other packets, so they cannot be compared.
        let of_sender = sent.bytes.zip(sent.flows).filter(|_| !traffic.mirrored);
        let bytes_max = traffic.file_bytes().saturating_add(FILE_SLACK_BYTES);
        for capturer in &mut capturers {
            capturer.settle(bytes_max, watch)?;
        }
        let ended = capturers.into_iter().map(|capturer| capturer.stop(watch)).collect::<Result<Vec<_>>>()?;
        for ended in &ended {
            let (user, system) = (ended.usage.user.as_secs_f64(), ended.usage.system.as_secs_f64());
            run.cpu_user_s += (user - ended.startup.user).max(0.0);
            run.cpu_system_s += (system - ended.startup.system).max(0.0);
            run.cpu_startup_s += ended.startup.total();
            run.writing_s = run.writing_s.max(ended.writing.as_secs_f64());
        }
        let is_stamped = is_stamped(traffic, setting);
        let mut found = Vec::new();
        for ended in &ended {
            found.push(find(tool, setting, is_stamped, ended, watch)?);
        }
        run.lanes = match ended.as_slice() {
            [ended] => each(&ended.said, &tool.lane_packets),
            _ => Vec::new(),
        };
        if let ([ended], Some(of_sender)) = (ended.as_slice(), of_sender) {
            run.contents = contents(tool, setting, ended, of_sender, watch)?;
        }
        pause(watch, Stage::Counting)?;
        note_found(run, setting, &found);
        Ok(ended.into_iter().map(|ended| ended.dir).collect())
    }

    /// The cores of all capturers: not the generator's unless all share one; as many as the setting requests.
    fn cores_of(&self, setting: &Setting) -> Result<Vec<usize>> {
        if setting.cores == 1 {
            return Ok(vec![self.cores.generator]);
        }
        let mut cores = vec![self.cores.capturer];
        cores.extend(self.other_cores()?);
        let lanes = setting.lanes.unwrap_or(1) as usize;
        cores.truncate((setting.cores as usize).saturating_sub(1).max(lanes));
        Ok(cores)
    }

    /// The cores of one capturer: one core, or one for each lane as far as available.
    fn cores_for(&self, setting: &Setting, at: usize) -> Result<Vec<usize>> {
        let cores = self.cores_of(setting)?;
        Ok(match setting.lanes.filter(|_| setting.cores > 1) {
            Some(_) => cores,
            None => vec![cores[at % cores.len()]],
        })
    }

    /// The core for the reader of a pipe: an unused one, else the capturer's. The generator needs its core for its
    /// rate.
    pub(super) fn reader_core(&self, setting: &Setting, capturer: usize) -> Result<usize> {
        let taken = self.cores_of(setting)?;
        Ok(self.other_cores()?.into_iter().find(|core| !taken.contains(core)).unwrap_or(capturer))
    }

    /// Usable cores other than the generator's and the capturer's.
    fn other_cores(&self) -> Result<Vec<usize>> {
        let taken = [self.cores.generator, self.cores.capturer];
        Ok(cpu::allowed()?.into_iter().filter(|core| !taken.contains(core)).collect())
    }
}

/// True if frames are identified by their probe headers. A snaplen may cut the headers off; and the checksum of a frame
/// cut after its header needs the missing bytes, which are known only for counting contents.
fn is_stamped(traffic: &Traffic, setting: &Setting) -> bool {
    let is_whole = |bytes: u32| matches!(traffic.size, Size::Bytes(size) if size <= bytes);
    let is_known = |bytes: u32| {
        traffic.content == Content::Counting && bytes as usize >= ProbeHeader::LAYOUT.frame_bytes_min
    };
    traffic.mirrored
        || traffic.is_stamped() && setting.snaplen.is_none_or(|bytes| is_whole(bytes) || is_known(bytes))
}

/// CPU use in each part of the run: of the machine, and of all capturers together.
fn samples(sampled: &[Sampled], capturers: &[Capturer<'_>]) -> Vec<Sample> {
    let Some(begun) = sampled.first().map(|first| first.from) else { return Vec::new() };
    let one = |Sampled { from, to, cores }: &Sampled| Sample {
        at_s: (*to - begun).as_secs_f64(),
        cores: cores.clone(),
        capturer: capturers.iter().map(|capturer| capturer.used_between(*from, *to)).sum(),
    };
    sampled.iter().map(one).collect()
}

/// Stores means over all capturers, and the loss of each.
fn note_found(run: &mut Run, setting: &Setting, found: &[Found]) {
    let of = found.len().max(1) as u64;
    let mean = |sum: u64| (sum + of / 2) / of;
    run.captured = Some(mean(found.iter().map(|found| found.captured).sum()));
    run.tool_drops = found.iter().map(|found| found.drops).sum::<Option<u64>>().map(mean);
    run.bytes = found.iter().map(|found| found.bytes).sum();
    run.accounted = found.iter().map(|found| found.accounted).try_fold(true, |all, one| Some(all && one?));
    if setting.filter == Filter::RejectAll || run.offered == 0 {
        return;
    }
    let offered = run.offered;
    let loss = |captured: u64| offered.saturating_sub(captured) as f64 / offered as f64;
    let each: Vec<_> = found.iter().map(|found| loss(found.captured)).collect();
    run.loss = Some(each.iter().sum::<f64>() / of as f64);
    if each.len() > 1 {
        run.each_loss = each;
    }
}

/// Bytes and flows that were sent, and those in the tool's captures; `None` if it wrote none.
fn contents(
    tool: &Tool,
    setting: &Setting,
    ended: &Ended,
    (sent_bytes, sent_flows): (u64, u64),
    watch: Watch<'_>,
) -> Result<Option<Contents>> {
    if tool.output_under(setting) != Output::Disk || tool.format != Format::Capture {
        return Ok(None);
    }
    let (captured_bytes, captured_flows) = count::contents(&ended.dir.files()?, watch)?;
    Ok(Some(Contents { sent_bytes, captured_bytes, sent_flows, captured_flows }))
}

/// Counts the packets of one capturer at its output.
fn find(tool: &Tool, setting: &Setting, is_stamped: bool, ended: &Ended, watch: Watch<'_>) -> Result<Found> {
    let drops = tool.drops.as_ref().and_then(|drops| drops.read(&ended.said));
    let (captured, bytes, accounted) = match tool.output_under(setting) {
        Output::Disk => {
            let files = ended.dir.files()?;
            if files.is_empty() {
                return Err(failed(tool, "wrote no file", &ended.said));
            }
            let counted = count(&files, tool.format, is_stamped, watch).map_err(|error| match error {
                Error::Tool { what, .. } => failed(tool, "its file is not a capture", &what),
                error => error,
            })?;
            (counted.frames, counted.bytes, counted.accounted)
        }
        Output::Pipe => {
            let read = ended.read.as_deref().unwrap_or_default();
            match serde_json::from_str::<Piped>(read) {
                Ok(piped) if !piped.unreadable => {
                    (if is_stamped { piped.received } else { piped.frames }, 0, None)
                }
                Ok(piped) => {
                    let why = piped.error.unwrap_or_default();
                    return Err(failed(tool, "the data from its pipe is not a capture", &why));
                }
                Err(_) => return Err(failed(tool, "it wrote nothing to its pipe", &ended.said)),
            }
        }
        Output::Screen => {
            let lines = ended.read.as_deref().unwrap_or_default();
            let nothing = || failed(tool, "it printed nothing", &ended.said);
            (lines.trim().parse().map_err(|_| nothing())?, 0, None)
        }
        Output::Null => {
            let captured = tool.captured.as_ref().and_then(|captured| captured.read(&ended.said));
            let silent = || failed(tool, "does not report how many packets it captured", &ended.said);
            (captured.ok_or_else(silent)?, 0, None)
        }
    };
    Ok(Found { captured, drops, bytes, accounted })
}

#[cfg(test)]
mod tests;
