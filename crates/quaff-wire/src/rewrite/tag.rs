//! VLAN tags (IEEE 802.1Q): push, pop, set.

use crate::ParseError;
use crate::net::vlan::is_tpid;
use crate::net::{ETHERNET_BYTES, MACS_BYTES, TAG_BYTES, TPID_CUSTOMER, TPID_SERVICE};
use std::str::FromStr;

/// Offset of the first tag, after the MAC addresses.
const AT: usize = MACS_BYTES;

/// An edit of the outermost tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagEdit(Edit);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    /// Push a tag in front of all others. The TPID is 0x88a8 before another tag and otherwise 0x8100, other fields are
    /// 0, unless given.
    Push(TagFields),
    /// Remove the tag, if present.
    Pop,
    /// Change the tag, if present.
    Set(TagFields),
}

/// The fields of a tag; `None` keeps a field.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct TagFields {
    tpid: Option<u16>,
    /// VLAN id, 12 bits.
    vid: Option<u16>,
    /// Priority, 3 bits.
    pcp: Option<u8>,
    /// Drop eligible indicator.
    dei: Option<bool>,
}

impl TagFields {
    /// The TCI with these fields replaced.
    fn of(&self, tci: u16) -> u16 {
        let vid = self.vid.map_or(tci & 0xfff, |vid| vid & 0xfff);
        let pcp = self.pcp.map_or(tci >> 13, |pcp| u16::from(pcp & 7));
        let dei = self.dei.map_or(tci >> 12 & 1, u16::from);
        pcp << 13 | dei << 12 | vid
    }
}

impl TagEdit {
    /// True for an edit that keeps the length of the frame.
    pub(super) fn keeps_length(&self) -> bool {
        matches!(self.0, Edit::Set(_))
    }

    /// Applies an edit that changes the length of the frame.
    pub(super) fn resize(&self, frame: &mut Vec<u8>) {
        if frame.len() < ETHERNET_BYTES {
            return;
        }
        match self.0 {
            Edit::Push(fields) => {
                let tpid = if is_tagged(frame) { TPID_SERVICE } else { TPID_CUSTOMER };
                let [a, b] = fields.tpid.unwrap_or(tpid).to_be_bytes();
                let [c, d] = fields.of(0).to_be_bytes();
                frame.splice(AT..AT, [a, b, c, d]);
            }
            Edit::Pop if is_tagged(frame) => {
                frame.drain(AT..AT + TAG_BYTES);
            }
            Edit::Pop | Edit::Set(_) => {}
        }
    }

    /// Applies an edit that keeps the length of the frame.
    pub(super) fn set(&self, frame: &mut [u8]) {
        let Edit::Set(fields) = self.0 else { return };
        if !is_tagged(frame) {
            return;
        }
        if let Some(tpid) = fields.tpid {
            frame[AT..AT + 2].copy_from_slice(&tpid.to_be_bytes());
        }
        let tci = fields.of(u16::from_be_bytes([frame[AT + 2], frame[AT + 3]]));
        frame[AT + 2..AT + 4].copy_from_slice(&tci.to_be_bytes());
    }
}

/// True if there is a tag, followed by an EtherType.
fn is_tagged(frame: &[u8]) -> bool {
    frame.len() >= ETHERNET_BYTES + TAG_BYTES && is_tpid(u16::from_be_bytes([frame[AT], frame[AT + 1]]))
}

impl FromStr for TagEdit {
    type Err = ParseError;

    /// Parses `pop`, `push:100`, `push:vid=100,pcp=5,dei=1,tpid=0x88a8`, `set:pcp=3`.
    fn from_str(word: &str) -> Result<Self, ParseError> {
        let no = |why| ParseError::of(word, why);
        let Some((verb, fields)) = word.split_once(':') else {
            return if word == "pop" {
                Ok(Self(Edit::Pop))
            } else {
                Err(no("is not pop, push:… or set:…"))
            };
        };
        let fields = fields
            .split(',')
            .try_fold(TagFields::default(), field)
            .ok_or(no("has a part that is not vid=0…4095, pcp=0…7, dei=0…1 or tpid=0x8100"))?;
        match verb {
            "push" => Ok(Self(Edit::Push(fields))),
            "set" => Ok(Self(Edit::Set(fields))),
            _ => Err(no("is not pop, push:… or set:…")),
        }
    }
}

fn field(fields: TagFields, word: &str) -> Option<TagFields> {
    let (name, value) = word.split_once('=').unwrap_or(("vid", word));
    let value = match value.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16),
        None => value.parse(),
    };
    let value = value.ok()?;
    Some(match name {
        "vid" if value < 4096 => TagFields { vid: Some(value), ..fields },
        "pcp" if value < 8 => TagFields { pcp: Some(value as u8), ..fields },
        "dei" if value < 2 => TagFields { dei: Some(value == 1), ..fields },
        "tpid" if is_tpid(value) => TagFields { tpid: Some(value), ..fields },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_testpackets as build;

    fn edited(words: &[&str], tags: &[(u16, u16)]) -> Vec<u8> {
        let mut frame = build::ethernet(tags, 0x0800, b"payload");
        for word in words {
            let edit: TagEdit = word.parse().unwrap();
            edit.resize(&mut frame);
            edit.set(&mut frame);
        }
        frame
    }

    #[test]
    fn tags_are_pushed_popped_and_changed() {
        let frame = |tags: &[(u16, u16)]| build::ethernet(tags, 0x0800, b"payload");
        assert_eq!(edited(&["push:100"], &[]), frame(&[(0x8100, 100)]));
        assert_eq!(
            edited(&["push:vid=5,pcp=7,dei=1"], &[(0x8100, 9)]),
            frame(&[(0x88a8, 0xf005), (0x8100, 9)])
        );
        assert_eq!(edited(&["push:tpid=0x9100,vid=1"], &[]), frame(&[(0x9100, 1)]));
        assert_eq!(edited(&["pop"], &[(0x88a8, 1), (0x8100, 2)]), frame(&[(0x8100, 2)]));
        assert_eq!(edited(&["pop", "pop", "pop"], &[(0x88a8, 1), (0x8100, 2)]), frame(&[]));
        assert_eq!(edited(&["set:7"], &[(0x8100, 0xb009)]), frame(&[(0x8100, 0xb007)]));
        assert_eq!(edited(&["set:dei=0,tpid=0x88a8"], &[(0x8100, 0xb009)]), frame(&[(0x88a8, 0xa009)]));
        assert_eq!(edited(&["set:7"], &[]), frame(&[]));
    }

    #[test]
    fn short_frames_stay_as_they_are() {
        for bytes in 0..18 {
            let whole = build::ethernet(&[(0x8100, 1)], 0x0800, &[]);
            for word in ["pop", "set:vid=5"] {
                let mut frame = whole[..bytes].to_vec();
                word.parse::<TagEdit>().unwrap().resize(&mut frame);
                word.parse::<TagEdit>().unwrap().set(&mut frame);
                assert_eq!(frame, whole[..bytes], "{word} {bytes}");
            }
        }
    }

    #[test]
    fn a_bad_edit_is_refused() {
        for word in [
            "",
            "push",
            "push:",
            "push:4096",
            "set:pcp=8",
            "set:dei=2",
            "push:tpid=0x0800",
            "pop:1",
            "push:vid",
        ] {
            assert!(word.parse::<TagEdit>().is_err(), "{word}");
        }
    }
}
