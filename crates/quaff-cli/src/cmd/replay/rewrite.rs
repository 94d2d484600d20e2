//! What `quaff replay` changes in frames on their way: its options, and the plan that they make.

use crate::cmd::generate::mac;
use quaff_send::{RewritePlan, SidesPlan};
use quaff_wire::client::Rule;
use quaff_wire::rewrite::mtu::MtuPolicy;
use quaff_wire::rewrite::{AddressMap, AddressMaps, FixLength, PortMap, Rewrite, TagEdit, TrafficClass, Ttl};

/// Options of rewriting.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Rewriting")]
pub(crate) struct RewriteArgs {
    /// Destination MAC; a second one is for what leaves by the second interface
    #[arg(long, value_name = "MAC[,MAC]", value_parser = macs)]
    pub(crate) dst_mac: Option<Macs>,
    /// Source MAC; a second one is for what leaves by the second interface
    #[arg(long, value_name = "MAC[,MAC]", value_parser = macs)]
    pub(crate) src_mac: Option<Macs>,

    /// Put one network in the place of another, such as 10.0.0.0/8:192.168.0.0/16
    ///
    /// Bits of the host stay. Source, destination and the addresses inside ARP are changed, but not those
    /// inside a tunnel. The first map that fits counts. IPv6 as well: [fd00::/8]:[2001:db8::/32].
    #[arg(long, value_name = "NET:NET")]
    pub(crate) map_ip: Vec<AddressMap>,
    /// As --map-ip, for sources only
    #[arg(long, value_name = "NET:NET")]
    pub(crate) map_src_ip: Vec<AddressMap>,
    /// As --map-ip, for destinations only
    #[arg(long, value_name = "NET:NET")]
    pub(crate) map_dst_ip: Vec<AddressMap>,
    /// Scatter the addresses that no map names: the same ones for the same seed
    ///
    /// Different addresses stay different. Loopback, link-local and multicast ones stay as they are.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Put one port in the place of another: 80:8080, or 8000-8999:9000-9999; TCP, UDP and SCTP
    #[arg(long, value_name = "PORT:PORT")]
    pub(crate) map_port: Vec<PortMap>,

    /// Change VLAN tags: pop, push:100 or set:vid=5,pcp=3; several are done in their order
    ///
    /// The parts of a tag are vid (0 to 4095), pcp (0 to 7), dei (0 or 1) and tpid (such as 0x88a8). It
    /// is the outermost tag that is popped or set; frames without one are left alone.
    #[arg(long, value_name = "EDIT")]
    pub(crate) vlan: Vec<TagEdit>,
    /// TTL or hop limit: 64, or +N or -N for more or fewer, between 1 and 255
    #[arg(long, value_name = "[+|-]N", allow_hyphen_values = true)]
    pub(crate) ttl: Option<Ttl>,
    /// DSCP, by number or name, such as ef, cs1 or af21; the bits of ECN stay
    #[arg(long, value_name = "DSCP", conflicts_with = "traffic_class")]
    pub(crate) dscp: Option<TrafficClass>,
    /// Type of service or traffic class, all eight bits
    #[arg(long, value_name = "N")]
    pub(crate) traffic_class: Option<u8>,
    /// Flow label of IPv6
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..1 << 20))]
    pub(crate) flow_label: Option<u32>,

    /// What becomes of frames that the capture has cut [default: they are sent as they are]
    #[arg(long, value_name = "HOW", value_enum)]
    pub(crate) fix_length: Option<Fix>,
    /// Compute checksums anew, of every packet that is there as a whole
    ///
    /// Without this a checksum follows what was changed, so that one which was wrong stays wrong, as where
    /// the capturing machine had left it to its network card. UDP packets without one stay without.
    #[arg(long)]
    pub(crate) fix_checksums: bool,
    /// What becomes of frames that are longer than the MTU [default: skip]
    #[arg(long, value_name = "POLICY", value_enum)]
    pub(crate) mtu_policy: Option<Policy>,
    /// The MTU to go by [default: that of the interface]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(68..=65_535))]
    pub(crate) mtu: Option<u32>,

    /// By what clients, which leave by the first interface, are told from servers [default: auto]
    ///
    /// auto: who opens a connection or asks a service is a client, and otherwise who sends first.
    /// first: who is first seen as a sender is a client. port or port=0-1023,8080: what goes to such a
    /// port comes from a client. cidr=10.0.0.0/8,…: what comes from there comes from a server.
    /// mac=02:00:00:00:00:01,…: so does what has such a source MAC.
    #[arg(long, value_name = "RULE", requires = "out2")]
    pub(crate) split_by: Option<Rule>,
    /// Servers leave by the first interface, clients by the second
    #[arg(long, requires = "out2")]
    pub(crate) split_reverse: bool,

    /// Put a numbered stamp into each frame, so that 'quaff verify' can tell which ones are missing
    ///
    /// MACs, tags, addresses of IPv4 and lengths stay; all else of a frame becomes UDP with the stamp
    /// in it, and frames of fewer than 64 bytes become as long as that. STREAM is the UDP source port.
    /// Numbers are those of one pass, so that there can be no loops.
    #[arg(long, value_name = "STREAM", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    pub(crate) stamp: Option<u16>,
}

