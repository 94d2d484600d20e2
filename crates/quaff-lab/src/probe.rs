//! The permissions that quaff needs on this machine. Each is determined by trying: on some systems a namespace can be
//! created, but nothing is permitted inside it.

use crate::lab::{RX, TX};
use crate::{Error, Lab, LabPlan};
use quaff_os::bpf::{Asm, LiveRun, Program, Reg, Verdict};
use quaff_os::disk::{direct_align, open_unnamed};
use quaff_os::packet::{CountingTap, Cursor, Qdisc, RingPlan, RxRing, TimeSource, TxSocket, accept};
use quaff_os::rtnl::{LinkChange, Rtnl};
use quaff_os::{Buffer, Try, Wakeup, cpu, probe as os, rtnl};
use serde::Serialize;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Memory that the trial locks, bytes: a small capture ring.
const LOCK_BYTES: usize = 64 << 20;
/// Number of injected frames.
const LIVE_FRAMES: u32 = 16;
/// Time limit for a frame from one end of a lab to the other.
const FRAME_WAIT: Duration = Duration::from_secs(2);

/// The result of one trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Permit {
    /// The facility that was tried.
    pub what: &'static str,
    /// The feature of quaff that needs it.
    pub purpose: &'static str,
    pub permitted: bool,
    /// The result; or the error, with advice.
    pub detail: String,
}

/// Description of the result, or of the error.
type Trial = Result<String, String>;

/// Runs all trials; file trials use `dir`.
pub fn probe(dir: &Path) -> Vec<Permit> {
    let begun = Instant::now();
    let lab = Lab::create(&LabPlan::default());
    let took = begun.elapsed();
    let made = lab.as_ref().map(|_| format!("two of them and a link, up in {} ms", took.as_millis()));
    vec![
        permit("namespaces", "the lab", made.map_err(|error| error.to_string())),
        permit("AF_PACKET", "capture", lab.as_ref().map_or_else(|_| af_packet_alone(), af_packet)),
        permit("XDP", "capture by AF_XDP", lab.as_ref().map_or_else(without_lab, xdp)),
        permit("BPF live frames", "generate --inject", lab.as_ref().map_or_else(without_lab, live_frames)),
        permit("io_uring", "writing to disk beside the capture", io_uring()),
        permit("O_DIRECT", "writing to disk past the page cache", o_direct(dir)),
        permit("memlock", "buffers that are never swapped out", memlock()),
        permit("real time", "capture --rt", real_time()),
    ]
}

fn permit(what: &'static str, purpose: &'static str, trial: Trial) -> Permit {
    let permitted = trial.is_ok();
    Permit { what, purpose, permitted, detail: trial.unwrap_or_else(|why| why) }
}

/// Sends a frame over the link and receives it by a TPACKET_V3 ring at the other end.
fn af_packet(lab: &Lab) -> Trial {
    let received = || -> quaff_os::Result<u32> {
        let wakeup = Wakeup::new()?;
        let ring = lab.rx.run(|| ring(RX.name))??;
        lab.tx.run(|| {
            let index = rtnl::link(TX.name)?.index;
            TxSocket::open(index, TX.name, Qdisc::Through)?.send_one(&a_frame())
        })??;
        let begun = Instant::now();
        while begun.elapsed() < FRAME_WAIT {
            if let Some(block) = ring.block() {
                return Ok(Cursor::new(block).left);
            }
            ring.wait(&wakeup, Duration::from_millis(10))?;
        }
        Ok(0)
    };
    match received() {
        Ok(1) => Ok("a frame was sent, and found in a TPACKET_V3 ring".into()),
        Ok(found) => Err(format!("one frame was sent, and {found} found in a TPACKET_V3 ring")),
        Err(error) => Err(error.to_string()),
    }
}

/// The trial without a lab: CAP_NET_RAW alone permits capturing.
fn af_packet_alone() -> Trial {
    ring("lo").map(|_| "a TPACKET_V3 ring was bound to lo".into()).map_err(|error| error.to_string())
}

fn ring(interface: &str) -> quaff_os::Result<RxRing> {
    let plan = RingPlan {
        block_bytes: 1 << 16,
        block_count: 2,
        retire_ms: 1,
        promiscuous: false,
        filter: vec![accept(u32::MAX)],
        time_source: TimeSource::Host,
    };
    let ring = RxRing::allocate(interface, &plan)?;
    ring.bind(rtnl::link(interface)?.index, interface)?;
    Ok(ring)
}

/// The smallest frame, with an EtherType without a handler (IEEE 802 local experimental, 0x88b5).
fn a_frame() -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&RX.mac);
    frame[6..12].copy_from_slice(&TX.mac);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

fn without_lab(_: &Error) -> Trial {
    Err("it needs the link of a lab, and no namespaces can be created for one".into())
}

