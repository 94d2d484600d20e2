//! Options, the records that describe the exporter and not a flow: their tables, fields and values.
//!
//! IPFIX has the options of RFC 7011, 4 (statistics, reliability, flow keys), the sampler, interfaces, timeouts, the
//! ledger of the meter, and the types of private elements (RFC 5610). NetFlow v9 has statistics, sampling with
//! timeouts, and interfaces.

use super::element::{ELEMENTS, Element, PRIVATE, REVERSE_BIT, Unit, VARIABLE, capital};
use super::encode::append_bytes;
use super::ipfix::FieldSpec;
use super::message::Carried;
use super::v9;
use super::value::{SamplingView, Scene};
use crate::ledger::{Count, FlowLedger};

/// The state of the meter and of one exporter, exported as options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    pub ledger: FlowLedger,
    /// Messages, records and bytes that this exporter has sent.
    pub messages: u64,
    pub records: u64,
    pub bytes: u64,
    pub not_sent: Carried,
}

/// Timeouts of the meter, s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeouts {
    pub active_s: u16,
    pub idle_s: u16,
}

/// Type and length of a field of NetFlow v9.
type V9Field = (u16, u16);

/// A table of options. The number of its template is the first one for options plus its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Table {
    Keys = 0,
    Metering = 1,
    Reliability = 2,
    Exporting = 3,
    Sampler = 4,
    Interfaces = 5,
    Timeouts = 6,
    Types = 7,
    Ledger = 8,
}

impl Table {
    pub(crate) const ALL: [Self; 9] = [
        Self::Keys,
        Self::Metering,
        Self::Reliability,
        Self::Exporting,
        Self::Sampler,
        Self::Interfaces,
        Self::Timeouts,
        Self::Types,
        Self::Ledger,
    ];

    /// The number of scope fields, and all fields, in IPFIX; (number, bytes), private from [`LEDGER_FIRST`] on.
    pub(crate) fn ipfix(self, sampling: SamplingView) -> (u16, Vec<FieldSpec>) {
        let iana = |fields: &[(u16, u16)]| -> Vec<FieldSpec> {
            fields.iter().map(|(id, bytes)| FieldSpec { id: *id, pen: 0, bytes: *bytes }).collect()
        };
        match self {
            // templateId; flowKeyIndicator.
            Self::Keys => (1, iana(&[(145, 2), (173, 8)])),
            // observationDomainId; exportedOctet-, exportedMessage-, exportedFlowRecordTotalCount.
            Self::Metering => (1, iana(&[(149, 4), (40, 8), (41, 8), (42, 8)])),
            // observationDomainId; ignoredPacket-, ignoredOctetTotalCount.
            Self::Reliability => (1, iana(&[(149, 4), (164, 8), (165, 8)])),
            // exportingProcessId; notSentFlow-, notSentPacket-, notSentOctetTotalCount.
            Self::Exporting => (1, iana(&[(144, 4), (166, 8), (167, 8), (168, 8)])),
            // selectorId; selectorAlgorithm, samplingProbability, samplingInterval, samplingAlgorithm (RFC 5477).
            Self::Sampler if sampling.selector == UNIFORM_PROBABILISTIC => {
                (1, iana(&[(302, 8), (304, 2), (311, 8), (34, 4), (35, 1)]))
            }
            // selectorId; selectorAlgorithm, samplingPacketInterval, -Space, samplingInterval, samplingAlgorithm.
            Self::Sampler => (1, iana(&[(302, 8), (304, 2), (305, 4), (306, 4), (34, 4), (35, 1)])),
            // ingressInterface; interfaceName, interfaceDescription.
            Self::Interfaces => (1, iana(&[(10, 4), (82, VARIABLE), (83, VARIABLE)])),
            // exportingProcessId; flowActiveTimeout, flowIdleTimeout, systemInitTimeMilliseconds.
            Self::Timeouts => (1, iana(&[(144, 4), (36, 2), (37, 2), (160, 8)])),
            // privateEnterpriseNumber, informationElementId; -DataType, -Semantics, -Units, -Name, -Description.
            Self::Types => (
                2,
                iana(&[(346, 4), (303, 2), (339, 1), (344, 1), (345, 2), (341, VARIABLE), (340, VARIABLE)]),
            ),
            Self::Ledger => {
                let mut fields = iana(&[(149, 4)]);
                let own = (0..LEDGER_FIELDS.len() as u16).map(|at| LEDGER_FIRST + at);
                fields.extend(own.map(|id| FieldSpec { id, pen: PRIVATE, bytes: 8 }));
                (1, fields)
            }
        }
    }

