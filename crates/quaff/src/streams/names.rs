//! Words for the begin and the end of a connection, the same in the index and in the list.

use quaff_stream::tracker::Closed;
use quaff_stream::{EndReason, Sender};

/// The begin of a connection by the SYNs that were captured.
pub(super) fn begin_name(closed: &Closed, client: Sender) -> &'static str {
    match (closed.syns[client.index()], closed.syns[client.other().index()]) {
        (true, true) => "handshake",
        (true, false) => "syn",
        (false, true) => "answer",
        (false, false) => "middle",
    }
}

/// The end of one side; `None` without a segment of it.
pub(super) fn end_name(end: Option<EndReason>) -> &'static str {
    match end {
        None => "unseen",
        Some(EndReason::Fin) => "fin",
        Some(EndReason::Reset) => "reset",
        Some(EndReason::Cutoff) => "cutoff",
        Some(EndReason::Capped(_)) => "capped",
        Some(EndReason::Finished) => "open",
    }
}
