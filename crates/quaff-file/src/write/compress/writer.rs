//! A compressed file of a tool that makes its packets and can wait: complete frames, made on the thread that writes. It
//! never looks at packets.

use super::frame::{Codec, Encoder, bound, store};
use std::io::{self, Write};

/// Plain bytes of a frame, at most.
const FRAME_BYTES: usize = 1 << 20;

/// Compresses what is written to it. A flush ends a frame; bytes after the last flush are lost when it is dropped.
pub struct CompressedWriter<W: Write> {
    out: W,
    codec: Codec,
    encoder: Encoder,
    plain: Vec<u8>,
    frame: Vec<u8>,
}

impl<W: Write> CompressedWriter<W> {
    /// Writes frames to `out`. Fails if the encoder gets no memory.
    pub fn new(out: W, codec: Codec) -> io::Result<Self> {
        let (plain, frame) = (Vec::with_capacity(FRAME_BYTES), vec![0; bound(FRAME_BYTES, 1)]);
        Ok(Self { out, codec, encoder: Encoder::new(codec)?, plain, frame })
    }

    fn put_frame(&mut self) -> io::Result<()> {
        if self.plain.is_empty() {
            return Ok(());
        }
        let compressed = self.encoder.compress(&self.plain, &mut self.frame, || true);
        let len = compressed.unwrap_or_else(|| store(self.codec.compression, &self.plain, &mut self.frame));
        self.plain.clear();
        self.out.write_all(&self.frame[..len])
    }
}

impl<W: Write> Write for CompressedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(FRAME_BYTES - self.plain.len());
        self.plain.extend_from_slice(&bytes[..taken]);
        if self.plain.len() == FRAME_BYTES {
            self.put_frame()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.put_frame()?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{CaptureFile, Compression};
    use quaff_wire::decode::Item;

    /// A pcap file of `packets` packets of 1000 bytes that repeat.
    fn pcap(packets: u32) -> Vec<u8> {
        let mut file =
            quaff_wire::pcap::file_header(quaff_wire::pcap::Resolution::Nanoseconds, 0, 1).to_vec();
        for number in 0..packets {
            for word in [7, number, 1000, 1000] {
                file.extend(word.to_ne_bytes());
            }
            file.extend([number as u8; 1000]);
        }
        file
    }

    #[test]
    fn frames_are_read_back_whole_in_each_format() {
        let dir = tempfile::tempdir().unwrap();
        for compression in [Compression::Zstd, Compression::Lz4, Compression::Gzip] {
            // An empty file, one of a part of a frame, one of several frames.
            for packets in [0, 3, 2500] {
                let (plain, mut out) = (pcap(packets), Vec::new());
                let mut writer = CompressedWriter::new(&mut out, Codec::fastest(compression)).unwrap();
                for part in plain.chunks(300_001) {
                    writer.write_all(part).unwrap();
                }
                writer.flush().unwrap();
                assert!(packets < 2500 || out.len() < plain.len() / 10, "{compression:?}: {}", out.len());
                let path = dir.path().join("a");
                std::fs::write(&path, &out).unwrap();
                let (mut file, mut found) = (CaptureFile::open(&path).unwrap(), Vec::new());
                let mut each = |item: Item<'_>| {
                    if let Item::Frame(frame) = item {
                        assert!(
                            frame.data.len() == 1000
                                && frame.data.iter().all(|byte| *byte == found.len() as u8)
                        );
                        found.push(frame.time_ns);
                    }
                };
                while file.pull(&mut each).unwrap() {}
                assert_eq!(
                    found,
                    (0..packets).map(|number| 7_000_000_000 + u64::from(number)).collect::<Vec<_>>()
                );
            }
        }
    }
}
