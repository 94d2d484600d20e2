//! Builds a command line from a description: fills placeholders, and reports unsupported settings in a sentence.

use super::{Counter, Filter, Output, Setting, Tool};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Placeholders that every argument may contain.
const COMMON: [&str; 6] = ["interface", "other", "file", "dir", "core", "quaff"];

/// Names reserved for errors.
const OTHERS: [&str; 2] = ["the generator", "the file"];
/// Limit of `settle_ms`, ms.
const SETTLE_MS_MAX: u64 = 60_000;
/// Limit of `patience_s`, s.
const PATIENCE_S_MAX: u64 = 600;

/// The values of the placeholders in a tool's arguments.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The interface to capture from.
    pub interface: &'a str,
    /// The other port of the line, for a tool that forwards; empty for all others.
    pub other: &'a str,
    /// The directory for the tool's files.
    pub dir: &'a Path,
    /// The core that the tool runs on.
    pub core: usize,
    pub setting: &'a Setting,
}

impl Tool {
    /// The output under `setting`: a tool that only prints does so where others write to disk.
    pub fn output_under(&self, setting: &Setting) -> Output {
        let only_screen = self.output.screen.is_some()
            && self.output.disk.is_none()
            && self.output.null.is_none()
            && self.output.pipe.is_none();
        match setting.output {
            Output::Disk if only_screen => Output::Screen,
            output => output,
        }
    }

    /// `setting` for this tool: without an option for its buffer it keeps its own.
    pub fn setting_of(&self, setting: &Setting) -> Setting {
        let buffer_mib = setting.buffer_mib.filter(|_| self.options.buffer.is_some());
        Setting { buffer_mib, ..setting.clone() }
    }

    /// Checks that the tool supports `setting`.
    ///
    /// # Errors
    /// A sentence about the first unsupported part.
    pub fn can(&self, setting: &Setting) -> Result<(), String> {
        let output = self.output_under(setting);
        let options = &self.options;
        let not = |what: &str| Err(format!("{} {what}", self.name));
        match output {
            _ if self.output_args(output).is_some() => {}
            Output::Disk => return not("writes no files"),
            Output::Null => return not("does not write to /dev/null"),
            Output::Pipe => return not("does not write packets to a pipe"),
            Output::Screen => return not("prints no packets"),
        }
        if output == Output::Null && self.captured.is_none() {
            return not("does not report how many packets it captured, and no packet is kept");
        }
        if setting.buffer_mib.is_some_and(|mib| options.buffer.is_some() && mib < self.buffer_min_mib) {
            return not(&format!("does not accept a buffer of less than {} MiB", self.buffer_min_mib));
        }
        let wanted = [
            (setting.buffer_mib.is_some(), &options.buffer, "has no option for the size of its buffer"),
            (setting.filter != Filter::None, &options.filter, "does not accept a tcpdump filter"),
            (setting.snaplen.is_some(), &options.snaplen, "cannot cut packets to a snaplen"),
            (setting.copies > 0, &options.copies, "makes no extra copies of packets"),
            (setting.compression > 0, &options.compression, "does not compress each packet"),
            (setting.lanes.is_some(), &options.lanes, "has no option for a number of lanes"),
            (
                setting.spread.is_some(),
                &options.spread,
                "has no option for the rule by which packets are dealt to lanes",
            ),
            (setting.via.is_some(), &options.via, "has no option for the interface of the kernel"),
        ];
        if let Some((_, _, what)) = wanted.iter().find(|(is_wanted, args, _)| *is_wanted && args.is_none()) {
            return not(what);
        }
        Ok(())
    }

