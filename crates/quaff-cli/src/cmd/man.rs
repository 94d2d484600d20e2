//! `quaff man`: manual pages in section 1, one for each command, from the definitions of the arguments: written into a
//! folder, or one of them shown.

use crate::exit::Exit;
use crate::groups::{self, Group};
use crate::{instead, show};
use anyhow::{Context, bail};
use clap::Command;
use clap::error::{ContextKind, ContextValue};
use clap_mangen::Man;
use quaff_os::disk::write_output;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal as _, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};

/// Show the manual page of a command, or write those of all into a folder
///
/// A page is shown by man(1) on a terminal; elsewhere, and where there is no man(1), its text is printed as '--help'
/// prints it. A word that is the name of a command is one: './capture' is the folder. A folder is made only for a name
/// with a slash, so that no misspelled command becomes one. 'make install' installs the pages; 'man quaff' and
/// 'man quaff-capture' then show them too.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder for the pages, created if its name has a slash; or a command, such as 'capture' or 'flows top'
    #[arg(value_name = "DIR|COMMAND", required = true)]
    pages: Vec<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  quaff man capture
  quaff man flows top
  quaff man /usr/local/share/man/man1
  quaff man /tmp/pages && man -l /tmp/pages/quaff-capture.1";

/// Rights of a page: every user reads it.
const PAGE_MODE: u32 = 0o644;
/// Paragraph of a long description that becomes a section of its own.
const EXIT_STATUS: &str = "Exit status: ";

/// `all` is the definition of all commands.
pub(crate) fn run(args: &Args, all: Command) -> anyhow::Result<Exit> {
    let mut root = all.disable_help_subcommand(true);
    root.build();
    match (called(&root, &args.pages), &args.pages[..]) {
        (Some((command, name)), _) => show_page(command, &name),
        (None, [dir]) if is_folder(dir) => {
            std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
            write_pages(&root, "quaff", dir)?;
            show::say(&format!("manual pages of all commands written to {}", dir.display()));
            Ok(Exit::Done)
        }
        (None, words) => bail!("{}", unknown(&root, words)),
    }
}

/// Returns whether a word that is no command names a folder: one that is there, or one to make, by a slash in its name.
fn is_folder(word: &Path) -> bool {
    word.as_os_str().as_encoded_bytes().contains(&b'/') || word.is_dir()
}

/// The error of words that name neither a command nor a folder.
fn unknown(root: &Command, words: &[PathBuf]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.display().to_string()).collect();
    let [word] = &words[..] else {
        return format!("there is no command '{}': 'quaff --help' lists all", words.join(" "));
    };
    if let Some(instead) = instead::of_command(word) {
        return instead;
    }
    let similar = similar(root, word).map(|name| format!("'{name}' is one with a similar name, and "));
    let similar = similar.unwrap_or_default();
    format!(
        "there is no command '{word}': {similar}'quaff --help' lists all; for a folder of that name type \
         'quaff man ./{word}'"
    )
}

/// The command with the most similar name, if the parser finds one: the last of its suggestions.
fn similar(root: &Command, word: &str) -> Option<String> {
    let error = root.clone().try_get_matches_from(["quaff", word]).err()?;
    match error.get(ContextKind::SuggestedSubcommand)? {
        ContextValue::Strings(names) => names.last().cloned(),
        _ => None,
    }
}

/// The command of these words, and the name of its page; `None` if they name no command.
fn called<'a>(root: &'a Command, words: &[PathBuf]) -> Option<(&'a Command, String)> {
    let words: Vec<&str> = words.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    let words = if words == ["quaff"] { Vec::new() } else { words };
    words.iter().try_fold((root, "quaff".to_owned()), |(at, name), word| {
        let sub = at.get_subcommands().find(|sub| sub.get_name() == *word && !sub.is_hide_set())?;
        Some((sub, format!("{name}-{word}")))
    })
}

fn show_page(command: &Command, name: &str) -> anyhow::Result<Exit> {
    if stdout().is_terminal()
        && let Some(exit) = by_man(&page(command, name)?)?
    {
        return Ok(exit);
    }
    show::print(command.clone().render_long_help().to_string().trim_end());
    Ok(Exit::Done)
}

/// Has man(1) show a page; `None` where it is not installed.
fn by_man(page: &[u8]) -> anyhow::Result<Option<Exit>> {
    let mut man = match process::Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn() {
        Ok(man) => man,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("start man"),
    };
    // One that takes no page says why, and its status is what counts.
    let _ = man.stdin.take().map(|mut stdin| stdin.write_all(page));
    let status = man.wait().context("wait for man")?;
    Ok(Some(if status.success() { Exit::Done } else { Exit::Failed }))
}

