//! The labels of a DNS name (RFC 1035, sections 3.1 and 4.1.4), and the addresses in an answer.

use super::{FieldReader, NAME_BYTES_MAX, name_text};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of the message header, which contains no name.
pub const HEADER_BYTES: usize = 12;
/// Maximum number of pointers followed for one name; writers use one or two.
const POINTERS_MAX: usize = 64;
/// Flags of a message: it is a response, and the code of its result (RFC 1035, section 4.1.1).
const RESPONSE: usize = 0x8000;
const RESULT: usize = 0x000f;
/// The class of the Internet; multicast DNS sets the highest bit of unique records (RFC 6762, section 10.2).
const INTERNET: usize = 1;
const UNIQUE: usize = 0x8000;
/// Types of records with an address (RFC 1035, section 3.2.2; RFC 3596, section 2.1).
const A: usize = 1;
const AAAA: usize = 28;

/// Passes on the labels of the name at this offset of a message, and returns the offset after it.
///
/// A pointer must lead to an earlier place than the part of the name that it ends, so that no name is endless. A name
/// has at most 255 bytes including the lengths of its labels.
pub fn name<'a>(message: &'a [u8], at: usize, mut label: impl FnMut(&'a [u8])) -> Option<usize> {
    let (mut at, mut begin, mut end) = (at, at, None);
    let (mut name_bytes, mut pointers) = (1, 0);
    loop {
        let length = *message.get(at)?;
        match length {
            0 => return Some(end.unwrap_or(at + 1)),
            1..=63 => {
                let next = at + 1 + usize::from(length);
                name_bytes += 1 + usize::from(length);
                if name_bytes > NAME_BYTES_MAX {
                    return None;
                }
                label(message.get(at + 1..next)?);
                at = next;
            }
            0xc0.. => {
                let to = usize::from(length & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
                pointers += 1;
                if !(HEADER_BYTES..begin).contains(&to) || pointers > POINTERS_MAX {
                    return None;
                }
                end.get_or_insert(at + 2);
                (at, begin) = (to, to);
            }
            _ => return None,
        }
    }
}

/// Passes on the addresses in the answers of a response, each with the name that was asked for, in lower case: an
/// answer may have other names on the way to it (CNAME). Where nothing was asked, as in multicast DNS, the name is
/// that of the record. Returns the length of the message; `None` if it is cut or damaged, after what precedes that.
pub fn addresses(message: &[u8], mut found: impl FnMut(&str, IpAddr)) -> Option<usize> {
    let mut header = FieldReader(message);
    header.take(2)?;
    let mut field = || header.number(2);
    let (flags, questions, answers, others) = (field()?, field()?, field()?, field()? + field()?);
    let has_addresses = flags & (RESPONSE | RESULT) == RESPONSE;
    let (mut at, mut asked) = (HEADER_BYTES, None);
    for _ in 0..questions {
        let (text, end) = text(message, at)?;
        asked = asked.or(text);
        at = end + 4;
    }
    for number in 0..answers + others {
        let (owner, end) = text(message, at)?;
        let mut record = FieldReader(message.get(end..)?);
        let (kind, class) = (record.number(2)?, record.number(2)?);
        record.take(4)?;
        let data = record.whole_vector(2)?;
        at = message.len() - record.0.len();
        let is_answer = has_addresses && number < answers && class & !UNIQUE == INTERNET;
        let address = address(kind, data).filter(|_| is_answer);
        if let (Some(address), Some(name)) = (address, asked.as_deref().or(owner.as_deref())) {
            found(name, address);
        }
    }
    (at <= message.len()).then_some(at)
}

fn address(kind: usize, data: &[u8]) -> Option<IpAddr> {
    match kind {
        A => <[u8; 4]>::try_from(data).ok().map(|bytes| Ipv4Addr::from(bytes).into()),
        AAAA => <[u8; 16]>::try_from(data).ok().map(|bytes| Ipv6Addr::from(bytes).into()),
        _ => None,
    }
}

/// The text of the name at this offset, and the offset after it. The root has none, nor has a name with labels that
/// are not printable.
fn text(message: &[u8], at: usize) -> Option<(Option<String>, usize)> {
    let mut text = Some(String::new());
    let end = name(message, at, |label| {
        let add = |mut text: String| {
            let dot = if text.is_empty() { "" } else { "." };
            text.push_str(dot);
            text.push_str(&name_text(label)?);
            Some(text)
        };
        text = text.take().and_then(add);
    })?;
    Some((text.filter(|text| !text.is_empty()).map(|text| text.to_ascii_lowercase()), end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(message: &[u8], at: usize) -> Option<(String, usize)> {
        let mut labels = Vec::new();
        let end = name(message, at, |label| labels.push(String::from_utf8_lossy(label).into_owned()))?;
        Some((labels.join("."), end))
    }

    #[test]
    fn compressed_names_are_read_and_loops_are_refused() {
        let mut message = vec![0; HEADER_BYTES];
        message.extend(b"\x01a\x07example\x00\x01b\xc0\x0e\xc0\x16\xc0\x1d\x41x\x02c");
        let found = |text: &str, end| Some((text.to_owned(), end));
        assert_eq!(read(&message, 12), found("a.example", 23));
        assert_eq!(read(&message, 23), found("b.example", 27));
        assert_eq!(read(&message, 14), found("example", 23));
        assert_eq!(read(&message, 27), found("", 29), "the root");
        assert_eq!(read(&message, 29), None, "a pointer to itself");
        assert_eq!(read(&message, 31), None, "a length of two reserved bits");
        assert_eq!(read(&message, 33), None, "cut");
        let header = [&[0xc0; 12][..], &[0xc0, 4]].concat();
        assert_eq!(read(&header, 12), None, "a pointer into the header");
    }

    #[test]
    fn a_name_is_bounded() {
        let mut message = vec![0; HEADER_BYTES];
        for _ in 0..4 {
            message.push(62);
            message.extend([b'a'; 62]);
        }
        let end = message.len();
        message.extend([1, b'a', 0]);
        assert_eq!(read(&message, 12).map(|(text, _)| text.len()), Some(253), "254 bytes and the root");
        message.truncate(end);
        message.extend([2, b'a', b'a', 0]);
        assert_eq!(read(&message, 12), None);
        let mut pointers = [&[0; HEADER_BYTES][..], b"\x00"].concat();
        for at in 12..12 + 200 {
            pointers.extend((0xc000_u16 | if at == 12 { 12 } else { 13 + 2 * (at - 13) }).to_be_bytes());
        }
        assert!(read(&pointers, 13 + 2 * 60).is_some() && read(&pointers, 13 + 2 * 80).is_none());
    }

    /// The addresses of a message with their names, and its length.
    fn found(message: &[u8]) -> (Vec<String>, Option<usize>) {
        let mut all = Vec::new();
        let end = addresses(message, |name, address| all.push(format!("{name} {address}")));
        (all, end)
    }

    /// A response to a question for `W.example`: an alias, two addresses of it, and a record without an address.
    fn response() -> Vec<u8> {
        let mut message = vec![0, 7, 0x81, 0x80, 0, 1, 0, 3, 0, 0, 0, 1];
        message.extend(b"\x01W\x07example\x00\x00\x01\x00\x01");
        message.extend(b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x09\x00\x04\x01c\xc0\x0e");
        let alias = [0xc0, message.len() as u8 - 4];
        message.extend([&alias[..], b"\x00\x01\x00\x01\x00\x00\x00\x09\x00\x04\xc0\x00\x02\x01"].concat());
        let v6 = "2001:db8::9".parse::<Ipv6Addr>().unwrap().octets();
        message.extend([&alias[..], b"\x00\x1c\x80\x01\x00\x00\x00\x09\x00\x10", &v6].concat());
        message.extend(b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00");
        message
    }

    #[test]
    fn addresses_have_the_name_that_was_asked_for() {
        let message = response();
        let all = ["w.example 192.0.2.1", "w.example 2001:db8::9"].map(str::to_owned).to_vec();
        assert_eq!(found(&message), (all.clone(), Some(message.len())));
        let more = [&message[..], b"the next message"].concat();
        assert_eq!(found(&more).1, Some(message.len()), "the end is known");
        for cut in 0..message.len() {
            let (some, end) = found(&message[..cut]);
            assert!(end.is_none() && all.starts_with(&some), "{cut}: {some:?}");
        }
        for (byte, bits) in [(2, 0x80), (3, 0x03)] {
            let mut other = message.clone();
            other[byte] ^= bits;
            assert_eq!(found(&other), (Vec::new(), Some(message.len())), "a question, or a failure");
        }
        let mut silent = vec![0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        silent.extend(b"\x01p\x05local\x00\x00\x01\x80\x01\x00\x00\x00\x09\x00\x04\xc0\x00\x02\x02");
        assert_eq!(found(&silent).0, ["p.local 192.0.2.2"], "the owner's, where nothing was asked");
    }

    proptest! {
        #[test]
        fn any_message_ends_and_has_printable_names(
            questions in 0u8..3,
            answers in 0u8..9,
            rest in prop::collection::vec(prop_oneof![Just(0xc0u8), 0u8..30, any::<u8>()], 0..600),
        ) {
            let header = [0, 1, 0x80, 0, 0, questions, 0, answers, 0, 0, 0, 0];
            let message = [&header[..], &rest].concat();
            let end = addresses(&message, |name, _| assert!(name.bytes().all(|byte| byte.is_ascii_graphic())));
            prop_assert!(end.is_none_or(|end| (HEADER_BYTES..=message.len()).contains(&end)));
        }

        #[test]
        fn any_bytes_end(message in prop::collection::vec(prop_oneof![Just(0xc0u8), 0u8..70, any::<u8>()], 0..600), at in 0usize..600) {
            if let Some((text, end)) = read(&message, at) {
                prop_assert!(text.len() <= 3 * NAME_BYTES_MAX && end <= message.len());
            }
        }
    }
}
