//! The arguments of `quaff split`, and the plan they make.

use crate::cmd::lanes::{self, SpreadArgs};
use crate::owner::OwnerArgs;
use crate::shell::{DurationArgs, ReportArgs, WatchArgs};
use crate::units::{self, FORMATS, choice};
use anyhow::{Context, bail};
use quaff::Sorting;
use quaff::memory;
use quaff::plan::{InputPlan, ReadPlan, WritePlan, default_rings_bytes};
use quaff::source::interfaces_named;
use quaff::split::{Goal, MemberPlan, SplitPlan};
use quaff_file::write::{Format, Suffix};
use quaff_wire::split::SplitFields;
use quaff_wire::tunnel::TunnelKinds;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Distribute one feed over several files, commands or interfaces, keeping conversations together
///
/// Frames are assigned as a switch assigns them to the links of a bundle: by MAC addresses, IP addresses,
/// or addresses and ports, the same in both directions. Fragments follow the first fragment of their
/// datagram, ICMP errors follow the packet they quote, and --decap assigns tunnelled frames by their inner
/// headers. Other frames are assigned by their MAC addresses. Frames are never modified.
///
/// Members are files, pipes, commands, or interfaces to send from. When one fails (its reader ends, its disk
/// is full, its interface goes down), the remaining members share its flows, and keep their own. An interface
/// that returns takes its flows again. The same arguments give the same assignment on every machine.
///
/// The report shows each member's share, its peak rates, its largest conversation, and Jain's fairness index
/// (1 is even). --dry-run reports on a capture without writing anything.
///
/// SIGINT or SIGTERM ends the split once its members have everything; a second one ends it immediately. A member
/// that takes nothing for 2 s after the end (10 s for a file) is abandoned, and what it has not taken is counted as
/// lost. SIGUSR1 prints a progress line.
///
/// Exit status: 0 every packet went out; 1 packets were lost, or an input file is damaged; 2 the split failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Interface to read the feed from; repeat it for more. A pattern such as 'eth*' stands for several, and 'any'
    /// for all that are up
    #[arg(
        short,
        long = "interface",
        value_name = "IF",
        required_unless_present_any = ["read", "plan"],
        help_heading = "Input"
    )]
    interface: Vec<String>,
    /// Read FILE instead of an interface; '-' is stdin; repeat it to read several in order
    #[arg(short, long, value_name = "FILE", conflicts_with = "interface", help_heading = "Input")]
    read: Vec<PathBuf>,
    /// Read FILE and write nothing: --read FILE --dry-run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["interface", "read", "dir", "write", "output", "exec"], hide = true)]
    plan: Vec<PathBuf>,
    /// After damage in FILE, search for the next plausible packet and continue
    #[arg(long, conflicts_with = "interface", help_heading = "Input")]
    salvage: bool,
    /// Do not put the interface into promiscuous mode
    #[arg(short = 'p', long, help_heading = "Input")]
    no_promiscuous: bool,
    /// Stop after N packets, such as 1000 or 3M
    #[arg(short, long, value_name = "N", value_parser = units::packets, help_heading = "Input")]
    count: Option<u64>,
    #[command(flatten)]
    pub(super) end: DurationArgs,

    /// Keep only packets that match a tcpdump expression
    #[arg(short, long, value_name = "EXPR", help_heading = "Filter")]
    filter: Option<String>,

    /// Fields that select the member: macs, addresses, ports (addresses and ports), or a list of them
    ///
    /// In a list with macs, the MAC addresses are those of a conversation's first frame, because replies may
    /// return through another router.
    #[arg(long, value_name = "FIELDS", default_value = "addresses", help_heading = "Assignment")]
    by: SplitFields,
    /// Number of members [default: the number of outputs or weights]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=250), help_heading = "Assignment")]
    members: Option<u64>,
    /// Shares of the members, as whole numbers such as 2,1,1
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', help_heading = "Assignment")]
    weights: Vec<u64>,
    /// Assign tunnelled frames by their inner headers: auto, or a list of kinds as in 'quaff capture --decap'
    #[arg(long, alias = "inner", value_name = "KINDS", num_args = 0..=1, default_missing_value = "auto", help_heading = "Assignment")]
    decap: Option<TunnelKinds>,
    /// Look into at most N nested tunnels
    #[arg(long, alias = "inner-depth", value_name = "N", default_value_t = 4, requires = "decap", value_parser = clap::value_parser!(u8).range(1..=16), help_heading = "Assignment")]
    decap_depth: u8,
    /// Vary the assignment; cascaded splits need different seeds
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Assignment")]
    seed: u64,

    /// Write one file per member into DIR: member-1.pcapng and so on
    #[arg(long, value_name = "DIR", conflicts_with_all = ["write", "output", "exec"], help_heading = "Output")]
    dir: Option<PathBuf>,
    /// Member that is a file or a pipe; '-' is stdout; repeat it for more
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    write: Vec<PathBuf>,
    /// Members that are interfaces, from which the frames are sent
    #[arg(short, long, value_name = "IF,IF,…", value_delimiter = ',', help_heading = "Output")]
    output: Vec<String>,
    /// Member that is a command, which reads packets from stdin; repeat it for more
    ///
    /// A single command with --members N runs N times. $QUAFF_MEMBER is the member's number.
    #[arg(long, value_name = "CMD", help_heading = "Output")]
    exec: Vec<String>,
    /// Format of files and pipes: pcapng, pcap (nanoseconds), or pcap-us (microseconds, for old readers)
    /// [default: by the suffix of the first FILE, .pcap or .pcapng, else pcapng]
    #[arg(long, value_name = "FORMAT", value_parser = choice(FORMATS), help_heading = "Output")]
    format: Option<Format>,
    /// Sync the files to disk every INTERVAL (fsync); without it a file is synced when it ends
    #[arg(long, value_name = "INTERVAL", value_parser = units::duration, help_heading = "Output")]
    fsync: Option<Duration>,

    /// Size of the kernel's receive ring, per interface [default: 1/64 of free memory, 16M to 128M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Performance")]
    ring: Option<u64>,
    /// Size of the buffers of all members together [default: 1/4 of free memory, 64M to 8G]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Performance")]
    buffer: Option<u64>,
    /// Core for the lane that assigns the frames
    #[arg(long, value_name = "N", help_heading = "Performance")]
    cpu: Option<usize>,
    #[command(flatten)]
    lanes: SpreadArgs,

    #[command(flatten)]
    owner: OwnerArgs,

    /// Report how the capture would be split; write nothing
    #[arg(long, requires = "read", conflicts_with_all = ["dir", "write", "output", "exec"], help_heading = "Report")]
    dry_run: bool,
    #[command(flatten)]
    pub(super) report: ReportArgs,
    #[command(flatten)]
    pub(super) watch: WatchArgs,
}

