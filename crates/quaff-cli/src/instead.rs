//! Answers to words, letters and options of other programs, or of other commands: here they have what to type in their
//! place. The parser alone would name what is spelled alike. It opens no file: it looks whether one has the name of a
//! word.

use crate::show;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::path::Path;

/// Words that are typed as commands, and what does that here.
const COMMANDS: [(&str, &str); 25] = [
    ("top iftop talkers", "'quaff flows top -i IF' shows who talks, 'quaff flows top FILE' who talked"),
    ("report nfdump rwstats", "'quaff flows report FILE' sums flows up by any fields"),
    (
        "follow",
        "'quaff streams follow FILE N' prints connection N, and 'quaff streams list FILE' has the numbers",
    ),
    (
        "extract objects tcpflow foremost",
        "'quaff streams extract FILE --dir DIR' writes what was sent, as files",
    ),
    (
        "list connections conversations sessions",
        "'quaff streams list FILE' lists connections, 'quaff interfaces' interfaces",
    ),
    ("grep ngrep search find", "'quaff capture FILE --grep REGEX' prints the packets whose payload matches"),
    (
        "convert editcap edit cut slice trim save",
        "'quaff capture FILE -w OUT' copies packets: --from, --to, --snaplen and others choose and change them, and the \
         suffix of OUT (.pcap, .pcapng, .zst) sets the format",
    ),
    ("filter select", "'quaff capture FILE EXPR -w OUT' keeps the packets that match a tcpdump expression"),
    ("dedup deduplicate", "'quaff capture FILE --dedup -w OUT' drops repeated packets"),
    ("anonymize anonymise", "'quaff replay FILE --seed N -w OUT' gives the packets other addresses"),
    (
        "record dump dumpcap log",
        "'quaff capture -i IF -w FILE' records into a file, 'quaff capture -i IF --dir DIR' into a folder of files",
    ),
    ("sniff watch listen monitor tcpdump", "'quaff capture -i IF' prints the packets of an interface"),
    (
        "print show cat view read packets",
        "'quaff capture FILE' prints packets, 'quaff info FILE' sums them up",
    ),
    (
        "tshark decode dissect fields",
        "packets are dissected by tshark: 'quaff capture -i IF -w - | tshark -r -', which takes its -Y and -T",
    ),
    (
        "summary summarize stat stats statistics analyze analyse capinfos describe traffic hierarchy protocols",
        "'quaff info FILE' sums a capture up, 'quaff info --traffic FILE' says what is in it",
    ),
    ("check validate lost loss", "'quaff verify FILE' says whether a capture lacks packets"),
    (
        "join mergecap concat sort reorder reordercap",
        "'quaff merge A B -w OUT' puts captures into one, by time",
    ),
    ("send play inject", "'quaff replay FILE -o IF' sends the packets of a capture"),
    ("gen pktgen trafgen flood mgen", "'quaff generate -o IF' sends made packets"),
    ("devices ifaces iface interface links", "'quaff interfaces' lists the interfaces"),
    (
        "tune fix setup diagnose",
        "'quaff doctor -i IF' says what to set for an interface, and does it with --fix",
    ),
    (
        "meter netflow ipfix export probe softflowd",
        "'quaff flows -i IF --collector HOST' sends records of flows, --csv FILE writes them",
    ),
    ("script lua", "'quaff streams FILE --script S.lua' runs a script on streams"),
    ("bridge inline forward", "'quaff tap A B' forwards between two interfaces, and records"),
    ("measure test iperf latency throughput", "'quaff service' tests a path, 'quaff bench' a capturer"),
];

const CAPTURERS: &str = "tcpdump or dumpcap";
const ALL_PROGRAMS: &str = "tcpdump, dumpcap or tshark";
const DISSECTOR: &str = "tshark, which dissects packets";

