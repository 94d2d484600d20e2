//! pcap filter expressions (pcap-filter(7)), compiled by libpcap to classic BPF.
//!
//! The kernel removes the outer VLAN tag of a frame before a socket filter runs. libpcap accounts for that
//! only on a live handle of the interface, so expressions for the kernel are compiled on one; a dead handle is
//! the fallback (for an interface that is down). Programs for frames in files are compiled on the header of such a
//! file: libpcap knows what differs there (address families of other systems, the writer's byte order, no direction).

use crate::Try;
use crate::packet::Insn;
use crate::packet::socket::attach_filter;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// An expression that does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the filter does not compile: {message}\n  {expression}\n  {:>column$}", "^", column = .at + 1)]
pub struct FilterError {
    pub expression: String,
    /// The message of libpcap.
    pub message: String,
    /// Byte offset of the error in the expression, if known.
    pub at: usize,
}

/// Compiles `expression` for a socket filter on interface `name`. Accepted packets are truncated to `snaplen`
/// bytes. `dlt` is the link type (DLT_*) to assume where no live handle can be opened.
pub fn compile(name: &str, dlt: i32, expression: &str, snaplen: u32) -> Result<Vec<Insn>, FilterError> {
    compile_on(Handle::live(name, snaplen).or_else(|| Handle::dead(dlt, snaplen)), expression)
}

/// Compiles `expression` for frames of a file of link type `linktype` (LINKTYPE_*), with their VLAN tags, as
/// `tcpdump -r` does. The file has the byte order of this machine, or the other one (`is_swapped`). Refuses expressions
/// on metadata that only the kernel has.
pub fn compile_offline(
    linktype: u16,
    is_swapped: bool,
    expression: &str,
    snaplen: u32,
) -> Result<Vec<Insn>, FilterError> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_ABS) as u16;
    const CLASS_AND_MODE: u16 = 0xe7;
    let handle = Handle::of_file(linktype, is_swapped, snaplen);
    let asks_kernel = |insn: &Insn| insn.code & CLASS_AND_MODE == LOAD && insn.k >= libc::SKF_AD_OFF as u32;
    let no_metadata = || {
        let words = ["inbound", "outbound", "ifindex"];
        let at = words.iter().filter_map(|word| expression.find(word)).min().unwrap_or(0);
        let message = "frames in a file have no direction and no interface index".to_owned();
        FilterError { expression: expression.to_owned(), message, at }
    };
    match compile_on(handle, expression) {
        Ok(program) if program.iter().any(asks_kernel) => Err(no_metadata()),
        Err(error) if error.message.contains("savefile") => Err(no_metadata()),
        compiled => compiled,
    }
}

/// Checks that the kernel accepts a program, by attaching it to a temporary socket.
pub fn check(program: &[Insn]) -> crate::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let (socket, _) =
        socketpair(AddressFamily::Unix, SockType::Datagram, None, flags).trying(|| "create a socket pair")?;
    attach_filter(&socket, program)
}

/// The instructions of a program, a line each, as `tcpdump -d` prints them.
pub fn listing(program: &[Insn]) -> String {
    // bpf_image returns a buffer of its own, which the next call overwrites.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let line = |(at, insn): (usize, &Insn)| {
        // SAFETY: the instruction is valid during the call. The result, a NUL-terminated string, is copied before the
        // next call, as the lock is held.
        let text = unsafe { CStr::from_ptr(bpf_image(insn, at as c_int)) };
        format!("{}\n", text.to_string_lossy())
    };
    program.iter().enumerate().map(line).collect()
}

/// The version of libpcap: `libpcap version 1.10.5 (with TPACKET_V3)`.
pub fn libpcap_version() -> String {
    // SAFETY: returns a NUL-terminated string that is never freed.
    unsafe { CStr::from_ptr(pcap_lib_version()) }.to_string_lossy().into_owned()
}

fn compile_on(handle: Option<Handle>, expression: &str) -> Result<Vec<Insn>, FilterError> {
    let refuse = |message: String, at| FilterError { expression: expression.to_owned(), message, at };
    let Some(handle) = handle else { return Err(refuse("libpcap is out of memory".to_owned(), 0)) };
    handle.compile(expression).map_err(|message| {
        let at = locate(expression, &message, |prefix| handle.compile(prefix).is_ok());
        refuse(message, at)
    })
}

