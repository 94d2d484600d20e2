//! The promises of pipes, of decapsulated files, of a capture at the speed of the disk, and of idle captures.

use super::verdict::{Bound, Row, Samples};
use super::{Bench, Promise};
use crate::show;
use quaff_bench::method::{Feed, MIDDLES, RunDir, STRIPPERS, fio};
use quaff_lab::Error;
use quaff_lab::traffic::Traffic;
use std::path::PathBuf;
use std::time::Duration;

/// Time without traffic, and the CPU time in it, percent of a core.
const IDLE: Duration = Duration::from_secs(30);
const IDLE_PERCENT_MAX: f64 = 1.0;
/// Bytes of the long capture, and of the file that fio writes beside it.
const LONG_BYTES: u64 = 20_000_000_000;
const FIO_BYTES: u64 = 8_000_000_000;
/// Write rate of a lossy capture, relative to fio.
const DISK_RATIO_MIN: f64 = 0.95;
/// Bytes/s of a pipe, relative to the best other program.
const PIPE_RATIO_MIN: f64 = 1.5;
/// Bytes through a pipe to /dev/null, and into a file.
const NULL_BYTES: u64 = 8 << 30;
const FILE_BYTES: u64 = 2 << 30;
/// Frames in the file that tcpdump reads.
const PIPED_FRAMES: u64 = 1_000_000;
/// Bytes/s of decapsulation, relative to editcap; frames of the file, 512 bytes in 50 of headers: about 1 GB.
const STRIP_RATIO_MIN: f64 = 2.0;
const STRIPPED_FRAMES: u64 = 1_700_000;

impl Bench<'_> {
    pub(super) fn idle(&mut self) -> quaff_lab::Result<()> {
        self.begin(Promise::Idle, &format!("{} s without traffic", IDLE.as_secs()), 1);
        let quaff = &self.setup.present[0];
        let mut watch = self.setup.watch("quaff waits without traffic");
        let used = self.setup.bench().idle(&quaff.rival, &quaff.program, IDLE, &mut watch)?;
        drop(watch);
        self.setup.done();
        let percent = 100.0 * used.as_secs_f64() / IDLE.as_secs_f64();
        let limit = format!("{} s without traffic: below {IDLE_PERCENT_MAX:.0} % of a core", IDLE.as_secs());
        let (measured, holds) = (format!("quaff {percent:.3} %"), Some(percent < IDLE_PERCENT_MAX));
        self.judge(Row::new(Promise::Idle, limit, measured, holds));
        Ok(())
    }

    /// 20 GB; fio writes between the runs, in the same minutes.
    pub(super) fn long(&mut self) -> quaff_lab::Result<()> {
        let traffic = self.traffic(1500, None, LONG_BYTES / 1500);
        let what = format!("{} × 1500 B, as fast as possible", show::count(traffic.count));
        let (mut losses, mut accounted) = (Samples::new(&what, "quaff", "ratio"), true);
        let names = ["quaff", fio::FIO];
        let mut rates = self.rounds(Promise::LargeFrames, &what, "bytes/s", &names, |setup, at| {
            if at == 1 {
                let bytes = FIO_BYTES.min(setup.place.free_bytes()? / 2);
                return fio::write_rate(
                    &setup.place,
                    bytes,
                    setup.cores.capturer,
                    &mut setup.watch("fio writes"),
                );
            }
            let (run, _files) = setup.capture(&setup.present[0], &traffic, None)?;
            losses.values.push(run.loss.unwrap_or(1.0));
            accounted &= run.accounted == Some(true);
            Ok(run.bytes as f64 / run.writing_s.max(1e-9))
        })?;
        losses.failed = rates[0].failed.take();
        self.judge(long(&what, &losses, accounted, &rates));
        Ok(())
    }

    pub(super) fn tunnel_file(&mut self) -> quaff_lab::Result<()> {
        let traffic = Traffic { mirrored: true, ..self.traffic(512, Some(500_000), STRIPPED_FRAMES) };
        let Some((_dir, file)) = self.captured(Promise::TunnelFile, &traffic)? else { return Ok(()) };
        let feed = Feed::File(file);
        let names = STRIPPERS.map(|stripper| stripper.name);
        let all =
            self.rounds(Promise::TunnelFile, "decapsulate a file", "bytes/s", &names, |setup, at| {
                STRIPPERS[at].rate(&setup.quaff, &feed, Some(&setup.place), &mut setup.watch(names[at]))
            })?;
        let limit = format!(
            "ERSPAN removed from a file of 1 GB: at least {STRIP_RATIO_MIN} times the bytes/s of editcap -C 50"
        );
        self.judge(faster(Promise::TunnelFile, limit, STRIP_RATIO_MIN, &all));
        Ok(())
    }

    pub(super) fn pipes(&mut self) -> quaff_lab::Result<()> {
        self.pipe("/dev/zero to /dev/null", &Feed::Zeros(NULL_BYTES), false)?;
        self.pipe("/dev/zero into a file", &Feed::Zeros(FILE_BYTES), true)?;
        let traffic = self.traffic(1500, Some(200_000), PIPED_FRAMES);
        let Some((_dir, file)) = self.captured(Promise::Pipe, &traffic)? else { return Ok(()) };
        let bytes = traffic.count * (u64::from(traffic.frame_bytes) + 16);
        self.pipe("tcpdump -r into a file", &Feed::Tcpdump(file, bytes), true)
    }

    fn pipe(&mut self, title: &str, feed: &Feed, into_file: bool) -> quaff_lab::Result<()> {
        let names = MIDDLES.map(|middle| middle.name);
        let all = self.rounds(Promise::Pipe, title, "bytes/s", &names, |setup, at| {
            let middle = &MIDDLES[at];
            if !middle.is_there() {
                let what = format!("not installed (apt-get install {})", middle.package);
                return Err(Error::Tool { name: middle.name.into(), what });
            }
            let place = into_file.then_some(&setup.place);
            middle.rate(&setup.quaff, feed, place, &mut setup.watch(middle.name))
        })?;
        let limit = format!("{title}: at least {PIPE_RATIO_MIN} times the bytes/s of the best other program");
        self.judge(faster(Promise::Pipe, limit, PIPE_RATIO_MIN, &all));
        Ok(())
    }

    /// A file that quaff captured, in a folder that is removed when it is dropped.
    fn captured(&self, promise: Promise, traffic: &Traffic) -> quaff_lab::Result<Option<(RunDir, PathBuf)>> {
        self.begin(promise, "a file to read", 1);
        let (_, dir) = self.setup.capture(&self.setup.present[0], traffic, None)?;
        self.setup.done();
        Ok(dir.files()?.into_iter().next().map(|file| (dir, file)))
    }

    fn traffic(&self, frame_bytes: u32, pps: Option<u64>, count: u64) -> Traffic {
        Traffic::bytes(frame_bytes, pps, self.args.count.unwrap_or(count))
    }
}

