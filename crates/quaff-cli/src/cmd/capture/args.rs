//! The arguments of `quaff capture`, and the plan that they mean.

use super::memory;
use crate::units::{self, TimeStampType};
use anyhow::{Context, bail};
use quaff::plan::{
    BLOCK_BYTES, CHUNK_BYTES, CapturePlan, DecapPlan, InnerPlan, InterfacePlan, POPULATE_BYTES,
    READ_BUFFER_BYTES, ReadPlan, SNAPLEN_MAX, default_buffer_bytes, default_ring_bytes,
};
use quaff::stage::LoadPlan;
use quaff_file::write::plan::{DirPlan, Format, Output, Retention};
use quaff_os::packet::TimeSource;
use quaff_os::topology::{Nic, Topology, advise};
use quaff_wire::tunnel::Kinds;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Capture every packet of one interface or more, or read what others captured, into files
///
/// Packets go from the kernel's ring into a large locked buffer and from there past the page cache
/// to disk, so a disk that stands still for a while costs memory, not packets. Each packet ends in
/// one count: written, or lost at a named place; the counts are checked against the kernel's, printed
/// at the end, and written into the file where the loss was.
///
/// With --read, packets come from files instead, at their own speed: pcap of any kind and age, pcapng
/// with several sections and interfaces, compressed or not. Times, lengths, directions, interfaces and
/// recorded drops are kept, and the same files make the same bytes, whatever the machine does.
///
/// SIGINT or SIGTERM ends the capture when everything that the kernel had taken in is on disk; a
/// second one ends it at once. SIGUSR1 prints a line about how it goes.
///
/// Exit status: 0 nothing was lost, 1 something was, or a file that was read is damaged (what was in
/// front of the damage is written), 2 it failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Interface to capture from; may be given several times, each gets a lane of its own
    #[arg(
        short,
        long = "interface",
        value_name = "IF",
        required_unless_present = "read",
        help_heading = "In"
    )]
    interface: Vec<String>,
    /// Read FILE instead, - is stdin; may be given several times, one is read after the other
    ///
    /// pcap and pcapng, also compressed with gzip, zstd or lz4, which their first bytes tell.
    #[arg(
        short,
        long,
        value_name = "FILE",
        conflicts_with_all = ["interface", "no_promiscuous", "time_stamp_type", "ring", "rt"],
        help_heading = "In"
    )]
    pub(crate) read: Vec<PathBuf>,
    /// At the end of FILE, wait for more, until it is renamed or removed
    #[arg(long, requires = "read", help_heading = "In")]
    follow: bool,
    /// Behind damage in FILE, look for the next packet that makes sense, and go on
    #[arg(long, requires = "read", help_heading = "In")]
    salvage: bool,
    /// Keep only packets that match a tcpdump expression; runs in the kernel, for files in user space
    #[arg(short, long, value_name = "EXPR", help_heading = "In")]
    filter: Option<String>,
    /// Keep only the first BYTES of each packet; 0 is all
    #[arg(short, long, value_name = "BYTES", default_value_t = 0, help_heading = "In")]
    snaplen: u32,
    /// Leave the interface out of promiscuous mode
    #[arg(short = 'p', long, help_heading = "In")]
    no_promiscuous: bool,
    /// Whose clock stamps the packets: host or adapter
    #[arg(short = 'j', long, value_name = "TYPE", default_value = "host", help_heading = "In")]
    time_stamp_type: TimeStampType,
    /// Stop after N packets
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "In")]
    count: Option<u64>,
    /// Stop after a time: 30s, 5m, 2h
    #[arg(short, long, value_name = "TIME", value_parser = units::duration, help_heading = "In")]
    pub(crate) duration: Option<Duration>,

    /// Take tunnels off and keep the frames inside: auto, or kinds with commas: erspan, gre (nvgre),
    /// vxlan, geneve, ipip (6in4), mpls, gtp, l2tp, tzsp
    ///
    /// Each sender and session becomes an interface of the file. What is no tunnel passes unchanged.
    #[arg(long, value_name = "KINDS", help_heading = "Tunnels")]
    decap: Option<Kinds>,
    /// Take off no more than N tunnels that lie in each other
    #[arg(long, value_name = "N", default_value_t = 4, requires = "decap", value_parser = clap::value_parser!(u8).range(1..=16), help_heading = "Tunnels")]
    decap_depth: u8,
    /// Drop what is no tunnel
    #[arg(long, requires = "decap", help_heading = "Tunnels")]
    decap_only: bool,
    /// Keep only what matches a tcpdump expression when the tunnels are off
    ///
    /// It runs in the kernel where the headers outside have a fixed length, ERSPAN and VXLAN over
    /// plain IPv4, so that other packets are never copied, and in user space for everything else.
    /// Both keep the same packets; --explain says what runs where.
    #[arg(long, value_name = "EXPR", help_heading = "Tunnels")]
    inner: Option<String>,
    /// Look at what is inside in user space only: this costs more, and counts gaps in ERSPAN's
    /// sequence numbers, which packets that the kernel keeps out would leave too
    #[arg(long, requires = "inner", help_heading = "Tunnels")]
    inner_user: bool,
    /// Whose time counts: capture, or erspan (the switch's, where ERSPAN III has it)
    #[arg(
        long,
        value_name = "TIME",
        default_value = "capture",
        requires = "decap",
        help_heading = "Tunnels"
    )]
    time: TimeName,

    /// Write to FILE, which can be read while it grows; - is stdout
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["dir", "explain"], conflicts_with = "dir", help_heading = "Out")]
    write: Option<PathBuf>,
    /// Format of the file: pcapng, pcap (ns), or pcap-us for old readers
    #[arg(long, value_name = "FORMAT", default_value = "pcapng", help_heading = "Out")]
    format: FormatName,
    /// A packet is on disk after this time, unless the disk is late [default: 1s; stdout, --tee 200ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Out")]
    flush: Option<Duration>,

    /// Write a series of files into DIR, one capture per folder; a file is .part until it is complete
    #[arg(long, value_name = "DIR", group = "folder", help_heading = "Rotation")]
    dir: Option<PathBuf>,
    /// As --dir, and -w (stdout or a pipe) gets a copy: a slow reader there misses packets, which are
    /// counted apart, and never holds up the disk; when it goes away the capture ends
    #[arg(long, value_name = "DIR", group = "folder", requires = "write", help_heading = "Rotation")]
    tee: Option<PathBuf>,
    /// Names of the files, strftime fields and a number: NAME-000001.pcapng. With %i (or %3i: three
    /// digits) in it, NAME is the whole name, and the number stands there
    #[arg(
        long,
        value_name = "NAME",
        default_value = "quaff-%Y%m%dT%H%M%S",
        requires = "folder",
        help_heading = "Rotation"
    )]
    name: String,
    /// Begin the next file before this one gets larger than SIZE (256M, 1G)
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, requires = "folder", help_heading = "Rotation")]
    rotate_size: Option<u64>,
    /// Begin a file each TIME, aligned to the clock, with or without traffic
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "folder", help_heading = "Rotation")]
    rotate_time: Option<Duration>,
    /// Keep N files, the one being written among them; the oldest goes, earlier runs' too
    #[arg(long, value_name = "N", requires = "folder", help_heading = "Rotation")]
    keep_files: Option<u64>,
    /// Keep no more than SIZE in all
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, requires = "folder", help_heading = "Rotation")]
    keep_size: Option<u64>,
    /// Keep PERCENT of the file system free
    #[arg(long, value_name = "PERCENT", requires = "folder", help_heading = "Rotation")]
    keep_free: Option<f64>,
    /// Number the files from 0 to N-1 of --keep-files, over and over
    #[arg(long, requires = "keep_files", help_heading = "Rotation")]
    wrap: bool,
    /// Run 'CMD FILE' in a shell after each finished file, one at a time, at the lowest priority; the
    /// end of the capture waits for the last one
    #[arg(long, value_name = "CMD", requires = "folder", help_heading = "Rotation")]
    exec: Option<String>,

    /// Size of the kernel's ring, per interface [default: 1/64 of free memory, 16M to 128M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Machine")]
    ring: Option<u64>,
    /// Size of the buffer between kernel and disk, touched as a whole before the first packet
    /// [default: 1/4 of free memory, 64M to 8G, touched some way ahead of need]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Machine")]
    buffer: Option<u64>,
    /// Cores for the lanes, in the order of -i; the last one serves the rest, and the writer. Or
    /// 'auto': those that 'quaff cores -i IF' advises
    #[arg(long, value_name = "N[,N]|auto", value_delimiter = ',', help_heading = "Machine")]
    cpu: Vec<Core>,
    /// Core for the writer [default: as --cpu says]
    #[arg(long, value_name = "N", help_heading = "Machine")]
    writer_cpu: Option<usize>,
    /// Real-time priority for the lanes (SCHED_FIFO, 1 to 99)
    #[arg(long, value_name = "PRIO", num_args = 0..=1, default_missing_value = "10", value_parser = clap::value_parser!(i32).range(1..=99), help_heading = "Machine")]
    rt: Option<i32>,

    /// Copy each packet N times more, for 'quaff bench'
    #[arg(long, value_name = "N", default_value_t = 0, hide = true)]
    copies: u32,
    /// Compress each packet at zlib's LEVEL and throw the result away, for 'quaff bench'
    #[arg(long, value_name = "LEVEL", default_value_t = 0, hide = true, value_parser = clap::value_parser!(u32).range(0..=9))]
    compress: u32,

    /// Print what would be done, and how long a disk may stand still, and exit
    #[arg(long, help_heading = "Words")]
    pub(crate) explain: bool,
    /// Print the ledger as JSON on stdout (on stderr with -w -)
    #[arg(long, help_heading = "Words")]
    pub(crate) json: bool,
    /// Print nothing but errors and "capturing"; twice, errors alone
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Words")]
    pub(crate) quiet: u8,
    /// Print a line about how it goes each TIME, also without a terminal
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Words")]
    pub(crate) stats: Option<Duration>,
    /// Show it as the name of the process instead, as 'ps -o comm' and top print it: digits of the
    /// number of lost packets, percent of the buffer in use, the most that ever was
    #[arg(long, requires = "stats", help_heading = "Words")]
    pub(crate) stats_name: bool,
}

