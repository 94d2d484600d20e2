//! The arguments of `quaff split`, and the plan they make.

use crate::capture_files::Found;
use crate::flags::{
    BufferArg, Bytes, CoreArg, DecapArgs, DryRunArg, ExecArg, FormatArg, FsyncArg, InputArgs, LaneArgs,
    OwnerArgs, PlanArg, SeedArg, WriteArg, of, reworded,
};
use crate::shell::{DurationArgs, ReportArgs, WatchArgs};
use crate::show::number_of;
use anyhow::{Context, bail};
use clap::ArgAction;
use quaff::Sorting;
use quaff::memory;
use quaff::plan::{InputPlan, WritePlan};
use quaff::source::interfaces_named;
use quaff::split::{Goal, MemberPlan, SplitPlan};
use quaff_file::write::{Format, Suffix};
use quaff_wire::split::SplitFields;
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
#[command(
    after_help = EXAMPLES,
    mut_args(of("plan", |arg| arg
        .hide(true)
        .conflicts_with_all(["interface", "read", "dir", "write", "output", "exec"])
        .help("Read FILE and write nothing: --read FILE --dry-run"))),
    mut_args(of("decap", |arg| reworded(arg, "Assign tunnelled frames by their inner headers; kinds as in 'quaff capture'")
        .alias("inner")
        .num_args(0..=1)
        .default_missing_value("auto"))),
    mut_args(of("decap_depth", |arg| arg.alias("inner-depth"))),
    mut_args(of("seed", |arg| arg.help("Vary the assignment; cascaded splits need different seeds [default: 0]"))),
    mut_args(of("write", |arg| arg
        .action(ArgAction::Append)
        .help("Member that is a file or a pipe; '-' is stdout; repeat it for more"))),
    mut_args(of("exec", |arg| arg.help(EXEC))),
    mut_args(of("dry_run", |arg| arg
        .requires("read")
        .conflicts_with_all(["dir", "write", "output", "exec"])
        .help("Report how the capture would be split; write nothing")))
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    plan: PlanArg,
    #[command(flatten)]
    pub(super) end: DurationArgs,

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
    #[command(flatten, next_help_heading = "Assignment")]
    tunnels: DecapArgs,
    #[command(flatten, next_help_heading = "Assignment")]
    seed: SeedArg,

    /// Write one file per member into DIR: member-1.pcapng and so on
    #[arg(long, value_name = "DIR", conflicts_with_all = ["write", "output", "exec"], help_heading = "Output")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    write: WriteArg,
    /// Members that are interfaces, from which the frames are sent
    #[arg(short, long, value_name = "IF,IF,…", value_delimiter = ',', help_heading = "Output")]
    output: Vec<String>,
    #[command(flatten, next_help_heading = "Output")]
    exec: ExecArg,
    #[command(flatten)]
    format: FormatArg,
    #[command(flatten)]
    fsync: FsyncArg,

    #[command(flatten)]
    lanes: LaneArgs,
    #[command(flatten, next_help_heading = "Performance")]
    buffer: BufferArg<Bytes>,
    #[command(flatten)]
    cpu: CoreArg,

    #[command(flatten)]
    owner: OwnerArgs,

    #[command(flatten, next_help_heading = "Report")]
    dry_run: DryRunArg,
    #[command(flatten)]
    pub(super) report: ReportArgs,
    #[command(flatten)]
    pub(super) watch: WatchArgs,
}

const EXEC: &str = "Member that is a command, which reads packets from stdin; repeat it for more, or give one with \
                    --members N, which runs N times. $QUAFF_MEMBER is the member's number";

const EXAMPLES: &str = "\
Examples:
  quaff split --members 4 --by addresses --read all.pcapng --dir parts
  quaff split all.pcapng --members 4 --by ports --dry-run
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
        self.input.is_live() || !self.output.is_empty()
    }

    /// The plan, with default sizes for this machine.
    pub(super) fn split_plan(&self) -> anyhow::Result<SplitPlan> {
        let goals = self.goals()?;
        let weights = match &self.weights[..] {
            [] => vec![1; goals.len()],
            weights if weights.len() == goals.len() => weights.to_vec(),
            weights => {
                let (values, members) = (weights.len() as u64, goals.len() as u64);
                let [values, members] = [number_of(values, "value"), number_of(members, "member")];
                bail!("--weights has {values} for {members}: give one each")
            }
        };
        Ok(SplitPlan {
            input: self.input_plan()?,
            write: self.write_plan(goals.len())?,
            sorting: Sorting {
                by: self.by,
                kinds: self.tunnels.decap.unwrap_or_default(),
                depth: self.tunnels.decap_depth,
                seed: self.seed.unwrap_or(0),
            },
            members: goals
                .into_iter()
                .zip(weights)
                .map(|(goal, weight)| MemberPlan { goal, weight })
                .collect(),
            sandbox: self.owner.user.sandbox(),
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
        if *self.dry_run || !self.plan.is_empty() {
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
    fn found(&self) -> anyhow::Result<Found> {
        let outputs: Vec<_> = self.dir.iter().chain(self.write.iter()).map(PathBuf::as_path).collect();
        match self.plan.is_empty() {
            true => self.input.find(&outputs),
            false => Ok(Found { files: self.plan.to_vec(), ..Found::default() }),
        }
    }

    fn input_plan(&self) -> anyhow::Result<InputPlan> {
        let cores = self.cpu.as_slice();
        let lanes = self.lanes.plan(interfaces_named(self.input.interfaces())?, cores, 0);
        Ok(self.input.add_to((lanes, self.lanes.of_files()), self.found()?, cores))
    }

    /// The format of --format, or of the suffix of the first file.
    fn file_format(&self) -> Format {
        let suffix = self.write.first().map(|path| Suffix::of(path)).unwrap_or_default();
        self.format.or(suffix.format).unwrap_or_default()
    }

    fn write_plan(&self, members: usize) -> anyhow::Result<WritePlan> {
        let least_bytes = members * MEMBER_BYTES;
        let is_live = self.input.files().is_empty() && self.plan.is_empty();
        let plan = WritePlan::with_buffer(
            self.buffer.map(|Bytes(bytes)| bytes),
            memory::default_free_bytes(),
            is_live,
        );
        let is_given = is_live || self.buffer.is_some();
        let buffer_bytes = if is_given { plan.buffer_bytes.max(least_bytes) } else { least_bytes };
        let (format, fsync) = (self.file_format(), *self.fsync);
        let (access, owner) = (self.owner.access()?, self.owner.user.caller());
        let plan = WritePlan { access, owner, ..plan };
        Ok(WritePlan { format, flush: FLUSH, fsync, buffer_bytes, chunk_bytes: CHUNK_BYTES, ..plan })
    }
}
