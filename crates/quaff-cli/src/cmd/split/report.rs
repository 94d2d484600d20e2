//! The report of `quaff split`: the shares as bars, then details.

use crate::cmd::capture::terms;
use crate::shell::{Part, ReadProgress, resident_part};
use crate::show::{self, Stream, name};
use quaff::LaneGauges;
use quaff::split::{Largest, MemberReport, PeakReport, Report, Split, SplitPlan};
use quaff_file::read::GONE;
use quaff_os::{Reason, stderr_columns, terminal_columns};

/// Cells of a bar, and the least that shows anything.
const BAR_CELLS: usize = 24;
const BAR_CELLS_MIN: usize = 6;
/// Columns of the line of a member without its name and its bar.
const FIGURES_COLUMNS: usize = 54;
/// Maximum length of a name; of a longer one the start is omitted.
const NAME_CHARS_MAX: usize = 28;

/// Prints the report as JSON, or in words unless the run is quiet.
pub(super) fn print(report: &Report, plan: &SplitPlan, is_json: bool, is_quiet: bool) -> anyhow::Result<()> {
    if is_json {
        return show::json(Stream::of_report(plan.takes_stdout()), report);
    }
    if is_quiet {
        return Ok(());
    }
    let stream = Stream::of_report(plan.takes_stdout());
    let columns = if stream == Stream::Stdout { terminal_columns() } else { stderr_columns() };
    let text = words(report, plan.is_dry(), columns);
    if !text.is_empty() {
        show::report(stream, &text);
    }
    Ok(())
}

/// The cells of a bar beside names of `widest` characters: as many as fit, or none.
fn bar_cells(columns: Option<u16>, widest: usize) -> usize {
    let room =
        columns.map_or(BAR_CELLS, |columns| usize::from(columns).saturating_sub(FIGURES_COLUMNS + widest));
    if room < BAR_CELLS_MIN { 0 } else { room.min(BAR_CELLS) }
}

/// The progress line.
pub(super) fn progress(split: &Split, read: &ReadProgress) -> Vec<Part> {
    let sum = |of: fn(&LaneGauges) -> u64| split.lanes.iter().map(|lane| of(lane)).sum::<u64>();
    let out: u64 = split.members().map(|(_, _, written)| written).sum();
    let packets = format!("{} in, {} out", show::count(sum(|lane| lane.received.get())), show::count(out));
    let short = format!("{} out", show::count(out));
    let mut parts = vec![read.part(sum(|lane| lane.input_bytes.get())), Part::new(packets, short, 4)];
    if let Some(buffer) = &split.buffer {
        let percent = |bytes: u64| 100 * bytes / buffer.bytes.max(1);
        let (used, high) = (percent(buffer.used_bytes()), percent(buffer.high_bytes()));
        let lost = [
            sum(|lane| lane.nic_dropped.get()),
            sum(|lane| lane.kernel_dropped.get()),
            sum(|lane| lane.lost.get()),
        ];
        let [nic, kernel, in_buffer] = lost.map(show::count);
        parts.push(Part::new(format!("buffer {used}% max {high}%"), "", 0));
        let all = format!("lost {}", show::count(lost.iter().sum()));
        parts.push(Part::new(format!("lost: nic {nic} kernel {kernel} buffer {in_buffer}"), all, 3));
        parts.push(resident_part(buffer));
    }
    parts
}

