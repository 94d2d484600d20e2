//! The arguments (flags) of `quaff capture`, made into a plan (`quaff::plan`).

use super::auto_stop::AutoStop;
use super::edit::EditArgs;
use super::habits::HabitArgs;
use super::printer::PROGRAM;
use crate::flags::{
    BufferArg, Bytes, CaptureCores, ClockArg, CompressArg, CopiesArg, DryRunArg, FlushArg, FollowArg,
    FormatArg, FsyncArg, InputArgs, LaneArgs, OwnerArgs, RotationArgs, SnaplenArg, TunnelArgs, ViaArg,
    WriteArg, of, values,
};
use crate::shell::{DurationArgs, ReportArgs, WatchArgs};
use crate::units::{self, Choice, choice};
use anyhow::bail;
use clap::builder::Resettable;
use clap::{Arg, ArgGroup, Id};
use quaff::memory;
use quaff::plan::{CapturePlan, HotplugPlan, InputPlan, LoadPlan, SNAPLEN_MAX, Via, WritePlan};
use quaff::source::{interfaces_named, interfaces_now};
use quaff_file::write::{Codec, CompressPlan, Format, Output, Pipe, Suffix};
use std::path::{Path, PathBuf};
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
/// --via xdp receives before the stack, and takes ALL packets that the interface receives from this machine while it
/// runs: its programs, its firewall and other captures do not receive them, so it is for ports that only listen.
/// Packets that the interface sends are not captured. It needs a lane for each receive queue (--lanes auto),
/// Ethernet, an MTU up to 3802, and no other XDP program on the interface; --filter is evaluated in the lane.
///
/// Exit status: 0 nothing was lost; 1 packets were lost, or an input file is damaged (what precedes the
/// damage is written); 2 the capture failed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_args(of("read", |arg| arg.conflicts_with_all(["time_stamp_type", "ring", "rt", "via"]))),
    mut_args(of("dry_run", |arg| arg.alias("explain"))),
    mut_args(of("copies", |arg| arg.hide(true))),
    group(ArgGroup::new("series").multiple(true).args(["dir", "tee", "file_size", "file_time", "ring_parts"])),
    mut_args(of_series)
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) input: InputArgs,
    /// List the interfaces instead of capturing, as 'quaff interfaces' does
    #[arg(short = 'D', long, exclusive = true, help_heading = "Input")]
    pub(crate) list_interfaces: bool,
    #[command(flatten)]
    follow: FollowArg,
    #[command(flatten, next_help_heading = "Input")]
    via: ViaArg<Via>,
    /// Let --via xdp take the packets of an interface that has an IP address, by which this machine is reached
    #[arg(long, conflicts_with = "read", help_heading = "Input")]
    take_from_host: bool,
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
    #[command(flatten, next_help_heading = "Input")]
    clock: ClockArg,
    #[command(flatten)]
    pub(super) end: DurationArgs,
    /// Stop at a condition of dumpcap: duration:SECONDS, packets:N, filesize:KB (1000 bytes; with --dir the next
    /// file starts then) or files:N; repeat it for more
    #[arg(short = 'a', long, value_name = "CONDITION", help_heading = "Input")]
    pub(super) autostop: Vec<AutoStop>,

    #[command(flatten, next_help_heading = "Filter")]
    snaplen: SnaplenArg<u32>,
    #[command(flatten)]
    tunnels: TunnelArgs,
    /// Evaluate --inner in user space only, which costs more CPU, but counts gaps in ERSPAN sequence numbers that a
    /// kernel filter would leave too; --dry-run shows which is used
    #[arg(long, requires = "inner", help_heading = "Filter")]
    inner_user: bool,
    /// Time of decapsulated frames: capture (the outer packet's), or erspan (the switch's, in ERSPAN III)
    #[arg(long, value_name = "TIME", default_value = "capture", requires = "decap", help_heading = "Filter")]
    time: TimeName,

    #[command(flatten)]
    edit: EditArgs,

    #[command(flatten)]
    pub(super) write: WriteArg,
    /// Print packets on stdout too, as tcpdump does; without -w or --dir they are printed anyway
    ///
    /// Disk writes never wait for tcpdump. Packets that it misses are counted as those of the live copy of --tee.
    #[arg(long, conflicts_with = "tee", help_heading = "Output")]
    pub(super) print: bool,
    #[command(flatten)]
    pub(super) habits: HabitArgs,
    #[command(flatten)]
    format: FormatArg,
    #[command(flatten, next_help_heading = "Output")]
    pub(super) compress: CompressArg<Codec>,
    /// Comment in the header of each file, which Wireshark shows in the properties of the capture; pcapng only
    #[arg(
        long,
        visible_alias = "comment",
        alias = "capture-comment",
        value_name = "TEXT",
        help_heading = "Output"
    )]
    annotate: Option<String>,
    /// Comment on each packet that is written, after those that it has, which Wireshark lists as frame.comment; pcapng
    /// only
    ///
    /// Packets are those that the filter, --grep and the other conditions keep. Comments that packets of FILE have are
    /// kept, with or without this option.
    #[arg(long, value_name = "TEXT", requires = "read", help_heading = "Output")]
    comment_packets: Option<String>,
    /// Stop before the output exceeds SIZE, all files of the run together
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Output")]
    pub(super) stop_size: Option<u64>,
    #[command(flatten)]
    pub(super) flush: FlushArg,
    /// Write the packets of all lanes to stdout or a pipe in the order of their times
    ///
    /// A packet waits until no older one can come: for --flush and 0.2 s, or at most 1 s longer if a lane stands still,
    /// in up to 256 MiB of memory. Packets that come after that wait are written as they come and counted, and the exit
    /// status is 1. Files and folders are sorted afterwards: 'quaff merge'.
    #[arg(long, help_heading = "Output")]
    ordered: bool,
    #[command(flatten)]
    fsync: FsyncArg,

    #[command(flatten)]
    pub(super) rotation: RotationArgs,
    /// As --dir, with a live copy to -w (stdout or a pipe)
    ///
    /// Disk writes never wait for the live copy. Packets that its reader misses are counted separately and
    /// recorded in the copy. The capture ends when the reader closes the copy.
    #[arg(long, value_name = "DIR", group = "folder", requires = "write", help_heading = "Rotation")]
    tee: Option<PathBuf>,
    #[command(flatten)]
    lanes: LaneArgs,
    #[command(flatten, next_help_heading = "Performance")]
    buffer: BufferArg<Bytes>,
    #[command(flatten)]
    cores: CaptureCores,
    /// Cores for --compress, one thread each [default: one thread, on any core without a lane]
    #[arg(long, value_name = "N[,N]", value_delimiter = ',', help_heading = "Performance")]
    compress_cpu: Vec<usize>,
    /// Run the lanes at real-time priority PRIO (SCHED_FIFO, 1 to 99; 10 if omitted)
    #[arg(long, value_name = "PRIO", num_args = 0..=1, default_missing_value = "10", value_parser = clap::value_parser!(i32).range(1..=99), help_heading = "Performance")]
    rt: Option<i32>,

    #[command(flatten)]
    owner: OwnerArgs,

    #[command(flatten)]
    copies: CopiesArg<u32>,
    /// Compress each packet at zlib's LEVEL and discard the result, for 'quaff bench'
    #[arg(long, value_name = "LEVEL", default_value_t = 0, hide = true, value_parser = clap::value_parser!(u32).range(0..=9))]
    load_compress: u32,

    #[command(flatten, next_help_heading = "Report")]
    pub(crate) dry_run: DryRunArg,
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