    /// The scope and the fields in NetFlow v9; `None` if it has no such table.
    pub(crate) fn v9(self) -> Option<(V9Field, &'static [V9Field])> {
        const SYSTEM: V9Field = (v9::SCOPE_SYSTEM, 4);
        match self {
            // TOTAL_BYTES_EXP, TOTAL_PKTS_EXP, TOTAL_FLOWS_EXP.
            Self::Metering => Some((SYSTEM, &[(40, 8), (41, 8), (42, 8)])),
            // SAMPLING_INTERVAL, SAMPLING_ALGORITHM, FLOW_ACTIVE_TIMEOUT, FLOW_INACTIVE_TIMEOUT.
            Self::Sampler => Some((SYSTEM, &[(34, 4), (35, 1), (36, 2), (37, 2)])),
            // IF_NAME, IF_DESC.
            Self::Interfaces => Some(((v9::SCOPE_INTERFACE, 4), &[(82, V9_NAME_BYTES), (83, V9_TEXT_BYTES)])),
            _ => None,
        }
    }
}

/// selectorAlgorithm (IE 304): each packet with the same probability.
const UNIFORM_PROBABILISTIC: u16 = 4;
/// Lengths of names and descriptions in NetFlow v9, which has no variable ones.
const V9_NAME_BYTES: u16 = 16;
const V9_TEXT_BYTES: u16 = 64;
/// The first number of the private elements of the ledger.
const LEDGER_FIRST: u16 = 64;

/// A private element of the ledger: its name, its meaning, its value.
struct LedgerField {
    name: &'static str,
    description: &'static str,
    is_packets: bool,
    of: fn(&FlowLedger) -> Count,
}

const fn ledger_field(name: &'static str, is_packets: bool, of: fn(&FlowLedger) -> Count) -> LedgerField {
    let description =
        if is_packets { "packets of the meter's ledger" } else { "octets of the meter's ledger" };
    LedgerField { name, description, is_packets, of }
}

/// Packets seen = exported + live + held + not IP + truncated + not sampled; the same holds for octets.
static LEDGER_FIELDS: [LedgerField; 14] = [
    ledger_field("quaffSeenPacketTotalCount", true, |ledger| ledger.seen),
    ledger_field("quaffSeenOctetTotalCount", false, |ledger| ledger.seen),
    ledger_field("quaffExportedPacketTotalCount", true, |ledger| ledger.exported),
    ledger_field("quaffExportedOctetTotalCount", false, |ledger| ledger.exported),
    ledger_field("quaffLivePacketTotalCount", true, |ledger| ledger.live),
    ledger_field("quaffLiveOctetTotalCount", false, |ledger| ledger.live),
    ledger_field("quaffHeldPacketTotalCount", true, |ledger| ledger.held),
    ledger_field("quaffHeldOctetTotalCount", false, |ledger| ledger.held),
    ledger_field("quaffNotIpPacketTotalCount", true, |ledger| ledger.ignored.not_ip),
    ledger_field("quaffNotIpOctetTotalCount", false, |ledger| ledger.ignored.not_ip),
    ledger_field("quaffTruncatedPacketTotalCount", true, |ledger| ledger.ignored.truncated),
    ledger_field("quaffTruncatedOctetTotalCount", false, |ledger| ledger.ignored.truncated),
    ledger_field("quaffNotSampledPacketTotalCount", true, |ledger| ledger.ignored.not_sampled),
    ledger_field("quaffNotSampledOctetTotalCount", false, |ledger| ledger.ignored.not_sampled),
];

fn append_u64(out: &mut Vec<u8>, numbers: &[u64]) {
    for number in numbers {
        out.extend(number.to_be_bytes());
    }
}

/// Appends the flow keys of one template.
pub(crate) fn append_keys(out: &mut Vec<u8>, template: u16, key_bits: u64) {
    out.extend(template.to_be_bytes());
    append_u64(out, &[key_bits]);
}

/// Appends the statistics of the exporter, which differ between the dialects in the value of the scope only.
pub(crate) fn append_metering(out: &mut Vec<u8>, domain: u32, statistics: &Statistics) {
    out.extend(domain.to_be_bytes());
    append_u64(out, &[statistics.bytes, statistics.messages, statistics.records]);
}

/// Appends the packets that the meter ignored, without those that sampling did not select.
pub(crate) fn append_reliability(out: &mut Vec<u8>, domain: u32, ledger: &FlowLedger) {
    let mut ignored = ledger.ignored.not_ip;
    ignored += ledger.ignored.truncated;
    out.extend(domain.to_be_bytes());
    append_u64(out, &[ignored.packets, ignored.bytes]);
}

/// Appends the flows that this exporter did not send.
pub(crate) fn append_exporting(out: &mut Vec<u8>, domain: u32, not_sent: &Carried) {
    out.extend(domain.to_be_bytes());
    append_u64(out, &[not_sent.records, not_sent.packets, not_sent.bytes]);
}

