//! The traffic of capture files on one page: the hierarchy of protocols, conversations and hosts, handshakes of TCP,
//! DNS, and the verdict of `quaff verify`, all from one pass.
//!
//! | module | task |
//! |---|---|
//! | `part` | the packets of a part of a file, counted on one thread by their own bytes |
//! | `counters` | the counts of all parts, in the order of the packets, and their sums |
//! | `conversations` | packets by pairs of IP addresses, and the hosts |
//! | `firsts` | the segments by which attempts to connect are judged |
//! | `handshakes`, `dns` | requests that wait for their answer |
//! | `tables` | sums by key, within limits |
//! | `waiting` | values that wait for an event, within limits |
//! | `keys` | addresses and ports as keys of tables |
//! | `times` | times of packets, and of copies and early answers |
//! | `report` | the results as plain data |
//!
//! Threads read parts of the files side by side, as for `quaff verify`, whose pass this is. All packets are in the
//! hierarchy. Conversations, attempts, queries, servers and failed names without room in a table are counted together.
//! Hosts are those of the conversations that are known. Nothing here prints.

mod conversations;
mod counters;
mod dns;
mod firsts;
mod handshakes;
mod keys;
mod part;
mod report;
mod tables;
mod times;
mod waiting;

pub use conversations::{Conversation, Conversations, Host, Hosts};
pub use dns::{DnsServer, DnsTraffic, FailedName, Queries};
pub use handshakes::{Attempts, TcpServer, TcpTraffic};
pub use report::{ProtocolRow, Traffic, Verdict};
pub use tables::PacketCount;

use counters::Counters;
use quaff_file::read;
use quaff_file::verify::{Options, Progress, Report, verify_beside};
use std::path::PathBuf;

/// Reads `files` in the given order as one capture, as `quaff verify` does, and reports their traffic and what verify
/// reports. Calls `progress` every few MiB.
///
/// A file that cannot be read is part of the report, not an error: see `Outcome::error`.
pub fn read(
    files: &[PathBuf],
    reading: read::Options,
    progress: &mut dyn FnMut(Progress),
) -> (Traffic, Report) {
    let options = Options { reading, ..Options::default() };
    let (report, counters) = verify_beside::<Counters>(files, options, progress);
    (counters.finish(&report), report)
}
