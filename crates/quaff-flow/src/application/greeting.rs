//! Protocols that begin with a line of text of the server: IMAP by that alone, POP, SMTP and FTP by the first command
//! of the client too, since other protocols have such lines. Names are those of the hierarchy of `quaff-wire`.

/// The protocol of a conversation whose sides begin with these bytes. If the source is uncertain, either may be the
/// server.
pub(super) fn protocol(one: &[u8], other: &[u8]) -> Option<&'static str> {
    of_server(one, other).or_else(|| of_server(other, one))
}

fn of_server(server: &[u8], client: &[u8]) -> Option<&'static str> {
    let is_command = |command: &&str| {
        client.get(..command.len()).is_some_and(|start| start.eq_ignore_ascii_case(command.as_bytes()))
    };
    let begins = |commands: &[&str]| commands.iter().any(is_command);
    match server {
        // RFC 9051, section 7.1.
        _ if [&b"* OK "[..], b"* PREAUTH ", b"* BYE "].iter().any(|start| server.starts_with(start)) => {
            Some("imap")
        }
        // RFC 1939, RFC 2449, RFC 5034, RFC 2595. The answers of Redis begin like that, too.
        [b'+', b'O', b'K', b' ' | b'\r', ..] if begins(&["CAPA", "USER ", "APOP ", "AUTH", "STLS"]) => {
            Some("pop")
        }
        // RFC 5321, section 4.1.1.1.
        [b'2', b'2', b'0', b' ' | b'-', ..] if begins(&["EHLO ", "HELO "]) => Some("smtp"),
        // RFC 959, RFC 2389, RFC 4217.
        [b'2', b'2', b'0', b' ' | b'-', ..] if begins(&["USER ", "AUTH ", "FEAT\r", "OPTS "]) => Some("ftp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_and_a_command_name_the_protocol_whichever_side_is_the_server() {
        let cases: [(&[u8], &[u8], Option<&str>); 9] = [
            (b"* OK IMAP4Rev1 Server\r\n", b"", Some("imap")),
            (b"* PREAUTH ready\r\n", b"a1 CAPABILITY\r\n", Some("imap")),
            (b"+OK ready\r\n", b"user me\r\n", Some("pop")),
            (b"220 mail.example ESMTP\r\n", b"EHLO me\r\n", Some("smtp")),
            (b"220-Welcome\r\n220 to FTP\r\n", b"USER anonymous\r\n", Some("ftp")),
            (b"+OK\r\n", b"*1\r\n$4\r\nPING\r\n", None),
            (b"220 who knows\r\n", b"", None),
            (b"", b"EHLO me\r\n", None),
            (b"* OKAY\r\n", b"2200\r\n", None),
        ];
        for (server, client, expected) in cases {
            assert_eq!(protocol(client, server), expected, "{client:?} {server:?}");
            assert_eq!(protocol(server, client), expected, "{client:?} {server:?}");
        }
    }
}
