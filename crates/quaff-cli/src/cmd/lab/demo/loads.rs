//! The loads of the demo: chosen by the measured speed of the disk and of the generator.
//!
//! A fixed load shows nothing on a machine that is much faster or slower than the author's, so each load is a part of
//! the disk's measured speed, and lasts long enough to fill the buffers of a capturer that cannot keep up.

use crate::show;
use quaff_lab::traffic::Traffic;

/// Bytes that a capture file adds to a frame: the block around it.
const RECORD_BYTES: f64 = 44.0;
/// Seconds of traffic, if the disk has room for it.
const SECONDS: f64 = 3.0;
/// Longest traffic, s: time to fill a buffer at a rate slightly above that of the disk.
const SECONDS_MAX: f64 = 8.0;
/// Seconds that the disk may take to write one load: a capturer that has all of it in memory must write it.
const DRAIN_SECONDS_MAX: f64 = 12.0;
/// The parts of the disk's speed of the three loads for it; the last is larger on a slow disk.
const EASY: f64 = 0.25;
const NEAR: f64 = 0.7;
const BEYOND: f64 = 1.5;
/// Frames from this size on load the disk; smaller ones load the processors.
const DISK_FRAME_BYTES: u32 = 512;
/// More than this part of the generator's speed is not asked of it at a steady rate.
const STEADY: f64 = 0.9;
/// MiB of buffer of each capturer, if the disk has room for files much larger than that.
const BUFFER_MIB: u64 = 256;
/// The smallest buffer that every capturer accepts.
const BUFFER_MIB_MIN: u64 = 32;

/// Measured abilities of this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Abilities {
    /// Bytes/s that the disk took in the test, on new blocks.
    pub(super) disk: f64,
    /// Frames/s that the generator makes of the largest size.
    pub(super) pps: f64,
    /// Bytes that one file may have.
    pub(super) room: u64,
}

/// Relation of a load to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Every capturer should keep up.
    Easy,
    /// Below the write rate of the disk, but its latencies are long.
    Near,
    /// No capturer can write it as fast as it arrives.
    Beyond,
    /// As fast as the generator can, below the write rate of the disk.
    Fastest,
    /// Small frames as fast as possible: work for the processors.
    Small,
}

impl Class {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Easy => "Well below the disk's speed",
            Self::Near => "Near the disk's speed",
            Self::Beyond => "Above the disk's speed",
            Self::Fastest => "As fast as this machine can send",
            Self::Small => "Small frames",
        }
    }
}

/// One load.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) class: Class,
    pub(super) traffic: Traffic,
}

impl Abilities {
    /// MiB of buffer of each capturer: small enough that a file can be several times as large.
    pub(super) fn buffer_mib(&self) -> u64 {
        ((self.room / 4) >> 20).clamp(BUFFER_MIB_MIN, BUFFER_MIB)
    }

    fn buffer_bytes(&self) -> f64 {
        (self.buffer_mib() << 20) as f64
    }

    /// The loads for frames of these sizes, each of at most `count_max` frames.
    pub(super) fn loads(&self, sizes: &[u32], count_max: Option<u64>) -> Vec<Load> {
        let of_size = |bytes: &u32| match *bytes {
            bytes if bytes < DISK_FRAME_BYTES => vec![self.load(Class::Small, bytes, None)],
            bytes => self.disk_loads(bytes),
        };
        let mut loads: Vec<_> = sizes.iter().flat_map(of_size).collect();
        for load in &mut loads {
            load.traffic.count = load.traffic.count.min(count_max.unwrap_or(u64::MAX)).max(1);
        }
        loads
    }

    fn disk_loads(&self, bytes: u32) -> Vec<Load> {
        let each = f64::from(bytes) + RECORD_BYTES;
        let wanted = |part: f64| part * self.disk / each;
        let steady = |part: f64| Some(wanted(part)).filter(|pps| *pps < STEADY * self.pps);
        let mut loads = Vec::new();
        for (class, part) in [(Class::Easy, EASY), (Class::Near, NEAR)] {
            let Some(pps) = steady(part) else { break };
            loads.push(self.load(class, bytes, Some(pps)));
        }
        let is_beyond = self.pps * each > 1.1 * self.disk;
        // A slow disk needs a larger part to fill the buffers in that time.
        let part = BEYOND.max(1.0 + 2.0 * self.buffer_bytes() / (self.disk * SECONDS));
        match (is_beyond, steady(part)) {
            (true, pps) => loads.push(self.load(Class::Beyond, bytes, pps)),
            (false, _) => loads.push(self.load(Class::Fastest, bytes, None)),
        }
        loads
    }

