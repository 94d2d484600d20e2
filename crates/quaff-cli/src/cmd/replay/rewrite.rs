//! The rewriting options of `quaff replay`, and the plan they make.

use crate::cmd::generate::mac;
use crate::flags::{MacArgs, MtuArg, SeedArg, of, values};
use crate::units::{Choice, choice};
use quaff_send::{RewritePlan, SidesPlan};
use quaff_wire::RoleRule;
use quaff_wire::rewrite::{
    AddressMap, AddressMaps, FixLength, MtuPolicy, PortMap, Rewrite, TagEdit, TrafficClass, Ttl,
};

/// Options of rewriting.
#[derive(Debug, Clone, clap::Args)]
#[command(
    next_help_heading = "Rewriting",
    mut_args(of("dst_mac", |arg| arg.value_name("MAC[,MAC]").help("Destination MAC; a second one is for frames that leave by --out2"))),
    mut_args(of("src_mac", |arg| arg.value_name("MAC[,MAC]").help("Source MAC; a second one is for frames that leave by --out2")))
)]
pub(crate) struct RewriteArgs {
    #[command(flatten)]
    macs: MacArgs<Macs>,

    /// Map one network to another, such as 10.0.0.0/8:192.168.0.0/16
    ///
    /// The host bits stay. Source, destination and the addresses in ARP change; addresses inside tunnels do
    /// not. The first matching map applies. IPv6 in brackets: [fd00::/8]:[2001:db8::/32].
    #[arg(long, value_name = "NET:NET")]
    pub(crate) map_ip: Vec<AddressMap>,
    /// As --map-ip, for source addresses only
    #[arg(long, value_name = "NET:NET")]
    pub(crate) map_src_ip: Vec<AddressMap>,
    /// As --map-ip, for destination addresses only
    #[arg(long, value_name = "NET:NET")]
    pub(crate) map_dst_ip: Vec<AddressMap>,
    #[command(flatten)]
    seed: SeedArg,
    /// Map ports of TCP, UDP and SCTP, such as 80:8080 or 8000-8999:9000-9999
    #[arg(long, value_name = "PORT:PORT")]
    pub(crate) map_port: Vec<PortMap>,

    /// Edit VLAN tags: pop, push:100 or set:vid=5,pcp=3; several edits apply in order
    ///
    /// The fields of a tag are vid (0 to 4095), pcp (0 to 7), dei (0 or 1) and tpid (such as 0x88a8). pop and
    /// set act on the outermost tag; untagged frames stay as they are.
    #[arg(long, value_name = "EDIT")]
    pub(crate) vlan: Vec<TagEdit>,
    /// Set TTL and hop limit to N (64), or add (+N) or subtract (-N), between 1 and 255
    #[arg(long, value_name = "[+|-]N", allow_hyphen_values = true)]
    pub(crate) ttl: Option<Ttl>,
    /// DSCP, as a number or a name such as ef, cs1 or af21; the ECN bits stay
    #[arg(long, value_name = "DSCP", conflicts_with = "traffic_class")]
    pub(crate) dscp: Option<TrafficClass>,
    /// Type of service or traffic class, all eight bits
    #[arg(long, value_name = "N")]
    pub(crate) traffic_class: Option<u8>,
    /// IPv6 flow label
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..1 << 20))]
    pub(crate) flow_label: Option<u32>,

    /// Repair of frames that the capture truncated [default: send them as they are]
    #[arg(long, value_name = "HOW", value_parser = choice(LENGTHS))]
    pub(crate) fix_length: Option<FixLength>,
    /// Recompute the checksums of all complete packets
    ///
    /// Without this, checksums are updated for what changed, so that a wrong checksum stays wrong (as where the
    /// capturing host left it to its network card). UDP packets without a checksum stay without.
    #[arg(long)]
    pub(crate) fix_checksums: bool,
    /// Handling of frames that exceed the MTU [default: skip]
    #[arg(long, value_name = "POLICY", value_parser = choice(POLICIES))]
    pub(crate) mtu_policy: Option<MtuPolicy>,
    #[command(flatten)]
    mtu: MtuArg,

    /// Rule that separates clients (-o) from servers (--out2) [default: auto]
    ///
    /// auto: the client opens the connection or requests the service; failing that, it sends first. first: the
    /// client is the first to send. port or port=0-1023,8080: packets to such a port come from a client.
    /// cidr=10.0.0.0/8,… or mac=02:00:00:00:00:01,…: packets from there come from a server.
    #[arg(long, value_name = "RULE", requires = "out2")]
    pub(crate) split_by: Option<RoleRule>,
    /// Send servers by -o and clients by --out2
    #[arg(long, requires = "out2")]
    pub(crate) split_reverse: bool,

    /// Put a numbered probe header into each frame, so that 'quaff verify' can name the missing ones
    ///
    /// MACs, tags, IPv4 addresses and lengths stay; the rest of each frame becomes UDP with the probe header,
    /// and frames below 64 bytes grow to 64. STREAM is the UDP source port. Frames are numbered once, so
    /// --loop is not available.
    #[arg(long, value_name = "STREAM", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    pub(crate) stamp: Option<u16>,
}

