//! A piece of a connection as a line of JSON: data, a gap, or with --tls a record.

use quaff_stream::GapCause;
use quaff_stream::application::tls::records::TlsRecord;
use serde::Serialize;
use std::net::SocketAddr;

/// A piece of one side.
#[derive(Debug, Serialize)]
pub(super) struct JsonLine<'a> {
    /// Time of the packet that made it known, ns since 1970.
    pub(super) time_ns: u64,
    /// `client` or `server`.
    pub(super) side: &'static str,
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    #[serde(flatten)]
    pub(super) content: JsonContent<'a>,
}

/// The data, the gap or the record of a piece; with --tls also bytes without a record, and the sums of a side.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum JsonContent<'a> {
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
    Record(&'a TlsRecord),
    Unread {
        offset: u64,
        unread_bytes: u64,
    },
    Sums {
        records: u64,
        bytes: u64,
        application_bytes: u64,
    },
}

impl JsonContent<'_> {
    pub(super) fn gap(offset: u64, gap_bytes: u64, cause: GapCause) -> Self {
        Self::Gap { offset, gap_bytes, cause: GapCause::NAMES[cause.index()] }
    }
}

fn base64<S: serde::Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&quaff_wire::base64(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_in_base64_and_gaps_have_a_cause() {
        let line = |content| {
            let [from, to] = ["10.0.0.1:1", "[fd00::1]:2"].map(|end| end.parse().unwrap());
            serde_json::to_string(&JsonLine { time_ns: 5, side: "client", from, to, content }).unwrap()
        };
        let data = JsonContent::Data { offset: 7, bytes: 4, data: b"foob" };
        assert!(line(data).ends_with("\"offset\":7,\"bytes\":4,\"data\":\"Zm9vYg==\"}"));
        let expected = "{\"time_ns\":5,\"side\":\"client\",\"from\":\"10.0.0.1:1\",\"to\":\"[fd00::1]:2\",\
                        \"offset\":0,\"gap_bytes\":9,\"cause\":\"acknowledged\"}";
        assert_eq!(line(JsonContent::gap(0, 9, GapCause::Acknowledged)), expected);
    }
}