/// What people call stdout.
const STDOUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

const EXAMPLES: &str = "\
Examples:
  quaff capture -i eth0 -w all.pcapng
  quaff capture -i eth0 -i eth1 -f 'tcp port 443' -s 128 --duration 5m -w tls.pcapng
  quaff capture -i eth0 --dir /data --rotate-time 1h --keep-free 10
  quaff capture -i eth0 -w - | tshark -r -
  quaff capture -i eth0 --decap erspan --inner 'tcp port 443' -w mirrored.pcapng
  quaff capture -i eth0 -w - --tee /data --keep-size 100G | tshark -r -
  quaff capture --read old.pcap.gz --salvage -w new.pcapng";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TimeName {
    Capture,
    Erspan,
}

/// One word of `--cpu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Core {
    Auto,
    Number(usize),
}

impl FromStr for Core {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            number => {
                number.parse().map(Self::Number).map_err(|_| "a core's number is needed, or 'auto'".into())
            }
        }
    }
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum FormatName {
    Pcapng,
    Pcap,
    PcapUs,
}

impl Args {
    /// The plan that was meant, with the sizes that suit this machine.
    pub(crate) fn plan(&self) -> anyhow::Result<CapturePlan> {
        let free_bytes = memory::free_bytes();
        self.check_memory(free_bytes)?;
        let is_stdout =
            self.write.as_deref().is_some_and(|path| STDOUT.iter().any(|name| path == Path::new(name)));
        let flush_default =
            if is_stdout || self.tee.is_some() { Duration::from_millis(200) } else { Duration::from_secs(1) };
        let (lanes, writer_cpu) = self.place()?;
        let cpu = |lane: usize| lanes.get(lane).or(lanes.last()).copied();
        let interfaces = self.interface.iter().enumerate();
        Ok(CapturePlan {
            interfaces: interfaces
                .map(|(i, name)| InterfacePlan { name: name.clone(), cpu: cpu(i) })
                .collect(),
            read: (!self.read.is_empty()).then(|| ReadPlan {
                files: self.read.clone(),
                salvage: self.salvage,
                follow: self.follow,
                cpu: cpu(0),
            }),
            output: self.output(is_stdout)?,
            live_copy: self.live_copy(is_stdout),
            format: match self.format {
                FormatName::Pcapng => Format::Pcapng,
                FormatName::Pcap => Format::Pcap,
                FormatName::PcapUs => Format::PcapUs,
            },
            filter: self.filter.clone().filter(|filter| !filter.trim().is_empty()),
            decap: self.decap.map(|kinds| DecapPlan {
                kinds,
                depth: self.decap_depth,
                only: self.decap_only,
                switch_time: self.time == TimeName::Erspan,
            }),
            inner: self.inner(),
            snaplen: if self.snaplen == 0 { SNAPLEN_MAX } else { self.snaplen },
            load: LoadPlan { copies: self.copies, compression: self.compress },
            promiscuous: !self.no_promiscuous,
            time_source: match self.time_stamp_type {
                TimeStampType::Host => TimeSource::Host,
                TimeStampType::Adapter => TimeSource::Adapter,
            },
            ring_bytes: self.ring.map_or_else(|| default_ring_bytes(free_bytes), |bytes| bytes as usize),
            block_bytes: BLOCK_BYTES,
            buffer_bytes: match self.buffer {
                Some(bytes) => bytes as usize,
                None if self.read.is_empty() => default_buffer_bytes(free_bytes),
                None => READ_BUFFER_BYTES,
            },
            populate_bytes: self.buffer.map_or(POPULATE_BYTES, |bytes| bytes as usize),
            chunk_bytes: CHUNK_BYTES,
            flush: self.flush.unwrap_or(flush_default),
            count: self.count,
            writer_cpu,
            real_time: self.rt,
        })
    }

