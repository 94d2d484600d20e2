//! `quaff info`: a summary of capture files on one screen, or a line for each of many; the traffic in them on a page.

mod closer;
mod traffic;
mod tsv;
mod words;

use crate::capture_files::Found;
use crate::confined;
use crate::exit::Exit;
use crate::flags::{CapturesArgs, NoSandboxArg, SalvageArg, TopArg, UtcArg, WideArg, of};
use crate::shell::ReportArgs;
use crate::show::{self, Stream, name};
use crate::terminal_table::{self, Columns};
use quaff_file::info::{self, DropPlace, Drops, FileInfo, Gap, InterfaceInfo, Origin, Total};
use quaff_file::moment;
use quaff_file::read::{self, GONE, finished, is_gone};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use words::{duration, labelled};

/// Summarise capture files: packets, times, rates, gaps, interfaces, recorded drops
///
/// Reads pcap and pcapng files of any writer, compressed with gzip, zstd or lz4 or not; the format is detected from
/// the content. Only headers are looked at, and a large file is read by several threads, so a file takes as long as the
/// disk needs for it.
///
/// One FILE is shown on a screen: packets, bytes and rates; the longest times without packets; packets out of order;
/// packets of which the file lacks the end; drops that the capturing program recorded, with the places where they
/// happened; the interfaces with their filters; the program that wrote the file. Several FILEs have a line each.
///
/// With --traffic the packets are looked into: protocols with packets and bytes, conversations and hosts, refused and
/// unanswered connections, retransmissions, failures of DNS, and the verdict of 'quaff verify', each with the command
/// that looks closer. Several FILEs are one capture then, such as the files of a rotation in their order.
///
/// A damaged file is summarised up to the damage, whose offset and reason are reported.
///
/// Exit status: 0 whole files that record no drops; 1 damage, or recorded drops; 2 a file could not be read.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_args(of("top", |arg| arg.requires("traffic").help(TOP).long_help(LONG_TOP)))
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: CapturesArgs,
    #[command(flatten)]
    salvage: SalvageArg,

    /// Show each of several files on a screen of its own; with --json, print one object per file and line
    #[arg(long, help_heading = "Report")]
    each: bool,
    /// Show the traffic of all files as one capture: protocols, conversations, connections, DNS, completeness
    #[arg(long, conflicts_with_all = ["each", "tsv", "hash"], help_heading = "Report")]
    traffic: bool,
    #[command(flatten)]
    top: TopArg,
    /// Add the SHA-256 of each file as it is on the disk
    #[arg(long, help_heading = "Report")]
    hash: bool,
    /// Print tab-separated values, a line for each file below the names of the columns
    #[arg(long, conflicts_with_all = ["each", "json"], help_heading = "Report")]
    tsv: bool,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    wide: WideArg,
    #[command(flatten)]
    _utc: UtcArg,

    #[command(flatten)]
    no_sandbox: NoSandboxArg,
}

const TOP: &str =
    "List N rows of each table of --traffic; 0 lists all [default: 30 protocols, 5 of other tables, 3 names]";
const LONG_TOP: &str = "\
List N rows of each table of --traffic: the protocols with the most bytes and those around them, the largest \
conversations and hosts, the servers and names with the most failures; 0 lists all [default: 30 protocols, 5 rows of \
other tables, 3 names]";

const EXAMPLES: &str = "\
Examples:
  quaff info all.pcapng
  quaff info /data
  quaff info --each old.pcap.gz new.pcapng.zst
  quaff info --json all.pcapng
  quaff info --traffic all.pcapng
  quaff info --traffic all.pcapng --top 0
  quaff info --hash --tsv /data/quaff-*.pcapng
  ssh sensor cat /data/all.pcapng | quaff info -";

/// Lines of interfaces and of gaps on a screen.
const INTERFACES_SHOWN: usize = 16;
const GAPS_SHOWN: usize = 3;

