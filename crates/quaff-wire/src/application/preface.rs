//! Messages before another protocol on a TCP connection: headers of proxies, and negotiations that end with TLS.
//!
//! | message | reference |
//! |---|---|
//! | PROXY header, versions 1 and 2 | HAProxy, `proxy-protocol.txt` |
//! | SOCKS 4, 4a and 5, of the client and of the server | RFC 1928, RFC 1929 |
//! | lines of text: SMTP, IMAP, POP3, FTP, NNTP, CONNECT; elements of XMPP | RFC 3207, 2595, 4217, 4642, 9110, 6120 |
//! | LDAP | RFC 4511, section 4.14 |
//! | SSLRequest of PostgreSQL and MySQL, and the answers | manuals of their protocols |
//! | X.224 of RDP, prelogin of TDS, header of AMQP | MS-RDPBCGR, MS-TDS, AMQP 1.0 |
//!
//! Each message is read alone, of either side, so that a capture of one direction suffices. Its length is limited.

use super::FieldReader;

/// Maximum length of a message, bytes.
pub const MESSAGE_BYTES_MAX: usize = 4096;
/// Text without an end of line that counts as a message, bytes.
const LINE_BYTES: usize = 1024;
/// Maximum length of a PROXY header of version 1 (section 2.1), and of a text in SOCKS 4.
const PROXY_LINE_BYTES: usize = 107;
const SOCKS_TEXT_BYTES: usize = 256;
const PROXY_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Length, then SSLRequest or GSSENCRequest.
const POSTGRES_REQUEST: &[u8] = &[0, 0, 0, 8, 4, 0xd2, 0x16];

/// A message of limited length: `Some(0)` if its end is missing, `None` if it is another one.
type Length = Option<usize>;

/// The length of the header of a proxy, after which any protocol may start.
pub fn proxy_bytes(bytes: &[u8]) -> Length {
    match bytes {
        [] => Some(0),
        [b'P', ..] => proxy_line(bytes),
        [b'\r', ..] => proxy_header(bytes),
        [4, ..] => cut_or(socks4(bytes)),
        [0, ..] => begins(bytes, &[&[0], &[0x5a, 0x5b, 0x5c, 0x5d]]).is_ok().then(|| sized(bytes, 8))?,
        [5, ..] => cut_or(socks5(bytes)),
        _ => None,
    }
}

/// The length of a message that may precede TLS.
pub fn before_tls_bytes(bytes: &[u8]) -> Length {
    if bytes.len() < 2 {
        return Some(0);
    }
    let kinds = [proxy_bytes, postgres, mysql, ldap, x224, tds, amqp, text];
    kinds.into_iter().find_map(|kind| kind(bytes))
}

/// `Err` for another message, `Ok(None)` for one whose end is missing.
type Found = Result<Option<usize>, Other>;

struct Other;

fn cut_or(found: Found) -> Length {
    match found {
        Ok(length) => Some(length.unwrap_or(0)).filter(|length| *length <= MESSAGE_BYTES_MAX),
        Err(Other) => None,
    }
}

/// Compares the first bytes, as far as present, with the bytes that are allowed at each place.
fn begins(bytes: &[u8], allowed: &[&[u8]]) -> Result<(), Other> {
    let fits = bytes.iter().zip(allowed).all(|(byte, allowed)| allowed.contains(byte));
    if fits { Ok(()) } else { Err(Other) }
}

/// A message of `length` bytes, if they are present and not too many.
fn sized(bytes: &[u8], length: usize) -> Length {
    (length <= MESSAGE_BYTES_MAX).then_some(if bytes.len() < length { 0 } else { length })
}

fn starts_with(bytes: &[u8], begin: &[u8]) -> bool {
    let common = bytes.len().min(begin.len());
    bytes[..common] == begin[..common]
}

fn proxy_line(bytes: &[u8]) -> Length {
    if !starts_with(bytes, b"PROXY ") {
        return None;
    }
    let line = &bytes[..bytes.len().min(PROXY_LINE_BYTES)];
    match line.iter().position(|byte| *byte == b'\n') {
        Some(end) => Some(end + 1),
        None => (bytes.len() < PROXY_LINE_BYTES).then_some(0),
    }
}

