//! Kinds of tunnels, and sets of them, with their command-line names.

use crate::ParseError;
use std::fmt;
use std::str::FromStr;

/// A kind of tunnel. `Display` writes its command-line name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TunnelKind {
    /// ERSPAN type I, II, III (draft-foschiano-erspan-03).
    Erspan,
    /// GRE version 0 with an IPv4, IPv6 or Ethernet payload (RFC 2784, 2890, 1701), over IP or UDP (RFC 8086), and
    /// WCCP.
    Gre,
    /// NVGRE (RFC 7637): GRE whose key is a VSID and a flow id. A set that contains GRE also contains NVGRE.
    Nvgre,
    /// VXLAN (RFC 7348) and VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe).
    Vxlan,
    /// Geneve (RFC 8926).
    Geneve,
    /// IPv4 or IPv6 directly in IPv4 or IPv6 (RFC 2003, 2473, 4213).
    Ipip,
    /// MPLS over Ethernet, PPP and HDLC (RFC 3032), over IP and GRE (RFC 4023), over UDP (RFC 7510).
    Mpls,
    /// GTP-U version 1 (3GPP TS 29.281).
    Gtp,
    /// L2TPv3 with an Ethernet payload, over IP and UDP (RFC 3931, 4719).
    L2tp,
    /// TaZmen Sniffer Protocol.
    Tzsp,
}

impl TunnelKind {
    /// All kinds in numeric order.
    pub const ALL: [Self; 10] = [
        Self::Erspan,
        Self::Gre,
        Self::Nvgre,
        Self::Vxlan,
        Self::Geneve,
        Self::Ipip,
        Self::Mpls,
        Self::Gtp,
        Self::L2tp,
        Self::Tzsp,
    ];

    /// The kinds that can be chosen one by one: each with its name and a title.
    pub fn choices() -> impl Iterator<Item = (&'static str, &'static str)> {
        TEXTS.iter().filter(|text| !text.title.is_empty()).map(|text| (text.name, text.title))
    }

    /// Its name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        TEXTS[self as usize].name
    }

    /// Name of the number that identifies a session of this kind.
    pub(super) fn id_name(self) -> &'static str {
        TEXTS[self as usize].id
    }
}

/// The names of a kind.
struct Text {
    name: &'static str,
    /// Name of a session's number.
    id: &'static str,
    /// Other names that are read.
    aliases: &'static [&'static str],
    /// Names with versions, for a list to choose from; empty for a kind that comes with another one.
    title: &'static str,
}

const fn text(
    name: &'static str,
    id: &'static str,
    aliases: &'static [&'static str],
    title: &'static str,
) -> Text {
    Text { name, id, aliases, title }
}

/// The names of the kinds, in the order of [`TunnelKind::ALL`].
const TEXTS: [Text; TunnelKind::ALL.len()] = [
    text("erspan", "session", &[], "ERSPAN (I, II, III)"),
    text("gre", "key", &["nvgre"], "GRE, NVGRE"),
    text("nvgre", "vsid", &[], ""),
    text("vxlan", "vni", &["vxlan-gpe"], "VXLAN, VXLAN-GPE"),
    text("geneve", "vni", &[], "Geneve"),
    text("ipip", "id", &["6in4"], "IP in IP, 6in4"),
    text("mpls", "label", &[], "MPLS"),
    text("gtp", "teid", &["gtp-u"], "GTP-U"),
    text("l2tp", "session", &["l2tpv3"], "L2TPv3"),
    text("tzsp", "id", &[], "TZSP"),
];

impl fmt::Display for TunnelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of kinds. The default is empty: nothing is a tunnel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TunnelKinds(u16);

impl TunnelKinds {
    /// The empty set.
    pub(crate) const NONE: Self = Self(0);

    /// All kinds: `auto`.
    pub const ALL: Self = Self((1 << TunnelKind::ALL.len()) - 1);

