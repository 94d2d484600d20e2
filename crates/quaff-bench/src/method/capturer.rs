//! One capturer (a tool under test), from its start to its last output. All processes that it has started end with it.

use super::OUTPUT_WAIT;
use super::count::Growth;
use super::place::RunDir;
use super::run::Bench;
use crate::{Error, Result};
use quaff_lab::tool::{Output, Places, Ready, Setting, Tool};
use quaff_lab::topology::{Stage, Watch, pause};
use quaff_lab::{ChildProcess, Finished, ProcessMark};
use quaff_os::process::{Prepare, Usage, send_to_group};
use quaff_os::{Signal, Try};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Pause between a capturer's ready message and the first frame: some print it too early.
const READY_SETTLE: Duration = Duration::from_millis(300);
/// Time limit for writing after the last frame.
const WRITING_MAX: Duration = Duration::from_secs(60);
/// Limit of the file size as a multiple of the bytes in the frames.
const BYTES_FACTOR_MAX: u64 = 4;
/// Time without CPU use after which a started capturer is idle, and the limit of the wait for that: populating memory
/// takes up to 3.3 s per GiB (docs/decisions/0006-memory-ahead-of-need.md).
const REST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(60);
/// USER_HZ; the same on all supported machines.
const TICKS_PER_SECOND: f64 = 100.0;
/// Interval of CPU time readings.
const USED_EVERY: Duration = Duration::from_millis(100);
/// Polling interval for the end of a tool; also the accuracy of its duration.
const END_LOOK: Duration = Duration::from_millis(2);
/// Share of a core that an idle capturer may use.
const IDLE_SHARE: f64 = 0.02;

/// A running capturer.
pub(super) struct Capturer<'a> {
    tool: &'a Tool,
    output: Output,
    mark: ProcessMark,
    running: Option<ChildProcess>,
    /// The process that reads the capturer's pipe.
    reader: Option<ChildProcess>,
    growth: Growth,
    startup: Cpu,
    /// Its processes when the first frame is sent.
    pids: Vec<u32>,
    /// Readings of their CPU time.
    used: Vec<(Instant, Duration)>,
    /// The last reading of each of its processes, by process ID.
    processes: BTreeMap<u32, Process>,
    begun: Instant,
    /// The command that stops it, in its network namespace; `None`: a signal does.
    stop_command: Option<Command>,
    dir: Option<RunDir>,
}

/// Resource use of one process.
#[derive(Debug, Clone, Copy, Default)]
struct Process {
    cpu: Duration,
    /// Peak resident memory.
    memory_bytes_max: u64,
}

/// CPU time, s.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Cpu {
    pub(super) user: f64,
    pub(super) system: f64,
}

/// The results of a capturer.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) usage: Usage,
    /// CPU time of all its processes, s; for unreaped ones the last reading.
    pub(super) cpu_s: f64,
    /// Peak resident memory of all its processes, summed, bytes.
    pub(super) memory_bytes_max: u64,
    /// Time from its start to its end.
    pub(super) took: Duration,
    /// CPU time before the first frame.
    pub(super) startup: Cpu,
    /// Its stdout and stderr.
    pub(super) said: String,
    /// Output of the reader of its pipe.
    pub(super) read: Option<String>,
    /// Time from the first to the last change of its files.
    pub(super) writing: Duration,
    pub(super) dir: RunDir,
}

impl Ended {
    /// CPU time before the first frame, s.
    pub(super) fn startup_s(&self) -> f64 {
        self.startup.total()
    }
}

impl Cpu {
    pub(super) fn total(self) -> f64 {
        self.user + self.system
    }

    fn plus(self, other: Self) -> Self {
        Self { user: self.user + other.user, system: self.system + other.system }
    }
}