/// Writes the page of `command` and of its subcommands. `name` is the page's, such as `quaff-bench-list`.
fn write_pages(command: &Command, name: &str, dir: &Path) -> anyhow::Result<()> {
    let path = dir.join(format!("{name}.1"));
    let written = write_output(&path, &page(command, name)?, PAGE_MODE);
    written.with_context(|| format!("write {}", path.display()))?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(sub, &format!("{name}-{}", sub.get_name()), dir)?;
    }
    Ok(())
}

fn page(command: &Command, name: &str) -> anyhow::Result<Vec<u8>> {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let (status, description): (Vec<_>, Vec<_>) =
        about.split("\n\n").partition(|paragraph| paragraph.starts_with(EXIT_STATUS));
    // The name section has the first paragraph already.
    let skipped = usize::from(description.len() > 1);
    let described = command.clone().long_about(description[skipped..].join("\n\n"));
    let source = concat!("quaff ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(described).title(name).section("1").manual("quaff manual").source(source);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut rest = String::new();
    if name == "quaff" {
        groups::of(command).iter().for_each(|group| commands(&mut rest, group));
    } else if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    for paragraph in status {
        exit_status(&mut rest, &paragraph[EXIT_STATUS.len()..]);
    }
    let after = command.get_after_long_help().or(command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    for (title, body) in headed(&after) {
        section(&mut rest, title, &body);
    }
    if name != "quaff" {
        rest += ".SH \"SEE ALSO\"\n.BR quaff (1)\n";
    }
    page.extend(rest.bytes());
    Ok(page)
}

/// The section of a group of commands, as the help has it.
fn commands(page: &mut String, group: &Group) {
    let _ = writeln!(page, ".SH \"{}\"", escaped(&group.title.to_uppercase()));
    for (name, about) in &group.commands {
        let _ = writeln!(page, ".TP\n\\fBquaff\\-{}(1)\\fR\n{}", escaped(name), escaped(about));
    }
}

/// The section about the exit status, an item for each clause that starts with a number.
fn exit_status(page: &mut String, text: &str) {
    *page += ".SH \"EXIT STATUS\"\n";
    for clause in text.split("; ") {
        let number =
            clause.split_once(' ').filter(|(word, _)| word.bytes().all(|byte| byte.is_ascii_digit()));
        let _ = match number {
            Some((number, meaning)) => writeln!(page, ".TP 5\n{number}\n\\&{}", escaped(meaning)),
            None => writeln!(page, "\\&{}", escaped(clause)),
        };
    }
}

/// A section of lines that are not filled.
fn section(page: &mut String, title: &str, body: &str) {
    let _ = writeln!(page, ".SH \"{}\"\n.nf", escaped(&title.to_uppercase()));
    for line in body.lines() {
        let _ = writeln!(page, "\\&{}", escaped(line.strip_prefix("  ").unwrap_or(line)));
    }
    *page += ".fi\n";
}

/// The blocks of a text by their headings: lines that do not start with a space and end in a colon.
fn headed(text: &str) -> Vec<(&str, String)> {
    let mut blocks: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        match (line.strip_suffix(':').filter(|_| !line.starts_with(' ')), blocks.last_mut()) {
            (Some(title), _) => blocks.push((title, String::new())),
            (None, Some((_, body))) => {
                *body += line;
                body.push('\n');
            }
            (None, None) => blocks.push(("Notes", format!("{line}\n"))),
        }
    }
    blocks.iter_mut().for_each(|(_, body)| *body = body.trim_end().to_owned());
    blocks
}

/// Text without characters that roff interprets.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_help_becomes_sections() {
        let text = "Files:\n  -o DIR  folder\n\nExamples:\n  quaff x\n  quaff y";
        let blocks = headed(text);
        assert_eq!(blocks[0], ("Files", "  -o DIR  folder".to_owned()));
        assert_eq!(blocks[1], ("Examples", "  quaff x\n  quaff y".to_owned()));
        assert_eq!(headed("no heading"), [("Notes", "no heading".to_owned())]);
    }

    #[test]
    fn roff_sees_no_requests_in_text() {
        let mut page = String::new();
        section(&mut page, "Examples", "  .profile \\n -x");
        assert_eq!(page, ".SH \"EXAMPLES\"\n.nf\n\\&.profile \\en \\-x\n.fi\n");
    }
}
