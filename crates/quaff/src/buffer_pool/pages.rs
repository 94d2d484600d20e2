//! The size of the pages of buffers, chosen while the first ones are populated.
//!
//! Huge pages cost the least to use and mostly the least to populate. But the host of a virtual machine may take free
//! memory back in pieces of that size and more (free page reporting, Linux 5.7): then each huge page has to be found
//! again, at 2.5 s/GiB, while the small ones that the machine has kept to itself take a quarter of a second. The first
//! buffers, which are used over and over, are of huge pages in any case.

use quaff_os::{Buffer, HUGE_BYTES};
use std::time::{Duration, Instant};

/// Buffers that are populated with pages of one size before it is chosen anew.
const GROUP: usize = 4;
/// Slower populating than this makes small pages worth a try, bytes/s.
const SLOW: f64 = 1e9;
/// Small pages must be faster by this factor, since they cost more to use.
const GAIN: f64 = 2.0;

/// The pages of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Huge,
    Small,
}

/// Chooses the pages of the next buffer by the times of those before.
#[derive(Debug)]
pub(super) struct Pages {
    size: Size,
    has_choice: bool,
    /// The times of the buffers of this group.
    times: Vec<Duration>,
    /// The pace of the last group of each size, bytes/s.
    huge: Option<f64>,
    small: Option<f64>,
}

impl Pages {
    /// The pages of buffers of `buffer_bytes`.
    pub(super) fn new(buffer_bytes: usize) -> Self {
        let has_choice = buffer_bytes >= HUGE_BYTES;
        Self { size: Size::Huge, has_choice, times: Vec::with_capacity(GROUP), huge: None, small: None }
    }

    /// Populates a buffer.
    pub(super) fn populate(&mut self, buffer: &Buffer) -> quaff_os::Result<()> {
        let begun = Instant::now();
        match self.size {
            Size::Huge => buffer.populate()?,
            Size::Small => buffer.populate_small()?,
        }
        self.took(buffer.len(), begun.elapsed());
        Ok(())
    }

    /// Prepares buffers that are populated later.
    pub(super) fn advise<'a>(&self, buffers: impl Iterator<Item = &'a Buffer>) {
        // Without a pace it is a try that has not ended.
        if self.size == Size::Small && self.small.is_some() {
            buffers.for_each(Buffer::advise_small);
        }
    }

    fn took(&mut self, buffer_bytes: usize, time: Duration) {
        if !self.has_choice {
            return;
        }
        self.times.push(time);
        if self.times.len() < GROUP {
            return;
        }
        self.times.sort_unstable();
        // The middle ones: now and then the kernel takes long for one.
        let typical = (self.times[GROUP / 2 - 1] + self.times[GROUP / 2]) / 2;
        let pace = Some(buffer_bytes as f64 / typical.as_secs_f64());
        match self.size {
            Size::Huge => self.huge = pace,
            Size::Small => self.small = pace,
        }
        self.times.clear();
        self.size = self.better();
    }

    fn better(&self) -> Size {
        match (self.huge, self.small) {
            (Some(huge), _) if huge >= SLOW => Size::Huge,
            (Some(huge), Some(small)) if small < GAIN * huge => Size::Huge,
            (None, _) => Size::Huge,
            _ => Size::Small,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages after buffers of 4 MiB that took so many ms each; 1 GB/s is 4.2 ms.
    fn after(times_ms: impl IntoIterator<Item = u64>) -> Pages {
        let mut pages = Pages::new(4 << 20);
        times_ms.into_iter().for_each(|ms| pages.took(4 << 20, Duration::from_millis(ms)));
        pages
    }

    #[test]
    fn small_pages_are_tried_where_huge_ones_are_slow_and_stay_where_they_are_faster() {
        assert_eq!(after([1; 100]).size, Size::Huge);
        assert_eq!(after([1, 1, 1, 10, 1, 1, 1, 50]).size, Size::Huge, "one of four");
        let slow = [1, 1, 1, 1, 10, 10, 10, 10];
        assert_eq!(after(slow).size, Size::Small, "a try");
        assert_eq!(after(slow.into_iter().chain([4, 4, 30, 50])).size, Size::Huge, "no gain");
        assert_eq!(after(slow.into_iter().chain([4, 4, 4, 50]).chain([3; 40])).size, Size::Small);
        assert_eq!(after(slow.into_iter().chain([4; 4]).chain([9; 4])).size, Size::Huge, "no longer");
        assert_eq!(after(slow.into_iter().chain([9; 4]).chain([10; 40])).size, Size::Huge, "one try");
    }

    #[test]
    fn the_first_buffers_are_of_huge_pages_and_little_ones_have_no_choice() {
        assert_eq!(after([100; 3]).size, Size::Huge);
        let mut little = Pages::new(1 << 20);
        (0..9).for_each(|_| little.took(1 << 20, Duration::from_secs(1)));
        assert_eq!(little.size, Size::Huge);
    }

    #[test]
    fn buffers_are_populated_with_either() {
        for size in [Size::Huge, Size::Small] {
            let mut pages = Pages { size, ..Pages::new(4 << 20) };
            let mut buffer = Buffer::with_huge_pages(4 << 20).unwrap();
            pages.advise([&buffer].into_iter());
            pages.populate(&buffer).unwrap();
            assert_eq!(pages.times.len(), 1);
            buffer[5 << 10] = 1;
        }
    }
}