/// One MAC for all, or one for each interface. A type of its own, or clap would take it for a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Macs([[u8; 6]; 2]);

/// What becomes of a frame that the capture has cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Fix {
    /// Filled up with zeros to the length that it had
    Pad,
    /// Its headers say how long it is now
    Cut,
    /// Not sent
    Drop,
}

/// What becomes of a frame that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Policy {
    /// Not sent, and counted
    Skip,
    /// Cut, and its headers say so
    Cut,
    /// Sent as IP fragments; what is not IP is skipped
    Fragment,
    /// An error
    Fail,
}

impl RewriteArgs {
    /// The plan, for links with this MTU, of which there may be two.
    pub(crate) fn plan(&self, link_mtu: u32, are_two: bool) -> RewritePlan {
        let maps = |more: &[AddressMap]| AddressMaps::new(&[more, &self.map_ip[..]].concat(), self.seed);
        let macs = |macs: Option<Macs>| macs.map_or([None; 2], |Macs(macs)| macs.map(Some));
        let length = self.fix_length.map(|fix| match fix {
            Fix::Pad => FixLength::Pad,
            Fix::Cut => FixLength::Cut,
            Fix::Drop => FixLength::Drop,
        });
        let policy = match self.mtu_policy {
            None | Some(Policy::Skip) => MtuPolicy::Skip,
            Some(Policy::Cut) => MtuPolicy::Cut,
            Some(Policy::Fragment) => MtuPolicy::Fragment,
            Some(Policy::Fail) => MtuPolicy::Fail,
        };
        // Without these words what does not fit is left out where it is sent, and no frame is copied.
        let has_mtu = self.mtu_policy.is_some() || self.mtu.is_some() || self.stamp.is_some();
        RewritePlan {
            rewrite: Rewrite {
                dst_mac: macs(self.dst_mac),
                src_mac: macs(self.src_mac),
                src_ip: maps(&self.map_src_ip),
                dst_ip: maps(&self.map_dst_ip),
                ports: self.map_port.clone(),
                tags: self.vlan.clone(),
                ttl: self.ttl,
                traffic_class: self.dscp.or(self.traffic_class.map(TrafficClass::whole)),
                flow_label: self.flow_label,
                length,
                fix_checksums: self.fix_checksums,
            },
            sides: are_two.then(|| SidesPlan {
                rule: self.split_by.clone().unwrap_or(Rule::Auto),
                other: 0,
                reverse: self.split_reverse,
            }),
            mtu: has_mtu.then(|| (self.mtu.unwrap_or(link_mtu) as usize, policy)),
            stamp: self.stamp,
        }
    }
}

fn macs(word: &str) -> Result<Macs, String> {
    let (one, other) = word.split_once(',').unwrap_or((word, word));
    Ok(Macs([mac(one)?, mac(other)?]))
}
