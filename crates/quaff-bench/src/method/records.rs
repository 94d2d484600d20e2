//! Counts the records in a flow meter's datagrams, and their packets and bytes. A library that shares nothing with
//! quaff's encoders decodes NetFlow v5, v9 and IPFIX; this module decodes nfpcapd's format, which no library knows.

use super::collector::Collected;
use crate::{Error, Result};
use netflow_parser::variable_versions::ipfix::FlowSetBody as IpfixSet;
use netflow_parser::variable_versions::ipfix::lookup::{
    IANAIPFixField, IPFixField, ReverseInformationElement,
};
use netflow_parser::variable_versions::v9::FlowSetBody as V9Set;
use netflow_parser::variable_versions::v9::lookup::V9Field;
use netflow_parser::{FieldValue, NetflowPacket, NetflowParser};

/// Version number of nfpcapd and nfcapd datagrams (nfdump 1.7).
const NFD: u16 = 240;
/// Header size, bytes: version and length (u16), time, sequence and number of records (u32), big-endian.
const NFD_HEADER_BYTES: usize = 16;
/// Record header, in the sender's byte order: type, size and number of elements (u16), 6 more bytes.
const NFD_RECORD_BYTES: usize = 12;
const NFD_RECORD: u16 = 11;
/// The element with the counters: type and length (u16), three times, packets and bytes (u64).
const NFD_GENERIC: u16 = 1;
const NFD_PACKETS: usize = 4 + 24;
const NFD_BYTES: usize = NFD_PACKETS + 8;

/// Limit of the bytes that the fields of all templates declare; a field of variable length declares 65535.
const TEMPLATE_BYTES_MAX: usize = 1 << 30;

/// The sums of records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) records: u64,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Datagrams, or sets in them, that cannot be decoded.
    pub(super) undecoded: u64,
}

