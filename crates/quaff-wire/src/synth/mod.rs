//! Synthetic traffic: frames of any sizes, flows, contents, protocols and damage, in sequence.
//!
//! A [`Recipe`] describes the traffic as plain data; a [`Synth`] generates its frames. The same recipe gives the same
//! frames: randomness comes from its seed, and the caller supplies the due times. Sending and pacing are done
//! elsewhere.
//!
//! UDP frames to the port of [`crate::probe`] carry a probe header if it fits. Sequence numbers count only these
//! frames, so that frames too small for a probe header do not appear lost.

mod alias;
mod content;
mod damage;
mod encapsulation;
mod flows;
mod fragments;
mod make;
mod packet;
mod recipe;
mod rng;
mod sizes;
mod tcp_conversation;
mod tuples;

use content::Pool;
pub use content::{Content, POOL_BYTES_MAX};
use damage::Harm;
pub use damage::{Damage, HARMS};
pub use encapsulation::{Encapsulation, LinkHeaders};
pub use flows::{Flows, New};
pub use make::{Made, Synth};
pub use recipe::{PacketKind, Recipe, RecipeError};
pub use rng::Rng;
use sizes::SizeSource;
pub use sizes::{HEADING, Histogram, SIZE_MAX, Sizes};
pub use tuples::{Addresses, Ports, Tuples};

#[cfg(test)]
mod tests;
