//! VLAN tags (IEEE 802.1Q): their TPIDs, and the loop that skips them.

use super::be16;

/// Length of a VLAN tag: TPID and TCI.
pub const TAG_BYTES: usize = 4;
/// TPID of a customer tag (IEEE 802.1Q).
pub const TPID_CUSTOMER: u16 = 0x8100;
/// TPID of a service tag (IEEE 802.1ad).
pub const TPID_SERVICE: u16 = 0x88a8;

/// A VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlanTag {
    pub tpid: u16,
    /// Priority 3 bits, DEI 1 bit, VLAN id 12 bits.
    pub tci: u16,
}

/// The EtherType after the tags of a frame, and the offset of the first byte after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Untagged {
    /// A TPID if the capture ends inside a tag.
    pub(crate) ethertype: u16,
    pub(crate) offset: usize,
    pub(crate) tags: usize,
}

/// True for the TPID of a VLAN tag: the standard ones, and two of switches older than 802.1ad.
#[inline]
pub(crate) fn is_tpid(ethertype: u16) -> bool {
    matches!(ethertype, TPID_CUSTOMER | TPID_SERVICE | 0x9100 | 0x9200)
}

/// Skips all tags. `ethertype` is the first EtherType or TPID, `offset` the first byte after it.
#[inline]
pub(crate) fn skip_tags(bytes: &[u8], mut ethertype: u16, mut offset: usize) -> Untagged {
    let mut tags = 0;
    while is_tpid(ethertype) {
        let Some(next) = be16(bytes, offset + 2) else { break };
        (ethertype, offset, tags) = (next, offset + TAG_BYTES, tags + 1);
    }
    Untagged { ethertype, offset, tags }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tpid_is_skipped_and_a_cut_tag_is_not() {
        const TPIDS: [u16; 4] = [TPID_CUSTOMER, TPID_SERVICE, 0x9100, 0x9200];
        let tags: Vec<u8> = TPIDS.iter().flat_map(|tpid| [(tpid >> 8) as u8, *tpid as u8, 0, 5]).collect();
        let bytes = [&tags[..], &[8, 0, 0x45]].concat();
        let found = skip_tags(&bytes, TPIDS[0], 2);
        assert_eq!(found, Untagged { ethertype: 0x0800, offset: 18, tags: 4 });
        for len in 0..18 {
            let cut = skip_tags(&bytes[..len], TPIDS[0], 2);
            assert!(is_tpid(cut.ethertype) && cut.offset <= len.max(2), "{len}: {cut:?}");
        }
    }
}
