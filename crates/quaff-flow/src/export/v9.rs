//! NetFlow v9 (RFC 3954): its header, templates and options templates.

use super::template::CopyPlan;
use super::time_base::Stamp;

/// Bytes of a message header.
pub(crate) const HEADER_BYTES: usize = 20;
/// FlowSet IDs of templates and of options templates.
pub(crate) const TEMPLATES: u16 = 0;
pub(crate) const OPTIONS_TEMPLATES: u16 = 1;
/// Scopes of options (RFC 3954, 6.1).
pub(crate) const SCOPE_SYSTEM: u16 = 1;
pub(crate) const SCOPE_INTERFACE: u16 = 2;

/// Writes the header. Both times come from one `stamp`, so their difference is the start of the device in every
/// message.
pub(crate) fn write_header(bytes: &mut [u8], records: u16, stamp: Stamp, source: u32) {
    let seconds = stamp.uptime.header_seconds(stamp.now_ns);
    let uptime_ms = seconds * 1000 - stamp.uptime.boot_ms;
    bytes[..2].copy_from_slice(&9_u16.to_be_bytes());
    bytes[2..4].copy_from_slice(&records.to_be_bytes());
    bytes[4..8].copy_from_slice(&(uptime_ms as u32).to_be_bytes());
    bytes[8..12].copy_from_slice(&(seconds as u32).to_be_bytes());
    // Bytes 12..16 are the sequence number, which the session writes.
    bytes[16..20].copy_from_slice(&source.to_be_bytes());
}

pub(crate) fn append_template(out: &mut Vec<u8>, id: u16, plan: &CopyPlan) {
    out.extend(id.to_be_bytes());
    out.extend((plan.steps.len() as u16).to_be_bytes());
    for step in &plan.steps {
        out.extend(step.id.to_be_bytes());
        out.extend(step.bytes.to_be_bytes());
    }
}

/// Appends an options template. Fields are (type, length); both counts in the template are in bytes.
pub(crate) fn append_options_template(out: &mut Vec<u8>, id: u16, scope: (u16, u16), fields: &[(u16, u16)]) {
    out.extend(id.to_be_bytes());
    out.extend(4_u16.to_be_bytes());
    out.extend(((fields.len() * 4) as u16).to_be_bytes());
    for (kind, bytes) in std::iter::once(&scope).chain(fields) {
        out.extend(kind.to_be_bytes());
        out.extend(bytes.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::template::{Dialect, Template};
    use crate::export::time_base::Uptime;

    /// The layout of RFC 3954, 5.1: version, count, sysUpTime, seconds, sequence, source.
    #[test]
    fn the_start_of_the_device_is_exact_in_every_header() {
        let uptime = Uptime::new(1_000_500_000_000);
        for now_ns in [1_000_700_000_000, 1_001_999_000_000, 5_000_000_000_000] {
            let mut bytes = [0; HEADER_BYTES];
            write_header(&mut bytes, 3, Stamp { now_ns, uptime }, 0x0102_0304);
            let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
            assert_eq!(bytes[..4], [0, 9, 0, 3]);
            assert_eq!(u64::from(word(8)) * 1000 - u64::from(word(4)), uptime.boot_ms);
            assert_eq!(u64::from(word(8)), now_ns.div_ceil(1_000_000_000));
            assert!(word(4) >= uptime.since(now_ns), "a flow that ends now does not end after its message");
            assert_eq!(word(16), 0x0102_0304);
        }
    }

    /// RFC 3954, 5.2: id 256, two fields, IPV4_SRC_ADDR (8) of 4 bytes, IN_BYTES (1) of 8.
    #[test]
    fn a_template_lists_types_and_lengths() {
        let template = Template::parse("%IPV4_SRC_ADDR %IN_BYTES").unwrap();
        let mut out = Vec::new();
        append_template(&mut out, 256, &template.plan(Dialect::V9, false, false).unwrap());
        assert_eq!(out, [1, 0, 0, 2, 0, 8, 0, 4, 0, 1, 0, 8]);
    }

    /// RFC 3954, 6.1: one scope of 4 bytes, one option of 4.
    #[test]
    fn an_options_template_counts_bytes() {
        let mut out = Vec::new();
        append_options_template(&mut out, 257, (SCOPE_SYSTEM, 4), &[(34, 4), (35, 1)]);
        assert_eq!(out, [1, 1, 0, 4, 0, 8, 0, 1, 0, 4, 0, 34, 0, 4, 0, 35, 0, 1]);
    }
}
