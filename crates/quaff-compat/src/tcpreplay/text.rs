//! The final output of tcpreplay, number for number, which scripts parse.
//!
//! Seconds are truncated, not rounded; rates are computed in whole numbers from µs, or from ms once more
//! than a gigabyte took more than a second. Mbps are of the bytes that were sent, without preamble,
//! checksum and gap.

use quaff_wire::flow::FlowCounts;
use std::fmt::Write;

const US: u128 = 1_000_000;

/// Totals of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) failed: u64,
    /// From the first frame to the last, µs.
    pub(super) span_us: u64,
    /// `None`: not counted.
    pub(super) flows: Option<Flows>,
    pub(super) devices: Vec<Device>,
}

/// Flow statistics.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flows {
    pub(super) counts: FlowCounts,
    /// `--flow-expiry` was given.
    pub(super) expiry: bool,
}

/// Counts of an interface.
#[derive(Debug, Clone, Default)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) successful: u64,
    pub(super) failed: u64,
    pub(super) truncated: u64,
    pub(super) enobufs: u64,
    pub(super) eagain: u64,
    /// Its flows, when there are two interfaces.
    pub(super) flows: Option<FlowCounts>,
}

impl Totals {
    /// The final text; empty if nothing was sent.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        if self.bytes > 0 {
            self.lines(&mut out).expect("a String takes all");
        }
        out
    }

    fn lines(&self, out: &mut String) -> std::fmt::Result {
        out.push_str(&rated(self.packets, self.bytes, self.span_us));
        if self.failed > 0 {
            writeln!(out, "Failed write attempts: {}", self.failed)?;
        }
        self.flow_line(out)?;
        self.devices.iter().try_for_each(|device| device.lines(out))
    }

    fn flow_line(&self, out: &mut String) -> std::fmt::Result {
        let Some(Flows { counts, expiry }) = self.flows.filter(|flows| flows.counts.flows > 0) else {
            return Ok(());
        };
        let rate = (u128::from(counts.flows) * 100 * US).checked_div(self.span_us.into()).unwrap_or(0);
        write!(out, "Flows: {} flows, ", counts.flows)?;
        if expiry {
            write!(out, "{} unique, {} expired, ", counts.unique, counts.expired)?;
        }
        let (fps, with, without) = (decimal(rate, 100), counts.flow_packets, counts.non_flow_packets);
        writeln!(out, "{fps} fps, {with} unique flow packets, {without} unique non-flow packets")
    }
}

/// The lines `Actual:` and `Rated:`.
pub(super) fn rated(packets: u64, bytes: u64, span_us: u64) -> String {
    let (seconds, us) = (span_us / US as u64, span_us % US as u64);
    let span = match seconds {
        0 => format!("0.{us:06}"),
        _ => format!("{seconds}.{:02}", us / 10_000),
    };
    // A count per second, scaled.
    let is_long = bytes > 1_000_000_000 && u128::from(span_us) > US;
    let rate = |count: u64, scale: u128| {
        let (count, us) = (u128::from(count) * scale, u128::from(span_us));
        let (count, span) = if is_long { (count * 1000, us / 1000) } else { (count * US, us) };
        count.checked_div(span).unwrap_or(0)
    };
    let tenths = rate(bytes, 10);
    let kbps = tenths / 10 * 8 / 1000;
    let mbps = match kbps {
        0..1000 => format!("0.{kbps:03}"),
        _ => format!("{}.{:02}", kbps / 1000, kbps / 10 % 100),
    };
    let (bps, pps) = (decimal(tenths, 10), decimal(rate(packets, 100), 100));
    format!(
        "Actual: {packets} packets ({bytes} bytes) sent in {span} seconds\n\
         Rated: {bps} Bps, {mbps} Mbps, {pps} pps\n"
    )
}

