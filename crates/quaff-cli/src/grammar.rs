//! The one grammar of inputs, for all commands that read captures. Words of a command line that belong to no flag are
//! files and folders to read, or the tcpdump expression: here they become `--read` and `--filter`, before the line is
//! parsed, so that each command has its inputs and its filter in one place, and the rules of its flags hold however an
//! input is named. It opens no file but to see whether a word of an expression is a capture.

use crate::capture_files::is_capture_file;
use crate::show::name;
use anyhow::{bail, ensure};
use clap::builder::ValueRange;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind};
use std::net::IpAddr;
use std::path::Path;

/// The argument of commands whose words are files, and of those in which an expression follows.
const INPUTS: &str = "inputs";
const WORDS: &str = "words";

/// Words with which an expression of the filter language begins: pcap-filter(7).
const KEYWORDS: &str = "\
    not host net port portrange src dst gateway proto protochain ether link ppp slip fddi tr wlan ip ip6 \
    arp rarp tcp udp sctp icmp icmp6 igmp igrp pim ah esp vrrp carp decnet iso clnp esis isis stp ipx \
    netbeui lat moprc mopdl aarp atalk vlan mpls pppoed pppoes geneve vxlan less greater len broadcast \
    multicast inbound outbound ifname ifindex type subtype";

/// The words and flags of a command line.
#[derive(Debug, Default)]
struct Seen {
    /// The places of the words that belong to no flag.
    words: Vec<usize>,
    /// The flags that were given.
    flags: BTreeSet<String>,
    /// The place of `--`, after which all words are such.
    end: Option<usize>,
}

/// The line, whose first word is that of `root`, with inputs and expression as flags. A command that reads no captures
/// has its line unchanged.
pub(crate) fn native(root: &Command, line: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    let (command, at) = of_line(root, &line);
    let has = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
    if !has(INPUTS) && !has(WORDS) {
        return Ok(line);
    }
    // What an argument takes is known of a command that was built.
    let mut built = command.clone();
    built.build();
    let seen = seen(&built, &line, at);
    if seen.words.is_empty() {
        return Ok(line);
    }
    let words: Vec<_> = seen.words.iter().map(|place| line[*place].as_os_str()).collect();
    let inputs = match () {
        () if has("filter") && seen.has("interface") => of_interface(&words)?,
        () if has(WORDS) => of_files(&words, seen.has("read"), command)?,
        () => words.len(),
    };
    let expression = expression(&words[inputs..], seen.has("filter"))?;
    Ok(rewritten(&line, at, &seen, inputs, expression))
}

/// The error of a line that lacks something, with the ways to give it: an input, or one of the commands below its
/// command. `None` of other errors.
pub(crate) fn missing(root: &Command, line: &[OsString], error: &clap::Error) -> Option<String> {
    let (command, _) = of_line(root, line);
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != clap::error::ErrorKind::MissingRequiredArgument {
        return None;
    }
    if missing.iter().any(|flag| flag.starts_with("--read ")) {
        return Some(no_input(command));
    }
    let commands = commands(command);
    let words =
        || format!("{} is missing: give it, or one of the commands {commands}", missing.join(" and "));
    (!commands.is_empty()).then(words)
}

/// The command of a line, and the place after its name.
fn of_line<'a>(root: &'a Command, line: &[OsString]) -> (&'a Command, usize) {
    let (mut command, mut at) = (root, 1);
    while let Some(sub) = line.get(at).and_then(|word| command.find_subcommand(word)) {
        (command, at) = (sub, at + 1);
    }
    (command, at)
}

/// Refuses a line of a command that reads captures and names none. `matches` are those of the whole line.
pub(crate) fn ensure_input(root: &Command, matches: &ArgMatches) -> anyhow::Result<()> {
    let (mut command, mut matches) = (root, matches);
    while let Some((sub, of_sub)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(sub) else { return Ok(()) };
        (command, matches) = (found, of_sub);
    }
    let given = |id: &str| {
        command.get_arguments().any(|arg| arg.get_id() == id)
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    let reads = command.get_arguments().any(|arg| arg.get_id() == INPUTS || arg.get_id() == WORDS);
    let is_exempt = ["read", "interface", "plan", "list_interfaces"].into_iter().any(given);
    ensure!(!reads || is_exempt, "{}", no_input(command));
    Ok(())
}

fn no_input(command: &Command) -> String {
    format!("no input is named: {}", ways(command))
}

/// The ways in which a command takes its input.
fn ways(command: &Command) -> String {
    let files = "FILE or -r FILE reads a capture, a folder of captures, or '-' (stdin)";
    match command.get_arguments().any(|arg| arg.get_id() == "interface") {
        true => format!("-i IF reads an interface, {files}"),
        false => files.to_owned(),
    }
}

impl Seen {
    fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }
}

