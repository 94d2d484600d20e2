//! The packet object of scripts, whose fields are computed on access.
//!
//! One object serves all packets of a run. It holds a copy of the bytes, so that nothing borrowed outlives the call; a
//! script that keeps the object finds it closed after the call.

use mlua::{Error, Lua, MetaMethod, Result, String as Text, UserData, UserDataMethods, Value};
use quaff_wire::flow::{FlowPacket, is_icmp};
use quaff_wire::linktype::ETHERNET;
use quaff_wire::net::{Arp, ICMP, ICMPV6, TCP, UDP};
use std::cell::RefCell;
use std::rc::Rc;

/// A packet as the engine processes it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Packet<'a> {
    /// The captured bytes, from the link header.
    pub bytes: &'a [u8],
    /// Length on the wire, bytes.
    pub wire_bytes: u32,
    /// LINKTYPE of `bytes`.
    pub linktype: u16,
    /// A VLAN tag (TPID, TCI) that was removed from `bytes`.
    pub tag: Option<(u16, u16)>,
    /// Timestamp, ns since 1970.
    pub time_ns: u64,
}

/// The packet of the current event, if there is one.
#[derive(Debug, Default)]
pub(crate) struct PacketView {
    is_open: bool,
    bytes: Vec<u8>,
    wire_bytes: u32,
    linktype: u16,
    tag: Option<(u16, u16)>,
    time_ns: u64,
    read: Option<FlowPacket>,
}

impl PacketView {
    /// Opens the view for the events of a packet.
    pub(crate) fn open(&mut self, packet: &Packet, read: Option<&FlowPacket>) {
        self.is_open = true;
        self.bytes.clear();
        self.bytes.extend_from_slice(packet.bytes);
        self.read = read.copied();
        let Packet { wire_bytes, linktype, tag, time_ns, .. } = *packet;
        (self.wire_bytes, self.linktype, self.tag, self.time_ns) = (wire_bytes, linktype, tag, time_ns);
    }

    pub(crate) fn close(&mut self) {
        self.is_open = false;
    }

    fn mac(&self, at: usize) -> Option<String> {
        let mac = self.bytes.get(at..at + 6).filter(|_| self.linktype == ETHERNET.linktype)?;
        Some(mac_text(mac))
    }

    /// The VLAN id of the outermost tag.
    fn vlan(&self) -> Option<u16> {
        let beside = self.tag.map(|(_, tci)| tci & 0xfff);
        beside.or_else(|| self.read.map(|read| read.vlan).filter(|vlan| *vlan != 0))
    }

    /// Source or destination port; `None` for protocols without ports and for later fragments.
    fn port(&self, side: usize) -> Option<u16> {
        let has_ports = |read: &FlowPacket| !is_icmp(read.protocol) && !read.is_later_fragment();
        self.read.filter(has_ports).map(|read| read.ports[side]).filter(|port| *port != 0)
    }

    /// The captured payload of the transport protocol; otherwise that of IP, or of the link layer.
    fn payload(&self) -> &[u8] {
        let Some(read) = self.read else { return &self.bytes };
        let header = match read.protocol {
            _ if read.is_later_fragment() => 0,
            TCP => read.tcp(&self.bytes).map_or(20, |tcp| tcp.header_bytes),
            UDP => 8,
            _ => 0,
        };
        self.bytes.get((read.transport + header) as usize..read.end as usize).unwrap_or_default()
    }
}

pub(crate) fn mac_text(mac: &[u8]) -> String {
    mac.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// The name of an IP protocol, or its number.
pub(crate) fn protocol_name(protocol: u8) -> String {
    match protocol {
        TCP => "tcp".into(),
        UDP => "udp".into(),
        ICMP => "icmp".into(),
        ICMPV6 => "icmp6".into(),
        2 => "igmp".into(),
        47 => "gre".into(),
        50 => "esp".into(),
        132 => "sctp".into(),
        other => other.to_string(),
    }
}

/// The packet as a Lua object.
pub(crate) struct PacketObject(pub(crate) Rc<RefCell<PacketView>>);

const FIELDS: &str = "time, length, captured, link, source, destination, source_mac, destination_mac, vlan, protocol, \
                      source_port, destination_port, ttl, tcp_flags, icmp_type, icmp_code, fragment, arp, payload";

impl UserData for PacketObject {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, key: Text| {
            let view = this.0.borrow();
            if !view.is_open {
                return Err(Error::RuntimeError(
                    "a packet is valid in the call that receives it only".into(),
                ));
            }
            field(lua, &view, &key.as_bytes())
        });
        methods.add_meta_method(MetaMethod::ToString, |_, _, ()| Ok("packet"));
    }
}

