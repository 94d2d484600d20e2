//! The sinks of `quaff flows`: collectors and files, as arguments and as plans.

use quaff::flows::SinkPlan;
use quaff::plan::InputPlan;
use quaff_flow::plan::MeterPlan;
use std::path::{Path, PathBuf};

/// Where records go.
#[derive(Debug, clap::Args)]
pub(crate) struct SinkArgs {
    /// Export to a collector, such as udp://10.0.0.1:4739 or tcp://[2001:db8::1]:4739; repeat it for more
    #[arg(short = 'n', long = "collector", value_name = "URL", help_heading = "Export")]
    collector: Vec<String>,
    /// Version of the export: 5, 9 (NetFlow) or 10 (IPFIX)
    #[arg(short = 'V', long = "export-version", value_name = "N", default_value = "10", value_parser = ["5", "9", "10"], help_heading = "Export")]
    version: String,
    /// Fields of the records, such as '%IPV4_SRC_ADDR %IPV4_DST_ADDR %IN_BYTES'; names of nProbe or of IPFIX
    #[arg(short = 'T', long, value_name = "TEMPLATE", help_heading = "Export")]
    template: Option<String>,
    /// Write each record to FILE as a line of JSON; '-' is stdout
    #[arg(long, value_name = "FILE", help_heading = "Export")]
    json: Option<PathBuf>,
}

impl SinkArgs {
    /// The files of records.
    pub(super) fn files(&self) -> impl Iterator<Item = Option<&Path>> {
        [self.json.as_deref()].into_iter()
    }

    pub(super) fn plan(&self, input: &InputPlan, meter: &MeterPlan) -> anyhow::Result<Vec<SinkPlan>> {
        let _ = (input, meter);
        Ok(self.json.iter().cloned().map(SinkPlan::Json).collect())
    }
}

/// The names of a template that are unknown.
pub(crate) fn unknown_fields(_template: &str) -> Vec<String> {
    Vec::new()
}
