//! The flow object of scripts: it lives as long as the script keeps it, and has a table for the script's own values.

use crate::packet::protocol_name;
use mlua::{AnyUserData, Error, MetaMethod, Result, String as Text, UserData, UserDataMethods, Value};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

/// A TCP or UDP flow: a connection, or the datagrams between two endpoints.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Number in the order of first packets, from 1.
    pub(crate) number: u64,
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
    pub(crate) protocol: u8,
    /// Time of the first packet, ns since 1970.
    pub(crate) start_ns: u64,
    pub(crate) last_ns: Cell<u64>,
    pub(crate) packets: Cell<u64>,
    /// Bytes on the wire.
    pub(crate) bytes: Cell<u64>,
    /// True if a script has requested its packets.
    pub(crate) is_saved: Cell<bool>,
    pub(crate) has_ended: Cell<bool>,
}

impl Flow {
    /// The name of the flow as in `quaff streams follow`: `tcp 10.0.0.1:4711 10.0.0.2:80`.
    pub(crate) fn key(&self) -> String {
        format!("{} {} {}", protocol_name(self.protocol), self.client, self.server)
    }

    /// Counts a packet.
    #[inline]
    pub(crate) fn count(&self, wire_bytes: u32, time_ns: u64) {
        self.packets.set(self.packets.get() + 1);
        self.bytes.set(self.bytes.get() + u64::from(wire_bytes));
        self.last_ns.set(time_ns);
    }
}

/// The flow as a Lua object.
pub(crate) struct FlowObject(pub(crate) Rc<Flow>);

const FIELDS: &str =
    "id, key, client, server, client_port, server_port, protocol, start, last, packets, bytes, state";

impl UserData for FlowObject {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_function(MetaMethod::Index, |lua, (object, key): (AnyUserData, Text)| {
            let key = key.as_bytes();
            if *key == *b"state" {
                let known: Value = object.user_value()?;
                if known != Value::Nil {
                    return Ok(known);
                }
                let state = lua.create_table()?;
                object.set_user_value(&state)?;
                return Ok(Value::Table(state));
            }
            let flow = object.borrow::<Self>()?;
            let flow = &flow.0;
            let text = |value: String| lua.create_string(value).map(Value::String);
            match &*key {
                b"id" => Ok(Value::Integer(flow.number as i64)),
                b"key" => text(flow.key()),
                b"client" => text(flow.client.ip().to_string()),
                b"server" => text(flow.server.ip().to_string()),
                b"client_port" => Ok(Value::Integer(flow.client.port().into())),
                b"server_port" => Ok(Value::Integer(flow.server.port().into())),
                b"protocol" => text(protocol_name(flow.protocol)),
                b"start" => Ok(Value::Integer(flow.start_ns as i64)),
                b"last" => Ok(Value::Integer(flow.last_ns.get() as i64)),
                b"packets" => Ok(Value::Integer(flow.packets.get() as i64)),
                b"bytes" => Ok(Value::Integer(flow.bytes.get() as i64)),
                other => {
                    let other = String::from_utf8_lossy(other);
                    Err(Error::RuntimeError(format!("a flow has no field {other:?}: {FIELDS}")))
                }
            }
        });
        // A plain field would be lost: values belong in `flow.state`.
        methods.add_meta_function(
            MetaMethod::NewIndex,
            |_, (_, key, _): (AnyUserData, Value, Value)| -> Result<()> {
                let key = key.to_string()?;
                Err(Error::RuntimeError(format!("fields of a flow are set in its state: flow.state.{key}")))
            },
        );
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.0.key()));
    }
}
