//! A piece of a connection as a line of JSON: data, or a gap.

use quaff_stream::GapCause;
use serde::Serialize;
use std::net::SocketAddr;

/// A piece of one side.
#[derive(Debug, Serialize)]
pub(super) struct Piece<'a> {
    /// Time of the packet that made it known, ns since 1970.
    pub(super) time_ns: u64,
    /// `client` or `server`.
    pub(super) side: &'static str,
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    #[serde(flatten)]
    pub(super) what: What<'a>,
}

/// The data or the gap of a piece.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum What<'a> {
    Data {
        /// Offset in the stream of the side; of UDP in the datagram, always 0.
        offset: u64,
        bytes: usize,
        #[serde(serialize_with = "base64")]
        data: &'a [u8],
    },
    Gap {
        offset: u64,
        gap_bytes: u64,
        cause: &'static str,
    },
}

impl What<'_> {
    pub(super) fn gap(offset: u64, gap_bytes: u64, cause: GapCause) -> Self {
        Self::Gap { offset, gap_bytes, cause: GapCause::NAMES[cause.index()] }
    }
}

/// Writes bytes in base64 (RFC 4648, section 4).
fn base64<S: serde::Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for sign in 0..4 {
            let index = (bits >> (18 - 6 * sign) & 63) as usize;
            text.push(if sign <= three.len() { SIGNS[index].into() } else { '=' });
        }
    }
    serializer.serialize_str(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_in_base64_and_gaps_have_a_cause() {
        let line = |what| {
            let [from, to] = ["10.0.0.1:1", "[fd00::1]:2"].map(|end| end.parse().unwrap());
            serde_json::to_string(&Piece { time_ns: 5, side: "client", from, to, what }).unwrap()
        };
        // RFC 4648, section 10.
        for (bytes, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            let what = What::Data { offset: 7, bytes: bytes.len(), data: bytes.as_bytes() };
            let end = format!("\"offset\":7,\"bytes\":{},\"data\":\"{expected}\"}}", bytes.len());
            assert!(line(what).ends_with(&end), "{bytes}");
        }
        let expected = "{\"time_ns\":5,\"side\":\"client\",\"from\":\"10.0.0.1:1\",\"to\":\"[fd00::1]:2\",\
                        \"offset\":0,\"gap_bytes\":9,\"cause\":\"acknowledged\"}";
        assert_eq!(line(What::gap(0, 9, GapCause::Acknowledged)), expected);
    }
}
