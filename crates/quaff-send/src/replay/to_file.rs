//! Writes the frames of a replay to a capture file instead of sending them. It never waits and opens no file.

use super::passes::{Passes, Sizes};
use crate::arena::{Arena, FrameMeta};
use crate::error::{PlanError, SendError};
use crate::feed::Feed;
use crate::file_records::{FileRecords, failed};
use crate::schedule::{Rate, Ratio, Schedule};
use crate::state::Snapshot;
use crate::supervise::Control;
use crate::tally::FeedTally;
use quaff_file::write::Format;
use quaff_os::process;
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Buffer for frames between the source and the file.
const ARENA_BYTES: usize = 4 << 20;
const ARENA_FRAMES: usize = 1 << 14;

/// The plan of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ToFilePlan {
    pub format: Format,
    /// Frames keep their times at the captured rate and at top speed. Otherwise they get the times at which they would
    /// be sent, relative to the first one.
    pub rate: Rate,
    /// Longest gap between frames of the captured rate.
    pub gap_max: Option<Duration>,
    /// Number of passes; `None` repeats up to the limit.
    pub loops: Option<u64>,
    /// Give each pass its own addresses.
    pub unique_ip: bool,
    /// Maximum number of frames.
    pub limit: Option<u64>,
    /// Write only frames that are due within this time of the first one.
    pub duration: Option<Duration>,
}

impl ToFilePlan {
    /// Returns an error if the file would have no end, or the rate is out of range.
    pub fn check(&self) -> Result<(), SendError> {
        if self.loops.is_none() && self.limit.is_none() && self.duration.is_none() {
            return Err(PlanError::Endless.into());
        }
        self.schedule().map(drop)
    }

    /// The times of the frames; `None` keeps those of the input.
    fn schedule(&self) -> Result<Option<Schedule>, SendError> {
        let keeps = match self.rate {
            Rate::Captured(rate) => rate == Ratio { num: 1, den: 1 } && self.gap_max.is_none(),
            rate => rate == Rate::Topspeed,
        };
        let schedule = (!keeps).then(|| Schedule::new(self.rate)).transpose()?;
        Ok(schedule.map(|schedule| schedule.with_gap_max(self.gap_max)))
    }
}

/// The result of writing a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ToFileReport {
    /// Packets in the input.
    pub in_file: u64,
    /// Frames written.
    pub written: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Passes that were started.
    pub loops: u64,
    pub feed: FeedTally,
    /// Damage of an input file; all packets before it are written.
    pub damage: Option<String>,
    /// True if the watcher ended the writing.
    pub interrupted: bool,
}

impl ToFileReport {
    /// Returns `true` if every packet was written, except those that the plan excludes.
    pub fn is_whole(&self) -> bool {
        self.damage.is_none() && self.feed.link_type + self.feed.rewritten.mtu_skipped == 0
    }
}

/// Writes the frames of `feed`, which has begun, to `out`; errors call it `name`. `watch` is called periodically; its
/// answer continues or ends the writing.
pub fn replay_to_file(
    plan: &ToFilePlan,
    feed: Box<dyn Feed>,
    out: &mut dyn Write,
    name: &str,
    mut watch: impl FnMut(&Snapshot) -> Control,
) -> Result<ToFileReport, SendError> {
    plan.check()?;
    let begun = Instant::now();
    let sizes = Sizes { min: 0, max: usize::MAX, mtu: None };
    let mut passes = Passes::new(feed, sizes, plan.loops, plan.limit, plan.unique_ip);
    let mut arena = Arena::new(ARENA_BYTES, ARENA_FRAMES);
    let mut records = Records::new(plan)?;
    let mut report = ToFileReport::default();
    let mut more = true;
    let mut put = |records: &mut Records| {
        let put = records.file.put(out);
        put.map_err(|errno| failed(name, records.file.written, errno))
    };
    // Written before the first frame is read, so that a file without frames has a header.
    put(&mut records)?;
    // A pass that fits into the arena is read once.
    let (mut is_first, mut is_kept) = (true, false);
    while more {
        if is_kept {
            more = passes.again(&mut arena);
        } else {
            arena.clear();
            more = passes.fill(&mut arena)?;
            is_kept = is_first && more && arena.ends_pass;
            is_first = false;
        }
        if more || !is_kept {
            records.add(&arena)?;
        }
        more &= !records.has_ended;
        if more && is_kept && records.file.waiting_bytes() < ARENA_BYTES {
            continue;
        }
        put(&mut records)?;
        let (sent, bytes, elapsed_ns) = (records.frames, records.bytes, begun.elapsed().as_nanos() as u64);
        match watch(&Snapshot { sent, bytes, elapsed_ns, ..Snapshot::default() }) {
            Control::Stop => report.interrupted = more,
            // A process that cannot be stopped continues.
            Control::Suspend => process::stop_self().unwrap_or_default(),
            Control::Go | Control::Step => {}
        }
        more &= !report.interrupted && !records.has_ended;
    }
    Ok(ToFileReport {
        in_file: passes.feed.tally().seen,
        written: records.frames,
        bytes: records.bytes,
        loops: passes.begun(records.frames),
        feed: passes.feed.tally(),
        damage: passes.feed.damage(),
        ..report
    })
}

