//! The arguments of `quaff split`, and the plan that they mean.

use crate::cmd::capture::memory;
use crate::units;
use anyhow::{Context, bail};
use quaff::capture::split::{Goal, MemberPlan, SplitPlan};
use quaff::plan::{
    BLOCK_BYTES, CapturePlan, InterfacePlan, POPULATE_BYTES, ReadPlan, SNAPLEN_MAX, default_buffer_bytes,
    default_ring_bytes,
};
use quaff::stage::LoadPlan;
use quaff::stage::split::Sorting;
use quaff_file::write::plan::{Format, Output};
use quaff_os::packet::TimeSource;
use quaff_wire::split::By;
use quaff_wire::tunnel::Kinds;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Split one feed among several links, recorders or programs, with conversations kept whole
///
/// Frames are sorted as a switch sorts them to a bundle of links: by MAC addresses, by IP addresses, or by
/// addresses and ports, the same in both directions. Fragments go with the first of their datagram, ICMP
/// errors with the packet that they quote, tunnels by what is inside on request; what is not IP goes by
/// its MAC addresses. Frames themselves are not changed.
///
/// Members are files, pipes, commands, or interfaces that the frames are sent from. One that goes away
/// (its reader has ended, its disk is full, its interface is down) is replaced: its share goes to the
/// others, and what they had stays with them. An interface that comes back gets its share back. The same
/// arguments sort the same way on every machine.
///
/// At the end there is a report: each member's share, its busiest moments, its largest conversation, and
/// how even it all was (Jain's index: 1 is even). --plan reports on a capture, and writes nothing.
///
/// Exit status: 0 every packet went out, 1 some were lost (or a file that was read is damaged), 2 it
/// failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Interface to take the feed from; may be given several times
    #[arg(
        short,
        long = "interface",
        value_name = "IF",
        required_unless_present_any = ["read", "plan"],
        help_heading = "In"
    )]
    interface: Vec<String>,
    /// Read FILE instead, - is stdin; may be given several times, one is read after the other
    #[arg(short, long, value_name = "FILE", conflicts_with = "interface", help_heading = "In")]
    read: Vec<PathBuf>,
    /// Say how FILE would be split, and write nothing; may be given several times
    #[arg(long, value_name = "FILE", conflicts_with_all = ["interface", "read", "dir", "write", "output", "exec"], help_heading = "In")]
    plan: Vec<PathBuf>,
    /// Behind damage in FILE, look for the next packet that makes sense, and go on
    #[arg(long, conflicts_with = "interface", help_heading = "In")]
    salvage: bool,
    /// Take only packets that match a tcpdump expression
    #[arg(short, long, value_name = "EXPR", help_heading = "In")]
    filter: Option<String>,
    /// Leave the interface out of promiscuous mode
    #[arg(short = 'p', long, help_heading = "In")]
    no_promiscuous: bool,
    /// Stop after N packets
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "In")]
    count: Option<u64>,
    /// Stop after a time: 30s, 5m, 2h
    #[arg(short, long, value_name = "TIME", value_parser = units::duration, help_heading = "In")]
    pub(super) duration: Option<Duration>,

    /// What sorts the frames: macs, addresses, ports (which means addresses and ports), or several with
    /// commas
    ///
    /// Where MAC addresses count beside others, they are those of a conversation's first frame: its way
    /// back may go through another router.
    #[arg(long, value_name = "FIELDS", default_value = "addresses", help_heading = "Sorting")]
    by: By,
    /// Split among N members [default: as many as outputs or weights are given]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=250), help_heading = "Sorting")]
    members: Option<u64>,
    /// Their shares, as whole numbers: 2,1,1
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', help_heading = "Sorting")]
    weights: Vec<u64>,
    /// Sort tunnels by what is inside: auto, or kinds with commas, as capture --decap knows them
    #[arg(long, visible_alias = "decap", value_name = "KINDS", num_args = 0..=1, default_missing_value = "auto", help_heading = "Sorting")]
    inner: Option<Kinds>,
    /// Look into no more than N tunnels that lie in each other
    #[arg(long, value_name = "N", default_value_t = 4, requires = "inner", value_parser = clap::value_parser!(u8).range(1..=16), help_heading = "Sorting")]
    inner_depth: u8,
    /// Sort differently for each N; bundles behind one another need a number each
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Sorting")]
    seed: u64,

    /// Write a file for each member into DIR: member-1.pcapng and so on
    #[arg(long, value_name = "DIR", conflicts_with_all = ["write", "output", "exec"], help_heading = "Out")]
    dir: Option<PathBuf>,
    /// A member that is a file or a pipe, - is stdout; may be given several times
    #[arg(short, long, value_name = "FILE", help_heading = "Out")]
    write: Vec<PathBuf>,
    /// Members that are interfaces, which the frames are sent from
    #[arg(short, long, value_name = "IF,IF,…", value_delimiter = ',', help_heading = "Out")]
    output: Vec<String>,
    /// A member that is a command, which reads packets from its stdin; may be given several times, and
    /// given once with --members N it is run N times. $QUAFF_MEMBER is its number
    #[arg(long, value_name = "CMD", help_heading = "Out")]
    exec: Vec<String>,
    /// Format of files and pipes: pcapng, pcap (ns), or pcap-us for old readers
    #[arg(long, value_name = "FORMAT", default_value = "pcapng", help_heading = "Out")]
    format: FormatName,

    /// Size of the kernel's ring, per interface [default: 1/64 of free memory, 16M to 128M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Machine")]
    ring: Option<u64>,
    /// Size of the buffers of all members together [default: 1/4 of free memory, 64M to 8G]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Machine")]
    buffer: Option<u64>,
    /// Core for the lane that sorts
    #[arg(long, value_name = "N", help_heading = "Machine")]
    cpu: Option<usize>,

    /// Print the report as JSON on stdout (on stderr with -w -)
    #[arg(long, help_heading = "Words")]
    pub(super) json: bool,
    /// Print nothing but errors and "capturing"; twice, errors alone
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Words")]
    pub(super) quiet: u8,
}

