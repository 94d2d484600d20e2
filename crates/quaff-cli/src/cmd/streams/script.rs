//! `quaff streams --script`: its arguments, plan and exit.

use super::input::RuleArgs;
use super::run::{progress, settings};
use super::script_report;
use crate::capture_files::is_capture;
use crate::exit::Exit;
use crate::flags::{CoresArg, FilesArgs, LaneArgs, MeteredArgs, UserArgs, of};
use crate::shell::{self, Part, Product, ReadProgress, ReportArgs, Shell, WatchArgs};
use crate::show::{self, Stream};
use crate::units;
use anyhow::{Context, bail, ensure};
use quaff::streams::{RecordFolder, RecordTarget, Scripts, ScriptsPlan, ScriptsReport};
use quaff_file::write::Output;
use quaff_os::was_stdout_closed;
use quaff_script::{DEFAULT, Limits, Source, TEXT_BYTES_MAX};
use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of a run of scripts.
#[derive(Debug, clap::Args)]
#[command(
    mut_args(of("overwrite", |arg| arg.requires("out"))),
    mut_args(of("max_files", |arg| arg.default_value("10k").help("Write the packets of at most N flows, and count the others as dropped")))
)]
pub(super) struct ScriptArgs {
    #[command(flatten)]
    input: MeteredArgs,
    /// Run the Lua script FILE; name several to run them side by side. '-' is stdin, 'default' stands for the default
    /// set, and 'default/NAME' for one of it
    #[arg(long, value_name = "FILE", required = true, num_args = 1.., help_heading = "Scripts")]
    script: Vec<PathBuf>,
    /// Set an argument of the scripts, which they read by argument("NAME", default); repeat it for more
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting, help_heading = "Scripts")]
    set: Vec<(String, String)>,
    /// Stop a script of which one call takes more than TIME of the processor [default: 1s of files, 50ms of an
    /// interface]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Scripts")]
    script_time: Option<Duration>,
    /// Stop a script that needs more memory than SIZE
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = units::bytes, help_heading = "Scripts")]
    script_memory: u64,
    #[command(flatten)]
    rules: RuleArgs,

    /// Write the rows of each list to a file in DIR, which is made if it does not exist, and packets that scripts save
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Formats of rows in DIR: jsonl, csv, or both
    #[arg(long, value_name = "FORMATS", value_delimiter = ',', default_value = "jsonl", value_parser = FORMATS, requires = "out", help_heading = "Output")]
    format: Vec<String>,
    #[command(flatten)]
    files: FilesArgs,

    #[command(flatten)]
    lanes: LaneArgs,

    #[command(flatten, next_help_heading = "Performance")]
    cpu: CoresArg,

    #[command(flatten)]
    user: UserArgs,

    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

const FORMATS: [&str; 2] = ["jsonl", "csv"];

pub(super) const EXAMPLES: &str = "\
Examples:
  quaff streams day.pcapng --script ports.lua
  quaff streams day.pcapng --script http.lua dns.lua --out day
  quaff streams -i eth0 --script scans.lua --set limit=100 --out scans
  quaff streams a.pcapng --decap auto --script b.lua | jq .text
  quaff streams list day.pcapng
  quaff streams follow day.pcapng 12
  quaff streams extract day.pcapng --dir streams";

pub(super) fn run(args: &ScriptArgs) -> anyhow::Result<Exit> {
    let plan = args.plan()?;
    let takes_stdout = args.out.is_none();
    let settings = settings(&args.watch, args.input.end.duration, takes_stdout);
    let mut shell = Shell::new(settings)?;
    let read = ReadProgress::new(&plan.input);
    let scripts = shell.start(|stop| Scripts::start(plan, stop))?;
    shell.notes(&scripts.notes);
    shell.begun(args.input.is_live());
    let report = shell.run(Running { scripts, read })?;
    if args.report.json {
        show::json(Stream::of_report(takes_stdout), &report)?;
    }
    let is_quiet = args.watch.quiet.is_set() || args.report.json;
    let has_words = script_report::print(&report, is_quiet);
    Ok(shell::ended(&report, has_words))
}

/// Scripts, as the shell watches them.
struct Running {
    scripts: Scripts,
    read: ReadProgress,
}

impl Product for Running {
    const LOSS: &'static str = "rows in memory are not written";
    type Report = ScriptsReport;

    fn is_over(&self) -> bool {
        self.scripts.is_over()
    }

    fn finish(self) -> ScriptsReport {
        self.scripts.finish()
    }

    fn progress(&mut self) -> Vec<Part> {
        progress(&self.scripts.lanes, &self.read)
    }
}

impl ScriptArgs {
    pub(super) fn is_live(&self) -> bool {
        self.input.is_live()
    }

