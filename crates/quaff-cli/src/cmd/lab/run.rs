//! `quaff lab run`: runs a command in a lab, and passes on signals and the exit status.

use super::selection::{LinkArgs, only_lab};
use crate::exit::Exit;
use crate::show;
use anyhow::Context;
use quaff_lab::{Lab, LabPlan};
use quaff_os::process::{Prepare, in_foreground, send, send_to_group};
use quaff_os::{Signal, Signals};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// Environment variable with the lab's name, for commands that run in it.
const LAB_VARIABLE: &str = "QUAFF_LAB";
/// Longest wait for a signal, which ends the wait.
const WAIT: Duration = Duration::from_secs(60);

/// Run a command in a lab
///
/// The command runs in the receiving namespace, or with --tx in the sending one; /sys/class/net shows that
/// namespace's interfaces. The lab is the one given with --lab; else the lab in which quaff itself was run
/// ($QUAFF_LAB); else the only one that is up; else a temporary one, removed when the command ends.
///
/// Exit status: the command's own; 128 plus the signal number if a signal ended it; 127 if it was not found; 126
/// if it could not be run. SIGINT, SIGTERM and SIGHUP are forwarded to it and its children.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quaff lab run -- ip address
  quaff lab run --tx -- ping -c 3 198.18.0.2
  quaff lab run -- bash")]
pub(crate) struct Args {
    /// Lab to run the command in
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// Use a temporary lab, even if another is up
    #[arg(long, conflicts_with = "lab")]
    new: bool,
    /// Run the command in the sending namespace
    #[arg(long)]
    tx: bool,
    #[command(flatten)]
    link: LinkArgs,
    /// Command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(args: Args) -> anyhow::Result<Exit> {
    // Before the first thread: from here on a signal is something to read, and the lab is taken down.
    let passed_on = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let signals = Signals::block(&[passed_on.as_slice(), &[Signal::SIGCHLD]].concat())?;
    let lab = choose(&args)?;
    let exit = run_in(&lab, &args, &signals);
    lab.down()?;
    exit
}

fn choose(args: &Args) -> anyhow::Result<Lab> {
    if let Some(name) = &args.lab {
        return Ok(Lab::attach(name)?);
    }
    if !args.new {
        if let Ok(name) = std::env::var(LAB_VARIABLE) {
            return Lab::join(&name).with_context(|| format!("{LAB_VARIABLE} names the lab {name:?}"));
        }
        if let Some(name) = only_lab("choose one with --lab NAME, or use --new for a temporary one")? {
            return Ok(Lab::attach(&name)?);
        }
    }
    Ok(Lab::create(&LabPlan { mtu: args.link.mtu(), ..LabPlan::default() })?)
}

fn run_in(lab: &Lab, args: &Args, signals: &Signals) -> anyhow::Result<Exit> {
    let (program, rest) = args.command.split_first().context("there is no command")?;
    let mut command = if args.tx { lab.tx.command(program)? } else { lab.rx.command(program)? };
    command.args(rest).env(LAB_VARIABLE, &lab.name);
    // If quaff is killed, the command is asked to end; the next lab clears the namespaces away.
    command.reset_signals().signal_on_parent_death(Signal::SIGTERM);
    // At a terminal Ctrl-C reaches the command without us. Elsewhere it gets a process group of its
    // own: a signal for our group would reach it twice, once from us, and a capture takes a second
    // SIGINT for "at once".
    let foreground = in_foreground();
    if !foreground {
        command.process_group(0);
    }
    match command.spawn() {
        Ok(child) => Ok(exit_of(attend(child, signals, foreground)?)),
        Err(error) => {
            show::message(&format!("cannot run {}: {error}", program.display()));
            Ok(Exit::Child(if error.kind() == ErrorKind::NotFound { 127 } else { 126 }))
        }
    }
}

/// Waits for the command's end, and forwards signals until then.
fn attend(mut child: Child, signals: &Signals, foreground: bool) -> anyhow::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match signals.next(WAIT)? {
            None => {}
            Some(heard) if heard.signal == Signal::SIGCHLD || foreground && heard.by_kernel => {}
            // Errors are ignored: the command may have just ended.
            Some(heard) if foreground => drop(send(child.id(), heard.signal)),
            Some(heard) => drop(send_to_group(child.id(), heard.signal)),
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    let signal = || 128 + status.signal().unwrap_or(0);
    Exit::Child(status.code().unwrap_or_else(signal) as u8)
}
