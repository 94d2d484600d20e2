//! `quaff gulp`: Gulp's lock and its check that the interface is Ethernet, around a native command.

use crate::exit::Exit;
use crate::line::Commands;
use crate::show::{message, say};
use anyhow::{Context as _, bail};
use quaff_compat::gulp::{self, Lock};
use quaff_wire::linktype;
use std::ffi::OsString;
use std::fs::{File, TryLockError};

/// Accept the command line of Gulp, with every option of its manual
///
/// Gulp (Corey Satten, 2007) was the first program to capture a gigabit to disk without loss. Its command lines
/// work with 'quaff ' in front; -v prints the equivalent native command. Output is pcap with microseconds, to
/// stdout or into -o DIR. ^C writes the buffered packets and ends; a second one ends immediately.
#[derive(Debug, clap::Args)]
#[command(after_help = gulp::OPTIONS, override_usage = "quaff gulp [OPTIONS]")]
pub(crate) struct Args {
    /// Options of Gulp, read from left to right
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS", hide = true)]
    options: Vec<OsString>,
}

pub(crate) fn run(args: &Args, commands: Commands) -> anyhow::Result<Exit> {
    let asked = gulp::read(&args.options, std::env::var_os("CAP_IFACE"))?;
    if asked.is_version {
        say(concat!("quaff ", env!("CARGO_PKG_VERSION"), ", in the place of Gulp"));
        say(&asked.native.line());
    }
    asked.native.notes.iter().for_each(|note| message(note));
    if asked.is_version {
        return Ok(Exit::Done);
    }
    if let Some(dir) = &asked.dir {
        dir.metadata().with_context(|| format!("cannot use the folder {}", dir.display()))?;
    }
    // Held until the end of the process.
    let _lock = lock(asked.lock)?;
    if let Some(interface) = &asked.ethernet {
        let link = quaff_os::rtnl::link(interface)?;
        if linktype::of_arphrd(link.arphrd) != Some(linktype::ETHERNET) {
            bail!("{} is not an Ethernet interface; -F captures it anyway", link.name);
        }
    }
    (commands.run)(&asked.native.args)
}

/// Gulp's lock: on the program file, which all instances share.
fn lock(wanted: Lock) -> anyhow::Result<Option<File>> {
    let Ok(program) = File::open("/proc/self/exe") else {
        message("the lock cannot be opened; continuing without it");
        return Ok(None);
    };
    let taken = if wanted == Lock::Exclusive { program.try_lock() } else { program.try_lock_shared() };
    match taken {
        Ok(()) => Ok(Some(program)),
        Err(TryLockError::WouldBlock) if wanted == Lock::Ignored => {
            message("another 'quaff gulp' runs exclusively; continuing because of -X");
            Ok(None)
        }
        Err(TryLockError::WouldBlock) if wanted == Lock::Exclusive => {
            bail!("another 'quaff gulp' runs, so -x cannot run exclusively; use -X instead")
        }
        Err(TryLockError::WouldBlock) => {
            bail!("another 'quaff gulp' runs exclusively (-x); -X overrides that")
        }
        Err(TryLockError::Error(error)) => {
            message(&format!("cannot lock: {error}; continuing without a lock"));
            Ok(None)
        }
    }
}
