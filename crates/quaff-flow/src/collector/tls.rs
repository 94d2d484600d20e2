//! TLS for a connection: certificates are read at the start, bytes are encrypted into memory. It never touches a socket
//! after the handshake.

use quaff_os::{Error, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{self, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Files of TLS. A collector over TLS needs `ca`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsPlan {
    /// PEM of the certificates that sign the collector's.
    pub ca: Option<PathBuf>,
    /// PEM of our certificate and its key, for collectors that ask for one (RFC 7011, 11.3 asks for both).
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// The name in the collector's certificate, if it is not that of the URL.
    pub server_name: Option<String>,
}

/// The settings of all connections to one collector.
#[derive(Debug)]
pub(super) struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

fn failed(tried: String, error: impl std::fmt::Display) -> Error {
    Error::new(tried, io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let tried = || format!("read certificates from {}", path.display());
    let found = CertificateDer::pem_file_iter(path).map_err(|error| failed(tried(), error))?;
    let found: std::result::Result<Vec<_>, _> = found.collect();
    let found = found.map_err(|error| failed(tried(), error))?;
    if found.is_empty() { Err(failed(tried(), "it has no certificate")) } else { Ok(found) }
}

impl TlsClient {
    /// Reads the files.
    pub(super) fn new(plan: &TlsPlan, host: &str) -> Result<Self> {
        let ca = plan.ca.as_deref().ok_or_else(|| {
            failed(format!("export to {host} over TLS"), "no certificate authority is given")
                .advise("give the file of the certificates that sign the collector's")
        })?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            let added = roots.add(certificate);
            added.map_err(|error| failed(format!("use a certificate of {}", ca.display()), error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed("prepare TLS".to_owned(), error))?
            .with_root_certificates(roots);
        let config = match (&plan.certificate, &plan.key) {
            (Some(certificate), Some(key)) => {
                let tried = || format!("use {} with the key {}", certificate.display(), key.display());
                let chain = certificates(certificate)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(tried(), error))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| failed(tried(), error))?
            }
            (None, None) => builder.with_no_client_auth(),
            _ => {
                return Err(failed(
                    "prepare TLS".to_owned(),
                    "a certificate needs its key, and a key its certificate",
                ));
            }
        };
        let name = plan.server_name.as_deref().unwrap_or(host).to_owned();
        let tried = format!("verify a collector named {name}");
        let name = ServerName::try_from(name).map_err(|error| failed(tried, error))?;
        Ok(Self { config: Arc::new(config), name })
    }

    /// The handshake, until `deadline`: a peer that sends a byte now and then does not make it longer.
    pub(super) fn handshake(&self, stream: &mut TcpStream, deadline: Instant) -> io::Result<TlsStream> {
        let connection = ClientConnection::new(self.config.clone(), self.name.clone());
        let mut connection = connection.map_err(io::Error::other)?;
        connection.set_buffer_limit(None);
        while connection.is_handshaking() || connection.wants_write() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))?;
            stream.set_write_timeout(Some(left))?;
            if connection.wants_write() {
                connection.write_tls(stream)?;
                continue;
            }
            if connection.read_tls(stream)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let state = connection.process_new_packets();
            if let Err(error) = state {
                // The alert says why.
                let _ = connection.write_tls(stream);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        Ok(TlsStream { connection })
    }
}

/// TLS of one connection.
#[derive(Debug)]
pub(super) struct TlsStream {
    connection: ClientConnection,
}

impl TlsStream {
    /// Appends the records of TLS for these bytes. A session takes no more after 2^24 records of AES-GCM (RFC 8446,
    /// 5.5), or when it was closed.
    pub(super) fn encrypt(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let written = self.connection.writer().write_all(bytes);
        self.drain(out);
        written
    }

    fn drain(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            if self.connection.write_tls(out).is_err() {
                break;
            }
        }
    }

    /// Takes bytes of the peer: tickets, alerts.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> std::result::Result<(), rustls::Error> {
        while !bytes.is_empty() {
            if self.connection.read_tls(&mut bytes).is_err() {
                break;
            }
            let has_closed = self.connection.process_new_packets()?.peer_has_closed();
            // What a collector sends is dropped, so that the buffer of it is never full.
            let _ = io::copy(&mut self.connection.reader(), &mut io::sink());
            if has_closed {
                return Err(rustls::Error::General("the collector closed the session".to_owned()));
            }
        }
        Ok(())
    }

    /// Appends the end of the session.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        self.connection.send_close_notify();
        self.drain(out);
    }
}
