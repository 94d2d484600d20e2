//! The walk over a file that is not compressed: one decoder on a window, or several side by side on parts of the file.
//!
//! A part begins at a guess: the first bytes in it that look like a record or a block. Its counters are taken only if
//! the part before it ended exactly there, and in the same section; otherwise that part is walked again from where it
//! really begins. So a wrong guess costs time, and never makes a number wrong.

use super::survey::Survey;
use super::tally::Tally;
use super::window::Window;
use quaff_os::spawn_in;
use quaff_wire::decode::{Corrections, Damage, Decoder, Format, Item, Step};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

/// Length of a part.
pub(super) const PART_BYTES: u64 = 8 << 20;
/// With more interfaces than this in a section, one thread walks the file: each part has counters for all of them.
const INTERFACES_MAX: usize = 64;
/// Wrong guesses after which no more are made, if more guesses were wrong than right.
const REJECTED_MAX: u64 = 8;

#[derive(Debug)]
pub(super) enum WalkError {
    Io(io::Error),
    Damage(Damage),
}

/// The end of a walk without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walked {
    /// At the offset at which the decoder should stop.
    Stopped,
    /// At the end of the file.
    Ended,
    /// At an item that the caller refused.
    Refused,
}

/// A part of a file that was counted ahead.
#[derive(Debug)]
struct Part {
    /// Offset of its first unit, and of the first one after it.
    start: u64,
    end: u64,
    /// It ends with the file.
    is_last: bool,
    /// The section by which it was decoded.
    section: u64,
    tally: Tally,
    corrected: Corrections,
}

/// The state that parts begin with.
#[derive(Debug, Clone)]
struct Template {
    decoder: Decoder,
    section: u64,
    interfaces: usize,
    floor_ns: u64,
}

/// The parts of a file, as the threads share them.
struct Parts {
    part_bytes: u64,
    count: u64,
    /// The next part to be counted; each thread takes one. Relaxed: the number is all that is shared by it.
    next: AtomicU64,
    /// Set by the joining thread, read by the others, which end then. Relaxed: nothing else depends on it.
    is_over: AtomicBool,
    template: Mutex<Template>,
}

/// The walk over one file, and its survey so far.
pub(super) struct Walk<'a> {
    pub(super) window: &'a mut Window,
    pub(super) decoder: Decoder,
    pub(super) survey: Survey,
    /// Number of the current section, and of its interfaces.
    section: u64,
    /// The file is being written: it may end inside a packet.
    is_part: bool,
    /// Bytes of that packet.
    pub(super) unfinished_bytes: u64,
}

impl<'a> Walk<'a> {
    /// A walk from the start of a file.
    pub(super) fn new(window: &'a mut Window, is_part: bool) -> Self {
        let (decoder, survey) = (Decoder::default(), Survey::default());
        Self { window, decoder, survey, section: 0, is_part, unfinished_bytes: 0 }
    }

    /// Walks over the whole file, on this thread.
    pub(super) fn serial(&mut self) -> Result<(), WalkError> {
        self.until(u64::MAX).map(|_| ())
    }

    /// Walks over a file of `size` bytes with the help of a thread for each of `windows`.
    pub(super) fn parallel(
        &mut self,
        windows: Vec<Window>,
        part_bytes: u64,
        size: u64,
    ) -> Result<(), WalkError> {
        let count = size / part_bytes;
        // The first part describes the interfaces.
        let walked = self.until(part_bytes)?;
        if walked == Walked::Ended || count < 2 || self.survey.tally.interfaces.len() > INTERFACES_MAX {
            return self.serial();
        }
        let parts = Parts {
            part_bytes,
            count,
            next: AtomicU64::new(1),
            is_over: AtomicBool::new(false),
            template: Mutex::new(self.template()),
        };
        std::thread::scope(|scope| {
            let (done, finished) = channel();
            for mut window in windows {
                let (parts, done) = (&parts, done.clone());
                let body = move || count_parts(parts, &mut window, &done);
                // What no thread has counted is walked over here.
                if spawn_in(scope, "quaff-info", body).is_err() {
                    break;
                }
            }
            drop(done);
            let joined = self.join(&parts, &finished);
            parts.is_over.store(true, Ordering::Relaxed);
            joined
        })?;
        self.serial()
    }

    /// Joins the parts in their order, and walks over those that cannot be joined. The file continues after them.
    fn join(&mut self, parts: &Parts, finished: &Receiver<(u64, Option<Part>)>) -> Result<(), WalkError> {
        let (mut waiting, mut rejected) = (BTreeMap::new(), 0);
        for number in 1..parts.count {
            let part = loop {
                match waiting.remove(&number) {
                    Some(part) => break part,
                    None => match finished.recv() {
                        Ok((number, part)) => drop(waiting.insert(number, part)),
                        Err(_) => break None,
                    },
                }
            };
            let end = parts.range(number).end;
            if self.decoder.offset() >= end {
                continue;
            }
            match part.filter(|part| self.fits(part)) {
                Some(part) => {
                    self.survey.tally.absorb(&part.tally);
                    self.decoder.corrections().add(part.corrected);
                    self.decoder.move_to(part.end);
                    if part.is_last {
                        break;
                    }
                }
                None => {
                    rejected += 1;
                    self.seek()?;
                    if self.until(end)? == Walked::Ended {
                        break;
                    }
                }
            }
            if rejected > REJECTED_MAX && rejected * 2 > number
                || self.survey.tally.interfaces.len() > INTERFACES_MAX
            {
                break;
            }
            self.publish(parts);
        }
        self.seek()
    }