fn field(lua: &Lua, view: &PacketView, key: &[u8]) -> Result<Value> {
    let number = |value: Option<i64>| Ok(value.map_or(Value::Nil, Value::Integer));
    let text = |value: Option<String>| match value {
        Some(value) => lua.create_string(value).map(Value::String),
        None => Ok(Value::Nil),
    };
    let read = view.read.as_ref();
    match key {
        b"time" => number(Some(view.time_ns as i64)),
        b"length" => number(Some(view.wire_bytes.into())),
        b"captured" => number(Some(view.bytes.len() as i64)),
        b"link" => number(Some(view.linktype.into())),
        b"source" => text(read.map(|read| read.addresses[0].to_string())),
        b"destination" => text(read.map(|read| read.addresses[1].to_string())),
        b"source_mac" => text(view.mac(6)),
        b"destination_mac" => text(view.mac(0)),
        b"vlan" => number(view.vlan().map(i64::from)),
        b"protocol" => text(read.map(|read| protocol_name(read.protocol))),
        b"source_port" => number(view.port(0).map(i64::from)),
        b"destination_port" => number(view.port(1).map(i64::from)),
        b"ttl" => number(read.map(|read| read.ttl.into())),
        b"tcp_flags" => number(read.filter(|read| read.protocol == TCP).map(|read| read.tcp_flags.into())),
        b"icmp_type" => number(icmp(read).map(|both| both >> 8)),
        b"icmp_code" => number(icmp(read).map(|both| both & 0xff)),
        b"fragment" => match read.and_then(|read| read.fragment) {
            Some(fragment) => {
                let table = lua.create_table()?;
                table.raw_set("offset", fragment.offset_bytes)?;
                table.raw_set("more", fragment.more)?;
                table.raw_set("id", fragment.id)?;
                Ok(Value::Table(table))
            }
            None => Ok(Value::Nil),
        },
        b"arp" => arp(lua, view),
        b"payload" => payload(lua),
        other => {
            let other = String::from_utf8_lossy(other);
            Err(Error::RuntimeError(format!("a packet has no field {other:?}: {FIELDS}")))
        }
    }
}

/// ICMP type << 8 | code.
fn icmp(read: Option<&FlowPacket>) -> Option<i64> {
    let is_first = |read: &&FlowPacket| is_icmp(read.protocol) && !read.is_later_fragment();
    read.filter(is_first).map(|read| read.ports[0].into())
}

fn arp(lua: &Lua, view: &PacketView) -> Result<Value> {
    let Some(arp) = Arp::read(&view.bytes).filter(|_| view.linktype == ETHERNET.linktype) else {
        return Ok(Value::Nil);
    };
    let table = lua.create_table()?;
    table.raw_set("operation", if arp.is_reply { "reply" } else { "request" })?;
    table.raw_set("sender_ip", arp.sender_ip.to_string())?;
    table.raw_set("sender_mac", mac_text(&arp.sender_mac))?;
    table.raw_set("target_ip", arp.target_ip.to_string())?;
    Ok(Value::Table(table))
}

/// The method `packet:payload(n)`, created once per script.
fn payload(lua: &Lua) -> Result<Value> {
    const KEY: &str = "packet.payload";
    let known: Value = lua.named_registry_value(KEY)?;
    if known != Value::Nil {
        return Ok(known);
    }
    let function = lua.create_function(|lua, (object, most): (mlua::AnyUserData, Option<i64>)| {
        let object = object.borrow::<PacketObject>()?;
        let view = object.0.borrow();
        let payload = if view.is_open { view.payload() } else { &[] };
        let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(0));
        lua.create_string(&payload[..payload.len().min(most)])
    })?;
    lua.set_named_registry_value(KEY, &function)?;
    Ok(Value::Function(function))
}