/// The MACs of both interfaces.
type Macs = [[u8; 6]; 2];

/// The repair of a frame that the capture truncated.
const LENGTHS: [Choice<FixLength>; 3] = [
    ("pad", FixLength::Pad, "Pad with zeros to the original length"),
    ("cut", FixLength::Cut, "Set the lengths in its headers to what is left"),
    ("drop", FixLength::Drop, "Do not send it"),
];
/// The handling of a frame that exceeds the MTU.
const POLICIES: [Choice<MtuPolicy>; 4] = [
    ("skip", MtuPolicy::Skip, "Skip and count it"),
    ("cut", MtuPolicy::Cut, "Truncate it and set the lengths in its headers"),
    ("fragment", MtuPolicy::Fragment, "Send it as IP fragments; skip frames that are not IP"),
    ("fail", MtuPolicy::Fail, "Stop with an error"),
];

impl RewriteArgs {
    /// The plan, for links with this MTU, of which there may be two.
    pub(crate) fn plan(&self, link_mtu: u32, are_two: bool) -> RewritePlan {
        let maps = |more: &[AddressMap]| AddressMaps::new(&[more, &self.map_ip[..]].concat(), *self.seed);
        let macs = |macs: Option<Macs>| macs.map_or([None; 2], |macs| macs.map(Some));
        let policy = self.mtu_policy.unwrap_or(MtuPolicy::Skip);
        // Without these flags the transmit backend skips what does not fit, and no frame is copied.
        let has_mtu = self.mtu_policy.is_some() || self.mtu.is_some() || self.stamp.is_some();
        RewritePlan {
            rewrite: Rewrite {
                dst_mac: macs(self.macs.dst_mac),
                src_mac: macs(self.macs.src_mac),
                src_ip: maps(&self.map_src_ip),
                dst_ip: maps(&self.map_dst_ip),
                ports: self.map_port.clone(),
                tags: self.vlan.clone(),
                ttl: self.ttl,
                traffic_class: self.dscp.or(self.traffic_class.map(TrafficClass::whole)),
                flow_label: self.flow_label,
                length: self.fix_length,
                fix_checksums: self.fix_checksums,
            },
            sides: are_two.then(|| SidesPlan {
                rule: self.split_by.clone().unwrap_or_default(),
                other: 0,
                reverse: self.split_reverse,
            }),
            mtu: has_mtu.then(|| (self.mtu.unwrap_or(link_mtu) as usize, policy)),
            stamp: self.stamp,
        }
    }
}

values! {
    Macs: macs;
}

fn macs(word: &str) -> Result<Macs, String> {
    let (one, other) = word.split_once(',').unwrap_or((word, word));
    Ok([mac(one)?, mac(other)?])
}
