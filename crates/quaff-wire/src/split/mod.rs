//! Which frames belong together, and which member of a bundle takes them.
//!
//! A bundle of links carries one feed, as a switch's does: each frame goes by fields of its headers
//! ([`By`]), so that all of a conversation stays on one link. [`find`] reads the [`Key`] of a frame, the
//! same in both directions; a [`Rendezvous`] says whose it is. Nothing is remembered here between two
//! frames, and none is changed; a fragment without ports says of which datagram it is ([`What`]), and
//! whoever asked has to remember that one's first.

mod by;
mod find;
mod key;
mod rendezvous;

pub use by::{By, UnknownField};
pub use find::{Datagram, Found, What, find};
pub use key::{Key, Macs, mix};
pub use rendezvous::{MEMBERS_MAX, Rendezvous, SLOTS, WEIGHTS_MAX};
