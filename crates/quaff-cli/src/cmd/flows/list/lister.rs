//! The records that are wanted, on their way to the outputs, with their sums and what they lack.

use super::order::FirstRows;
use super::outputs::Outputs;
use super::rows::SHOWN;
use crate::cmd::flows::stored::Records;
use crate::cmd::flows::sums::{by_name, recorded_by};
use crate::show;
use anyhow::bail;
use quaff::flows::FlowReport;
use quaff::tally::Verdict;
use quaff_flow::choice::Choice;
use quaff_flow::collector::FlowSum;
use quaff_flow::record::FlowRecord;
use quaff_flow::summary::By;
use serde::Serialize;
use std::sync::Arc;

/// A list while records come.
pub(super) struct Lister {
    choice: Choice,
    /// The rows so far, if they are sorted.
    first: Option<FirstRows>,
    outputs: Outputs,
    /// Properties that the next records do not have.
    lacking: Arc<[By]>,
    /// Properties of the columns that some of the records do not have.
    not_recorded: Vec<By>,
    /// The sums of the records that are wanted, of those that are listed, and of the others.
    matching: FlowSum,
    listed: u64,
    left_out: FlowSum,
    /// The first error of an output, after which nothing is written.
    failure: Option<anyhow::Error>,
}

/// The fields of the JSON after the rows.
#[derive(Debug, Serialize)]
struct SumsJson {
    files: usize,
    /// Rows, the records that match, and the others.
    listed: u64,
    matching: FlowSum,
    left_out: FlowSum,
    /// Packets of the files, and of these the ignored ones.
    packets: u64,
    bytes: u64,
    packets_ignored: u64,
    bytes_ignored: u64,
    verdict: Verdict,
    /// Properties that some of the rows do not have.
    not_recorded: Vec<&'static str>,
}

impl Lister {
    pub(super) fn new(choice: Choice, first: Option<FirstRows>, outputs: Outputs) -> Self {
        Self {
            choice,
            first,
            outputs,
            lacking: Arc::from([]),
            not_recorded: Vec::new(),
            matching: FlowSum::default(),
            listed: 0,
            left_out: FlowSum::default(),
            failure: None,
        }
    }

    fn put(&mut self, record: &FlowRecord, lacking: &[By]) {
        if self.failure.is_some() {
            return;
        }
        self.listed += 1;
        let has_files = self.outputs.has_files();
        let is_shown = |by: By| SHOWN.contains(&by) || has_files && is_of_text(by);
        for by in lacking.iter().copied().filter(|by| is_shown(*by)) {
            if !self.not_recorded.contains(&by) {
                self.not_recorded.push(by);
            }
        }
        self.failure = self.outputs.put(record, lacking).err();
    }

    /// Prints what is sorted, and ends the outputs.
    ///
    /// # Errors
    /// An output failed, or records are missing in the list.
    pub(super) fn end(&mut self, files: usize, report: &FlowReport) -> anyhow::Result<()> {
        for row in self.first.take().map_or_else(Vec::new, FirstRows::into_rows) {
            self.put(&row.record, &row.lacking);
        }
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let sums = SumsJson {
            files,
            listed: self.listed,
            matching: self.matching,
            left_out: self.left_out,
            packets: report.packets,
            bytes: report.bytes,
            packets_ignored: report.packets_ignored,
            bytes_ignored: report.bytes_ignored,
            verdict: report.verdict,
            not_recorded: self.not_recorded.iter().map(|by| by_name(*by)).collect(),
        };
        self.outputs.finish(&sums)?;
        self.check(report)
    }

    /// Every record of the ledger was wanted or left out.
    fn check(&self, report: &FlowReport) -> anyhow::Result<()> {
        let mut found = self.matching;
        add(&mut found, self.left_out);
        let expected = FlowSum {
            records: report.flows_exported,
            packets: report.packets_in_flows,
            bytes: report.bytes_in_flows,
        };
        // A run that was ended or has failed may have dropped records, and reports it.
        if found != expected && report.lossless && report.failure.is_none() {
            bail!(
                "a defect of quaff: the list has {found:?}, and the ledger {expected:?}: report it with the files"
            );
        }
        Ok(())
    }

    /// The records that are not in the list, and what rows lack, a sentence each. `choice` are the flags that choose
    /// records.
    pub(super) fn remarks(&self, choice: &str) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.listed < self.matching.records {
            let [listed, matching] = [self.listed, self.matching.records].map(show::count);
            remarks.push(format!("listed: the first {listed} of {matching} records"));
        }
        let left_out = self.left_out;
        if left_out.records > 0 {
            remarks.push(format!(
                "left out by {choice}: {} with {}, {}",
                show::number_of(left_out.records, "record"),
                show::number_of(left_out.packets, "packet"),
                show::bytes(left_out.bytes)
            ));
        }
        if !self.not_recorded.is_empty() {
            let names: Vec<_> = self.not_recorded.iter().map(|by| by_name(*by)).collect();
            let by = recorded_by(&self.not_recorded);
            remarks.push(format!("not recorded: {} (recorded by {by})", names.join(", ")));
        }
        remarks
    }
}

impl Records for Lister {
    fn lack(&mut self, properties: &[By]) {
        if *self.lacking != *properties {
            self.lacking = properties.into();
        }
    }

    fn add(&mut self, record: &FlowRecord) {
        let sum = FlowSum { records: 1, packets: record.packets(), bytes: record.bytes() };
        if !self.choice.wants(record) {
            return add(&mut self.left_out, sum);
        }
        add(&mut self.matching, sum);
        let lacking = self.lacking.clone();
        match &mut self.first {
            Some(first) => first.add(record, &lacking),
            None => self.put(record, &lacking),
        }
    }

    fn takes_more(&self) -> bool {
        self.failure.is_none() && self.outputs.takes_more()
    }
}

/// The columns of text files have it by itself.
fn is_of_text(by: By) -> bool {
    !matches!(by, By::Flow | By::Host | By::Version | By::Mpls | By::Tunnel)
}

/// Adds sums of files, which may claim any number.
fn add(sum: &mut FlowSum, more: FlowSum) {
    sum.records = sum.records.saturating_add(more.records);
    sum.packets = sum.packets.saturating_add(more.packets);
    sum.bytes = sum.bytes.saturating_add(more.bytes);
}