impl Device {
    fn lines(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "Statistics for network device: {}", self.name)?;
        for (what, count) in [
            ("Successful packets:        ", self.successful),
            ("Failed packets:            ", self.failed),
            ("Truncated packets:         ", self.truncated),
            ("Retried packets (ENOBUFS): ", self.enobufs),
            ("Retried packets (EAGAIN):  ", self.eagain),
        ] {
            writeln!(out, "\t{what}{count}")?;
        }
        let has_any = |flows: &FlowCounts| flows.flow_packets + flows.non_flow_packets > 0;
        let Some(flows) = self.flows.filter(has_any) else { return Ok(()) };
        for (what, count) in [
            ("Flows total:               ", flows.flows),
            ("Flows unique:              ", flows.unique),
            ("Flows expired:             ", flows.expired),
            ("Flow packets:              ", flows.flow_packets),
            ("Non-flow packets:          ", flows.non_flow_packets),
            ("Invalid flow packets:      ", flows.invalid_packets),
        ] {
            writeln!(out, "\t{what}{count}")?;
        }
        Ok(())
    }
}

/// A scaled number with as many decimals.
fn decimal(scaled: u128, scale: u128) -> String {
    let digits = scale.ilog10() as usize;
    format!("{}.{:0digits$}", scaled / scale, scaled % scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(packets: u64, bytes: u64, span_us: u64, flows: u64) -> Totals {
        let counts = FlowCounts { flows, unique: flows, flow_packets: packets, ..FlowCounts::default() };
        let device = Device { name: "tx0".into(), successful: packets, ..Device::default() };
        let flows = Some(Flows { counts, expiry: false });
        Totals { packets, bytes, failed: 0, span_us, flows, devices: vec![device] }
    }

    /// Printed by tcpreplay 4.4.3 for these numbers.
    #[test]
    fn the_same_to_the_letter() {
        let expected = "\
Actual: 11 packets (912 bytes) sent in 0.023438 seconds
Rated: 38911.1 Bps, 0.311 Mbps, 469.32 pps
Flows: 2 flows, 85.33 fps, 11 unique flow packets, 0 unique non-flow packets
Statistics for network device: tx0
\tSuccessful packets:        11
\tFailed packets:            0
\tTruncated packets:         0
\tRetried packets (ENOBUFS): 0
\tRetried packets (EAGAIN):  0
";
        assert_eq!(totals(11, 912, 23_438, 2).text(), expected);
    }

    #[test]
    fn rates_are_truncated_as_by_tcpreplay() {
        for (packets, bytes, us, flows, expected) in [
            (11, 912, 38, 2, "24000000.0 Bps, 192.00 Mbps, 289473.68 pps|2 flows, 52631.57 fps"),
            (33, 2736, 101, 2, "27089108.9 Bps, 216.71 Mbps, 326732.67 pps|2 flows, 19801.98 fps"),
            (66, 5472, 123, 6, "44487804.8 Bps, 355.90 Mbps, 536585.36 pps|6 flows, 48780.48 fps"),
            (4, 348, 30, 2, "11600000.0 Bps, 92.80 Mbps, 133333.33 pps|2 flows, 66666.66 fps"),
            (2, 174, 12_798, 2, "13595.8 Bps, 0.108 Mbps, 156.27 pps|2 flows, 156.27 fps"),
        ] {
            let text = totals(packets, bytes, us, flows).text();
            let (rated, flows) = expected.split_once('|').unwrap();
            assert!(text.contains(&format!("Rated: {rated}\n")), "{text}");
            assert!(text.contains(&format!("Flows: {flows}, ")), "{text}");
        }
        // From a second on two digits; from a gigabyte on ms.
        let long = totals(39_580_750, 17_770_889_200, 20_024_999, 0).text();
        let rated = "sent in 20.02 seconds\nRated: 887479484.6 Bps, 7099.83 Mbps, 1976665.50 pps\nStat";
        assert!(long.contains(rated), "{long}");
    }

    #[test]
    fn zero_counts_are_omitted() {
        assert_eq!(Totals::default().text(), "");
        let text = totals(1, 60, 0, 0).text();
        assert!(
            text.contains("sent in 0.000000 seconds\nRated: 0.0 Bps, 0.000 Mbps, 0.00 pps\nStat"),
            "{text}"
        );
        let mut failed = totals(5, 300, 2_000_000, 1);
        failed.failed = 3;
        failed.flows = failed.flows.map(|flows| Flows { expiry: true, ..flows });
        let text = failed.text();
        assert!(
            text.contains("pps\nFailed write attempts: 3\nFlows: 1 flows, 1 unique, 0 expired, 0.50 fps"),
            "{text}"
        );
    }
}
