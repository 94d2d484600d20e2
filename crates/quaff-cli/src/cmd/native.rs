//! A native command line of `quaff`, translated from another program's.

use crate::exit::Exit;
use crate::show::quote;
use anyhow::anyhow;
use std::ffi::OsString;

/// A native command line without the word `quaff`, and notes about the translation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Native {
    pub(super) args: Vec<OsString>,
    /// Differences from the other program, one line each.
    pub(super) notes: Vec<String>,
}

/// The options of another program's command line, or all their mistakes in one error.
pub(super) fn checked<T>(read: Result<T, Vec<String>>, command: &str) -> anyhow::Result<T> {
    read.map_err(|mistakes| anyhow!("{}; 'quaff {command} --help' lists the options", mistakes.join("; ")))
}

/// Prints the help of a command that takes another program's options, which clap does not see.
pub(super) fn print_help(command: &str) -> anyhow::Result<Exit> {
    let mut all = crate::command();
    all.build();
    let found = all.find_subcommand_mut(command).ok_or_else(|| anyhow!("there is no command {command}"))?;
    found.print_long_help()?;
    Ok(Exit::Done)
}

impl Native {
    /// The command line, quoted for a shell.
    pub(super) fn line(&self) -> String {
        let words: Vec<_> = self.args.iter().map(|arg| quote(arg)).collect();
        format!("quaff {}", words.join(" "))
    }

    pub(super) fn add<const N: usize>(&mut self, args: [&str; N]) {
        self.args.extend(args.iter().map(OsString::from));
    }

    /// An option and its value; in one word if the value could be parsed as an option.
    pub(super) fn value(&mut self, option: &str, value: impl Into<OsString>) {
        let value = value.into();
        if value.as_encoded_bytes().starts_with(b"-") && value != "-" {
            let mut word = OsString::from(option);
            word.push(if option.starts_with("--") { "=" } else { "" });
            word.push(value);
            self.args.push(word);
        } else {
            self.args.extend([option.into(), value]);
        }
    }

    /// An option, if there is a value for it.
    pub(super) fn given(&mut self, option: &str, value: Option<impl Into<OsString>>) {
        if let Some(value) = value {
            self.value(option, value);
        }
    }

    pub(super) fn note(&mut self, words: impl Into<String>) {
        self.notes.push(words.into());
    }
}
