//! The groups of the commands, for `quaff --help` and the manual page: record, look, send, measure, this machine.
//!
//! clap lists subcommands without headings, so the list is written here, from the commands' own descriptions. It never
//! describes a command itself.

use crate::show;
use clap::Command;
use quaff_os::terminal_columns;
use std::fmt::Write as _;

/// The groups in the order of the help, and the commands of each. Every command is in one of them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Record", &["capture", "split", "tap", "pipe", "extcap", "gulp"]),
    ("Look", &["info", "verify", "flows", "streams", "merge", "nprobe"]),
    ("Send", &["generate", "replay", "tcpreplay"]),
    ("Measure", &["bench", "service", "lab"]),
    ("This machine", &["doctor", "interfaces", "cores", "man", "completions"]),
];

/// Commands for the first minute.
pub(crate) const FIRST: &str = "\
To begin:
  quaff capture -i eth0                       # watch the packets of eth0
  quaff capture -i eth0 -w all.pcapng         # record every packet of eth0, until ^C
  quaff flows top -i eth0                     # who talks?
  quaff streams extract all.pcapng --dir out  # what was sent, as files
  quaff verify all.pcapng                     # is anything missing?";

/// The last line of the help.
const LAST: &str = "'quaff COMMAND --help' has the options and examples of a command.";

/// Columns of a help that is not on a terminal, and the most of one that is.
const COLUMNS_MAX: usize = 100;
/// Column at which descriptions begin.
const INDENT: usize = 15;

/// A heading, and the name and the description of each command below it.
pub(crate) struct Group {
    pub(crate) title: &'static str,
    pub(crate) commands: Vec<(String, String)>,
}

/// The groups, with the descriptions that the subcommands of `root` have.
pub(crate) fn of(root: &Command) -> Vec<Group> {
    let described = |name: &&str| {
        let about = root.find_subcommand(name)?.get_about()?.to_string();
        Some(((*name).to_owned(), about))
    };
    let group = |(title, names): &(&'static str, &[&str])| Group {
        title,
        commands: names.iter().filter_map(described).collect(),
    };
    GROUPS.iter().map(group).collect()
}

/// `root` with a help that shows its commands in groups.
pub(crate) fn grouped(root: Command) -> Command {
    let heading = root.get_styles().get_header();
    let name_style = root.get_styles().get_literal();
    let columns = terminal_columns().map_or(COLUMNS_MAX, usize::from).min(COLUMNS_MAX);
    let width = columns.saturating_sub(INDENT).max(INDENT);
    let mut list = String::new();
    for Group { title, commands } in of(&root) {
        let _ = write!(list, "\n{heading}{title}:{heading:#}\n");
        for (name, about) in commands {
            let about = show::wrap(width, &about).trim_end().replace('\n', &format!("\n{:INDENT$}", ""));
            let gap = INDENT - 2 - name.len();
            let _ = writeln!(list, "  {name_style}{name}{name_style:#}{:gap$}{about}", "");
        }
    }
    let template = format!(
        "{{about}}{{after-help}}\n\n{{usage-heading}} {{usage}}\n{list}\n\
         {heading}Options:{heading:#}\n{{options}}\n\n{LAST}"
    );
    root.help_template(template).after_help(FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group() {
        let mut grouped: Vec<_> = of(&crate::command())
            .into_iter()
            .flat_map(|group| group.commands.into_iter().map(|(name, _)| name))
            .collect();
        let mut commands: Vec<_> =
            crate::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
        grouped.sort();
        commands.sort();
        assert_eq!(grouped, commands);
        let listed: usize = GROUPS.iter().map(|(_, names)| names.len()).sum();
        assert_eq!(listed, commands.len(), "a name in GROUPS is no command");
    }
}