    fn fits(&self, part: &Part) -> bool {
        part.section == self.section
            && part.start == self.decoder.offset()
            && self.survey.tally.order.can_absorb(&part.tally.order)
    }

    /// Moves the window to the decoder's offset.
    fn seek(&mut self) -> Result<(), WalkError> {
        self.window.seek(self.decoder.offset()).map_err(WalkError::Io)
    }

    fn template(&self) -> Template {
        Template {
            decoder: self.decoder.clone(),
            section: self.section,
            interfaces: self.survey.tally.interfaces.len(),
            floor_ns: self.survey.tally.order.floor_ns(),
        }
    }

    /// Makes the current state the one that further parts begin with.
    fn publish(&self, parts: &Parts) {
        let mut template = parts.template.lock().unwrap_or_else(PoisonError::into_inner);
        template.floor_ns = self.survey.tally.order.floor_ns();
        if (template.section, template.interfaces) != (self.section, self.survey.tally.interfaces.len()) {
            *template = self.template();
        }
    }

    /// Walks from the decoder's offset, at which the window is, to the first unit that begins at `stop` or after it.
    fn until(&mut self, stop: u64) -> Result<Walked, WalkError> {
        self.decoder.stop_at(stop);
        let (survey, section) = (&mut self.survey, &mut self.section);
        let walked = walk(self.window, &mut self.decoder, |item| {
            *section += u64::from(matches!(item, Item::Section(_)));
            survey.item(item);
            true
        });
        match walked {
            Err(WalkError::Damage(damage)) if self.is_part && damage.is_cut() => {
                let unfinished = self.decoder.end_unfinished(self.window.bytes());
                self.unfinished_bytes = unfinished.map_err(WalkError::Damage)?;
                Ok(Walked::Ended)
            }
            walked => walked,
        }
    }
}

impl Parts {
    fn range(&self, number: u64) -> Range<u64> {
        let start = number * self.part_bytes;
        start..if number + 1 == self.count { u64::MAX } else { start + self.part_bytes }
    }
}

/// A thread: counts parts until there are no more.
fn count_parts(parts: &Parts, window: &mut Window, done: &Sender<(u64, Option<Part>)>) {
    loop {
        let number = parts.next.fetch_add(1, Ordering::Relaxed);
        if number >= parts.count || parts.is_over.load(Ordering::Relaxed) {
            return;
        }
        let template = parts.template.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let part = count_part(parts.range(number), template, window);
        if done.send((number, part)).is_err() {
            return;
        }
    }
}

/// Counts the units that begin in `range`; `None` if none is found, or if they need the state before them.
fn count_part(range: Range<u64>, template: Template, window: &mut Window) -> Option<Part> {
    let Template { mut decoder, section, interfaces, floor_ns } = template;
    window.seek(range.start).ok()?;
    let before = decoder.guess_unit(range.start, window.bytes())?;
    window.consume(before);
    decoder.stop_at(range.end);
    *decoder.corrections() = Corrections::default();
    let start = decoder.offset();
    let mut tally = Tally::of_part(interfaces, floor_ns, decoder.format() == Some(Format::Pcapng));
    let walked = walk(window, &mut decoder, |item| {
        match item {
            Item::Frame(frame) => tally.frame(frame),
            Item::Statistics(statistics) => tally.statistics(*statistics),
            Item::Names(_) => {}
            Item::Section(_) | Item::Interface(_) | Item::Jump(_) => return false,
        }
        true
    });
    let walked = walked.ok().filter(|walked| *walked != Walked::Refused)?;
    let corrected = *decoder.corrections();
    Some(Part { start, end: decoder.offset(), is_last: walked == Walked::Ended, section, tally, corrected })
}

/// Decodes from the start of the window until the decoder stops, the file ends, or `each` returns `false`.
fn walk(
    window: &mut Window,
    decoder: &mut Decoder,
    mut each: impl FnMut(&Item<'_>) -> bool,
) -> Result<Walked, WalkError> {
    let mut is_over = false;
    loop {
        let mut rest = window.bytes();
        let there = rest.len();
        let needed = loop {
            match decoder.next(&mut rest) {
                Ok(Step::Item(item)) if each(&item) => {}
                Ok(Step::Item(_)) => return Ok(Walked::Refused),
                Ok(Step::NeedMore(0)) => break None,
                Ok(Step::NeedMore(needed)) => break Some(needed),
                Err(damage) => return Err(WalkError::Damage(damage)),
            }
        };
        let consumed = there - rest.len();
        window.consume(consumed);
        let Some(needed) = needed else { return Ok(Walked::Stopped) };
        if is_over {
            return decoder.end(window.bytes()).map(|()| Walked::Ended).map_err(WalkError::Damage);
        }
        if !window.more(needed).map_err(WalkError::Io)? {
            // Bytes at the end may have waited for others to be recognised.
            is_over = true;
            decoder.no_more();
        }
    }
}
