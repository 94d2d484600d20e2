//! The packet object of scripts, whose fields are computed on access.
//!
//! The object is the number of its packet: it costs nothing, and has no bytes of its own. A script that keeps it gets
//! an error after the call, also while another packet is current.

use crate::shape::{Shape, Shapes};
use mlua::{Error, LightUserData, Lua, Result, String as Text, Value};
use quaff_wire::flow::{FlowPacket, is_icmp};
use quaff_wire::linktype::ETHERNET;
use quaff_wire::net::{Arp, ICMP, ICMPV6, TCP, UDP};
use std::cell::RefCell;
use std::ptr::without_provenance_mut;
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
    /// Number of the packet among those that scripts received, from 1.
    number: usize,
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
        self.number += 1;
        self.bytes.clear();
        self.bytes.extend_from_slice(packet.bytes);
        self.read = read.copied();
        let Packet { wire_bytes, linktype, tag, time_ns, .. } = *packet;
        (self.wire_bytes, self.linktype, self.tag, self.time_ns) = (wire_bytes, linktype, tag, time_ns);
    }

    pub(crate) fn close(&mut self) {
        self.is_open = false;
    }

    /// The packet as a Lua object.
    pub(crate) fn object(&self) -> LightUserData {
        LightUserData(without_provenance_mut(self.number))
    }

    /// An error for an object of another packet.
    fn check(&self, object: LightUserData) -> Result<()> {
        if self.is_open && object == self.object() {
            return Ok(());
        }
        const WHY: &str = "a packet is valid in the call that receives it only: keep its fields instead";
        Err(Error::RuntimeError(WHY.into()))
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

const FIELDS: &str = "time, length, captured, link, source, destination, source_mac, destination_mac, vlan, protocol, \
                      source_port, destination_port, ttl, tcp_flags, icmp_type, icmp_code, fragment, arp, payload";

/// Gives the packet objects of a script their fields, which are those of the packet in `view`.
pub(crate) fn install(lua: &Lua, view: &Rc<RefCell<PacketView>>, shapes: &Rc<Shapes>) -> Result<()> {
    let metatable = lua.create_table()?;
    let (own, tables) = (view.clone(), shapes.clone());
    let index = move |lua: &Lua, (object, key): (LightUserData, Text)| {
        let view = own.borrow();
        view.check(object)?;
        field(lua, &view, &tables, &key.as_bytes())
    };
    metatable.raw_set("__index", lua.create_function(index)?)?;
    let set = |_: &Lua, ()| -> Result<()> {
        Err(Error::RuntimeError("fields of a packet cannot be set: keep values in variables".into()))
    };
    metatable.raw_set("__newindex", lua.create_function(set)?)?;
    metatable.raw_set("__tostring", lua.create_function(|_, ()| Ok("packet"))?)?;
    metatable.raw_set("__metatable", false)?;
    lua.set_type_metatable::<LightUserData>(Some(metatable));
    let own = view.clone();
    let payload = lua.create_function(move |lua, (object, most): (LightUserData, Option<i64>)| {
        let view = own.borrow();
        view.check(object)?;
        let payload = view.payload();
        let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(0));
        lua.create_string(&payload[..payload.len().min(most)])
    })?;
    lua.set_named_registry_value(PAYLOAD, payload)
}

/// The key of the method `packet:payload(n)` in the registry.
const PAYLOAD: &str = "packet.payload";

fn field(lua: &Lua, view: &PacketView, shapes: &Shapes, key: &[u8]) -> Result<Value> {
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
                let fields = [
                    ("offset", Value::Integer(fragment.offset_bytes.into())),
                    ("more", Value::Boolean(fragment.more)),
                    ("id", Value::Integer(fragment.id.into())),
                ];
                shapes.table(lua, Shape::Fragment, fields).map(Value::Table)
            }
            None => Ok(Value::Nil),
        },
        b"arp" => arp(lua, view, shapes),
        b"payload" => lua.named_registry_value(PAYLOAD),
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

fn arp(lua: &Lua, view: &PacketView, shapes: &Shapes) -> Result<Value> {
    let Some(arp) = Arp::read(&view.bytes).filter(|_| view.linktype == ETHERNET.linktype) else {
        return Ok(Value::Nil);
    };
    let text = |text: &str| lua.create_string(text).map(Value::String);
    let fields = [
        ("operation", text(if arp.is_reply { "reply" } else { "request" })?),
        ("sender_ip", text(&arp.sender_ip.to_string())?),
        ("sender_mac", text(&mac_text(&arp.sender_mac))?),
        ("target_ip", text(&arp.target_ip.to_string())?),
    ];
    shapes.table(lua, Shape::Arp, fields).map(Value::Table)
}