/// The JSON of several files.
#[derive(Serialize)]
struct Report<'a> {
    files: &'a [FileInfo],
    total: &'a Total,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let found = args.input.find(&[])?;
    if !*args.no_sandbox {
        confined::to_files(found.with_later_names(), &[])?;
    }
    if args.traffic {
        let extent = traffic::Extent { top: *args.top, columns: args.columns() };
        return traffic::run(args.input.named(), found, *args.salvage, extent, args.report.json);
    }
    let (paths, mut files, missing) = survey(&found, *args.salvage);
    let failures = if args.hash { info::add_digests(&paths, &mut files) } else { Vec::new() };
    let total = Total::of(&files);
    match (args.report.json, args.each || files.len() == 1) {
        _ if args.tsv => show::print(&tsv::table(&files)),
        (true, _) if args.each => files.iter().try_for_each(|file| show::json(Stream::Stdout, file))?,
        (true, _) => show::json(Stream::Stdout, &Report { files: &files, total: &total })?,
        (false, true) => screens(&files, args.columns())?,
        (false, false) => show::print(&(table(&files, &total, args.columns()) + &digests(&files))),
    }
    let errors = files.iter().filter_map(|file| file.error.as_deref());
    errors.chain(failures.iter().map(String::as_str)).for_each(show::message);
    missing.iter().for_each(|path| show::message(&format!("MISSING: {}, {GONE}", path.display())));
    let is_whole = judged(&files, &total).filter(|_| failures.is_empty());
    Ok(Exit::judged(is_whole.map(|is_whole| is_whole && missing.is_empty())))
}

impl Args {
    fn columns(&self) -> Columns {
        Columns::wide(*self.wide)
    }
}

/// Surveys the files; returns those that are there, their surveys, and those that were found in folders and are gone.
/// One of these may have its last name meanwhile.
fn survey(found: &Found, salvage: bool) -> (Vec<PathBuf>, Vec<FileInfo>, Vec<&Path>) {
    let later = found.in_folders.iter().filter_map(|path| finished(path));
    let in_folders = found.in_folders.iter().cloned().chain(later).collect();
    let reading = read::Options { salvage, found: Arc::new(in_folders), ..read::Options::default() };
    let mut missing = Vec::new();
    let infos = info::survey(&found.files, &reading).into_iter().zip(&found.files);
    let there = infos.filter_map(|(info, path)| {
        if !info.unreadable || !found.in_folders.contains(path) || !is_gone(path) {
            return Some((path.clone(), info));
        }
        let renamed = finished(path).and_then(|path| {
            let info = info::survey(std::slice::from_ref(&path), &reading).pop()?;
            Some((path, info)).filter(|(_, info)| !info.unreadable)
        });
        if renamed.is_none() {
            missing.push(path.as_path());
        }
        renamed
    });
    let (paths, infos) = there.unzip();
    (paths, infos, missing)
}

/// Returns whether nothing is damaged or dropped; `None` if a file is unreadable.
fn judged(files: &[FileInfo], total: &Total) -> Option<bool> {
    let is_readable = files.iter().all(|file| !file.unreadable);
    is_readable.then_some(total.damaged == 0 && total.drops == 0)
}

/// Prints the files that have something to show, with an empty line between two.
fn screens(files: &[FileInfo], columns: Columns) -> anyhow::Result<()> {
    let shown = files.iter().filter(|file| !file.unreadable);
    let shown: Vec<_> = shown.map(|file| screen(file, columns)).collect();
    if !shown.is_empty() {
        show::print(shown.join("\n").trim_end());
    }
    Ok(())
}