/// The first of `all` against the best of the others.
fn faster(promise: Promise, limit: String, least: f64, all: &[Samples]) -> Row {
    let unit = |rate| format!("{}/s", show::bytes(rate as u64));
    Row::ratio(promise, limit, Bound::AtLeast(least), unit, all.split_at(1))
}

/// No loss; or the disk was the limit, and each loss is in the ledger of the file.
fn long(what: &str, losses: &Samples, accounted: bool, rates: &[Samples]) -> Row {
    let limit = format!(
        "{what}: no loss, or {:.0} % of the bytes/s of fio and each loss in the ledger",
        DISK_RATIO_MIN * 100.0
    );
    let row = faster(Promise::LargeFrames, limit, DISK_RATIO_MIN, rates);
    let ledger = if accounted { "the ledger agrees" } else { "the ledger does not agree" };
    let lost = losses.describe(quaff::format::percent);
    let holds = match row.holds {
        _ if losses.values.is_empty() => None,
        _ if losses.is_zero() => Some(true),
        ratio => ratio.map(|holds| holds && accounted),
    };
    Row { measured: format!("lost: {lost}; {}; {ledger}", row.measured), holds, ..row }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_of_the_disk_excuses_a_loss_that_is_accounted_for() {
        let samples = |values: &[f64]| Samples { values: values.to_vec(), ..Samples::new("t", "quaff", "") };
        let (ours, none) = (samples(&[2.0e9]), samples(&[]));
        let holds = |loss: &[f64], accounted, fio: &[f64]| {
            long("t", &samples(loss), accounted, &[ours.clone(), samples(fio)]).holds
        };
        assert_eq!(holds(&[0.0], true, &[]), Some(true));
        assert_eq!(holds(&[0.005], true, &[]), None);
        assert_eq!(holds(&[0.005], true, &[2.0e9]), Some(true));
        assert_eq!(holds(&[0.005], true, &[2.2e9]), Some(false));
        assert_eq!(holds(&[0.005], false, &[2.0e9]), Some(false));
        assert_eq!(long("t", &none, true, &[none.clone(), ours.clone()]).holds, None);
    }
}
