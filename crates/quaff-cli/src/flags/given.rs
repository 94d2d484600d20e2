//! A group of flags together with the words that set it, for a process that gets the same flags. It starts no process.

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, Id};
use std::ffi::OsString;
use std::ops::Deref;

/// The flags of a group, and those of them that were given, as words of a command line.
#[derive(Debug)]
pub(crate) struct Given<G> {
    group: G,
    /// One word for each flag, and for each value of a flag: `--ring=64M`.
    pub(crate) words: Vec<OsString>,
}

impl<G> Deref for Given<G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.group
    }
}

impl<G: Args> Args for Given<G> {
    fn group_id() -> Option<Id> {
        G::group_id()
    }

    fn augment_args(command: Command) -> Command {
        G::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        G::augment_args_for_update(command)
    }
}

impl<G: Args> FromArgMatches for Given<G> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        let words = words(&G::augment_args(Command::new("group")), matches);
        Ok(Self { group: G::from_arg_matches_mut(matches)?, words })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flags of `group` that a command line has, as words.
fn words(group: &Command, matches: &ArgMatches) -> Vec<OsString> {
    let mut words = Vec::new();
    for arg in group.get_arguments() {
        let (id, Some(long)) = (arg.get_id().as_str(), arg.get_long()) else { continue };
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let flag = OsString::from(format!("--{long}"));
        match arg.get_action() {
            ArgAction::SetTrue => words.push(flag),
            ArgAction::Count => words.extend(std::iter::repeat_n(flag, matches.get_count(id).into())),
            _ => words.extend(matches.get_raw(id).into_iter().flatten().map(|value| {
                let mut word = flag.clone();
                word.push("=");
                word.push(value);
                word
            })),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, PartialEq, Args)]
    struct Group {
        #[arg(short, long)]
        dir: Vec<String>,
        #[arg(long, default_value_t = 7)]
        size: u32,
        #[arg(short, long, action = ArgAction::Count)]
        quiet: u8,
        #[arg(long, value_delimiter = ',')]
        cpu: Vec<u32>,
        #[arg(long)]
        utc: bool,
    }

    #[derive(Debug, Parser)]
    struct Line {
        #[arg(long)]
        other: Option<String>,
        #[command(flatten)]
        group: Given<Group>,
    }

    fn given(words: &[OsString]) -> Given<Group> {
        let line = std::iter::once("test".into()).chain(words.iter().cloned());
        Line::try_parse_from(line).expect("a command line").group
    }

    #[test]
    fn given_words_are_written_as_they_are_read() {
        let words = ["-d", "a b", "--other", "x", "--dir=-c", "-qq", "--cpu", "1,2", "--utc"];
        let first = given(&words.map(OsString::from));
        let expected = ["--dir=a b", "--dir=-c", "--quiet", "--quiet", "--cpu=1", "--cpu=2", "--utc"]
            .map(OsString::from);
        assert_eq!(first.words, expected);
        let again = given(&first.words);
        assert_eq!((&*again, &again.words), (&*first, &first.words));
        assert!(given(&[]).words.is_empty(), "a default is not given");
    }
}
