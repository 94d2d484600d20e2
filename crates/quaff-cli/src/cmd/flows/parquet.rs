//! The folder of Parquet segments, as arguments and as a sink.

use crate::units;
use anyhow::Context;
use quaff_flow::collector::SinkPlan;
use quaff_flow::export::{Names, Scene};
use quaff_flow::plan::ExtrasPlan;
use quaff_os::clock::wall_ns;
use quaff_parquet::{ParquetPlan, SegmentStore};
use std::path::PathBuf;
use std::time::Duration;

/// The segments of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct ParquetArgs {
    /// Write records to segments of Parquet in DIR, with a folder for each day and hour in UTC
    ///
    /// A segment gets its name when it is whole and on disk, and never replaces a file.
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    parquet: Option<PathBuf>,
    /// Name of the probe, in each row and in the names of segments [default: that of the host]
    #[arg(long, value_name = "NAME", requires = "parquet", help_heading = "Files")]
    probe: Option<String>,
    /// Number of the place in the network, in each row (observationPointId)
    #[arg(long, value_name = "N", default_value_t = 0, requires = "parquet", value_parser = clap::value_parser!(u32).range(..=i64::from(i32::MAX)), help_heading = "Files")]
    observation_point: u32,
    /// A segment ends after SIZE, such as 64M, or 3 million rows
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = units::bytes, requires = "parquet", help_heading = "Files")]
    segment_size: u64,
    /// A segment ends after TIME
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration, requires = "parquet", help_heading = "Files")]
    segment_time: Duration,
}

impl ParquetArgs {
    pub(super) fn is_none(&self) -> bool {
        self.parquet.is_none()
    }

    /// The sink, if there is a folder.
    pub(super) fn plan(
        &self,
        names: Names,
        extras: ExtrasPlan,
        scene: &Scene,
    ) -> anyhow::Result<Option<SinkPlan>> {
        let Some(folder) = &self.parquet else { return Ok(None) };
        let probe = match &self.probe {
            Some(probe) => probe.clone(),
            None => host_name()?,
        };
        let plan = ParquetPlan {
            observation_point: self.observation_point,
            names,
            extras,
            bytes_max: self.segment_size,
            every: self.segment_time,
            ..ParquetPlan::new(folder.clone(), probe, wall_ns() / 1000)
        };
        Ok(Some(SinkPlan::Store { store: Box::new(SegmentStore::new(plan)), scene: scene.clone() }))
    }
}

fn host_name() -> anyhow::Result<String> {
    let path = "/proc/sys/kernel/hostname";
    let name =
        std::fs::read_to_string(path).with_context(|| format!("read {path}; --probe names the probe"))?;
    Ok(name.trim().to_owned())
}
