//! Conversations of frames, and the member of a bundle that takes each.
//!
//! A bundle of links carries one feed, as a switch's does: each frame goes by fields of its headers
//! ([`SplitFields`]), so that all of a conversation stays on one link. [`frame_flow`] reads the [`FlowKey`](crate::flow::FlowKey) of a frame, the
//! same in both directions; a [`Rendezvous`] assigns it to a member. Nothing is remembered here between two
//! frames, and none is changed; a fragment without ports names its datagram ([`Completeness`]), and
//! the caller has to remember the first fragment of that datagram.

mod fields;
mod frame_flow;
mod rendezvous;

pub use fields::SplitFields;
pub use frame_flow::{Completeness, FrameFlow, frame_flow};
pub use rendezvous::{MEMBERS_MAX, Rendezvous, WEIGHTS_MAX};
