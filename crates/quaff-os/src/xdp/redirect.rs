//! The XDP program of a capture: counts each frame of an interface, stamps it, and redirects it to the AF_XDP socket of
//! its receive queue. A frame of a queue without a socket continues to the stack, and is counted.
//!
//! Not every driver counts the frames that the kernel failed to redirect, so the program counts what it sees: what no
//! socket received is lost. It never looks at the contents of a frame.

use super::rx::{STAMP_BYTES, STAMP_MAGIC, XdpRx};
use crate::bpf::{
    Alu, ArrayMap, Asm, Helper, Jmp, Program, Reg, Size, SocketMap, Verdict, XdpHook, XdpLink, program_name,
};
use crate::rtnl::Link;
use crate::{Error, Result};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Words of a cache line: each core counts in its own.
const LINE_WORDS: usize = 8;
/// Cores with a line of their own, a power of two; cores of higher numbers share lines.
const CORES: usize = 1024;
/// The word that the program reads: not 0 while the capture runs. Its line is only read.
const IS_OPEN: usize = 0;
/// Offsets in the line of a core, words.
const SEEN: usize = 0;
const PASSED: usize = 1;
/// `MEMBARRIER_CMD_GLOBAL` (linux/membarrier.h).
const MEMBARRIER_CMD_GLOBAL: i32 = 1;
/// A run of the program lasts microseconds; this is for kernels without the barrier.
const RUN_MAX: Duration = Duration::from_millis(50);

/// The counts of the program since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct XdpCounts {
    /// Frames that it ran on.
    pub seen: u64,
    /// Frames of queues without a socket.
    pub passed: u64,
}

/// The program on an interface. Dropping it, or the end of the process, detaches it.
#[derive(Debug)]
pub struct XdpRedirect {
    // Before the maps, so that the program is detached first.
    _link: XdpLink,
    sockets: SocketMap,
    counters: ArrayMap,
    hook: XdpHook,
    program_id: u32,
}

impl XdpRedirect {
    /// Attaches the program for `queues` receive queues, in the driver where that runs programs, or at `hook`. Frames
    /// continue to the stack until [`XdpRedirect::start`].
    ///
    /// # Errors
    /// EBUSY or EEXIST when the interface has another program, which the advice names.
    pub fn attach(link: &Link, queues: u32, hook: Option<XdpHook>) -> Result<Self> {
        if let Some(id) = link.xdp_program {
            let tried = format!("attach an XDP program to {}", link.name);
            return Err(Error::new(tried, io::Error::from_raw_os_error(libc::EBUSY)).advise(present(id)));
        }
        let counters = ArrayMap::new("quaff_counts", (1 + CORES) * LINE_WORDS)?;
        let sockets = SocketMap::new("quaff_sockets", queues)?;
        let program = Program::load_xdp("quaff_capture", program(&counters, &sockets))?;
        let program_id = program.id()?;
        let attach = |hook| XdpLink::attach(&program, link.index, &link.name, hook).map(|link| (link, hook));
        let attached = match hook {
            Some(hook) => attach(hook),
            None => match attach(XdpHook::Native) {
                Err(error) if error.raw() == libc::EOPNOTSUPP => attach(XdpHook::Generic),
                attached => attached,
            },
        };
        let (attached, hook) = attached.map_err(|error| advise(error, link))?;
        Ok(Self { _link: attached, sockets, counters, hook, program_id })
    }

    /// The place at which the program runs.
    pub fn hook(&self) -> XdpHook {
        self.hook
    }

    /// The action by which another program displaced this one, by the present state of the interface; `None` while it
    /// is attached. The owner of a BPF link receives no notice when the link is detached or gets another program.
    pub fn displaced(&self, now: &Link) -> Option<String> {
        match now.xdp_program {
            // The kernel does not report the ID.
            Some(0) => None,
            Some(id) if id == self.program_id => None,
            Some(id) => {
                Some(format!("another program replaced the XDP program of the capture by that with ID {id}"))
            }
            None => Some("another program detached the XDP program of the capture".to_owned()),
        }
    }

    /// Sets the socket of a receive queue.
    pub fn set(&self, queue: u32, socket: &XdpRx) -> Result<()> {
        self.sockets.set(queue, socket.as_fd())
    }

    /// Counts and redirects frames from here on.
    pub fn start(&self) {
        self.counters.store(IS_OPEN, 1);
    }

    /// Counts and redirects nothing more. When this returns, every counted frame is in the ring of a socket or lost.
    pub fn stop(&self) {
        self.counters.store(IS_OPEN, 0);
        wait_for_programs();
    }

    /// The counts of all cores.
    pub fn counts(&self) -> XdpCounts {
        let sum = |of: usize| (1..=CORES).map(|line| self.counters.load(line * LINE_WORDS + of)).sum();
        XdpCounts { seen: sum(SEEN), passed: sum(PASSED) }
    }
}