const EXAMPLES: &str = "\
Examples:
  quaff split --members 4 --by addresses --read all.pcapng --dir parts
  quaff split --plan all.pcapng --members 4 --by ports
  quaff split -i eth0 --by ports -o eth1,eth2,eth3 --weights 2,1,1
  quaff split -i eth0 --by addresses --inner -w /data1/a.pcapng -w /data2/b.pcapng
  quaff split -i eth0 --members 4 --exec 'zeek -r - Log::default_logdir=zeek-$QUAFF_MEMBER'";

/// Bytes of a chunk: there is one at least in the hands of each member.
const CHUNK_BYTES: usize = 1 << 20;
/// The least that a member's buffer holds.
const MEMBER_BYTES: usize = 8 << 20;
/// A packet is out after this time.
const FLUSH: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum FormatName {
    Pcapng,
    Pcap,
    PcapUs,
}

impl Args {
    /// The plan that was meant, with the sizes that suit this machine.
    pub(super) fn split_plan(&self) -> anyhow::Result<SplitPlan> {
        let goals = self.goals()?;
        let weights = match &self.weights[..] {
            [] => vec![1; goals.len()],
            weights if weights.len() == goals.len() => weights.to_vec(),
            weights => bail!("{} weights for {} members: one each is needed", weights.len(), goals.len()),
        };
        Ok(SplitPlan {
            capture: self.capture_plan(goals.len()),
            sorting: Sorting {
                by: self.by,
                kinds: self.inner.unwrap_or(Kinds::NONE),
                depth: self.inner_depth,
                seed: self.seed,
            },
            members: goals
                .into_iter()
                .zip(weights)
                .map(|(goal, weight)| MemberPlan { goal, weight })
                .collect(),
        })
    }

    /// Where the members' frames go.
    fn goals(&self) -> anyhow::Result<Vec<Goal>> {
        let wanted = self.members.map(|members| members as usize);
        let counted = wanted.or((!self.weights.is_empty()).then_some(self.weights.len()));
        if let Some(dir) = &self.dir {
            let count = counted.context("--dir needs --members N: how many files")?;
            return self.files(dir, count);
        }
        if !self.plan.is_empty() {
            let count = counted.context("--plan needs --members N: how many there would be")?;
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
                bail!("--members {wanted}, and {} outputs: one each is needed", goals.len())
            }
            _ => Ok(goals),
        }
    }

    /// `DIR/member-1.pcapng` and so on, as many digits in each. The folder is made where it is not there.
    fn files(&self, dir: &Path, count: usize) -> anyhow::Result<Vec<Goal>> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
        let (digits, extension) = (count.to_string().len(), self.format().extension());
        let file = |number| format!("member-{number:0digits$}.{extension}");
        let files: Vec<_> = (1..=count).map(file).collect();
        let entries = dir.read_dir().with_context(|| format!("cannot read the folder {}", dir.display()))?;
        let found = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_other = |name: &String| name.starts_with("member-") && !files.contains(name);
        if let Some(name) = found.into_iter().find(is_other) {
            bail!("{}: {name} is another split's; give an empty folder, or remove it first", dir.display());
        }
        Ok(files.into_iter().map(|name| Goal::File(dir.join(name))).collect())
    }

    fn format(&self) -> Format {
        match self.format {
            FormatName::Pcapng => Format::Pcapng,
            FormatName::Pcap => Format::Pcap,
            FormatName::PcapUs => Format::PcapUs,
        }
    }

    fn capture_plan(&self, members: usize) -> CapturePlan {
        let free_bytes = memory::free_bytes();
        let files = if self.plan.is_empty() { &self.read } else { &self.plan };
        let interface = |name: &String| InterfacePlan { name: name.clone(), cpu: self.cpu };
        let buffer_bytes = match self.buffer {
            Some(bytes) => bytes as usize,
            None if files.is_empty() => default_buffer_bytes(free_bytes),
            None => 0,
        };
        CapturePlan {
            interfaces: self.interface.iter().map(interface).collect(),
            read: (!files.is_empty()).then(|| ReadPlan {
                files: files.clone(),
                salvage: self.salvage,
                follow: false,
                cpu: self.cpu,
            }),
            output: Output::Stdout,
            live_copy: None,
            format: self.format(),
            filter: self.filter.clone().filter(|filter| !filter.trim().is_empty()),
            decap: None,
            inner: None,
            snaplen: SNAPLEN_MAX,
            load: LoadPlan::default(),
            promiscuous: !self.no_promiscuous,
            time_source: TimeSource::Host,
            ring_bytes: self.ring.map_or_else(|| default_ring_bytes(free_bytes), |bytes| bytes as usize),
            block_bytes: BLOCK_BYTES,
            buffer_bytes: buffer_bytes.max(members * MEMBER_BYTES),
            populate_bytes: self.buffer.map_or(POPULATE_BYTES, |bytes| bytes as usize),
            chunk_bytes: CHUNK_BYTES,
            flush: FLUSH,
            count: self.count,
            writer_cpu: None,
            real_time: None,
        }
    }
}