fn proxy_header(bytes: &[u8]) -> Length {
    if !starts_with(bytes, PROXY_SIGNATURE) {
        return None;
    }
    let Some([version, _, high, low]) = bytes.get(PROXY_SIGNATURE.len()..).and_then(<[u8]>::first_chunk)
    else {
        return Some(0);
    };
    let length = PROXY_SIGNATURE.len() + 4 + usize::from(u16::from_be_bytes([*high, *low]));
    matches!(version, 0x20 | 0x21).then(|| sized(bytes, length))?
}

/// A request: version, command, port, address, user; in version 4a a name instead of the address.
fn socks4(bytes: &[u8]) -> Found {
    begins(bytes, &[&[4], &[1, 2]])?;
    let Some(address) = bytes.get(4..8) else { return Ok(None) };
    let Some(end) = text_end(bytes, 8)? else { return Ok(None) };
    match address {
        [0, 0, 0, 1..=255] => text_end(bytes, end),
        _ => Ok(Some(end)),
    }
}

/// The offset after a text that ends with a zero.
fn text_end(bytes: &[u8], from: usize) -> Found {
    let text = bytes.get(from..).unwrap_or_default();
    let text = &text[..text.len().min(SOCKS_TEXT_BYTES)];
    match text.iter().position(|byte| *byte == 0) {
        Some(end) => Ok(Some(from + end + 1)),
        None if text.len() < SOCKS_TEXT_BYTES => Ok(None),
        None => Err(Other),
    }
}

/// Methods, a login, and a request; or their answers, which are shorter: the method 2 and the result of the login look
/// like a list of two methods.
fn socks5(bytes: &[u8]) -> Found {
    let mut rest = FieldReader(bytes);
    let is_methods = rest.take(1).is_some_and(|version| version == [5]) && rest.whole_vector(1).is_some();
    if !is_methods {
        return Ok(None);
    }
    if rest.0.first() == Some(&1) {
        let _ = rest.take(1);
        if rest.whole_vector(1).and_then(|_| rest.whole_vector(1)).is_none() {
            return Ok(None);
        }
    }
    begins(rest.0, &[&[5], &[0, 1, 2, 3, 4, 5, 6, 7, 8], &[0], &[1, 3, 4]])?;
    let address_bytes = match rest.take(4).map(|fields| fields[3]) {
        Some(1) => Some(4),
        Some(3) => rest.number(1),
        Some(_) => Some(16),
        None => None,
    };
    let end = address_bytes.and_then(|address_bytes| rest.take(address_bytes + 2));
    Ok(end.map(|_| bytes.len() - rest.0.len()))
}

/// A request for TLS, or the answer of one byte, which TLS follows at once in its direction.
fn postgres(bytes: &[u8]) -> Length {
    if starts_with(bytes, POSTGRES_REQUEST) {
        return sized(bytes, 8).filter(|_| bytes.get(7).is_none_or(|code| matches!(code, 0x2f | 0x30)));
    }
    matches!(bytes, [b'S', 22, ..] | [b'N', b'S', 22, ..]).then_some(1)
}

/// The greeting of a server, or the request of a client with the flag CLIENT_SSL.
fn mysql(bytes: &[u8]) -> Length {
    // One without bytes would have no version, 10, by which it is known.
    if let [low, high, rest @ ..] = bytes
        && *high < 4
        && (*low, *high) != (0, 0)
        && starts_with(rest, &[0, 0, 10])
    {
        return sized(bytes, 4 + usize::from(u16::from_le_bytes([*low, *high])));
    }
    let has_flag = bytes.get(5).is_none_or(|flags| flags & 8 != 0);
    (starts_with(bytes, &[32, 0, 0, 1]) && has_flag).then(|| sized(bytes, 36))?
}

