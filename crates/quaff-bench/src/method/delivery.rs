//! Measures a sender by the frames that arrive at the other end of the lab, and their times. The sender's own report is
//! passed on but not used.

mod consumer;

pub use consumer::ConsumerKind;

use super::place::Place;
use super::run::Cores;
use super::{OUTPUT_WAIT, finish};
use crate::{Error, Result};
use consumer::Consumer;
use quaff_lab::topology::{Stage, Watch, pause};
use quaff_lab::{ChildProcess, Finished, Lab, RX, TX};
use quaff_os::Signal;
use quaff_os::process::Prepare;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Interval of the receiver's readings; also the accuracy of the times.
const LOOK: Duration = Duration::from_millis(1);
/// Time for frames in flight to arrive after the sender has ended.
const UNDER_WAY: Duration = Duration::from_millis(100);
/// Time limit for a capture to start, and to stop.
const READY_MAX: Duration = Duration::from_secs(30);

/// The environment of a sender.
#[derive(Debug, Clone, Copy)]
pub struct Post<'a> {
    /// The quaff executable.
    pub quaff: &'a Path,
    pub lab: &'a Lab,
    /// Directory for the files.
    pub place: &'a Place,
    pub cores: Cores,
}

/// A sender's command line with the placeholders `{quaff}`, `{tx}`, `{rx}` and `{file}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The name in tables.
    pub name: &'static str,
    /// Program and arguments.
    pub words: Vec<String>,
    /// True if it runs on the generator's core only.
    pub pinned: bool,
    /// Time until it gets a SIGINT; `None`: it ends by itself.
    pub interrupt_after: Option<Duration>,
}

/// The result of a sender.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// Frames that the receiver counted.
    pub frames: u64,
    /// Time from the first to the last frame, by polling the receiver, s.
    pub seconds: f64,
    /// The same by the consumer's clock, s; for [`ConsumerKind::XdpTimes`].
    pub span_seconds: f64,
    /// Distinct tuples of addresses and ports; for [`ConsumerKind::XdpFlows`].
    pub flows: Option<u64>,
    /// Time from the SIGINT to the sender's end, s.
    pub ending_seconds: Option<f64>,
    /// Exit status and output.
    pub finished: Finished,
}

impl Delivered {
    /// Frames/s.
    pub fn pps(&self) -> f64 {
        self.frames as f64 / self.seconds.max(1e-9)
    }
}

impl Sender {
    /// A sender from a command line; words are separated by spaces, without quoting.
    pub fn new(name: &'static str, line: &str) -> Self {
        let words = line.split_whitespace().map(str::to_owned).collect();
        Self { name, words, pinned: true, interrupt_after: None }
    }

