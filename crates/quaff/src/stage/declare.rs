//! Gives interfaces their numbers in the output with their first packets. An interface without packets is not declared,
//! except the first one of a run that has no packets.

use super::Stage;
use crate::batch::Batch;
use crate::tally::LaneTally;
use quaff_file::Interfaces;

/// The last stage of a lane whose packets may not all be written.
#[derive(Debug)]
pub(crate) struct Declare {
    interfaces: Interfaces,
    /// The number in the output of each interface, by number.
    numbers: Vec<Option<u16>>,
}

impl Declare {
    pub(crate) fn new(interfaces: Interfaces) -> Self {
        Self { interfaces, numbers: Vec::new() }
    }

    #[cold]
    fn learn(&mut self, interface: u16) -> u16 {
        let (at, number) = (usize::from(interface), self.interfaces.declare(interface).unwrap_or_default());
        self.numbers.resize(self.numbers.len().max(at + 1), None);
        self.numbers[at] = Some(number);
        number
    }
}

impl Stage for Declare {
    fn pass(&mut self, batch: &mut Batch<'_>, _tally: &mut LaneTally) {
        for frame in batch.frames.iter_mut() {
            let known = self.numbers.get(usize::from(frame.interface)).copied().flatten();
            frame.interface = known.unwrap_or_else(|| self.learn(frame.interface));
        }
        if batch.is_last && self.interfaces.count() == 0 {
            self.interfaces.declare(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Frame;
    use crate::stage::testing::{pass_last, pass_one};
    use quaff_wire::pcapng::Interface;

    #[test]
    fn numbers_follow_the_first_packets() {
        let interfaces = Interfaces::by_first_packet(vec![Interface::default(); 4]);
        let mut stage = Declare::new(interfaces.clone());
        let frames = [3, 1, 3, 0].map(|interface| Frame { interface, ..Frame::default() });
        let (declared, _) = pass_one(&mut stage, &frames, &[1]);
        assert_eq!(declared.iter().map(|(frame, _)| frame.interface).collect::<Vec<_>>(), [0, 1, 0, 2]);
        pass_last(&mut stage);
        assert_eq!(interfaces.count(), 3);
    }

    #[test]
    fn a_run_without_packets_has_its_first_interface() {
        let interfaces = Interfaces::by_first_packet(vec![Interface::default(); 4]);
        pass_last(&mut Declare::new(interfaces.clone()));
        assert_eq!((interfaces.count(), interfaces.declared(0)), (1, Some(0)));
    }
}
