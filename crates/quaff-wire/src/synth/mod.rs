//! Synthetic traffic: frames of any sizes, flows, contents, protocols and damage, one after the other.
//!
//! A [`Recipe`] says what is wanted, as plain data; a [`Synth`] makes frame after frame of it. The same
//! recipe makes the same frames: what is random comes from its seed, and when a frame is due is for
//! the caller to say. How fast frames leave is not the business of this room.
//!
//! UDP frames on the port of [`crate::probe`] carry a probe header wherever it fits. Their numbers
//! count these frames, so that what is too small for a probe header is not missed.

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