/// Letters and options of other programs that mean nothing to `quaff capture`: each with its program, and what does the
/// same here.
const OF_CAPTURE: [(&str, &str, &str); 30] = [
    ("-B", CAPTURERS, RING),
    ("--buffer-size", CAPTURERS, RING),
    ("-E", CAPTURERS, "payload of IPsec is not decrypted"),
    (
        "-F",
        ALL_PROGRAMS,
        "-f \"$(cat FILE)\" reads the filter of a file, and the suffix of -w sets the format",
    ),
    ("-g", CAPTURERS, "--group NAME lets a group read the files"),
    ("-I", CAPTURERS, "'iw dev IF set type monitor' makes an interface a monitor before the capture"),
    ("-J", CAPTURERS, "-j takes host or adapter; 'ethtool -T IF' lists what an adapter can do"),
    ("-k", "wireshark", "'quaff capture -i IF -w - | wireshark -k -i -' shows packets in it"),
    ("-L", ALL_PROGRAMS, LINK_TYPES),
    ("--list-data-link-types", CAPTURERS, LINK_TYPES),
    (
        "-M",
        CAPTURERS,
        "signatures of TCP (RFC 2385) are not checked: 'quaff capture … -w - | tcpdump -r - -M SECRET'",
    ),
    ("-m", CAPTURERS, "only tcpdump itself loads MIBs: 'quaff capture … -w - | tcpdump -r - -m FILE'"),
    (
        "-O",
        ALL_PROGRAMS,
        "--dump-filter shows the filter, whose code is always optimized; for tshark's -O: -w - | tshark -r - -O …",
    ),
    ("-o", "tshark", "-w FILE names the output; for tshark's preferences: -w - | tshark -r - -o …"),
    ("-P", CAPTURERS, "--format pcap, or a name that ends in .pcap, is the older format"),
    ("-Q", CAPTURERS, INCOMING),
    ("--direction", CAPTURERS, INCOMING),
    ("-R", DISSECTOR, DISPLAY),
    (
        "-T",
        "tcpdump or tshark",
        "type it to the program that dissects the packets: 'quaff capture … -w - | tshark -r - -T …'",
    ),
    (
        "-u",
        CAPTURERS,
        "only tcpdump itself prints undecoded NFS handles: 'quaff capture … -w - | tcpdump -r - -u'",
    ),
    ("-V", CAPTURERS, "-r FILE reads a file, and may be repeated"),
    ("-Y", DISSECTOR, DISPLAY),
    ("-y", ALL_PROGRAMS, LINK_TYPES),
    ("--linktype", CAPTURERS, LINK_TYPES),
    ("-Z", CAPTURERS, USER),
    ("--relinquish-privileges", CAPTURERS, USER),
    (
        "-z",
        ALL_PROGRAMS,
        "--exec CMD runs after each complete file of --dir; for tshark's statistics: -w - | tshark -r - -q -z …",
    ),
    ("--immediate-mode", CAPTURERS, "-U passes each packet on at once"),
    ("--time-stamp-precision", CAPTURERS, "--format pcap-us has microseconds; all others have nanoseconds"),
    (
        "--rotate-count",
        "no program",
        "--rotate-packets N starts the next file after N packets, --stop-files N ends after N files",
    ),
];
const RING: &str = "--ring SIZE is the kernel's ring, --buffer SIZE the memory between it and the disk";
const INCOMING: &str = "--incoming captures only packets that arrive";
const LINK_TYPES: &str =
    "an interface has one link type, which 'quaff interfaces --json' and 'quaff info FILE' show";
const DISPLAY: &str = "a tcpdump expression selects packets, and display filters are tshark's: 'quaff capture … -w - | tshark -r - -Y …'";
const USER: &str = "--user NAME drops privileges to NAME";

/// Options of a capture that users type without a command.
const WITHOUT_COMMAND: [&str; 4] = ["-i", "-r", "-w", "-n"];

/// The same as [`OF_CAPTURE`], of `quaff replay`.
const OF_REPLAY: [(&str, &str, &str); 7] = [
    ("-I", "tcpreplay", "--out2 IF is the second interface, and -o IF the first"),
    ("-K", "tcpreplay", "files are read ahead, and --buffer SIZE is the memory for them"),
    ("-l", "tcpreplay", "--loop N sends the files N times"),
    ("-M", "tcpreplay", "--mbps RATE is the rate"),
    ("-m", "tcpreplay", "-x FACTOR multiplies the speed"),
    ("--rate", "no program", "--pps RATE sets packets a second, --mbps RATE bits a second"),
    ("-p", "tcpreplay", "--pps RATE is the rate; 'quaff tcpreplay' takes all letters of tcpreplay"),
];

/// The same of `quaff flows`.
const OF_FLOWS: [(&str, &str, &str); 4] = [
    ("--text", "no program", TEXT),
    ("--output", "no program", TEXT),
    ("-w", "nfcapd and others", TEXT),
    ("-o", "nfdump", TEXT),
];
const TEXT: &str = "--csv FILE, --jsonl FILE and --zeek FILE are text, --ipfix FILE and --parquet DIR are not; '-' is stdout";

/// The words of an error of the parser about a line, whose first word is `quaff`: what to type instead.
pub(crate) fn words(line: &[OsString], error: &clap::Error) -> Option<String> {
    let typed = line.get(1)?.to_str()?;
    let given = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand if given(ContextKind::InvalidSubcommand)? == typed => of_word(typed),
        // The commands below 'flows' write no flows.
        ErrorKind::UnknownArgument if line.get(2).is_some_and(|word| word == "top" || word == "report") => {
            None
        }
        ErrorKind::UnknownArgument => of_option(typed, given(ContextKind::InvalidArg)?),
        _ => None,
    }
}

/// The answer to the first word of a line, which is no command.
fn of_word(word: &str) -> Option<String> {
    let of_file = || {
        let words = "a command precedes a file: 'quaff capture FILE' prints its packets, 'quaff info FILE' sums them up";
        Path::new(word).exists().then(|| format!("there is no command '{}', and {words}", show::name(word)))
    };
    of_command(word).or_else(of_file)
}

