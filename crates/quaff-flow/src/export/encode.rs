//! Encodes the fields of a record for NetFlow v9 or IPFIX (RFC 7011, 6). Does not depend on messages and sets.

use super::element::{DataType, Unit, VARIABLE, Value};
use super::template::{CopyPlan, Step};
use super::value::{Datum, EndRoutes, Scene, View, read};
use std::net::IpAddr;

/// Seconds from 1900, where NTP begins, to 1970.
pub(super) const NTP_OFFSET_S: u64 = 2_208_988_800;
/// Maximum length of a variable field: a record with other fields has to fit into a message of 64 KiB.
pub(crate) const VARIABLE_BYTES_MAX: usize = 4096;

/// Appends a record. `boot_ms` is the start of the device, ms since 1970, from which 32-bit times count; each variable
/// field has at most `variable_max` bytes.
pub(crate) fn append_record(
    out: &mut Vec<u8>,
    plan: &CopyPlan,
    view: View<'_>,
    scene: &Scene,
    boot_ms: u64,
    variable_max: usize,
) {
    let routes = EndRoutes::default();
    for step in &plan.steps {
        let datum = datum(step, plan, view, scene, &routes, boot_ms);
        append_field(out, step, datum, boot_ms, variable_max);
    }
}

/// The value of a field.
#[inline(always)]
pub(super) fn datum<'a>(
    step: &Step,
    plan: &CopyPlan,
    view: View<'a>,
    scene: &Scene,
    routes: &EndRoutes,
    boot_ms: u64,
) -> Datum<'a> {
    match step.element.value {
        Value::InitTime => Datum::Time(boot_ms * 1_000_000),
        value => read(value, step.side, view, scene, routes, plan.icmp_in_port),
    }
}

/// Appends one field.
fn append_field(out: &mut Vec<u8>, step: &Step, datum: Datum<'_>, boot_ms: u64, variable_max: usize) {
    if step.bytes != VARIABLE {
        let begin = out.len();
        out.resize(begin + usize::from(step.bytes), 0);
        return put_field(&mut out[begin..], step, datum, boot_ms);
    }
    match datum {
        Datum::Text(text) => append_bytes(out, VARIABLE, cut(text, variable_max).as_bytes()),
        Datum::Bytes(bytes) => append_bytes(out, VARIABLE, &bytes[..bytes.len().min(variable_max)]),
        _ => out.push(0),
    }
}

/// Writes a field of fixed length, with all its bytes.
#[inline(always)]
pub(super) fn put_field(place: &mut [u8], step: &Step, datum: Datum<'_>, boot_ms: u64) {
    match datum {
        Datum::Number(number) => put_number(place, converted(step, number)),
        Datum::Time(ns) => put_time(place, step, ns, boot_ms),
        Datum::Ip(IpAddr::V4(ip)) if place.len() == 4 => place.copy_from_slice(&ip.octets()),
        Datum::Ip(IpAddr::V6(ip)) if place.len() == 16 => place.copy_from_slice(&ip.octets()),
        Datum::Mac(mac) if place.len() == 6 => place.copy_from_slice(&mac),
        Datum::Text(text) => put_bytes(place, cut(text, place.len()).as_bytes()),
        Datum::Bytes(bytes) => put_bytes(place, bytes),
        Datum::Absent | Datum::Ip(_) | Datum::Mac(_) => place.fill(0),
    }
}

/// Writes bytes, truncated or padded with zeros to the length of `place`.
fn put_bytes(place: &mut [u8], bytes: &[u8]) {
    let (taken, rest) = place.split_at_mut(bytes.len().min(place.len()));
    taken.copy_from_slice(&bytes[..taken.len()]);
    rest.fill(0);
}

/// Converts a number to the unit and the encoding of its element.
fn converted(step: &Step, number: u64) -> u64 {
    match (step.element.value, step.element.unit) {
        (Value::Duration, Unit::Milli) => number / 1_000_000,
        (Value::Duration, Unit::Micro) => number / 1_000,
        // 20 bits of label, 3 of traffic class, 1 for the bottom of the stack; the last two are unknown, and 0.
        (Value::MplsLabel, _) => number << 4,
        // 1 is true, 2 is false (RFC 7011, 6.1.5).
        _ if step.element.kind == DataType::Boolean => 2 - number.min(1),
        // NetFlow v9 has the low eight flags; a larger number is not limited here but masked.
        (Value::TcpFlags, _) if step.bytes == 1 => number & 0xff,
        _ => number,
    }
}

/// Writes a number; one that does not fit becomes the largest that does.
#[inline(always)]
fn put_number(place: &mut [u8], number: u64) {
    let bytes = place.len();
    match bytes {
        1 => place[0] = number.min(0xff) as u8,
        2 => place.copy_from_slice(&(number.min(0xffff) as u16).to_be_bytes()),
        4 => place.copy_from_slice(&(number.min(0xffff_ffff) as u32).to_be_bytes()),
        8.. => {
            place[..8].copy_from_slice(&number.to_be_bytes());
            place[8..].fill(0);
        }
        _ => {
            let limit = (1 << (8 * bytes)) - 1;
            place.copy_from_slice(&number.min(limit).to_be_bytes()[8 - bytes..]);
        }
    }
}