    fn plan(&self) -> anyhow::Result<ScriptsPlan> {
        let takes_stdout = self.out.is_none() || self.report.json;
        ensure!(!takes_stdout || !was_stdout_closed(), "stdout is closed: use a pipe, a file, or --out");
        let has = |format: &str| self.format.iter().any(|of| of == format);
        let target = match &self.out {
            None => RecordTarget::Lines(Box::new(Stdout)),
            Some(dir) => RecordTarget::Folder(RecordFolder {
                dir: dir.clone(),
                overwrites: self.files.overwrite,
                files_max: self.files.max_files.unwrap_or(u64::MAX),
                has_json: has("jsonl"),
                has_csv: has("csv"),
            }),
        };
        let arguments: BTreeMap<String, String> = self.set.iter().cloned().collect();
        let memory_bytes = usize::try_from(self.script_memory).unwrap_or(usize::MAX);
        let default_time = if self.input.is_live() { LIVE_TIME } else { Limits::default().call_time };
        let call_time = self.script_time.unwrap_or(default_time);
        if memory_bytes < MEMORY_LEAST || call_time.is_zero() {
            bail!("--script-time is more than 0, --script-memory at least 1M");
        }
        let outputs: Vec<_> = self.out.iter().map(PathBuf::as_path).collect();
        let input = self.input.plan(&self.lanes, &self.cpu, 0, &outputs)?;
        let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
        let of_input = input.read.iter().flat_map(|read| &read.files).filter(|path| is_stdin(path)).count();
        let of_scripts = self.script.iter().filter(|path| is_stdin(path)).count();
        ensure!(of_scripts < 2, "stdin is one script, and --script names it {of_scripts} times: use files");
        ensure!(
            of_scripts == 0 || of_input == 0,
            "stdin can be the capture (--read -) or a script (--script -), not both: name a file for one of them"
        );
        let mut scripts = Vec::new();
        for path in &self.script {
            scripts.extend(sources(path, &arguments)?);
        }
        Ok(ScriptsPlan {
            input,
            track: self.rules.plan(None),
            scripts,
            limits: Limits { call_time, memory_bytes, ..Limits::default() },
            target,
            also_written: if takes_stdout { vec![Output::Stdout] } else { Vec::new() },
            sandbox: self.user.sandbox(),
            owner: self.user.caller(),
        })
    }
}

/// Time of a call on packets of an interface, which wait in the kernel's ring meanwhile.
const LIVE_TIME: Duration = Duration::from_millis(50);
/// Least memory of a script, bytes: its library and an empty chunk need a tenth of it.
const MEMORY_LEAST: usize = 1 << 20;

/// The scripts of an argument: a file, the default set, or one of that.
fn sources(path: &Path, arguments: &BTreeMap<String, String>) -> anyhow::Result<Vec<Source>> {
    let wanted = match path.to_str() {
        Some("default") => None,
        Some(text) if text.starts_with("default/") => Some(&text["default/".len()..]),
        _ => return Ok(vec![source(path, arguments)?]),
    };
    let found = DEFAULT.iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == *name));
    let found: Vec<_> = found
        .map(|(name, text)| Source {
            name: format!("{name}.lua"),
            text: (*text).to_owned(),
            arguments: arguments.clone(),
        })
        .collect();
    let names = || DEFAULT.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    ensure!(!found.is_empty(), "the default set has no {}: it is {}", path.display(), names());
    Ok(found)
}

/// Reads a script.
fn source(path: &Path, arguments: &BTreeMap<String, String>) -> anyhow::Result<Source> {
    let is_stdin = path.as_os_str() == "-";
    let path = if is_stdin { Path::new("stdin") } else { path };
    let mut bytes = Vec::new();
    let at_most = TEXT_BYTES_MAX as u64 + 1;
    let read = match is_stdin {
        true => io::stdin().lock().take(at_most).read_to_end(&mut bytes),
        false => std::fs::File::open(path).and_then(|file| file.take(at_most).read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("read the script {}", path.display()))?;
    ensure!(
        !is_capture(&bytes),
        "--script takes all words after it, and {} is a capture: name it first, or with -r",
        path.display()
    );
    ensure!(bytes.len() <= TEXT_BYTES_MAX, "{} has more than 1 MiB: it is no script", path.display());
    let text = String::from_utf8(bytes);
    let text =
        text.with_context(|| format!("{} is not UTF-8: write other bytes as \\xff", path.display()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // It is part of names of files.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    Ok(Source { name, text, arguments: arguments.clone() })
}

/// `limit=100`.
fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("'{text}' is not of the form NAME=VALUE")),
    }
}

/// Stdout for rows: lines of JSON with text of others, made harmless for a terminal.
struct Stdout;

impl io::Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        show::json_text(Stream::Stdout, String::from_utf8_lossy(bytes).trim_end());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_name_and_a_value() {
        assert_eq!(setting("a=b=c").unwrap(), ("a".to_owned(), "b=c".to_owned()));
        assert_eq!(setting("a=").unwrap(), ("a".to_owned(), String::new()));
        for wrong in ["", "a", "=b"] {
            assert!(setting(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_script_has_a_name_that_fits_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my script\u{1b}.lua");
        std::fs::write(&path, "-- nothing").unwrap();
        let source = source(&path, &BTreeMap::new()).unwrap();
        assert_eq!((source.name.as_str(), source.stem()), ("my_script_.lua", "my_script_"));
    }
}
