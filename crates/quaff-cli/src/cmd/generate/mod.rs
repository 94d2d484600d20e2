//! `quaff generate`: synthetic traffic, injected into or sent from an interface at an exact rate, or written to a file.
//!
//! Frames that differ only by their probe header or their flow are made by the BPF program that injects them; all
//! others are made in user space and replayed. Nothing here makes frames itself.

mod args;
mod recipe;
mod report;

pub(crate) use args::{Args, mac};

use crate::cmd::packet_file;
use crate::cmd::sending::{Watch, destination};
use crate::confined;
use crate::exit::Exit;
use crate::show::{self, Stream, message};
use anyhow::{Context as _, ensure};
use quaff_os::packet::{PacketSocket, packet_sockets};
use quaff_os::{Stop, clock, rtnl};
use quaff_send::{
    ArrivalPattern, Control, LatePolicy, Length, Maker, OfferedRate, Rate, Ratio, ReplayPlan, ReplayVia,
    SendPlan, Snapshot, WriteReport,
};
use quaff_wire::synth::{Made, Recipe};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Memory for frames that are made ahead, bytes.
const MEMORY_BYTES: usize = 64 << 20;
/// ETH_P_ALL (linux/if_ether.h).
const ALL_PROTOCOLS: u16 = 3;
/// Interval of checks for a program that captures.
const LOOK: Duration = Duration::from_millis(10);
/// Default source MAC: a locally administered address, 02, "quaf", 1.
const SRC_MAC: [u8; 6] = [0x02, b'q', b'u', b'a', b'f', 1];

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let mut watch = Watch::new(&args.watch, false)?;
    if let Some(path) = args.send.write.first() {
        return write(&args, path, &mut watch);
    }
    if let (Some(limit), Some(interface)) = (args.wait, &args.send.inject)
        && wait_for_capture(interface, limit, &mut watch)? == Control::Stop
    {
        return Ok(Exit::judged(None));
    }
    if recipe::is_plain(&args) {
        return send(&args, None, &mut watch);
    }
    let recipe = recipe::recipe(&args, src_mac(&args)?, now_ns(), &mut watch)?;
    if args.send.inject.is_some() && recipe.differs_only_by_flow() && args.shape == ArrivalPattern::Constant {
        return send(&args, Some(recipe), &mut watch);
    }
    replay(&args, recipe, &mut watch)
}

/// Waits until a packet socket receives from the interface, or until a signal.
fn wait_for_capture(interface: &str, limit: Duration, watch: &mut Watch) -> anyhow::Result<Control> {
    let (index, begun) = (rtnl::link(interface)?.index, Instant::now());
    let is_capture = |socket: &PacketSocket| {
        socket.is_running && socket.protocol == ALL_PROTOCOLS && [0, index].contains(&socket.ifindex)
    };
    while !packet_sockets(Path::new("/"))?.iter().any(is_capture) {
        let seconds = limit.as_secs_f64();
        ensure!(begun.elapsed() < limit, "no program has captured from {interface} within {seconds} s");
        if watch.look(&Snapshot::default(), LOOK) == Control::Stop {
            return Ok(Control::Stop);
        }
    }
    Ok(Control::Go)
}

impl Args {
    /// Sends the frames, and does not write them to a file.
    pub(crate) fn is_live(&self) -> bool {
        self.send.write.is_empty()
    }
}

/// Current time, ns since 1970.
fn now_ns() -> u64 {
    clock::epoch_offset_ns().wrapping_add(clock::steady_ns())
}

/// The default source MAC.
fn src_mac(args: &Args) -> anyhow::Result<[u8; 6]> {
    Ok(match &args.send.out {
        Some(interface) => rtnl::link(interface)?.mac,
        None => SRC_MAC,
    })
}

/// Makes the frames in user space, each with its deadline, and replays them.
fn replay(args: &Args, recipe: Recipe, watch: &mut Watch) -> anyhow::Result<Exit> {
    let (feed, made) = maker(args, recipe)?.into_feed();
    let plan = replay_plan(args);
    let look = |snapshot: &Snapshot, wait| watch.look(snapshot, wait);
    let report = quaff_send::replay(&plan, feed, Stop::default(), look);
    watch.clear_line();
    let report = report?;
    let made = *made.lock().unwrap_or_else(PoisonError::into_inner);
    print(args, &report, Some(&made), report::describe_replay)?;
    Ok(judged(args, report.error.as_deref(), report.agrees(), [report.sent, report.confirmed]))
}

fn replay_plan(args: &Args) -> ReplayPlan {
    let is_paced = args.pps.is_some() || args.mbps.is_some();
    let (via, interface) =
        destination(&args.send.inject, &args.send.out, [ReplayVia::Inject, ReplayVia::Auto]);
    ReplayPlan {
        via,
        interface,
        interface2: None,
        // The times of the frames are their deadlines.
        rate: if is_paced { Rate::Captured(Ratio { num: 1, den: 1 }) } else { Rate::Topspeed },
        gap_max: None,
        loops: Some(1),
        unique_ip: false,
        limit: None,
        // Unpaced frames have no deadlines, so the duration is that of the run.
        duration: args.end.duration.filter(|_| !is_paced),
        late: LatePolicy::Burst,
        stepwise: false,
        core: *args.cpu,
        memory_bytes: MEMORY_BYTES,
    }
}

