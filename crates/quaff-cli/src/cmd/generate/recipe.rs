//! From the arguments to what is to be made, and when.

use super::args::{Args, Mac, TcpKind};
use crate::cmd::sending::Watch;
use crate::show;
use crate::written_file::WrittenFile;
use anyhow::{Context as _, bail};
use quaff_send::{ArrivalPattern, Length, OfferedRate, learn_sizes};
use quaff_wire::net::TAG_BYTES;
use quaff_wire::probe::ProbeHeader;
use quaff_wire::synth::{
    Addresses, Content, Encapsulation, Flows, LinkHeaders, New, POOL_BYTES_MAX, PacketKind, Ports, Recipe,
    SIZE_MAX, Sizes, Tuples,
};
use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// The FCS of a frame, bytes.
const FCS_BYTES: u32 = 4;
/// Limits of learned sizes: the smallest frame of Ethernet, and the largest of an MTU of 1500.
const LEARNED_BYTES: (u32, u32) = (60, 1514);

/// The recipe of the frames. `src_mac` is the default source MAC. Files that it is made of are read while `watch` hears
/// signals: a pipe may have no writer yet.
pub(super) fn recipe(args: &Args, src_mac: Mac, start_ns: u64, watch: &mut Watch) -> anyhow::Result<Recipe> {
    let is_own_port = args.src_port.is_some() || args.dst_port.is_some();
    let learned = args.sizes.sizes_from.is_some();
    let limits = |given: Option<u32>, learned_bytes, any| match given {
        Some(bytes) if args.sizes.fcs => bytes.saturating_sub(FCS_BYTES),
        Some(bytes) => bytes,
        None if learned => learned_bytes,
        None => any,
    };
    let recipe = Recipe {
        sizes: sizes(args, watch)?,
        size_limits: (
            limits(args.size_min, LEARNED_BYTES.0, 1),
            limits(args.size_max, LEARNED_BYTES.1, SIZE_MAX),
        ),
        content: content(args, watch)?,
        link: LinkHeaders {
            dst_mac: args.dst_mac(),
            src_mac: args.macs.src_mac.unwrap_or(src_mac),
            tags: args.vlan.clone().unwrap_or_default().into_vec(),
            labels: args.mpls.clone(),
        },
        tunnel: args.erspan.map(Encapsulation::Erspan).or(args.vxlan.map(Encapsulation::Vxlan)),
        tuples: tuples(args),
        flows: Flows { concurrent: args.flows, new: args.new_flows },
        kind: kind(args),
        fragment: args.fragment,
        damage: args.damage.unwrap_or_default(),
        stream: (!args.no_stamp && !is_own_port).then_some(args.stream),
        seed: args.seed.unwrap_or(1),
        start_ns,
        count: *args.count,
    };
    check_size(args, &recipe)?;
    Ok(recipe)
}

/// Refuses a size that the headers do not fit. Of several sizes the small ones are raised, and a note reports it.
fn check_size(args: &Args, recipe: &Recipe) -> anyhow::Result<()> {
    let (least, is_raised) =
        (recipe.header_bytes(), args.size_min.is_some() || args.sizes.sizes_from.is_some());
    let added = if args.sizes.fcs { FCS_BYTES } else { 0 };
    match (recipe.sizes.single(), recipe.sizes.bounds().0) {
        _ if is_raised => {}
        (Some(bytes), _) if bytes < least => anyhow::bail!(
            "--size {} is too small: the headers of these frames take {}",
            bytes + added,
            least + added
        ),
        (None, smallest) if smallest < least => show::message(&format!(
            "sizes below {0} become {0}, because the headers of these frames take as much",
            least + added
        )),
        _ => {}
    }
    Ok(())
}

/// The frames are those of the first form: alike but for their stamps.
pub(super) fn is_plain(args: &Args) -> bool {
    let is_one = |addresses: Option<Addresses>| addresses.is_none_or(|addresses| addresses.count == 1);
    let is_v4 = |addresses: Option<Addresses>| addresses.is_none_or(|addresses| addresses.first.is_ipv4());
    let ends = [args.src_ip, args.dst_ip];
    let tags = args.vlan.as_ref().map_or(0, |tags| tags.len());
    args.sizes.sizes_from.is_none()
        && args.size().single().is_some()
        && (args.size_min.is_none() && args.size_max.is_none() && !args.no_stamp)
        // Frames that --fcs makes too small have no probe header.
        && (!args.sizes.fcs || single_bytes(args) as usize >= ProbeHeader::LAYOUT.frame_bytes_min + tags * TAG_BYTES)
        && (args.src_port.is_none() && args.dst_port.is_none() && !args.ipv6)
        && (ends.into_iter().all(is_one) && ends.into_iter().all(is_v4))
        && args.flows == 1
        && args.new_flows == New::Never
        && (args.content() == Content::Counting && args.content_from.is_none())
        && (kind(args) == PacketKind::Udp && args.fragment.is_none() && args.damage.is_none())
        && (args.mpls.is_empty() && args.vxlan.is_none())
        && args.shape == ArrivalPattern::Constant
}

/// The pace, in frames or bits.
pub(super) fn pace(args: &Args) -> OfferedRate {
    let extra_bytes = if args.sizes.fcs { FCS_BYTES } else { 0 };
    match (*args.pps, *args.mbps) {
        (Some(pps), _) => OfferedRate::Frames(pps),
        (None, Some(mbps)) => OfferedRate::Bits { per_second: mbps * 1e6, extra_bytes },
        (None, None) => OfferedRate::Unpaced,
    }
}

