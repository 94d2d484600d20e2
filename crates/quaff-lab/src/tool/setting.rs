//! The settings of a tool under test.

use serde::{Deserialize, Serialize};

/// The settings of a capturer. The default keeps the tool's own defaults and writes complete frames to disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setting {
    /// Buffer, MiB; `None`: the tool's default.
    pub buffer_mib: Option<u64>,
    /// Number of simultaneous capturers.
    pub capturers: u32,
    pub filter: Filter,
    /// Additional copies of each packet in memory, where supported (quaff, the built-in reader).
    pub copies: u32,
    /// zlib level for compressing each packet, where supported; 0: no compression.
    pub compression: u32,
    /// Bytes kept of each packet; `None`: all.
    pub snaplen: Option<u32>,
    pub output: Output,
    /// Cores for generator and capturer together: 2, or 1 for both on the same. Each lane after the first gets one more
    /// core if available.
    pub cores: u32,
    /// Number of lanes, where supported; a lab creates as many receive queues. `None`: the tool's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u32>,
    /// Rule that assigns packets to lanes, as the tool names it; `None`: the tool's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<String>,
    /// The kernel's interface for receiving, as the tool names it; `None`: the tool's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
}

/// A filter, named for its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    #[default]
    None,
    /// Accepts every frame after about 50 instructions.
    AcceptAll,
    /// Rejects every frame.
    RejectAll,
}

/// The destination of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// A file on a disk.
    #[default]
    Disk,
    /// /dev/null; only the tool itself counts packets.
    Null,
    /// A pipe to a process that counts packets.
    Pipe,
    /// One line of text per packet to a pipe, where lines are counted.
    Screen,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            buffer_mib: None,
            capturers: 1,
            filter: Filter::None,
            copies: 0,
            compression: 0,
            snaplen: None,
            output: Output::Disk,
            cores: 2,
            lanes: None,
            spread: None,
            via: None,
        }
    }
}

impl Setting {
    /// Describes the differences from the default: "1 MiB of buffer", "4 capturers at once".
    pub fn describe(&self) -> Vec<String> {
        let default = Self::default();
        let mut words = Vec::new();
        let mut say = |differs: bool, text: String| words.extend(differs.then_some(text));
        let Self { buffer_mib, capturers, filter, copies, compression, snaplen, output, cores, .. } = self;
        say(buffer_mib.is_some(), format!("{} MiB of buffer", buffer_mib.unwrap_or(0)));
        say(*capturers != default.capturers, format!("{capturers} capturers at once"));
        say(*filter == Filter::AcceptAll, "a filter that accepts all".into());
        say(*filter == Filter::RejectAll, "a filter that rejects all".into());
        say(*copies > 0, format!("{copies} extra {}", if *copies == 1 { "copy" } else { "copies" }));
        say(*compression > 0, format!("each packet compressed, level {compression}"));
        say(snaplen.is_some(), format!("{} bytes of each packet", snaplen.unwrap_or(0)));
        say(*output == Output::Null, "to /dev/null".into());
        say(*output == Output::Pipe, "through a pipe".into());
        say(*output == Output::Screen, "to the screen".into());
        say(*cores != default.cores, if *cores == 1 { "one core".into() } else { format!("{cores} cores") });
        let lanes =
            self.lanes.map(|lanes| if lanes == 1 { "1 lane".into() } else { format!("{lanes} lanes") });
        words.extend(lanes);
        words.extend(self.spread.as_ref().map(|rule| format!("by {rule}")));
        words.extend(self.via.as_ref().map(|via| format!("via {via}")));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_says_what_is_not_as_usual() {
        assert!(Setting::default().describe().is_empty());
        let setting = Setting {
            buffer_mib: Some(1),
            capturers: 4,
            filter: Filter::AcceptAll,
            copies: 1,
            compression: 6,
            snaplen: Some(76),
            output: Output::Null,
            cores: 1,
            lanes: Some(2),
            spread: Some("hash".into()),
            via: Some("xdp".into()),
        };
        assert_eq!(
            setting.describe().join(", "),
            "1 MiB of buffer, 4 capturers at once, a filter that accepts all, 1 extra copy, each packet \
             compressed, level 6, 76 bytes of each packet, to /dev/null, one core, 2 lanes, by hash, via xdp"
        );
    }
}
