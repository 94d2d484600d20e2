//! The short help, `-h`: of commands with many flags those that most calls need, each in a line, and a few examples.
//! `--help` and the manual page have all, with their whole texts.

use clap::{Arg, Command};

/// Commands whose `-h` would take more than two screens, and the flags that it shows: a new flag of theirs is in
/// `--help`, and here where most calls need it. Single letters are flags without a long name.
const SHORT: [(&str, &str); 17] = [
    (
        "capture",
        "interface read count duration filter snaplen decap grep from to write print compress \
         dir rotate-size rotate-time rotate-packets keep-size tee lanes buffer dry-run json quiet stats",
    ),
    (
        "split",
        "interface read duration filter by members weights decap dir write output exec dry-run json stats",
    ),
    (
        "tap",
        "forward on-exit remove dry-run duration snaplen write compress dir rotate-size rotate-time keep-size \
         keep-free buffer json quiet stats",
    ),
    (
        "verify",
        "interface filter duration salvage from-first expect against loop ignore-macs inject-loss json html",
    ),
    (
        "flows",
        "interface read duration filter decap active idle collector template jsonl csv zeek ipfix \
         parquet json quiet stats",
    ),
    ("flows top", "interface read duration filter decap by sort match show-names interval once rows json"),
    ("flows report", "read filter decap where from to match by top over json utc html quiet"),
    ("flows list", "read filter decap where from to csv jsonl sort top json utc quiet"),
    ("streams", "interface read duration filter decap inner script set out format overwrite json quiet"),
    ("streams list", "read filter decap grep json utc quiet"),
    ("streams follow", "read filter decap nth side hex raw tls json utc quiet"),
    ("streams extract", "read salvage filter decap dir print-index overwrite http-bodies objects json quiet"),
    (
        "generate",
        "out inject write wait size pps mbps count duration flows new-flows src-ip dst-ip dst-port tcp vlan vxlan \
         seed json quiet",
    ),
    (
        "replay",
        "loop count duration out inject write out2 multiplier pps mbps topspeed dst-mac src-mac map-ip vlan \
         fix-checksums json quiet stats",
    ),
    (
        "bench capture",
        "preset plan runs dry-run rivals size pps mbps replay count duration buffer send-on receive-on dir find-max \
         out json quiet",
    ),
    ("bench flow", "preset plan runs dry-run meters replay fps duration offline dir find-max out json quiet"),
    ("service", "from to link both preset plan dry-run short duration max-delay max-loss out json quiet"),
];

/// Examples of a short help.
const EXAMPLES: usize = 4;
/// Columns that a flag's description has on a terminal of 80.
const COLUMNS: usize = 54;
/// The ends of the first clause of a description.
const ENDS: [&str; 5] = ["; ", ". ", ": ", ", such as ", " [default"];

/// `root` with the short help of the commands in [`SHORT`].
pub(crate) fn shortened(root: Command) -> Command {
    SHORT.iter().fold(root, |root, (called, flags)| {
        let (path, flags): (Vec<_>, Vec<_>) =
            (called.split(' ').collect(), flags.split_whitespace().collect());
        at(root, &path, &|command| short(command, called, &flags))
    })
}

/// Changes the command at the end of `path`, and keeps the order of commands.
fn at(command: Command, path: &[&str], change: &dyn Fn(Command) -> Command) -> Command {
    let Some((name, rest)) = path.split_first() else { return change(command) };
    command.mut_subcommands(|sub| if sub.get_name() == *name { at(sub, rest, change) } else { sub })
}

fn short(command: Command, called: &str, flags: &[&str]) -> Command {
    let all = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let few: Vec<&str> = all.lines().take(1 + EXAMPLES).collect();
    let last = format!("{}\n\n'quaff {called} --help' has all options and examples.", few.join("\n"));
    command.mut_args(|arg| in_short(arg, flags)).after_help(last).after_long_help(all)
}

/// The argument as the short help has it; its long help keeps the whole text.
fn in_short(arg: Arg, flags: &[&str]) -> Arg {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let long = arg.get_long_help().map(ToString::to_string).unwrap_or_else(|| help.clone());
    match arg.is_positional() || flags.contains(&&name(&arg)[..]) {
        true => arg.help(brief(&help).to_owned()).long_help(long),
        // Manual pages have no short text of a flag that is hidden here.
        false => arg.long_help(long).hide_short_help(true),
    }
}

/// The long name of a flag, or its letter.
fn name(arg: &Arg) -> String {
    let letter = || arg.get_short().map(String::from).unwrap_or_default();
    arg.get_long().map_or_else(letter, str::to_owned)
}

/// The first clause of a description that is longer than a line.
fn brief(help: &str) -> &str {
    if help.chars().count() <= COLUMNS {
        return help;
    }
    let end = ENDS.iter().filter_map(|end| help.find(end)).min();
    end.map_or(help, |end| &help[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command of a row.
    fn command_at(called: &str) -> Command {
        let find = |at: Command, name: &str| at.find_subcommand(name).expect("a command").clone();
        called.split(' ').fold(crate::command(), find)
    }

    #[test]
    fn the_flags_of_a_short_help_exist() {
        for (called, flags) in SHORT {
            let command = command_at(called);
            let known: Vec<String> = command.get_arguments().map(name).collect();
            let missing: Vec<&str> =
                flags.split_whitespace().filter(|flag| !known.contains(&(*flag).to_owned())).collect();
            assert!(missing.is_empty(), "{called}: {missing:?}");
        }
    }

    #[test]
    fn a_description_ends_with_a_clause() {
        for (called, _) in SHORT {
            let command = command_at(called);
            let shown = command.get_arguments().filter(|arg| !arg.is_hide_short_help_set());
            let texts = shown.filter_map(|arg| arg.get_help().map(ToString::to_string));
            let count = |text: &str, c: char| text.matches(c).count();
            let broken = texts.filter(|text| {
                count(text, '(') != count(text, ')') || count(text, '\'') % 2 == 1 && !text.contains("'s")
            });
            assert_eq!(broken.collect::<Vec<_>>(), [""; 0], "{called}");
        }
        assert_eq!(brief("Write to FILE; '-' is stdout"), "Write to FILE; '-' is stdout");
        assert_eq!(brief(&format!("Read FILE, or {} in DIR; '-' is stdin", "captures ".repeat(5))).len(), 66);
    }

    #[test]
    fn the_long_help_keeps_each_text() {
        let command = command_at("capture");
        let interface = command.get_arguments().find(|arg| name(arg) == "interface").expect("a flag");
        let texts =
            [interface.get_help(), interface.get_long_help()].map(|text| text.expect("a text").to_string());
        assert_eq!(texts[0], "Interface to read packets from");
        assert!(
            texts[1].starts_with("Interface to read packets from; ") && texts[1].contains("'any'"),
            "{texts:?}"
        );
        let short = command.get_after_help().expect("examples").to_string();
        let long = command.get_after_long_help().expect("examples").to_string();
        assert!(
            short.lines().count() < long.lines().count() && short.ends_with("has all options and examples.")
        );
    }
}
