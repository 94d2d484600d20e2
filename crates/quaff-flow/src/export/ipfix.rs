//! IPFIX (RFC 7011): its header, templates and options templates.

use super::template::{CopyPlan, Step};

/// Bytes of a message header.
pub(crate) const HEADER_BYTES: usize = 16;
/// Set IDs of templates and of options templates.
pub(crate) const TEMPLATES: u16 = 2;
pub(crate) const OPTIONS_TEMPLATES: u16 = 3;

/// Writes the header of a complete message.
pub(crate) fn write_header(bytes: &mut [u8], now_ns: u64, domain: u32) {
    let length = bytes.len() as u16;
    bytes[..2].copy_from_slice(&10_u16.to_be_bytes());
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes[4..8].copy_from_slice(&((now_ns / 1_000_000_000) as u32).to_be_bytes());
    // Bytes 8..12 are the sequence number, which the session writes.
    bytes[12..16].copy_from_slice(&domain.to_be_bytes());
}

/// A field of an options template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldSpec {
    pub(crate) id: u16,
    pub(crate) pen: u32,
    pub(crate) bytes: u16,
}

/// Appends a field specifier: enterprise bit, number, length, and the enterprise if it is not IANA.
fn append_field(out: &mut Vec<u8>, id: u16, pen: u32, bytes: u16) {
    let bit = if pen == 0 { 0 } else { 0x8000 };
    out.extend((id | bit).to_be_bytes());
    out.extend(bytes.to_be_bytes());
    if pen != 0 {
        out.extend(pen.to_be_bytes());
    }
}

pub(crate) fn append_template(out: &mut Vec<u8>, id: u16, plan: &CopyPlan) {
    out.extend(id.to_be_bytes());
    out.extend((plan.steps.len() as u16).to_be_bytes());
    for Step { id, pen, bytes, .. } in &plan.steps {
        append_field(out, *id, *pen, *bytes);
    }
}

/// Appends an options template; its first `scopes` fields are the scope.
pub(crate) fn append_options_template(out: &mut Vec<u8>, id: u16, scopes: u16, fields: &[FieldSpec]) {
    out.extend(id.to_be_bytes());
    out.extend((fields.len() as u16).to_be_bytes());
    out.extend(scopes.to_be_bytes());
    for field in fields {
        append_field(out, field.id, field.pen, field.bytes);
    }
}

/// A message that withdraws all templates (RFC 7011, 8.1), which is never sent over UDP.
pub(crate) fn withdrawal(now_ns: u64, domain: u32) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    for set in [TEMPLATES, OPTIONS_TEMPLATES] {
        // A set with one record: the ID of the set itself, and no fields.
        for word in [set, 8, set, 0] {
            bytes.extend(word.to_be_bytes());
        }
    }
    write_header(&mut bytes, now_ns, domain);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::element::{PRIVATE, REVERSE};
    use crate::export::template::{Dialect, Template};

    /// RFC 7011, 3.1: version 10, length, export time, sequence, domain.
    #[test]
    fn a_header_has_16_bytes() {
        let mut bytes = [0; 20];
        write_header(&mut bytes, 7_900_000_000, 3);
        assert_eq!(bytes, [0, 10, 0, 20, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]);
    }

    /// RFC 5103, 6.1: the reverse of octetDeltaCount is 29305:1, with the enterprise bit.
    #[test]
    fn enterprise_fields_have_the_bit_and_the_number() {
        let template = Template::parse("%IN_BYTES %OUT_BYTES %quaffServerName").unwrap();
        let mut out = Vec::new();
        append_template(&mut out, 300, &template.plan(Dialect::Ipfix, false, true).unwrap());
        let mut expected = vec![1, 44, 0, 3, 0, 1, 0, 8, 0x80, 1, 0, 8];
        expected.extend(REVERSE.to_be_bytes());
        expected.extend([0x80, 11, 255, 255]);
        expected.extend(PRIVATE.to_be_bytes());
        assert_eq!(out, expected);
    }

    /// As in the example of RFC 7011, A.4.1: the number of scope fields follows the number of all fields.
    #[test]
    fn an_options_template_counts_fields() {
        let mut out = Vec::new();
        let field = |id, bytes| FieldSpec { id, pen: 0, bytes };
        append_options_template(&mut out, 258, 1, &[field(143, 4), field(41, 2), field(42, 2)]);
        assert_eq!(out, [1, 2, 0, 3, 0, 1, 0, 143, 0, 4, 0, 41, 0, 2, 0, 42, 0, 2]);
    }

    #[test]
    fn a_withdrawal_names_both_kinds() {
        let bytes = withdrawal(0, 0);
        assert_eq!(bytes.len(), 32);
        assert_eq!(bytes[16..], [0, 2, 0, 8, 0, 2, 0, 0, 0, 3, 0, 8, 0, 3, 0, 0]);
    }
}
