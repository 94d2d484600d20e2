//! The traffic of a run, and the arguments of `quaff generate` or `quaff replay` that send it.

use crate::{Error, Result};
use quaff_send::learn_sizes;
use quaff_wire::probe::ProbeHeader;
use quaff_wire::synth::{SIZE_MAX, Sizes};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// Range of sizes learned from a file, bytes, as in `quaff generate --sizes-from`.
const LEARNED_BYTES: (u32, u32) = (60, 1514);
/// Maximum frame size of a mix, bytes; larger frames are shortened to it.
const FRAME_BYTES_MAX: u32 = 9216;

/// Sizes of frames, bytes without FCS.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// One size.
    Bytes(u32),
    /// A named mix of `quaff generate --size`: imix, tolly, cisco, rpr.
    Mix(String),
    /// A distribution of sizes in a file (`quaff generate --sizes-from`).
    From(String),
    /// A capture that is replayed.
    Replay(String),
}

/// The payload of generated frames after the probe header (`quaff generate --content`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Byte i has the value i mod 256.
    #[default]
    Counting,
    /// 0x00.
    Zeros,
    /// Random bytes, which do not compress.
    Random,
}

/// The output of the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Out<'a> {
    /// Frames arrive on this interface.
    Inject(&'a str),
    /// Frames are sent from this interface.
    Send(&'a str),
}

/// The frames of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Traffic {
    #[serde(skip)]
    pub size: Size,
    /// The payload of generated frames.
    #[serde(skip)]
    pub content: Content,
    /// Size without FCS, bytes; the mean for several sizes.
    pub frame_bytes: u32,
    /// Frames/s; `None` is as fast as possible.
    pub pps: Option<u64>,
    /// Number of frames.
    pub count: u64,
    /// True if frames are inside ERSPAN, as from a mirror port.
    pub mirrored: bool,
    /// Number of generated flows, sent in turn (`quaff generate --flows`).
    #[serde(skip)]
    pub flows: u32,
    /// True if each pass through a replayed file has its own addresses (`quaff replay --unique-ip`).
    #[serde(skip)]
    pub unique_ip: bool,
}

impl Size {
    /// Mean size of a frame, bytes; `None` for a file, and for an unknown mix.
    pub fn mean_bytes(&self) -> Option<f64> {
        match self {
            Self::Bytes(bytes) => Some(f64::from(*bytes)),
            Self::Mix(mix) => mix.parse::<Sizes>().ok().map(|sizes| sizes.mean(1, FRAME_BYTES_MAX)),
            Self::From(_) | Self::Replay(_) => None,
        }
    }

    /// Name of the mix or file; `None` for frames of one size.
    pub fn mix(&self) -> Option<&str> {
        match self {
            Self::Bytes(_) => None,
            Self::Mix(name) | Self::From(name) | Self::Replay(name) => Some(name),
        }
    }
}

/// The value of `quaff generate --content`.
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counting => "counting",
            Self::Zeros => "zeros",
            Self::Random => "random",
        })
    }
}

impl Traffic {
    /// Traffic with frames of one size.
    pub fn bytes(frame_bytes: u32, pps: Option<u64>, count: u64) -> Self {
        Self {
            size: Size::Bytes(frame_bytes),
            content: Content::default(),
            frame_bytes,
            pps,
            count,
            mirrored: false,
            flows: 1,
            unique_ip: false,
        }
    }

    /// Traffic with frames of any sizes.
    ///
    /// # Errors
    /// An unknown mix, or an unreadable file.
    pub fn new(size: &Size, pps: Option<u64>, count: u64) -> Result<Self> {
        let frame_bytes = mean_bytes(size)?;
        let content = Content::default();
        let size = size.clone();
        Ok(Self { size, content, frame_bytes, pps, count, mirrored: false, flows: 1, unique_ip: false })
    }

    /// True if every frame has a probe header.
    pub fn is_stamped(&self) -> bool {
        match &self.size {
            Size::Bytes(bytes) => *bytes as usize >= ProbeHeader::LAYOUT.frame_bytes_min,
            Size::Mix(name) => name
                .parse::<Sizes>()
                .is_ok_and(|sizes| sizes.bounds().0 as usize >= ProbeHeader::LAYOUT.frame_bytes_min),
            Size::From(_) | Size::Replay(_) => false,
        }
    }

    /// Upper bound of the size of a pcapng file with this traffic, bytes.
    pub fn file_bytes(&self) -> u64 {
        /// An Enhanced Packet Block with two options, and its share of a chunk's padding, bytes.
        const RECORD_BYTES: u64 = 64;
        /// Ethernet, IPv4, GRE and ERSPAN.
        const MIRROR_BYTES: u64 = 50;
        let mirror_bytes = if self.mirrored { MIRROR_BYTES } else { 0 };
        let each = u64::from(self.frame_bytes) + mirror_bytes + RECORD_BYTES;
        self.count.saturating_mul(each).saturating_add(16 << 20)
    }

