//! From a description to a command line: places filled, and what a capturer cannot do told in a sentence.

use super::{Counter, Output, Setting, Tool};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Places that every argument may have.
const COMMON: [&str; 5] = ["interface", "file", "dir", "core", "quaff"];

/// Who is not a capturer: what goes wrong with them is not to be a capturer's fault.
const OTHERS: [&str; 2] = ["the generator", "the file"];
/// The longest that files may have to stand still, ms.
const SETTLE_MS_MAX: u64 = 60_000;
/// The longest that one may take to be ready, or to end, s.
const PATIENCE_S_MAX: u64 = 600;

/// What the places in a rival's arguments stand for.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The interface to capture from.
    pub interface: &'a str,
    /// The directory for its files.
    pub dir: &'a Path,
    /// The core that it runs on.
    pub core: usize,
    /// What it is given and asked to do.
    pub setting: &'a Setting,
}

impl Tool {
    /// Where its packets go under `setting`: one that can only do one thing does that where others write to
    /// disk.
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

    /// Whether it can be measured under `setting`.
    ///
    /// # Errors
    /// A sentence that says what it cannot do.
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
            return not("does not say how many packets it captured, and nothing of them is kept");
        }
        if setting.buffer_mib.is_some() && options.buffer.is_none() {
            return not("cannot be told the size of its buffer");
        }
        if setting.buffer_mib.is_some_and(|mib| mib < self.buffer_min_mib) {
            return not(&format!("cannot be told a buffer of less than {} MiB", self.buffer_min_mib));
        }
        if setting.filter.expression().is_some() && options.filter.is_none() {
            return not("takes no tcpdump filter");
        }
        if setting.snaplen.is_some() && options.snaplen.is_none() {
            return not("cannot cut packets to a snaplen");
        }
        if setting.copies > 0 && options.copies.is_none() {
            return not("makes no extra copies of packets");
        }
        if setting.compression > 0 && options.compression.is_none() {
            return not("does not compress each packet");
        }
        Ok(())
    }

    /// Program and arguments. What it [cannot do](Self::can) is left out.
    pub fn command_line(&self, program: &Path, places: &Places<'_>) -> (OsString, Vec<OsString>) {
        let setting = places.setting;
        let path = |path: &Path| path.display().to_string();
        let mut fill = vec![
            ("{interface}", places.interface.to_owned()),
            ("{file}", path(&places.dir.join("capture"))),
            ("{dir}", path(places.dir)),
            ("{core}", places.core.to_string()),
        ];
        let mut args: Vec<&String> = self.args.iter().collect();
        args.extend(self.output_args(self.output_under(setting)).into_iter().flatten());
        if let (Some(mib), Some(buffer)) = (setting.buffer_mib, &self.options.buffer) {
            let quarter = mib / 4;
            let sizes = [
                ("{mib}", mib),
                ("{kib}", mib << 10),
                ("{half}", mib / 2),
                ("{quarter}", quarter),
                ("{rest}", mib - quarter),
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
            // Last: to some it is what stands behind all options.
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

    /// The buffer as its user would give it: `-B 262144`.
    pub fn buffer_words(&self, mib: u64) -> String {
        let words = |buffer_mib| {
            let setting = Setting { buffer_mib, ..Setting::default() };
            let places = Places { interface: "", dir: Path::new(""), core: 0, setting: &setting };
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

/// All places at once, so that what stands in one is never taken for another.
fn filled(arg: &str, fill: &[(&str, String)]) -> String {
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

/// Puts our own program where it is meant.
pub(super) fn with_quaff(mut rival: Tool, quaff: &Path) -> Tool {
    let name = quaff.display().to_string();
    if rival.program == Path::new("{quaff}") {
        rival.program = PathBuf::from(quaff);
    }
    for (_, args) in lists_mut(&mut rival) {
        args.iter_mut().for_each(|arg| *arg = arg.replace("{quaff}", &name));
    }
    rival
}

/// Whether it can be a capturer: else the word to look for in its description, and what is wrong.
pub(super) fn check(rival: &Tool) -> Result<(), (String, String)> {
    let wrong = |word: &str, what: String| Err((word.to_owned(), what));
    if rival.name.trim().is_empty() {
        return wrong("name", "a capturer needs a name".into());
    }
    if OTHERS.contains(&rival.name.as_str()) {
        return wrong("name", format!("{:?} is what others are called here", rival.name));
    }
    let mut copy = rival.clone();
    for (places, args) in lists_mut(&mut copy) {
        for place in args.iter().flat_map(|arg| places_in(arg)) {
            if !COMMON.contains(&place) && !places.contains(&place) {
                let known: Vec<_> = COMMON.iter().chain(places).map(|place| format!("{{{place}}}")).collect();
                let known = known.join(", ");
                return wrong(
                    &format!("{{{place}}}"),
                    format!("there is no {{{place}}} here, there is {known}"),
                );
            }
        }
    }
    let says = |args: &[String], place: &str| args.iter().any(|arg| arg.contains(place));
    if !says(&rival.args, "{interface}") {
        return wrong("args", "nothing says {interface}: it would not know where to capture".into());
    }
    if let Some(dir) = rival.dirs.iter().find(|dir| !is_inside(dir)) {
        return wrong("dirs", format!("{dir:?} is not inside {{dir}}"));
    }
    if rival.settle_ms > SETTLE_MS_MAX {
        return wrong("settle_ms", format!("at most {SETTLE_MS_MAX}"));
    }
    if rival.patience_s > PATIENCE_S_MAX {
        return wrong("patience_s", format!("at most {PATIENCE_S_MAX}"));
    }
    let output = &rival.output;
    if let Some(disk) = &output.disk
        && ![disk, &rival.args].iter().any(|args| says(args, "{file}") || says(args, "{dir}"))
    {
        return wrong("disk", "neither {file} nor {dir} says where its files go".into());
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
    if empty(&rival.drops) || empty(&rival.captured) {
        return wrong("drops", "a counter needs words to look for".into());
    }
    Ok(())
}

/// Whether it names something below the directory that it is looked for in.
fn is_inside(dir: &str) -> bool {
    !dir.is_empty() && Path::new(dir).components().all(|part| matches!(part, Component::Normal(_)))
}

/// Every list of arguments, with the places that are its own.
fn lists_mut(rival: &mut Tool) -> Vec<(&'static [&'static str], &mut Vec<String>)> {
    let (output, options) = (&mut rival.output, &mut rival.options);
    let none: &[&str] = &[];
    let optional: [(&[&str], _); 9] = [
        (none, &mut output.disk),
        (none, &mut output.null),
        (none, &mut output.pipe),
        (none, &mut output.screen),
        (&["mib", "kib", "half", "quarter", "rest"], &mut options.buffer),
        (&["snaplen"], &mut options.snaplen),
        (&["copies"], &mut options.copies),
        (&["compression"], &mut options.compression),
        (&["filter"], &mut options.filter),
    ];
    let optional = optional.into_iter().filter_map(|(places, args)| Some((places, args.as_mut()?)));
    [(none, &mut rival.args)].into_iter().chain(optional).collect()
}

/// The words in braces: lower-case letters, so that a shell's `${NAME}` is none.
fn places_in(arg: &str) -> impl Iterator<Item = &str> {
    arg.split('{').skip(1).filter_map(|rest| {
        let (word, _) = rest.split_once('}')?;
        (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())).then_some(word)
    })
}
