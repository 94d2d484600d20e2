//! The flow or conversation of a packet as one key with one hash, and tables indexed by it.
//!
//! A [`FlowKey`] is the same on every machine and in every run, so that frames are distributed by its hash alike
//! everywhere. [`FlowPacket`] holds the headers that a meter needs, and [`FlowIndex`] finds its record. [`FlowCount`]
//! counts flows as tcpreplay does. Nothing here stores packets.

mod count;
mod index;
mod key;
mod packet;

pub use count::{FlowCount, FlowCounts};
pub use index::{FlowIndex, IndexLine};
pub(crate) use key::sorted;
pub use key::{FlowKey, Protocol, mix};
pub use packet::{FlowPacket, NoFlow, TcpFields, icmp_request, is_icmp};

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table indexed by numbers that are hashes already.
pub(crate) type HashTable<V> = HashMap<u64, V, BuildHasherDefault<PassThrough>>;

/// A hash of arbitrary bytes, as stable as that of a key.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(mix(0, bytes.len() as u64), |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(sum, u64::from_le_bytes(word))
    })
}

/// Uses a 64-bit hash unchanged.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct PassThrough(u64);

impl Hasher for PassThrough {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = mix(self.0, hash_bytes(bytes));
    }
}
