//! The input of flow metering and of scripts as arguments: interfaces or files, filters, tunnels, lanes.

use crate::cmd::lanes::{self, SpreadArgs};
use crate::shell::DurationArgs;
use crate::units;
use quaff::memory;
use quaff::plan::{DecapPlan, InnerPlan, InputPlan, ReadPlan, SNAPLEN_MAX, default_rings_bytes};
use quaff::source::interfaces_named;
use quaff_wire::tunnel::TunnelKinds;
use std::path::PathBuf;

/// Interfaces or files, filters, tunnels.
#[derive(Debug, clap::Args)]
pub(in crate::cmd) struct InputArgs {
    /// Interface to read; repeat it for more, each gets its own lane. A pattern such as 'eth*' stands for several,
    /// and 'any' for all that are up
    #[arg(
        short,
        long = "interface",
        value_name = "IF",
        required_unless_present = "read",
        help_heading = "Input"
    )]
    interface: Vec<String>,
    /// Read FILE instead of an interface; '-' is stdin; repeat it to read several in order
    #[arg(
        short,
        long,
        value_name = "FILE",
        conflicts_with_all = ["interface", "no_promiscuous", "ring"],
        help_heading = "Input"
    )]
    read: Vec<PathBuf>,
    /// At the end of FILE, wait for more data until the file is renamed or removed
    #[arg(long, requires = "read", help_heading = "Input")]
    follow: bool,
    /// After damage in FILE, search for the next plausible packet and continue
    #[arg(long, requires = "read", help_heading = "Input")]
    salvage: bool,
    /// Do not put the interface into promiscuous mode
    #[arg(short = 'p', long, help_heading = "Input")]
    no_promiscuous: bool,
    /// Stop after N packets, such as 1000 or 3M
    #[arg(short, long, value_name = "N", value_parser = units::packets, help_heading = "Input")]
    count: Option<u64>,
    #[command(flatten)]
    pub(in crate::cmd) end: DurationArgs,

    /// Read only packets that match a tcpdump expression; evaluated in the kernel for interfaces
    #[arg(short, long, value_name = "EXPR", help_heading = "Filter")]
    filter: Option<String>,
    /// Bytes to look at of each packet; 0 is all [default: all; 'flows': 256 of interfaces, 1600 with 'top', unless
    /// with --decap or for names of applications]
    #[arg(short, long, value_name = "BYTES", help_heading = "Filter")]
    snaplen: Option<u32>,
    /// Remove tunnel headers and read the packets inside: auto, or a list of kinds as in 'quaff capture --decap'
    #[arg(long, value_name = "KINDS", help_heading = "Filter")]
    decap: Option<TunnelKinds>,
    /// Remove at most N nested tunnels
    #[arg(long, value_name = "N", default_value_t = 4, requires = "decap", value_parser = clap::value_parser!(u8).range(1..=16), help_heading = "Filter")]
    decap_depth: u8,
    /// Drop packets that are not in a tunnel
    #[arg(long, requires = "decap", help_heading = "Filter")]
    decap_only: bool,
    /// Read only packets that match a tcpdump expression after decapsulation
    #[arg(long, value_name = "EXPR", requires = "decap", help_heading = "Filter")]
    inner: Option<String>,
}

/// Settings of the lanes.
#[derive(Debug, Default, clap::Args)]
pub(in crate::cmd) struct LaneArgs {
    #[command(flatten)]
    spread: SpreadArgs,
    /// Size of the kernel's receive ring, per lane [default: 1/64 of free memory, 16M to 128M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Performance")]
    ring: Option<u64>,
    /// Cores for the lanes, in the order of -i; the last one also serves further lanes
    #[arg(long, value_name = "N[,N]", value_delimiter = ',', help_heading = "Performance")]
    cpu: Vec<usize>,
}

impl InputArgs {
    /// Interfaces, not files.
    pub(in crate::cmd) fn is_live(&self) -> bool {
        !self.interface.is_empty()
    }

    /// The interfaces or files as text.
    pub(super) fn names(&self) -> String {
        let files = self.read.iter().map(|path| path.display().to_string());
        self.interface.iter().cloned().chain(files).collect::<Vec<_>>().join(", ")
    }

    /// The plan. `snaplen_live` is the default of live packets, bytes.
    pub(in crate::cmd) fn plan(&self, lanes: &LaneArgs, snaplen_live: u32) -> anyhow::Result<InputPlan> {
        let names = interfaces_named(&self.interface)?;
        let counts = lanes.spread.counts(&names);
        let ring_bytes = default_rings_bytes(memory::free_bytes(), counts.iter().sum());
        let has_text = |text: &String| !text.trim().is_empty();
        let is_part = self.decap.is_none() && self.is_live();
        let snaplen = self.snaplen.unwrap_or(if is_part { snaplen_live } else { 0 });
        Ok(InputPlan {
            interfaces: lanes::interfaces(names, &counts, &lanes.cpu),
            spread: lanes.spread.spread(),
            read: (!self.read.is_empty()).then(|| ReadPlan {
                files: self.read.clone(),
                salvage: self.salvage,
                follow: self.follow,
                cpu: lanes.cpu.first().copied(),
                ..ReadPlan::default()
            }),
            filter: self.filter.clone().filter(has_text),
            decap: self.decap.map(|kinds| DecapPlan {
                kinds,
                depth: self.decap_depth,
                only: self.decap_only,
                switch_time: false,
            }),
            inner: self
                .inner
                .clone()
                .filter(has_text)
                .map(|expression| InnerPlan { expression, user: false }),
            snaplen: if snaplen == 0 { SNAPLEN_MAX } else { snaplen },
            promiscuous: !self.no_promiscuous,
            ring_bytes: lanes.ring.map_or(ring_bytes, |bytes| bytes as usize),
            count: self.count,
            ..InputPlan::default()
        })
    }
}
