//! The arguments (flags) of `quaff capture`, made into a plan (`quaff::plan`).

use super::edit::EditArgs;
use super::printer::PROGRAM;
use super::stop::AutoStop;
use crate::cmd::lanes::{self, SpreadArgs};
use crate::owner::OwnerArgs;
use crate::shell::{DurationArgs, ReportArgs, WatchArgs};
use crate::units::{self, CLOCKS, Choice, FORMATS, choice};
use anyhow::bail;
use quaff::cores::{Nic, Topology, advise};
use quaff::memory;
use quaff::plan::{
    CapturePlan, DecapPlan, HotplugPlan, InnerPlan, InputPlan, LoadPlan, ReadPlan, SNAPLEN_MAX, Via,
    WritePlan, default_rings_bytes,
};
use quaff::source::{interfaces_named, interfaces_now};
use quaff_file::write::{Codec, CompressPlan, DirPlan, Format, Output, Pipe, Retention, Suffix};
use quaff_os::packet::TimeSource;
use quaff_wire::tunnel::TunnelKinds;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Capture every packet of one or more interfaces, or convert existing captures
///
/// Packets go from the kernel's receive ring into a large locked buffer, and from there to disk, past
/// the page cache: a disk that stalls costs memory, not packets. Every packet ends in exactly one count,
/// written or lost at a named place. The counts are checked against the kernel's, printed at the end,
/// and written into the file where the loss occurred.
///
/// With --read, packets come from files instead: pcap of any kind and age, pcapng with several sections
/// and interfaces, compressed or not. Times, lengths, directions, interfaces and recorded drops are kept.
/// The same input always gives the same output, byte for byte.
///
/// SIGINT or SIGTERM ends the capture once everything the kernel had received is on disk; a second one
/// ends it immediately. A disk, or the reader of a pipe, that takes nothing for 10 s after that, or after
/// --duration, is abandoned, and what it has not taken is counted as lost. SIGUSR1 prints a progress line.
///
/// Exit status: 0 nothing was lost; 1 packets were lost, or an input file is damaged (what precedes the
/// damage is written); 2 the capture failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Interface to capture from; repeat it for more, each gets its own lane (ring and thread), or several with --lanes
    ///
    /// A pattern such as 'eth*' stands for all interfaces with such names, and 'any' for all that are up.
    #[arg(
        short,
        long = "interface",
        value_name = "IF",
        required_unless_present = "read",
        help_heading = "Input"
    )]
    interface: Vec<String>,
    /// List the interfaces instead of capturing, as 'quaff interfaces' does
    #[arg(short = 'D', long, exclusive = true, help_heading = "Input")]
    pub(crate) list_interfaces: bool,
    /// Read FILE instead of an interface; '-' is stdin; repeat it to read several in order
    ///
    /// pcap and pcapng, also compressed with gzip, zstd or lz4; the format is detected from the content.
    #[arg(
        short,
        long,
        value_name = "FILE",
        conflicts_with_all = ["interface", "no_promiscuous", "time_stamp_type", "ring", "rt"],
        help_heading = "Input"
    )]
    pub(crate) read: Vec<PathBuf>,
    /// At the end of FILE, wait for more data until the file is renamed or removed
    #[arg(long, requires = "read", help_heading = "Input")]
    follow: bool,
    /// After damage in FILE, search for the next plausible packet and continue
    #[arg(long, requires = "read", help_heading = "Input")]
    salvage: bool,
    /// Way by which packets come from the interface
    ///
    /// xdp receives before the stack, and takes ALL packets that the interface receives from this machine while it
    /// runs: its programs, its firewall and other captures do not receive them, so it is for ports that only listen.
    /// Packets that the interface sends are not captured. It needs a lane for each receive queue (--lanes auto),
    /// Ethernet, an MTU up to 3802, and no other XDP program on the interface; --filter is evaluated in the lane.
    #[arg(long, value_name = "WAY", default_value = "auto", value_parser = choice(WAYS), conflicts_with = "read", help_heading = "Input")]
    via: Via,
    /// Let --via xdp take the packets of an interface that has an IP address, by which this machine is reached
    #[arg(long, conflicts_with = "read", help_heading = "Input")]
    take_from_host: bool,
    /// Do not put the interface into promiscuous mode
    #[arg(short = 'p', long, help_heading = "Input")]
    no_promiscuous: bool,
    /// Capture only packets that arrive, not those that this machine sends
    #[arg(long, conflicts_with_all = ["read", "hotplug"], help_heading = "Input")]
    incoming: bool,
    /// End the capture when any of the interfaces is removed, instead of with the last one
    #[arg(long, conflicts_with = "read", help_heading = "Input")]
    require_all: bool,
    /// Capture also interfaces that come while the capture runs and match -i, up to N of them [default: 8]
    ///
    /// Each has a lane that waits for it, with a ring of its own, and is in the file with its first packet. An
    /// interface that is removed and made again is one that comes. The capture does not end with its last
    /// interface.
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "8",
        value_parser = clap::value_parser!(u64).range(1..=64),
        conflicts_with_all = ["read", "require_all"],
        help_heading = "Input"
    )]
    hotplug: Option<u64>,
    /// Clock that time-stamps the packets
    #[arg(short = 'j', long, value_name = "TYPE", default_value = "host", value_parser = choice(CLOCKS), help_heading = "Input")]
    time_stamp_type: TimeSource,
    /// Stop after N packets, such as 1000 or 3M
    #[arg(short, long, value_name = "N", value_parser = units::packets, help_heading = "Input")]
    pub(super) count: Option<u64>,
    #[command(flatten)]
    pub(super) end: DurationArgs,
    /// Stop at a condition of dumpcap: duration:SECONDS, packets:N, filesize:KB (1000 bytes; with --dir the next
    /// file starts then) or files:N; repeat it for more
    #[arg(short = 'a', long, value_name = "CONDITION", help_heading = "Input")]
    pub(super) autostop: Vec<AutoStop>,

    /// Keep only packets that match a tcpdump expression; evaluated in the kernel for interfaces
    #[arg(short, long, value_name = "EXPR", help_heading = "Filter")]
    filter: Option<String>,
    /// Bytes to keep of each packet; 0 keeps all
    #[arg(short, long, value_name = "BYTES", default_value_t = 0, help_heading = "Filter")]
    snaplen: u32,
    /// Remove tunnel headers and keep the frames inside: auto, or a list of erspan, gre (nvgre), vxlan,
    /// geneve, ipip (6in4), mpls, gtp, l2tp, tzsp
    ///
    /// Each tunnel's sender and session becomes an interface of the file. Packets without a tunnel pass
    /// unchanged.
    #[arg(long, value_name = "KINDS", help_heading = "Filter")]
    decap: Option<TunnelKinds>,
    /// Remove at most N nested tunnels
    #[arg(long, value_name = "N", default_value_t = 4, requires = "decap", value_parser = clap::value_parser!(u8).range(1..=16), help_heading = "Filter")]
    decap_depth: u8,
    /// Drop packets that are not in a tunnel
    #[arg(long, requires = "decap", help_heading = "Filter")]
    decap_only: bool,
    /// Keep only frames that match a tcpdump expression after decapsulation
    ///
    /// Evaluated in the kernel where the outer headers have a fixed length (ERSPAN and VXLAN over IPv4
    /// without options), so that other packets are never copied, and in user space for everything else.
    /// Both keep the same packets; --dry-run shows which is used.
    #[arg(long, value_name = "EXPR", help_heading = "Filter")]
    inner: Option<String>,
    /// Evaluate --inner in user space only: costs more CPU, but counts gaps in ERSPAN sequence numbers,
    /// which a kernel filter would leave too
    #[arg(long, requires = "inner", help_heading = "Filter")]
    inner_user: bool,
    /// Time of decapsulated frames: capture (the outer packet's), or erspan (the switch's, in ERSPAN III)
    #[arg(long, value_name = "TIME", default_value = "capture", requires = "decap", help_heading = "Filter")]
    time: TimeName,

    #[command(flatten)]
    edit: EditArgs,

    /// Write to FILE, which is readable while it grows; '-' is stdout
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["dir", "print", "dry_run", "dump_filter"], conflicts_with = "dir", help_heading = "Output")]
    write: Option<PathBuf>,
    /// Print a line for each packet on stdout, made by tcpdump, while the capture is written to -w or --dir; without
    /// those, print only
    ///
    /// Disk writes never wait for tcpdump. Packets that it misses are counted as those of the live copy of --tee.
    #[arg(long, conflicts_with = "tee", help_heading = "Output")]
    pub(super) print: bool,
    /// File format: pcapng, pcap (nanoseconds), or pcap-us (microseconds, for old readers) [default: by the
    /// suffix of FILE, .pcap or .pcapng, else pcapng]
    #[arg(long, value_name = "FORMAT", value_parser = choice(FORMATS), help_heading = "Output")]
    format: Option<Format>,
    /// Compress the output: zstd[:LEVEL], lz4 or gzip[:LEVEL] [default: by the suffix of -w: .zst, .lz4, .gz]
    ///
    /// On threads of its own; the files of a folder get the suffix. The output is a series of complete frames,
    /// which zstd -d, lz4 -d and gunzip read, after kill -9 too. When compression does not keep up with the
    /// packets, some are stored uncompressed in the same file, and counted; none is lost for it. Levels are 1
    /// to 19 (zstd) and 1 to 9 (gzip), 1 if omitted.
    #[arg(long, value_name = "TYPE", value_parser = units::codec, help_heading = "Output")]
    compress: Option<Codec>,
    /// Comment in the header of each file, which Wireshark shows in the properties of the capture; pcapng only
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    annotate: Option<String>,
    /// Stop before the output exceeds SIZE, all files of the run together
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Output")]
    pub(super) stop_size: Option<u64>,
    /// Longest time until a packet is on disk, while the disk keeps up [default: 1s; with stdout, --tee, --print
    /// or --ordered 200ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Output")]
    flush: Option<Duration>,
    /// Write the packets of all lanes to stdout or a pipe in the order of their times
    ///
    /// A packet waits until no older one can come: for --flush and 0.2 s, or at most 1 s longer if a lane stands still,
    /// in up to 256 MiB of memory. Packets that come after that wait are written as they come and counted, and the exit
    /// status is 1. Files and folders are sorted afterwards: 'quaff merge'.
    #[arg(long, help_heading = "Output")]
    ordered: bool,
    /// Sync the file to disk every INTERVAL (fsync), so that a power failure costs at most what was written since;
    /// without it a file is synced when it ends
    #[arg(long, value_name = "INTERVAL", value_parser = units::duration, help_heading = "Output")]
    fsync: Option<Duration>,

    /// Write a series of files into DIR, created if needed; a file ends in .part until it is complete; repeat it for a
    /// folder on another disk
    ///
    /// Each folder has its own writer thread. Lanes are distributed over the folders in order; with more
    /// folders than lanes, each file goes to the next folder. When a folder fails, another one takes over.
    #[arg(long, value_name = "DIR", group = "folder", help_heading = "Rotation")]
    dir: Vec<PathBuf>,
    /// As --dir, with a live copy to -w (stdout or a pipe)
    ///
    /// Disk writes never wait for the live copy. Packets that its reader misses are counted separately and
    /// recorded in the copy. The capture ends when the reader closes the copy.
    #[arg(long, value_name = "DIR", group = "folder", requires = "write", help_heading = "Rotation")]
    tee: Option<PathBuf>,
    /// Template for file names: strftime fields in local time, followed by a number (NAME-000001.pcapng); %i
    /// or %3i places the number, and the suffix after it decides the format
    #[arg(
        long,
        value_name = "NAME",
        default_value = "quaff-%Y%m%dT%H%M%S",
        requires = "folder",
        help_heading = "Rotation"
    )]
    name: String,
    /// Use UTC instead of local time for file names and for the boundaries of --rotate-time
    #[arg(long, requires = "folder", help_heading = "Rotation")]
    utc: bool,
    /// Start the next file before this one exceeds SIZE, such as 256M or 1G
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, requires = "folder", help_heading = "Rotation")]
    pub(super) rotate_size: Option<u64>,
    /// Start a file every TIME, aligned to midnight in local time, with or without traffic
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "folder", help_heading = "Rotation")]
    rotate_time: Option<Duration>,
    /// Keep at most N files in each folder, including the one being written and those of earlier runs; remove
    /// the oldest
    #[arg(long, value_name = "N", requires = "folder", help_heading = "Rotation")]
    keep_files: Option<u64>,
    /// Keep at most SIZE in all files of each folder together
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, requires = "folder", help_heading = "Rotation")]
    keep_size: Option<u64>,
    /// Keep PERCENT of the file system of each folder free; the newest files stay even if other files fill it
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, requires = "folder", help_heading = "Rotation")]
    keep_free: Option<f64>,
    /// Number the files 0 to N-1 (the N of --keep-files) in a cycle
    #[arg(long, requires = "keep_files", help_heading = "Rotation")]
    wrap: bool,
    /// Stop after N files
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "folder", help_heading = "Rotation")]
    pub(super) stop_files: Option<u64>,
    /// Run 'CMD FILE' in a shell after each completed file, one at a time, at the lowest priority; the
    /// capture waits for the last one before it exits
    #[arg(long, value_name = "CMD", requires = "folder", help_heading = "Rotation")]
    exec: Option<String>,

    #[command(flatten)]
    lanes: SpreadArgs,
    /// Size of the kernel's receive ring, per lane [default: 1/64 of free memory, 16M to 128M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Performance")]
    ring: Option<u64>,
    /// Size of the buffer between kernel and output; pre-faulted for 0.5 s before capturing, then in the
    /// background [default: 1/4 of free memory, 64M to 8G]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Performance")]
    buffer: Option<u64>,
    /// Cores for the lanes, in the order of -i; the last one also serves further lanes and the writer.
    /// 'auto' takes the cores that 'quaff cores -i IF' recommends
    #[arg(long, value_name = "N[,N]|auto", value_delimiter = ',', help_heading = "Performance")]
    cpu: Vec<Core>,
    /// Core for the writer [default: from --cpu]
    #[arg(long, value_name = "N", help_heading = "Performance")]
    writer_cpu: Option<usize>,
    /// Cores for --compress, one thread each [default: one thread, on any core without a lane]
    #[arg(long, value_name = "N[,N]", value_delimiter = ',', help_heading = "Performance")]
    compress_cpu: Vec<usize>,
    /// Run the lanes at real-time priority PRIO (SCHED_FIFO, 1 to 99; 10 if omitted)
    #[arg(long, value_name = "PRIO", num_args = 0..=1, default_missing_value = "10", value_parser = clap::value_parser!(i32).range(1..=99), help_heading = "Performance")]
    rt: Option<i32>,

    #[command(flatten)]
    owner: OwnerArgs,

    /// Copy each packet N more times, for 'quaff bench'
    #[arg(long, value_name = "N", default_value_t = 0, hide = true)]
    copies: u32,
    /// Compress each packet at zlib's LEVEL and discard the result, for 'quaff bench'
    #[arg(long, value_name = "LEVEL", default_value_t = 0, hide = true, value_parser = clap::value_parser!(u32).range(0..=9))]
    load_compress: u32,

    /// Check everything that can be checked, and show what would be done and how long the disk may stall without loss;
    /// capture nothing
    #[arg(long, alias = "explain", help_heading = "Report")]
    pub(crate) dry_run: bool,
    /// Print the compiled filters, as tcpdump -d does: the kernel's part and that in user space; capture nothing
    #[arg(long, conflicts_with = "dry_run", help_heading = "Report")]
    pub(crate) dump_filter: bool,
    /// Collect the evidence of losses before the packets that are written, as 'quaff verify' does: the verdict is in
    /// the report, and in the last statistics of the file
    #[arg(long, help_heading = "Report")]
    pub(crate) prove: bool,
    #[command(flatten)]
    pub(super) report: ReportArgs,
    #[command(flatten)]
    pub(super) watch: WatchArgs,
    /// Show progress as the process name (ps -o comm, top) instead: digits of the number of lost packets,
    /// percent of the buffer in use, highest percent so far
    #[arg(long, requires = "stats", help_heading = "Report")]
    pub(crate) stats_name: bool,
}

