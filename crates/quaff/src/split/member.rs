//! A member of a split: its output, opened first, and then its writer.

use super::plan::{Goal, MemberPlan, SplitPlan};
use crate::output::Transmit;
use crate::plan::WritePlan;
use crate::run::end_watch::EndWatch;
use crate::run::file_output::FileOutput;
use crate::run::join;
use crate::source::Sources;
use crate::stage::Presence;
use crate::{Error, Result};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use quaff_file::tally::WriterTally;
use quaff_file::write::{Format, Patience, Target, WriterGauges};
use quaff_os::process::Prepare;
use quaff_os::{Reason, Stop, Wakeup, rtnl};
use quaff_wire::linktype;
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// After the end of the split, time without progress after which a reader is abandoned.
const READER_TIMEOUT: Duration = Duration::from_secs(2);

/// A member whose output is open.
pub(super) struct Opened {
    plan: WritePlan,
    target: Target,
    wakeup: Wakeup,
    starting: Starting,
}

/// The parameters of a member's writer, besides its output.
pub(super) struct Starting {
    name: String,
    presence: Presence,
    gauges: Arc<WriterGauges>,
    child: Option<Child>,
    /// Ends the split.
    run: Stop,
    reader_timeout: Option<Duration>,
}

/// A running member.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) presence: Presence,
    pub(super) gauges: Arc<WriterGauges>,
    writer: JoinHandle<Result<WriterTally>>,
    end: EndWatch,
    child: RefCell<Option<Child>>,
}

/// The result of a member.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) tally: WriterTally,
    pub(super) reason: Option<Reason>,
    pub(super) failure: Option<Error>,
    /// The output has stopped answering: packets that it has not counted as written are lost.
    pub(super) is_stuck: bool,
    /// Exit status of its command; `None` without a command, or if a signal ended it.
    pub(super) exit: Option<i32>,
    /// A sentence about a command that did not end with status 0.
    pub(super) command_failure: Option<String>,
}

/// Opens the output of member `number`.
pub(super) fn open(plan: &SplitPlan, number: usize, is_at_once: bool, stop: &Stop) -> Result<Opened> {
    let member = &plan.members[number];
    let write = plan.write_of(member, is_at_once);
    let (wakeup, presence, gauges) = (Wakeup::new()?, Presence::default(), Arc::<WriterGauges>::default());
    let (mut target, child) = match &member.goal {
        Goal::Command(command) => {
            let (child, pipe) = run(command, number, plan.takes_stdout())?;
            (Target::process(pipe, write.format), Some(child))
        }
        Goal::Interface(name) => {
            let transmit = Box::new(transmit(name, &presence, stop, gauges.clone())?);
            (Target::own(transmit, "an interface", Format::Pcap), None)
        }
        _ => (
            Target::open(&member.goal.output(), None, write.format, write.access, None, &wakeup, stop)?,
            None,
        ),
    };
    let name = name(member, number);
    target.patience =
        Some(Patience { run: stop.clone(), timeout: READER_TIMEOUT, is_limited_on_request: false });
    target.sync_every(write.fsync)?;
    let reader_timeout = (!target.is_on_disk()).then_some(READER_TIMEOUT);
    let starting = Starting { name, presence, gauges, child, run: stop.clone(), reader_timeout };
    Ok(Opened { plan: write, target, wakeup, starting })
}

pub(super) fn name(member: &MemberPlan, number: usize) -> String {
    member.goal.name(number)
}

fn transmit(name: &str, presence: &Presence, run: &Stop, gauges: Arc<WriterGauges>) -> Result<Transmit> {
    let link = rtnl::link(name)?;
    if linktype::of_arphrd(link.arphrd) != Some(linktype::ETHERNET) {
        return Err(Error::Plan(format!("{name}: frames can be sent from Ethernet interfaces only")));
    }
    Ok(Transmit::open(link, presence.clone(), run.clone(), gauges)?)
}

