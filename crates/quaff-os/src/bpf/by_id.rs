//! Loaded programs and their maps, found by ID: those of another process, or of one that has ended. It changes nothing.

use super::sys::{self, read_info};
use crate::Result;
use std::os::fd::{AsRawFd, OwnedFd};

/// Most maps of a program that are listed.
const MAPS_MAX: usize = 8;
/// Offsets in `struct bpf_prog_info` (linux/bpf.h): the number of `map_ids`, their address, and `name`; bytes up to its
/// end.
const NR_MAP_IDS: usize = 52;
const MAP_IDS: usize = 56;
const NAME: std::ops::Range<usize> = 64..80;
/// Offsets in `struct bpf_map_info`, and bytes up to the end of the last one.
const MAP_TYPE: usize = 0;
const VALUE_SIZE: usize = 12;
const MAX_ENTRIES: usize = 16;
const MAP_INFO_BYTES: usize = 20;

/// The parts of `struct bpf_map_info` that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MapInfo {
    pub(super) map_type: u32,
    pub(super) value_bytes: u32,
    pub(super) max_entries: u32,
}

/// The name of the loaded program with that ID. Needs CAP_SYS_ADMIN.
///
/// # Errors
/// ENOENT when it is gone.
pub(crate) fn program_name(id: u32) -> Result<String> {
    let tried = || format!("read the name of the BPF program with ID {id}");
    let info = program_info(id, None, tried)?;
    let name = info[NAME].split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// The IDs of the maps of the loaded program with that ID, at most 8, in the order in which its instructions first name
/// them. Needs CAP_SYS_ADMIN.
///
/// # Errors
/// ENOENT when it is gone.
pub(crate) fn program_maps(id: u32) -> Result<Vec<u32>> {
    let mut ids = [0; MAPS_MAX];
    let tried = || format!("read the maps of the BPF program with ID {id}");
    let info = program_info(id, Some(&mut ids), tried)?;
    Ok(ids[..(word(&info, NR_MAP_IDS) as usize).min(MAPS_MAX)].to_vec())
}

fn program_info(
    id: u32,
    maps: Option<&mut [u32; MAPS_MAX]>,
    tried: impl Fn() -> String,
) -> Result<[u8; NAME.end]> {
    let fd = open(sys::BPF_PROG_GET_FD_BY_ID, id, &tried)?;
    let mut info = [0u8; NAME.end];
    if let Some(maps) = maps {
        info[NR_MAP_IDS..][..4].copy_from_slice(&(MAPS_MAX as u32).to_ne_bytes());
        info[MAP_IDS..][..8].copy_from_slice(&(maps.as_mut_ptr() as u64).to_ne_bytes());
    }
    let mut attr = sys::InfoByFd {
        bpf_fd: fd.as_raw_fd() as u32,
        info_len: info.len() as u32,
        info: info.as_mut_ptr() as u64,
    };
    // SAFETY: `info` outlives the call, which writes at most its length. The only address in it is that of `maps`,
    // which the caller has borrowed until this returns and which has the MAPS_MAX places that `info` says. All other
    // lengths are zero, which asks for no further arrays.
    unsafe { sys::bpf(sys::BPF_OBJ_GET_INFO_BY_FD, &mut attr, tried) }?;
    Ok(info)
}

/// Opens the map with that ID.
pub(super) fn map(id: u32) -> Result<(OwnedFd, MapInfo)> {
    let tried = || format!("open the BPF map with ID {id}");
    let fd = open(sys::BPF_MAP_GET_FD_BY_ID, id, tried)?;
    let info: [u8; MAP_INFO_BYTES] = read_info(&fd, tried)?;
    let [map_type, value_bytes, max_entries] = [MAP_TYPE, VALUE_SIZE, MAX_ENTRIES].map(|at| word(&info, at));
    Ok((fd, MapInfo { map_type, value_bytes, max_entries }))
}

fn open(command: i32, id: u32, tried: impl FnOnce() -> String) -> Result<OwnedFd> {
    let mut attr = sys::ById { id, ..sys::ById::default() };
    // SAFETY: these attributes hold no addresses, and both commands return a new descriptor.
    unsafe { sys::bpf_fd(command, &mut attr, tried) }
}

fn word(info: &[u8], at: usize) -> u32 {
    info.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}