/// A file on a screen.
fn screen(file: &FileInfo, columns: Columns) -> String {
    let mut lines = format!("{}\n", headline(file));
    let mut line = |what: &str, words: String| lines += &labelled(what, &words);
    line("first", file.first_ns.map(show::time_ns).unwrap_or_default());
    line("last", file.last_ns.map(show::time_ns).unwrap_or_default());
    line("duration", file.seconds.map(duration).unwrap_or_default());
    line("packets", packets(file));
    line("bytes", bytes(file));
    line("cut", cut(file));
    line("order", order(file));
    line("gaps", gaps(&file.gaps));
    line("drops", drops(file.drops.as_ref()));
    file.drops.iter().flat_map(|drops| &drops.contradictions).for_each(|words| line("", words.clone()));
    line("sha256", file.sha256.clone().unwrap_or_default());
    line("written by", origin(&file.origin));
    line("comment", file.origin.comment.clone().unwrap_or_default());
    line("sections", if file.sections > 1 { show::count(file.sections) } else { String::new() });
    if file.skipped.count > 0 {
        let (times, bytes) = (quaff::format::times(file.skipped.count), show::bytes(file.skipped.bytes));
        line(
            "skipped",
            format!("{bytes} of damage, {times}, first at offset {}", show::count(file.skipped.first_offset)),
        );
    }
    file.notes.iter().for_each(|note| line("note", note.clone()));
    if let Some(broken) = &file.broken {
        line("DAMAGED", broken.reason.clone());
    }
    lines + &interfaces(file, columns)
}

fn headline(file: &FileInfo) -> String {
    let compressed = file.compression.map(|compression| format!(", {compression}")).unwrap_or_default();
    let size = match file.file_bytes {
        Some(bytes) if file.compression.is_some() => {
            format!("{} ({} decompressed)", show::bytes(bytes), show::bytes(file.data_bytes))
        }
        Some(bytes) => show::bytes(bytes),
        None => show::bytes(file.data_bytes),
    };
    format!("{}: {}{compressed}, {size}", name(&file.path), file.format.unwrap_or("no capture"))
}

/// A duration of a capture in a table.
fn short(seconds: f64) -> String {
    if seconds < 60.0 { duration(seconds) } else { quaff::format::span(seconds) }
}

fn packets(file: &FileInfo) -> String {
    let rate = file.pps.map(|pps| format!(", {}", show::pps(pps))).unwrap_or_default();
    let untimed = match file.untimed {
        0 => String::new(),
        count => format!("; {} without a time", show::count(count)),
    };
    format!("{}{rate}{untimed}", show::count(file.packets))
}

fn bytes(file: &FileInfo) -> String {
    let rate = file.bps.map(|bps| format!(", {}", show::bits(bps))).unwrap_or_default();
    let sizes = match (file.packet_bytes_min, file.packet_bytes_max) {
        (Some(min), Some(max)) if min < max => {
            let mean = file.wire_bytes as f64 / file.packets as f64;
            format!("; {min} to {max} bytes a packet, {mean:.0} on average")
        }
        (Some(size), _) => format!("; {size} bytes a packet"),
        _ => String::new(),
    };
    format!("{} on the wire{rate}{sizes}", show::count(file.wire_bytes))
}

fn cut(file: &FileInfo) -> String {
    if file.cut_packets == 0 {
        return "none".into();
    }
    let part = quaff::format::percent(file.cut_packets as f64 / file.packets as f64);
    let (packets, lacks) = (show::number_of(file.cut_packets, "packet"), show::bytes(file.cut_bytes));
    format!("{packets} ({part}), of which the file lacks {lacks}")
}

fn order(file: &FileInfo) -> String {
    match file.backward {
        0 => "by time".into(),
        count => {
            let packets = if count == 1 { "packet is" } else { "packets are" };
            let (count, late) = (show::count(count), show::span_ns(file.late_max_ns));
            format!("{count} {packets} earlier than the one before; {late} late at most")
        }
    }
}

fn gaps(gaps: &[Gap]) -> String {
    let one = |gap: &Gap| {
        format!(
            "{} before packet {} ({})",
            show::span_ns(gap.ns()),
            show::count(gap.packet),
            show::time_ns(gap.to_ns)
        )
    };
    let mut shown = gaps.iter().take(GAPS_SHOWN);
    match shown.next() {
        None => String::new(),
        Some(longest) => {
            let others: Vec<_> = shown.map(one).collect();
            let then =
                if others.is_empty() { String::new() } else { format!("; then {}", others.join(", ")) };
            format!("longest {}{then}", one(longest))
        }
    }
}