impl<'a> Capturer<'a> {
    /// Starts `tool`, found at `program`, on `cores`; it is given the first as its core.
    ///
    /// # Errors
    /// [`Error::Tool`] with its name if it cannot be started.
    pub(super) fn start(
        bench: &Bench<'_>,
        tool: &'a Tool,
        program: &Path,
        setting: &Setting,
        cores: &[usize],
    ) -> Result<Self> {
        let core = cores.first().copied().unwrap_or(bench.cores.capturer);
        let dir = bench.place.run_dir()?;
        for name in &tool.dirs {
            let path = dir.path.join(name);
            fs::create_dir(&path).trying(|| format!("create {}", path.display()))?;
        }
        let output = tool.output_under(setting);
        let (interface, other) = (bench.site.interface(), bench.site.other().unwrap_or_default());
        let places = Places { interface, other, dir: &dir.path, core, setting };
        let (program, args) = tool.command_line(program, &places);
        let mut command = bench.site.command(Path::new(&program))?;
        command.args(args);
        // Keeps its temporary files on the same disk; they are removed with the directory.
        command.env("TMPDIR", &dir.path);
        let mut mark = ProcessMark::put_on(&mut command);
        let (reader, stdout) = match output {
            Output::Pipe | Output::Screen => {
                let (reader, pipe) = read_pipe(output, bench.quaff, bench.reader_core(setting, core)?)?;
                (Some(reader), Some(pipe))
            }
            Output::Disk | Output::Null => (None, None),
        };
        let stop_command = stop_command(bench, tool)?;
        let (growth, begun) = (Growth::new(&dir.path), Instant::now());
        let running = start_on(command, cores, Stdio::null(), stdout)
            .map_err(|error| failed(tool, "cannot be started", &error.to_string()))?;
        mark.count_group(running.pid());
        Ok(Self {
            tool,
            output,
            mark,
            running: Some(running),
            reader,
            growth,
            startup: Cpu::default(),
            pids: Vec::new(),
            used: Vec::new(),
            processes: BTreeMap::new(),
            begun,
            stop_command,
            dir: Some(dir),
        })
    }

    /// Waits until it captures.
    pub(super) fn ready(&mut self, watch: Watch<'_>) -> Result<()> {
        let begun = Instant::now();
        while !self.is_ready(begun) {
            if self.running()?.has_ended()? {
                self.running()?.hear_the_end(OUTPUT_WAIT);
                return Err(self.ended("ended before it captured"));
            }
            let patience = Duration::from_secs(self.tool.patience_s);
            if begun.elapsed() > patience {
                return Err(self.failed(&format!("does not begin to capture within {patience:?}")));
            }
            pause(watch, Stage::Starting)?;
        }
        let begun = Instant::now();
        while begun.elapsed() < READY_SETTLE {
            pause(watch, Stage::Starting)?;
        }
        self.pids = self.mark.carriers();
        // `settle` reports a process that has ended by now.
        let startups = self.pids.iter().filter_map(|pid| cpu_split(*pid).ok());
        self.startup = startups.fold(Cpu::default(), Cpu::plus);
        Ok(())
    }

    /// Waits until it is idle: a capturer that has started may still be populating its memory.
    pub(super) fn rest(&mut self, watch: Watch<'_>) -> Result<()> {
        let begun = Instant::now();
        let mut work = Work { at: begun, used: self.on_core() };
        while !work.is_done(REST, || self.on_core()) && begun.elapsed() < REST_MAX {
            pause(watch, Stage::Starting)?;
        }
        Ok(())
    }

    pub(super) fn pid(&mut self) -> Result<u32> {
        Ok(self.running()?.pid())
    }

    /// Reads the size of its files, and at intervals its CPU time.
    pub(super) fn look(&mut self) {
        self.growth.look();
        let is_due = |(at, _): &(Instant, Duration)| at.elapsed() >= USED_EVERY;
        if self.used.last().is_none_or(is_due) {
            let used = self.pids.iter().filter_map(|pid| on_core(*pid).ok()).sum();
            self.used.push((Instant::now(), used));
        }
    }

    /// CPU use between two times from the nearest readings, 1 = one core; `None` without readings.
    pub(super) fn used_between(&self, from: Instant, to: Instant) -> Option<f64> {
        let near = |moment: Instant| {
            let distance = |(at, _): &&(Instant, Duration)| at.max(&moment).duration_since(*at.min(&moment));
            self.used.iter().min_by_key(distance)
        };
        let ((from, before), (to, after)) = (near(from)?, near(to)?);
        let span = to.duration_since(*from).as_secs_f64();
        (span > 0.0).then(|| after.saturating_sub(*before).as_secs_f64() / span)
    }

