//! The flow object of scripts: it lives as long as the script keeps it, and has a table for the script's own values.

use crate::packet::protocol_name;
use mlua::{
    AnyUserData, Error, Lua, MetaMethod, Result, String as Text, Table, UserData, UserDataMethods, Value,
};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

/// A TCP or UDP flow: a connection, or the datagrams between two endpoints.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Number in the order of first packets, from 1.
    pub(crate) number: u64,
    /// Index among the flows that exist.
    pub(crate) place: u32,
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

/// Flows of a page of [`FlowObjects`].
const PAGE: usize = 512;

/// The objects of the flows that exist, by place, in one script.
///
/// Lua counts and moves all entries of a table before it grows, and does so again and again when keys come and go: a
/// flood of flows would take seconds a flow. A page never grows.
#[derive(Default)]
pub(crate) struct FlowObjects(RefCell<Vec<Option<Table>>>);

impl FlowObjects {
    /// The object of a flow: the same as long as the flow exists.
    pub(crate) fn object(&self, lua: &Lua, flow: &Rc<Flow>) -> Result<AnyUserData> {
        let (page, at) = page_of(flow);
        let mut pages = self.0.borrow_mut();
        if pages.len() <= page {
            pages.resize_with(page + 1, || None);
        }
        let table = match &mut pages[page] {
            Some(table) => table,
            none => none.insert(lua.create_table_with_capacity(PAGE, 0)?),
        };
        if let Value::UserData(known) = table.raw_get(at)? {
            return Ok(known);
        }
        let object = lua.create_userdata(FlowObject(flow.clone()))?;
        table.raw_set(at, &object)?;
        Ok(object)
    }

    /// Removes the object of a flow.
    pub(crate) fn remove(&self, flow: &Flow) {
        let (page, at) = page_of(flow);
        if let Some(Some(table)) = self.0.borrow().get(page) {
            // Setting nil needs no memory.
            let _ = table.raw_set(at, Value::Nil);
        }
    }
}

/// Page, and index in it.
fn page_of(flow: &Flow) -> (usize, usize) {
    (flow.place as usize / PAGE, flow.place as usize % PAGE + 1)
}

/// The indexes of flows that exist; one that became free is used again.
#[derive(Debug, Default)]
pub(crate) struct Places {
    free: Vec<u32>,
    used: u32,
}

impl Places {
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        })
    }

    pub(crate) fn put(&mut self, place: u32) {
        self.free.push(place);
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
