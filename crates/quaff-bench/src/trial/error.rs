//! The errors of a trial that leave no report.

use super::plan::PlanError;
use quaff_send::SendError;
use quaff_wire::printable::quote;
use std::net::Ipv4Addr;

/// An error without a report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrialError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Interface(#[from] SendError),
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
    /// The meter's ring failed.
    #[error(transparent)]
    Ring(#[from] quaff::Error),
    #[error("{0} does not stamp the frames that it receives ('ethtool -T {word}'); the kernel can", word = quote(.0))]
    Clock(String),
    #[error(
        "{ip} is an address of the machine itself, as seen from {interface}: a test needs an unused address"
    )]
    Taken { ip: Ipv4Addr, interface: String },
    #[error("no router answers for {gateway} at {interface}: is that its address there, and is it up?")]
    Silent { gateway: Ipv4Addr, interface: String },
    #[error("{0} went away in the middle of a trial")]
    Gone(String),
    /// More frames arrived than were sent.
    #[error("the sums do not hold: {0}; does another trial with the same ids send to this interface?")]
    Sums(String),
}

impl From<TrialError> for quaff_lab::Error {
    fn from(error: TrialError) -> Self {
        Self::Service(error.to_string())
    }
}