/// State of the frames on their way into the file.
struct Records {
    file: FileRecords,
    schedule: Option<Schedule>,
    /// Times of frames that keep theirs.
    clock: PassClock,
    /// Nothing but the duration ends the file.
    is_endless: bool,
    duration_ns: Option<u64>,
    /// Time of the first frame, ns.
    first_ns: Option<u64>,
    /// True once the next frame is due after the end.
    has_ended: bool,
    frames: u64,
    bytes: u64,
}

/// Continues the captured times over passes: the first frame of a pass has the time of the latest one before it, as
/// where passes are sent. The first pass stays as it is.
#[derive(Debug, Default)]
struct PassClock {
    shift_ns: i128,
    latest_ns: i128,
    begins_pass: bool,
}

impl PassClock {
    /// The time of the next frame, ns; `None` if it is after 2554.
    fn time_ns(&mut self, captured_ns: u64) -> Option<u64> {
        let captured_ns = i128::from(captured_ns);
        if std::mem::take(&mut self.begins_pass) {
            self.shift_ns = self.latest_ns - captured_ns;
        }
        let time_ns = captured_ns + self.shift_ns;
        self.latest_ns = self.latest_ns.max(time_ns);
        u64::try_from(time_ns.max(0)).ok()
    }
}

impl Records {
    fn new(plan: &ToFilePlan) -> Result<Self, SendError> {
        Ok(Self {
            file: FileRecords::new(plan.format, 2 * ARENA_BYTES),
            schedule: plan.schedule()?,
            clock: PassClock::default(),
            is_endless: plan.loops.is_none() && plan.limit.is_none(),
            duration_ns: plan.duration.map(|duration| duration.as_nanos() as u64),
            first_ns: None,
            has_ended: false,
            frames: 0,
            bytes: 0,
        })
    }

    fn add(&mut self, arena: &Arena) -> Result<(), SendError> {
        for (frame, meta) in arena.frames() {
            let first_ns = *self.first_ns.get_or_insert(meta.time_ns);
            let time_ns = self.time_ns(first_ns, frame, &meta);
            let time_ns = time_ns.filter(|time_ns| self.file.takes(*time_ns)).ok_or(PlanError::FileTime)?;
            if self.duration_ns.is_some_and(|duration_ns| time_ns.saturating_sub(first_ns) > duration_ns) {
                self.has_ended = true;
                return Ok(());
            }
            self.push(frame, meta, time_ns);
        }
        if arena.ends_pass { self.end_pass() } else { Ok(()) }
    }

    /// Ends a pass. Passes that take no time never come to an end that is a duration.
    fn end_pass(&mut self) -> Result<(), SendError> {
        let first_ns = self.first_ns.unwrap_or(0);
        let (end_ns, begins_pass) = match &mut self.schedule {
            Some(schedule) => {
                schedule.next_pass();
                (first_ns.saturating_add(schedule.end().ns), false)
            }
            None => (u64::try_from(self.clock.latest_ns).unwrap_or(u64::MAX), true),
        };
        self.clock.begins_pass = begins_pass;
        if self.is_endless && end_ns <= first_ns {
            return Err(PlanError::Endless.into());
        }
        Ok(())
    }

    fn time_ns(&mut self, first_ns: u64, frame: &[u8], meta: &FrameMeta) -> Option<u64> {
        match &mut self.schedule {
            Some(schedule) => first_ns.checked_add(schedule.due(frame.len(), meta).ns),
            None => self.clock.time_ns(meta.time_ns),
        }
    }

