//! Conversations of frames, for a split over the members of a bundle.
//!
//! A bundle of links carries one feed, as a switch's does: each frame goes by fields of its headers
//! ([`SplitFields`]), so that all of a conversation stays on one link. [`frame_flow`] reads the
//! [`FlowKey`](crate::flow::FlowKey) of a frame, the same in both directions; the engine assigns it to a member.
//! Nothing is remembered here between two frames, and none is changed; a fragment without ports names its datagram
//! ([`Completeness`]), and the caller has to remember the first fragment of that datagram.

mod fields;
mod frame_flow;

pub use fields::SplitFields;
pub use frame_flow::{Completeness, FrameFlow, frame_flow};
