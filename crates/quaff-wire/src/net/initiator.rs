//! The end that began a conversation, judged by one packet of it: the rule that the meter of flows, the reassembly of
//! streams and scripts share. Evidence of a later packet that is stronger replaces that of the first one, where the
//! caller wants it to.
//!
//! | packet | the conversation was begun by |
//! |---|---|
//! | SYN without ACK | its sender |
//! | SYN with ACK | its receiver |
//! | from the port of a service to an ephemeral one | its receiver: the question was not captured |
//! | any other | its sender |

use super::agreement::{ACK, SYN};

/// Ports below this are services; ports from `EPHEMERAL_PORTS` on are ephemeral (Linux's default; IANA's 49152 is above
/// it).
const SERVICE_PORTS: u16 = 1024;
const EPHEMERAL_PORTS: u16 = 32768;

/// The evidence of a packet for the end that began its conversation, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitiatorEvidence {
    Syn,
    SynAck,
    Ports,
    /// None: its sender is the first one of which the capture has a packet.
    First,
}

/// The evidence of a packet with these flags of TCP (0 of another protocol) and the ports of its sender and its
/// receiver; true if its sender began the conversation, false if its receiver did.
#[inline]
pub fn initiator(tcp_flags: u8, ports: [u16; 2]) -> (InitiatorEvidence, bool) {
    match tcp_flags & (SYN | ACK) {
        SYN => return (InitiatorEvidence::Syn, true),
        flags if flags == SYN | ACK => return (InitiatorEvidence::SynAck, false),
        _ => {}
    }
    match ports {
        [from, to] if from < SERVICE_PORTS && to >= EPHEMERAL_PORTS => (InitiatorEvidence::Ports, false),
        _ => (InitiatorEvidence::First, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handshake_decides_before_the_ports_and_those_before_the_order() {
        let answer = [443, 53_059];
        for (flags, ports, evidence, is_sender) in [
            (SYN, answer, InitiatorEvidence::Syn, true),
            (SYN | ACK, [53_059, 443], InitiatorEvidence::SynAck, false),
            (ACK, answer, InitiatorEvidence::Ports, false),
            (0, [53, 40_000], InitiatorEvidence::Ports, false),
            (ACK, [53_059, 443], InitiatorEvidence::First, true),
            (ACK, [SERVICE_PORTS, EPHEMERAL_PORTS], InitiatorEvidence::First, true),
            (ACK, [80, EPHEMERAL_PORTS - 1], InitiatorEvidence::First, true),
            (0, [0, 0], InitiatorEvidence::First, true),
        ] {
            assert_eq!(initiator(flags, ports), (evidence, is_sender), "{flags} {ports:?}");
        }
    }
}