    /// Program and arguments, without [unsupported](Self::can) settings.
    pub fn command_line(&self, program: &Path, places: &Places<'_>) -> (OsString, Vec<OsString>) {
        let setting = places.setting;
        let path = |path: &Path| path.display().to_string();
        let mut fill = vec![
            ("{interface}", places.interface.to_owned()),
            ("{other}", places.other.to_owned()),
            ("{file}", path(&places.dir.join("capture"))),
            ("{dir}", path(places.dir)),
            ("{core}", places.core.to_string()),
        ];
        let mut args: Vec<&String> = self.args.iter().collect();
        args.extend(self.output_args(self.output_under(setting)).into_iter().flatten());
        if let (Some(mib), Some(buffer)) = (setting.buffer_mib, &self.options.buffer) {
            let quarter = mib / 4;
            let rest = (mib - quarter) / u64::from(setting.lanes.unwrap_or(1).max(1));
            let sizes = [
                ("{mib}", mib),
                ("{kib}", mib << 10),
                ("{half}", mib / 2),
                ("{quarter}", quarter),
                ("{rest}", rest),
            ];
            fill.extend(sizes.map(|(place, size)| (place, size.to_string())));
            args.extend(buffer);
        }
        let options = &self.options;
        let number = |number: u32| (number > 0).then(|| number.to_string());
        let wanted = [
            ("{snaplen}", setting.snaplen.map(|bytes| bytes.to_string()), &options.snaplen),
            ("{copies}", number(setting.copies), &options.copies),
            ("{compression}", number(setting.compression), &options.compression),
            ("{lanes}", setting.lanes.map(|lanes| lanes.to_string()), &options.lanes),
            ("{spread}", setting.spread.clone(), &options.spread),
            ("{via}", setting.via.clone(), &options.via),
            // Last: some tools take it as their positional argument.
            ("{filter}", setting.filter.expression().map(str::to_owned), &options.filter),
        ];
        for (place, value, option) in wanted {
            if let (Some(value), Some(option)) = (value, option) {
                fill.push((place, value));
                args.extend(option);
            }
        }
        let fill = |arg: &String| OsString::from(filled(arg, &fill));
        (program.into(), args.into_iter().map(fill).collect())
    }