    /// Waits until it has written all its frames; `bytes` is their size in a file.
    pub(super) fn settle(&mut self, bytes: u64, watch: Watch<'_>) -> Result<()> {
        let (begun, settle) = (Instant::now(), Duration::from_millis(self.tool.settle_ms));
        let mut work = Work { at: begun, used: self.on_core() };
        loop {
            if self.running()?.has_ended()? {
                self.running()?.hear_the_end(OUTPUT_WAIT);
                return Err(self.ended("ended while it was to capture"));
            }
            self.growth.look();
            if self.growth.bytes > bytes.saturating_mul(BYTES_FACTOR_MAX) {
                return Err(self.failed("writes far more than there was to capture"));
            }
            let is_still = match self.output {
                Output::Disk => begun.elapsed() >= settle && self.growth.still() >= settle,
                _ => work.is_done(settle, || self.on_core()),
            };
            if is_still {
                return Ok(());
            }
            if begun.elapsed() > WRITING_MAX {
                match self.output {
                    Output::Disk => return Err(self.failed("keeps writing without traffic")),
                    // Some capturers are never idle.
                    _ => return Ok(()),
                }
            }
            pause(watch, Stage::Settling)?;
        }
    }

    /// Stops it and all its child processes.
    pub(super) fn stop(mut self, watch: Watch<'_>) -> Result<Ended> {
        let (signal, patience) = (self.tool.stop, Duration::from_secs(self.tool.patience_s));
        self.note_processes();
        let how = match self.stop_command.take() {
            None => {
                self.running()?.signal(signal)?;
                signal.to_string()
            }
            Some(command) => self.stop_by(command)?,
        };
        let begun = Instant::now();
        while !self.running()?.has_ended()? {
            if begun.elapsed() > patience {
                return Err(self.failed(&format!("does not end within {patience:?} after {how}")));
            }
            self.note_processes();
            pause(watch, Stage::Stopping)?;
        }
        let took = self.begun.elapsed();
        self.conclude(took, watch)
    }

    /// Runs the command that stops it, and returns the command's name.
    fn stop_by(&self, command: Command) -> Result<String> {
        let name = command.get_program().display().to_string();
        let wrong = |what: &str, heard: &str| failed(self.tool, &format!("cannot be ended: {what}"), heard);
        let done = ChildProcess::start(command).and_then(|running| running.finish(OUTPUT_WAIT));
        match done {
            Err(error) => Err(wrong(&name, &error.to_string())),
            Ok(done) if done.status.success() => Ok(name),
            Ok(done) => Err(wrong(&format!("{name} failed ({})", done.status), &done.stderr)),
        }
    }