values! {
    Via: choice(WAYS);
}

/// Limits of the files of a folder, or of those that -C, -G or -b make of -w.
const OF_SERIES: [&str; 9] = [
    "rotate_size",
    "rotate_time",
    "rotate_packets",
    "keep_files",
    "keep_size",
    "keep_free",
    "wrap",
    "stop_files",
    "exec",
];

/// A flag of [`OF_SERIES`] needs any of the flags that make several files.
fn of_series(arg: Arg) -> Arg {
    match OF_SERIES.contains(&arg.get_id().as_str()) {
        true => arg.requires(Resettable::<Id>::Reset).requires("series"),
        false => arg,
    }
}

/// Names of stdout that users pass to -w.
const STDOUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

const EXAMPLES: &str = "\
Examples:
  quaff capture -i eth0
  quaff capture -i eth0 -w all.pcapng
  quaff capture -i eth0 -w web.pcapng tcp port 80
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
  quaff capture /data port 53 -w dns.pcapng
  quaff capture --read old.pcap.gz --salvage -w new.pcapng
  quaff capture --read day.pcapng --from +10m --to +20m -w part.pcapng
  quaff capture --read gtp.pcap --decap gtp --format pcap -w inner.pcap";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TimeName {
    Capture,
    Erspan,
}

impl Args {
    /// Captures from interfaces, not from files.
    pub(crate) fn is_live(&self) -> bool {
        self.input.is_live()
    }

