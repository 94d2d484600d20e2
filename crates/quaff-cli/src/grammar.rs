//! The one grammar of inputs, for all commands that read captures. Words of a command line that belong to no flag are
//! files and folders to read, or the tcpdump expression: here they become `--read` and `--filter`, before the line is
//! parsed, so that each command has its inputs and its filter in one place, and the rules of its flags hold however an
//! input is named. It opens no file but to see whether the first word of an expression is a capture.

use crate::capture_files::is_capture_file;
use crate::show::{message, name};
use anyhow::{bail, ensure};
use clap::builder::ValueRange;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use quaff_wire::tunnel::TunnelKinds;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind};
use std::path::Path;

/// The argument of commands whose words are files, and of those in which an expression follows.
const INPUTS: &str = "inputs";
const WORDS: &str = "words";

/// Words with which an expression of the filter language begins: pcap-filter(7), and the scanner of libpcap.
const KEYWORDS: &str = "\
    not host net port portrange src dst gateway proto protochain ether link ppp slip fddi tr wlan radio ip ip6 \
    arp rarp tcp udp sctp icmp icmp6 igmp igrp pim ah esp vrrp carp decnet iso clnp es-is esis is-is isis l1 l2 \
    iih lsp snp csnp psnp llc stp ipx netbeui lat sca moprc mopdl aarp atalk vlan mpls pppoed pppoes geneve \
    vxlan less greater byte len length broadcast multicast inbound outbound ifname ifindex on rnr rulenum srnr \
    subrulenum rset ruleset reason action type subtype dir direction addr1 addr2 addr3 addr4 address1 address2 \
    address3 address4 ra ta lane metac bcc oam oamf4 oamf4sc oamf4ec sc ilmic vpi vci connectmsg metaconnect \
    fisu lssu lsu msu hfisu hlssu hmsu sio opc dpc sls hsio hopc hdpc hsls";

/// The words and flags of a command line.
#[derive(Debug, Default)]
struct Seen {
    /// The places of the words that belong to no flag.
    words: Vec<usize>,
    /// The flags that were given.
    flags: BTreeSet<String>,
    /// One that is unknown was given.
    has_unknown: bool,
    /// The place of `--`, after which all words are such.
    end: Option<usize>,
}

/// The beginning of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning {
    Keyword,
    /// It may be the name of a file as well.
    Number,
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
    // The parser has the help, and the words on an option that it does not know.
    let is_for_parser = seen.has_unknown || seen.has("help") || seen.has("version");
    let asks_for_help = seen.words.first() == Some(&at) && line[at] == "help" && command.has_subcommands();
    if seen.words.is_empty() || is_for_parser || asks_for_help {
        return Ok(line);
    }
    let words: Vec<_> = seen.words.iter().map(|place| line[*place].as_os_str()).collect();
    let inputs = match () {
        () if has("filter") && seen.has("interface") => of_interface(&words)?,
        () if has(WORDS) => of_files(&words, seen.has("read"), command)?,
        () => words.len(),
    };
    let expression = expression(&words[inputs..], seen.has("filter"))?;
    let may_note = !seen.has("interface") && !seen.has("quiet");
    if let Some(note) = words.get(inputs).filter(|_| may_note).and_then(|word| ambiguity(word)) {
        message(&note);
    }
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
        let (flags, has_value) = match bytes.strip_prefix(b"--") {
            Some(long) => {
                // The value may be any name of a file.
                let end = long.iter().position(|byte| *byte == b'=').unwrap_or(long.len());
                let name = std::str::from_utf8(&long[..end]).unwrap_or_default();
                let found: Vec<_> = command.get_arguments().filter(|arg| has_long(arg, name)).collect();
                seen.has_unknown |= found.is_empty();
                (found, end < long.len())
            }
            None => cluster(command, word, &mut seen.has_unknown),
        };
        seen.flags.extend(flags.iter().map(|arg: &&Arg| arg.get_id().to_string()));
        let Some(last) = flags.last().filter(|arg| takes_next(arg) && !has_value) else { continue };
        let range = last.get_num_args().unwrap_or(ValueRange::SINGLE);
        let mut taken = 0;
        while let Some(next) = line.get(at).filter(|_| taken < range.max_values()) {
            let is_optional = taken >= range.min_values();
            if is_optional && (is_flag(next) || range.min_values() == 0 && is_of_expression(last, next)) {
                break;
            }
            (at, taken) = (at + 1, taken + 1);
        }
    }
    seen
}

/// Returns whether a word is a flag; `-` is stdin.
fn is_flag(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    bytes.len() > 1 && bytes[0] == b'-'
}

/// Returns whether a word after an option that may be alone, such as --json, begins the expression. Kinds of tunnels,
/// such as vxlan, are words of both.
fn is_of_expression(option: &Arg, word: &OsStr) -> bool {
    let is_kind =
        option.get_id() == "decap" && word.to_str().is_some_and(|word| word.parse::<TunnelKinds>().is_ok());
    !is_kind && beginning(word) == Some(Beginning::Keyword)
}

