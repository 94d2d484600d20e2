//! The trait of what receives stored records.

use quaff_flow::record::FlowRecord;
use quaff_flow::summary::{By, Summary};

/// Receives the records of files, in their order.
pub(in crate::cmd::flows) trait Records {
    /// The next records do not have these properties.
    fn lack(&mut self, properties: &[By]);

    /// Takes a record.
    fn add(&mut self, record: &FlowRecord);

    /// False if the records of further files are not wanted: the reader of stdout has left.
    fn takes_more(&self) -> bool {
        true
    }
}

impl Records for Summary {
    fn lack(&mut self, properties: &[By]) {
        Summary::lack(self, properties);
    }

    fn add(&mut self, record: &FlowRecord) {
        Summary::add(self, record);
    }
}