    /// Reads files.
    pub(super) fn is_reading(&self) -> bool {
        !self.input.files().is_empty()
    }

    /// The file of -w is stdout.
    pub(super) fn is_to_stdout(&self) -> bool {
        !self.write.is_empty() && self.written() == Output::Stdout
    }

    /// Packets are printed: it is asked for, or no output is named.
    pub(super) fn is_printing(&self) -> bool {
        self.print || (self.write.is_empty() && !self.is_into_folder() && !self.dump_filter)
    }

    /// Printed packets have the name of their interface, as with `tcpdump -i any`, unless -i names the only one.
    pub(super) fn prints_interfaces(&self, plan: &CapturePlan) -> bool {
        let captured = plan.input.interfaces.iter().map(|interface| &interface.name);
        let is_one = plan.input.interfaces.len() == 1 && plan.input.hotplug.is_none();
        let is_the_named = is_one && captured.eq(self.input.interfaces());
        self.is_printing() && self.is_live() && !is_the_named && plan.write.format == Format::Pcapng
    }

    /// Returns whether someone waits for the packets, and not for a file.
    fn has_reader(&self) -> bool {
        self.tee.is_some() || self.is_printing() || self.ordered || self.is_to_stdout()
    }

    /// The plan, with default sizes for this machine.
    pub(crate) fn plan(&self) -> anyhow::Result<CapturePlan> {
        let wanted = self.input.interfaces();
        let hotplug = self.hotplug.map(|lanes| HotplugPlan { names: wanted.to_vec(), lanes: lanes as usize });
        let names = if hotplug.is_some() { interfaces_now(wanted)? } else { interfaces_named(wanted)? };
        let lanes = self.lanes.count(&names);
        let more_rings = hotplug.as_ref().map_or(0, |hotplug| hotplug.lanes);
        self.check_memory(memory::free_bytes(), lanes + more_rings)?;
        let flush_default = Duration::from_millis(if self.has_reader() { 200 } else { 1000 });
        let (cores, writer_cpu) = self.cores.place(&names, lanes)?;
        let input = (self.lanes.plan(names, &cores, more_rings), self.lanes.of_files());
        let outputs = self.rotation.folder.dir.iter().chain(&self.tee).chain(self.write.iter());
        let found = self.input.find(&outputs.map(PathBuf::as_path).collect::<Vec<_>>())?;
        self.follow.check(&found)?;
        let mut input = InputPlan {
            via: *self.via,
            take_from_host: self.take_from_host,
            hotplug,
            edit: self.edit.plan(),
            snaplen: self.snaplen.filter(|bytes| *bytes > 0).unwrap_or(SNAPLEN_MAX),
            load: LoadPlan { copies: self.copies.unwrap_or(0), compression: self.load_compress },
            is_incoming: self.incoming,
            require_all: self.require_all,
            time_source: *self.clock,
            real_time: self.rt,
            prove: self.prove,
            ..self.tunnels.add_to(self.input.add_to(input, found, &cores))
        };
        input.count = self.count();
        input.read.iter_mut().for_each(|read| read.follow = *self.follow);
        input.decap.iter_mut().for_each(|decap| decap.switch_time = self.time == TimeName::Erspan);
        input.inner.iter_mut().for_each(|inner| inner.user = self.inner_user);
        let write = WritePlan {
            format: self.file_format()?,
            flush: self.flush.unwrap_or(flush_default),
            ordered: self.ordered,
            limit: self.limit(),
            fsync: *self.fsync,
            compress: self.compress_plan()?,
            cpu: writer_cpu,
            access: self.owner.access()?,
            owner: self.owner.user.caller(),
            annotation: self.annotate.clone(),
            packet_comment: self.comment_packets.clone(),
            ..WritePlan::with_buffer(
                self.buffer.map(|Bytes(bytes)| bytes),
                memory::default_free_bytes(),
                !self.is_reading(),
            )
        };
        // The packets themselves go into the folder of --tee.
        let (output, live_copy) = self.outputs()?;
        Ok(CapturePlan { input, write, output, live_copy, sandbox: self.owner.user.sandbox() })
    }