    fn push(&mut self, frame: &[u8], meta: FrameMeta, time_ns: u64) {
        self.file.push(time_ns, frame, meta.wire_len.max(frame.len() as u32));
        self.frames += 1;
        self.bytes += frame.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::testing::Frames;
    use quaff_wire::decode::{Decoder, Item, Step};

    fn plan(format: Format) -> ToFilePlan {
        let rate = Rate::Captured(Ratio { num: 1, den: 1 });
        let (gap_max, limit, duration) = (None, None, None);
        ToFilePlan { format, rate, gap_max, loops: Some(1), unique_ip: false, limit, duration }
    }

    /// The times and bytes of the frames in a file written from one frame for each of `times`.
    fn written(plan: &ToFilePlan, times: &[u64]) -> (Vec<(u64, Vec<u8>)>, ToFileReport) {
        let frames = times
            .iter()
            .zip(1u8..)
            .map(|(time_ns, number)| (vec![number; 40 + usize::from(number)], *time_ns));
        let mut file = Vec::new();
        let feed = Frames::boxed(frames.collect::<Vec<_>>());
        let report = replay_to_file(plan, feed, &mut file, "a file", |_| Control::Go).unwrap();
        let (mut decoder, mut rest, mut all) = (Decoder::default(), &file[..], Vec::new());
        while let Ok(Step::Item(item)) = decoder.next(&mut rest) {
            if let Item::Frame(frame) = item {
                all.push((frame.time_ns, frame.data.to_vec()));
            }
        }
        assert_eq!((rest.len(), all.len() as u64), (0, report.written));
        (all, report)
    }

    #[test]
    fn frames_keep_their_times_and_bytes_in_each_format() {
        for format in [Format::Pcapng, Format::Pcap, Format::PcapUs] {
            let (frames, report) = written(&plan(format), &[5_000, 9_000, 7_000]);
            assert_eq!(frames.iter().map(|(time_ns, _)| *time_ns).collect::<Vec<_>>(), [5_000, 9_000, 7_000]);
            assert!(
                frames
                    .iter()
                    .zip(1u8..)
                    .all(|((_, bytes), number)| bytes[..] == vec![number; 40 + usize::from(number)])
            );
            assert_eq!((report.written, report.bytes, report.loops), (3, 126, 1));
        }
    }

    /// A pass that is read once and repeated is as one that is read each time.
    #[test]
    fn passes_in_memory_are_as_those_that_are_read() {
        let frame = |last: u8| {
            let mut frame = vec![0; 60];
            frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59]);
            // The lower address becomes the higher one in the second pass.
            frame[26..34].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, last]);
            frame
        };
        for unique_ip in [false, true] {
            let plan = ToFilePlan { loops: Some(9), limit: Some(23), unique_ip, ..plan(Format::Pcap) };
            let mut files = [Vec::new(), Vec::new()];
            for (file, burst) in files.iter_mut().zip([0, 1]) {
                let frames = [1, 2, 3].map(|last| (frame(last), u64::from(last) * 1000));
                let feed = Box::new(Frames::new(frames, burst));
                let report = replay_to_file(&plan, feed, file, "a file", |_| Control::Go).unwrap();
                assert_eq!((report.written, report.loops), (23, 8));
            }
            assert!(files[0] == files[1], "{unique_ip}");
        }
    }

    /// pcap has seconds of 32 bits, which end in 2106.
    #[test]
    fn a_time_that_the_format_cannot_hold_is_an_error() {
        let late = 4_294_967_295 * 1_000_000_000;
        let (twice, mut file) = (ToFilePlan { loops: Some(3), ..plan(Format::Pcap) }, Vec::new());
        let feed = Frames::boxed([(vec![1; 60], late), (vec![2; 60], late + 600_000_000)]);
        let error = replay_to_file(&twice, feed, &mut file, "", |_| Control::Go).unwrap_err();
        assert!(error.to_string().contains("pcapng"), "{error}");
        assert_eq!(written(&plan(Format::Pcapng), &[late * 2]).0[0].0, late * 2);
    }

    #[test]
    fn a_rate_gives_new_times_and_limits_end_the_file() {
        let times = |plan: &ToFilePlan| {
            written(plan, &[1_000, 501_000, 601_000])
                .0
                .into_iter()
                .map(|(time_ns, _)| time_ns)
                .collect::<Vec<_>>()
        };
        let at_rate =
            ToFilePlan { rate: Rate::Frames(Ratio::of(1e6).unwrap()), loops: Some(2), ..plan(Format::Pcap) };
        assert_eq!(times(&at_rate), [1_000, 2_000, 3_000, 4_000, 5_000, 6_000]);
        let capped = ToFilePlan { gap_max: Some(Duration::from_micros(200)), ..plan(Format::Pcap) };
        assert_eq!(times(&capped), [1_000, 201_000, 301_000]);
        assert_eq!(
            times(&ToFilePlan { limit: Some(5), loops: None, ..plan(Format::Pcap) }),
            [1_000, 501_000, 601_000, 601_000, 1_101_000],
            "the second pass continues"
        );
        let for_long = Some(Duration::from_micros(1_100));
        assert_eq!(
            times(&ToFilePlan { duration: for_long, loops: None, ..plan(Format::Pcap) }),
            [1_000, 501_000, 601_000, 601_000, 1_101_000]
        );
        assert_eq!(
            times(&ToFilePlan { duration: Some(Duration::from_micros(500)), ..plan(Format::Pcap) }),
            [1_000, 501_000]
        );
        let mut file = Vec::new();
        let one = Frames::boxed([(vec![1; 60], 7)]);
        let timeless = ToFilePlan { duration: for_long, loops: None, ..plan(Format::Pcap) };
        let error = replay_to_file(&timeless, one, &mut file, "", |_| Control::Go).unwrap_err();
        assert!(error.to_string().contains("without an end"), "{error}");
        let endless = ToFilePlan { loops: None, ..plan(Format::Pcap) };
        let error =
            replay_to_file(&endless, Frames::boxed(std::iter::empty()), &mut Vec::new(), "", |_| Control::Go);
        assert!(error.unwrap_err().to_string().contains("`loop`"));
        assert!(endless.check().is_err() && at_rate.check().is_ok());
        let stopped = ToFilePlan { rate: Rate::Frames(Ratio { num: 0, den: 1 }), ..plan(Format::Pcap) };
        assert!(stopped.check().is_err(), "a rate of nothing");
    }
}
