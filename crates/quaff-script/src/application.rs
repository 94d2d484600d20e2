//! Converts application messages to Lua tables; holds the readers of one flow that find them.
//!
//! A flow has a reader only for messages that a script requests. Reading is done by `quaff-stream`.

use crate::script::ScriptScope;
use crate::shape::Shape;
use crate::trigger::Event;
use mlua::{Result, Table, Value};
use quaff_stream::application::dns::{DnsMessage, DnsRecord, DnsStream, code_name, kind_name};
use quaff_stream::application::http::{HttpEvent, HttpMessage, HttpReader};
use quaff_stream::application::tls::{HelloReader, TlsHello, version_name};
use quaff_stream::{EndReason, Sender};
use std::collections::BTreeMap;

/// A message that a reader has found.
#[derive(Clone, Copy)]
pub(crate) enum Found<'a> {
    Http(&'a HttpMessage),
    Dns(&'a DnsMessage),
    Hello(&'a TlsHello),
}

/// The application readers of one TCP flow.
#[derive(Default)]
pub(crate) struct Applications {
    http: Option<HttpReader>,
    dns: Option<DnsStream>,
    tls: Option<HelloReader>,
}

type Sink<'a> = &'a mut dyn FnMut(Sender, Found<'_>);

impl Applications {
    /// Creates the readers for these events.
    pub(crate) fn new(events: impl Iterator<Item = Event>) -> Self {
        let mut all = Self::default();
        for event in events {
            match event {
                Event::HttpRequest | Event::HttpResponse => drop(all.http.get_or_insert_default()),
                Event::Dns => drop(all.dns.get_or_insert_default()),
                Event::TlsHello => drop(all.tls.get_or_insert_default()),
                _ => {}
            }
        }
        all
    }

    pub(crate) fn data(&mut self, sender: Sender, bytes: &[u8], sink: Sink<'_>) {
        if let Some(http) = self.http.as_mut().filter(|http| !http.is_over()) {
            http.data(sender, bytes, &mut |sender, event| pass_on(sender, &event, sink));
        }
        if let Some(dns) = self.dns.as_mut().filter(|dns| !dns.is_over()) {
            dns.data(sender, bytes, &mut |sender, message| sink(sender, Found::Dns(message)));
        }
        if let Some(tls) = self.tls.as_mut().filter(|tls| !tls.is_over()) {
            tls.data(sender, bytes, &mut |sender, hello| sink(sender, Found::Hello(hello)));
        }
    }

    /// Notes that bytes are missing.
    pub(crate) fn gap(&mut self, sender: Sender, lost_bytes: u64, sink: Sink<'_>) {
        if let Some(http) = &mut self.http {
            http.gap(sender, lost_bytes, &mut |sender, event| pass_on(sender, &event, sink));
        }
        self.dns.iter_mut().for_each(|dns| dns.gap(sender));
        self.tls.iter_mut().for_each(|tls| tls.gap(sender));
    }

    pub(crate) fn end(&mut self, sender: Sender, reason: EndReason, sink: Sink<'_>) {
        if let Some(http) = &mut self.http {
            http.end(sender, reason, &mut |sender, event| pass_on(sender, &event, sink));
        }
    }
}

/// Passes an HTTP message on at its end.
fn pass_on(sender: Sender, event: &HttpEvent<'_>, sink: Sink<'_>) {
    if let HttpEvent::End(message) = event {
        sink(sender, Found::Http(message));
    }
}

impl Found<'_> {
    /// The event that it triggers.
    pub(crate) fn event(&self) -> Event {
        match self {
            Self::Http(message) if message.head.status().is_some() => Event::HttpResponse,
            Self::Http(_) => Event::HttpRequest,
            Self::Dns(_) => Event::Dns,
            Self::Hello(_) => Event::TlsHello,
        }
    }

    /// Its Lua table; `from` is the side that sent it.
    pub(crate) fn table(&self, scope: &ScriptScope, from: &str) -> Result<Table> {
        match self {
            Self::Http(message) => http(scope, message, from),
            Self::Dns(message) => dns(scope, message, from),
            Self::Hello(hello) => tls(scope, hello, from),
        }
    }
}

fn http(scope: &ScriptScope, message: &HttpMessage, from: &str) -> Result<Table> {
    let HttpMessage { number, head, body_bytes, lost_bytes, is_whole, is_head_cut, request } = message;
    let table = scope.table(
        Shape::Http,
        [
            ("from", scope.text(from.as_bytes())?),
            ("number", Value::Integer(*number as i64)),
            ("version", scope.text(head.version().as_bytes())?),
            ("body_bytes", Value::Integer(*body_bytes as i64)),
            ("lost_bytes", Value::Integer(*lost_bytes as i64)),
            ("whole", Value::Boolean(*is_whole)),
            ("head_cut", Value::Boolean(*is_head_cut)),
        ],
    )?;
    match head.status() {
        Some(status) => {
            table.raw_set("status", status)?;
            table.raw_set("reason", scope.text(head.reason())?)?;
        }
        None => {
            table.raw_set("method", scope.text(head.method())?)?;
            table.raw_set("target", scope.text(head.target())?)?;
            table.raw_set("host", scope.text(head.field("host").unwrap_or_default())?)?;
        }
    }
    // Field names are case-insensitive (RFC 9110, 5.1); a repeated field is joined to a list (5.3).
    let mut fields: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for (name, value) in head.fields() {
        let known = fields.entry(name.to_ascii_lowercase()).or_default();
        if !known.is_empty() {
            known.extend_from_slice(b", ");
        }
        known.extend_from_slice(value);
    }
    let headers = scope.list()?;
    for (name, value) in fields {
        headers.raw_set(scope.text(&name)?, scope.text(&value)?)?;
    }
    table.raw_set("headers", headers)?;
    if let Some(request) = request {
        let request = scope.table(
            Shape::HttpRequestLine,
            [
                ("number", Value::Integer(request.number as i64)),
                ("method", scope.text(&request.method)?),
                ("target", scope.text(&request.target)?),
                ("host", scope.text(&request.host)?),
            ],
        )?;
        table.raw_set("request", request)?;
    }
    Ok(table)
}

fn dns(scope: &ScriptScope, message: &DnsMessage, from: &str) -> Result<Table> {
    let table = scope.table(
        Shape::Dns,
        [
            ("from", scope.text(from.as_bytes())?),
            ("id", Value::Integer(message.id.into())),
            ("response", Value::Boolean(message.is_response)),
            ("code", scope.text(code_name(message.code).as_bytes())?),
            ("operation", Value::Integer(message.operation.into())),
            ("authoritative", Value::Boolean(message.is_authoritative)),
            ("truncated", Value::Boolean(message.is_truncated)),
            ("whole", Value::Boolean(message.is_whole)),
        ],
    )?;
    let questions = scope.list()?;
    for question in &message.questions {
        let name = scope.text(question.name.as_bytes())?;
        questions.raw_push(scope.table(
            Shape::Question,
            [("name", name), ("type", scope.text(kind_name(question.kind).as_bytes())?)],
        )?)?;
    }
    table.raw_set("questions", questions)?;
    let lists = [
        ("answers", &message.answers),
        ("authorities", &message.authorities),
        ("additionals", &message.additionals),
    ];
    for (name, list) in lists {
        table.raw_set(name, records(scope, list)?)?;
    }
    Ok(table)
}

fn records(scope: &ScriptScope, records: &[DnsRecord]) -> Result<Table> {
    let table = scope.list()?;
    for DnsRecord { name, kind, ttl_s, data, .. } in records {
        table.raw_push(scope.table(
            Shape::Record,
            [
                ("name", scope.text(name.as_bytes())?),
                ("type", scope.text(kind_name(*kind).as_bytes())?),
                ("ttl", Value::Integer((*ttl_s).into())),
                ("data", scope.text(data.as_bytes())?),
            ],
        )?)?;
    }
    Ok(table)
}

fn tls(scope: &ScriptScope, hello: &TlsHello, from: &str) -> Result<Table> {
    let text = |text: &Option<String>| match text {
        Some(text) => scope.text(text.as_bytes()),
        None => Ok(Value::Nil),
    };
    let table = scope.table(
        Shape::Hello,
        [
            ("from", scope.text(from.as_bytes())?),
            ("version", scope.text(version_name(hello.version).as_bytes())?),
            ("server_name", text(&hello.server_name)?),
            ("ja4", text(&hello.ja4)?),
        ],
    )?;
    if !hello.is_client {
        table.raw_set("cipher", hello.ciphers.first().copied())?;
        table.raw_set("retry", hello.is_retry)?;
    }
    table.raw_set("alpn", hello.alpn.clone())?;
    table.raw_set("ciphers", hello.ciphers.clone())?;
    table.raw_set("extensions", hello.extensions.clone())?;
    Ok(table)
}
