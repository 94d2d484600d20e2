//! A capturer from a command, `NAME=COMMAND`, without a description file.

use super::{Outputs, Ready, Tool, line};
use crate::{Error, Result};
use std::path::Path;

/// A capturer from `NAME=PROGRAM ARGUMENTS`, with the placeholders `{interface}`, and `{file}` or `{dir}`.
///
/// Quotes and backslashes separate words as in a shell, but no shell runs the command. It is ready once it has bound a
/// packet socket, SIGINT stops it, and its count of losses is not read.
///
/// # Errors
/// No name, no command, an unclosed quote, or an unknown or missing placeholder.
pub fn from_command(text: &str, quaff: &Path) -> Result<Tool> {
    let wrong = |what: &str| {
        Err(Error::Description { place: format!("the command {text:?}"), what: what.to_owned() })
    };
    let Some((name, command)) = text.split_once('=') else {
        return wrong("it has no name: NAME=COMMAND {interface} {file}");
    };
    let Some(mut words) = words(command) else { return wrong("a quote is not closed") };
    if words.is_empty() {
        return wrong("the command after the name is missing");
    }
    let program = words.remove(0);
    let output = Outputs { disk: Some(Vec::new()), ..Outputs::default() };
    let tool = Tool::bare(name.trim(), program.as_ref(), words, output, Ready::Socket);
    match line::check(&tool) {
        Ok(()) => Ok(line::with_quaff(tool, quaff)),
        Err((_, what)) => wrong(&what),
    }
}

/// Splits words as a shell does (POSIX, 2.2 Quoting); `None` if a quote is not closed.
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
        let tool = from_command("mine=sh -c 'exec dump {interface} > {file}'", Path::new("q")).expect("one");
        assert_eq!((tool.name.as_str(), tool.program.to_str()), ("mine", Some("sh")));
        assert_eq!(tool.args, ["-c", "exec dump {interface} > {file}"]);
        let ours = from_command("ours={quaff} capture -i {interface} -w {file}", Path::new("/bin/q"));
        assert_eq!(ours.expect("one").program, Path::new("/bin/q"));
    }

    #[test]
    fn an_invalid_command_is_reported() {
        for (text, what) in [
            ("tcpdump -i {interface}", "it has no name"),
            ("a=", "the command after the name is missing"),
            ("=x {interface} {file}", "needs a name"),
            ("a=x '{interface} {file}", "is not closed"),
            ("a=x {interface}", "{file} or {dir} is missing"),
            ("a=x {file}", "{interface} is missing"),
            ("a=x {interface} {file} {mib}", "{mib} is unknown here"),
        ] {
            let error = from_command(text, Path::new("q")).expect_err(text).to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
