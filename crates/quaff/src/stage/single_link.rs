//! Drops frames of another link type than the first frame's, for formats that hold a single link type (pcap).

use super::Stage;
use crate::batch::Batch;
use crate::tally::LaneTally;
use quaff_file::Interfaces;

/// The stage that keeps the frames of one link type.
#[derive(Debug)]
pub(crate) struct SingleLink {
    interfaces: Interfaces,
    /// True for interfaces whose frames are kept, by number; `None` until a frame has occurred.
    fits: Vec<Option<bool>>,
}

impl SingleLink {
    pub(crate) fn new(interfaces: Interfaces) -> Self {
        Self { interfaces, fits: Vec::new() }
    }

    fn fits(&mut self, interface: u16) -> bool {
        let at = usize::from(interface);
        match self.fits.get(at).copied().flatten() {
            Some(fits) => fits,
            None => self.learn(at),
        }
    }

    #[cold]
    fn learn(&mut self, at: usize) -> bool {
        let linktype = self.interfaces.get(at as u16).map_or(0, |interface| interface.linktype);
        let fits = self.interfaces.only_linktype(linktype) == linktype;
        self.fits.resize(self.fits.len().max(at + 1), None);
        self.fits[at] = Some(fits);
        fits
    }
}

impl Stage for SingleLink {
    fn pass(&mut self, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        let before = batch.frames.len();
        batch.frames.retain(|frame| self.fits(frame.interface));
        tally.unsuited += (before - batch.frames.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Frame;
    use crate::stage::testing::pass_one;
    use quaff_wire::pcapng::Interface;

    #[test]
    fn the_first_frame_decides() {
        let of = |linktype| Interface { linktype, ..Interface::default() };
        let interfaces = Interfaces::by_first_packet([1, 101, 101].map(of).into());
        let mut stage = SingleLink::new(interfaces.clone());
        let frames = [2, 0, 1, 0].map(|interface| Frame { interface, ..Frame::default() });
        let (kept, tally) = pass_one(&mut stage, &frames, &[0x45; 40]);
        assert_eq!(kept.iter().map(|(frame, _)| frame.interface).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((tally.unsuited, interfaces.only_linktype(1)), (2, 101));
    }
}
