//! How a sender is measured: what arrives at the other end of the lab, and from when to when. Nothing that
//! a sender says of itself counts here; it is handed on as its own words.

use super::place::Place;
use super::run::Cores;
use crate::{Error, Result};
use quaff_lab::lab::{Lab, RX_IF, TX_IF};
use quaff_lab::topology::{Stage, Watch, pause};
use quaff_lab::{ChildProcess, Finished};
use quaff_lab::{Consumer, ConsumerKind};
use quaff_os::Signal;
use quaff_os::process::pin;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two looks at the receiver; how exact the time is.
const LOOK: Duration = Duration::from_millis(1);
/// How long frames may be under way when the sender has ended.
const UNDER_WAY: Duration = Duration::from_millis(100);
/// How long a capture may take to begin, and to end.
const READY_MAX: Duration = Duration::from_secs(30);
/// How long a sender's last words may take to get here.
const WORDS_MAX: Duration = Duration::from_secs(5);

/// Where senders are started, and what they send arrives.
#[derive(Debug, Clone, Copy)]
pub struct Post<'a> {
    /// Our own program.
    pub quaff: &'a Path,
    /// Sender and receiver.
    pub lab: &'a Lab,
    /// Where files go.
    pub place: &'a Place,
    /// Who runs on which core.
    pub cores: Cores,
}

/// A sender's command line; places `{quaff}`, `{tx}`, `{rx}` and `{file}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// What it is called in a table.
    pub name: &'static str,
    /// Program and arguments.
    pub words: Vec<String>,
    /// It has the generator's core and no other.
    pub pinned: bool,
    /// When it gets a SIGINT; `None`: it ends by itself.
    pub interrupt_after: Option<Duration>,
}

/// What arrived.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// Frames that the receiver counted.
    pub frames: u64,
    /// From the first of them to the last, s, seen from outside.
    pub seconds: f64,
    /// The same by the consumer's own clock; of [`ConsumerKind::XdpTimes`].
    pub span_seconds: f64,
    /// Different addresses and ports; of [`ConsumerKind::XdpFlows`].
    pub flows: Option<u64>,
    /// From the SIGINT to the sender's end, s.
    pub ending_seconds: Option<f64>,
    /// How it ended and what it said.
    pub finished: Finished,
}

impl Delivered {
    /// Frames/s.
    pub fn pps(&self) -> f64 {
        self.frames as f64 / self.seconds.max(1e-9)
    }
}

impl Sender {
    /// A sender from a line of words.
    pub fn new(name: &'static str, line: &str) -> Self {
        let words = line.split_whitespace().map(str::to_owned).collect();
        Self { name, words, pinned: true, interrupt_after: None }
    }

    /// Has it send `file` to a receiver of that kind, on the generator's core.
    ///
    /// # Errors
    /// It cannot be started, or fails; the watch wants no more.
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
            finished: self.end(running)?,
        })
    }

    /// As [`Self::deliver`] without a receiver.
    fn run(&self, post: &Post<'_>, file: &Path, watch: Watch<'_>) -> Result<()> {
        let mut running = self.start(post, file)?;
        while !running.has_ended()? {
            pause(watch, Stage::Sending)?;
        }
        self.end(running).map(drop)
    }

    fn start(&self, post: &Post<'_>, file: &Path) -> Result<ChildProcess> {
        let places = [
            ("{quaff}", post.quaff.display().to_string()),
            ("{file}", file.display().to_string()),
            ("{tx}", TX_IF.into()),
            ("{rx}", RX_IF.into()),
        ];
        let fill =
            |word: &String| places.iter().fold(word.clone(), |word, (place, to)| word.replace(place, to));
        let words: Vec<_> = self.words.iter().map(fill).collect();
        let (program, args) = words.split_first().ok_or_else(|| self.failed("no words"))?;
        let mut command = post.lab.command_tx(program)?;
        command.args(args);
        if self.pinned {
            pin(&mut command, post.cores.generator);
        }
        // Ctrl-C is ours to hear.
        command.process_group(0);
        ChildProcess::start(command)
    }

    fn end(&self, running: ChildProcess) -> Result<Finished> {
        let finished = running.finish(WORDS_MAX)?;
        // 1 is what quaff says of frames that it left out.
        if finished.status.code().is_none_or(|code| code > 1) && self.interrupt_after.is_none() {
            return Err(self.failed(finished.stderr.trim()));
        }
        Ok(finished)
    }

    fn failed(&self, what: &str) -> Error {
        Error::Tool { name: self.name.into(), what: what.to_owned() }
    }
}

/// Has `sender` send `file` while quaff captures, and returns what `quaff verify --against` says of it.
///
/// # Errors
/// One of the three does not do its part; the watch wants no more.
pub fn replay_and_capture(
    post: &Post<'_>,
    sender: &Sender,
    file: &Path,
    watch: Watch<'_>,
) -> Result<serde_json::Value> {
    let _receives = Consumer::attach(post.lab, ConsumerKind::StackGro)?;
    let dir = post.place.run_dir()?;
    let captured = dir.path().join("captured.pcapng");
    let mut command = post.lab.command_rx(post.quaff)?;
    command.args(["capture", "-i", RX_IF, "--json", "-w"]).arg(&captured).process_group(0);
    pin(&mut command, post.cores.capturer);
    let mut capturing = ChildProcess::start(command)?;
    let begun = Instant::now();
    while !capturing.hears("capturing", Duration::ZERO) {
        if begun.elapsed() > READY_MAX || capturing.has_ended()? {
            return Err(sender.failed(&format!("the capture did not begin: {}", capturing.heard.trim())));
        }
        pause(watch, Stage::Starting)?;
    }
    sender.run(post, file, watch)?;
    std::thread::sleep(UNDER_WAY);
    capturing.signal(Signal::SIGINT)?;
    capturing.finish(READY_MAX)?;
    let mut command = std::process::Command::new(post.quaff);
    command.args(["verify", "--json", "--against"]).arg(file).arg(&captured).process_group(0);
    let mut verifying = ChildProcess::start(command)?;
    while !verifying.has_ended()? {
        pause(watch, Stage::Counting)?;
    }
    let finished = verifying.finish(WORDS_MAX)?;
    serde_json::from_slice(&finished.stdout).map_err(|_| sender.failed(finished.stderr.trim()))
}

/// Whether an XDP program is at either end of the lab, as iproute2 sees it.
pub fn has_xdp(lab: &Lab) -> Result<bool> {
    let mut found = false;
    for (netns, name) in [(&lab.tx, TX_IF), (&lab.rx, RX_IF)] {
        let mut command = netns.command("ip")?;
        command.args(["-j", "link", "show", "dev", name]);
        let finished = ChildProcess::start(command)?.finish(WORDS_MAX)?;
        found |= String::from_utf8_lossy(&finished.stdout).contains("\"xdp\"");
    }
    Ok(found)
}