/// Makes the frames where they are sent.
fn send(args: &Args, recipe: Option<Recipe>, watch: &mut Watch) -> anyhow::Result<Exit> {
    // Nothing is random, so the recipe determines the counts.
    let stamped = recipe.as_ref().is_none_or(Recipe::all_carry_probes);
    let tuples = recipe.as_ref().map(|recipe| (recipe.flows, recipe.tuples.count()));
    let plan = plan(args, recipe);
    let report = quaff_send::generate(&plan, |snapshot, wait| watch.look(snapshot, wait));
    watch.clear_line();
    let report = report?;
    let made = tuples.map(|(flows, count)| Made {
        frames: report.sent,
        bytes: report.sent * plan.frame_bytes as u64,
        stamped: if stamped { report.sent } else { 0 },
        flows: flows.begun(report.sent, 0).min(count),
        ..Made::default()
    });
    print(args, &report, made.as_ref(), report::describe_send)?;
    Ok(judged(args, None, report.agrees(), [report.sent, report.confirmed]))
}

/// The exit status of what was sent. A status that is not 0 has its reason in words, also with `-q`.
fn judged(args: &Args, error: Option<&str>, agrees: bool, [sent, confirmed]: [u64; 2]) -> Exit {
    match error {
        Some(error) => message(error),
        None if !agrees && args.watch.quiet.is_set() => message(&format!(
            "done with loss: sent {}, confirmed {}, and not all that was intended left",
            show::count(sent),
            show::count(confirmed)
        )),
        None => {}
    }
    Exit::judged(error.is_none().then_some(agrees))
}

/// Prints a report, with the counts of the frames made if given; on stderr where stdout has the frames.
fn print<R: serde::Serialize>(
    args: &Args,
    report: &R,
    made: Option<&Made>,
    describe: impl FnOnce(&R) -> String,
) -> anyhow::Result<()> {
    let stream = Stream::of_report(args.send.write.iter().any(|path| path.as_os_str() == "-"));
    if args.report.json {
        let mut value = serde_json::to_value(report).context("write the report")?;
        if let (Some(fields), Some(made)) = (value.as_object_mut(), made) {
            fields.insert("made".into(), report::made_as_json(made));
        }
        return show::json(stream, &value);
    }
    if args.watch.quiet.is_set() {
        return Ok(());
    }
    let text = describe(report) + &made.map_or_else(String::new, report::describe_made);
    show::report(stream, text.trim_end());
    Ok(())
}

fn plan(args: &Args, recipe: Option<Recipe>) -> SendPlan {
    let frame_bytes = recipe::single_bytes(args) as usize;
    let pps = match recipe::pace(args) {
        OfferedRate::Unpaced => None,
        OfferedRate::Frames(pps) => Some(pps),
        OfferedRate::Bits { per_second, extra_bytes } => {
            Some(per_second / (f64::from(recipe::single_bytes(args) + extra_bytes) * 8.0))
        }
    };
    // The argument group requires one of the two.
    let interface = args.send.inject.as_ref().or(args.send.out.as_ref()).cloned().unwrap_or_default();
    let address = |given: Option<quaff_wire::synth::Addresses>, last| match given.map(|given| given.first) {
        Some(IpAddr::V4(address)) => address,
        _ => Ipv4Addr::new(198, 18, 0, last),
    };
    SendPlan {
        inject: args.send.inject.is_some(),
        interface,
        frame_bytes,
        pps,
        length: recipe::length(args),
        stream: args.stream,
        mirror: args.erspan,
        dst_mac: args.dst_mac(),
        src_mac: args.macs.src_mac,
        src_ip: address(args.src_ip, 1),
        dst_ip: address(args.dst_ip, 2),
        tags: args.vlan.clone().unwrap_or_default().into_vec(),
        made: recipe.map(Box::new),
        core: *args.cpu,
    }
}

/// Writes the frames to a file.
fn write(args: &Args, path: &Path, watch: &mut Watch) -> anyhow::Result<Exit> {
    let is_paced = args.pps.is_some() || args.mbps.is_some();
    ensure!(
        args.count.is_some() || args.end.duration.is_some(),
        "a file needs an end: set --count or --duration"
    );
    ensure!(args.count.is_some() || is_paced, "frames in a file need times: set --pps, --mbps or --count");
    let file = packet_file::open(path)?;
    if args.sizes.sizes_from.is_some() && !*args.no_sandbox {
        let read = args.sizes.sizes_from.iter().chain(&args.content_from).cloned().collect();
        let written = [Some(path).filter(|path| path.as_os_str() != "-"), args.sizes_save.as_deref()];
        confined::to_files(read, &written.into_iter().flatten().collect::<Vec<_>>())?;
    }
    let start_ns = now_ns();
    let mut maker = maker(args, recipe::recipe(args, SRC_MAC, start_ns, watch)?)?;
    let name = path.display().to_string();
    let (mut out, format) = (packet_file::begin(file, path)?, packet_file::format(path, *args.send.format));
    let look = |report: &WriteReport| {
        let elapsed_ns = (report.took_seconds * 1e9) as u64;
        let snapshot = Snapshot { sent: report.sent, elapsed_ns, ..Snapshot::default() };
        watch.look(&snapshot, Duration::ZERO)
    };
    let written = maker.write((&mut *out, &name), format, start_ns, look);
    watch.clear_line();
    let written = written?;
    let (text, made) = (report::describe_write(&written, &name), maker.synth.made());
    print(args, &written, Some(&made), |_| text)?;
    Ok(Exit::Done)
}

fn maker(args: &Args, recipe: Recipe) -> anyhow::Result<Maker> {
    let (pace, length) = (recipe::pace(args), recipe::length(args));
    let length = match length {
        // Unpaced frames have no deadlines: their sender ends the run.
        Length::Duration(_) if pace == OfferedRate::Unpaced => Length::Endless,
        length => length,
    };
    Ok(Maker::new(recipe, pace, recipe::shape(args), length)?)
}