    /// Sends `file` to a consumer of that kind.
    ///
    /// # Errors
    /// The sender cannot be started, fails, or is ended by the watch.
    pub fn deliver(
        &self,
        post: &Post<'_>,
        file: &Path,
        kind: ConsumerKind,
        watch: Watch<'_>,
    ) -> Result<Delivered> {
        let consumer = Consumer::attach(post.lab, kind)?;
        let mut running = self.start(post, file)?;
        let begun = Instant::now();
        let (mut frames, mut first, mut last) = (0, None, begun);
        let (mut ended, mut interrupted) = (None, None);
        while ended.is_none_or(|ended: Instant| ended.elapsed() < UNDER_WAY) {
            let (looked, now) = (Instant::now(), consumer.frames()?);
            if now != frames {
                (frames, last) = (now, looked);
                first.get_or_insert(looked);
            }
            if ended.is_none() && running.has_ended()? {
                ended = Some(looked);
            }
            if interrupted.is_none() && self.interrupt_after.is_some_and(|after| begun.elapsed() >= after) {
                interrupted = Some(Instant::now());
                running.signal(Signal::SIGINT)?;
            }
            if !watch(Stage::Sending) {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(LOOK);
        }
        Ok(Delivered {
            frames,
            seconds: first.map_or(0.0, |first| (last - first).as_secs_f64()),
            span_seconds: consumer.span_seconds(),
            flows: (kind == ConsumerKind::XdpFlows).then(|| consumer.flows()).transpose()?,
            ending_seconds: interrupted.zip(ended).map(|(from, to)| (to - from).as_secs_f64()),
            finished: self.check(running.finish(OUTPUT_WAIT)?)?,
        })
    }

    fn start(&self, post: &Post<'_>, file: &Path) -> Result<ChildProcess> {
        let places = [
            ("{quaff}", post.quaff.display().to_string()),
            ("{file}", file.display().to_string()),
            ("{tx}", TX.name.into()),
            ("{rx}", RX.name.into()),
        ];
        let fill =
            |word: &String| places.iter().fold(word.clone(), |word, (place, to)| word.replace(place, to));
        let words: Vec<_> = self.words.iter().map(fill).collect();
        let (program, args) = words.split_first().ok_or_else(|| self.failed("no words"))?;
        let mut command = post.lab.tx.command(program)?;
        command.args(args);
        if self.pinned {
            command.pin(post.cores.generator);
        }
        // Ctrl-C is handled by this process.
        command.process_group(0);
        ChildProcess::start(command)
    }

    fn check(&self, finished: Finished) -> Result<Finished> {
        // quaff exits with 1 if it skipped frames.
        if finished.status.code().is_none_or(|code| code > 1) && self.interrupt_after.is_none() {
            return Err(self.failed(finished.stderr.trim()));
        }
        Ok(finished)
    }

    fn failed(&self, what: &str) -> Error {
        Error::Tool { name: self.name.into(), what: what.to_owned() }
    }
}

/// Captures with quaff while `sender` sends `file`; returns the report of `quaff verify --against`.
///
/// # Errors
/// One of the three fails, or the watch ends it.
pub fn replay_and_capture(
    post: &Post<'_>,
    sender: &Sender,
    file: &Path,
    watch: Watch<'_>,
) -> Result<serde_json::Value> {
    let _receives = Consumer::attach(post.lab, ConsumerKind::StackGro)?;
    let dir = post.place.run_dir()?;
    let captured = dir.path.join("captured.pcapng");
    let mut command = post.lab.rx.command(post.quaff)?;
    command.args(["capture", "-i", RX.name, "--json", "-w"]).arg(&captured).process_group(0);
    command.pin(post.cores.capturer);
    let mut capturing = ChildProcess::start(command)?;
    let begun = Instant::now();
    while !capturing.hears("capturing", Duration::ZERO) {
        if begun.elapsed() > READY_MAX || capturing.has_ended()? {
            return Err(sender.failed(&format!("the capture did not start: {}", capturing.heard.trim())));
        }
        pause(watch, Stage::Starting)?;
    }
    sender.check(finish(sender.start(post, file)?, Stage::Sending, watch)?)?;
    std::thread::sleep(UNDER_WAY);
    capturing.signal(Signal::SIGINT)?;
    capturing.finish(READY_MAX)?;
    let mut command = std::process::Command::new(post.quaff);
    command.args(["verify", "--json", "--against"]).arg(file).arg(&captured).process_group(0);
    let finished = finish(ChildProcess::start(command)?, Stage::Counting, watch)?;
    serde_json::from_slice(&finished.stdout).map_err(|_| sender.failed(finished.stderr.trim()))
}

/// True if iproute2 reports an XDP program at either end of the lab.
pub fn has_xdp(lab: &Lab) -> Result<bool> {
    let mut found = false;
    for (netns, name) in [(&lab.tx, TX.name), (&lab.rx, RX.name)] {
        let mut command = netns.command("ip")?;
        command.args(["-j", "link", "show", "dev", name]);
        let finished = ChildProcess::start(command)?.finish(OUTPUT_WAIT)?;
        found |= String::from_utf8_lossy(&finished.stdout).contains("\"xdp\"");
    }
    Ok(found)
}
