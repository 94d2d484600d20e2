//! The promises of commands that read files, beside other programs that read the same ones. The files are in the page
//! cache, and what counts is frames by the time on the clock.

use super::long_file::LongFile;
use super::verdict::{Bound, Row, Samples};
use super::{Bench, Promise, Setup};
use crate::show;
use quaff_bench::method::{self, Load, MeterRun, ReadRun, Verdict};
use quaff_lab::Error;
use quaff_lab::tool::{FileReader, FlowMeter, Present};
use quaff_lab::tool::{resolve_meters, resolve_readers, shipped_meters, shipped_readers};
use quaff_os::cpu;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Frames of the file: about 1.2 GB of mixed traffic.
const FRAMES: u64 = 3_500_000;

/// A program that reads the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// A flow meter, which exports to the collector of the bench.
    Meter(&'static str),
    /// Any other program.
    Reader(&'static str),
}

/// Another program, and the frames/s of quaff relative to its own.
type Limit = (Reads, f64);

/// Programs that do the same work with a file.
#[derive(Debug)]
struct Work {
    promise: Promise,
    /// The work of quaff.
    what: &'static str,
    ours: Reads,
    all_cores: &'static [Limit],
    one_core: &'static [Limit],
}

use Reads::{Meter, Reader};

const FLOWS: Work = Work {
    promise: Promise::FlowsFile,
    what: "flows exported to a collector",
    ours: Meter("quaff"),
    all_cores: &[(Meter("softflowd"), 4.0), (Meter("nfpcapd"), 8.0)],
    one_core: &[(Meter("softflowd"), 3.0)],
};
const VERIFY: Work = Work {
    promise: Promise::Verify,
    what: "capture loss by TCP",
    ours: Reader("quaff verify"),
    all_cores: &[(Meter("softflowd"), 5.0), (Reader("tcptrace"), 7.0)],
    one_core: &[(Reader("tcptrace"), 5.2)],
};
const STREAMS: Work = Work {
    promise: Promise::StreamsFile,
    what: "streams put together",
    ours: Reader("quaff streams"),
    all_cores: &[(Reader("tcpflow"), 4.0)],
    one_core: &[],
};
const READ: Work = Work {
    promise: Promise::ReadFile,
    what: "the packets of 'tcp port 80' into a file",
    ours: Reader("quaff capture"),
    all_cores: &[(Reader("tcpdump"), 3.0)],
    one_core: &[],
};
const MERGE: Work = Work {
    promise: Promise::Merge,
    what: "its halves merged",
    ours: Reader("quaff merge"),
    all_cores: &[(Reader("mergecap"), 3.0)],
    one_core: &[],
};
const INFO: Work = Work {
    promise: Promise::Info,
    what: "summarised",
    ours: Reader("quaff info"),
    all_cores: &[(Reader("capinfos"), 20.0)],
    one_core: &[],
};

/// A program, and where it is if it is installed.
enum Program {
    Meter(FlowMeter, Option<Present>),
    Reader(FileReader, Option<Present>),
}

impl Bench<'_> {
    pub(super) fn flows_file(&mut self) -> quaff_lab::Result<()> {
        self.read_by(&FLOWS)
    }

    pub(super) fn verify(&mut self) -> quaff_lab::Result<()> {
        self.read_by(&VERIFY)
    }

    pub(super) fn streams_file(&mut self) -> quaff_lab::Result<()> {
        self.read_by(&STREAMS)
    }

    pub(super) fn read_file(&mut self) -> quaff_lab::Result<()> {
        self.read_by(&READ)
    }

    pub(super) fn info(&mut self) -> quaff_lab::Result<()> {
        self.read_by(&INFO)
    }

    fn read_by(&mut self, work: &Work) -> quaff_lab::Result<()> {
        let file = self.long_file(work.promise)?;
        self.read_files(work, &file, &[file.path.as_path()])
    }

    /// The packets of the file, in two files.
    pub(super) fn merge(&mut self) -> quaff_lab::Result<()> {
        let file = self.long_file(Promise::Merge)?;
        let Setup { quaff, place, .. } = &self.setup;
        let dir = place.run_dir()?;
        let halves = method::halves(quaff, &file.path, place, &dir.path, &mut || self.setup.no_signal())?;
        for half in &halves {
            method::load(half)?;
        }
        self.read_files(&MERGE, &file, &halves.each_ref().map(PathBuf::as_path))
    }

    fn read_files(&mut self, work: &Work, file: &LongFile, inputs: &[&Path]) -> quaff_lab::Result<()> {
        let title = format!("{}, {}", file.name, work.what);
        self.in_turns(work, work.all_cores, &cpu::allowed()?, &title, file.load, inputs)?;
        if work.one_core.is_empty() {
            return Ok(());
        }
        let core = self.setup.cores.capturer;
        self.in_turns(work, work.one_core, &[core], &format!("{title}, on one core"), file.load, inputs)
    }

    /// Quaff and the programs of `limits` in turn on `cores`, and a verdict for each limit.
    fn in_turns(
        &mut self,
        work: &Work,
        limits: &[Limit],
        cores: &[usize],
        title: &str,
        load: Load,
        inputs: &[&Path],
    ) -> quaff_lab::Result<()> {
        let all: Vec<_> = [work.ours].into_iter().chain(limits.iter().map(|(rival, _)| *rival)).collect();
        let names: Vec<_> = all.iter().map(|reads| reads.name()).collect();
        let programs = all.iter().map(|reads| reads.find(&self.setup.quaff));
        let programs = programs.collect::<quaff_lab::Result<Vec<_>>>()?;
        let mut is_complete = true;
        let samples = self.rounds(work.promise, title, "frames/s", &names, |setup, at| {
            let (pps, verdict) = programs[at].run(setup, load, inputs, cores)?;
            is_complete &= at != 0 || verdict != Some(Verdict::Lossy);
            Ok(pps)
        })?;
        verdicts(work, limits, title, &samples, is_complete).into_iter().for_each(|row| self.judge(row));
        Ok(())
    }

    /// The file, which is made for the first promise that needs it.
    fn long_file(&mut self, promise: Promise) -> quaff_lab::Result<Rc<LongFile>> {
        if let Some(file) = &self.long_file {
            return Ok(file.clone());
        }
        self.begin(promise, "a file to read", 1);
        let file = Rc::new(LongFile::make(&self.setup, self.real_file(), self.args.count.unwrap_or(FRAMES))?);
        self.setup.done();
        self.long_file = Some(file.clone());
        Ok(file)
    }
}

