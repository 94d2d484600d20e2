//! Applications by the protocol ids of a ClientHello (IANA, TLS ALPN Protocol IDs).

/// Prefix of the id, the application, and its own port over TLS or QUIC, which implies the same; 0 if there is none.
static APPLICATIONS: [(&str, &str, u16); 26] = [
    ("h2", "https", 443),
    ("h3", "https", 443),
    ("http/", "https", 443),
    ("spdy/", "https", 443),
    ("dot", "dot", 853),
    ("doq", "doq", 853),
    ("acme-tls/", "acme", 0),
    ("apns-", "apns", 5223),
    ("coap", "coaps", 5684),
    ("ftp", "ftps", 990),
    ("imap", "imaps", 993),
    ("irc", "ircs", 6697),
    ("managesieve", "managesieve", 4190),
    ("mqtt", "mqtts", 8883),
    ("x-amzn-mqtt-ca", "mqtts", 8883),
    ("nntp", "nntps", 563),
    ("ntske/", "ntske", 4460),
    ("pop3", "pop3s", 995),
    ("postgresql", "postgresql", 5432),
    ("radius/", "radsec", 2083),
    ("sip/", "sips", 5061),
    ("smb", "smb", 445),
    ("stun.", "stuns", 5349),
    ("tds/", "tds", 1433),
    ("webrtc", "webrtc", 0),
    ("xmpp-", "xmpps", 5223),
];

/// The names of all applications in the table.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    APPLICATIONS.iter().map(|(_, name, _)| *name)
}

/// The application of the first known id, unless one of the ports implies the same.
pub(super) fn application(ids: &[String], ports: [u16; 2]) -> Option<&'static str> {
    let known = |id: &String| APPLICATIONS.iter().find(|(begin, ..)| id.starts_with(begin));
    let (_, name, port) = ids.iter().find_map(known)?;
    (*port == 0 || !ports.contains(port)).then_some(*name)
}
