//! Programs that read a capture file, run in turn in each round, in a random order from the seed.

use super::Draw;
use super::plan::{Plan, Reading};
use super::result::{ReadCase, Report};
use super::runner::Events;
use super::session::Session;
use crate::method::{ReadRun, RunDir, cache_doubt, expand, generate};
use crate::stats::median;
use crate::{Error, Result};
use quaff_file::read::CaptureFile;
use quaff_lab::tool::{FileReader, Present, resolve_readers, shipped_readers};
use quaff_wire::decode::Item;
use std::path::{Path, PathBuf};

/// Generated traffic of one pass: TCP conversations with requests and answers.
const MADE: &str = "--tcp talk --segments 8 --flows 500 --size imix1500 --pps 100k --count 50k";
const MADE_NAME: &str = "generated: 50,000 frames, TCP conversations";

/// A file and its readers.
struct Prepared {
    file: PathBuf,
    readers: Vec<(FileReader, Option<Present>)>,
    /// Indices of the installed readers' cases in the report.
    cases: Vec<usize>,
}

/// Runs the plan's readers, and adds their cases to the report.
///
/// # Errors
/// An unknown reader, no disk space for the file, or an unreadable capture.
pub(super) fn read(
    plan: &Plan,
    session: &Session,
    report: &mut Report,
    events: &mut dyn Events,
) -> Result<()> {
    for (number, reading) in plan.readings.iter().enumerate() {
        events.stage("the file for the readers is generated");
        let dir = session.place.run_dir()?;
        let prepared = prepare(reading, session, &dir, report, events)?;
        for round in 1..=plan.runs {
            let mut order: Vec<usize> = (0..prepared.cases.len()).collect();
            Draw(plan.seed ^ (u64::from(round) << 32) ^ number as u64).shuffle(&mut order);
            for at in order {
                let case = &mut report.body.readings[prepared.cases[at]];
                let run = run(session, &prepared, case, events)?;
                case.runs.push(ReadRun { round, ..run });
                summarise(case);
            }
            events.so_far(report);
        }
    }
    Ok(())
}

/// Performs one run of a case.
fn run(session: &Session, prepared: &Prepared, case: &ReadCase, events: &mut dyn Events) -> Result<ReadRun> {
    let is_it = |(reader, _): &&(FileReader, Option<Present>)| reader.name == case.reader;
    let Some((reader, Some(present))) = prepared.readers.iter().find(is_it) else {
        return Err(Error::UnknownReader { name: case.reader.clone(), known: Vec::new() });
    };
    let mut watch = |_| {
        events.stage(&format!("{} reads", reader.name));
        events.continues()
    };
    let bench = session.bench();
    bench.read(reader, &present.program, &[&prepared.file], &[bench.cores.capturer], &mut watch)
}

/// Creates the file and the cases of a reading.
fn prepare(
    reading: &Reading,
    session: &Session,
    dir: &RunDir,
    report: &mut Report,
    events: &mut dyn Events,
) -> Result<Prepared> {
    let readers = resolve_readers(&reading.readers, &shipped_readers(&session.quaff))?;
    let (input, name) = match &reading.replay {
        Some(file) => (PathBuf::from(file), file.clone()),
        None => {
            let path = dir.path.join("generated.pcap");
            generate(&session.quaff, MADE, &path, &mut || events.continues())?;
            (path, MADE_NAME.to_owned())
        }
    };
    let file =
        expand(&session.quaff, &input, reading.loops, &session.place, &dir.path, &mut || events.continues())?;
    if let Some(doubt) = cache_doubt(&file) {
        events.note(&doubt);
        report.notes.push(doubt);
    }
    // Reading it also fills the page cache for the first run.
    let (frames, bytes) = count(&file)?;
    let mut cases = Vec::new();
    for (reader, present) in &readers {
        let case = new_case(reading, reader, present.as_ref(), &name);
        if present.is_some() {
            cases.push(report.body.readings.len());
        }
        report.body.readings.push(ReadCase { frames, bytes, ..case });
    }
    Ok(Prepared { file, readers, cases })
}

fn new_case(reading: &Reading, reader: &FileReader, present: Option<&Present>, name: &str) -> ReadCase {
    let command = |present: &Present| {
        let program = present.program.display().to_string();
        let args = present_args(reader);
        [program].into_iter().chain(args).collect()
    };
    ReadCase {
        series: reading.series.clone(),
        reader: reader.name.clone(),
        version: present.and_then(|present| present.version.clone()),
        file: name.to_owned(),
        command: present.map(command).unwrap_or_default(),
        absent: present.is_none().then(|| match reader.install.as_str() {
            "" => "it is not installed".to_owned(),
            install => format!("it is not installed ({install})"),
        }),
        remark: reader.remark.clone(),
        ..ReadCase::default()
    }
}

/// Command line of a reader, with FILE for the file and DIR for the output directory.
fn present_args(reader: &FileReader) -> Vec<String> {
    reader.tool(&[Path::new("FILE")]).args.iter().map(|arg| arg.replace("{dir}", "DIR")).collect()
}

/// Number of frames in a file, and their bytes.
fn count(path: &Path) -> Result<(u64, u64)> {
    let mut file = CaptureFile::open(path)?;
    let (mut frames, mut bytes) = (0, 0);
    let mut add = |item: Item<'_>| {
        if let Item::Frame(frame) = item {
            frames += 1;
            bytes += u64::from(frame.wire_len);
        }
    };
    while file.pull(&mut add).map_err(|error| Error::Place(error.to_string()))? {}
    Ok((frames, bytes))
}

/// Computes the figures of a case from its successful runs.
fn summarise(case: &mut ReadCase) {
    let whole: Vec<&ReadRun> = case.runs.iter().filter(|run| run.failed.is_none()).collect();
    let frames = case.frames as f64;
    let of =
        |value: &dyn Fn(&ReadRun) -> f64| median(&whole.iter().map(|run| value(run)).collect::<Vec<_>>());
    case.pps_median = of(&|run| frames / run.seconds.max(1e-9));
    case.cpu_per_million = of(&|run| run.cpu_s * 1e6 / frames.max(1.0));
    case.memory_bytes = whole.iter().map(|run| run.memory_bytes).max();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_summarised_by_its_complete_runs() {
        let run = |seconds, memory_bytes| ReadRun { seconds, cpu_s: 1.0, memory_bytes, ..ReadRun::default() };
        let failed = ReadRun { failed: Some("it crashed".into()), ..run(0.1, 9) };
        let mut case = ReadCase {
            frames: 2_000_000,
            runs: vec![run(1.0, 5), failed, run(4.0, 7), run(2.0, 6)],
            ..ReadCase::default()
        };
        summarise(&mut case);
        assert_eq!((case.pps_median, case.cpu_per_million), (Some(1e6), Some(0.5)));
        assert_eq!(case.memory_bytes, Some(7));
    }

    #[test]
    fn a_command_line_names_the_file_and_the_directory() {
        let all = shipped_readers(Path::new("quaff"));
        let tcpflow = all.iter().find(|reader| reader.name == "tcpflow").expect("shipped");
        assert_eq!(present_args(tcpflow).join(" "), "-FX -r FILE -o DIR");
    }
}