/// The ways of --via, and what they are. 'auto' is the first one: only the user knows that a port is for listening.
const WAYS: [Choice<Via>; 5] = [
    ("auto", Via::Packet, "packet"),
    ("packet", Via::Packet, "AF_PACKET: a copy, the host receives the packets too"),
    ("xdp", Via::Xdp, "AF_XDP, in the driver where it runs XDP programs, else in the stack"),
    ("xdp-generic", Via::XdpGeneric, "AF_XDP in the stack, for a driver whose XDP does not work"),
    ("tap", Via::Tap, "the ring of 'quaff tap --forward xdp', which starts its recorder so"),
];

/// Names of stdout that users pass to -w.
const STDOUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

const EXAMPLES: &str = "\
Examples:
  quaff capture -i eth0 -w all.pcapng
  quaff capture -i eth0 -i eth1 -f 'tcp port 443' -s 128 -d 5m -w tls.pcapng
  quaff capture -i any -w all.pcapng
  quaff capture -i eth0 --lanes 4 --spread addresses --dir /disk0 --dir /disk1
  quaff capture -i eth2 --via xdp --lanes auto --dir /data
  quaff capture -i 'veth*' --hotplug -w containers.pcapng
  quaff capture -i eth0 --dir /data --rotate-time 1h --keep-free 10
  quaff capture -i eth0 -i eth1 --dir /disk0 --dir /disk1 --keep-free 10
  quaff capture -i eth0 --dir /data --compress zstd --keep-size 500G
  quaff capture -i eth0 -w - | tshark -r -
  quaff capture -i eth0 -i eth1 -w - --ordered | tshark -r -
  quaff capture -i eth0 --decap erspan --inner 'tcp port 443' -w mirror.pcapng
  quaff capture -i eth0 -w - --tee /data --keep-size 100G | tshark -r -
  quaff capture --read old.pcap.gz --salvage -w new.pcapng
  quaff capture --read day.pcapng --from +10m --to +20m -w part.pcapng
  quaff capture --read gtp.pcap --decap gtp --format pcap -w inner.pcap";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TimeName {
    Capture,
    Erspan,
}

