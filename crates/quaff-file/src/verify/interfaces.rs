//! The interfaces of all files as one list: a rotation describes the same ones in each file.

use quaff_stream::loss::InterfaceLoss;
use quaff_wire::decode::Interface;

/// Most names, one for each bit of a word; interfaces beyond them count as the last one.
const NAMES_MAX: usize = 64;
/// Bytes of a name that are kept.
const NAME_BYTES_MAX: usize = 64;

/// Names, and the interfaces of the section that is being read.
#[derive(Debug, Clone, Default)]
pub(super) struct Interfaces {
    names: Vec<Vec<u8>>,
    /// The number of each interface of the section in `names`.
    section: Vec<u16>,
    /// A bit for each number that the section has.
    used: u64,
}

impl Interfaces {
    /// Takes the description of an interface. Interfaces of one section stay apart even with the same name.
    pub(super) fn describe(&mut self, interface: &Interface<'_>) {
        if interface.id == 0 {
            self.section.clear();
            self.used = 0;
        }
        let name = interface.name.unwrap_or_default();
        let name = &name[..name.len().min(NAME_BYTES_MAX)];
        let known = |(at, known): (usize, &Vec<u8>)| known == name && self.used >> at & 1 == 0;
        let number = match self.names.iter().enumerate().find(|entry| known(*entry)) {
            Some((at, _)) => at,
            None if self.names.len() < NAMES_MAX => {
                self.names.push(name.to_vec());
                self.names.len() - 1
            }
            None => NAMES_MAX - 1,
        };
        self.used |= 1 << number;
        self.section.push(number as u16);
    }

    /// The number of an interface of this section; 0 of one that was not described, as in pcap files.
    #[inline]
    pub(super) fn number(&self, interface: u32) -> u16 {
        self.section.get(interface as usize).copied().unwrap_or(0)
    }

    /// Fills in the names.
    pub(super) fn name(&self, losses: &mut [InterfaceLoss]) {
        for (loss, name) in losses.iter_mut().zip(&self.names) {
            loss.name = String::from_utf8_lossy(name).into_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_of_a_rotation_are_one_and_those_of_a_file_are_not() {
        let mut interfaces = Interfaces::default();
        let names: [&[&[u8]]; 4] = [&[b"a", b"b"], &[b"b", b"a"], &[b"", b"", b"c"], &[b""]];
        let found: Vec<Vec<u16>> = names
            .iter()
            .map(|file| {
                for (id, name) in (0..).zip(*file) {
                    let name = Some(*name);
                    interfaces.describe(&Interface { id, name, ..Interface::default() });
                }
                (0..file.len() as u32).map(|id| interfaces.number(id)).collect()
            })
            .collect();
        assert_eq!(found, [vec![0, 1], vec![1, 0], vec![2, 3, 4], vec![2]]);
        assert_eq!(interfaces.number(9), 0);
        let mut losses = vec![InterfaceLoss::default(); 2];
        interfaces.name(&mut losses);
        assert_eq!([&losses[0].name, &losses[1].name], ["a", "b"]);
    }
}