    /// The set including `kind`; GRE and NVGRE always come together.
    #[must_use]
    pub(crate) const fn with(self, kind: TunnelKind) -> Self {
        let bits = match kind {
            TunnelKind::Gre | TunnelKind::Nvgre => 1 << TunnelKind::Gre as u8 | 1 << TunnelKind::Nvgre as u8,
            kind => 1 << kind as u8,
        };
        Self(self.0 | bits)
    }

    /// The names that can be in a list, with their other names in brackets: `erspan, gre (nvgre), …`.
    pub fn words() -> String {
        let word = |text: &Text| match text.aliases {
            [] => text.name.to_owned(),
            aliases => format!("{} ({})", text.name, aliases.join(", ")),
        };
        let listed = TEXTS.iter().filter(|text| !text.title.is_empty());
        listed.map(word).collect::<Vec<_>>().join(", ")
    }

    /// True if `kind` is in the set.
    #[inline]
    pub const fn contains(self, kind: TunnelKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// True if any kind of `other` is in the set.
    #[inline]
    pub(super) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<TunnelKind> for TunnelKinds {
    fn from_iter<I: IntoIterator<Item = TunnelKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::default(), Self::with)
    }
}

impl FromStr for TunnelKinds {
    type Err = ParseError;

    /// Parses `auto`, or names separated by commas, case-insensitive.
    fn from_str(words: &str) -> Result<Self, ParseError> {
        words.split(',').try_fold(Self::default(), |kinds, word| {
            let word = word.trim().to_ascii_lowercase();
            if word == "auto" {
                return Ok(Self::ALL);
            }
            kind_of(&word).map(|kind| kinds.with(kind)).ok_or_else(|| unknown(&word))
        })
    }
}

fn unknown(word: &str) -> ParseError {
    ParseError::new(format!("\"{word}\" is not a kind of tunnel; there are auto, {}", TunnelKinds::words()))
}

fn kind_of(word: &str) -> Option<TunnelKind> {
    TunnelKind::ALL.into_iter().zip(&TEXTS).find_map(|(kind, text)| {
        let is_meant = text.name == word || text.aliases.contains(&word);
        is_meant.then_some(kind)
    })
}

impl fmt::Display for TunnelKinds {
    /// Formats the set as [`FromStr`] parses it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("auto");
        }
        let wanted =
            TunnelKind::ALL.iter().filter(|kind| **kind != TunnelKind::Nvgre && self.contains(**kind));
        let names: Vec<_> = wanted.map(|kind| kind.name()).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_names() {
        let names = TunnelKind::ALL.map(|kind| format!("{kind} {}", kind.id_name()));
        let expected = [
            "erspan session",
            "gre key",
            "nvgre vsid",
            "vxlan vni",
            "geneve vni",
            "ipip id",
            "mpls label",
            "gtp teid",
            "l2tp session",
            "tzsp id",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn words_make_sets() {
        assert_eq!("auto".parse(), Ok(TunnelKinds::ALL));
        assert_eq!(
            "erspan, VXLAN".parse(),
            Ok(TunnelKinds::default().with(TunnelKind::Erspan).with(TunnelKind::Vxlan))
        );
        assert_eq!(
            "nvgre,6in4".parse(),
            Ok(TunnelKinds::default().with(TunnelKind::Gre).with(TunnelKind::Ipip))
        );
        assert_eq!(
            "gtp-u,vxlan-gpe".parse(),
            Ok(TunnelKinds::from_iter([TunnelKind::Vxlan, TunnelKind::Gtp]))
        );
        assert_eq!("erspan,".parse::<TunnelKinds>(), Err(unknown("")));
        assert_eq!("ipsec".parse::<TunnelKinds>(), Err(unknown("ipsec")));
    }

    #[test]
    fn sets_are_written_as_they_are_read() {
        for bits in 1..=TunnelKinds::ALL.0 {
            let kinds: TunnelKinds =
                TunnelKind::ALL.into_iter().filter(|kind| bits & 1 << *kind as u8 != 0).collect();
            assert_eq!(kinds.to_string().parse(), Ok(kinds));
        }
        assert!(TunnelKind::ALL.into_iter().all(|kind| TunnelKinds::ALL.contains(kind)));
        assert!(TunnelKinds::default().is_empty());
    }
}