/// Appends the ledger of the meter.
pub(crate) fn append_ledger(out: &mut Vec<u8>, domain: u32, ledger: &FlowLedger) {
    out.extend(domain.to_be_bytes());
    for field in &LEDGER_FIELDS {
        let count = (field.of)(ledger);
        append_u64(out, &[if field.is_packets { count.packets } else { count.bytes }]);
    }
}

/// Sets the count of a ledger that has this private number; returns false if none has it.
pub(crate) fn set_ledger(ledger: &mut FlowLedger, id: u16, number: u64) -> bool {
    let FlowLedger { seen, exported, live, held, ignored, .. } = ledger;
    let counts =
        [seen, exported, live, held, &mut ignored.not_ip, &mut ignored.truncated, &mut ignored.not_sampled];
    let Some(at) = id.checked_sub(LEDGER_FIRST).map(usize::from) else { return false };
    match counts.into_iter().nth(at / 2) {
        Some(count) if LEDGER_FIELDS[at].is_packets => count.packets = number,
        Some(count) => count.bytes = number,
        None => return false,
    }
    true
}

/// Appends the sampler of IPFIX, selector 0: it selects one packet and skips those before the next, or selects each
/// with the same probability. Without sampling it is systematic, 1 of 1.
pub(crate) fn append_sampler(out: &mut Vec<u8>, scene: &Scene) {
    let sampling = scene.sampling;
    append_u64(out, &[0]);
    out.extend(sampling.selector.max(1).to_be_bytes());
    if sampling.selector == UNIFORM_PROBABILISTIC {
        out.extend((1.0 / f64::from(sampling.interval.max(1))).to_be_bytes());
    } else {
        out.extend(1_u32.to_be_bytes());
        out.extend((sampling.interval.max(1) - 1).to_be_bytes());
    }
    out.extend(sampling.interval.to_be_bytes());
    out.push(sampling.algorithm.max(1));
}

/// Appends sampling and timeouts of NetFlow v9.
pub(crate) fn append_sampling_v9(out: &mut Vec<u8>, source: u32, scene: &Scene, timeouts: Timeouts) {
    out.extend(source.to_be_bytes());
    out.extend(scene.sampling.interval.to_be_bytes());
    out.push(scene.sampling.algorithm.max(1));
    out.extend(timeouts.active_s.to_be_bytes());
    out.extend(timeouts.idle_s.to_be_bytes());
}

/// Appends the timeouts and the start of the device.
pub(crate) fn append_timeouts(out: &mut Vec<u8>, domain: u32, timeouts: Timeouts, boot_ms: u64) {
    out.extend(domain.to_be_bytes());
    out.extend(timeouts.active_s.to_be_bytes());
    out.extend(timeouts.idle_s.to_be_bytes());
    append_u64(out, &[boot_ms]);
}

/// Appends the name and the description of an interface.
pub(crate) fn append_interface(out: &mut Vec<u8>, index: u32, name: &str, description: &str, is_v9: bool) {
    let (name_bytes, text_bytes) = if is_v9 { (V9_NAME_BYTES, V9_TEXT_BYTES) } else { (VARIABLE, VARIABLE) };
    out.extend(index.to_be_bytes());
    append_bytes(out, name_bytes, name.as_bytes());
    // Some collectors refuse an empty field, although RFC 7011, 7 allows it.
    let description = if description.is_empty() { name } else { description };
    append_bytes(out, text_bytes, description.as_bytes());
}

/// A private element as RFC 5610 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeRow {
    id: u16,
    kind: u8,
    semantics: u8,
    unit: u16,
    name: String,
    description: &'static str,
}

/// The rows of all private elements: of records, forward and reverse, and of the ledger.
pub(crate) fn type_rows() -> Vec<TypeRow> {
    let own = ELEMENTS.iter().filter(|element| element.pen == PRIVATE);
    let mut rows: Vec<TypeRow> = Vec::new();
    for element in own {
        rows.push(element_row(element, false));
        if element.reversible {
            rows.push(element_row(element, true));
        }
    }
    rows.extend(LEDGER_FIELDS.iter().enumerate().map(|(at, field)| TypeRow {
        id: LEDGER_FIRST + at as u16,
        kind: super::element::DataType::U64 as u8,
        semantics: 2,
        unit: if field.is_packets { Unit::Packet } else { Unit::Octet } as u16,
        name: field.name.to_owned(),
        description: field.description,
    }));
    rows
}

fn element_row(element: &Element, is_reverse: bool) -> TypeRow {
    let name = if is_reverse { format!("reverse{}", capital(element.name)) } else { element.name.to_owned() };
    TypeRow {
        id: if is_reverse { element.id | REVERSE_BIT } else { element.id },
        kind: element.kind as u8,
        semantics: element.semantics,
        unit: element.unit as u16,
        name,
        description: element.description,
    }
}

