//! Beds: how frames get from a sender to a capturer. Each is a [`Site`](crate::method::Site).
//!
//! ```text
//!    direct   quaff generate --inject ──▶ rx0
//!    span     quaff generate -o tx0 ──▶ bridge ◀── quaff generate -o tx1; a port's mirror ──▶ rx0
//!    tap      the same through a wire that shows both directions ──▶ rx0
//!    real     quaff generate -o eth1, here or by ssh ──▶ … ──▶ eth0
//! ```

mod arrivals;
mod between;
mod direct;
mod real;
mod sending;

pub use between::Between;
pub use direct::Direct;
pub use real::Real;

pub(crate) use sending::Out;