    /// The buffer option as a user would write it: `-B 262144`.
    pub fn buffer_words(&self, mib: u64) -> String {
        let words = |buffer_mib| {
            let setting = Setting { buffer_mib, ..Setting::default() };
            let places = Places { interface: "", other: "", dir: Path::new(""), core: 0, setting: &setting };
            self.command_line(Path::new(""), &places).1
        };
        let (all, without) = (words(Some(mib)), words(None).len());
        all[without..].iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    fn output_args(&self, output: Output) -> Option<&Vec<String>> {
        match output {
            Output::Disk => self.output.disk.as_ref(),
            Output::Null => self.output.null.as_ref(),
            Output::Pipe => self.output.pipe.as_ref(),
            Output::Screen => self.output.screen.as_ref(),
        }
    }
}

/// Replaces all placeholders in one pass, so that a value is never parsed for placeholders.
pub(super) fn filled(arg: &str, fill: &[(&str, String)]) -> String {
    let (mut filled, mut rest) = (String::new(), arg);
    while let Some(at) = rest.find('{') {
        filled += &rest[..at];
        rest = &rest[at..];
        let (taken, value) = fill
            .iter()
            .find(|(place, _)| rest.starts_with(place))
            .map_or((1, "{"), |(place, value)| (place.len(), value.as_str()));
        filled += value;
        rest = &rest[taken..];
    }
    filled + rest
}

/// Replaces `{quaff}` by the path of the executable.
pub(super) fn with_quaff(mut tool: Tool, quaff: &Path) -> Tool {
    let name = quaff.display().to_string();
    if tool.program == Path::new("{quaff}") {
        tool.program = PathBuf::from(quaff);
    }
    for (_, args) in lists_mut(&mut tool) {
        args.iter_mut().for_each(|arg| *arg = arg.replace("{quaff}", &name));
    }
    tool
}

/// Checks a description.
///
/// # Errors
/// The text to locate in the description, and the mistake.
pub(super) fn check(tool: &Tool) -> Result<(), (String, String)> {
    let wrong = |word: &str, what: String| Err((word.to_owned(), what));
    if tool.name.trim().is_empty() {
        return wrong("name", "a capturer needs a name".into());
    }
    if OTHERS.contains(&tool.name.as_str()) {
        return wrong("name", format!("the name {:?} is reserved", tool.name));
    }
    let mut copy = tool.clone();
    for (places, args) in lists_mut(&mut copy) {
        for place in args.iter().flat_map(|arg| places_in(arg)) {
            if !COMMON.contains(&place) && !places.contains(&place) {
                let known: Vec<_> = COMMON.iter().chain(places).map(|place| format!("{{{place}}}")).collect();
                let known = known.join(", ");
                return wrong(
                    &format!("{{{place}}}"),
                    format!("{{{place}}} is unknown here; known are {known}"),
                );
            }
        }
    }
    let has = |args: &[String], place: &str| args.iter().any(|arg| arg.contains(place));
    if !has(&tool.args, "{interface}") {
        return wrong("args", "{interface} is missing: the tool has no interface".into());
    }
    if let Some(dir) = tool.dirs.iter().find(|dir| !is_inside(dir)) {
        return wrong("dirs", format!("{dir:?} is not inside {{dir}}"));
    }
    if tool.settle_ms > SETTLE_MS_MAX {
        return wrong("settle_ms", format!("at most {SETTLE_MS_MAX}"));
    }
    if tool.patience_s > PATIENCE_S_MAX {
        return wrong("patience_s", format!("at most {PATIENCE_S_MAX}"));
    }
    let output = &tool.output;
    if let Some(disk) = &output.disk
        && ![disk, &tool.args].iter().any(|args| has(args, "{file}") || has(args, "{dir}"))
    {
        return wrong("disk", "{file} or {dir} is missing: the tool has no output file".into());
    }
    if output.disk.is_none() && output.null.is_none() && output.pipe.is_none() && output.screen.is_none() {
        return wrong("[output]", "it has no output: disk, null, pipe or screen".into());
    }
    let empty = |counter: &Option<Counter>| match counter {
        Some(Counter::Before(words) | Counter::BeforeOrNone(words) | Counter::After(words)) => {
            words.is_empty()
        }
        Some(Counter::Json(fields)) => fields.is_empty(),
        None => false,
    };
    if empty(&tool.drops) || empty(&tool.captured) {
        return wrong("drops", "a counter needs text to search for".into());
    }
    Ok(())
}

/// True if `dir` is a relative path below its base.
fn is_inside(dir: &str) -> bool {
    !dir.is_empty() && Path::new(dir).components().all(|part| matches!(part, Component::Normal(_)))
}

/// All lists of arguments, with the placeholders that only each of them may contain.
fn lists_mut(tool: &mut Tool) -> Vec<(&'static [&'static str], &mut Vec<String>)> {
    let (output, options) = (&mut tool.output, &mut tool.options);
    let none: &[&str] = &[];
    let optional: [(&[&str], _); 12] = [
        (none, &mut output.disk),
        (none, &mut output.null),
        (none, &mut output.pipe),
        (none, &mut output.screen),
        (&["mib", "kib", "half", "quarter", "rest"], &mut options.buffer),
        (&["snaplen"], &mut options.snaplen),
        (&["copies"], &mut options.copies),
        (&["compression"], &mut options.compression),
        (&["filter"], &mut options.filter),
        (&["lanes"], &mut options.lanes),
        (&["spread"], &mut options.spread),
        (&["via"], &mut options.via),
    ];
    let optional = optional.into_iter().filter_map(|(places, args)| Some((places, args.as_mut()?)));
    [(none, &mut tool.args)].into_iter().chain(optional).collect()
}

/// The placeholders in an argument: lower-case letters in braces, unlike a shell's `${NAME}`.
pub(super) fn places_in(arg: &str) -> impl Iterator<Item = &str> {
    arg.split('{').skip(1).filter_map(|rest| {
        let (word, _) = rest.split_once('}')?;
        (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())).then_some(word)
    })
}