/// One item of `--cpu`.
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
            number => number.parse().map(Self::Number).map_err(|_| "expected a core number or 'auto'".into()),
        }
    }
}

impl Args {
    /// Captures from interfaces, not from files.
    pub(crate) fn is_live(&self) -> bool {
        !self.interface.is_empty()
    }

    /// Returns whether someone waits for the packets, and not for a file.
    fn has_reader(&self) -> bool {
        let to_stdout = self.write.is_some() && self.written() == Output::Stdout;
        self.tee.is_some() || self.print || self.ordered || to_stdout
    }

    /// The plan, with default sizes for this machine.
    pub(crate) fn plan(&self) -> anyhow::Result<CapturePlan> {
        let free_bytes = memory::free_bytes();
        let hotplug =
            self.hotplug.map(|lanes| HotplugPlan { names: self.interface.clone(), lanes: lanes as usize });
        let names = match hotplug {
            Some(_) => interfaces_now(&self.interface)?,
            None => interfaces_named(&self.interface)?,
        };
        let counts = self.lanes.counts(&names);
        let rings = counts.iter().sum::<usize>() + hotplug.as_ref().map_or(0, |hotplug| hotplug.lanes);
        self.check_memory(free_bytes, rings)?;
        let flush_default = Duration::from_millis(if self.has_reader() { 200 } else { 1000 });
        let (cores, writer_cpu) = self.place(&names, counts.iter().sum())?;
        let ring_bytes = default_rings_bytes(free_bytes, rings);
        let input = InputPlan {
            interfaces: lanes::interfaces(names, &counts, &cores),
            spread: self.lanes.spread(),
            via: self.via,
            take_from_host: self.take_from_host,
            hotplug,
            read: (!self.read.is_empty()).then(|| ReadPlan {
                files: self.read.clone(),
                salvage: self.salvage,
                follow: self.follow,
                cpu: cores.first().copied(),
                ..ReadPlan::default()
            }),
            filter: self.filter.clone().filter(|filter| !filter.trim().is_empty()),
            decap: self.decap.map(|kinds| DecapPlan {
                kinds,
                depth: self.decap_depth,
                only: self.decap_only,
                switch_time: self.time == TimeName::Erspan,
            }),
            inner: self
                .inner
                .clone()
                .filter(|inner| !inner.trim().is_empty())
                .map(|expression| InnerPlan { expression, user: self.inner_user }),
            edit: self.edit.plan(),
            snaplen: if self.snaplen == 0 { SNAPLEN_MAX } else { self.snaplen },
            load: LoadPlan { copies: self.copies, compression: self.load_compress },
            promiscuous: !self.no_promiscuous,
            is_incoming: self.incoming,
            require_all: self.require_all,
            time_source: self.time_stamp_type,
            ring_bytes: self.ring.map_or(ring_bytes, |bytes| bytes as usize),
            count: self.count(),
            real_time: self.rt,
            prove: self.prove,
            ..InputPlan::default()
        };
        let write = WritePlan {
            format: self.file_format()?,
            flush: self.flush.unwrap_or(flush_default),
            ordered: self.ordered,
            limit: self.limit(),
            fsync: self.fsync,
            compress: self.compress_plan()?,
            cpu: writer_cpu,
            access: self.owner.access()?,
            owner: self.owner.caller(),
            annotation: self.annotate.clone(),
            ..WritePlan::with_buffer(self.buffer, free_bytes, self.read.is_empty())
        };
        // The packets themselves go into the folder of --tee.
        let (output, live_copy) = self.outputs()?;
        Ok(CapturePlan { input, write, output, live_copy, sandbox: self.owner.sandbox() })
    }