impl Reads {
    fn name(self) -> &'static str {
        match self {
            Self::Meter(name) | Self::Reader(name) => name,
        }
    }

    fn find(self, quaff: &Path) -> quaff_lab::Result<Program> {
        let unknown = || Error::Place(format!("{} is not described", self.name()));
        Ok(match self {
            Self::Meter(name) => {
                let (meter, present) =
                    resolve_meters(&[name.to_owned()], &shipped_meters(quaff))?.pop().ok_or_else(unknown)?;
                Program::Meter(meter, present)
            }
            Self::Reader(name) => {
                let (reader, present) =
                    resolve_readers(&[name], &shipped_readers(quaff))?.pop().ok_or_else(unknown)?;
                Program::Reader(reader, present)
            }
        })
    }
}

impl Program {
    /// Frames/s of a run, and of a meter whether every packet was in a record.
    fn run(
        &self,
        setup: &Setup,
        load: Load,
        inputs: &[&Path],
        cores: &[usize],
    ) -> quaff_lab::Result<(f64, Option<Verdict>)> {
        let (name, install, present) = match self {
            Self::Meter(meter, present) => (&meter.name, &meter.install, present),
            Self::Reader(reader, present) => (&reader.name, &reader.install, present),
        };
        let failed = |what| Error::Tool { name: name.clone(), what };
        let Some(Present { program, .. }) = present else {
            return Err(failed(format!("not installed ({install})")));
        };
        let watch = &mut setup.watch(name);
        let (seconds, verdict, why) = match self {
            Self::Meter(meter, _) => {
                let MeterRun { seconds, verdict, failed, .. } =
                    setup.meters(cores).file(meter, program, inputs[0], load, watch)?;
                (seconds, Some(verdict), failed)
            }
            Self::Reader(reader, _) => {
                let ReadRun { seconds, failed, .. } =
                    setup.bench().read(reader, program, inputs, cores, watch)?;
                (seconds, None, failed)
            }
        };
        match why {
            Some(what) => Err(failed(what)),
            None => Ok((load.frames as f64 / seconds.max(1e-9), verdict)),
        }
    }
}

