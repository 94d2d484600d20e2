//! The filters of a bench as tcpdump expressions.

use super::Filter;

/// Unused addresses. Source and destination alternate, so that libpcap's optimiser cannot keep a loaded address in a
/// register.
const ACCEPT_ALL: &str = "not (\
    ether src 03:00:00:00:00:01 or ether dst 07:00:00:00:00:02 or ether src 03:00:01:00:00:01 or \
    ether dst 07:00:01:00:00:02 or ether src 03:00:02:00:00:01 or ether dst 07:00:02:00:00:02 or \
    ether src 03:00:03:00:00:01 or ether dst 07:00:03:00:00:02 or ether src 03:00:04:00:00:01 or \
    ether dst 07:00:04:00:00:02 or ether src 03:00:05:00:00:01 or ether dst 07:00:05:00:00:02 or \
    ether src 03:00:06:00:00:01 or ether dst 07:00:06:00:00:02 or ether src 03:00:07:00:00:01 or \
    ether dst 07:00:07:00:00:02 or ether src 03:00:08:00:00:01 or ether dst 07:00:08:00:00:02 or \
    ether src 03:00:09:00:00:01 or ether dst 07:00:09:00:00:02 or ether src 03:00:0a:00:00:01 or \
    ether dst 07:00:0a:00:00:02 or ether src 03:00:0b:00:00:01 or ether dst 07:00:0b:00:00:02)";

/// No frame is that long.
const REJECT_ALL: &str = "len > 1000000";

impl Filter {
    /// The tcpdump expression; `None` without a filter. Like the accept-all filter of PAM 2007, `AcceptAll` executes
    /// about 50 instructions per packet.
    pub(super) fn expression(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::AcceptAll => Some(ACCEPT_ALL),
            Self::RejectAll => Some(REJECT_ALL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_os::filter::compile_offline;
    use quaff_wire::linktype::ETHERNET;

    /// Executes the compiled filters (linux/filter.h); returns the number of instructions and the result.
    fn run(filter: Filter, frame: &[u8]) -> (usize, u32) {
        let expression = filter.expression().expect("a filter");
        let program = compile_offline(ETHERNET.linktype, false, expression, 65_535).expect("it compiles");
        let (mut at, mut a, mut steps) = (0, 0u32, 0);
        loop {
            let insn = program[at];
            (at, steps) = (at + 1, steps + 1);
            let k = insn.k as usize;
            match insn.code {
                0x20 => a = u32::from_be_bytes(frame[k..k + 4].try_into().expect("4")),
                0x28 => a = u32::from(u16::from_be_bytes(frame[k..k + 2].try_into().expect("2"))),
                0x80 => a = frame.len() as u32,
                0x15 => at += usize::from(if a == insn.k { insn.jt } else { insn.jf }),
                0x25 => at += usize::from(if a > insn.k { insn.jt } else { insn.jf }),
                0x06 => return (steps, insn.k),
                code => panic!("{code:#x} is not supported by this test"),
            }
        }
    }

    #[test]
    fn one_accepts_all_after_50_instructions_and_one_rejects_all() {
        for bytes in [60, 64, 1514, 9000] {
            let frame: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
            let (steps, kept) = run(Filter::AcceptAll, &frame);
            assert!((48..=52).contains(&steps), "{steps}");
            assert!(kept as usize >= bytes);
            assert_eq!(run(Filter::RejectAll, &frame).1, 0);
        }
        assert_eq!(Filter::None.expression(), None);
    }
}
