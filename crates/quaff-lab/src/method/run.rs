//! One run: a capturer on its core, traffic from another core, and what is in its file at the end.

use super::count::count;
use super::generator::Traffic;
use super::growth::Growth;
use super::place::{Place, RunDir};
use super::site::Site;
use crate::bench::plan::Setting;
use crate::rival::{Places, Ready, Rival, Stop};
use crate::running::{Finished, Running};
use crate::{Error, Result};
use quaff_os::process::pin;
use quaff_os::signal::Signal;
use quaff_os::{Try, cpu};
use serde::Serialize;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Between two looks at what goes on.
const LOOK: Duration = Duration::from_millis(20);
/// How long a capturer may take to be ready.
const READY_MAX: Duration = Duration::from_secs(30);
/// From the sign that a capturer gives to the first frame: some give it a moment too early.
const READY_SETTLE: Duration = Duration::from_millis(300);
/// How long files may go on growing after the last frame.
const GROWTH_MAX: Duration = Duration::from_secs(120);
/// How long a capturer may take to end.
const END_MAX: Duration = Duration::from_secs(120);
/// How long the last words of one that has ended may take to get here.
const WORDS_MAX: Duration = Duration::from_secs(5);

/// Told at each look what goes on; `false` ends the run.
pub type Watch<'a> = &'a mut dyn FnMut(Stage) -> bool;

/// What goes on in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The capturer is started.
    Starting,
    /// Frames arrive.
    Sending,
    /// The last frame has arrived; files still grow.
    Settling,
    /// The capturer ends.
    Stopping,
    /// Frames are counted in the file.
    Counting,
}

impl Stage {
    /// What a capturer does meanwhile, in words behind its name.
    pub fn words(self) -> &'static str {
        match self {
            Self::Starting => "starts",
            Self::Sending => "captures",
            Self::Settling => "writes what it still has",
            Self::Stopping => "ends",
            Self::Counting => "has ended; counting the frames in its file",
        }
    }
}

/// What is used in all runs.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    /// Where the capturer runs, and frames arrive.
    pub site: &'a dyn Site,
    /// Where its files go.
    pub place: &'a Place,
    /// Who runs on which core.
    pub cores: Cores,
}

/// The cores of generator and capturer: two, where there are two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cores {
    /// The generator's; the kernel's share of receiving runs here too.
    pub generator: usize,
    /// The capturer's.
    pub capturer: usize,
}

/// What came of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Whose.
    pub rival: String,
    /// What was to be captured.
    pub traffic: Traffic,
    /// MiB of buffer that it was given; `None`: its own default.
    pub buffer_mib: Option<u64>,
    /// Frames that arrived at the interface.
    pub offered: u64,
    /// How long they took to arrive, s.
    pub seconds: f64,
    /// Frames in its file.
    pub in_file: u64,
    /// Frames that are missing there.
    pub lost: u64,
    /// What it says that it has lost; `None` when it says nothing.
    pub own_drops: Option<u64>,
    /// CPU time of its process before the first frame, s: mostly what its buffers cost to touch, which
    /// depends on the memory that the machine has at hand.
    pub startup_seconds: f64,
    /// CPU time of its process in its own code, s.
    pub user_seconds: f64,
    /// CPU time of its process in the kernel, s.
    pub system_seconds: f64,
    /// The size of its file, bytes.
    pub bytes: u64,
    /// From the first change of that size to the last, s.
    pub writing_seconds: f64,
    /// Whether what the file itself says of losses is just what is missing in it; `None` when it
    /// does not say.
    pub accounted: Option<bool>,
}

impl Outcome {
    /// User and system time, s.
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// Lost of offered, 0 to 100.
    pub fn lost_percent(&self) -> f64 {
        100.0 * self.lost as f64 / self.offered.max(1) as f64
    }

