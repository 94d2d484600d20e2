//! Content codings of HTTP, removed (RFC 9110, section 8.4.1; RFC 7932; RFC 8878): gzip, deflate, br, zstd.
//!
//! One body at a time, so that one decoder needs memory: at most 16 MiB, the largest window of brotli.

use brotli_decompressor::{BrotliDecoderParameter, Decompressor};
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use std::io::{self, BufRead, Read};

/// Bytes that are decoded at a time; the first of them decide the kind.
const PIECE_BYTES: usize = 64 << 10;
/// The largest window of zstd in HTTP, as a power of two: 8 MiB (RFC 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// The coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
    /// Unknown, or several: the body stays as it was sent.
    Other,
}

/// The end of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoded {
    Whole,
    /// The encoded bytes are damaged, or their end is missing.
    Damaged,
    /// There is more than the limit.
    TooLong,
}

impl Coding {
    /// The coding by the field Content-Encoding.
    pub(super) fn of(field: &str) -> Self {
        match field.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Self::Identity,
            "gzip" | "x-gzip" => Self::Gzip,
            "deflate" => Self::Deflate,
            "br" => Self::Brotli,
            "zstd" => Self::Zstd,
            _ => Self::Other,
        }
    }

    /// Returns whether decoding changes the bytes.
    pub(super) fn is_decoded(self) -> bool {
        !matches!(self, Self::Identity | Self::Other)
    }

    /// Decodes `body`, and passes on at most `bytes_max`; a body that is not decoded has no limit. An error is one of
    /// `pass`.
    pub(super) fn decode(
        self,
        mut body: impl BufRead,
        bytes_max: u64,
        pass: impl FnMut(&[u8]) -> crate::Result<()>,
    ) -> crate::Result<Decoded> {
        match self {
            Self::Identity | Self::Other => copy(body, u64::MAX, pass),
            Self::Gzip => copy(MultiGzDecoder::new(body), bytes_max, pass),
            Self::Deflate => match body.fill_buf().is_ok_and(is_zlib) {
                true => copy(ZlibDecoder::new(body), bytes_max, pass),
                // Some servers leave out the header that the name asks for.
                false => copy(DeflateDecoder::new(body), bytes_max, pass),
            },
            Self::Brotli => copy(brotli_decoder(body), bytes_max, pass),
            Self::Zstd => match zstd_decoder(body) {
                Ok(decoder) => copy(decoder, bytes_max, pass),
                Err(_) => Ok(Decoded::Damaged),
            },
        }
    }
}

/// True for a header of zlib (RFC 1950, section 2.2).
fn is_zlib(bytes: &[u8]) -> bool {
    matches!(*bytes, [method, flags, ..] if method & 15 == 8 && u16::from_be_bytes([method, flags]) % 31 == 0)
}

/// A decoder that refuses windows of more than 16 MiB, which the RFC does not have.
fn brotli_decoder<R: Read>(body: R) -> Decompressor<R> {
    let mut decoder = Decompressor::new(body, PIECE_BYTES);
    let is_set = decoder.set_parameter(BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW, 0);
    debug_assert!(is_set);
    decoder
}