/// A verdict for each limit, on the samples of quaff and of the programs of `limits`. A meter that leaves packets out
/// is not as fast as it seems.
fn verdicts(work: &Work, limits: &[Limit], title: &str, samples: &[Samples], is_complete: bool) -> Vec<Row> {
    let Some((ours, others)) = samples.split_first() else { return Vec::new() };
    let verdict = |((rival, times), theirs): (&Limit, &Samples)| {
        let limit = format!("{title}: at least {times} times the frames/s of {}", rival.name());
        let both = (std::slice::from_ref(ours), std::slice::from_ref(theirs));
        let row = Row::ratio(work.promise, limit, Bound::AtLeast(*times), show::pps, both);
        match is_complete {
            true => row,
            false => row.and("packets are missing in the records", false),
        }
    };
    limits.iter().zip(others).map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&Work; 6] = [&FLOWS, &VERIFY, &STREAMS, &READ, &MERGE, &INFO];

    fn samples(name: &str, values: &[f64]) -> Samples {
        let failed = values.is_empty().then(|| "not installed".to_owned());
        Samples { values: values.to_vec(), failed, ..Samples::new("t", name, "frames/s") }
    }

    fn rows(theirs: [&[f64]; 2], is_complete: bool) -> Vec<Row> {
        let [softflowd, nfpcapd] = theirs;
        let all = [samples("quaff", &[16e6]), samples("softflowd", softflowd), samples("nfpcapd", nfpcapd)];
        verdicts(&FLOWS, FLOWS.all_cores, "mix.pcap × 72", &all, is_complete)
    }

    #[test]
    fn each_rival_has_a_verdict_of_its_own() {
        let rows = rows([&[4e6], &[2.1e6]], true);
        assert_eq!(rows.iter().map(|row| row.holds).collect::<Vec<_>>(), [Some(true), Some(false)]);
        assert_eq!(rows[0].limit, "mix.pcap × 72: at least 4 times the frames/s of softflowd");
        assert_eq!(rows[0].measured, "quaff 16.0 Mpps, softflowd 4.00 Mpps: 4.00");
        assert!(rows[1].measured.starts_with("quaff 16.0 Mpps, nfpcapd"), "{rows:?}");
    }

    #[test]
    fn a_rival_that_is_absent_leaves_its_own_row_open() {
        let rows = rows([&[4e6], &[]], true);
        assert_eq!(rows.iter().map(Row::verdict).collect::<Vec<_>>(), ["pass", "open"]);
        assert!(rows[1].measured.ends_with("nfpcapd: not installed"), "{rows:?}");
    }

    #[test]
    fn packets_that_are_in_no_record_break_the_promise() {
        let rows = rows([&[4e6], &[]], false);
        assert_eq!(rows.iter().map(|row| row.holds).collect::<Vec<_>>(), [Some(false), None]);
        assert!(rows[0].measured.starts_with("packets are missing in the records, quaff"), "{rows:?}");
    }

    #[test]
    fn every_program_is_described() {
        for work in ALL {
            let all = work.all_cores.iter().chain(work.one_core).map(|(rival, _)| *rival);
            for reads in all.chain([work.ours]) {
                assert!(reads.find(Path::new("quaff")).is_ok(), "{reads:?}");
            }
        }
    }
}
