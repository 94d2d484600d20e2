//! Conversations of frames, for splitting traffic among the members of a bundle.
//!
//! A bundle of links carries one feed, as a switch's link aggregation does: each frame is assigned by fields of its
//! headers ([`SplitFields`]), so that a conversation stays on one link. [`frame_flow`] reads the
//! [`FlowKey`](crate::flow::FlowKey) of a frame, equal in both directions; the engine assigns it to a member. Nothing
//! is stored between frames, and no frame is changed; a fragment without ports names its datagram ([`Completeness`]),
//! and the caller must remember the first fragment of that datagram.

mod fields;
mod frame_flow;

pub use fields::SplitFields;
pub use frame_flow::{Completeness, FrameFlow, frame_flow};