/// The shape, with the rate of a ramp in the unit of the pace.
pub(super) fn shape(args: &Args) -> ArrivalPattern {
    match args.shape {
        ArrivalPattern::Ramp { from, rise_ns } if args.pps.is_none() => {
            ArrivalPattern::Ramp { from: from * 1e6, rise_ns }
        }
        shape => shape,
    }
}

/// The length of the traffic.
pub(super) fn length(args: &Args) -> Length {
    match (*args.count, args.end.duration) {
        (Some(count), _) => Length::Count(count),
        (None, Some(duration)) => Length::Duration(duration),
        (None, None) => Length::Endless,
    }
}

/// The one size of a plain run, without FCS.
pub(super) fn single_bytes(args: &Args) -> u32 {
    let bytes = args.size().single().unwrap_or(SIZE_MAX);
    if args.sizes.fcs { bytes.saturating_sub(FCS_BYTES) } else { bytes }
}

fn sizes(args: &Args, watch: &mut Watch) -> anyhow::Result<Sizes> {
    let sizes = match &args.sizes.sizes_from {
        None if args.sizes.fcs => args.size().smaller_by(FCS_BYTES),
        None => args.size().clone(),
        // Frames in a capture have no FCS already.
        Some(path) if args.is_live() && !*args.no_sandbox => learned_apart(path, watch)?,
        Some(path) => {
            let path = path.clone();
            watch.during(move || learn_sizes(&path))??.0
        }
    };
    if let Some(path) = &args.sizes_save {
        save(&sizes, path, args.sizes.sizes_from.as_deref())?;
    }
    Ok(sizes)
}

/// The sizes in `path`, read by another process of this program, which is confined: this one keeps the right to send.
fn learned_apart(path: &Path, watch: &mut Watch) -> anyhow::Result<Sizes> {
    let (mut sizes, written) = std::io::pipe().context("make a pipe")?;
    let mut reader = Command::new("/proc/self/exe");
    reader.args(["generate", "--quiet", "--count", "1", "--write", "/dev/null", "--sizes-from"]).arg(path);
    // Its report has stdout, and its errors have stderr.
    reader.args(["--sizes-save", "/dev/stdin"]).stdin(written).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child =
        reader.spawn().with_context(|| format!("start a process that reads {}", path.display()))?;
    // The end of writing that this process has.
    drop(reader);
    let read = watch.during(move || {
        let mut text = String::new();
        sizes.read_to_string(&mut text).map(|_| text)
    });
    if read.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let text = read?.with_context(|| format!("read the sizes in {}", path.display()))?;
    let done = child.wait_with_output().context("wait for the process that reads sizes")?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("{}", said.trim().trim_start_matches("quaff: "));
    }
    Sizes::from_text(&text).with_context(|| format!("{}: no sizes", path.display()))
}

fn save(sizes: &Sizes, path: &Path, from: Option<&Path>) -> anyhow::Result<()> {
    let from = from.map_or_else(String::new, |from| format!("from {}, ", from.display()));
    let remark = format!("{from}mean {:.1} bytes without FCS", sizes.mean(1, SIZE_MAX));
    WrittenFile::open(path)?.write(&sizes.to_text(&remark))
}

fn content(args: &Args, watch: &mut Watch) -> anyhow::Result<Content> {
    if let Some(path) = &args.content_from {
        let file = path.clone();
        let bytes = watch.during(move || {
            let mut bytes = Vec::new();
            File::open(file)?.take(POOL_BYTES_MAX as u64).read_to_end(&mut bytes).map(|_| bytes)
        });
        let bytes = bytes?.with_context(|| format!("read {}", path.display()))?;
        anyhow::ensure!(!bytes.is_empty(), "{} is empty", path.display());
        return Ok(Content::Bytes(bytes));
    }
    Ok(args.content())
}

fn kind(args: &Args) -> PacketKind {
    match args.tcp {
        Some(TcpKind::Syn) => PacketKind::TcpSyn,
        Some(TcpKind::Talk) => PacketKind::TcpConversation { segments: args.segments },
        None if args.icmp => PacketKind::Icmp,
        None => PacketKind::Udp,
    }
}

/// RFC 2544 and RFC 5180 set aside networks for such traffic.
fn tuples(args: &Args) -> Tuples {
    let is_v6 = args.ipv6 || [args.src_ip, args.dst_ip].into_iter().flatten().any(|end| end.first.is_ipv6());
    let no_range_given = [args.src_ip, args.dst_ip].iter().all(Option::is_none)
        && args.src_port.is_none_or(|ports| ports.count == 1)
        && args.dst_port.is_none_or(|ports| ports.count == 1);
    let has_flows = args.flows > 1 || args.new_flows != New::Never || matches!(args.tcp, Some(TcpKind::Talk));
    let (src, dst) = match (is_v6, has_flows && no_range_given) {
        (false, false) => (([198, 18, 0, 1].into(), 1), ([198, 18, 0, 2].into(), 1)),
        (false, true) => (([198, 18, 0, 0].into(), 1 << 16), ([198, 19, 0, 0].into(), 1 << 16)),
        (true, false) => ((v6(0, 1), 1), (v6(0, 2), 1)),
        (true, true) => ((v6(0, 0), 1 << 16), (v6(1, 0), 1 << 16)),
    };
    let addresses = |(first, count)| Addresses { first, count };
    Tuples {
        src: args.src_ip.unwrap_or_else(|| addresses(src)),
        dst: args.dst_ip.unwrap_or_else(|| addresses(dst)),
        src_ports: args.src_port.unwrap_or(Ports::from(args.stream)),
        dst_ports: args.dst_port.unwrap_or(Ports::from(ProbeHeader::LAYOUT.port)),
    }
}

/// 2001:2:0:NET::HOST.
fn v6(net: u16, host: u16) -> IpAddr {
    [0x2001, 2, 0, net, 0, 0, 0, host].into()
}