fn words(report: &Report, is_dry: bool, columns: Option<u16>) -> String {
    let mut text = headline(report, is_dry);
    let widest = report.members.iter().map(|member| short(&member.name).chars().count()).max().unwrap_or(0);
    let most = report.members.iter().map(|member| written_share(member).max(member.share_due));
    let most = most.fold(0.0, f64::max);
    for member in &report.members {
        text += &member_words(member, widest, most, bar_cells(columns, widest));
    }
    text += &balance_words(report);
    text += &skipped_words(report);
    for member in &report.members {
        text += &gone_words(member);
    }
    for note in &report.notes {
        let prefix = match &report.reasons {
            reasons if reasons.lossy.contains(note) => "lossy: ",
            reasons if reasons.unknown.contains(note) => "unknown if lossless: ",
            _ => "",
        };
        text += &format!("  {prefix}{}\n", name(note));
    }
    for missing in report.input.iter().flat_map(|input| &input.missing) {
        text += &format!("  MISSING: {}, {GONE}\n", name(missing));
    }
    for damage in report.input.iter().flat_map(|input| &input.damages) {
        text += &format!("  DAMAGED: {}; the packets before it are split\n", name(damage));
    }
    if let Some(failure) = &report.failure {
        text += &format!("  FAILED: {}\n", name(failure));
    }
    text.trim_end().to_owned()
}

fn headline(report: &Report, is_dry: bool) -> String {
    let packets = show::number_of(report.offered, "packet");
    let members = show::number_of(report.members.len() as u64, "member");
    let (would, by) = (if is_dry { "would go" } else { "went" }, &report.by);
    let whole = if report.skipped == 0 { "all".to_owned() } else { show::count(report.out) };
    format!("{packets} in, {whole} {would} to {members}, by {by}\n")
}

fn member_words(member: &MemberReport, widest: usize, most: f64, cells: usize) -> String {
    let name = short(&member.name);
    let (packets, share) = (show::count(member.written), written_share(member));
    let is_whole = member.written == member.packets;
    // The bytes of a part are not counted.
    let bytes = if is_whole { show::bytes(member.bytes) } else { String::new() };
    let bar = bar(share, member.share_due, most, cells);
    let shares = format!("{:>5.1} % {bytes:>9}  {bar}", 100.0 * share);
    let end = match member.peaks.first() {
        _ if !is_whole => format!("  of {}", show::number_of(member.packets, "packet")),
        Some(peak) => format!("  peak {}", show::bits(peak.bits_per_second)),
        None => String::new(),
    };
    let end = if cells == 0 { end.trim_start() } else { &end };
    format!("  {name:<widest$}  {packets:>11}  {shares}{end}\n")
}

/// The share of all bytes that a member has written; of a member that has not written all, estimated by packets.
fn written_share(member: &MemberReport) -> f64 {
    member.share_bytes * (member.written as f64 / member.packets.max(1) as f64)
}

/// A bar of `cells` for a share of `most`, with a mark at the planned share.
fn bar(share: f64, due: f64, most: f64, cells: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = |part: f64| (part / most.max(1e-9) * (cells * 8) as f64).round() as usize;
    let (filled, mark) = (eighths(share), (eighths(due) / 8).min(cells.saturating_sub(1)));
    let cell = |at: usize| match filled.saturating_sub(at * 8) {
        0 if at == mark => '│',
        8.. => '█',
        part => EIGHTHS[part],
    };
    (0..cells).map(cell).collect()
}

/// The end of a long name, which is more specific than its start.
fn short(text: &str) -> String {
    let name = name(text);
    let chars = name.chars().count();
    match chars.checked_sub(NAME_CHARS_MAX) {
        None | Some(0) => name.into_owned(),
        Some(more) => std::iter::once('…').chain(name.chars().skip(more + 1)).collect(),
    }
}

fn balance_words(report: &Report) -> String {
    let (packets, bytes) = (report.jain_packets, report.jain_bytes);
    let mut text = format!("  Jain's index {packets:.3} of packets, {bytes:.3} of bytes (1 is even)\n");
    let at_least = if report.conversations_exact { "" } else { "about " };
    let conversations = if report.conversations == 1 { "conversation" } else { "conversations" };
    text += &format!("  {at_least}{} {conversations}\n", show::count(report.conversations));
    if let Some(largest) = &report.largest {
        text += &format!("  largest: {}\n", largest_words(largest));
    }
    let busiest = |at: usize| {
        let of = |member: &MemberReport| member.peaks.get(at).map_or(0.0, |peak| peak.bits_per_second);
        report.members.iter().max_by(|one, other| of(one).total_cmp(&of(other)))
    };
    for (at, all) in report.peaks.iter().enumerate() {
        if let Some(member) = busiest(at).filter(|_| all.packets > 0) {
            text += &peak_words(all, &member.peaks[at], &short(&member.name));
        }
    }
    text
}