fn drops(drops: Option<&Drops>) -> String {
    let Some(drops) = drops else { return "the file has no counters of drops".into() };
    let counts = [
        (drops.interface, "by the interface"),
        (drops.kernel, "by the kernel"),
        (drops.buffer, "between kernel and file"),
    ];
    let layers = show::present(counts).collect::<Vec<_>>().join(", ");
    let mut words = match (drops.recorded, drops.at_packets) {
        (0, 0) => return "none recorded".into(),
        (0, at_packets) => format!("{} recorded at packets", show::count(at_packets)),
        (recorded, _) => format!("{} recorded: {layers}", show::count(recorded)),
    };
    let place = |place: DropPlace| {
        let (drops, packet) = (show::count(place.drops), show::count(place.packet));
        format!("{drops} before packet {packet} ({})", show::time_ns(place.time_ns))
    };
    let places = &drops.places;
    if let (Some(first), Some(last), Some(largest)) = (places.first, places.last, places.largest) {
        words += &match places.count {
            1 => format!("; {}", place(first)),
            count => format!(
                "; in {} places, first {}, last {}, most {}",
                show::count(count),
                place(first),
                place(last),
                place(largest)
            ),
        };
    }
    words
}

fn origin(origin: &Origin) -> String {
    let texts = [&origin.application, &origin.os, &origin.hardware];
    let known = texts.iter().filter_map(|text| text.as_deref()).filter(|text| !text.is_empty());
    known.collect::<Vec<_>>().join(", ")
}

/// The table of interfaces, and their filters.
fn interfaces(file: &FileInfo, columns: Columns) -> String {
    let shown: Vec<_> = file.interfaces.iter().take(INTERFACES_SHOWN).collect();
    if shown.is_empty() {
        return String::new();
    }
    let heads = [
        ("interface", false, 0),
        ("link", false, 2),
        ("packets", true, 0),
        ("bytes on the wire", true, 1),
        ("snaplen", true, 4),
        ("times", false, 5),
        ("recorded drops", true, 1),
    ];
    let rows = shown.iter().map(|interface| row(interface));
    let mut text = format!("\n{}\n", terminal_table::ranked(&heads, rows, columns));
    let filtered = shown.iter().filter_map(|of| Some((label(of), of.filter.as_deref()?)));
    for (label, filter) in filtered {
        text +=
            &format!("{}\n", terminal_table::wrapped("  ", &format!("filter of {label}: {}", name(filter))));
    }
    match file.interface_count - shown.len() as u64 {
        0 => {}
        more => text += &format!("  and {}; --json has them\n", show::number_of(more, "more interface")),
    }
    text
}

fn row(interface: &InterfaceInfo) -> Vec<String> {
    let link = interface.link.map_or_else(|| format!("linktype {}", interface.linktype), str::to_owned);
    let drops = match (interface.statistics, interface.dropcount) {
        (0, 0) => "?".into(),
        (_, at_packets) => {
            let counted = interface.ifdrop.unwrap_or(0).saturating_add(interface.osdrop.unwrap_or(0));
            show::count(counted.max(at_packets))
        }
    };
    let snaplen = if interface.snaplen == 0 { "-".into() } else { show::count(interface.snaplen.into()) };
    vec![
        label(interface),
        link,
        show::count(interface.packets),
        show::count(interface.wire_bytes),
        snaplen,
        resolution(interface.tsresol),
        drops,
    ]
}

/// The name of an interface, or its number.
fn label(interface: &InterfaceInfo) -> String {
    match interface.name.as_deref() {
        Some(known) if !known.is_empty() => name(known).into_owned(),
        _ => format!("#{}", interface.id),
    }
}

/// The unit of times by `if_tsresol`.
fn resolution(tsresol: u8) -> String {
    match tsresol {
        0 => "s".into(),
        3 => "ms".into(),
        6 => "µs".into(),
        9 => "ns".into(),
        12 => "ps".into(),
        power if power & 0x80 != 0 => format!("2^-{} s", power & 0x7f),
        power => format!("10^-{power} s"),
    }
}