fn takes_next(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

fn has_long(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
}

/// The flags of a word such as `-nr`, and whether the value of the last one is in it. Notes one that is unknown.
fn cluster<'a>(command: &'a Command, word: &OsStr, has_unknown: &mut bool) -> (Vec<&'a Arg>, bool) {
    let text = word.to_string_lossy();
    let mut letters = text.chars().skip(1);
    let mut found = Vec::new();
    for letter in letters.by_ref() {
        let of = |arg: &&Arg| {
            arg.get_short() == Some(letter)
                || arg.get_all_short_aliases().is_some_and(|all| all.contains(&letter))
        };
        let Some(arg) = command.get_arguments().find(of) else {
            *has_unknown = true;
            break;
        };
        found.push(arg);
        if arg.get_action().takes_values() {
            break;
        }
    }
    (found, letters.next().is_some())
}

/// With an interface, all words are the expression. Returns the number of inputs: none.
fn of_interface(words: &[&OsStr]) -> anyhow::Result<usize> {
    if beginning(words[0]).is_some() {
        return Ok(0);
    }
    let word = words[0].to_string_lossy();
    let word = name(&word);
    match is_capture_file(Path::new(words[0])) {
        true => bail!("{word} is a capture, and -i reads an interface: leave one of them out"),
        false => {
            bail!("{word} is no word that begins an expression, which all words are with -i: {}", hint(&word))
        }
    }
}

/// The ways to give an expression that begins with another word.
fn hint(word: &str) -> String {
    format!("name a host after the word host, as in 'host {word}'; -f takes any expression")
}

/// The message on the first word of an expression that names an input too.
fn ambiguity(word: &OsStr) -> Option<String> {
    let path = Path::new(word);
    let kind = match path.is_dir() {
        true => "folder",
        false => Some("capture").filter(|_| is_capture_file(path))?,
    };
    let word = word.to_string_lossy();
    let word = name(&word);
    Some(format!("'{word}' begins the expression; ./{word} names the {kind}"))
}

/// The number of words that are inputs; the others are the expression. Files are as they are now: `is_named` is whether
/// an input is named before.
fn of_files(words: &[&OsStr], mut is_named: bool, command: &Command) -> anyhow::Result<usize> {
    for (at, word) in words.iter().enumerate() {
        let beginning = beginning(word);
        if is_there(word) && !(is_named && beginning == Some(Beginning::Keyword)) {
            is_named = true;
            continue;
        }
        ensure!(beginning.is_some(), "{}", nothing(word, is_named, command));
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
        (true, _) => format!("{begun}, and no word that begins an expression: {}", hint(&word)),
        (false, true) => format!("{begun}; {}", ways(command)),
        (false, false) => format!("{begun}, and no command of this name ({commands}); {}", ways(command)),
    }
}

/// The commands below a command.
fn commands(command: &Command) -> String {
    let names = command.get_subcommands().map(Command::get_name).filter(|name| *name != "help");
    names.collect::<Vec<_>>().join(", ")
}

/// Returns whether a word names something to read. One that may not be looked at is named when it is opened; a text
/// that can be no name is none.
fn is_there(word: &OsStr) -> bool {
    use ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
    let is_none =
        |error: Error| [NotFound, NotADirectory, InvalidFilename, InvalidInput].contains(&error.kind());
    word == "-" || !Path::new(word).metadata().is_err_and(is_none)
}

