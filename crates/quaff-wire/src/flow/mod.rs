//! The flow or conversation that a packet belongs to, as one key with one hash, and tables by it.
//!
//! A [`FlowKey`] is the same on every machine and in every run, so that frames spread by its hash are spread alike
//! everywhere. [`FlowPacket`] is what a meter reads off a packet, and [`FlowIndex`] finds its record. [`FlowCount`]
//! counts flows as tcpreplay does. Nothing here keeps a packet.

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

/// A table by a number that is a hash already.
pub(crate) type HashTable<V> = HashMap<u64, V, BuildHasherDefault<PassThrough>>;

/// A hash of any bytes, as stable as that of a key.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(mix(0, bytes.len() as u64), |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(sum, u64::from_le_bytes(word))
    })
}

/// Uses a 64-bit hash as it is.
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
