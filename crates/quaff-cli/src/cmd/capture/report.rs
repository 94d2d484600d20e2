//! The output of `quaff capture`: the progress line, the ledger, the plan.

use crate::cmd::lanes;
use crate::exit::Exit;
use crate::settings;
use crate::shell::{Part, ReadProgress, resident_part};
use crate::show::{self, Stream, name};
use quaff::LaneGauges;
use quaff::Status;
use quaff::format::times;
use quaff::plan::{CapturePlan, PREFAULT, PREFAULT_BYTES_MAX, RETIRE_MS, SNAPLEN_MAX};
use quaff::tally::{
    DecapTally, Fate, InputTally, LaneShare, LaneTally, Ledger, RunSummary, TERMS, Term, Verdict,
};
use quaff::{CompiledFilter, DryRun};
use quaff_file::read::GONE;
use quaff_file::tally::{CompressionTally, Sightings};
use quaff_file::write::{DirPlan, Output};
use quaff_os::{Reason, process};
use std::time::Instant;

/// The progress line.
pub(super) struct Live {
    status: Status,
    last: Instant,
    received: u64,
    wire_bytes: u64,
    progress: ReadProgress,
}

impl Live {
    pub(super) fn new(status: Status, plan: &CapturePlan) -> Self {
        let progress = ReadProgress::new(&plan.input);
        Self { status, last: Instant::now(), received: 0, wire_bytes: 0, progress }
    }

    /// Shows the progress in the name of the process: `0 3,17%`.
    pub(super) fn name_process(&self) {
        let (lanes, buffer) = (&self.status.lanes, &self.status.buffer);
        let percent = |bytes: u64| 100 * bytes / buffer.bytes.max(1);
        let lost: u64 = lanes
            .iter()
            .map(|lane| lane.nic_dropped.get() + lane.kernel_dropped.get() + lane.lost.get())
            .sum();
        let digits = match lost + self.status.writer.lost.get() {
            0 => 0,
            lost => lost.ilog10() + 1,
        };
        let (now, high) = (percent(buffer.used_bytes()), percent(buffer.high_bytes()));
        process::set_name(&format!("{digits} {now},{high}%"));
    }

    /// The line's parts; rates are those since the call before.
    pub(super) fn parts(&mut self) -> Vec<Part> {
        let seconds = self.last.elapsed().as_secs_f64().max(1e-3);
        let lanes = &self.status.lanes;
        let sum = |of: fn(&LaneGauges) -> u64| lanes.iter().map(|lane| of(lane)).sum::<u64>();
        let most = |of: fn(&LaneGauges) -> u64| lanes.iter().map(|lane| of(lane)).max().unwrap_or(0);
        let percent = |part: u64, whole: u64| 100 * part / whole.max(1);
        let (received, wire_bytes) = (sum(|lane| lane.received.get()), sum(|lane| lane.wire_bytes.get()));
        let (buffer, blocks) = (&self.status.buffer, self.status.ring_blocks);
        let pps = show::pps((received - self.received) as f64 / seconds);
        let bits = show::bits((wire_bytes - self.wire_bytes) as f64 * 8.0 / seconds);
        let lost = [
            sum(|lane| lane.nic_dropped.get()),
            sum(|lane| lane.kernel_dropped.get()),
            sum(|lane| lane.lost.get()),
            self.status.writer.lost.get(),
        ];
        let [nic, kernel, in_buffer, disk] = lost.map(show::count);
        let (packets, bytes) = (self.status.writer.written.get(), self.status.writer.bytes.get());
        let ring = percent(most(|lane| lane.ring_high.get()), blocks);
        let (used, high) =
            (percent(buffer.used_bytes(), buffer.bytes), percent(buffer.high_bytes(), buffer.bytes));
        let missing = |count: u64, words: &str| {
            if count == 0 { String::new() } else { format!("{words} {}", show::count(count)) }
        };
        let parts = vec![
            self.progress.part(sum(|lane| lane.input_bytes.get())),
            Part::new(format!("{pps} {bits}"), pps, 4),
            Part::new(format!("written {} {}", show::count(packets), show::bytes(bytes)), "", 1),
            Part::new(format!("ring {ring}% buffer {used}% max {high}%"), "", 0),
            Part::new(
                format!("lost: nic {nic} kernel {kernel} buffer {in_buffer} disk {disk}"),
                format!("lost {}", show::count(lost.iter().sum())),
                3,
            ),
            Part::new(missing(sum(|lane| lane.missing.get()), "before capture"), "", 2),
            Part::new(missing(self.status.writer.copy_lost.get(), "live copy missed"), "", 2),
            resident_part(buffer),
        ];
        (self.received, self.wire_bytes, self.last) = (received, wire_bytes, Instant::now());
        parts
    }
}

