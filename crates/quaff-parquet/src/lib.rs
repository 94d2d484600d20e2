//! Flow records as segments of Parquet: files that are whole or absent, each with its own ledger. No sockets, no meter.
//!
//! | module | contents |
//! |---|---|
//! | `schema` | the columns: names, types, encodings, and the value of a record that each has |
//! | `columns` | rows that wait for their row group |
//! | `dictionary` | the distinct values of a column, and the place of each row's among them |
//! | `hybrid` | places as runs and packed bits |
//! | `chunk` | a column with a dictionary as pages |
//! | `segment` | one file: written aside, synced, renamed |
//! | `store` | the sink: when a segment begins and ends, and what it loses |
//! | `ledger` | the counters of a segment, in its metadata |
//! | `read` | segments back into records |

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
pub use schema::SCHEMA_VERSION;
pub use store::{ParquetPlan, SegmentStore};