    fn inner(&self) -> Option<InnerPlan> {
        let expression = self.inner.clone().filter(|inner| !inner.trim().is_empty())?;
        Some(InnerPlan { expression, user: self.inner_user })
    }

    /// The cores of the lanes, and the writer's.
    fn place(&self) -> anyhow::Result<(Vec<usize>, Option<usize>)> {
        let number = |core: &Core| match core {
            Core::Number(number) => Some(*number),
            Core::Auto => None,
        };
        let numbers: Vec<_> = self.cpu.iter().filter_map(number).collect();
        if numbers.len() == self.cpu.len() {
            let last = numbers.last().copied();
            return Ok((numbers, self.writer_cpu.or(last)));
        }
        if !numbers.is_empty() {
            bail!("--cpu: either cores or 'auto', not both");
        }
        let nic = self.interface.first().map(|name| Nic::read(Path::new("/"), name));
        let advice = advise(&Topology::here()?, nic.as_ref(), self.interface.len());
        Ok(advice.map_or((Vec::new(), self.writer_cpu), |advice| {
            (advice.readers, self.writer_cpu.or(Some(advice.writer)))
        }))
    }

    /// What was asked for has to be there: a process that takes more memory than there is gets killed.
    fn check_memory(&self, free_bytes: u64) -> anyhow::Result<()> {
        let rings = self.ring.unwrap_or(0).saturating_mul(self.interface.len() as u64);
        let wanted = self.buffer.unwrap_or(0).saturating_add(rings);
        if wanted > free_bytes {
            let (wanted, free) = (crate::show::bytes(wanted), crate::show::bytes(free_bytes));
            bail!(
                "--ring and --buffer want {wanted}, and {free} are free; a smaller --ring or --buffer is needed"
            );
        }
        Ok(())
    }

