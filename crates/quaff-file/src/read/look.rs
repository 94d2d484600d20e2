//! Looks: packets of a part that a thread decodes ahead of the decoder. It never reads a file, and never decides which
//! looks count.
//!
//! A part of a file is looked at from the first bytes in it that look like a record or a block. The decoder takes what
//! was seen only if it arrives exactly there, and in the state from which the look began; otherwise it decodes the part
//! itself. So a wrong guess costs time, and never makes a result wrong.

use quaff_wire::decode::{Corrections, Decoder};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// The result of a look, of a type that the look and its taker know.
pub type Seen = Box<dyn Any + Send>;

/// Looks at the packets of parts, on one of several threads.
pub trait Look: Send {
    /// Takes packets with `decoder` from the front of `rest`, which is the end of `part`, as long as they need nothing
    /// before them. The result replaces that of an earlier part in `seen`, if there is one.
    fn look(&mut self, decoder: &mut Decoder, part: &[u8], rest: &mut &[u8], seen: &mut Option<Seen>);
}

/// Makes a look for each thread.
pub type MakeLook = Arc<dyn Fn() -> Box<dyn Look> + Send + Sync>;

/// The place of a look in the file, and the state from which it began.
#[derive(Debug)]
pub(super) struct Glance {
    /// The state of the decoder from which the look began.
    pub(super) version: u64,
    /// File offsets of the first packet, and of the first byte after the last one.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) corrected: Corrections,
}

/// The state from which looks begin.
struct Beginning {
    version: u64,
    decoder: Decoder,
    make: MakeLook,
}

/// The state from which looks begin, once there is one: written by the decoder's thread, read by all.
#[derive(Clone, Default)]
pub(super) struct Board(Arc<Mutex<Option<Arc<Beginning>>>>);

/// The look of one thread, and the version that it was made for.
#[derive(Default)]
pub(super) struct Looker {
    begun: Option<(Arc<Beginning>, Box<dyn Look>)>,
}

impl Board {
    /// Makes `decoder` the state from which looks begin.
    pub(super) fn publish(&self, version: u64, decoder: Decoder, make: MakeLook) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Arc::new(Beginning { version, decoder, make }));
    }
}

impl Looker {
    /// Looks at `part`, which is at `offset` of the file.
    pub(super) fn look(
        &mut self,
        board: &Board,
        part: &[u8],
        offset: u64,
        seen: &mut Option<Seen>,
    ) -> Option<Glance> {
        let current = board.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        if !self.begun.as_ref().is_some_and(|(begun, _)| Arc::ptr_eq(begun, &current)) {
            let look = (current.make)();
            self.begun = Some((current, look));
        }
        let (begun, look) = self.begun.as_mut()?;
        let mut decoder = begun.decoder.clone();
        *decoder.corrections() = Corrections::default();
        let before = decoder.guess_unit(offset, part)?;
        let (start, mut rest) = (decoder.offset(), &part[before..]);
        look.look(&mut decoder, part, &mut rest, seen);
        let corrected = *decoder.corrections();
        Some(Glance { version: begun.version, start, end: decoder.offset(), corrected })
    }
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Board")
    }
}

impl std::fmt::Debug for Looker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Looker")
    }
}