/// The words of a line that are neither flags nor their values, from `at` on.
fn seen(command: &Command, line: &[OsString], mut at: usize) -> Seen {
    let mut seen = Seen::default();
    while let Some(word) = line.get(at) {
        at += 1;
        let bytes = word.as_encoded_bytes();
        if bytes == b"--" {
            seen.end = Some(at - 1);
            seen.words.extend(at..line.len());
            break;
        }
        if !is_flag(word) {
            seen.words.push(at - 1);
            continue;
        }
        let (flags, has_value) = match word.to_str().and_then(|word| word.strip_prefix("--")) {
            Some(long) => {
                let (name, value) =
                    long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                (command.get_arguments().filter(|arg| has_long(arg, name)).collect(), value.is_some())
            }
            None => cluster(command, word),
        };
        seen.flags.extend(flags.iter().map(|arg: &&Arg| arg.get_id().to_string()));
        let Some(last) = flags.last().filter(|arg| takes_next(arg) && !has_value) else { continue };
        let range = last.get_num_args().unwrap_or(ValueRange::SINGLE);
        let mut taken = 0;
        while taken < range.max_values()
            && line.get(at).is_some_and(|next| !is_flag(next) || taken < range.min_values())
        {
            (at, taken) = (at + 1, taken + 1);
        }
    }
    seen
}

/// Returns whether a word is no value: `-` is stdin.
fn is_flag(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    bytes.len() > 1 && bytes[0] == b'-'
}

fn takes_next(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

fn has_long(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
}

/// The flags of a word such as `-nr`, and whether the value of the last one is in it.
fn cluster<'a>(command: &'a Command, word: &OsStr) -> (Vec<&'a Arg>, bool) {
    let text = word.to_string_lossy();
    let mut letters = text.chars().skip(1);
    let mut found = Vec::new();
    for letter in letters.by_ref() {
        let of = |arg: &&Arg| {
            arg.get_short() == Some(letter)
                || arg.get_all_short_aliases().is_some_and(|all| all.contains(&letter))
        };
        let Some(arg) = command.get_arguments().find(of) else { break };
        found.push(arg);
        if arg.get_action().takes_values() {
            break;
        }
    }
    (found, letters.next().is_some())
}

/// With an interface, all words are the expression. Returns the number of inputs: none.
fn of_interface(words: &[&OsStr]) -> anyhow::Result<usize> {
    let first = Path::new(words[0]);
    ensure!(
        begins_expression(words[0]) || !is_capture_file(first),
        "{} is a capture, and -i reads an interface: leave one of them out",
        name(&first.display().to_string())
    );
    Ok(0)
}

/// The number of words that are inputs; the others are the expression. Files are as they are now: `is_named` is whether
/// an input is named before.
fn of_files(words: &[&OsStr], mut is_named: bool, command: &Command) -> anyhow::Result<usize> {
    for (at, word) in words.iter().enumerate() {
        let begins = begins_expression(word);
        if is_there(word) && !(is_named && begins) {
            is_named = true;
            continue;
        }
        ensure!(begins, "{}", nothing(word, is_named, command));
        if !is_named {
            bail!("no input is named before the expression '{}': {}", joined(&words[at..])?, ways(command));
        }
        return Ok(at);
    }
    Ok(words.len())
}

/// The error of a word that names nothing and begins no expression. `is_named`: an input is named before it.
fn nothing(word: &OsStr, is_named: bool, command: &Command) -> String {
    let word = word.to_string_lossy();
    let (word, commands) = (name(&word), commands(command));
    let begun = format!("{word}: No such file or directory");
    match (is_named, commands.is_empty()) {
        (true, _) => format!(
            "{begun}, and no tcpdump expression begins with it: name a host after the word host, as in 'host {word}'"
        ),
        (false, true) => format!("{begun}; {}", ways(command)),
        (false, false) => format!("{begun}, and no command of this name ({commands}); {}", ways(command)),
    }
}

/// The commands below a command.
fn commands(command: &Command) -> String {
    let names = command.get_subcommands().map(Command::get_name).filter(|name| *name != "help");
    names.collect::<Vec<_>>().join(", ")
}

/// Returns whether a word names something to read. One that may not be looked at is named when it is opened.
fn is_there(word: &OsStr) -> bool {
    let is_gone = |error: Error| error.kind() == ErrorKind::NotFound;
    word == "-" || !Path::new(word).metadata().is_err_and(is_gone)
}

/// Returns whether an expression begins with a word: a word of the filter language, a number or an address.
fn begins_expression(word: &OsStr) -> bool {
    let Some(text) = word.to_str().filter(|text| !text.is_empty()) else { return false };
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || "(!".contains(c));
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (first, rest) = text.split_at(end);
    // A name such as port.pcap, or a path.
    let is_longer = rest.starts_with(['.', '_', '-', '/', ':']);
    let is_number = !first.is_empty() && first.bytes().all(|digit| digit.is_ascii_digit());
    let is_word =
        first.is_empty() && rest.is_empty() || is_number || KEYWORDS.split(' ').any(|word| word == first);
    is_word && !is_longer || is_address(text.split([' ', '/', ')']).next().unwrap_or_default())
}