    /// Waits until it ends.
    pub(super) fn run_to_end(mut self, patience: Duration, watch: Watch<'_>) -> Result<Ended> {
        let mut noted = self.begun;
        while !self.running()?.has_ended()? {
            if self.begun.elapsed() > patience {
                return Err(self.failed(&format!("does not end within {patience:?}")));
            }
            if noted.elapsed() >= USED_EVERY {
                self.note_processes();
                noted = Instant::now();
            }
            if !watch(Stage::Sending) {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(END_LOOK);
        }
        let took = self.begun.elapsed();
        self.conclude(took, watch)
    }

    /// Reads the resource use of each of its processes.
    fn note_processes(&mut self) {
        for pid in self.mark.carriers() {
            let known = self.processes.entry(pid).or_default();
            // A process that has ended keeps its last reading.
            known.cpu = known.cpu.max(on_core(pid).unwrap_or_default());
            known.memory_bytes_max = known.memory_bytes_max.max(memory_bytes_max(pid).unwrap_or(0));
        }
    }

    fn conclude(mut self, took: Duration, watch: Watch<'_>) -> Result<Ended> {
        self.wait_for_helpers(watch)?;
        self.mark.kill_all();
        let (Some(running), Some(dir)) = (self.running.take(), self.dir.take()) else {
            return Err(self.failed("has ended before"));
        };
        let Finished { status, usage, stdout, stderr } = running.finish(OUTPUT_WAIT)?;
        let (mut read_cpu, mut read_bytes) = (Duration::ZERO, 0);
        for process in self.processes.values() {
            read_cpu += process.cpu;
            read_bytes += process.memory_bytes_max;
        }
        let read = self.reader.take().map(|reader| read_to_end(reader, watch)).transpose()?;
        Ok(Ended {
            status,
            usage,
            // Its rusage includes reaped children, whose readings are included as well.
            cpu_s: (usage.user + usage.system).max(read_cpu).as_secs_f64(),
            memory_bytes_max: if read_bytes > 0 { read_bytes } else { usage.memory_bytes_max },
            took,
            startup: self.startup,
            said: [String::from_utf8_lossy(&stdout), stderr.as_str().into()].concat(),
            read,
            writing: self.growth.span(),
            dir,
        })
    }

    /// Waits for its other processes, for example at the end of a pipe, which may still write.
    fn wait_for_helpers(&mut self, watch: Watch<'_>) -> Result<()> {
        let (begun, settle) = (Instant::now(), Duration::from_millis(self.tool.settle_ms));
        while !self.mark.carriers().is_empty() && begun.elapsed() < WRITING_MAX {
            self.growth.look();
            if begun.elapsed() >= settle && self.growth.still() >= settle {
                break;
            }
            pause(watch, Stage::Stopping)?;
        }
        self.growth.look();
        Ok(())
    }

    fn is_ready(&mut self, begun: Instant) -> bool {
        let Some(running) = &mut self.running else { return false };
        match &self.tool.ready {
            Ready::Says(words) => running.hears(words, Duration::ZERO),
            Ready::Socket => {
                let table = fs::read_to_string(format!("/proc/{}/net/packet", running.pid()));
                let bound = bound_sockets(&table.unwrap_or_default());
                !bound.is_empty() && self.mark.carriers().iter().any(|pid| has_open(*pid, &bound))
            }
            Ready::AfterMs(ms) => begun.elapsed() >= Duration::from_millis(*ms),
        }
    }

    fn on_core(&mut self) -> Duration {
        let pid = self.running.as_ref().map(ChildProcess::pid);
        pid.and_then(|pid| on_core(pid).ok()).unwrap_or_default()
    }

    fn running(&mut self) -> Result<&mut ChildProcess> {
        self.running.as_mut().ok_or_else(|| failed(self.tool, "has ended", ""))
    }

    /// An error with the exit status and the last output.
    fn ended(&self, what: &str) -> Error {
        let status = self.running.as_ref().and_then(|running| running.ended).map(|(status, _)| status);
        let how = status.map(|status| format!(" ({status})")).unwrap_or_default();
        self.failed(&format!("{what}{how}"))
    }

    fn failed(&self, what: &str) -> Error {
        failed(self.tool, what, self.running.as_ref().map_or("", |running| running.heard.as_str()))
    }
}

impl Drop for Capturer<'_> {
    fn drop(&mut self) {
        if let Some(running) = &mut self.running
            && matches!(running.has_ended(), Ok(false))
        {
            // The process leads its own group and was not reaped, so the pid is still valid.
            let _ = send_to_group(running.pid(), Signal::SIGKILL);
        }
        self.mark.kill_all();
    }
}

/// CPU time readings of a capturer whose output is not visible.
struct Work {
    at: Instant,
    used: Duration,
}

impl Work {
    /// True once it was idle for `settle`.
    fn is_done(&mut self, settle: Duration, used: impl FnOnce() -> Duration) -> bool {
        let span = self.at.elapsed();
        if span < settle {
            return false;
        }
        let used = used();
        let share = used.saturating_sub(self.used).as_secs_f64() / span.as_secs_f64();
        *self = Self { at: Instant::now(), used };
        share < IDLE_SHARE
    }
}

fn start_on(
    mut command: Command,
    cores: &[usize],
    stdin: Stdio,
    stdout: Option<Stdio>,
) -> Result<ChildProcess> {
    // Ctrl-C is handled by this process.
    command.pin_to(cores.to_vec()).process_group(0);
    ChildProcess::start_with(command, stdin, stdout)
}

