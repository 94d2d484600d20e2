//! The application of one conversation whose bytes come in order, for readers that meter no flows.

use super::{Application, Decrypter, PAYLOAD_BYTES, QuicClient, application, is_tls};
use quaff_wire::net::UDP;

/// Recognizes the application of a conversation as the meter does: by the first bytes of both sides, or by the
/// ClientHello of QUIC.
#[derive(Debug)]
pub struct Recognizer {
    protocol: u8,
    /// Ports of the client and of the server.
    ports: [u16; 2],
    /// The first bytes of the client and of the server.
    payload: [Vec<u8>; 2],
    /// True for a side whose later bytes are not read: those after a gap would look as if they followed.
    is_closed: [bool; 2],
    /// Replaces the kept payload until the ClientHello is complete.
    quic: Option<Box<QuicClient>>,
    /// Known before the end.
    found: Option<Application>,
}

/// The decryptions of QUIC that all [`Recognizer`]s of a reader may do.
#[derive(Debug, Default)]
pub struct QuicBudget(Decrypter);

impl Recognizer {
    /// Creates one for a conversation of TCP or UDP between these ports: the client's, the server's.
    pub fn new(protocol: u8, ports: [u16; 2]) -> Self {
        let payload = [Vec::new(), Vec::new()];
        Self { protocol, ports, payload, is_closed: [false; 2], quic: None, found: None }
    }

    /// Takes the client for the server, and the other way round.
    pub fn swap_sides(&mut self) {
        self.ports.reverse();
        self.payload.reverse();
        self.is_closed.reverse();
    }

    /// Takes no more bytes of a side: it has ended, or bytes are missing.
    pub fn close(&mut self, is_client: bool) {
        self.is_closed[usize::from(!is_client)] = true;
    }

    /// Takes the next bytes of a side at `now_ns` of packet time; for UDP a datagram.
    pub fn add(&mut self, is_client: bool, bytes: &[u8], now_ns: u64, budget: &mut QuicBudget) {
        let side = usize::from(!is_client);
        if self.found.is_some() || self.is_closed[side] {
            return;
        }
        if self.protocol == UDP && (self.quic.is_some() || QuicClient::begins_with(bytes)) {
            return self.add_quic(!is_client, bytes, now_ns, &mut budget.0);
        }
        let payload = &mut self.payload[side];
        if is_tls(bytes) && !is_tls(payload) {
            // What came before TLS says less, and would take its room.
            payload.clear();
        }
        let room = PAYLOAD_BYTES - payload.len();
        let added = &bytes[..bytes.len().min(room)];
        payload.reserve_exact(added.len());
        payload.extend_from_slice(added);
        if self.protocol == UDP && self.payload.iter().all(|payload| !payload.is_empty()) {
            // A question and its answer have all that is read of DNS.
            self.found = self.by_payload().filter(|found| found.protocol == "dns");
        }
    }

    fn by_payload(&self) -> Option<Application> {
        let [client, server] = &self.payload;
        application(self.protocol, self.ports, client, server)
    }

    fn add_quic(&mut self, is_server: bool, datagram: &[u8], now_ns: u64, decrypter: &mut Decrypter) {
        self.payload = [Vec::new(), Vec::new()];
        let client = self.quic.get_or_insert_default();
        decrypter.advance(now_ns);
        client.add(datagram, is_server, decrypter);
        if client.is_whole() {
            self.found = Some(client.application(self.ports));
            self.quic = None;
        }
    }

    /// Memory of what is kept until the application is known, bytes.
    pub fn held_bytes(&self) -> usize {
        let quic = if self.quic.is_some() { 2 * PAYLOAD_BYTES } else { 0 };
        self.payload.iter().map(Vec::capacity).sum::<usize>() + quic
    }

    /// True if later bytes change nothing.
    pub fn is_full(&self) -> bool {
        let mut sides = self.payload.iter().zip(self.is_closed);
        self.found.is_some() || sides.all(|(payload, is_closed)| is_closed || payload.len() >= PAYLOAD_BYTES)
    }

    /// The application, by what has come.
    pub fn application(self) -> Option<Application> {
        let by_payload = self.found.is_none() && self.quic.is_none();
        let found = if by_payload { self.by_payload() } else { self.found };
        found.or_else(|| self.quic.map(|quic| quic.application(self.ports)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::net::TCP;

    /// The application and its name, of bytes that come one by one from both sides.
    fn found(protocol: u8, ports: [u16; 2], client: &[u8], server: &[u8]) -> Option<(&'static str, String)> {
        let (mut recognizer, mut budget) = (Recognizer::new(protocol, ports), QuicBudget::default());
        for (is_client, bytes) in [(true, client), (false, server)] {
            let at_once = if protocol == UDP { bytes.len().max(1) } else { 1 };
            bytes.chunks(at_once).for_each(|piece| recognizer.add(is_client, piece, 1, &mut budget));
        }
        let found = recognizer.application()?;
        Some((found.name, found.server_name.unwrap_or_default()))
    }

    #[test]
    fn an_application_is_that_of_the_meter() {
        let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
        assert_eq!(found(TCP, [5, 8080], request, b""), Some(("http", "a.example".into())));
        assert_eq!(found(TCP, [5, 8080], b"", b"SSH-2.0-x\r\n"), Some(("ssh", String::new())));
        let question = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";
        assert_eq!(found(UDP, [5, 53], question, b""), Some(("dns", "a.example".into())));
        assert_eq!(found(UDP, [5, 54], question, b""), None);
    }

    #[test]
    fn bytes_after_a_gap_are_not_read_as_if_they_followed() {
        let (mut recognizer, mut budget) = (Recognizer::new(TCP, [5, 80]), QuicBudget::default());
        recognizer.add(true, b"GET / HTTP/1.1\r\nX: ", 1, &mut budget);
        recognizer.close(true);
        assert!(!recognizer.is_full());
        recognizer.add(true, b"\r\nHost: invented\r\n\r\n", 1, &mut budget);
        recognizer.close(false);
        assert!(recognizer.is_full());
        let found = recognizer.application().expect("HTTP");
        assert_eq!((found.name, found.server_name), ("http", None));
    }

    #[test]
    fn a_client_that_was_taken_for_the_server_has_its_bytes() {
        let (mut recognizer, mut budget) = (Recognizer::new(TCP, [80, 5]), QuicBudget::default());
        recognizer.add(false, b"GET / HTTP/1.1\r\n", 1, &mut budget);
        recognizer.swap_sides();
        recognizer.add(true, b"Host: a.example\r\n\r\n", 1, &mut budget);
        assert_eq!(recognizer.application().and_then(|found| found.server_name), Some("a.example".into()));
    }

    #[test]
    fn a_question_with_its_answer_needs_no_more_bytes() {
        let question = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";
        let (mut recognizer, mut budget) = (Recognizer::new(UDP, [5, 53]), QuicBudget::default());
        recognizer.add(true, question, 1, &mut budget);
        assert!(!recognizer.is_full());
        recognizer.add(false, b"answer", 1, &mut budget);
        assert!(recognizer.is_full());
    }

    #[test]
    fn kept_bytes_have_a_limit() {
        let (mut recognizer, mut budget) = (Recognizer::new(TCP, [5, 80]), QuicBudget::default());
        for is_client in [true, false] {
            assert!(!recognizer.is_full());
            (0..100).for_each(|_| recognizer.add(is_client, &[b'x'; 1000], 1, &mut budget));
        }
        assert!(recognizer.is_full() && recognizer.held_bytes() <= 2 * PAYLOAD_BYTES, "{recognizer:?}");
        assert_eq!(recognizer.application(), None);
    }
}
