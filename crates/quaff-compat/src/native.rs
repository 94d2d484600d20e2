//! A native command line of `quaff`, translated from another program's.

use quaff_wire::printable::quote;
use std::ffi::OsString;

/// A native command line without the word `quaff`, and notes about the translation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Native {
    /// The command and its arguments.
    pub args: Vec<OsString>,
    /// Differences from the other program, one line each.
    pub notes: Vec<String>,
}

impl Native {
    /// The command line, quoted for a shell.
    pub fn line(&self) -> String {
        let words: Vec<_> = self.args.iter().map(|arg| quote(&arg.to_string_lossy())).collect();
        format!("quaff {}", words.join(" "))
    }

    pub(crate) fn add<const N: usize>(&mut self, args: [&str; N]) {
        self.args.extend(args.iter().map(OsString::from));
    }

    /// An option and its value; in one word if the value could be parsed as an option.
    pub(crate) fn value(&mut self, option: &str, value: impl Into<OsString>) {
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
    pub(crate) fn given(&mut self, option: &str, value: Option<impl Into<OsString>>) {
        if let Some(value) = value {
            self.value(option, value);
        }
    }

    pub(crate) fn note(&mut self, words: impl Into<String>) {
        self.notes.push(words.into());
    }

    /// Notes the options among `idle` that `was_given`; each has its reason beside it.
    pub(crate) fn without_effect(&mut self, idle: &[(&str, &str)], was_given: impl Fn(&str) -> bool) {
        for (name, why) in idle.iter().filter(|(name, _)| was_given(name)) {
            self.note(format!("--{name} has no effect: {why}"));
        }
    }
}