/// A message: its number, and an operation.
fn ldap(bytes: &[u8]) -> Length {
    let [0x30, first, ..] = bytes else { return None };
    let mut rest = FieldReader(&bytes[2..]);
    let length_bytes = usize::from(first & 0x7f);
    let length = match first {
        0..=0x7f => Some(length_bytes),
        0x81..=0x84 => rest.number(length_bytes),
        _ => return None,
    };
    let Some(length) = length else { return Some(0) };
    let head_bytes = bytes.len() - rest.0.len();
    let is_whole = rest.0.len() >= length;
    rest.0 = &rest.0[..rest.0.len().min(length)];
    let number = [
        rest.take(1).is_none_or(|kind| kind == [2]),
        rest.0.first().is_none_or(|bytes| (1..=4).contains(bytes)),
    ];
    if number != [true; 2] || length < 5 {
        return None;
    }
    let operation = rest.whole_vector(1).and_then(|_| rest.take(1));
    if operation.map_or(is_whole, |kind| !(0x40..0x80).contains(&kind[0])) {
        return None;
    }
    sized(bytes, head_bytes + length)
}

/// A connection request or confirm in a TPKT.
fn x224(bytes: &[u8]) -> Length {
    let is_its =
        starts_with(bytes, &[3, 0]) && bytes.get(5).is_none_or(|code| matches!(code & 0xf0, 0xd0 | 0xe0));
    let length = bytes.get(2..4).map_or(0, |length| usize::from(u16::from_be_bytes([length[0], length[1]])));
    is_its.then(|| if bytes.len() < 6 { Some(0) } else { sized(bytes, length.max(7)) })?
}

/// A prelogin; of one that contains TLS the header.
fn tds(bytes: &[u8]) -> Length {
    const HEADER_BYTES: usize = 8;
    if begins(bytes, &[&[0x12], &[0, 1]]).is_err() {
        return None;
    }
    match bytes.get(HEADER_BYTES..HEADER_BYTES + 2) {
        None => Some(0),
        Some([22, 3]) => Some(HEADER_BYTES),
        Some(_) => sized(bytes, usize::from(u16::from_be_bytes([bytes[2], bytes[3]])).max(HEADER_BYTES)),
    }
}

fn amqp(bytes: &[u8]) -> Length {
    starts_with(bytes, b"AMQP").then(|| sized(bytes, 8))?
}

