//! `quaff gulp`, `quaff tcpreplay` and `quaff nprobe`: command lines of other programs, run as native ones.
//!
//! quaff-compat translates them. The native command line is parsed and run like any other.

pub(crate) mod gulp;
pub(crate) mod nprobe;
pub(crate) mod tcpreplay;

use crate::exit::Exit;
use crate::line::Commands;
use crate::show::{message, print};
use anyhow::anyhow;
use quaff_compat::Native;
use std::ffi::OsString;

/// The native command line, after the notes on the translation; `None` if only its line was to be printed.
fn line(native: &Native, is_dry_run: bool, is_quiet: bool) -> Option<&[OsString]> {
    if is_dry_run || !is_quiet {
        native.notes.iter().for_each(|note| message(note));
    }
    if is_dry_run {
        print(&native.line());
        return None;
    }
    Some(&native.args)
}

/// Prints the help of a command that takes another program's options, which clap does not see.
fn print_help(command: &str, commands: Commands) -> anyhow::Result<Exit> {
    let mut all = (commands.all)();
    all.build();
    let found = all.find_subcommand_mut(command).ok_or_else(|| anyhow!("there is no command {command}"))?;
    found.print_long_help()?;
    Ok(Exit::Done)
}