/// The command that stops a tool, in the tool's namespace.
fn stop_command(bench: &Bench<'_>, tool: &Tool) -> Result<Option<Command>> {
    let Some((program, args)) = tool.stop_command.split_first() else { return Ok(None) };
    let mut command = bench.site.command(Path::new(program))?;
    command.args(args).process_group(0);
    Ok(Some(command))
}

/// Starts a process that counts packets, or non-empty lines, from a pipe; returns it and the pipe's write end.
fn read_pipe(output: Output, quaff: &Path, core: usize) -> Result<(ChildProcess, Stdio)> {
    let tried = || "make a pipe for a capturer";
    let (from, to) = io::pipe().trying(tried)?;
    let mut command = Command::new(if output == Output::Screen { "grep".as_ref() } else { quaff });
    match output {
        // Makes bytes in any encoding count as text.
        Output::Screen => command.args(["-c", "."]).env("LC_ALL", "C"),
        _ => command.args(["verify", "--json", "-"]),
    };
    Ok((start_on(command, &[core], from.into(), None)?, to.into()))
}

fn read_to_end(mut reader: ChildProcess, watch: Watch<'_>) -> Result<String> {
    let begun = Instant::now();
    while !reader.has_ended()? && begun.elapsed() < WRITING_MAX {
        pause(watch, Stage::Counting)?;
    }
    let finished = reader.finish(OUTPUT_WAIT)?;
    Ok(String::from_utf8_lossy(&finished.stdout).into_owned())
}

/// Inodes of the running packet sockets in `table` that are bound to an interface (`packet_seq_show`,
/// net/packet/af_packet.c).
fn bound_sockets(table: &str) -> Vec<u64> {
    let bound = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (interface, running, inode) = (fields.get(4)?, fields.get(5)?, fields.get(8)?);
        (*interface != "0" && *running == "1").then(|| inode.parse().ok())?
    };
    table.lines().skip(1).filter_map(bound).collect()
}

/// True if the process has any of these sockets open.
fn has_open(pid: u32, inodes: &[u64]) -> bool {
    let names: Vec<_> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    fds.filter_map(|fd| fs::read_link(fd.path()).ok())
        .any(|target| names.iter().any(|name| target.as_os_str() == name.as_str()))
}

/// Peak resident memory of a process, bytes (`VmHWM` in /proc/PID/status, proc_pid_status(5)).
fn memory_bytes_max(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// CPU time of the live threads of a process (`/proc/PID/task/TID/schedstat`, first field, ns).
pub(super) fn on_core(pid: u32) -> Result<Duration> {
    let dir = format!("/proc/{pid}/task");
    let tried = || format!("read the CPU time of process {pid}");
    let mut sum_ns = 0;
    for task in fs::read_dir(dir).trying(tried)? {
        let path = task.trying(tried)?.path().join("schedstat");
        // A thread may end in between.
        let said = fs::read_to_string(path).unwrap_or_default();
        sum_ns += said.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(sum_ns))
}

/// The same including ended threads, which only the kernel's ticks contain; split into user and system as in
/// `/proc/PID/stat` (utime and stime, proc_pid_stat(5)).
fn cpu_split(pid: u32) -> Result<Cpu> {
    let total = on_core(pid)?.as_secs_f64();
    let tried = || format!("read the CPU time of process {pid}");
    let said = fs::read_to_string(format!("/proc/{pid}/stat")).trying(tried)?;
    Ok(split(total, &said))
}

fn split(total: f64, stat: &str) -> Cpu {
    // The program's name may contain a parenthesis.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = |at: usize| fields.split_whitespace().nth(at).and_then(|word| word.parse::<f64>().ok());
    let (user, system) = (ticks(11).unwrap_or(0.0), ticks(12).unwrap_or(0.0));
    let share = if user + system > 0.0 { user / (user + system) } else { 0.5 };
    let total = total.max((user + system) / TICKS_PER_SECOND);
    Cpu { user: total * share, system: total * (1.0 - share) }
}

/// An error of a tool, with the last line of its output.
pub(super) fn failed(tool: &Tool, what: &str, heard: &str) -> Error {
    let last = heard.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no output");
    Error::Tool { name: tool.name.clone(), what: format!("{what}: {last}") }
}

#[cfg(test)]
mod tests;