    /// `pps` is `None` for as fast as possible.
    fn load(&self, class: Class, bytes: u32, pps: Option<f64>) -> Load {
        let each = f64::from(bytes) + RECORD_BYTES;
        let rate = pps.unwrap_or(self.pps);
        let seconds = match class {
            // Twice the buffer is too much for the disk.
            Class::Beyond => {
                let excess = (rate * each - self.disk).max(1.0);
                (2.0 * self.buffer_bytes() / excess).clamp(SECONDS, SECONDS_MAX)
            }
            _ => SECONDS,
        };
        let count = (rate * seconds).min(DRAIN_SECONDS_MAX * self.disk / each);
        let mut traffic = Traffic::bytes(bytes, pps.map(|pps| pps.max(1.0) as u64), count as u64);
        fit(&mut traffic, self.room);
        Load { class, traffic }
    }
}

/// Cuts the number of frames down to those that a file of `room` bytes can hold.
pub(super) fn fit(traffic: &mut Traffic, room: u64) {
    let fixed = Traffic { count: 0, ..traffic.clone() }.file_bytes();
    let share = room.saturating_sub(fixed) as f64 / (traffic.file_bytes() - fixed).max(1) as f64;
    traffic.count = (traffic.count as f64 * share.min(1.0)) as u64;
}

impl Load {
    /// Bytes/s that arrive for the file at a rate of frames.
    pub(super) fn file_rate(&self, pps: f64) -> f64 {
        pps * (f64::from(self.traffic.frame_bytes) + RECORD_BYTES)
    }

    /// The line above its rows; `disk` in bytes/s.
    pub(super) fn title(&self, disk: f64) -> String {
        let name = self.class.name();
        let bytes = self.traffic.frame_bytes;
        match self.traffic.pps {
            Some(pps) => {
                let rate = self.file_rate(pps as f64);
                let (rate, percent) = (show::byte_rate(rate), 100.0 * rate / disk);
                format!("{name}: {bytes} B frames, {rate} ({percent:.0} % of it)")
            }
            None => format!("{name}: {bytes} B frames, as fast as possible"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn classes(disk: f64, pps: f64) -> Vec<Class> {
        let loads = Abilities { disk, pps, room: 10 * GIB }.loads(&[1500, 64], None);
        loads.iter().map(|load| load.class).collect()
    }

    #[test]
    fn loads_follow_the_disk() {
        use Class::{Beyond, Easy, Fastest, Near, Small};
        assert_eq!(classes(1.6e9, 1.5e6), [Easy, Near, Beyond, Small]);
        assert_eq!(classes(50e6, 1.5e6), [Easy, Near, Beyond, Small]);
        // A disk that is faster than anything this machine can send.
        assert_eq!(classes(7e9, 0.3e6), [Fastest, Small]);
        assert_eq!(classes(7e9, 2e6), [Easy, Fastest, Small]);
    }

    #[test]
    fn files_fit_the_room_and_overflow_the_buffers() {
        for (disk, pps, room) in [(1.6e9, 1.5e6, 10 * GIB), (50e6, 1.5e6, GIB), (2e9, 1e6, 130 << 20)] {
            let it = Abilities { disk, pps, room };
            assert!((32..=256).contains(&it.buffer_mib()));
            for load in it.loads(&[1500, 64], None) {
                assert!(load.traffic.file_bytes() <= room, "{load:?}");
                assert!(load.traffic.count >= 10_000, "{load:?}");
                let seconds = load.traffic.count as f64 / load.traffic.pps.map_or(pps, |pps| pps as f64);
                assert!(seconds < SECONDS_MAX + 0.1, "{load:?}");
            }
        }
        let short = Abilities { disk: 1e9, pps: 1e6, room: GIB }.loads(&[1500], Some(500));
        assert!(short.iter().all(|load| load.traffic.count == 500));
    }
}
