//! Counts the packets, bytes and flows of a capture from its headers: the load that every meter has to report. Uses no
//! meter.

use crate::method::Load;
use crate::{Error, Result};
use quaff::format::count;
use quaff_file::read::CaptureFile;
use quaff_wire::decode::Item;
use quaff_wire::flow::FlowPacket;
use quaff_wire::linktype::ETHERNET;
use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;

/// A flow: addresses, ports and protocol of one direction.
type Key = ([IpAddr; 2], [u16; 2], u8);

/// Counts a capture.
///
/// # Errors
/// The file cannot be read to its end, has frames of another link type than Ethernet, or has no flows.
pub fn survey(path: &Path) -> Result<Load> {
    let wrong = |what: String| Error::Place(format!("{}: {what}", path.display()));
    let mut file = CaptureFile::open(path)?;
    let (mut load, mut flows, mut foreign) = (Load::default(), HashSet::<Key>::new(), 0u64);
    let mut add = |item: Item<'_>| {
        let Item::Frame(frame) = item else { return };
        load.frames += 1;
        foreign += u64::from(frame.linktype != ETHERNET.linktype);
        if let Ok(packet) = FlowPacket::read(frame.data, frame.wire_len, ETHERNET.linktype) {
            load.packets += 1;
            load.bytes += u64::from(packet.ip_bytes);
            flows.insert((packet.addresses, packet.ports, packet.protocol));
        }
    };
    while file.pull(&mut add).map_err(|error| wrong(error.to_string()))? {}
    load.flows = flows.len() as u64;
    match load.flows {
        _ if foreign > 0 => {
            let foreign = count(foreign);
            let what = "of its frames are not of Ethernet, and are not replayed; choose another capture";
            Err(wrong(format!("{foreign} {what}")))
        }
        0 => Err(wrong("it has no IP packets; choose another capture".into())),
        _ => Ok(load),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A capture of `linktype` (libpcap's format: magic, version 2.4, snaplen 65535; each frame after four words).
    fn capture(linktype: u32, frames: &[Vec<u8>]) -> tempfile::NamedTempFile {
        let mut bytes: Vec<u8> = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, linktype]
            .into_iter()
            .flat_map(u32::to_ne_bytes)
            .collect();
        for frame in frames {
            let length = frame.len() as u32;
            bytes.extend([1, 0, length, length].into_iter().flat_map(u32::to_ne_bytes));
            bytes.extend(frame);
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("written");
        file
    }

    /// A UDP packet of 30 bytes with the IP header, in a frame padded to 60.
    fn udp(source: u8, destination: u8, port: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend([10, 0, 0, source, 10, 0, 0, destination]);
        frame.extend([port, 53, 10, 0].into_iter().flat_map(u16::to_be_bytes));
        frame.resize(60, 0);
        frame
    }

    #[test]
    fn each_direction_is_a_flow_and_padding_does_not_count() {
        let arp = [vec![0; 12], vec![8, 6], vec![0; 46]].concat();
        let frames = [udp(1, 2, 5), udp(1, 2, 5), udp(2, 1, 5), udp(1, 2, 6), arp.clone()];
        let file = capture(1, &frames);
        let load = survey(file.path()).expect("a capture");
        assert_eq!(load, Load { frames: 5, packets: 4, bytes: 4 * 30, flows: 3 });
        let error = survey(capture(1, &[arp]).path()).expect_err("no IP").to_string();
        assert!(error.contains("no IP packets"), "{error}");
    }

    #[test]
    fn frames_that_are_not_replayed_are_refused() {
        let ip = udp(1, 2, 5)[14..].to_vec();
        let error = survey(capture(101, &[ip]).path()).expect_err("raw IP").to_string();
        assert!(error.contains("1 of its frames are not of Ethernet"), "{error}");
    }
}