const EXAMPLES: &str = "\
Examples:
  quaff split --members 4 --by addresses --read all.pcapng --dir parts
  quaff split --read all.pcapng --members 4 --by ports --dry-run
  quaff split -i eth0 --by ports -o eth1,eth2,eth3 --weights 2,1,1
  quaff split -i eth0 --decap -w /data1/a.pcapng -w /data2/b.pcapng
  quaff split -i eth0 --members 4 --exec 'cd m$QUAFF_MEMBER && zeek -r -'";

/// Bytes of a chunk; every member holds at least one.
const CHUNK_BYTES: usize = 1 << 20;
/// Smallest buffer of a member, bytes.
const MEMBER_BYTES: usize = 8 << 20;
/// Longest time until a packet leaves.
const FLUSH: Duration = Duration::from_millis(200);

impl Args {
    /// Captures from interfaces, or sends by some.
    pub(crate) fn is_live(&self) -> bool {
        !self.interface.is_empty() || !self.output.is_empty()
    }

    /// The plan, with default sizes for this machine.
    pub(super) fn split_plan(&self) -> anyhow::Result<SplitPlan> {
        let goals = self.goals()?;
        let weights = match &self.weights[..] {
            [] => vec![1; goals.len()],
            weights if weights.len() == goals.len() => weights.to_vec(),
            weights => {
                bail!("--weights has {} values for {} members: give one each", weights.len(), goals.len())
            }
        };
        Ok(SplitPlan {
            input: self.input_plan()?,
            write: self.write_plan(goals.len())?,
            sorting: Sorting {
                by: self.by,
                kinds: self.decap.unwrap_or_default(),
                depth: self.decap_depth,
                seed: self.seed,
            },
            members: goals
                .into_iter()
                .zip(weights)
                .map(|(goal, weight)| MemberPlan { goal, weight })
                .collect(),
            sandbox: self.owner.sandbox(),
        })
    }

