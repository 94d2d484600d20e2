//! Flow records of files, for reports and lists: the files that are named, and the readers of segments and of IPFIX. It
//! meters and prints nothing.
//!
//! | module | contents |
//! |---|---|
//! | `inputs` | the files, by their content |
//! | `records` | the trait of what receives records |
//! | `segments`, `ipfix` | the readers |
//! | `counters` | the ledger of what was read, and the progress line |

mod counters;
mod inputs;
mod ipfix;
mod records;
mod segments;

pub(super) use inputs::{Inputs, Origin, advised, refuse_records};
pub(super) use records::Records;

use crate::show::LiveLine;
use quaff::flows::FlowReport;
use std::path::PathBuf;

/// Reads segments, or IPFIX files, into `records`. Returns the files that were read, and their ledgers as that of a
/// run.
///
/// # Errors
/// None of them can be read.
pub(super) fn read(
    origin: Origin,
    files: &[PathBuf],
    records: &mut dyn Records,
    live: LiveLine,
    needs_applications: bool,
) -> anyhow::Result<(Vec<PathBuf>, FlowReport)> {
    Ok(match origin {
        Origin::Ipfix => ipfix::read(files, records, live)?.report(needs_applications),
        _ => segments::read(files, records, live)?.report(needs_applications),
    })
}