/// The sources, as text.
pub(super) fn sources(plan: &CapturePlan) -> String {
    match plan.input.read.as_ref().map(|read| &read.files[..]) {
        Some([first, rest @ ..]) if rest.len() > 2 => {
            format!("{} and {} more files", first.display(), rest.len())
        }
        Some(files) => files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", "),
        None => {
            let names = plan.input.interfaces.iter().map(|interface| interface.name.as_str());
            let coming = plan.input.hotplug.as_ref().map(|_| "interfaces that come");
            names.chain(coming).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The output, as text.
pub(super) fn target(plan: &CapturePlan) -> String {
    let folder = |dir: &DirPlan| format!("{}/", dir.dir.display().to_string().trim_end_matches('/'));
    let words = |output: &Output| match output {
        Output::File(path) => path.display().to_string(),
        Output::Stdout => "stdout".to_owned(),
        Output::Pipe(pipe) => pipe.program.to_owned(),
        Output::Dir(_) | Output::Dirs(_) => {
            output.folders().iter().map(folder).collect::<Vec<_>>().join(", ")
        }
    };
    match &plan.live_copy {
        Some(live_copy) => format!("{}, live copy to {}", words(&plan.output), words(live_copy)),
        None => words(&plan.output),
    }
}

/// Prints lines of a report on stdout.
fn print(lines: &str) {
    show::report(Stream::Stdout, lines);
}

/// The fate of the packets that were kept, in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    Written,
    /// They were printed, and are nowhere else.
    Shown,
    /// As shown, until the reader of the lines left, as `| head` does. It knows what it has read.
    ShownInPart,
}

impl Goal {
    /// That of a plan. `has_left`: the reader of printed packets left.
    pub(super) fn of(plan: &CapturePlan, has_left: bool) -> Self {
        match plan.output {
            Output::Pipe(_) if has_left => Self::ShownInPart,
            Output::Pipe(_) => Self::Shown,
            _ => Self::Written,
        }
    }
}

/// Prints the ledger: text on stderr, JSON on stdout unless stdout has the packets.
pub(super) fn ledger(
    ledger: &Ledger,
    goal: Goal,
    json: bool,
    quiet: bool,
    is_stdout_taken: bool,
) -> anyhow::Result<()> {
    if json {
        show::json(Stream::of_report(is_stdout_taken), ledger)?;
    }
    let is_known = goal == Goal::ShownInPart && Exit::of(ledger) == Exit::Done;
    let is_printed = quiet || is_known || (json && is_stdout_taken);
    if !is_printed {
        let is_good = match ledger.verdict {
            Verdict::Lossless => Some(true),
            Verdict::Lossy => Some(false),
            Verdict::Unknown => None,
        };
        let text = if goal == Goal::Written { ledger_text(ledger) } else { shown_text(ledger) };
        show::judged_report(Stream::Stderr, text.trim_end(), is_good);
    }
    Ok(())
}

/// The ledger as text.
pub(crate) fn ledger_text(ledger: &Ledger) -> String {
    let mut text = format!(
        "{} in {} written in {:.1} s",
        show::number_of(ledger.written, "packet"),
        show::bytes(ledger.bytes_written),
        ledger.seconds
    );
    if ledger.files > 1 || ledger.pruned > 0 {
        text += &format!(", {}", show::number_of(ledger.files, "file"));
    }
    text += &pruned_words(ledger);
    text += verdict_words(ledger);
    text += &details(ledger);
    if ledger.input.is_some() {
        return text;
    }
    text += &format!(
        "  peak use: {} of ring, {} of buffer; longest write {:.0} ms\n",
        show::bytes(ledger.ring_high_bytes),
        show::bytes(ledger.buffer_high_bytes),
        ledger.write_high_seconds * 1e3
    );
    text
}

/// The ledger of packets that were printed, and are in no file.
fn shown_text(ledger: &Ledger) -> String {
    let packets = show::number_of(ledger.written, "packet");
    format!("{packets} shown{}{}", verdict_words(ledger), details(ledger))
}

/// The end of the first line.
fn verdict_words(ledger: &Ledger) -> &'static str {
    match ledger.verdict {
        Verdict::Lossless => ", none lost\n",
        Verdict::Lossy => ", lossy\n",
        Verdict::Unknown => ", unknown if lossless\n",
    }
}