/// Returns whether a text is an IP or a MAC address.
fn is_address(text: &str) -> bool {
    let bytes = text.split([':', '-']).map(|part| part.len() <= 2 && u8::from_str_radix(part, 16).is_ok());
    let bytes: Vec<_> = bytes.collect();
    text.parse::<IpAddr>().is_ok() || bytes == [true; 6]
}

/// The expression of the words; `None` without one. `is_given` is whether -f has one.
fn expression(words: &[&OsStr], is_given: bool) -> anyhow::Result<Option<String>> {
    if words.is_empty() {
        return Ok(None);
    }
    let expression = joined(words)?;
    ensure!(
        !is_given,
        "the filter is given twice, with -f and as '{expression}': leave one out, or join both, as in -f '(…) and (…)'"
    );
    Ok(Some(expression))
}

fn joined(words: &[&OsStr]) -> anyhow::Result<String> {
    let texts: Option<Vec<_>> = words.iter().map(|word| word.to_str()).collect();
    match texts {
        Some(texts) => Ok(texts.join(" ")),
        None => bail!("the expression is not UTF-8"),
    }
}

/// The line with `inputs` of its words as `--read`, each in its place, and the expression as `--filter` after the
/// command.
fn rewritten(
    line: &[OsString],
    command_end: usize,
    seen: &Seen,
    inputs: usize,
    expression: Option<String>,
) -> Vec<OsString> {
    let (files, words): (BTreeSet<_>, BTreeSet<_>) =
        (seen.words[..inputs].iter().collect(), seen.words[inputs..].iter().collect());
    let mut native = line[..command_end].to_vec();
    native.extend(expression.map(|expression| OsString::from(format!("--filter={expression}"))));
    for (at, word) in line.iter().enumerate().skip(command_end) {
        if files.contains(&at) {
            let mut flag = OsString::from("--read=");
            flag.push(word);
            native.push(flag);
        } else if !words.contains(&at) && seen.end != Some(at) {
            native.push(word.clone());
        }
    }
    native
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_begins_with_a_word_a_number_or_an_address() {
        for word in [
            "port",
            "tcp[13]",
            "len>100",
            "ip6",
            "(tcp",
            "!",
            "(",
            "not port 80",
            "10.0.0.1",
            "10.0.0.0/8",
            "fd00::1",
            "02:00:00:00:00:01",
            "1",
            "ip)",
            "tcp and port 80",
        ] {
            assert!(begins_expression(word.as_ref()), "{word}");
        }
        for word in [
            "",
            "port.pcap",
            "port_1",
            "tcp-1.pcap",
            "./port",
            "a.pcap",
            "10.pcap",
            "ring/a",
            "www.example.com",
        ] {
            assert!(!begins_expression(word.as_ref()), "{word}");
        }
    }

    #[test]
    fn words_are_known_from_flags_and_their_values() {
        let root = crate::command();
        for (line, expected) in [
            ("capture -i lo port 80 -w x", "capture|--filter=port 80|-i|lo|-w|x"),
            ("capture -ilo -w - port 80", "capture|--filter=port 80|-ilo|-w|-"),
            ("capture - tcp -w x", "capture|--filter=tcp|--read=-|-w|x"),
            ("capture -r - -w x --rt --hotplug tcp", "capture|--filter=tcp|-r|-|-w|x|--rt|--hotplug"),
            ("info -r a - b", "info|-r|a|--read=-|--read=b"),
            ("info --json -- -x", "info|--json|--read=-x"),
            ("streams extract -qr a - --dir d", "streams|extract|-qr|a|--read=-|--dir|d"),
            ("streams - --script a b", "streams|--read=-|--script|a|b"),
            ("verify -i lo tcp", "verify|--filter=tcp|-i|lo"),
            ("flows top -i lo", "flows|top|-i|lo"),
            ("flows -i lo top", "flows|--filter=top|-i|lo"),
            ("bench list x", "bench|list|x"),
        ] {
            let line = std::iter::once("quaff").chain(line.split(' ')).map(OsString::from).collect();
            let found: Vec<_> = native(&root, line).unwrap().into_iter().skip(1).collect();
            assert_eq!(found, expected.split('|').map(OsString::from).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_word_without_a_meaning_is_refused_with_what_to_type() {
        let root = crate::command();
        for (line, words) in [
            ("capture tcp port 80 -w x", "no input is named before the expression 'tcp port 80': -i IF"),
            (
                "flows none.pcap",
                "none.pcap: No such file or directory, and no command of this name (top, report); -i IF",
            ),
            ("split -r - none.pcap", "no tcpdump expression begins with it"),
            ("capture -r - -f udp tcp", "the filter is given twice, with -f and as 'tcp'"),
        ] {
            let line = std::iter::once("quaff").chain(line.split(' ')).map(OsString::from).collect();
            let error = native(&root, line).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