impl Sums {
    fn add(&mut self, packets: u64, bytes: u64) {
        self.records += 1;
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// Decodes all datagrams. Records received before their template count as well.
pub(super) fn decode(collected: &Collected) -> Result<Sums> {
    let mut parser = parser()?;
    let mut pass = || {
        let mut sums = Sums::default();
        for datagram in collected.iter() {
            decode_one(&mut parser, datagram, &mut sums);
        }
        sums
    };
    match pass() {
        // Now the parser knows all templates.
        sums if sums.undecoded > 0 => Ok(pass()),
        sums => Ok(sums),
    }
}

fn parser() -> Result<NetflowParser> {
    let parser = NetflowParser::builder().with_max_records_per_flowset(usize::from(u16::MAX));
    let built = parser.with_max_template_total_size(TEMPLATE_BYTES_MAX).build();
    built.map_err(|error| Error::Tool { name: "the collector".into(), what: error.to_string() })
}

fn decode_one(parser: &mut NetflowParser, datagram: &[u8], sums: &mut Sums) {
    if datagram.first_chunk().map(|bytes| u16::from_be_bytes(*bytes)) == Some(NFD) {
        sums.undecoded += u64::from(decode_nfd(datagram, sums).is_none());
        return;
    }
    let result = parser.parse_bytes(datagram);
    sums.undecoded += u64::from(result.error.is_some());
    for packet in result.packets {
        match packet {
            NetflowPacket::V5(v5) => {
                v5.flowsets.iter().for_each(|flow| sums.add(flow.d_pkts.into(), flow.d_octets.into()));
            }
            NetflowPacket::V9(v9) => v9.flowsets.iter().for_each(|set| add_v9(&set.body, sums)),
            NetflowPacket::IPFix(ipfix) => ipfix.flowsets.iter().for_each(|set| add_ipfix(&set.body, sums)),
            _ => sums.undecoded += 1,
        }
    }
}

fn add_v9(set: &V9Set, sums: &mut Sums) {
    match set {
        V9Set::Data(data) => {
            for record in &data.fields {
                let value = |wanted: V9Field| number(record.iter().find(|(field, _)| *field == wanted));
                if let Some(packets) = value(V9Field::InPkts) {
                    sums.add(packets, value(V9Field::InBytes).unwrap_or(0));
                }
            }
        }
        V9Set::NoTemplate(_) => sums.undecoded += 1,
        _ => {}
    }
}

fn add_ipfix(set: &IpfixSet, sums: &mut Sums) {
    use IANAIPFixField::{OctetDeltaCount, OctetTotalCount, PacketDeltaCount, PacketTotalCount};
    use ReverseInformationElement as Reverse;
    match set {
        IpfixSet::Data(data) => {
            for record in &data.fields {
                let value = |wanted: IPFixField| number(record.iter().find(|(field, _)| *field == wanted));
                let either = |delta, total| value(delta).or_else(|| value(total));
                let forward = |delta, total| either(IPFixField::IANA(delta), IPFixField::IANA(total));
                let reverse = |delta, total| {
                    let of = IPFixField::ReverseInformationElement;
                    either(of(delta), of(total)).unwrap_or(0)
                };
                if let Some(packets) = forward(PacketDeltaCount, PacketTotalCount) {
                    let bytes = forward(OctetDeltaCount, OctetTotalCount).unwrap_or(0);
                    sums.add(
                        packets + reverse(Reverse::ReversePacketDeltaCount, Reverse::ReversePacketTotalCount),
                        bytes + reverse(Reverse::ReverseOctetDeltaCount, Reverse::ReverseOctetTotalCount),
                    );
                }
            }
        }
        IpfixSet::NoTemplate(_) => sums.undecoded += 1,
        _ => {}
    }
}

fn number<F>(field: Option<&(F, FieldValue)>) -> Option<u64> {
    field.and_then(|(_, value)| value.as_u64())
}

/// Decodes an nfpcapd datagram; `None` if it is damaged.
fn decode_nfd(datagram: &[u8], sums: &mut Sums) -> Option<()> {
    let announced = u32::from_be_bytes(*datagram.get(12..)?.first_chunk()?);
    let mut rest = datagram.get(NFD_HEADER_BYTES..)?;
    let u16_at = |bytes: &[u8], at: usize| Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let u64_at = |bytes: &[u8], at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    for _ in 0..announced {
        let (kind, size) = (u16_at(rest, 0)?, usize::from(u16_at(rest, 2)?));
        let (record, next) = rest.split_at_checked(size)?;
        rest = next;
        let mut elements = record.get(NFD_RECORD_BYTES..)?;
        while kind == NFD_RECORD && !elements.is_empty() {
            let (kind, length) = (u16_at(elements, 0)?, usize::from(u16_at(elements, 2)?));
            if kind == NFD_GENERIC {
                sums.add(u64_at(elements, NFD_PACKETS)?, u64_at(elements, NFD_BYTES)?);
            }
            elements = elements.get(length..).filter(|_| length > 0)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn be(words: &[u16]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// A v9 message (RFC 3954 §5): header, and these sets.
    fn v9(sets: &[Vec<u8>]) -> Vec<u8> {
        [be(&[9, sets.len() as u16, 0, 1, 0, 1, 0, 1, 0, 7]), sets.concat()].concat()
    }

    fn decoded(datagrams: &[Vec<u8>]) -> Sums {
        let mut collected = Collected::default();
        datagrams.iter().for_each(|datagram| collected.keep(datagram));
        decode(&collected).expect("a parser")
    }

    #[test]
    fn records_of_v9_count_also_before_their_template() {
        // Template 256: packets (2) and bytes (1) of 4 bytes each.
        let template = be(&[0, 16, 256, 2, 2, 4, 1, 4]);
        let data = be(&[256, 20, 0, 3, 0, 300, 0, 4, 0, 400]);
        let of_another = be(&[257, 12, 0, 1, 0, 1]);
        let expected = Sums { records: 2, packets: 7, bytes: 700, undecoded: 0 };
        assert_eq!(decoded(&[v9(&[template.clone(), data.clone()])]), expected);
        let one = std::slice::from_ref;
        assert_eq!(decoded(&[v9(one(&data)), v9(one(&template))]), expected);
        let sums = decoded(&[v9(&[template, data, of_another])]);
        assert_eq!(sums, Sums { undecoded: 1, ..expected });
    }

    #[test]
    fn both_directions_of_ipfix_count() {
        let message = |body: &[u8]| {
            let length = 16 + body.len() as u16;
            [be(&[10, length, 0, 1, 0, 0, 0, 7]), body.to_vec()].concat()
        };
        // packetDeltaCount, octetDeltaCount, and their reverse (RFC 5103), 4 bytes each.
        let reverse = [0, 29305];
        let template =
            [be(&[2, 32, 256, 4, 2, 4, 1, 4, 0x8002, 4]), be(&reverse), be(&[0x8001, 4]), be(&reverse)];
        let data = be(&[256, 20, 0, 3, 0, 300, 0, 2, 0, 200]);
        let sums = decoded(&[message(&template.concat()), message(&data)]);
        assert_eq!(sums, Sums { records: 1, packets: 5, bytes: 500, undecoded: 0 });
    }

    #[test]
    fn records_of_v5_count() {
        let mut record = be(&[0; 24]);
        record[19] = 5;
        record[22..24].copy_from_slice(&500u16.to_be_bytes());
        let header = be(&[5, 2, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
        let sums = decoded(&[[header, record.clone(), record].concat()]);
        assert_eq!(sums, Sums { records: 2, packets: 10, bytes: 1000, undecoded: 0 });
    }

    #[test]
    fn records_of_nfpcapd_count_and_damage_is_noticed() {
        let mut element = [NFD_GENERIC.to_ne_bytes(), 52u16.to_ne_bytes()].concat();
        element.extend([0; 24]);
        element.extend([5u64.to_ne_bytes(), 700u64.to_ne_bytes()].concat());
        element.extend([0; 8]);
        let size = (NFD_RECORD_BYTES + element.len()) as u16;
        let mut record = [NFD_RECORD, size, 1, 0, 0, 0].map(u16::to_ne_bytes).concat();
        record.extend(&element);
        let datagram = [be(&[NFD, 16 + 2 * size, 0, 0, 0, 1, 0, 2]), record.clone(), record].concat();
        let expected = Sums { records: 2, packets: 10, bytes: 1400, undecoded: 0 };
        assert_eq!(decoded(std::slice::from_ref(&datagram)), expected);
        assert_eq!(decoded(&[datagram[..datagram.len() - 1].to_vec()]).undecoded, 1);
        assert_eq!(decoded(&[b"not a record".to_vec()]).undecoded, 1);
    }
}
