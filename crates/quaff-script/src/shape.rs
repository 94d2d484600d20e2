//! The tables that events pass to scripts, by their fields: a name that is no field is an error, as of packets and
//! flows. A field that a table does not have is nil, and a script may add fields of its own.

use mlua::{Error, Lua, Result, Table, Value};

/// A kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Data,
    Line,
    Match,
    Http,
    HttpRequestLine,
    Dns,
    Question,
    Record,
    Hello,
    Evidence,
    Fragment,
    Arp,
}

/// Names and fields, in the order of [`Shape`].
const SHAPES: [(Shape, &str, &str); 12] = [
    (Shape::Data, "data", "bytes, offset, lost, from"),
    (Shape::Line, "a line", "text, number, from, cut"),
    (Shape::Match, "a match", "text, offset, from"),
    (
        Shape::Http,
        "a message of HTTP",
        "method, target, host, status, reason, request, version, headers, number, from, body_bytes, lost_bytes, whole, \
         head_cut",
    ),
    (Shape::HttpRequestLine, "the request of a response", "method, target, host, number"),
    (
        Shape::Dns,
        "a message of DNS",
        "id, response, code, operation, authoritative, truncated, whole, from, questions, answers, authorities, \
         additionals",
    ),
    (Shape::Question, "a question", "name, type"),
    (Shape::Record, "a record", "name, type, ttl, data"),
    (Shape::Hello, "a hello", "from, version, server_name, alpn, ciphers, extensions, ja4, cipher, retry"),
    (Shape::Evidence, "evidence", "kind, from, offset, bytes, cause, kept, first, second"),
    (Shape::Fragment, "a fragment", "offset, more, id"),
    (Shape::Arp, "a message of ARP", "operation, sender_ip, sender_mac, target_ip"),
];

/// The metatables of a script, by shape.
pub(crate) struct Shapes(Vec<Table>);

impl Shapes {
    /// Creates the metatables.
    pub(crate) fn new(lua: &Lua) -> Result<Self> {
        SHAPES.iter().map(|(_, name, fields)| metatable(lua, name, fields)).collect::<Result<_>>().map(Self)
    }

    /// A table of a shape with these fields.
    #[inline]
    pub(crate) fn table<const N: usize>(
        &self,
        lua: &Lua,
        shape: Shape,
        fields: [(&str, Value); N],
    ) -> Result<Table> {
        let table = lua.create_table_with_capacity(0, N)?;
        for (name, value) in fields {
            table.raw_set(name, value)?;
        }
        table.set_metatable(Some(self.0[shape as usize].clone()))?;
        Ok(table)
    }
}

fn metatable(lua: &Lua, name: &'static str, fields: &'static str) -> Result<Table> {
    let index = move |_: &Lua, (_, key): (Value, Value)| -> Result<Value> {
        let text = key.as_string().map(|key| key.to_string_lossy());
        if text.as_ref().is_some_and(|text| fields.split(", ").any(|field| field == text)) {
            return Ok(Value::Nil);
        }
        let shown = match (text, key) {
            (Some(text), _) => format!("{text:?}"),
            (None, Value::Integer(number)) => number.to_string(),
            (None, key) => format!("of type {}", key.type_name()),
        };
        Err(Error::RuntimeError(format!("{name} has no field {shown}: {fields}")))
    };
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", lua.create_function(index)?)?;
    metatable.raw_set("__metatable", false)?;
    Ok(metatable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_knows_its_fields() {
        let lua = Lua::new();
        let shapes = Shapes::new(&lua).expect("metatables");
        for (at, (shape, name, fields)) in SHAPES.iter().enumerate() {
            assert_eq!(*shape as usize, at, "{name}");
            let table = shapes.table(&lua, *shape, []).expect("a table");
            for field in fields.split(", ") {
                assert_eq!(table.get::<Value>(field).ok(), Some(Value::Nil), "{name}.{field}");
            }
            for wrong in ["nonsense", "", "From"] {
                let error = table.get::<Value>(wrong).expect_err(name).to_string();
                assert!(error.contains(&format!("{name} has no field {wrong:?}: ")), "{error}");
            }
            assert!(table.get::<Value>(1).expect_err(name).to_string().contains("no field 1: "));
            table.set("own", 1).expect("a field of the script");
            assert_eq!(table.get::<i64>("own").ok(), Some(1));
        }
    }
}
