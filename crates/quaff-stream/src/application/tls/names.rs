//! Names of TLS: types of records and of messages, versions, cipher suites and alerts, by RFC 8446 and IANA.

use super::{HANDSHAKE, version_name};
use std::borrow::Cow;

/// A name, or the number of what has none here.
pub(super) type Name = Cow<'static, str>;

pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const APPLICATION_DATA: u8 = 23;
pub(super) const HEARTBEAT: u8 = 24;

/// The name of a type of records (RFC 8446, section 5.1, and RFC 6520); `None` for another number.
pub(super) fn record_type(kind: u8) -> Option<&'static str> {
    Some(match kind {
        CHANGE_CIPHER_SPEC => "change_cipher_spec",
        ALERT => "alert",
        HANDSHAKE => "handshake",
        APPLICATION_DATA => "application_data",
        HEARTBEAT => "heartbeat",
        _ => return None,
    })
}

/// The name of a type of handshake messages (RFC 8446, section 4, and its predecessors).
pub(super) fn handshake_type(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0 => "hello_request",
        1 => "client_hello",
        2 => "server_hello",
        4 => "new_session_ticket",
        5 => "end_of_early_data",
        8 => "encrypted_extensions",
        11 => "certificate",
        12 => "server_key_exchange",
        13 => "certificate_request",
        14 => "server_hello_done",
        15 => "certificate_verify",
        16 => "client_key_exchange",
        20 => "finished",
        21 => "certificate_url",
        22 => "certificate_status",
        23 => "supplemental_data",
        24 => "key_update",
        25 => "compressed_certificate",
        _ => return None,
    })
}

/// The name of a type of handshake messages, or its number.
pub(super) fn message(kind: u8) -> Name {
    handshake_type(kind).map_or_else(|| format!("message {kind}").into(), Cow::Borrowed)
}

/// The name of a version, or its number.
pub(super) fn version(number: u16) -> Name {
    match version_name(number) {
        "unknown" => format!("0x{number:04x}").into(),
        name => name.into(),
    }
}

/// The level of an alert (RFC 8446, section 6).
pub(super) fn alert_level(level: u8) -> Name {
    match level {
        1 => "warning".into(),
        2 => "fatal".into(),
        other => format!("level {other}").into(),
    }
}

/// The description of an alert (RFC 8446, section 6 and appendix B.2; RFC 7507; RFC 9849).
pub(super) fn alert(description: u8) -> Name {
    let name = match description {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        21 => "decryption_failed_RESERVED",
        22 => "record_overflow",
        30 => "decompression_failure_RESERVED",
        40 => "handshake_failure",
        41 => "no_certificate_RESERVED",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        60 => "export_restriction_RESERVED",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        100 => "no_renegotiation_RESERVED",
        109 => "missing_extension",
        110 => "unsupported_extension",
        111 => "certificate_unobtainable_RESERVED",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        114 => "bad_certificate_hash_value_RESERVED",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        121 => "ech_required",
        other => return format!("alert {other}").into(),
    };
    name.into()
}

/// The common cipher suites of the registry "TLS Cipher Suites", in the order of their numbers.
const CIPHER_SUITES: [(u16, &str); 52] = [
    (0x0004, "TLS_RSA_WITH_RC4_128_MD5"),
    (0x0005, "TLS_RSA_WITH_RC4_128_SHA"),
    (0x000a, "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0x0016, "TLS_DHE_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0x002f, "TLS_RSA_WITH_AES_128_CBC_SHA"),
    (0x0033, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA"),
    (0x0035, "TLS_RSA_WITH_AES_256_CBC_SHA"),
    (0x0039, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA"),
    (0x003c, "TLS_RSA_WITH_AES_128_CBC_SHA256"),
    (0x003d, "TLS_RSA_WITH_AES_256_CBC_SHA256"),
    (0x0041, "TLS_RSA_WITH_CAMELLIA_128_CBC_SHA"),
    (0x0067, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0x006b, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256"),
    (0x0084, "TLS_RSA_WITH_CAMELLIA_256_CBC_SHA"),
    (0x009c, "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    (0x009d, "TLS_RSA_WITH_AES_256_GCM_SHA384"),
    (0x009e, "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256"),
    (0x009f, "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"),
    (0x00a8, "TLS_PSK_WITH_AES_128_GCM_SHA256"),
    (0x00a9, "TLS_PSK_WITH_AES_256_GCM_SHA384"),
    (0x1301, "TLS_AES_128_GCM_SHA256"),
    (0x1302, "TLS_AES_256_GCM_SHA384"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    (0x1304, "TLS_AES_128_CCM_SHA256"),
    (0x1305, "TLS_AES_128_CCM_8_SHA256"),
    (0xc007, "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA"),
    (0xc008, "TLS_ECDHE_ECDSA_WITH_3DES_EDE_CBC_SHA"),
    (0xc009, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    (0xc00a, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    (0xc011, "TLS_ECDHE_RSA_WITH_RC4_128_SHA"),
    (0xc012, "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0xc013, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    (0xc014, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    (0xc023, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    (0xc024, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"),
    (0xc027, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0xc028, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384"),
    (0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    (0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    (0xc02f, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    (0xc030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    (0xc09c, "TLS_RSA_WITH_AES_128_CCM"),
    (0xc09d, "TLS_RSA_WITH_AES_256_CCM"),
    (0xc0a0, "TLS_RSA_WITH_AES_128_CCM_8"),
    (0xc0a8, "TLS_PSK_WITH_AES_128_CCM_8"),
    (0xc0ac, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM"),
    (0xc0ad, "TLS_ECDHE_ECDSA_WITH_AES_256_CCM"),
    (0xc0ae, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8"),
    (0xc0af, "TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8"),
    (0xcca8, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0xcca9, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0xccaa, "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];

/// The name of a cipher suite, or its number.
pub(super) fn cipher_suite(number: u16) -> Name {
    match CIPHER_SUITES.binary_search_by_key(&number, |(of, _)| *of) {
        Ok(at) => CIPHER_SUITES[at].1.into(),
        Err(_) => format!("0x{number:04x}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_name_is_shown_as_it_is() {
        assert!(CIPHER_SUITES.is_sorted_by_key(|(number, _)| *number), "it is searched by halves");
        assert_eq!(cipher_suite(0x1301), "TLS_AES_128_GCM_SHA256");
        assert_eq!(cipher_suite(0xccaa), "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256");
        assert_eq!([cipher_suite(0), cipher_suite(0x5a5a)], ["0x0000", "0x5a5a"]);
        assert_eq!([version(0x0303), version(0x7f1c)], ["TLS 1.2", "0x7f1c"]);
        assert_eq!([message(11), message(67)], ["certificate", "message 67"]);
        assert_eq!([alert_level(2), alert_level(9)], ["fatal", "level 9"]);
        assert_eq!([alert(40), alert(255)], ["handshake_failure", "alert 255"]);
        assert_eq!([record_type(24), record_type(25)], [Some("heartbeat"), None]);
    }
}
