//! `quaff completions`: completion scripts for shells, from the definitions of the arguments.

use crate::exit::Exit;
use crate::show;
use clap_complete::Shell;

/// Print a completion script for a shell
///
/// 'make install' installs the scripts for bash, zsh and fish.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Shell to print the script for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  quaff completions bash > /usr/share/bash-completion/completions/quaff
  quaff completions zsh > /usr/share/zsh/site-functions/_quaff
  quaff completions fish > ~/.config/fish/completions/quaff.fish";

/// `all` is the definition of all commands.
pub(crate) fn run(args: &Args, mut all: clap::Command) -> Exit {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut all, "quaff", &mut text);
    show::script(&text);
    Exit::Done
}