    /// The outputs of the members.
    fn goals(&self) -> anyhow::Result<Vec<Goal>> {
        let wanted = self.members.map(|members| members as usize);
        let counted = wanted.or((!self.weights.is_empty()).then_some(self.weights.len()));
        if let Some(dir) = &self.dir {
            let count = counted.context("--dir needs --members N")?;
            return self.files(dir, count);
        }
        if self.dry_run || !self.plan.is_empty() {
            let count = counted.context("--dry-run needs --members N")?;
            return Ok(vec![Goal::Nowhere; count]);
        }
        let file = |path: &PathBuf| {
            if path.as_os_str() == "-" { Goal::Stdout } else { Goal::File(path.clone()) }
        };
        let mut goals: Vec<_> = self.write.iter().map(file).collect();
        goals.extend(self.output.iter().map(|name| Goal::Interface(name.trim().to_owned())));
        match (&self.exec[..], counted) {
            ([command], Some(count)) if goals.is_empty() => {
                goals = vec![Goal::Command(command.clone()); count]
            }
            (commands, _) => goals.extend(commands.iter().cloned().map(Goal::Command)),
        }
        match wanted {
            Some(wanted) if wanted != goals.len() && !goals.is_empty() => {
                bail!("--members {wanted} does not match {} outputs: give one each", goals.len())
            }
            _ => Ok(goals),
        }
    }

    /// `DIR/member-1.pcapng` and so on, numbers padded to the same width. Creates the folder if needed.
    fn files(&self, dir: &Path, count: usize) -> anyhow::Result<Vec<Goal>> {
        self.owner.make_folder(dir)?;
        let (digits, extension) = (count.to_string().len(), self.file_format().extension());
        let file = |number| format!("member-{number:0digits$}.{extension}");
        let files: Vec<_> = (1..=count).map(file).collect();
        let entries = dir.read_dir().with_context(|| format!("cannot read the folder {}", dir.display()))?;
        let found = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_other = |name: &String| name.starts_with("member-") && !files.contains(name);
        if let Some(name) = found.into_iter().find(is_other) {
            bail!(
                "{}: {name} is from another split; name an empty folder, or remove the file first",
                dir.display()
            );
        }
        Ok(files.into_iter().map(|name| Goal::File(dir.join(name))).collect())
    }

    /// The files that are read, or analysed.
    fn input_files(&self) -> &[PathBuf] {
        if self.plan.is_empty() { &self.read } else { &self.plan }
    }

    fn input_plan(&self) -> anyhow::Result<InputPlan> {
        let (free_bytes, files) = (memory::free_bytes(), self.input_files());
        let names = interfaces_named(&self.interface)?;
        let counts = self.lanes.counts(&names);
        let ring_bytes = default_rings_bytes(free_bytes, counts.iter().sum());
        Ok(InputPlan {
            interfaces: lanes::interfaces(names, &counts, self.cpu.as_slice()),
            spread: self.lanes.spread(),
            read: (!files.is_empty()).then(|| ReadPlan {
                files: files.to_vec(),
                salvage: self.salvage,
                follow: false,
                cpu: self.cpu,
                ..ReadPlan::default()
            }),
            filter: self.filter.clone().filter(|filter| !filter.trim().is_empty()),
            promiscuous: !self.no_promiscuous,
            ring_bytes: self.ring.map_or(ring_bytes, |bytes| bytes as usize),
            count: self.count,
            ..InputPlan::default()
        })
    }

    /// The format of --format, or of the suffix of the first file.
    fn file_format(&self) -> Format {
        let suffix = self.write.first().map(|path| Suffix::of(path)).unwrap_or_default();
        self.format.or(suffix.format).unwrap_or_default()
    }

    fn write_plan(&self, members: usize) -> anyhow::Result<WritePlan> {
        let least_bytes = members * MEMBER_BYTES;
        let is_live = self.input_files().is_empty();
        let plan = WritePlan::with_buffer(self.buffer, memory::free_bytes(), is_live);
        let is_given = is_live || self.buffer.is_some();
        let buffer_bytes = if is_given { plan.buffer_bytes.max(least_bytes) } else { least_bytes };
        let (format, fsync) = (self.file_format(), self.fsync);
        let (access, owner) = (self.owner.access()?, self.owner.caller());
        let plan = WritePlan { access, owner, ..plan };
        Ok(WritePlan { format, flush: FLUSH, fsync, buffer_bytes, chunk_bytes: CHUNK_BYTES, ..plan })
    }
}
