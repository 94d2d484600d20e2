//! Beds: how frames get from a sender to a capturer. Each is a [`Site`](crate::method::Site).
//!
//! ```text
//!    direct   quaff generate --inject ──▶ rx0
//!    real     quaff generate -o eth1, here or by ssh ──▶ … ──▶ eth0
//! ```

mod arrivals;
mod direct;
mod real;
mod sending;

pub use direct::Direct;
pub use real::Real;

pub(crate) use sending::Out;
