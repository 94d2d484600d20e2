//! JA4, the fingerprint of a TLS client (FoxIO, `technical_details/JA4.md`): it identifies client software by the
//! ciphers, extensions and signature algorithms of its ClientHello.
//!
//! GREASE values (RFC 8701) are ignored.

use ring::digest::{SHA256, digest};
use std::fmt::Write as _;

/// Printed characters of a hash.
const HASH_CHARACTERS: usize = 12;
/// Extensions that the first part already covers: server_name and ALPN.
const IN_FIRST_PART: [u16; 2] = [0, 16];
/// Highest count that fits two digits.
const COUNT_MAX: usize = 99;

/// The fields of a ClientHello that the fingerprint covers, in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ja4Fields<'a> {
    /// Highest version that the client supports.
    pub(super) version: u16,
    pub(super) has_server_name: bool,
    pub(super) first_alpn: Option<&'a [u8]>,
    pub(super) ciphers: &'a [u16],
    pub(super) extensions: &'a [u16],
    pub(super) signature_algorithms: &'a [u16],
}

/// True for a GREASE value.
pub(super) fn is_grease(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && low & 15 == 10
}

impl Ja4Fields<'_> {
    /// The fingerprint. `transport` is `t` for TCP, `q` for QUIC, `d` for DTLS.
    pub(super) fn text(&self, transport: char) -> String {
        let real = |numbers: &[u16]| -> Vec<u16> {
            numbers.iter().copied().filter(|number| !is_grease(*number)).collect()
        };
        let (mut ciphers, extensions) = (real(self.ciphers), real(self.extensions));
        let counts = [ciphers.len(), extensions.len()].map(|count| count.min(COUNT_MAX));
        ciphers.sort_unstable();
        let mut others: Vec<u16> =
            extensions.into_iter().filter(|kind| !IN_FIRST_PART.contains(kind)).collect();
        others.sort_unstable();
        let mut last = list(&others);
        let algorithms = real(self.signature_algorithms);
        if !algorithms.is_empty() {
            last = format!("{last}_{}", list(&algorithms));
        }
        format!(
            "{transport}{}{}{:02}{:02}{}_{}_{}",
            version(self.version),
            if self.has_server_name { 'd' } else { 'i' },
            counts[0],
            counts[1],
            first_and_last(self.first_alpn.unwrap_or_default()),
            hash(&list(&ciphers), ciphers.is_empty()),
            hash(&last, others.is_empty()),
        )
    }
}

fn version(version: u16) -> &'static str {
    match version {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        0x0002 => "s2",
        0xfeff => "d1",
        0xfefd => "d2",
        0xfefc => "d3",
        _ => "00",
    }
}

/// The first and last character of a protocol id; if either is not alphanumeric, those of the id in hexadecimal.
fn first_and_last(id: &[u8]) -> String {
    let [Some(first), Some(last)] = [id.first(), id.last()] else { return "00".to_owned() };
    match first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        true => [*first, *last].map(char::from).iter().collect(),
        false => format!("{:x}{:x}", first >> 4, last & 15),
    }
}

/// Formats numbers as four hexadecimal digits each, separated by commas.
fn list(numbers: &[u16]) -> String {
    let mut text = String::with_capacity(5 * numbers.len());
    for (at, number) in numbers.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        write!(text, "{comma}{number:04x}").expect("a String takes all");
    }
    text
}

fn hash(text: &str, is_empty: bool) -> String {
    if is_empty {
        return "0".repeat(HASH_CHARACTERS);
    }
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref()[..HASH_CHARACTERS / 2].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIPHERS: [u16; 16] = [
        0x4a4a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014, 0x9c,
        0x9d, 0x2f, 0x35,
    ];
    const EXTENSIONS: [u16; 18] = [
        0x0a0a, 0x1b, 0, 0x33, 0x10, 0x4469, 0x17, 0x2d, 0xd, 5, 0x23, 0x12, 0x2b, 0xff01, 0xb, 0xa, 0x15,
        0xfafa,
    ];
    const ALGORITHMS: [u16; 8] = [0x403, 0x804, 0x401, 0x503, 0x805, 0x501, 0x806, 0x601];

    fn fields() -> Ja4Fields<'static> {
        Ja4Fields {
            version: 0x0304,
            has_server_name: true,
            first_alpn: Some(b"h2"),
            ciphers: &CIPHERS,
            extensions: &EXTENSIONS,
            signature_algorithms: &ALGORITHMS,
        }
    }

    /// The specification's example with GREASE in each list, and its rules for absent fields.
    #[test]
    fn the_published_vectors_hold() {
        assert_eq!(fields().text('t'), "t13d1516h2_8daaf6152771_e5627efa2ab1");
        let without = Ja4Fields { signature_algorithms: &[0x2a2a], ..fields() };
        assert_eq!(without.text('t'), "t13d1516h2_8daaf6152771_6d807ffa2a79");
        let nothing = Ja4Fields {
            version: 0x0399,
            has_server_name: false,
            first_alpn: None,
            ciphers: &[0x0a0a],
            extensions: &[0, 16],
            signature_algorithms: &ALGORITHMS,
        };
        assert_eq!(nothing.text('q'), "q00i000200_000000000000_000000000000");
        let many = [7; 120];
        let many = Ja4Fields { ciphers: &many, extensions: &many, ..nothing };
        assert!(many.text('d').starts_with("d00i999900_"));
    }

    #[test]
    fn an_id_is_shown_by_its_ends() {
        let shown = |id: &[u8]| first_and_last(id);
        assert_eq!([shown(b"http/1.1"), shown(b"h"), shown(b"")], ["h1", "hh", "00"]);
        assert_eq!([shown(&[0xab]), shown(&[0xab, 0xcd]), shown(&[0x30, 0xab])], ["ab", "ad", "3b"]);
        assert_eq!([shown(&[0x30, 0x31, 0xab, 0xcd]), shown(&[0x30, 0xab, 0xcd, 0x31])], ["3d", "01"]);
    }
}
