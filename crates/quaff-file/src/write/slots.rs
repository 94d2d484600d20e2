//! Rotation slots: the slot of a time, and the start of a slot. They follow local time through daylight saving, and a
//! clock that is set back.

use crate::write::name_template::NameTemplate;
use crate::write::plan::FileTime;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Changes of local time that are known ahead: two a year.
const CHANGES: usize = 64;
/// A clock set back by less than this does not renumber the slots, ns: the current slot ends as much later.
const TOLERANCE_NS: u64 = 1_000_000_000;

/// The rotation slots of `rotate_time`. Clones share the clock's steps back, so that all lanes number alike.
#[derive(Debug, Clone, Default)]
pub struct Slots {
    /// Length, ns; 0 is one endless slot.
    slot_ns: u64,
    /// Oldest first; at least one if `slot_ns` is not 0.
    eras: Arc<[Era]>,
    /// Slots by which the clock was set back since the start.
    shift: Arc<AtomicU64>,
}

/// A period with one offset of local time from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Era {
    /// Start of its first slot, ns since 1970.
    from_ns: u64,
    /// Its end, ns since 1970. Its last slot lasts until the next era's first slot.
    until_ns: u64,
    first_slot: u64,
}

impl Slots {
    /// Slots from 1970 on, in UTC.
    pub fn every(slot_ns: u64) -> Self {
        Self::new(slot_ns, 0, &[])
    }

    /// The slots of a run that begins at `now_ns`.
    pub(super) fn of(time: FileTime, names: &NameTemplate, now_ns: u64) -> Self {
        match time.is_from_start {
            true => Self::from_start(time.time, now_ns),
            false => Self::local(time.time, names, now_ns),
        }
    }

    /// Slots of which one begins at local midnight, if they divide a day; `now_ns` is in the first era.
    fn local(time: Duration, names: &NameTemplate, now_ns: u64) -> Self {
        let changes = names.zone_changes(now_ns, CHANGES);
        Self::new(nanoseconds(time), names.zone_offset_ns(now_ns), &changes)
    }

    /// Slots of which one begins at `start_ns`.
    fn from_start(time: Duration, start_ns: u64) -> Self {
        let slot_ns = nanoseconds(time);
        Self::new(slot_ns, -((start_ns % slot_ns.max(1)) as i64), &[])
    }

    /// `changes` are times, ns since 1970, with the offset of local time after them, ns.
    fn new(slot_ns: u64, offset_ns: i64, changes: &[(u64, i64)]) -> Self {
        if slot_ns == 0 {
            return Self::default();
        }
        let phase = |offset_ns: i64| (-offset_ns).rem_euclid(slot_ns as i64) as u64;
        let mut eras = vec![Era { from_ns: phase(offset_ns), until_ns: u64::MAX, first_slot: 0 }];
        for (at_ns, offset_ns) in changes {
            // An era that ends before its first slot begins has none: the slot before it is longer than that.
            let is_empty = eras.len() > 1 && eras.last().is_some_and(|era| era.from_ns > *at_ns);
            eras.truncate(eras.len() - usize::from(is_empty));
            let Some(last) = eras.last_mut() else { continue };
            last.until_ns = u64::MAX;
            if phase(*offset_ns) != last.from_ns % slot_ns {
                last.until_ns = *at_ns;
                let first_slot = last.slot_of(at_ns - 1, slot_ns) + 1;
                let from_ns = at_ns + (phase(*offset_ns) + slot_ns - at_ns % slot_ns) % slot_ns;
                eras.push(Era { from_ns, until_ns: u64::MAX, first_slot });
            }
        }
        Self { slot_ns, eras: eras.into(), shift: Arc::default() }
    }

    /// Returns the slot of a time, ns since 1970.
    pub fn slot_of(&self, time_ns: u64) -> u64 {
        let at = self.eras.partition_point(|era| era.from_ns <= time_ns).saturating_sub(1);
        let slot = self.eras.get(at).map_or(0, |era| era.slot_of(time_ns, self.slot_ns));
        // Relaxed: the number publishes no other memory.
        slot + self.shift.load(Ordering::Relaxed)
    }

    /// Returns the start of a slot, ns since 1970.
    pub fn start_ns(&self, slot: u64) -> u64 {
        let slot = slot.saturating_sub(self.shift.load(Ordering::Relaxed));
        let at = self.eras.partition_point(|era| era.first_slot <= slot).saturating_sub(1);
        self.eras
            .get(at)
            .map_or(0, |era| era.from_ns.saturating_add((slot - era.first_slot).saturating_mul(self.slot_ns)))
    }

    /// Returns the end of a slot, ns since 1970; `u64::MAX` if it is endless.
    pub fn end_ns(&self, slot: u64) -> u64 {
        if self.slot_ns == 0 { u64::MAX } else { self.start_ns(slot + 1) }
    }

