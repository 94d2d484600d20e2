//! BPF programs: loads them, and runs XDP programs on frames from user space.

use super::asm::{Asm, Insn};
use super::sys::{self, ProgLoad, ProgRun, XdpMd, read_info};
use crate::Result;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const LOG_BYTES: usize = 1 << 20;
/// Last lines of the log that an error repeats: they have the reason.
const LOG_LINES: usize = 12;

/// A loaded program.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
}

/// One run on live frames (Documentation/bpf/bpf_prog_run.rst).
#[derive(Debug, Clone, Copy)]
pub struct LiveRun<'a> {
    /// The interface that receives frames which the program passes (XDP_PASS).
    pub ifindex: u32,
    /// Initial contents of each page; a reused page keeps the program's changes.
    pub frame: &'a [u8],
    pub repeat: u32,
    /// Frames per batch, 1 to 256 (`TEST_XDP_MAX_BATCH`, net/bpf/test_run.c).
    pub batch: u32,
}

impl Program {
    /// Loads an XDP program. An error of the verifier has the end of its log as advice.
    ///
    /// # Panics
    /// When a label of the program was never placed.
    pub fn load_xdp(name: &str, program: Asm) -> Result<Self> {
        Self::load(sys::BPF_PROG_TYPE_XDP, name, &program.finish())
    }

    /// Loads a tc program, to be attached by [`crate::rtnl::LinkChange::Program`].
    ///
    /// # Panics
    /// When a label of the program was never placed.
    pub fn load_tc(name: &str, program: Asm) -> Result<Self> {
        Self::load(sys::BPF_PROG_TYPE_SCHED_CLS, name, &program.finish())
    }

    fn load(prog_type: u32, name: &str, insns: &[Insn]) -> Result<Self> {
        match load(prog_type, name, insns, &mut []) {
            Err(error) if matches!(error.raw(), libc::EINVAL | libc::EACCES | libc::E2BIG) => {
                let mut log = vec![0; LOG_BYTES];
                match load(prog_type, name, insns, &mut log) {
                    Ok(fd) => Ok(Self { fd }),
                    Err(error) => Err(error.advise(format!("log of the verifier:\n{}", tail(&log)))),
                }
            }
            loaded => loaded.map(|fd| Self { fd }),
        }
    }

    /// The ID by which the kernel knows it, which route netlink reports for an interface.
    pub fn id(&self) -> Result<u32> {
        /// Offset of `id` in `struct bpf_prog_info`.
        const ID: usize = 4;
        let info: [u8; ID + 4] = read_info(&self.fd, || "read the ID of a BPF program".to_owned())?;
        Ok(info.last_chunk().copied().map_or(0, u32::from_ne_bytes))
    }

    /// Runs the program `repeat` times on live frames, synchronously. Set-up and teardown take about 30 ms. No
    /// XDP program needs to be attached; an attached one does not see the frames.
    ///
    /// # Errors
    /// EINTR when a signal to the calling thread ended the run after the current batch; EINVAL for a frame that
    /// does not fit a page with its headroom.
    pub fn run_live(&self, run: LiveRun<'_>) -> Result<()> {
        let frame_bytes = run.frame.len() as u32;
        let context = XdpMd { data_end: frame_bytes, ingress_ifindex: run.ifindex, ..XdpMd::default() };
        let mut attr = ProgRun {
            prog_fd: self.fd.as_raw_fd() as u32,
            data_size_in: frame_bytes,
            data_in: run.frame.as_ptr() as u64,
            repeat: run.repeat,
            ctx_size_in: size_of::<XdpMd>() as u32,
            ctx_in: &raw const context as u64,
            flags: sys::BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: run.batch,
            ..ProgRun::default()
        };
        let tried = || format!("inject frames of {frame_bytes} bytes");
        // SAFETY: frame and context outlive the call, which only reads them; the sizes are theirs.
        unsafe { sys::bpf(sys::BPF_PROG_RUN, &mut attr, tried) }.map(|_| ())
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn load(prog_type: u32, name: &str, insns: &[Insn], log: &mut [u8]) -> Result<OwnedFd> {
    let mut attr = ProgLoad {
        prog_type,
        insn_cnt: insns.len() as u32,
        insns: insns.as_ptr() as u64,
        license: c"MIT".as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        prog_name: sys::name(name),
        ..ProgLoad::default()
    };
    // SAFETY: instructions, licence and log outlive the call, the counts are those of the slices, and
    // BPF_PROG_LOAD returns a new descriptor.
    unsafe { sys::bpf_fd(sys::BPF_PROG_LOAD, &mut attr, || format!("load the BPF program {name:?}")) }
}

/// The last lines of a log that ends at its first zero byte.
fn tail(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