    /// Where a copy goes, when the packets themselves go into the folder of --tee.
    fn live_copy(&self, is_stdout: bool) -> Option<Output> {
        let write = self.tee.as_ref().and(self.write.as_ref())?;
        Some(if is_stdout { Output::Stdout } else { Output::File(write.clone()) })
    }

    fn output(&self, is_stdout: bool) -> anyhow::Result<Output> {
        if let Some(dir) = self.dir.as_ref().or(self.tee.as_ref()) {
            let meta = dir.metadata().with_context(|| format!("cannot use the folder {}", dir.display()))?;
            if !meta.is_dir() {
                bail!("{}: that is not a folder", dir.display());
            }
            return Ok(Output::Dir(DirPlan {
                dir: dir.clone(),
                name: self.name.clone(),
                rotate_bytes: self.rotate_size,
                rotate_time: self.rotate_time,
                retention: Retention {
                    files: self.keep_files,
                    bytes: self.keep_size,
                    free_percent: self.keep_free,
                },
                wrap: self.wrap,
                exec: self.exec.clone(),
            }));
        }
        if is_stdout {
            return Ok(Output::Stdout);
        }
        match &self.write {
            Some(path) => Ok(Output::File(path.clone())),
            None => Ok(Output::Stdout),
        }
    }
}