    /// Follows a clock that was set back before the start of `slot`, the running one: it ends where the slot of the new
    /// time ends.
    pub fn follow(&self, slot: u64, wall_ns: u64) {
        if self.slot_ns == 0 || wall_ns.saturating_add(TOLERANCE_NS) >= self.start_ns(slot) {
            return;
        }
        let shift = self.shift.load(Ordering::Relaxed);
        let behind = slot.saturating_sub(self.slot_of(wall_ns));
        // If another lane was faster, this one looks again with its next batch.
        let _ = self.shift.compare_exchange(shift, shift + behind, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The length of a slot; one of centuries is endless.
fn nanoseconds(time: Duration) -> u64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX) as u64
}

impl Era {
    fn slot_of(&self, time_ns: u64, slot_ns: u64) -> u64 {
        let time_ns = time_ns.min(self.until_ns.saturating_sub(1));
        self.first_slot + time_ns.saturating_sub(self.from_ns) / slot_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const HOUR: u64 = 3600 * S;
    /// 2026-10-25 01:00 UTC: Berlin changes from UTC + 2 h to UTC + 1 h.
    const AUTUMN: u64 = 1_792_890_000 * S;
    /// 2027-03-28 01:00 UTC: and back.
    const SPRING: u64 = 1_806_195_600 * S;

    fn berlin(hours: u64) -> Slots {
        let hour = HOUR as i64;
        Slots::new(hours * HOUR, 2 * hour, &[(AUTUMN, hour), (SPRING, 2 * hour)])
    }

    #[test]
    fn days_end_at_local_midnight_when_the_clocks_change() {
        let days = berlin(24);
        let midnight = AUTUMN - 3 * HOUR;
        let day = days.slot_of(midnight);
        assert_eq!((days.slot_of(midnight - 1), days.start_ns(day)), (day - 1, midnight));
        assert_eq!(days.end_ns(day), midnight + 25 * HOUR, "the day of the change is longer");
        assert_eq!(
            (days.slot_of(midnight + 25 * HOUR - 1), days.slot_of(midnight + 25 * HOUR)),
            (day, day + 1)
        );
        let midnight = SPRING - 2 * HOUR;
        let day = days.slot_of(midnight);
        assert_eq!((days.start_ns(day), days.end_ns(day)), (midnight, midnight + 23 * HOUR));
    }

    #[test]
    fn slots_may_be_counted_from_the_start() {
        let start = AUTUMN + 17 * S;
        let slots = Slots::from_start(Duration::from_secs(20), start);
        let slot = slots.slot_of(start);
        assert_eq!((slots.start_ns(slot), slots.end_ns(slot)), (start, start + 20 * S));
        assert_eq!((slots.slot_of(start + 20 * S - 1), slots.slot_of(start + 20 * S)), (slot, slot + 1));
        // A time longer than that since 1970.
        let slots = Slots::from_start(Duration::from_secs(100 * 365 * 86_400), start);
        assert_eq!(slots.start_ns(slots.slot_of(start)), start);
        // Longer than a number of nanoseconds.
        for seconds in [10_000_000_000, 18_446_744_074, u64::MAX] {
            let slots = Slots::from_start(Duration::from_secs(seconds), start);
            let slot = slots.slot_of(start);
            assert_eq!((slots.start_ns(slot), slots.slot_of(start + 100 * 365 * 24 * HOUR)), (start, slot));
        }
    }

    #[test]
    fn hours_do_not_notice_the_change() {
        let hours = berlin(1);
        assert_eq!(hours.eras.len(), 1);
        assert_eq!(hours.slot_of(AUTUMN), hours.slot_of(AUTUMN - 1) + 1);
    }

    #[test]
    fn slots_are_consecutive_and_each_begins_where_the_last_one_ends() {
        for hours in [1, 2, 5, 6, 12, 24, 168, 250 * 24] {
            let slots = berlin(hours);
            let mut slot = slots.slot_of(AUTUMN - 100 * HOUR);
            while slots.start_ns(slot) < SPRING + 100 * HOUR {
                let (start, end) = (slots.start_ns(slot), slots.end_ns(slot));
                assert_eq!(
                    (slots.slot_of(start), slots.slot_of(end - 1), slots.slot_of(end)),
                    (slot, slot, slot + 1)
                );
                assert!(
                    end > start && end - start <= (hours + 1) * HOUR,
                    "{hours} h: {}",
                    (end - start) / HOUR
                );
                slot += 1;
            }
        }
    }

    #[test]
    fn a_clock_set_back_ends_the_slot_by_the_new_time() {
        let slots = Slots::every(10 * S);
        let (of_lane, of_other) = (slots.clone(), slots.clone());
        assert_eq!(slots.slot_of(105 * S), 10);
        of_lane.follow(10, 104 * S);
        assert_eq!(slots.slot_of(104 * S), 10, "forward is no step back");
        of_lane.follow(10, 57 * S);
        assert_eq!((slots.slot_of(57 * S), slots.end_ns(10)), (10, 60 * S));
        assert_eq!((slots.slot_of(60 * S), slots.start_ns(11)), (11, 60 * S));
        // A lane that had not reached slot 10 yet is moved along.
        of_other.follow(9, 57 * S);
        assert_eq!((of_other.slot_of(57 * S), of_other.end_ns(9)), (10, 50 * S));
        slots.follow(11, 59_500_000_000);
        assert_eq!(slots.slot_of(59_500_000_000), 10, "half a second is waited for");
    }

    #[test]
    fn without_a_length_there_is_one_slot() {
        let slots = Slots::default();
        assert_eq!((slots.slot_of(u64::MAX), slots.start_ns(0), slots.end_ns(0)), (0, 0, u64::MAX));
    }
}