/// The offset of the error in an expression: at the word that libpcap quotes, else after the longest prefix that
/// compiles, including any `and`, `or`, `not` that follows it.
fn locate(expression: &str, message: &str, compiles: impl Fn(&str) -> bool) -> usize {
    let quoted = message.split('\'').nth(1).or_else(|| message.split('"').nth(1));
    if let Some(at) = quoted.filter(|word| !word.is_empty()).and_then(|word| expression.find(word)) {
        return at;
    }
    let starts: Vec<usize> = word_starts(expression);
    let good = starts.iter().rev().find(|at| compiles(&expression[..**at]) && **at > 0).copied();
    let mut at = good.unwrap_or(0);
    while let Some(rest) = expression.get(at..) {
        let word = rest.split_whitespace().next().unwrap_or("");
        if !matches!(word, "and" | "or" | "not" | "&&" | "||" | "!") {
            break;
        }
        at = starts.iter().find(|start| **start > at).copied().unwrap_or(expression.len());
    }
    at.min(expression.len())
}

fn word_starts(expression: &str) -> Vec<usize> {
    let mut before = ' ';
    let mut starts = Vec::new();
    for (at, now) in expression.char_indices() {
        if !now.is_whitespace() && (before.is_whitespace() || "()".contains(before) || "()".contains(now)) {
            starts.push(at);
        }
        before = now;
    }
    starts
}

/// A `pcap_t`, closed on drop.
struct Handle {
    pcap: NonNull<Pcap>,
    /// The file that it reads, if that is in memory.
    _header: Option<Box<[u32; 6]>>,
}

impl Handle {
    fn live(name: &str, snaplen: u32) -> Option<Self> {
        let name = CString::new(name).ok()?;
        let mut errbuf = [0 as c_char; PCAP_ERRBUF_SIZE];
        // SAFETY: the name is NUL-terminated, and errbuf has the size that libpcap documents.
        let pcap = NonNull::new(unsafe { pcap_create(name.as_ptr(), errbuf.as_mut_ptr()) })?;
        let handle = Self { pcap, _header: None };
        // SAFETY: the handle is valid and not yet activated, as these calls require.
        let status = unsafe {
            pcap_set_snaplen(handle.pcap.as_ptr(), snaplen as c_int);
            pcap_activate(handle.pcap.as_ptr())
        };
        (status >= 0).then_some(handle)
    }

    fn dead(dlt: i32, snaplen: u32) -> Option<Self> {
        // SAFETY: takes numbers only.
        let pcap = NonNull::new(unsafe { pcap_open_dead(dlt, snaplen as c_int) })?;
        Some(Self { pcap, _header: None })
    }

    /// A handle of an empty file, which is in memory.
    fn of_file(linktype: u16, is_swapped: bool, snaplen: u32) -> Option<Self> {
        let words = [0xa1b2_c3d4, VERSION, 0, 0, snaplen, linktype.into()];
        let mut header = Box::new(words.map(|word: u32| if is_swapped { word.swap_bytes() } else { word }));
        if is_swapped {
            // Two words of 16 bits.
            header[1] = header[1].rotate_left(16);
        }
        // SAFETY: the bytes stay where they are until after the stream is closed, with the handle. The mode is
        // NUL-terminated.
        let stream =
            unsafe { libc::fmemopen(header.as_mut_ptr().cast(), size_of_val(&*header), c"r".as_ptr()) };
        if stream.is_null() {
            return None;
        }
        let mut errbuf = [0 as c_char; PCAP_ERRBUF_SIZE];
        // SAFETY: the stream is open, and errbuf has the size that libpcap documents.
        let pcap = NonNull::new(unsafe { pcap_fopen_offline(stream, errbuf.as_mut_ptr()) });
        if pcap.is_none() {
            // SAFETY: the stream is open, and libpcap, which failed, has left it to its owner.
            unsafe { libc::fclose(stream) };
        }
        pcap.map(|pcap| Self { pcap, _header: Some(header) })
    }

    fn compile(&self, expression: &str) -> Result<Vec<Insn>, String> {
        let text = CString::new(expression).map_err(|_| "the expression contains a NUL byte".to_owned())?;
        let mut program = BpfProgram { bf_len: 0, bf_insns: std::ptr::null_mut() };
        // SAFETY: handle, program and text are valid; 1 enables optimisation, the netmask is unknown.
        let status =
            unsafe { pcap_compile(self.pcap.as_ptr(), &mut program, text.as_ptr(), 1, PCAP_NETMASK_UNKNOWN) };
        if status != 0 {
            // SAFETY: pcap_geterr returns a NUL-terminated string inside the handle, copied below.
            let message = unsafe { CStr::from_ptr(pcap_geterr(self.pcap.as_ptr())) };
            return Err(message
                .to_string_lossy()
                .trim_start_matches("can't parse filter expression: ")
                .to_owned());
        }
        // SAFETY: on success libpcap filled bf_insns with bf_len instructions, at least one, whose layout
        // is that of `struct sock_filter`; they are copied before they are freed.
        let insns = unsafe { std::slice::from_raw_parts(program.bf_insns, program.bf_len as usize) }.to_vec();
        // SAFETY: pcap_compile filled the program, which is freed once.
        unsafe { pcap_freecode(&mut program) };
        Ok(insns)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle came from pcap_create, pcap_open_dead or pcap_fopen_offline and is closed once.
        unsafe { pcap_close(self.pcap.as_ptr()) };
    }
}

