//! Results of benches and service tests on the terminal: as text, or as JSON.

use crate::confined;
use crate::flags::{AllArg, WriteArg, of};
use crate::shell::ReportArgs;
use crate::show::{self, Stream};
use crate::terminal_table::{Columns, result_table, wrapped};
use anyhow::Context;
use quaff_bench::report::{self, Reported};
use quaff_os::sandbox::Limits;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(
    mut_args(of("all", |arg| arg.conflicts_with("json"))),
    mut_args(of("write", |arg| arg.short(None).value_name("DIR").help_heading(None::<&str>).help(
        "Also write the report and its charts into DIR, as rendered by this version"
    )))
)]
pub(crate) struct ShowArgs {
    /// Folder of the result, or its result.json
    dir: PathBuf,
    #[command(flatten)]
    all: AllArg,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    write: WriteArg,
}

impl ShowArgs {
    /// Restricts the process to reading the result and writing the report, before it reads.
    pub(crate) fn confine(&self) -> anyhow::Result<()> {
        let written: Vec<PathBuf> = self.write.iter().cloned().collect();
        for dir in &written {
            std::fs::create_dir_all(dir).with_context(|| format!("make the folder {}", dir.display()))?;
        }
        let (read, make_folders) = (vec![self.dir.clone()], written.clone());
        confined::to(&Limits { read, make_folders, write: written, ..Limits::default() })?;
        Ok(())
    }

    /// Returns whether the folder holds a result of this kind.
    pub(crate) fn is_of<R: Reported>(&self) -> bool {
        report::is_of::<R>(&self.dir)
    }
}

/// Reads a stored result, prints it, and returns it.
pub(crate) fn show<R: Reported>(args: &ShowArgs) -> anyhow::Result<R> {
    let result: R = report::read(&args.dir)?;
    if let Some(dir) = args.write.first() {
        report::write(&result, dir)?;
    }
    let columns = if *args.all { Columns::All } else { Columns::Fitting(Some("--all")) };
    print(&result, args.report.json, columns)?;
    Ok(result)
}

/// Prints a new result, and where its page is.
pub(crate) fn print_new(result: &impl Reported, json: bool, files: &[PathBuf]) -> anyhow::Result<()> {
    print(result, json, Columns::Fitting(None))?;
    let page = files.iter().find(|file| file.extension().is_some_and(|kind| kind == "html"));
    if let Some(page) = page {
        show::say(&format!("\nThe report is {}", show::name(&page.display().to_string())));
    }
    Ok(())
}

fn print(result: &impl Reported, json: bool, columns: Columns) -> anyhow::Result<()> {
    if json {
        let text = serde_json::to_string_pretty(result).context("write the result")?;
        show::json_text(Stream::Stdout, &text);
    } else {
        show::print(&text(result, columns));
    }
    Ok(())
}

/// The findings, the tables, the notes; with all columns the details before the notes.
fn text(result: &impl Reported, columns: Columns) -> String {
    let brief = result.brief();
    let marked = |mark: &str, lines: &[String]| {
        lines.iter().map(|line| wrapped(mark, line)).collect::<Vec<_>>().join("\n")
    };
    let details = brief.details.iter().filter(|_| columns == Columns::All);
    let mut parts = vec![wrapped("", &brief.heading), marked("", &brief.findings)];
    parts.extend(brief.tables.iter().chain(details).map(|table| result_table(table, columns)));
    parts.push(marked("- ", &brief.notes));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}