/// A line of text, or an element.
fn text(bytes: &[u8]) -> Length {
    let bytes = &bytes[..bytes.len().min(LINE_BYTES)];
    let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'>')).map(|end| end + 1);
    let line = &bytes[..end.unwrap_or(bytes.len())];
    let is_text = line.iter().all(|byte| *byte >= b' ' || matches!(byte, b'\t' | b'\r' | b'\n'));
    let length = end.unwrap_or(if line.len() < LINE_BYTES { 0 } else { LINE_BYTES });
    is_text.then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TLS: &[u8] = &[22, 3, 1, 0, 5, 1, 0, 0, 1, 3];

    fn ber(kind: u8, content: &[u8]) -> Vec<u8> {
        [&[kind, content.len() as u8], content].concat()
    }

    /// Messages before TLS; those of proxies, after which any protocol may start, first.
    fn messages() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let v2 = |more: &[u8]| [PROXY_SIGNATURE, &[0x21, 0x11, 0, more.len() as u8], more].concat();
        let proxies: Vec<Vec<u8>> = vec![
            b"PROXY TCP4 192.0.2.1 192.0.2.2 4711 443\r\n".to_vec(),
            b"PROXY UNKNOWN\r\n".to_vec(),
            v2(&[7; 12]),
            v2(&[7; 200]),
            b"\x04\x01\x01\xbb\xc0\0\x02\x01user\0".to_vec(),
            b"\x04\x01\x01\xbb\0\0\0\x01\0a.example\0".to_vec(),
            b"\0\x5a\x01\xbb\xc0\0\x02\x01".to_vec(),
            b"\x05\x01\0\x05\x01\0\x03\x09a.example\x01\xbb".to_vec(),
            b"\x05\x03\0\x01\x02\x01\x04user\x04pass\x05\x01\0\x01\xc0\0\x02\x01\x01\xbb".to_vec(),
            b"\x05\0\x05\0\0\x01\xc0\0\x02\x01\x01\xbb".to_vec(),
            [&b"\x05\x02\x01\0\x05\0\0\x04"[..], &[9; 18]].concat(),
        ];
        let request = ber(0x77, &ber(0x80, b"1.3.6.1.4.1.1466.20037"));
        let mut client_of_mysql = vec![0; 36];
        client_of_mysql[..6].copy_from_slice(&[32, 0, 0, 1, 0x85, 0xae]);
        let greeting = b"\x0a8.4.0\0salt";
        let others = vec![
            b"a1 STARTTLS\r\n".to_vec(),
            b"220 2.0.0 Ready\n".to_vec(),
            b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>".to_vec(),
            vec![0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f],
            ber(0x30, &[&[2, 1, 1][..], &request].concat()),
            ber(0x30, &[&[2, 1, 1][..], &ber(0x78, &[10, 1, 0, 4, 0, 4, 0])].concat()),
            [&[greeting.len() as u8, 0, 0, 0], &greeting[..]].concat(),
            client_of_mysql,
            [&[3, 0, 0, 19, 14, 0xe0][..], &[0; 13]].concat(),
            [&[0x12, 1, 0, 20][..], &[0; 16]].concat(),
            b"AMQP\x02\x01\0\0".to_vec(),
        ];
        (proxies, others)
    }

    #[test]
    fn a_message_is_read_in_any_pieces_and_bounded() {
        let (proxies, others) = messages();
        let check = |message: &[u8], length: fn(&[u8]) -> Option<usize>| {
            let whole = [message, TLS].concat();
            assert_eq!(length(&whole), Some(message.len()), "{message:?}");
            for cut in 1..message.len() {
                assert_eq!(length(&message[..cut]), Some(0), "{message:?} cut at {cut}");
            }
        };
        proxies.iter().for_each(|message| check(message, proxy_bytes));
        proxies.iter().chain(&others).for_each(|message| check(message, before_tls_bytes));
        // One byte of an answer, which the record follows.
        assert_eq!(before_tls_bytes(&[b"S", TLS].concat()), Some(1));
        assert_eq!(before_tls_bytes(&[b"NS", TLS].concat()), Some(1));
        // The header of a packet that contains TLS.
        let tds = [&[0x12, 1, 0, 30, 0, 0, 0, 0][..], TLS].concat();
        assert_eq!(before_tls_bytes(&tds), Some(8));
    }

    #[test]
    fn other_bytes_are_none() {
        for other in [TLS, b"GET / HTTP/1.1\r\n", b"SSH-2.0-x\r\n", b"PUT /", &[5, 0, 11, 3], &[4, 3, 0]] {
            assert_eq!(proxy_bytes(other), None, "{other:?}");
        }
        for other in [TLS, &[0xff, 0, 0x80], &[0x30, 0x10, 9, 9], &[3, 0, 0, 9, 2, 0xf0], b"a\x01b\n"] {
            assert_eq!(before_tls_bytes(other), None, "{other:?}");
        }
        assert_eq!(proxy_bytes(&[PROXY_SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat()), None, "64 KiB");
        assert_eq!(proxy_bytes(format!("PROXY {}", "x".repeat(200)).as_bytes()), None);
        assert_eq!(before_tls_bytes(&[b'a'; 2000]), Some(LINE_BYTES));
    }

    /// It ends before the byte that shows its kind.
    #[test]
    fn a_message_without_its_mark_is_none() {
        let without_version = [&[0; 8][..], TLS].concat();
        let without_operation = [&[0x30, 5, 2, 4, 1, 2, 3, 4, 0x77][..], TLS].concat();
        for other in [without_version, without_operation] {
            assert_eq!(before_tls_bytes(&other), None);
            let parts = (2..other.len()).map(|cut| before_tls_bytes(&other[..cut]));
            assert!(parts.into_iter().all(|part| part.unwrap_or(0) == 0), "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_length_within_them(choice in 0usize..30, at in 0usize..60, byte: u8, noise in prop::collection::vec(any::<u8>(), 0..60)) {
            let (proxies, others) = messages();
            let mut bytes = proxies.into_iter().chain(others).nth(choice).unwrap_or_default();
            bytes.extend(noise);
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            for length in [proxy_bytes, before_tls_bytes] {
                let whole = length(&bytes);
                prop_assert!(whole.unwrap_or(0) <= bytes.len());
                // What is known of a part holds for the whole.
                for cut in 2..bytes.len() {
                    let part = length(&bytes[..cut]);
                    prop_assert!(part == Some(0) || part == whole, "{:?} {:?}", part, whole);
                }
            }
        }
    }
}
