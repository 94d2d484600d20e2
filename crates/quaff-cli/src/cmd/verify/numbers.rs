//! The numbers of packets, and copies, in the report of `quaff verify`, as text.

use super::words::line;
use crate::show;
use quaff_stream::proof::{CopyReport, NumberReport, Numbers};
use std::fmt::{Result, Write};

/// Prints the kinds of numbers that there are.
pub(super) fn print(out: &mut impl Write, numbers: &Numbers) -> Result {
    let Numbers { erspan, gre, rtp, ip_id, quic_packets } = numbers;
    let on_the_way = ": lost before the capture, or by it";
    for (name, kind, lost) in [("erspan", erspan, ""), ("gre", gre, on_the_way), ("rtp", rtp, on_the_way)] {
        if kind.sources + kind.set_aside > 0 {
            line(out, name, &number_words(kind, if kind.lost > 0 { lost } else { "" }))?;
        }
    }
    if ip_id.sources > 0 {
        line(out, "ip-id", &host_words(ip_id))?;
    }
    match quic_packets {
        0 => Ok(()),
        some => {
            let some = show::number_of(*some, "datagram");
            line(
                out,
                "quic",
                &format!("{some} of port 443: numbers of QUIC are encrypted, and prove nothing"),
            )
        }
    }
}

pub(super) fn number_words(kind: &NumberReport, lost: &str) -> String {
    let (missing, packets) = (show::count(kind.lost), show::number_of(kind.packets, "packet"));
    let senders = show::number_of(kind.sources, "sender");
    let head = format!("{missing} missing beside {packets} of {senders}{lost}");
    let parts = [
        (kind.late, "late"),
        (kind.copies, "twice"),
        (kind.undecided, "missing before the end of a sender"),
        (kind.restarts, "counters began anew"),
        (kind.set_aside, "senders set aside, as their numbers do not run"),
        (kind.evicted, "senders ended early because the table was full"),
    ];
    std::iter::once(head).chain(show::present(parts)).collect::<Vec<_>>().join(", ")
}

fn host_words(hosts: &NumberReport) -> String {
    let (pairs, packets) = (show::number_of(hosts.sources, "pair"), show::number_of(hosts.packets, "packet"));
    let missing = show::number_of(hosts.lost, "number");
    let count = if hosts.sources == 1 { "counts" } else { "count" };
    format!(
        "{pairs} of hosts whose sender {count} by one: {packets}, {missing} missing (lost, or not sent here; no evidence \
         alone)"
    )
}

/// Prints packets that came twice.
pub(super) fn print_copies(out: &mut impl Write, copies: &CopyReport, copied_bytes: u64) -> Result {
    let all = copies.elsewhere + copies.same_place;
    if all == 0 {
        return Ok(());
    }
    let places = [
        (copies.elsewhere, "by another interface, VLAN, MAC address or TTL"),
        (copies.same_place, "at the same place"),
    ];
    let places = show::present(places).collect::<Vec<_>>().join(", ");
    let unchecked = match copies.unchecked {
        0 => String::new(),
        some => format!("; {} not compared, too many at once", show::number_of(some, "packet")),
    };
    let words = format!(
        "{} came twice within 1 ms ({places}): {} of TCP data in them are no retransmissions{unchecked}",
        show::number_of(all, "packet"),
        show::bytes(copied_bytes)
    );
    line(out, "copies", &words)
}