/// A line for each file, and the sums.
fn table(files: &[FileInfo], total: &Total, columns: Columns) -> String {
    let heads = [
        ("file", false, 0),
        ("size", true, 3),
        ("packets", true, 0),
        ("first", false, 2),
        ("duration", true, 4),
        ("rate", true, 5),
        ("drops", true, 1),
        ("state", false, 1),
    ];
    let folder = common_folder(files);
    let named = |file: &FileInfo| match folder {
        Some(folder) => file.path[folder.len()..].trim_start_matches('/').to_owned(),
        None => file.path.clone(),
    };
    let rows = files.iter().map(|file| {
        let state = match (file.unreadable, &file.broken) {
            (true, _) => "unreadable".into(),
            (_, Some(broken)) => format!("damaged at {}", broken.offset),
            _ if file.is_damaged() => "damaged".into(),
            _ => "whole".into(),
        };
        let drops = file.drops.as_ref().map(|_| file.lost());
        let size = file.file_bytes.unwrap_or(file.data_bytes);
        line(&name(&named(file)), size, file.packets, file.first_ns, (file.seconds, file.pps), drops, state)
    });
    let state = if total.damaged == 0 { String::new() } else { format!("{} damaged", total.damaged) };
    let rates = (total.seconds, total.pps);
    let what = show::number_of(total.files, "file");
    let drops = files.iter().any(|file| file.drops.is_some()).then_some(total.drops);
    let sums = line(&what, total.file_bytes, total.packets, total.first_ns, rates, drops, state);
    let head = folder.map(|folder| format!("files in {}\n", name(folder))).unwrap_or_default();
    head + &terminal_table::ranked(&heads, rows.chain([sums]), columns)
}

/// The digests of files below their table, as sha256sum prints them.
fn digests(files: &[FileInfo]) -> String {
    let line = |file: &FileInfo| Some(format!("\n{}  {}", file.sha256.as_deref()?, name(&file.path)));
    let lines: String = files.iter().filter_map(line).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// The folder in which all files are, unless it is the working directory: it need not stand in each line.
fn common_folder(files: &[FileInfo]) -> Option<&str> {
    let folder = |file: &'_ FileInfo| Path::new(&file.path).parent().map(Path::to_path_buf);
    let first = folder(files.first()?)?;
    let is_common = files.iter().all(|file| folder(file).as_ref() == Some(&first));
    let text = &files.first()?.path;
    let bytes = first.to_str().filter(|text| is_common && !text.is_empty())?.len();
    text.get(..bytes)
}

/// A line of the table.
fn line(
    what: &str,
    size: u64,
    packets: u64,
    first_ns: Option<u64>,
    (seconds, pps): (Option<f64>, Option<f64>),
    drops: Option<u64>,
    state: String,
) -> Vec<String> {
    vec![
        what.to_owned(),
        show::bytes(size),
        show::count(packets),
        first_ns.map_or_else(|| "-".into(), |ns| moment::text(ns, 0)),
        seconds.map_or_else(|| "-".into(), short),
        pps.map_or_else(|| "-".into(), show::pps),
        drops.map_or_else(|| "?".into(), show::count),
        state,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_times_are_named() {
        assert_eq!([0, 3, 6, 9, 7, 0x80 | 30].map(resolution), ["s", "ms", "µs", "ns", "10^-7 s", "2^-30 s"]);
    }

    #[test]
    fn an_unreadable_file_weighs_more_than_damage_and_that_more_than_drops() {
        let file = |unreadable, damaged: bool| FileInfo {
            unreadable,
            error: damaged.then(|| "damage".to_owned()),
            ..FileInfo::default()
        };
        let judged = |files: &[FileInfo]| judged(files, &Total::of(files));
        assert_eq!(judged(&[file(false, false)]), Some(true));
        assert_eq!(judged(&[file(false, false), file(false, true)]), Some(false));
        assert_eq!(judged(&[file(true, true), file(false, true)]), None);
    }

    #[test]
    fn drops_without_a_place_are_shown_by_layer() {
        assert_eq!(drops(None), "the file has no counters of drops");
        let places = quaff_file::info::DropPlaces::default();
        let known = Drops {
            recorded: 28_607,
            interface: 28_607,
            kernel: 0,
            buffer: 0,
            at_packets: 0,
            places,
            contradictions: Vec::new(),
        };
        assert_eq!(drops(Some(&known)), "28,607 recorded: 28,607 by the interface");
    }
}
