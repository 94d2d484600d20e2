//! Back-to-back frames: the longest burst that a rival captures without loss, over several repetitions, and the buffer
//! time derived from it (RFC 2544 §26.4, RFC 9004).

use super::line::{Line, Stop};
use crate::bench::result::{Burst as BurstRow, LimitedBy, Report};
use crate::search::{Burst, BurstPlan, buffer_s};
use crate::stats::median;

/// Default number of repetitions; RFC 2544 asks for 50.
const REPEATS: u32 = 5;
/// Shortest burst, frames; any ring holds this many.
const FRAMES_MIN: u64 = 64;
/// Consecutive lossy bursts of one length that make the length too long.
const TRIES: u32 = 2;

/// Searches one rival at one frame size.
pub(super) fn search(mut line: Line<'_>, report: &mut Report) -> Result<(), Stop> {
    let mut bursts = Bursts::default();
    let ended = bursts.search(&mut line);
    line.note_end(&ended);
    let row = bursts.row(line, report);
    report.bursts.push(row);
    ended
}

#[derive(Default)]
struct Bursts {
    frames: Vec<u64>,
    frames_max: u64,
    /// Offered rate of each burst, frames/s.
    offered_pps: Vec<f64>,
}

impl Bursts {
    fn search(&mut self, line: &mut Line<'_>) -> Result<(), Stop> {
        let max_pps = line.max_pps()?;
        let seconds = line.seconds(line.find.seconds, max_pps);
        self.frames_max = ((max_pps * seconds) as u64).max(FRAMES_MIN);
        for _ in 0..line.find.repeats.unwrap_or(REPEATS).max(1) {
            let mut burst = Burst::new(BurstPlan {
                min: FRAMES_MIN,
                max: self.frames_max,
                width: line.find.width,
                tries: TRIES,
                // Each repetition searches on its own, from the last result.
                start: self.frames.last().copied(),
            });
            while let Some(frames) = burst.next() {
                let tried = line.trial("longest burst", None, max_pps, frames)?;
                burst.tell(frames, tried.loss <= line.find.goal_loss);
                self.offered_pps.extend((tried.row.offered_pps > 0.0).then_some(tried.row.offered_pps));
            }
            self.frames.push(burst.frames());
        }
        Ok(())
    }

    fn row(self, mut line: Line<'_>, report: &Report) -> BurstRow {
        let Self { frames, frames_max, offered_pps } = self;
        let pps = median(&offered_pps).unwrap_or(0.0);
        let size = line.frame_bytes().unwrap_or_default();
        let never_full = frames.contains(&frames_max);
        if never_full {
            line.note("The longest tested burst lost nothing: the buffer was never full.".into());
        }
        let same = |rival: &str, bytes| rival == line.rival && bytes == size;
        let throughput = report
            .searches
            .iter()
            .find(|found| same(&found.rival, found.size) && found.setting == line.find.setting)
            // A result that the generator limited is not a throughput of the rival.
            .filter(|found| found.regular && found.limited_by == LimitedBy::Rival)
            .and_then(|found| found.lower_pps);
        let [buffer_s, buffer_corrected_s] =
            if never_full { [None; 2] } else { buffer_s(&frames, pps, throughput) };
        BurstRow {
            rival: line.rival.into(),
            size,
            mix: line.size.mix().map(str::to_owned),
            setting: line.find.setting.clone(),
            frames,
            frames_max,
            pps,
            buffer_s,
            buffer_corrected_s,
            notes: line.take_notes(),
        }
    }
}
