//! A header line of HTTP/1.x (RFC 9112, section 5).

/// Name and value of a line, which may end with CR; `None` without a colon or a name.
pub fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = line.split_at(colon);
    (!name.is_empty()).then(|| (name, value[1..].trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_name_and_a_value() {
        assert_eq!(field(b"Host: a:80 \r"), Some((&b"Host"[..], &b"a:80"[..])));
        assert_eq!(field(b"A:"), Some((&b"A"[..], &b""[..])));
        assert_eq!((field(b": a"), field(b"no colon"), field(b"")), (None, None, None));
    }
}
