//! `quaff pipe` beside the buffers that people put between two programs, and behind a tcpdump that
//! loses packets.

use super::check::{Check, Series};
use super::{BUFFER_MIB, Bench, words};
use crate::show;
use quaff_bench::method::median;
use quaff_bench::method::pipeline::{Feed, MIDDLES};
use quaff_lab::Error;
use quaff_lab::tool::PIPED;
use serde::Serialize;

/// Bytes/s, ours to the better of the others, at least.
const RATIO_MIN: f64 = 1.5;
/// What tcpdump loses with us behind it, to what it loses alone, at most.
const LOST_RATIO_MAX: f64 = 0.5;
/// Bytes to /dev/null, and into a file.
const NULL_BYTES: u64 = 8 << 30;
const FILE_BYTES: u64 = 2 << 30;
/// Frames in the file that tcpdump reads.
const FRAMES: u64 = 1_000_000;

/// The runs of one program on the same feed.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Rates {
    name: &'static str,
    feed: &'static str,
    pub(super) bytes_per_second: Vec<f64>,
    pub(super) failed: Option<String>,
}

impl Rates {
    pub(super) fn new(name: &'static str, feed: &'static str) -> Self {
        Self { name, feed, bytes_per_second: Vec::new(), failed: None }
    }
}

impl Bench<'_> {
    pub(super) fn pipes(&mut self) -> quaff_lab::Result<()> {
        self.rates("/dev/zero to /dev/null", &Feed::Zeros(NULL_BYTES), false)?;
        self.rates("/dev/zero into a file", &Feed::Zeros(FILE_BYTES), true)?;
        let traffic = self.traffic(1500, Some(200_000), FRAMES);
        let quaff = self.setup.present.iter().find(|present| present.rival.name == "quaff");
        if let Some(quaff) = quaff {
            self.progress.expect(1);
            self.progress.about("a file for tcpdump to read".into());
            let (_, dir) = self.setup.run(quaff, &traffic, None, &self.progress)?;
            self.progress.done();
            if let Some(file) = dir.files()?.into_iter().next() {
                let bytes = traffic.count * (u64::from(traffic.frame_bytes) + 16);
                self.rates("tcpdump -r into a file", &Feed::Tcpdump(file, bytes), true)?;
            }
        }
        let traffic = self.traffic(1500, Some(400_000), 3_000_000);
        let [alone, piped] =
            self.interleaved([("tcpdump", Some(BUFFER_MIB)), (PIPED, Some(BUFFER_MIB))], &traffic)?;
        self.checks.push(loss(&words(&traffic), &piped, &alone));
        self.series.extend([alone, piped]);
        Ok(())
    }

    /// As many rounds as there are to be, in each of them each program once.
    fn rates(&mut self, name: &'static str, feed: &Feed, into_file: bool) -> quaff_lab::Result<()> {
        let mut all: Vec<_> = MIDDLES.iter().map(|middle| Rates::new(middle.name, name)).collect();
        self.progress.expect(self.args.runs * MIDDLES.len() as u64);
        self.progress.about(name.into());
        for _ in 0..self.args.runs {
            for (middle, rates) in MIDDLES.iter().zip(&mut all) {
                if middle.is_there() {
                    match self.setup.pipe_rate(middle, feed, into_file, &self.progress) {
                        Ok(rate) => rates.bytes_per_second.push(rate),
                        Err(Error::Tool { what, .. }) => rates.failed = Some(what),
                        Err(error) => return Err(error),
                    }
                } else {
                    rates.failed = Some(format!("not installed (apt-get install {})", middle.package));
                }
                self.progress.done();
            }
        }
        let must =
            format!("{name}: quaff pipe moves at least {RATIO_MIN} times the bytes/s of the better other");
        self.checks.push(faster("34", must, RATIO_MIN, &all));
        self.rates.extend(all);
        Ok(())
    }
}

/// The first of them against the better of the others.
pub(super) fn faster(number: &'static str, must: String, ratio_min: f64, all: &[Rates]) -> Check {
    let rate = |rates: &Rates| median(&rates.bytes_per_second);
    let words = |rates: &Rates| match (rate(rates), &rates.failed) {
        (Some(rate), _) => format!("{} {}/s", rates.name, show::bytes(rate as u64)),
        (None, failed) => format!("{}: {}", rates.name, failed.as_deref().unwrap_or("not measured")),
    };
    let mut measured = all.iter().map(words).collect::<Vec<_>>().join(", ");
    let ours = all.first().and_then(rate);
    let others = all.iter().skip(1);
    let is_complete = others.clone().all(|rates| rate(rates).is_some());
    let best = others.filter_map(rate).max_by(f64::total_cmp);
    let ratio = ours.zip(best).map(|(ours, best)| ours / best);
    if let Some(ratio) = ratio {
        measured += &format!(": {ratio:.2}");
    }
    let holds = ratio.map(|ratio| ratio >= ratio_min);
    Check { number, must, measured, holds: if is_complete || holds == Some(false) { holds } else { None } }
}

/// tcpdump with our ring behind it against tcpdump alone.
fn loss(traffic: &str, piped: &Series, alone: &Series) -> Check {
    let lost = (piped.lost_percent(), alone.lost_percent());
    Check {
        number: "34",
        must: format!("{traffic}: with quaff pipe behind it tcpdump loses at most half as much"),
        measured: format!("lost: {}, {}", alone.lost_words(), piped.lost_words()),
        holds: match lost {
            (Some(piped), Some(alone)) if alone > 0.0 => Some(piped <= LOST_RATIO_MAX * alone),
            // At a rate at which it loses nothing there is nothing to say.
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(name: &'static str, bytes_per_second: &[f64]) -> Rates {
        let failed = bytes_per_second.is_empty().then(|| "not installed".to_owned());
        Rates { name, feed: "f", bytes_per_second: bytes_per_second.to_vec(), failed }
    }

    #[test]
    fn ours_has_to_be_faster_than_each_of_the_others() {
        let ours = rates("quaff pipe", &[3e9, 2e9, 9e9]);
        let check = faster(
            "34",
            "f".into(),
            RATIO_MIN,
            &[ours.clone(), rates("mbuffer", &[2e9]), rates("buffer", &[1e9])],
        );
        assert_eq!(check.holds, Some(true));
        assert_eq!(check.measured, "quaff pipe 2.79 GiB/s, mbuffer 1.86 GiB/s, buffer 954 MiB/s: 1.50");
        let check = faster(
            "34",
            "f".into(),
            RATIO_MIN,
            &[ours.clone(), rates("mbuffer", &[2.1e9]), rates("buffer", &[1e9])],
        );
        assert_eq!(check.holds, Some(false));
        let check = faster(
            "34",
            "f".into(),
            RATIO_MIN,
            &[ours.clone(), rates("mbuffer", &[1e9]), rates("buffer", &[])],
        );
        assert_eq!(check.holds, None);
        assert!(check.measured.contains("buffer: not installed"), "{}", check.measured);
        assert_eq!(
            faster("34", "f".into(), RATIO_MIN, &[rates("quaff pipe", &[]), rates("mbuffer", &[1e9])]).holds,
            None
        );
    }
}