/// The sentence about a word that is no command, with what does that here.
pub(crate) fn of_command(word: &str) -> Option<String> {
    let (_, instead) = COMMANDS.iter().find(|(words, _)| words.split(' ').any(|of| of == word))?;
    Some(format!("there is no command '{}'; here {instead}", show::name(word)))
}

/// The answer to an option of another program, with a command or without one.
fn of_option(command: &str, option: &str) -> Option<String> {
    let known: &[(&str, &str, &str)] = match command {
        "capture" => &OF_CAPTURE,
        "replay" => &OF_REPLAY,
        "flows" => &OF_FLOWS,
        _ if command.starts_with('-') && WITHOUT_COMMAND.contains(&option) => {
            return Some(format!("no command is named before {option}: 'quaff capture {option} …' captures"));
        }
        _ => return None,
    };
    let (_, program, words) = known.iter().find(|(of, ..)| *of == option)?;
    Some(match *program {
        "no program" => format!("there is no {option}; {words}"),
        program => format!("{option} is of {program}; here {words}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The words on a line that is refused.
    fn refused(line: &str) -> String {
        let line = line.split(' ').map(OsString::from);
        crate::parse(line).expect_err("a refusal").to_string()
    }

    #[test]
    fn a_word_that_is_no_command_has_what_to_type_instead() {
        for (line, expected) in [
            ("quaff top", "no command 'top'; here 'quaff flows top -i IF'"),
            ("quaff follow x.pcap 1", "'quaff streams follow FILE N'"),
            ("quaff list", "'quaff streams list FILE'"),
            ("quaff convert a b", "'quaff capture FILE -w OUT'"),
            ("quaff record -i lo", "'quaff capture -i IF -w FILE'"),
            ("quaff sniff", "'quaff capture -i IF'"),
            ("quaff /dev/null", "a command precedes a file"),
            ("quaff -i lo", "'quaff capture -i …'"),
        ] {
            let error = refused(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
        // What is spelled alike, and words of other commands.
        assert!(refused("quaff captur").contains("capture"), "{}", refused("quaff captur"));
        assert!(!refused("quaff bench top").contains("flows"), "{}", refused("quaff bench top"));
    }

    #[test]
    fn an_option_of_another_program_has_what_to_type_instead() {
        for (line, expected) in [
            ("quaff capture -i lo -B 4", "-B is of tcpdump or dumpcap; here --ring SIZE"),
            ("quaff capture -i lo -Y http", "tshark -r - -Y"),
            ("quaff capture -i lo -T fields", "tshark -r - -T"),
            ("quaff capture -i lo -O", "--dump-filter"),
            ("quaff capture -i lo -L", "one link type"),
            ("quaff capture -r - --rotate-count 3", "there is no --rotate-count; --rotate-packets N"),
            ("quaff flows -r - --text x", "--csv FILE"),
            ("quaff replay -r - -o lo -l 3", "--loop N"),
        ] {
            let error = refused(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn habits_of_other_programs_are_taken() {
        for line in [
            "quaff capture -r - -p -w x",
            "quaff flows -r - -p",
            "quaff replay -r - -i lo",
            "quaff generate -i lo",
            "quaff capture -r - -#KHN",
        ] {
            let taken = crate::parse(line.split(' ').map(OsString::from));
            assert!(taken.is_ok(), "{line}: {taken:?}");
        }
    }

    #[test]
    fn the_table_has_each_word_once_and_no_command() {
        let words: Vec<_> = COMMANDS.iter().flat_map(|(words, _)| words.split(' ')).collect();
        let once: BTreeSet<_> = words.iter().collect();
        assert_eq!(once.len(), words.len(), "a word is there twice");
        let command = crate::command();
        let taken: Vec<_> = words.iter().filter(|word| command.find_subcommand(word).is_some()).collect();
        assert_eq!(taken, [&""; 0]);
    }

    #[test]
    fn the_options_of_the_tables_are_unknown() {
        for (name, options) in
            [("capture", &OF_CAPTURE[..]), ("replay", &OF_REPLAY[..]), ("flows", &OF_FLOWS[..])]
        {
            let command = crate::command().find_subcommand(name).expect("a command").clone();
            for (option, ..) in options {
                let is_of = |arg: &clap::Arg| match option.strip_prefix("--") {
                    Some(long) => {
                        arg.get_long() == Some(long)
                            || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
                    }
                    None => {
                        let letter = option.chars().nth(1).expect("a letter");
                        arg.get_short() == Some(letter)
                            || arg.get_all_short_aliases().is_some_and(|all| all.contains(&letter))
                    }
                };
                assert!(!command.get_arguments().any(is_of), "{name} {option}");
            }
        }
    }
}