/// Appends the row of one element.
pub(crate) fn append_type(out: &mut Vec<u8>, row: &TypeRow) {
    out.extend(PRIVATE.to_be_bytes());
    out.extend(row.id.to_be_bytes());
    out.extend([row.kind, row.semantics]);
    out.extend(row.unit.to_be_bytes());
    append_bytes(out, VARIABLE, row.name.as_bytes());
    append_bytes(out, VARIABLE, row.description.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of the fixed fields, and one byte for the length of each variable one.
    fn template_bytes(table: Table, sampling: SamplingView) -> usize {
        let (_, fields) = table.ipfix(sampling);
        fields.iter().map(|field| if field.bytes == VARIABLE { 1 } else { usize::from(field.bytes) }).sum()
    }

    #[test]
    fn records_have_the_lengths_of_their_templates() {
        let (scene, statistics) = (Scene::default(), Statistics::default());
        let check = |table: Table, write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            assert_eq!(out.len(), template_bytes(table, SamplingView::default()), "{table:?}");
        };
        check(Table::Keys, &|out| append_keys(out, 256, 3));
        check(Table::Metering, &|out| append_metering(out, 1, &statistics));
        check(Table::Reliability, &|out| append_reliability(out, 1, &statistics.ledger));
        check(Table::Exporting, &|out| append_exporting(out, 1, &statistics.not_sent));
        check(Table::Sampler, &|out| append_sampler(out, &scene));
        check(Table::Interfaces, &|out| append_interface(out, 1, "", "", false));
        check(Table::Timeouts, &|out| append_timeouts(out, 1, Timeouts::default(), 7));
        check(Table::Ledger, &|out| append_ledger(out, 1, &statistics.ledger));
        let row = TypeRow { id: 1, kind: 1, semantics: 1, unit: 1, name: String::new(), description: "" };
        check(Table::Types, &|out| append_type(out, &row));
    }

    /// A ledger that is read is the one that was written.
    #[test]
    fn each_count_of_a_ledger_has_a_number() {
        let (mut ledger, mut number) = (FlowLedger::default(), 0);
        let mut expected = Vec::new();
        for at in 0..LEDGER_FIELDS.len() as u16 {
            number += 7;
            assert!(set_ledger(&mut ledger, LEDGER_FIRST + at, number));
            append_u64(&mut expected, &[number]);
        }
        let mut out = Vec::new();
        append_ledger(&mut out, 1, &ledger);
        assert_eq!(out[4..], expected);
        let after = LEDGER_FIRST + LEDGER_FIELDS.len() as u16;
        assert!(![0, 1, 63, after, u16::MAX].iter().any(|id| set_ledger(&mut ledger, *id, 1)));
    }

    /// RFC 5477, 8.2.6: uniform probabilistic sampling has a probability (311, float64), but no interval and no space.
    #[test]
    fn random_sampling_has_a_probability() {
        let sampling = SamplingView::from(crate::plan::Sampling::Random { interval: 8, seed: 1 });
        let (_, fields) = Table::Sampler.ipfix(sampling);
        assert_eq!(fields.iter().map(|field| field.id).collect::<Vec<_>>(), [302, 304, 311, 34, 35]);
        let mut out = Vec::new();
        append_sampler(&mut out, &Scene { sampling, ..Scene::default() });
        assert_eq!(out.len(), template_bytes(Table::Sampler, sampling));
        assert_eq!(out[8..18], [&[0, 4][..], &0.125_f64.to_be_bytes()].concat());
    }

    #[test]
    fn records_of_v9_have_the_lengths_of_their_templates() {
        let length = |table: Table| {
            let ((_, scope), fields) = table.v9().unwrap();
            usize::from(scope + fields.iter().map(|(_, bytes)| bytes).sum::<u16>())
        };
        let mut out = Vec::new();
        append_sampling_v9(&mut out, 1, &Scene::default(), Timeouts::default());
        assert_eq!(out.len(), length(Table::Sampler));
        out.clear();
        append_interface(&mut out, 1, "eth0", &"long ".repeat(30), true);
        assert_eq!(out.len(), length(Table::Interfaces));
        out.clear();
        append_metering(&mut out, 1, &Statistics::default());
        assert_eq!(out.len(), length(Table::Metering));
    }

    #[test]
    fn private_numbers_are_described_once() {
        let rows = type_rows();
        let mut numbers: Vec<u16> = rows.iter().map(|row| row.id).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), rows.len());
        let own = |id: u16| ELEMENTS.iter().any(|element| element.pen == PRIVATE && element.id == id);
        assert!((LEDGER_FIRST..LEDGER_FIRST + LEDGER_FIELDS.len() as u16).all(|id| !own(id)));
    }
}