fn put_time(place: &mut [u8], step: &Step, ns: u64, boot_ms: u64) {
    let number = match step.element.kind {
        DataType::U32 => (ns / 1_000_000).saturating_sub(boot_ms),
        DataType::Seconds => ns / 1_000_000_000,
        DataType::Millis => ns / 1_000_000,
        // The low 11 bits of microseconds are zero (RFC 7011, 6.1.9); rounded up, as in `ntp`.
        DataType::Micros => ntp(ns / 1_000 * 1_000).next_multiple_of(0x800),
        _ => ntp(ns),
    };
    put_number(place, number);
}

/// A time in the format of NTP: seconds since 1900, and units of 2^-32 s. Rounded up, so that converting back to ns,
/// rounded down, returns the same time.
fn ntp(ns: u64) -> u64 {
    let fraction = ((ns % 1_000_000_000) << 32).div_ceil(1_000_000_000);
    ((ns / 1_000_000_000 + NTP_OFFSET_S) << 32) + fraction
}

/// Truncates a text to a number of bytes, between characters.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Appends bytes: padded with zeros to a fixed length, or preceded by a variable one (RFC 7011, 7).
pub(crate) fn append_bytes(out: &mut Vec<u8>, length: u16, bytes: &[u8]) {
    if length != VARIABLE {
        let bytes = &bytes[..bytes.len().min(usize::from(length))];
        out.extend(bytes);
        out.extend(std::iter::repeat_n(0, usize::from(length) - bytes.len()));
        return;
    }
    let bytes = &bytes[..bytes.len().min(VARIABLE_BYTES_MAX)];
    match u8::try_from(bytes.len()) {
        Ok(short) if short < 255 => out.push(short),
        _ => {
            out.push(255);
            out.extend((bytes.len() as u16).to_be_bytes());
        }
    }
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::template::{Dialect, Template};

    fn field(name: &str, datum: Datum<'_>) -> Vec<u8> {
        let plan = Template::parse(&format!("%{name}")).unwrap().plan(Dialect::Ipfix, false, true).unwrap();
        let mut out = Vec::new();
        append_field(&mut out, &plan.steps[0], datum, 1_000, VARIABLE_BYTES_MAX);
        out
    }

    #[test]
    fn numbers_are_big_endian_and_saturate() {
        assert_eq!(field("IN_BYTES", Datum::Number(0x0102)), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(field("PROTOCOL", Datum::Number(300)), [255]);
        assert_eq!(field("INPUT_SNMP", Datum::Number(7)), [0, 0, 0, 7]);
        assert_eq!(field("mplsTopLabelStackSection", Datum::Number(0x12345)), [0x12, 0x34, 0x50]);
        assert_eq!(field("quaffIsContinued", Datum::Number(1)), [1]);
        assert_eq!(field("quaffIsContinued", Datum::Number(0)), [2]);
    }

    /// RFC 7011, 7: one octet of length up to 254, three from 255.
    #[test]
    fn variable_lengths_have_one_or_three_octets() {
        assert_eq!(field("TLS_SERVER_NAME", Datum::Text("ab")), [2, b'a', b'b']);
        assert_eq!(field("TLS_SERVER_NAME", Datum::Absent), [0]);
        let long = "x".repeat(300);
        let bytes = field("TLS_SERVER_NAME", Datum::Text(&long));
        assert_eq!((&bytes[..3], bytes.len()), (&[255, 1, 44][..], 303));
        assert_eq!(cut("a\u{e4}", 2), "a");
    }

    /// 2^31 ns parts of a second: the fraction of half a second is 2^31; 1970 is 2208988800 s of NTP.
    #[test]
    fn times_have_the_form_of_their_type() {
        let ns = 1_500_000_000;
        assert_eq!(field("flowStartSeconds", Datum::Time(ns)), [0, 0, 0, 1]);
        assert_eq!(field("flowStartMilliseconds", Datum::Time(ns)), 1_500_u64.to_be_bytes());
        let ntp = ((NTP_OFFSET_S + 1) << 32 | 1 << 31).to_be_bytes();
        assert_eq!(field("flowStartNanoseconds", Datum::Time(ns)), ntp);
        assert_eq!(field("flowStartMicroseconds", Datum::Time(ns)), ntp);
        assert_eq!(field("FIRST_SWITCHED", Datum::Time(ns)), 500_u32.to_be_bytes());
    }

    #[test]
    fn ntp_keeps_each_unit() {
        for us in [0, 1, 999_999, 1_234_567_890_123_456, 7_000_001] {
            let ntp = ntp(us * 1_000).next_multiple_of(0x800);
            let fraction = ((ntp & 0xffff_ffff) * 1_000_000) >> 32;
            assert_eq!(((ntp >> 32) - NTP_OFFSET_S) * 1_000_000 + fraction, us);
        }
        for ns in [0, 1, 999_999_999, 1_234_567_890_123_456_789, 7_000_000_001] {
            let ntp = ntp(ns);
            let fraction = ((ntp & 0xffff_ffff) * 1_000_000_000) >> 32;
            assert_eq!(((ntp >> 32) - NTP_OFFSET_S) * 1_000_000_000 + fraction, ns);
        }
    }
}