    /// CPU time per frame that was offered, from the first of them on, ns.
    pub fn cpu_ns_per_frame(&self) -> f64 {
        (self.cpu_seconds() - self.startup_seconds) * 1e9 / self.offered.max(1) as f64
    }

    /// What it wrote, bytes/s.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.writing_seconds.max(1e-9)
    }

    /// Frames offered, 1/s.
    pub fn offered_pps(&self) -> f64 {
        self.offered as f64 / self.seconds.max(1e-9)
    }
}

impl Cores {
    /// The first two of those that this process may use.
    pub fn pick() -> Result<Self> {
        let allowed = cpu::allowed()?;
        let generator = allowed.first().copied().unwrap_or(0);
        Ok(Self { generator, capturer: allowed.get(1).copied().unwrap_or(generator) })
    }
}

impl Bench<'_> {
    /// One run of `rival`, found at `program`. Its files are there until the directory is dropped.
    ///
    /// # Errors
    /// The rival does not start, get ready or end; the generator fails; the watch wants no more.
    pub fn capture(
        &self,
        rival: &Rival,
        program: &Path,
        traffic: &Traffic,
        buffer_mib: Option<u64>,
        watch: Watch<'_>,
    ) -> Result<(Outcome, RunDir)> {
        let dir = self.place.run_dir()?;
        let mut capturing = self.start(rival, program, &dir, buffer_mib)?;
        ready(&mut capturing, rival, watch)?;
        let startup_seconds = on_core(capturing.pid())?.as_secs_f64();
        let mut growth = Growth::new(dir.path());
        let sent = self.site.send(traffic, self.cores.generator, watch, &mut || growth.look())?;
        settle(&mut growth, &mut capturing, rival, watch)?;
        let finished = stop(capturing, rival, watch)?;
        let counted = count(&dir.files()?, rival.format, watch)?;
        pause(watch, Stage::Counting)?;
        let said = [String::from_utf8_lossy(&finished.stdout), finished.stderr.as_str().into()].concat();
        let outcome = Outcome {
            rival: rival.name.clone(),
            traffic: traffic.clone(),
            buffer_mib,
            offered: sent.offered,
            seconds: sent.seconds,
            in_file: counted.frames,
            lost: sent.offered.saturating_sub(counted.frames),
            own_drops: rival.drops.as_ref().and_then(|drops| drops.read(&said)),
            startup_seconds,
            user_seconds: finished.usage.user.as_secs_f64(),
            system_seconds: finished.usage.system.as_secs_f64(),
            bytes: counted.bytes,
            writing_seconds: growth.span().as_secs_f64(),
            accounted: counted.accounted,
        };
        Ok((outcome, dir))
    }

    /// CPU time that `rival` uses for `idle` without a single frame, from when it is ready.
    pub fn idle(&self, rival: &Rival, program: &Path, idle: Duration, watch: Watch<'_>) -> Result<Duration> {
        let dir = self.place.run_dir()?;
        let mut capturing = self.start(rival, program, &dir, None)?;
        ready(&mut capturing, rival, watch)?;
        let pid = capturing.pid();
        let before = on_core(pid)?;
        let end = Instant::now() + idle;
        while Instant::now() < end {
            pause(watch, Stage::Sending)?;
        }
        let used = on_core(pid)?.saturating_sub(before);
        stop(capturing, rival, watch)?;
        Ok(used)
    }

    fn start(&self, rival: &Rival, program: &Path, dir: &RunDir, buffer_mib: Option<u64>) -> Result<Running> {
        for name in &rival.dirs {
            let path = dir.path().join(name);
            fs::create_dir(&path).trying(|| format!("create {}", path.display()))?;
        }
        let setting = Setting { buffer_mib, ..Setting::default() };
        let core = self.cores.capturer;
        let places = Places { interface: self.site.interface(), dir: dir.path(), core, setting: &setting };
        let (program, args) = rival.command_line(program, &places);
        let mut command = self.site.command(Path::new(&program))?;
        command.args(args);
        start_on(command, self.cores.capturer)
    }
}

