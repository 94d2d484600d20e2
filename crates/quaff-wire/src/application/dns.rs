//! The labels of a DNS name (RFC 1035, sections 3.1 and 4.1.4).

use super::NAME_BYTES_MAX;

/// Length of the message header, which contains no name.
pub const HEADER_BYTES: usize = 12;
/// Maximum number of pointers followed for one name; writers use one or two.
const POINTERS_MAX: usize = 64;

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

    proptest! {
        #[test]
        fn any_bytes_end(message in prop::collection::vec(prop_oneof![Just(0xc0u8), 0u8..70, any::<u8>()], 0..600), at in 0usize..600) {
            if let Some((text, end)) = read(&message, at) {
                prop_assert!(text.len() <= 3 * NAME_BYTES_MAX && end <= message.len());
            }
        }
    }
}
