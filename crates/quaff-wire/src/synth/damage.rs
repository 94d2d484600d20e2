//! Deliberate damage to test receivers: a share of the frames for each kind.

use super::packet::Layout;
use super::rng::Rng;
use crate::ParseError;
use std::str::FromStr;

/// A kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Harm {
    /// Flips one bit of the UDP, TCP or ICMP checksum.
    Checksum,
    /// Flips one bit of the IPv4 header checksum.
    IpChecksum,
    /// Flips one bit after the IP header, outside the checksum.
    Flip,
    /// Truncates the frame somewhere after the start of its IP header.
    Cut,
}

/// Names of the kinds, on the command line and in reports.
pub const HARMS: [&str; 4] = ["checksum", "ip-checksum", "flip", "cut"];
/// The same as values.
const ALL: [Harm; HARMS.len()] = [Harm::Checksum, Harm::IpChecksum, Harm::Flip, Harm::Cut];

/// The share of the frames with each kind of damage, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Damage {
    shares: [f64; HARMS.len()],
}

impl Damage {
    /// True if no frame is damaged.
    pub(super) fn is_none(&self) -> bool {
        self.shares.iter().all(|share| *share == 0.0)
    }

    /// The share of one kind.
    pub(super) fn share(&self, harm: Harm) -> f64 {
        self.shares[harm as usize]
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> Option<Harm> {
        let mut drawn = rng.unit();
        for (harm, share) in ALL.into_iter().zip(self.shares) {
            if drawn < share {
                return Some(harm);
            }
            drawn -= share;
        }
        None
    }
}

impl FromStr for Damage {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        const WHY: &str = "is not a kind of damage with its share; the shares add up to at most 100 %, such as checksum=1%,cut=0.1%; there are checksum, ip-checksum, flip and cut";
        let wrong = || ParseError::of(text, WHY);
        let mut damage = Self::default();
        for part in text.split(',') {
            let (name, share) = part.split_once('=').ok_or_else(wrong)?;
            let place = HARMS.iter().position(|known| *known == name.trim()).ok_or_else(wrong)?;
            let share = share.trim();
            let (number, unit) = share.strip_suffix('%').map_or((share, 1.0), |number| (number, 100.0));
            damage.shares[place] = number.trim().parse::<f64>().map_err(|_| wrong())? / unit;
        }
        let is_share = |share: &f64| (0.0..=1.0).contains(share);
        let valid = damage.shares.iter().all(is_share) && damage.shares.iter().sum::<f64>() <= 1.0 + 1e-9;
        if valid { Ok(damage) } else { Err(wrong()) }
    }
}

impl Harm {
    /// Damages a frame; returns false if it cannot be damaged in this way.
    pub(super) fn apply(self, frame: &mut Vec<u8>, layout: &Layout, rng: &mut Rng) -> bool {
        match self {
            Self::Checksum => layout.checksum.is_some_and(|at| flip_checksum(frame, at, rng)),
            Self::IpChecksum => frame[layout.ip] >> 4 == 4 && flip_checksum(frame, layout.ip + 10, rng),
            Self::Flip => flip(frame, layout, rng),
            Self::Cut => {
                let bytes = (layout.end - layout.ip) as u64;
                frame.truncate(layout.ip + rng.below(bytes) as usize);
                true
            }
        }
    }
}

/// Flips one bit, but never to 0, which means "no checksum" (RFC 768).
fn flip_checksum(frame: &mut [u8], at: usize, rng: &mut Rng) -> bool {
    let value = u16::from_be_bytes([frame[at], frame[at + 1]]);
    let bit = 1 << rng.below(16);
    let other = if value ^ bit == 0 { bit.rotate_left(1) } else { bit };
    frame[at..at + 2].copy_from_slice(&(value ^ other).to_be_bytes());
    true
}

fn flip(frame: &mut [u8], layout: &Layout, rng: &mut Rng) -> bool {
    let skipped = if layout.checksum.is_some() { 2 } else { 0 };
    let bytes = layout.end - layout.transport - skipped;
    if bytes == 0 {
        return false;
    }
    let mut at = layout.transport + rng.below(bytes as u64) as usize;
    if layout.checksum.is_some_and(|checksum| at >= checksum) {
        at += skipped;
    }
    frame[at] ^= 1 << rng.below(8);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read() {
        let damage: Damage = "checksum=1%, cut=0.25".parse().unwrap();
        assert_eq!(damage.share(Harm::Checksum), 0.01);
        assert_eq!(damage.share(Harm::Cut), 0.25);
        assert!("flip=0".parse::<Damage>().unwrap().is_none());
        assert!("flip=60%,cut=40%".parse::<Damage>().is_ok());
        for wrong in
            ["", "flip", "flip=x", "flip=-1%", "flip=101%", "flip=60%,cut=60%", "burn=1%", "flip=NaN"]
        {
            assert!(wrong.parse::<Damage>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_are_kept() {
        let damage: Damage = "checksum=1%,ip-checksum=2%,flip=3%,cut=4%".parse().unwrap();
        let mut rng = Rng::new(1);
        let mut seen = [0f64; 4];
        for _ in 0..100_000 {
            if let Some(harm) = damage.draw(&mut rng) {
                seen[harm as usize] += 1.0;
            }
        }
        for (count, percent) in seen.iter().zip([1.0, 2.0, 3.0, 4.0]) {
            assert!((count / 1000.0 - percent).abs() < 0.2, "{seen:?}");
        }
    }
}
