//! Native command lines, as translated from those of other programs, and the words of their errors.

use crate::exit::Exit;
use crate::grammar;
use std::ffi::OsString;

/// The native commands, for commands that translate the line of another program into one of them.
#[derive(Clone, Copy)]
pub(crate) struct Commands {
    /// The definition of all commands and arguments.
    pub(crate) all: fn() -> clap::Command,
    /// Parses and runs a native command line without the word `quaff`.
    pub(crate) run: fn(&[OsString]) -> anyhow::Result<Exit>,
}

/// The error of a command line as one sentence, without its usage.
pub(crate) fn sentence(error: &clap::Error) -> String {
    let rendered = error.render().to_string();
    let is_wanted = |paragraph: &&str| {
        !["Usage:", "For more information"].iter().any(|start| paragraph.trim_start().starts_with(start))
    };
    let words = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let paragraphs: Vec<_> = rendered.split("\n\n").filter(is_wanted).map(words).collect();
    let text = paragraphs.join("; ");
    text.strip_prefix("error: ").unwrap_or(&text).replace("; tip: ", "; ").trim_end().to_owned()
}

/// Parses the command line of one command, whose name is its first word.
pub(crate) fn parse<A: clap::Args>(line: &[OsString]) -> anyhow::Result<A> {
    let command = A::augment_args(clap::Command::new("quaff"));
    let matches = command.clone().try_get_matches_from(grammar::native(&command, line.to_vec())?);
    let args = matches.and_then(|matches| A::from_arg_matches(&matches));
    args.map_err(|error| anyhow::anyhow!("{}", sentence(&error)))
}