/// Attaches a program to one end of the link in driver mode, and detaches it.
fn xdp(lab: &Lab) -> Trial {
    let trial = || -> quaff_os::Result<()> {
        let program = pass_all()?;
        lab.rx.run(|| {
            let mut rtnl = Rtnl::open()?;
            let index = rtnl.link(RX.name)?.index;
            rtnl.change(index, LinkChange::Xdp(Some(&program)))?;
            rtnl.change(index, LinkChange::Xdp(None))
        })?
    };
    trial()
        .map(|()| "a program was loaded, and attached to a veth interface in its driver".into())
        .map_err(|error| error.to_string())
}

/// Injects frames at one end of the link and counts those offered to a packet socket there. (The counters of a veth
/// interface only include frames from its peer.)
fn live_frames(lab: &Lab) -> Trial {
    let trial = || -> quaff_os::Result<u64> {
        let program = pass_all()?;
        lab.rx.run(|| {
            let ifindex = rtnl::link(RX.name)?.index;
            let mut tap = CountingTap::open(ifindex, RX.name, None)?;
            program.run_live(LiveRun { ifindex, frame: &a_frame(), repeat: LIVE_FRAMES, batch: 1 })?;
            tap.read()
        })?
    };
    match trial() {
        Ok(seen) if seen == u64::from(LIVE_FRAMES) => {
            Ok(format!("{seen} frames were injected, and offered to a packet socket"))
        }
        Ok(seen) => Err(format!("{LIVE_FRAMES} frames were injected, and {seen} offered to a packet socket")),
        Err(error) => Err(error.to_string()),
    }
}

/// An XDP program that passes every frame to the stack.
fn pass_all() -> quaff_os::Result<Program> {
    let mut asm = Asm::default();
    asm.mov64(Reg::R0, Verdict::XdpPass);
    asm.exit();
    Program::load_xdp("quaff_probe", asm)
}

fn io_uring() -> Trial {
    os::io_uring().map(|()| "a request was submitted and completed".into()).map_err(|error| error.to_string())
}

/// Writes one block with the alignment that the file system requires to an unnamed file.
fn o_direct(dir: &Path) -> Trial {
    let trial = || -> quaff_os::Result<String> {
        let dir = dir.canonicalize().trying(|| format!("find {}", dir.display()))?;
        let shown = dir.display();
        let file = open_unnamed(&dir, true).trying(|| format!("open a file with O_DIRECT in {shown}"))?;
        let align = direct_align(&file)
            .ok_or(io::Error::from(io::ErrorKind::Unsupported))
            .trying(|| format!("learn the alignment of O_DIRECT in {shown}"))
            .map_err(|error| error.advise("the file system has none, or only pretends; try another"))?;
        let block = Buffer::new(align)?;
        file.write_all_at(&block[..align], 0).trying(|| format!("write {align} bytes in {shown}"))?;
        Ok(format!("a block of {align} bytes was written in {shown}"))
    };
    trial().map_err(|error| error.to_string())
}

fn memlock() -> Trial {
    let size = LOCK_BYTES >> 20;
    let trial = || -> quaff_os::Result<String> {
        Buffer::new(LOCK_BYTES)?.lock()?;
        Ok(match os::memlock_bytes()? {
            None => format!("{size} MiB were locked; there is no limit"),
            Some(limit) => format!("{size} MiB were locked; the limit is {} MiB", limit >> 20),
        })
    };
    trial().map_err(|error| match os::memlock_bytes() {
        Ok(Some(limit)) => format!("{error} (the limit is {} KiB)", limit >> 10),
        _ => error.to_string(),
    })
}

/// Runs on a separate thread, so that the caller keeps its priority.
fn real_time() -> Trial {
    let trial = quaff_os::spawn("quaff-probe", || cpu::real_time(1)).map_err(|error| error.to_string())?;
    match trial.join() {
        Ok(Ok(())) => Ok("a thread ran with SCHED_FIFO".into()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the thread that tried it died".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_reported_with_a_reason() {
        let permits = probe(Path::new("/no/such/directory"));
        for permit in &permits {
            assert!(!permit.detail.is_empty() && !permit.purpose.is_empty(), "{permit:?}");
            assert!(permit.what == "O_DIRECT" || permit.permitted || permit.detail.len() > 10, "{permit:?}");
        }
        let refused = permits.iter().find(|permit| permit.what == "O_DIRECT").unwrap();
        assert!(!refused.permitted && refused.detail.contains("/no/such/directory"), "{refused:?}");
    }

    #[test]
    fn a_file_system_in_memory_has_no_o_direct() {
        // tmpfs accepts the flag since Linux 6.6, and ignores it.
        if Path::new("/dev/shm").is_dir() {
            let refused = o_direct(Path::new("/dev/shm"));
            assert!(refused.is_err(), "{refused:?}");
        }
    }
}