/// The beginning of an expression that a word is: a word of the filter language, or a number. No address begins one,
/// for libpcap either. An expression of nothing is one, too.
fn beginning(word: &OsStr) -> Option<Beginning> {
    let text = word.to_str()?.trim_start_matches(|c: char| c.is_whitespace() || "(!".contains(c));
    let is_keyword = |text: &str| KEYWORDS.split(' ').any(|word| word == text);
    let first = text.split(|c: char| c.is_whitespace() || "()".contains(c)).next().unwrap_or_default();
    if first.is_empty() || is_keyword(first) {
        return Some(Beginning::Keyword);
    }
    let end = first.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(first.len());
    let (first, rest) = first.split_at(end);
    // A name such as port.pcap, or a path.
    if rest.starts_with(['.', '_', '-', '/', ':']) {
        return None;
    }
    let hexadecimal = first.strip_prefix("0x").or(first.strip_prefix("0X"));
    let is_number = match hexadecimal {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        None => !first.is_empty() && first.bytes().all(|digit| digit.is_ascii_digit()),
    };
    match is_number {
        true => Some(Beginning::Number),
        false => is_keyword(first).then_some(Beginning::Keyword),
    }
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
    fn an_expression_begins_with_a_word_or_a_number() {
        for word in [
            "",
            "port",
            "tcp[13]",
            "len>100",
            "ip6",
            "(tcp",
            "!",
            "(",
            "not port 80",
            "ip)",
            "tcp and port 80",
            "es-is",
            "addr1 02:00:00:00:00:01",
            "llc",
        ] {
            assert_eq!(beginning(word.as_ref()), Some(Beginning::Keyword), "{word}");
        }
        for word in ["1", "0x1f", "80=len", "2 + 2 = 4"] {
            assert_eq!(beginning(word.as_ref()), Some(Beginning::Number), "{word}");
        }
        for word in [
            "port.pcap",
            "port_1",
            "tcp-1.pcap",
            "./port",
            "a.pcap",
            "10.pcap",
            "ring/a",
            "www.example.com",
            "10.0.0.1",
            "10.0.0.0/8",
            "fd00::1",
            "02:00:00:00:00:01",
            "0x",
            "1f",
        ] {
            assert_eq!(beginning(word.as_ref()), None, "{word}");
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
            ("flows -i lo tcp", "flows|--filter=tcp|-i|lo"),
            ("bench list x", "bench|list|x"),
            ("flows - --json udp", "flows|--filter=udp|--read=-|--json"),
            ("flows - --json r.jsonl", "flows|--read=-|--json|r.jsonl"),
            // A kind of tunnel, which is a word of expressions too, and one that is none.
            ("split - --decap vxlan -w x", "split|--read=-|--decap|vxlan|-w|x"),
            ("split - --decap mpls udp", "split|--filter=udp|--read=-|--decap|mpls"),
            ("split - --decap udp -w x", "split|--filter=udp|--read=-|--decap|-w|x"),
            ("capture -i lo -w x --rt 50 tcp", "capture|--filter=tcp|-i|lo|-w|x|--rt|50"),
            ("capture -i lo -w x 1 = 1", "capture|--filter=1 = 1|-i|lo|-w|x"),
            // What the parser has the words for.
            ("flows help", "flows|help"),
            ("streams help extract", "streams|help|extract"),
            ("capture --help foo", "capture|--help|foo"),
            ("capture - -h foo", "capture|-|-h|foo"),
            ("capture -r - --wirte x", "capture|-r|-|--wirte|x"),
            ("capture -r - -z gzip -w o", "capture|-r|-|-z|gzip|-w|o"),
        ] {
            let line = std::iter::once("quaff").chain(line.split(' ')).map(OsString::from).collect();
            let found: Vec<_> = native(&root, line).unwrap().into_iter().skip(1).collect();
            assert_eq!(found, expected.split('|').map(OsString::from).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_text_that_can_be_no_name_is_no_file() {
        use std::os::unix::ffi::OsStrExt;
        assert!(is_there("/".as_ref()) && is_there("-".as_ref()));
        let long = "not ".repeat(2000);
        for word in ["host a", "/dev/null/8", long.as_str(), "a\0b"] {
            assert!(!is_there(word.as_ref()), "{word}");
        }
        // A name that is no text is a value, too.
        let name = OsStr::from_bytes(b"--read=\xff").to_owned();
        let line =
            ["quaff", "capture", "-w", "x"].map(OsString::from).into_iter().chain([name, "tcp".into()]);
        let found = native(&crate::command(), line.collect()).unwrap();
        assert_eq!((found[2].to_str(), found.len()), (Some("--filter=tcp"), 6));
    }

    #[test]
    fn the_first_word_of_an_expression_that_names_an_input_is_pointed_out() {
        let dir = tempfile::tempdir().unwrap();
        let note = ambiguity(dir.path().as_os_str()).unwrap();
        assert!(note.contains("names the folder"), "{note}");
        let file = dir.path().join("udp");
        assert_eq!(ambiguity(file.as_os_str()), None);
        std::fs::write(&file, [0xd4, 0xc3, 0xb2, 0xa1]).unwrap();
        assert!(ambiguity(file.as_os_str()).unwrap().contains("names the capture"));
    }

    #[test]
    fn a_word_without_a_meaning_is_refused_with_what_to_type() {
        let root = crate::command();
        for (line, words) in [
            ("capture tcp port 80 -w x", "no input is named before the expression 'tcp port 80': -i IF"),
            (
                "flows none.pcap",
                "none.pcap: No such file or directory, and no command of this name (top, report, list); -i IF",
            ),
            ("split -r - none.pcap", "No such file or directory, and no word that begins an expression"),
            ("flows -i lo top", "top is no word that begins an expression"),
            ("split -r - 10.0.0.1", "as in 'host 10.0.0.1'"),
            (
                "split -i lo none.pcap",
                "none.pcap is no word that begins an expression, which all words are with -i",
            ),
            ("capture -r - -f udp tcp", "the filter is given twice, with -f and as 'tcp'"),
        ] {
            let line = std::iter::once("quaff").chain(line.split(' ')).map(OsString::from).collect();
            let error = native(&root, line).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