/// Says what goes on, and waits a moment.
pub(crate) fn pause(watch: Watch<'_>, stage: Stage) -> Result<()> {
    if !watch(stage) {
        return Err(Error::Interrupted);
    }
    std::thread::sleep(LOOK);
    Ok(())
}

fn start_on(mut command: Command, core: usize) -> Result<Running> {
    pin(&mut command, core);
    // Ctrl-C is ours to hear.
    command.process_group(0);
    Running::start(command)
}

fn ready(capturing: &mut Running, rival: &Rival, watch: Watch<'_>) -> Result<()> {
    let begun = Instant::now();
    while !is_ready(capturing, &rival.ready, begun) {
        if capturing.has_ended()? {
            // Its last words are still on their way.
            capturing.hears("\n\n", LOOK);
            return Err(failed(rival, "ended before it captured", capturing.heard()));
        }
        if begun.elapsed() > READY_MAX {
            return Err(failed(rival, "does not begin to capture", capturing.heard()));
        }
        pause(watch, Stage::Starting)?;
    }
    std::thread::sleep(READY_SETTLE);
    Ok(())
}

fn is_ready(capturing: &mut Running, ready: &Ready, begun: Instant) -> bool {
    match ready {
        Ready::Says(words) => capturing.hears(words, Duration::ZERO),
        Ready::Socket => {
            let path = format!("/proc/{}/net/packet", capturing.pid());
            fs::read_to_string(path).is_ok_and(|table| has_socket(&table))
        }
        Ready::AfterMs(ms) => begun.elapsed() >= Duration::from_millis(*ms),
    }
}

/// Whether a table of packet sockets (`packet_seq_show`, net/packet/af_packet.c) has one that is
/// bound to an interface and runs.
fn has_socket(table: &str) -> bool {
    table.lines().skip(1).any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or("0");
        let (interface, running) = (field(4), field(5));
        interface != "0" && running == "1"
    })
}

fn settle(growth: &mut Growth<'_>, capturing: &mut Running, rival: &Rival, watch: Watch<'_>) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < rival.settle() || growth.still() < rival.settle() {
        if begun.elapsed() > GROWTH_MAX {
            return Err(failed(rival, "writes on without traffic", ""));
        }
        if capturing.has_ended()? {
            return Err(failed(rival, "ended while it was to capture", capturing.heard()));
        }
        growth.look();
        pause(watch, Stage::Settling)?;
    }
    Ok(())
}

fn stop(mut capturing: Running, rival: &Rival, watch: Watch<'_>) -> Result<Finished> {
    capturing.signal(match rival.stop {
        Stop::Interrupt => Signal::SIGINT,
        Stop::Terminate => Signal::SIGTERM,
        Stop::Kill => Signal::SIGKILL,
    })?;
    let begun = Instant::now();
    while !capturing.has_ended()? && begun.elapsed() < END_MAX {
        pause(watch, Stage::Stopping)?;
    }
    capturing.finish(WORDS_MAX)
}

/// Time that the threads of a process have run, now (`/proc/PID/task/TID/schedstat`, first field, ns).
fn on_core(pid: u32) -> Result<Duration> {
    let dir = format!("/proc/{pid}/task");
    let tried = || format!("read the CPU time of process {pid}");
    let mut sum_ns = 0;
    for task in fs::read_dir(dir).trying(tried)? {
        let path = task.trying(tried)?.path().join("schedstat");
        // A thread that ends meanwhile has nothing more to tell.
        let said = fs::read_to_string(path).unwrap_or_default();
        sum_ns += said.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(sum_ns))
}

fn failed(rival: &Rival, what: &str, heard: &str) -> Error {
    let last = heard.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
    Error::Rival { name: rival.name.clone(), what: format!("{what}: {last}") }
}

#[cfg(test)]
mod tests;