    /// The compression asked for, or that of the file's name.
    fn compress_plan(&self) -> anyhow::Result<Option<CompressPlan>> {
        let path = self.write.first().filter(|_| self.tee.is_none());
        let named = path.and_then(|path| Suffix::of(path).compression);
        if let (Some(codec), Some(named)) = (*self.compress, named)
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

    /// Refuses a ring and buffer that exceed free memory, for which the kernel would kill the process.
    fn check_memory(&self, free_bytes: u64, rings: usize) -> anyhow::Result<()> {
        let rings = self.lanes.ring.unwrap_or(0).saturating_mul(rings as u64);
        let wanted = self.buffer.map_or(0, |Bytes(bytes)| bytes).saturating_add(rings);
        if wanted > free_bytes {
            let (wanted, free) = (crate::show::bytes(wanted), crate::show::bytes(free_bytes));
            bail!("--ring and --buffer take {wanted}, but only {free} are free: choose smaller ones");
        }
        Ok(())
    }

    /// The packets go into a folder of files; with --tee, -w has a copy.
    pub(super) fn is_into_folder(&self) -> bool {
        !self.rotation.folder.dir.is_empty() || self.tee.is_some()
    }

    /// The format of --format, or of the suffix of a file's name.
    fn file_format(&self) -> anyhow::Result<Format> {
        let is_folder = self.is_into_folder();
        let name = &self.rotation.folder.name;
        let suffix = match self.write.first() {
            Some(path) if !is_folder => Suffix::of(path),
            _ => Suffix::of_template(name),
        };
        if is_folder && suffix.compression.is_some() && self.compress.is_none() {
            bail!("--name {name} needs --compress, or a name without the last suffix");
        }
        Ok(self.format.or(suffix.format).unwrap_or_default())
    }

    /// The file of -w; without one stdout.
    fn written(&self) -> Output {
        let file =
            self.write.first().filter(|path| !STDOUT.iter().any(|name| path.as_path() == Path::new(name)));
        file.map_or(Output::Stdout, |path| Output::File(path.clone()))
    }

    /// The output, and the live copy of it.
    fn outputs(&self) -> anyhow::Result<(Output, Option<Output>)> {
        let output = self.output()?;
        let printed = || Output::Pipe(Pipe::to(PROGRAM));
        if self.is_printing() && self.write.is_empty() && !self.is_into_folder() {
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
        let dirs = self.rotation.folder.dir.iter().chain(&self.tee);
        let folders = dirs.map(|dir| self.rotation.plan(dir, self.rotate_bytes()));
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
}