    /// The compression asked for, or that of the file's name.
    fn compress_plan(&self) -> anyhow::Result<Option<CompressPlan>> {
        let path = self.write.as_ref().filter(|_| self.tee.is_none());
        let named = path.and_then(|path| Suffix::of(path).compression);
        if let (Some(codec), Some(named)) = (self.compress, named)
            && codec.compression != named
        {
            bail!("--compress {codec} contradicts the name of the file of -w: change one of them");
        }
        let Some(codec) = self.compress.or(named.map(Codec::fastest)) else {
            if !self.compress_cpu.is_empty() {
                bail!("--compress-cpu needs --compress, or a file of -w that ends in .zst, .lz4 or .gz");
            }
            return Ok(None);
        };
        let (threads, cores) = (self.compress_cpu.len().max(1), self.compress_cpu.clone());
        Ok(Some(CompressPlan { threads, cores, ..CompressPlan::new(codec) }))
    }

    /// The cores of the lanes and of the writer.
    fn place(&self, names: &[String], lanes: usize) -> anyhow::Result<(Vec<usize>, Option<usize>)> {
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
            bail!("--cpu takes core numbers or 'auto', not both");
        }
        let nic = names.first().map(|name| Nic::read(Path::new("/"), name));
        let advice = advise(&Topology::here()?, nic.as_ref(), lanes);
        Ok(advice.map_or((Vec::new(), self.writer_cpu), |advice| {
            (advice.readers, self.writer_cpu.or(Some(advice.writer)))
        }))
    }

    /// Refuses a ring and buffer that exceed free memory, for which the kernel would kill the process.
    fn check_memory(&self, free_bytes: u64, rings: usize) -> anyhow::Result<()> {
        let rings = self.ring.unwrap_or(0).saturating_mul(rings as u64);
        let wanted = self.buffer.unwrap_or(0).saturating_add(rings);
        if wanted > free_bytes {
            let (wanted, free) = (crate::show::bytes(wanted), crate::show::bytes(free_bytes));
            bail!("--ring and --buffer take {wanted}, but only {free} are free: choose smaller ones");
        }
        Ok(())
    }

    /// The packets go into a folder of files; with --tee, -w has a copy.
    pub(super) fn is_into_folder(&self) -> bool {
        !self.dir.is_empty() || self.tee.is_some()
    }

    /// The format of --format, or of the suffix of a file's name.
    fn file_format(&self) -> anyhow::Result<Format> {
        let is_folder = self.is_into_folder();
        let suffix = match &self.write {
            Some(path) if !is_folder => Suffix::of(path),
            _ => Suffix::of_template(&self.name),
        };
        if is_folder && suffix.compression.is_some() && self.compress.is_none() {
            bail!("--name {} needs --compress, or a name without the last suffix", self.name);
        }
        Ok(self.format.or(suffix.format).unwrap_or_default())
    }

    /// The file of -w; without one stdout.
    fn written(&self) -> Output {
        let file =
            self.write.as_ref().filter(|path| !STDOUT.iter().any(|name| path.as_path() == Path::new(name)));
        file.map_or(Output::Stdout, |path| Output::File(path.clone()))
    }

    /// The output, and the live copy of it.
    fn outputs(&self) -> anyhow::Result<(Output, Option<Output>)> {
        let output = self.output()?;
        let printed = || Output::Pipe(Pipe::to(PROGRAM));
        if self.print && self.write.is_none() && self.dir.is_empty() {
            if self.compress.is_some() {
                bail!("--compress is for files, and tcpdump reads none: name one with -w or --dir");
            }
            return Ok((printed(), None));
        }
        if self.print && output == Output::Stdout {
            bail!("--print and -w - both write to stdout: leave one out");
        }
        let copy = self.tee.as_ref().map(|_| self.written());
        Ok((output, copy.or(self.print.then(printed))))
    }

    /// The pipe to the program that prints the packets of `plan`.
    pub(super) fn pipe<'a>(&self, plan: &'a CapturePlan) -> Option<&'a Pipe> {
        std::iter::once(&plan.output).chain(&plan.live_copy).find_map(|output| match output {
            Output::Pipe(pipe) => Some(pipe),
            _ => None,
        })
    }

    fn output(&self) -> anyhow::Result<Output> {
        let folders = self.dir.iter().chain(&self.tee).map(|dir| self.folder(dir));
        let mut folders = folders.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(match folders.pop() {
            None => self.written(),
            Some(dir) if folders.is_empty() => Output::Dir(dir),
            Some(last) => {
                folders.push(last);
                Output::Dirs(folders)
            }
        })
    }

    /// The plan of one folder.
    fn folder(&self, dir: &Path) -> anyhow::Result<DirPlan> {
        if dir.exists() && !dir.is_dir() {
            bail!("{} is not a folder", dir.display());
        }
        Ok(DirPlan {
            dir: dir.to_owned(),
            name: self.name.clone(),
            utc: self.utc,
            rotate_bytes: self.rotate_bytes(),
            rotate_time: self.rotate_time,
            retention: Retention {
                files: self.keep_files,
                bytes: self.keep_size,
                free_percent: self.keep_free,
            },
            wrap: self.wrap,
            exec: self.exec.clone(),
        })
    }
}