/// Starts a command that reads packets from its stdin.
fn run(command: &str, number: usize, is_stdout_taken: bool) -> Result<(Child, File)> {
    let failed = |errno: io::Error| Error::path("run", command, errno);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).env("QUAFF_MEMBER", (number + 1).to_string()).stdin(Stdio::piped());
    if is_stdout_taken {
        shell.stdout(io::stderr().as_fd().try_clone_to_owned().map_err(failed)?);
    }
    // ^C on a terminal ends only the split; its commands read the rest and then end.
    let mut child = shell.process_group(0).reset_signals().leave_privileges().spawn().map_err(failed)?;
    let stdin = child.stdin.take().ok_or(Error::Defect("a command has no stdin".into()))?;
    let pipe = File::from(OwnedFd::from(stdin));
    // Non-blocking: a reader that does not read can be abandoned at the end.
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|errno| failed(errno.into()))?;
    Ok((child, pipe))
}

/// A sentence about a command that failed.
fn command_failure(status: ExitStatus) -> Option<String> {
    match status.code() {
        Some(0) => None,
        // sh(1): the status of a command that it does not find.
        Some(127) => Some("its command was not found (status 127)".into()),
        Some(code) => Some(format!("its command ended with status {code}")),
        None => Some(format!("its command was ended by {status}")),
    }
}

impl Opened {
    pub(super) fn presence(&self) -> &Presence {
        &self.starting.presence
    }

    /// See [`Target::make_ring`].
    pub(super) fn make_ring(&mut self) {
        self.target.make_ring(&self.wakeup);
    }

    pub(super) fn note(&self) -> Option<String> {
        self.target.notes().into_iter().next()
    }

    /// The output for the lanes, and the parameters of its writer.
    pub(super) fn output(self, sources: &Sources) -> (FileOutput, Starting) {
        (FileOutput::new(&self.plan, sources, self.target, self.wakeup), self.starting)
    }
}

impl Starting {
    /// Starts the writer.
    pub(super) fn start(self, output: FileOutput) -> Result<Member> {
        let Self { name, presence, gauges, child, run, reader_timeout } = self;
        let end = EndWatch::new(gauges.clone(), run, output.abandoned(), reader_timeout);
        let writer = output.start(&presence.stop, gauges.clone())?;
        Ok(Member { name, presence, gauges, writer, end, child: RefCell::new(child) })
    }
}

impl Member {
    /// Returns whether all its packets are written and its command has ended, or whether it is waited for no longer.
    pub(super) fn is_finished(&self) -> bool {
        if !self.writer.is_finished() {
            return self.end.is_abandoned();
        }
        self.is_abandoned() || {
            let mut child = self.child.borrow_mut();
            child.as_mut().is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()))
        }
    }

    /// Returns whether its reader was abandoned because it stopped reading.
    fn is_abandoned(&self) -> bool {
        matches!(self.presence.stop.reason(), Some(Reason::WriteError(_)))
    }

    /// Waits for its end and for its command.
    pub(super) fn finish(self) -> Ended {
        if self.end.has_abandoned() {
            let tally = self.end.tally(self.gauges.written.get());
            let (failure, reason) = (Some(EndWatch::error()), self.presence.stop.reason());
            return Ended { tally, failure, is_stuck: true, reason, ..Ended::default() };
        }
        let is_abandoned = self.writer.is_finished() && self.is_abandoned();
        let (tally, failure) = match join(self.writer) {
            Ok(tally) => (tally, None),
            Err(error) => (WriterTally::default(), Some(error)),
        };
        let child = self.child.into_inner().filter(|_| !is_abandoned);
        let status = child.and_then(|mut child| child.wait().ok());
        let command_failure = status.and_then(command_failure);
        let reason = match (self.presence.stop.reason(), &command_failure) {
            // A command that failed did not stop reading because it had all that it wanted.
            (Some(Reason::OutputClosed), Some(words)) => Some(Reason::Failed(words.clone())),
            (reason, _) => reason,
        };
        let exit = status.and_then(|status| status.code());
        Ended { tally, failure, is_stuck: false, reason, exit, command_failure }
    }
}
