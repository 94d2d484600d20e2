//! Any command of a user's as a capturer: `NAME=COMMAND`, without a file.

use super::{Format, Options, Outputs, Ready, Stop, Tool, line, patience_s, settle_ms};
use crate::{Error, Result};
use std::path::Path;

/// A capturer from `NAME=PROGRAM ARGUMENTS`, with the places `{interface}`, and `{file}` or `{dir}`.
///
/// Words are parted as a shell does, with quotes and backslashes, but no shell runs them. It captures once a
/// packet socket of its own is bound, is stopped by SIGINT, and is not asked about its losses.
///
/// # Errors
/// No name, no command, a quote that does not end, an unknown place, or one that is missing.
pub fn from_command(text: &str, quaff: &Path) -> Result<Tool> {
    let wrong = |what: &str| {
        Err(Error::Description { place: format!("the command {text:?}"), what: what.to_owned() })
    };
    let Some((name, command)) = text.split_once('=') else {
        return wrong("it has no name: NAME=COMMAND {interface} {file}");
    };
    let Some(mut words) = words(command) else { return wrong("a quote in it does not end") };
    if words.is_empty() {
        return wrong("there is no command behind the name");
    }
    let program = words.remove(0).into();
    let rival = Tool {
        name: name.trim().to_owned(),
        install: String::new(),
        hidden: false,
        program,
        version: Vec::new(),
        args: words,
        output: Outputs { disk: Some(Vec::new()), ..Outputs::default() },
        options: Options::default(),
        buffer_min_mib: 0,
        own_buffer: String::new(),
        dirs: Vec::new(),
        ready: Ready::Socket,
        settle_ms: settle_ms(),
        patience_s: patience_s(),
        stop: Stop::default(),
        drops: None,
        captured: None,
        format: Format::default(),
    };
    match line::check(&rival) {
        Ok(()) => Ok(line::with_quaff(rival, quaff)),
        Err((_, what)) => wrong(&what),
    }
}

/// Words as a shell parts them (POSIX, 2.2 Quoting); `None` when a quote does not end.
fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().push(letters.next()?),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parted_as_a_shell_does() {
        let parted = |text| words(text).expect("quotes end").join("|");
        assert_eq!(parted("  a 'b c'  \"d \\\" e\"f g\\ h '' "), "a|b c|d \" ef|g h|");
        assert_eq!(words(""), Some(vec![]));
        assert_eq!(words("a 'b"), None);
        assert_eq!(words("a\\"), None);
    }

    #[test]
    fn a_command_becomes_a_capturer() {
        let rival = from_command("mine=sh -c 'exec dump {interface} > {file}'", Path::new("q")).expect("one");
        assert_eq!((rival.name.as_str(), rival.program.to_str()), ("mine", Some("sh")));
        assert_eq!(rival.args, ["-c", "exec dump {interface} > {file}"]);
        let ours = from_command("ours={quaff} capture -i {interface} -w {file}", Path::new("/bin/q"));
        assert_eq!(ours.expect("one").program, Path::new("/bin/q"));
    }

    #[test]
    fn what_is_no_command_is_told() {
        for (text, what) in [
            ("tcpdump -i {interface}", "it has no name"),
            ("a=", "there is no command"),
            ("=x {interface} {file}", "needs a name"),
            ("a=x '{interface} {file}", "does not end"),
            ("a=x {interface}", "neither {file} nor {dir}"),
            ("a=x {file}", "nothing says {interface}"),
            ("a=x {interface} {file} {mib}", "there is no {mib} here"),
        ] {
            let error = from_command(text, Path::new("q")).expect_err(text).to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