#[repr(C)]
struct Pcap {
    _opaque: [u8; 0],
}

/// `struct bpf_program`, pcap/bpf.h; its instructions have the layout of `struct sock_filter`.
#[repr(C)]
struct BpfProgram {
    bf_len: u32,
    bf_insns: *mut Insn,
}

const PCAP_ERRBUF_SIZE: usize = 256;
/// Version 2.4 of the format, as the two halves of a word.
const VERSION: u32 = if cfg!(target_endian = "big") { 0x0002_0004 } else { 0x0004_0002 };
const PCAP_NETMASK_UNKNOWN: u32 = 0xffff_ffff;

#[link(name = "pcap")]
unsafe extern "C" {
    fn pcap_create(source: *const c_char, errbuf: *mut c_char) -> *mut Pcap;
    fn pcap_set_snaplen(handle: *mut Pcap, snaplen: c_int) -> c_int;
    fn pcap_activate(handle: *mut Pcap) -> c_int;
    fn pcap_open_dead(linktype: c_int, snaplen: c_int) -> *mut Pcap;
    fn pcap_fopen_offline(stream: *mut libc::FILE, errbuf: *mut c_char) -> *mut Pcap;
    fn pcap_compile(
        handle: *mut Pcap,
        program: *mut BpfProgram,
        text: *const c_char,
        optimize: c_int,
        netmask: u32,
    ) -> c_int;
    fn pcap_geterr(handle: *mut Pcap) -> *const c_char;
    fn pcap_freecode(program: *mut BpfProgram);
    fn pcap_close(handle: *mut Pcap);
    fn pcap_lib_version() -> *const c_char;
    fn bpf_image(insn: *const Insn, number: c_int) -> *const c_char;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DLT_EN10MB, pcap/dlt.h.
    const ETHERNET: i32 = 1;

    fn place(expression: &str) -> (String, usize) {
        let error = compile("no-such-interface", ETHERNET, expression, 96).unwrap_err();
        (error.message, error.at)
    }

    #[test]
    fn a_filter_compiles_and_accepts_snaplen_bytes() {
        let program = compile("no-such-interface", ETHERNET, "udp port 53", 96).unwrap();
        let accepts = |insn: &Insn| insn.code == (libc::BPF_RET | libc::BPF_K) as u16 && insn.k == 96;
        assert!(program.len() > 5 && program.iter().any(accepts));
    }

    #[test]
    fn a_program_for_files_reads_tags_in_the_frame() {
        let load_ethertype = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
        let program = compile_offline(1, false, "vlan 5", 96).unwrap();
        assert_eq!((program[0].code, program[0].k), (load_ethertype, 12));
        assert_eq!(compile_offline(1, false, "ip and inbound", 96).unwrap_err().at, 7);
    }

    #[test]
    fn a_program_is_for_the_file_with_its_byte_order_and_the_families_of_all_systems() {
        const NULL: u16 = 0;
        let families = |is_swapped| {
            let program = compile_offline(NULL, is_swapped, "ip6", 96).unwrap();
            let jumps = program.iter().filter(|insn| insn.code == (libc::BPF_JMP | libc::BPF_JEQ) as u16);
            let mut families: Vec<_> = jumps.map(|insn| insn.k).collect();
            families.sort_unstable();
            families
        };
        let numbers = [24u32, 28, 30];
        assert_eq!(families(cfg!(target_endian = "little")), numbers);
        assert_eq!(families(cfg!(target_endian = "big")), numbers.map(u32::swap_bytes));
    }

    #[test]
    fn direction_is_refused_for_files_of_each_link_type() {
        for linktype in [0, 1, 9, 101, 105, 109, 127] {
            for word in ["inbound", "outbound", "ifindex 3"] {
                let error = compile_offline(linktype, false, word, 96).expect_err(word);
                assert!(error.message.starts_with("frames in a file have no"), "{linktype} {word}: {error}");
            }
        }
        assert!(compile_offline(113, false, "outbound", 96).is_ok(), "Linux cooked has it");
    }

    #[test]
    fn an_error_points_at_the_place() {
        let expression = "tcp port 80 and prot 443";
        assert_eq!(&expression[place(expression).1..], "prot 443");
        let (message, at) = place("tcp and (udp port)");
        assert!(!message.is_empty() && at >= 4, "{message} at {at}");
        let shown = compile("x", ETHERNET, "ip and and", 96).unwrap_err().to_string();
        assert!(shown.lines().count() == 3 && shown.ends_with('^'), "{shown}");
    }
}