fn zstd_decoder<R: BufRead>(body: R) -> io::Result<impl Read> {
    let mut decoder = zstd::Decoder::with_buffer(body)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

fn copy(
    mut body: impl Read,
    bytes_max: u64,
    mut pass: impl FnMut(&[u8]) -> crate::Result<()>,
) -> crate::Result<Decoded> {
    let (mut piece, mut room) = (vec![0; PIECE_BYTES], bytes_max);
    loop {
        let (filled, is_damaged) = fill(&mut body, &mut piece);
        let taken = room.min(filled as u64);
        pass(&piece[..taken as usize])?;
        room -= taken;
        if taken < filled as u64 {
            return Ok(Decoded::TooLong);
        } else if is_damaged {
            return Ok(Decoded::Damaged);
        } else if filled < piece.len() {
            return Ok(Decoded::Whole);
        }
    }
}

/// Reads until the piece is full or the body ends. Returns the number of bytes, and whether the body is damaged after
/// them.
fn fill(body: &mut impl Read, piece: &mut [u8]) -> (usize, bool) {
    let mut filled = 0;
    while filled < piece.len() {
        match body.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return (filled, true),
        }
    }
    (filled, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use proptest::prelude::*;
    use std::io::Write;

    const FIELDS: [&str; 6] = ["", "gzip", "deflate", "br", "zstd", "other"];

    fn decoded(field: &str, body: &[u8], bytes_max: u64) -> (Decoded, Vec<u8>) {
        let mut all = Vec::new();
        let end = Coding::of(field).decode(body, bytes_max, |bytes| {
            all.extend_from_slice(bytes);
            Ok(())
        });
        (end.unwrap(), all)
    }

    fn text() -> Vec<u8> {
        (0..200_000u32).flat_map(|n| (n.wrapping_mul(n) % 9973).to_le_bytes()).collect()
    }

    fn encoded(text: &[u8]) -> [(&'static str, Vec<u8>); 5] {
        let level = Compression::fast();
        let (mut gzip, mut zlib) = (GzEncoder::new(Vec::new(), level), ZlibEncoder::new(Vec::new(), level));
        let mut raw = DeflateEncoder::new(Vec::new(), level);
        for writer in [&mut gzip as &mut dyn Write, &mut zlib, &mut raw] {
            writer.write_all(text).unwrap();
        }
        let (gzip, zlib, raw) = (gzip.finish().unwrap(), zlib.finish().unwrap(), raw.finish().unwrap());
        let zstd = zstd::bulk::compress(text, 1).unwrap();
        [("gzip", gzip.clone()), ("X-GZIP", gzip), ("deflate", zlib), ("deflate", raw), ("zstd", zstd)]
    }

    #[test]
    fn each_coding_gives_the_body() {
        let text = text();
        for (field, body) in encoded(&text) {
            assert!(decoded(field, &body, u64::MAX) == (Decoded::Whole, text.clone()), "{field}");
            assert!(
                decoded(field, &body, text.len() as u64).0 == Decoded::Whole,
                "{field}: exactly the limit"
            );
            assert!(decoded(field, &body, 1000) == (Decoded::TooLong, text[..1000].to_vec()), "{field}");
            let (end, begin) = decoded(field, &body[..body.len() / 2], u64::MAX);
            let is_begin = text.starts_with(&begin) && begin.len() > 10_000;
            assert!(end == Decoded::Damaged && is_begin, "{field}: {end:?}, {} bytes", begin.len());
            assert_eq!(decoded(field, b"no such coding", 1000), (Decoded::Damaged, Vec::new()), "{field}");
        }
        for field in ["", "identity", "gzip, br"] {
            assert_eq!(decoded(field, b"as sent", 3), (Decoded::Whole, b"as sent".to_vec()));
        }
        let members = encoded(b"two")[0].1.repeat(2);
        assert_eq!(decoded("gzip", &members, 99), (Decoded::Whole, b"twotwo".to_vec()));
    }

    /// The bytes are an uncompressed block as Google's program makes it.
    #[test]
    fn brotli_gives_the_body_and_has_no_large_window() {
        let body = b"\x0b\x05\x80hello world\x03";
        assert_eq!(decoded("br", body, u64::MAX), (Decoded::Whole, b"hello world".to_vec()));
        assert_eq!(decoded("br", body, 5), (Decoded::TooLong, b"hello".to_vec()));
        assert_eq!(decoded("br", &body[..8], u64::MAX).0, Decoded::Damaged);
        assert_eq!(decoded("br", b"\x11\x1e\x0b\x05\x80hello world\x03", 99), (Decoded::Damaged, Vec::new()));
    }

    /// A frame with a window of 16 MiB: twice of what RFC 9659 permits.
    #[test]
    fn zstd_has_no_large_window() {
        let frame = |window: u8| {
            let block = ((5u32 << 3) | 1).to_le_bytes();
            [&[0x28, 0xb5, 0x2f, 0xfd, 0, window << 3][..], &block[..3], b"hello"].concat()
        };
        assert_eq!(decoded("zstd", &frame(13), 99), (Decoded::Whole, b"hello".to_vec()));
        assert_eq!(decoded("zstd", &frame(14), 99), (Decoded::Damaged, Vec::new()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_up_to_the_limit(
            bytes in prop::collection::vec(any::<u8>(), 0..300), flip in any::<prop::sample::Index>(), bit in 0u8..8
        ) {
            let mut bodies = encoded(&bytes).map(|(_, body)| body).to_vec();
            for body in &mut bodies {
                let at = flip.index(body.len());
                body[at] ^= 1 << bit;
            }
            bodies.push(bytes);
            for (field, body) in FIELDS.iter().flat_map(|field| bodies.iter().map(move |body| (field, body))) {
                let (_, decoded) = decoded(field, body, 1000);
                prop_assert!(decoded.len() <= 1000, "{}: {} bytes", field, decoded.len());
            }
        }
    }
}