/// The lines after the first one, without the use of memory.
fn details(ledger: &Ledger) -> String {
    let mut text = lost_words(ledger);
    text += &other_words(ledger);
    text += &ledger.sightings.as_ref().map_or(String::new(), sightings_words);
    for decap in ledger.interfaces.iter().filter_map(|lane| lane.decap.as_ref()) {
        text += &decap_words(decap, ledger.nic_dropped + ledger.kernel_dropped + ledger.filtered > 0);
    }
    text += &lane_words(ledger);
    for lane in ledger.interfaces.iter().filter(|lane| lane.downs > 0) {
        text += &format!(
            "  {} was down {}, {:.1} s in total\n",
            name(&lane.interface),
            times(lane.downs),
            lane.down_ns as f64 / 1e9
        );
    }
    for lane in ledger.interfaces.iter().filter(|lane| lane.came_ns > 0) {
        text += &format!("  {} came at {}\n", name(&lane.interface), show::time_ns(lane.came_ns));
    }
    for lane in ledger.interfaces.iter().filter(|lane| lane.removed_ns > 0) {
        text += &format!("  {} was removed at {}\n", name(&lane.interface), show::time_ns(lane.removed_ns));
    }
    for proof in &ledger.proof {
        let at = if proof.interface.is_empty() { "" } else { " on " };
        text += &format!("  proof{at}{}: {}\n", name(&proof.interface), name(&proof.verdict));
    }
    text += &beside(ledger);
    if let Some(input) = &ledger.input {
        text += &input_words(input);
    }
    text += &ended(ledger);
    if let Some(failure) = &ledger.failure {
        text += &format!("  failed: {}\n", name(failure));
    }
    text
}

/// The shares of the lanes of interfaces that have several.
fn lane_words(ledger: &Ledger) -> String {
    let words = |of: &LaneTally| {
        let share = |lane: &LaneShare| 100.0 * lane.received as f64 / of.received.max(1) as f64;
        let shares: Vec<_> = of.lanes.iter().map(|lane| format!("{:.1} %", share(lane))).collect();
        format!("  {}: lanes received {}\n", name(&of.interface), shares.join(", "))
    };
    ledger.interfaces.iter().filter(|of| !of.lanes.is_empty()).map(words).collect()
}

/// The files that retention has removed.
fn pruned_words(ledger: &Ledger) -> String {
    let earlier = ledger.pruned_earlier;
    let counts = [(ledger.pruned - earlier, "removed"), (earlier, "of earlier runs removed")];
    show::present(counts).map(|words| format!(", {words}")).collect()
}