fn largest_words(largest: &Largest) -> String {
    let unsure = match largest.unsure_bytes {
        0 => String::new(),
        bytes => format!(" (or up to {} more)", show::bytes(bytes)),
    };
    format!(
        "{}, {:.1} % of the bytes{unsure}, at member {}",
        largest.conversation,
        100.0 * largest.share_bytes,
        largest.member
    )
}

fn peak_words(all: &PeakReport, member: &PeakReport, name: &str) -> String {
    format!(
        "  busiest {}: {} in total, at most {} at one member, {name}\n",
        show::span_ns((all.window_seconds * 1e9) as u64),
        show::bits(all.bits_per_second),
        show::bits(member.bits_per_second),
    )
}

/// Packets that were not written, or not in the order of their times.
fn skipped_words(report: &Report) -> String {
    let skipped = &report.skipped_by;
    let counts = [
        (skipped.lost, "LOST: a member was too slow or failed"),
        (skipped.after_close, "LOST on the way to a member that had just failed"),
        (skipped.unsendable, "not sent: larger than the interface's MTU allows"),
        (report.delayed, "NOT IN ORDER: fragments that were waited for, after packets of later times"),
    ];
    let lost = [
        ("nic_dropped", "LOST: the interface dropped them"),
        ("kernel_dropped", "LOST: the kernel's ring was full"),
    ];
    let other = [
        ("unsuited", "dropped: pcap holds a single link type"),
        ("after_count", "not read, or arrived after the end"),
    ];
    let of_run = |is_lost, own: &[_]| show::counted("  ", terms(report, is_lost, own));
    of_run(true, &lost) + &show::counted("  ", counts) + &of_run(false, &other)
}

fn gone_words(member: &MemberReport) -> String {
    let name = name(&member.name);
    let exit = match member.exit {
        // The reason has the status of a command that failed early.
        Some(status) if status != 0 && member.gone.is_none() => {
            format!("  {name} ended with status {status}\n")
        }
        _ => String::new(),
    };
    match &member.gone {
        None => exit,
        Some(Reason::OutputClosed) => format!("  {name} ended: its reader exited\n{exit}"),
        Some(Reason::DiskFull) => format!("  {name} ended: its disk is full\n{exit}"),
        Some(Reason::WriteError(error) | Reason::Failed(error)) => {
            format!("  {name} FAILED: {}\n{exit}", show::name(error))
        }
        Some(other) => format!("  {name} ended: {other:?}\n{exit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_the_share_and_what_is_due() {
        let bar_of = |share, due, most| bar(share, due, most, BAR_CELLS);
        assert_eq!(bar_of(0.5, 0.25, 0.5), "█".repeat(24));
        assert_eq!(bar_of(0.25, 0.5, 0.5), format!("{}{}│", "█".repeat(12), " ".repeat(11)));
        assert_eq!(bar_of(0.0, 0.0, 0.0).chars().count(), BAR_CELLS);
        assert!(bar_of(1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0).ends_with('█'));
        assert_eq!((bar(0.5, 0.5, 0.5, 0), bar(0.5, 0.5, 1.0, 8)), (String::new(), "████│   ".into()));
        let cells = [None, Some(40), Some(80), Some(200)].map(|columns| bar_cells(columns, 20));
        assert_eq!(cells, [BAR_CELLS, 0, 6, BAR_CELLS]);
        assert_eq!(
            short("/a/folder/with/a/long/name/member-1.pcapng"),
            "…a/long/name/member-1.pcapng".to_owned()
        );
    }
}