    /// The command-line arguments for quaff; `stream` is the stream number of the probe headers.
    pub(crate) fn words(&self, out: Out<'_>, stream: u16) -> Vec<String> {
        let [direction, interface] = match out {
            Out::Inject(interface) => ["--inject", interface],
            Out::Send(interface) => ["-o", interface],
        };
        let pps = self.pps.map(|pps| ["--pps".to_owned(), pps.to_string()]);
        let count = self.count.to_string();
        let words = |given: &[&str]| given.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut all = match &self.size {
            Size::Replay(file) => {
                let mut all =
                    words(&["replay", direction, interface, "--json", "--quiet", "--loop", "0", "--limit"]);
                all.extend([count, file.clone()]);
                if pps.is_none() {
                    all.push("--topspeed".into());
                }
                if self.unique_ip {
                    all.push("--unique-ip".into());
                }
                all
            }
            made => {
                let mut all = words(&["generate", direction, interface, "--json", "--count"]);
                all.push(count);
                all.extend(match made {
                    Size::From(file) => ["--sizes-from".to_owned(), file.clone()],
                    Size::Mix(name) => ["--size".to_owned(), name.clone()],
                    _ => ["--size".to_owned(), self.frame_bytes.to_string()],
                });
                if self.content != Content::default() {
                    all.extend(words(&["--content", &self.content.to_string()]));
                }
                if self.flows > 1 {
                    all.extend(words(&["--flows", &self.flows.to_string()]));
                }
                all.extend(if self.is_stamped() {
                    vec!["--stream".to_owned(), stream.to_string()]
                } else {
                    vec!["--no-stamp".to_owned()]
                });
                all
            }
        };
        all.extend(pps.into_iter().flatten());
        if self.mirrored {
            all.extend(["--erspan".to_owned(), "1".to_owned()]);
        }
        all
    }
}

/// The mean size, bytes.
fn mean_bytes(size: &Size) -> Result<u32> {
    let mean = match size {
        Size::Bytes(bytes) => return Ok(*bytes),
        Size::Mix(name) => {
            let sizes = name.parse::<Sizes>().map_err(|error| wrong(name, &error))?;
            sizes.mean(1, SIZE_MAX)
        }
        Size::From(file) => learned(file)?.mean(LEARNED_BYTES.0, LEARNED_BYTES.1),
        Size::Replay(file) => learned(file)?.mean(1, SIZE_MAX),
    };
    Ok(mean.round() as u32)
}

fn learned(file: &str) -> Result<Sizes> {
    learn_sizes(Path::new(file)).map(|(sizes, _)| sizes).map_err(|error| wrong(file, &error))
}

fn wrong(name: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Tool { name: "the generator".into(), what: format!("{name}: {error}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_room_for_its_frames() {
        let traffic = Traffic::bytes(1500, None, 3_000_000);
        assert!(traffic.file_bytes() > 3_000_000 * 1536);
        assert_eq!(Traffic::bytes(1500, None, u64::MAX).file_bytes(), u64::MAX);
    }

    #[test]
    fn the_generator_gets_all_settings() {
        let words = |traffic: &Traffic, out| traffic.words(out, 7).join(" ");
        assert_eq!(
            words(&Traffic::bytes(512, Some(1000), 5), Out::Inject("rx0")),
            "generate --inject rx0 --json --count 5 --size 512 --stream 7 --pps 1000"
        );
        assert_eq!(
            words(&Traffic { mirrored: true, ..Traffic::bytes(60, None, 5) }, Out::Send("tx0")),
            "generate -o tx0 --json --count 5 --size 60 --no-stamp --erspan 1"
        );
        let zeros = Traffic { content: Content::Zeros, ..Traffic::bytes(64, None, 5) };
        assert_eq!(
            words(&zeros, Out::Inject("rx0")),
            "generate --inject rx0 --json --count 5 --size 64 --content zeros --stream 7"
        );
        let mix = Traffic::new(&Size::Mix("imix".into()), None, 5).expect("a mix");
        assert_eq!((mix.frame_bytes, mix.is_stamped()), (354, true));
        assert_eq!(
            words(&mix, Out::Inject("rx0")),
            "generate --inject rx0 --json --count 5 --size imix --stream 7"
        );
        let replay = Traffic { size: Size::Replay("a.pcap".into()), ..mix };
        assert_eq!(
            words(&replay, Out::Inject("rx0")),
            "replay --inject rx0 --json --quiet --loop 0 --limit 5 a.pcap --topspeed"
        );
        let unique = Traffic { unique_ip: true, ..replay.clone() };
        assert!(words(&unique, Out::Inject("rx0")).ends_with(" a.pcap --topspeed --unique-ip"));
        assert_eq!(
            words(&Traffic { pps: Some(9), ..replay }, Out::Send("tx0")),
            "replay -o tx0 --json --quiet --loop 0 --limit 5 a.pcap --pps 9"
        );
    }

    #[test]
    fn an_invalid_size_is_an_error() {
        for size in [Size::Mix("imax".into()), Size::From("/no/such".into()), Size::Replay("/no/such".into())]
        {
            let error = Traffic::new(&size, None, 1).expect_err("nothing of that name");
            assert!(error.to_string().starts_with("the generator: "), "{error}");
        }
    }

    #[test]
    fn a_mix_has_a_mean_and_a_file_says_it_later() {
        assert_eq!(Size::Bytes(60).mean_bytes(), Some(60.0));
        assert!((Size::Mix("imix".into()).mean_bytes().expect("a mean") - 353.5).abs() < 0.001);
        assert_eq!(Size::Mix("no such mix".into()).mean_bytes(), None);
        assert_eq!(Size::Replay("a.pcap".into()).mean_bytes(), None);
        assert_eq!(Size::Replay("a.pcap".into()).mix(), Some("a.pcap"));
    }
}