/// The places of losses after the lanes, with what helps.
const PLACES: [&str; 2] = [
    "because the buffer was full (the output was too slow: raise --buffer)",
    "because writing failed, the file was removed, or the reader of the output had stopped reading",
];

/// The places of all losses: an interface, the ring of its lane, the buffer, and the output.
pub(super) fn loss_places() -> [String; 4] {
    let of = |name: &str| {
        let term = TERMS.iter().find(|term| term.name == name);
        settings::named(term.map_or(name, |term| term.words))
    };
    let [buffer, output] = PLACES.map(str::to_owned);
    [of("nic_dropped"), of("kernel_dropped"), buffer, output]
}

/// The terms of a ledger that have lost packets or have not, each with its words; `own` are words of the product, by
/// the names of terms.
pub(crate) fn terms(
    run: &RunSummary,
    is_lost: bool,
    own: &[(&str, &'static str)],
) -> impl Iterator<Item = (u64, String)> {
    let of_fate = run.terms.each().filter(|(term, _)| (term.fate == Fate::Lost) == is_lost);
    let some = of_fate.filter(|(_, packets)| *packets > 0);
    let words = |term: &Term| {
        let own = own.iter().find(|(name, _)| *name == term.name);
        own.map_or_else(|| settings::named(term.words), |(_, words)| (*words).to_owned())
    };
    some.map(|(term, packets)| (packets, words(term))).collect::<Vec<_>>().into_iter()
}

/// Lost packets by place, each with its share of what the filter left.
pub(crate) fn places(
    run: &RunSummary,
    more: impl Iterator<Item = (u64, String)>,
) -> impl Iterator<Item = (u64, String)> {
    let total = (run.offered - run.filtered).max(1) as f64;
    let share = move |packets: u64| 100.0 * packets as f64 / total;
    terms(run, true, &[])
        .chain(more)
        .map(move |(packets, place)| (packets, format!("({:.2} %) {place}", share(packets))))
}

/// Lost packets by place.
fn lost_words(ledger: &Ledger) -> String {
    let more = [ledger.lost_in_buffer, ledger.lost_on_disk].into_iter().zip(PLACES.map(str::to_owned));
    let mut text = show::counted("  lost ", places(ledger, more));
    for reason in &ledger.reasons.lossy {
        text += &format!("  lossy: {}\n", name(reason));
    }
    for reason in &ledger.reasons.unknown {
        text += &format!("  unknown if lossless: {}\n", name(reason));
    }
    for note in &ledger.reasons.notes {
        text += &format!("  {note}\n");
    }
    text
}

/// Packets that are neither in the output nor lost, and notes about others.
fn other_words(ledger: &Ledger) -> String {
    let sum = |of: fn(&LaneTally) -> u64| ledger.interfaces.iter().map(of).sum();
    let counts = [
        (
            ledger.late,
            "NOT IN ORDER: they came later than the limit of --ordered, and are after packets of later times",
        ),
        (sum(|lane| lane.untagged), "without their VLAN tags"),
        (sum(|lane| lane.ethernet_made), "bare IP packets after a made Ethernet header"),
        (
            sum(|lane| lane.without_adapter_time),
            "without a time stamp of the adapter: they have the kernel's time",
        ),
        (sum(|lane| lane.oversize), "larger than the MTU: merged by GRO or TSO"),
    ];
    let of_file = ledger.input.as_ref().and_then(|_| match ledger.ended_by {
        // The input may have ended first, while packets were still in memory.
        Some(Reason::OutputClosed | Reason::InputEnded) => {
            Some("were read and not written: the reader of the output had ended")
        }
        Some(Reason::Count) => Some("were read after the last one of --count"),
        _ => None,
    });
    let own: Vec<_> = of_file.map(|words| ("after_count", words)).into_iter().collect();
    show::counted("  ", terms(ledger, false, &own)) + &show::counted("  ", counts)
}

/// Packets that were compared with earlier ones.
fn sightings_words(of: &Sightings) -> String {
    let counts = [
        (of.elsewhere, "duplicates: seen within 1 ms before by another interface, VLAN, MAC address or TTL"),
        (of.same_place, "seen within 1 ms before at the same place: retransmissions, or loops"),
        (of.unchecked, "not found, but may be duplicates: the table of packets was full"),
        (of.not_compared, "not compared: not IP, or not whole"),
    ];
    let none = || format!("  no duplicates among {}\n", show::number_of(of.compared, "packet"));
    let first = if of.elsewhere == 0 { none() } else { String::new() };
    first + &show::counted("  ", counts)
}

/// Remarks on the files read.
fn input_words(input: &InputTally) -> String {
    let mut text = String::new();
    for note in &input.notes {
        text += &format!("  {}\n", name(note));
    }
    for missing in &input.missing {
        text += &format!("  MISSING: {}, {GONE}\n", name(missing));
    }
    for damage in &input.damages {
        text += &format!("  DAMAGED: {}; the packets before it are written\n", name(damage));
    }
    text
}

/// Sessions shown; the JSON has all.
const SESSIONS_SHOWN: usize = 16;

/// Tunnels that were removed. A missing number does not show where the packet was lost; `has_other_places`: others have
/// counted some.
pub(crate) fn decap_words(decap: &DecapTally, has_other_places: bool) -> String {
    let or_else = if has_other_places { ", or counted above" } else { "" };
    let mut text = format!("  {} removed\n", show::number_of(decap.stripped, "tunnel header"));
    for session in decap.sessions.iter().take(SESSIONS_SHOWN) {
        text += &format!("    {}: {}", name(&session.name), show::number_of(session.received, "packet"));
        if session.missing > 0 {
            text += &format!(", {} lost before the capture{or_else}", show::count(session.missing));
        }
        text += "\n";
    }
    if decap.sessions.len() > SESSIONS_SHOWN {
        text += &format!(
            "    and {}\n",
            show::number_of((decap.sessions.len() - SESSIONS_SHOWN) as u64, "more session")
        );
    }
    for (reason, packets) in &decap.damaged {
        text += &format!("    {} unchanged: {reason}\n", show::count(*packets));
    }
    let counts = [
        (decap.control, "unchanged: control packets of tunnels"),
        (decap.incomplete, "unchanged: fragments of incomplete datagrams"),
        (decap.delayed, "NOT IN ORDER: fragments that were waited for, after packets of later times"),
    ];
    text + &show::counted("    ", counts)
}

/// The folders, if there are several, the live copy and the commands.
fn beside(ledger: &Ledger) -> String {
    let mut text = String::new();
    for folder in &ledger.outputs {
        let packets = show::number_of(folder.written, "packet");
        let files = show::number_of(folder.files, "file");
        text += &format!("  {}: {packets}, {}, {files}", name(&folder.dir), show::bytes(folder.bytes));
        text += &folder
            .failure
            .as_ref()
            .map_or("\n".into(), |failure| format!("; ended early: {}\n", name(failure)));
    }
    text += &ledger.compression.as_ref().map_or(String::new(), compression);
    match ledger.tee {
        Some(copy) if copy.lost > 0 => {
            text += &format!(
                "  the live copy has {} and misses {}, because its reader was too slow; the files have all\n",
                show::number_of(copy.written, "packet"),
                show::count(copy.lost)
            );
        }
        Some(copy) => text += &format!("  the live copy has {}\n", show::number_of(copy.written, "packet")),
        None => {}
    }
    if ledger.failed_files > 0 && !matches!(ledger.ended_by, Some(Reason::DiskFull | Reason::WriteError(_))) {
        text += &format!(
            "  writing failed: {} incomplete, or perhaps not on disk\n",
            show::number_of(ledger.failed_files, "file")
        );
        for failure in &ledger.write_failures {
            text += &format!("    {}\n", name(failure));
        }
    }
    if ledger.commands_failed > 0 {
        let (failed, all) =
            (show::count(ledger.commands_failed), show::number_of(ledger.commands, "command"));
        text += &format!("  {failed} of {all} run by --exec failed\n");
    }
    text
}

/// The compression, and what was stored because it did not keep up.
fn compression(of: &CompressionTally) -> String {
    let level = if of.format == "lz4" { String::new() } else { format!(" level {}", of.level) };
    let (plain, bytes) = (show::bytes(of.plain_bytes), show::bytes(of.bytes));
    let mut text = format!("  {plain} compressed to {bytes} by {}{level}\n", of.format);
    if of.stored_frames > 0 {
        text += &format!(
            "  compression did not keep up: {} of {} ({}) are stored uncompressed in the file; lz4 or a lower level is \
             faster, --compress-cpu gives it more cores\n",
            show::count(of.stored_frames),
            show::number_of(of.frames, "frame"),
            show::bytes(of.stored_bytes)
        );
    }
    text
}

fn ended(ledger: &Ledger) -> String {
    match &ledger.ended_by {
        Some(Reason::DiskFull) if ledger.has_retention => {
            "  the disk is full: other files fill it, and removing the oldest of this capture was not enough\n".into()
        }
        Some(Reason::DiskFull) => {
            "  the disk is full; --dir with --keep-free or --keep-size would remove the oldest files\n".into()
        }
        Some(Reason::WriteError(error)) => format!("  writing failed: {}\n", name(error)),
        Some(Reason::InterfaceGone(what)) => format!("  the interface {}\n", name(what)),
        Some(Reason::OutputClosed) if ledger.input.is_some() => {
            "  the reader of the output ended before the input did: the rest of the input was not read\n".into()
        }
        // The input had ended before.
        _ if ledger.failed_files == 0 => {
            let failures = ledger.write_failures.iter();
            failures.map(|failure| format!("  writing failed: {}\n", name(failure))).collect()
        }
        _ => String::new(),
    }
}

/// Prints the plan, the place of the inner filter, and the longest stall of the disk without loss.
pub(super) fn explain(plan: &CapturePlan, found: &DryRun) {
    match &plan.input.read {
        None => lanes::explain(&plan.input, found).iter().for_each(|line| print(line)),
        Some(_) => print(&format!("files      {}, in order", name(&sources(plan)))),
    }
    print(&format!("output     {} as {}", name(&target(plan)), plan.write.format.extension()));
    explain_compression(plan);
    explain_folders(plan);
    print(&format!(
        "filter     {}",
        match plan.input.filter.as_deref() {
            None => "none".into(),
            Some(text) if plan.input.read.is_some() => format!("'{text}'"),
            Some(text) => format!("'{text}', in the kernel"),
        }
    ));
    if let Some(pattern) = &found.pattern {
        print(&format!("pattern    '{}', in the payload of each packet", name(pattern)));
    }
    explain_tunnels(plan, found);
    print(&format!(
        "snaplen    {}",
        if plan.input.snaplen == SNAPLEN_MAX {
            "all of each packet".into()
        } else {
            format!("{} B", plan.input.snaplen)
        }
    ));
    match plan.input.read.is_some() {
        true => print(&format!(
            "buffer     {} in chunks of {}",
            show::bytes(found.buffer_bytes),
            show::bytes(found.chunk_bytes)
        )),
        false => explain_live(plan, found),
    }
    for note in &found.notes {
        print(&format!("note       {}", settings::named(&name(note))));
    }
}

fn explain_live(plan: &CapturePlan, found: &DryRun) {
    print(&format!(
        "ring       {} per lane, {} blocks of {}, retired after {RETIRE_MS} ms at the latest",
        show::bytes((plan.input.blocks_per_ring() * plan.input.block_bytes) as u64),
        plan.input.blocks_per_ring(),
        show::bytes(plan.input.block_bytes as u64)
    ));
    let rest = match plan.write.is_populated {
        true => "the rest in the background".to_owned(),
        false => {
            format!("{} at most, more as the traffic needs it", show::bytes(PREFAULT_BYTES_MAX as u64))
        }
    };
    print(&format!(
        "buffer     {} in chunks of {}, pre-faulted for {PREFAULT:?} before the first packet, {rest}; on disk after {:?}",
        show::bytes(found.buffer_bytes),
        show::bytes(found.chunk_bytes),
        plan.write.flush
    ));
    print("the disk may stall without packet loss for");
    for stalls in found.stalls.chunks(2) {
        let [large, small] = stalls else { continue };
        print(&format!(
            "  at {:<8} {:>6.1} s of {} B frames, {:>6.1} s of {} B frames",
            format!("{:.0} Gb/s", large.bits_per_second / 1e9),
            large.seconds,
            large.frame_bytes,
            small.seconds,
            small.frame_bytes
        ));
    }
}

fn explain_compression(plan: &CapturePlan) {
    let Some(compress) = &plan.write.compress else { return };
    let threads = match compress.threads {
        1 => "one thread".to_owned(),
        threads => format!("{threads} threads"),
    };
    let late = compress.backlog_bytes.map_or(String::new(), |bytes| {
        format!(
            "; if more than {} of the buffer wait for it, packets are stored uncompressed",
            show::bytes(bytes)
        )
    });
    print(&format!("compress   {}, {threads}{late}", compress.codec));
}

/// Prints compiled filters.
pub(super) fn dump(filters: &[CompiledFilter]) {
    if filters.is_empty() {
        print("no filter: every packet is kept");
    }
    for filter in filters {
        print(&format!("{}:\n{}", name(&filter.place), filter.listing.trim_end()));
    }
}

/// Prints which interface is written to which folder, if there are several.
fn explain_folders(plan: &CapturePlan) {
    let (folders, lanes) = (plan.output.folders(), plan.input.lane_names());
    if folders.len() < 2 {
        return;
    }
    print("folders    one writer each; retention and numbers are of each folder");
    let shared = folders.len().min(lanes.len()).max(1);
    for (number, folder) in folders.iter().enumerate() {
        let names = lanes.iter().enumerate().filter(|(lane, _)| match folders.len() > shared {
            true => number % shared == *lane,
            false => lane % folders.len() == number,
        });
        let names: Vec<_> = names.map(|(_, name)| name.as_str()).collect();
        let dir = folder.dir.display().to_string();
        print(&format!("  {} has {}", name(&dir), name(&names.join(", "))));
    }
    if folders.len() > shared {
        let bytes = folders[0].rotate_bytes.unwrap_or(u64::MAX);
        let bytes = show::bytes(bytes);
        print(&format!("  files go to the folders of a lane in turns, at most {bytes} each"));
    }
}

fn explain_tunnels(plan: &CapturePlan, found: &DryRun) {
    if let Some(decap) = &plan.input.decap {
        let rest = if decap.only { "other packets are dropped" } else { "other packets pass unchanged" };
        print(&format!("tunnels    {} removed, at most {} nested; {rest}", decap.kinds, decap.depth));
    }
    let Some(filter) = &plan.input.inner else { return };
    print(&format!("inner      '{}'", filter.expression));
    let places = found.interfaces.iter();
    let places: Vec<_> = places.filter_map(|of| Some((of.name.as_str(), of.inner_place.as_ref()?))).collect();
    for (interface, place) in &places {
        print(&format!("  {:<8} {place}", name(interface)));
    }
    if places.iter().any(|(_, place)| place.hides_gaps()) {
        print("  gaps in ERSPAN sequence numbers are not counted; --inner-user counts them");
    }
}
