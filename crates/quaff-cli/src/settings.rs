//! Flags in messages of the other crates, which name a setting in backquotes. It never changes other words.

use std::collections::BTreeSet;
use std::sync::OnceLock;

/// The definition of all commands, which the start of the program sets.
static ALL: OnceLock<fn() -> clap::Command> = OnceLock::new();

/// Makes the flags of all commands known.
pub(crate) fn know(all: fn() -> clap::Command) {
    let _ = ALL.set(all);
}

/// `text` with the settings that are flags written as flags: `` `keep-files` `` becomes `--keep-files`.
///
/// Words in backquotes that are no flags stay as they are.
pub(crate) fn named(text: &str) -> String {
    if !text.contains('`') {
        return text.to_owned();
    }
    #[cfg(test)]
    know(crate::command);
    let Some(all) = ALL.get() else { return text.to_owned() };
    let mut flags = BTreeSet::new();
    collect(&all(), &mut flags);
    let mut named = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, word, after)) = quoted(rest) {
        named += before;
        if flags.contains(word) {
            named += "--";
            named += word;
            rest = after;
        } else {
            named.push('`');
            rest = &rest[before.len() + 1..];
        }
    }
    named + rest
}

/// The text before, between and after the first pair of backquotes.
fn quoted(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (word, after) = rest.split_once('`')?;
    Some((before, word, after))
}

fn collect(command: &clap::Command, flags: &mut BTreeSet<String>) {
    flags.extend(command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned));
    command.get_subcommands().for_each(|sub| collect(sub, flags));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_flags() {
        assert_eq!(named("`keep-files` must be at least 2"), "--keep-files must be at least 2");
        assert_eq!(named("set `keep-size` or `keep-free`"), "set --keep-size or --keep-free");
        assert_eq!(named("a ` b `nothing` `wrap`"), "a ` b `nothing` --wrap");
        assert_eq!(named("plain"), "plain");
    }
}
