//! Flow records as Parquet segments: files that are complete or absent, each with its own counters. No sockets, no
//! meter.
//!
//! | module | contents |
//! |---|---|
//! | `schema` | the columns: names, types, encodings, and how each value comes from a record |
//! | `columns` | buffers the rows of the next row group |
//! | `dictionary` | the distinct values of a column, and the dictionary index of each row |
//! | `hybrid` | dictionary indexes as runs and packed bits |
//! | `chunk` | writes a dictionary column chunk |
//! | `segment` | one file: written under a temporary name, synced, renamed |
//! | `store` | the sink: starts and ends segments, counts what is lost |
//! | `ledger` | the counters of a segment, in its metadata |
//! | `read` | reads segments back into records |

#![forbid(unsafe_code)]

mod chunk;
mod columns;
mod dictionary;
mod error;
mod hybrid;
mod ledger;
mod read;
mod schema;
mod segment;
mod store;
#[cfg(test)]
mod tests;

pub use error::{Error, Result};
pub use ledger::SegmentLedger;
pub use read::{SegmentReader, segments};
pub use store::{ParquetPlan, SegmentStore};