/// Waits for the end of the programs that run now, and of the delivery of what they redirect: both are in one RCU read
/// section.
pub(super) fn wait_for_programs() {
    // SAFETY: the call takes no addresses.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if done != 0 {
        std::thread::sleep(RUN_MAX);
    }
}

/// The program, as in the module's description.
fn program(counters: &ArrayMap, sockets: &SocketMap) -> Asm {
    use Reg::{R0, R1, R2, R3, R4, R6, R7, R8};
    let mut asm = Asm::default();
    let (closed, redirect, done) = (asm.label(), asm.label(), asm.label());
    asm.mov64(R6, R1);
    asm.ld_map_value(R7, counters, 0);
    asm.ldx_mem(Size::Dw, R1, R7, IS_OPEN * 8);
    asm.jmp(Jmp::Jeq, R1, 0, closed);
    // R7: the line of this core, after the first.
    asm.call(Helper::GetSmpProcessorId);
    asm.alu64(Alu::And, R0, CORES as i32 - 1);
    asm.alu64(Alu::Lsh, R0, (LINE_WORDS * 8).trailing_zeros() as i32);
    asm.alu64(Alu::Add, R7, R0);
    asm.mov64(R1, 1);
    asm.atomic_fetch_add64(R7, (LINE_WORDS + SEEN) * 8, R1);
    // The stamp, where the driver carries it.
    asm.call(Helper::KtimeGetNs);
    asm.mov64(R8, R0);
    asm.mov64(R1, R6);
    asm.mov64(R2, -(STAMP_BYTES as i32));
    asm.call(Helper::XdpAdjustMeta);
    asm.jmp(Jmp::Jne, R0, 0, redirect);
    asm.ld_meta(R2, R6);
    asm.ldx_mem(Size::W, R3, R6, 0);
    asm.mov64(R4, R2);
    asm.alu64(Alu::Add, R4, STAMP_BYTES as i32);
    asm.jmp(Jmp::Jgt, R4, R3, redirect);
    asm.st_mem(Size::Dw, R2, R8, 0);
    asm.ld_imm64(R1, STAMP_MAGIC);
    asm.st_mem(Size::Dw, R2, R1, 8);
    asm.place(redirect);
    asm.ld_rx_queue(R2, R6);
    asm.ld_socket_map(R1, sockets);
    asm.mov64(R3, Verdict::XdpPass);
    asm.call(Helper::RedirectMap);
    asm.jmp(Jmp::Jeq, R0, Verdict::XdpRedirect, done);
    asm.mov64(R1, 1);
    asm.atomic_fetch_add64(R7, (LINE_WORDS + PASSED) * 8, R1);
    asm.place(closed);
    asm.mov64(R0, Verdict::XdpPass);
    asm.place(done);
    asm.exit();
    asm
}

/// Advice about a failure to attach.
fn advise(error: Error, link: &Link) -> Error {
    match error.raw() {
        // Attached since the interface was looked up.
        libc::EBUSY | libc::EEXIST => {
            let now = crate::rtnl::link(&link.name).ok().and_then(|link| link.xdp_program);
            error.advise(now.map_or_else(|| "another XDP program is attached".to_owned(), present))
        }
        libc::EOPNOTSUPP => error.advise("the driver runs no XDP programs: capture by `via` packet"),
        libc::EINVAL | libc::ERANGE => error.advise(format!(
            "the driver refuses the program, often because of an MTU ({}) or a number of queues that it cannot combine \
             with XDP: lower the MTU, also of the peer of a veth, or capture by `via` xdp-generic or packet",
            link.mtu
        )),
        _ => error,
    }
}

/// The program that is attached, and the advice.
fn present(id: u32) -> String {
    let name = program_name(id).ok().filter(|name| !name.is_empty());
    let name = name.map_or_else(String::new, |name| format!(" '{name}'"));
    format!(
        "the XDP program{name} with ID {id} is attached ('bpftool net' shows by whom): end it, or capture by `via` packet"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_accepts_the_program() {
        let loaded = ArrayMap::new("quaff_test", (1 + CORES) * LINE_WORDS).and_then(|counters| {
            let sockets = SocketMap::new("quaff_test", 4)?;
            let program = Program::load_xdp("quaff_test", program(&counters, &sockets))?;
            Ok((counters, sockets, program))
        });
        match loaded {
            Err(error) if crate::testing::is_refusal(&error) => {
                crate::testing::skip("the_verifier_accepts_the_program", &error.to_string());
            }
            loaded => drop(loaded.expect("a valid program")),
        }
    }

    #[test]
    fn a_program_that_is_gone_has_no_name() {
        assert!(present(u32::MAX).starts_with("the XDP program with ID 4294967295 is attached"));
    }
}
