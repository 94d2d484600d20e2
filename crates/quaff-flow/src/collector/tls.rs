//! TLS for a connection: certificates are read at the start, bytes are encrypted in memory. Uses no socket after the
//! handshake.

use quaff_os::{Error, Result};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Files of TLS. A collector over TLS needs `ca`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsPlan {
    /// PEM of the certificates that sign the collector's certificate.
    pub ca: Option<PathBuf>,
    /// PEM of quaff's certificate and its key, for collectors that ask for one (RFC 7011, 11.3 requires it of both
    /// ends).
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// The name in the collector's certificate, if it differs from the host in the URL.
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
    /// Reads the certificates and the key.
    pub(super) fn new(plan: &TlsPlan, host: &str) -> Result<Self> {
        Self::with_provider(plan, host, rustls::crypto::ring::default_provider())
    }

    /// As [`Self::new`], with the ciphers of `provider`.
    pub(super) fn with_provider(plan: &TlsPlan, host: &str, provider: CryptoProvider) -> Result<Self> {
        let ca = plan.ca.as_deref().ok_or_else(|| {
            failed(format!("export to {host} over TLS"), "no certificate authority is given")
                .advise("give the file of the certificates that sign the collector's")
        })?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            let added = roots.add(certificate);
            added.map_err(|error| failed(format!("use a certificate of {}", ca.display()), error))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
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

    /// Performs the handshake on a blocking socket; fails after `end`.
    pub(super) fn handshake(&self, stream: &mut TcpStream, end: Instant) -> io::Result<TlsStream> {
        let connection = ClientConnection::new(self.config.clone(), self.name.clone());
        let mut connection = connection.map_err(io::Error::other)?;
        connection.set_buffer_limit(None);
        let mut timed = TimedStream { stream, end };
        while connection.is_handshaking() {
            connection.complete_io(&mut timed)?;
        }
        Ok(TlsStream { connection })
    }
}

/// A blocking socket with a deadline, which a peer that sends a byte now and then does not extend.
struct TimedStream<'a> {
    stream: &'a mut TcpStream,
    end: Instant,
}

impl TimedStream<'_> {
    /// The remaining time, as a timeout of the socket, which cannot be 0.
    fn left(&self) -> io::Result<Option<std::time::Duration>> {
        match self.end.saturating_duration_since(Instant::now()) {
            left if left.is_zero() => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake of TLS took too long"))
            }
            left => Ok(Some(left)),
        }
    }
}

impl Read for TimedStream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for TimedStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// The TLS session of a connection.
#[derive(Debug)]
pub(super) struct TlsStream {
    connection: ClientConnection,
}

impl TlsStream {
    /// Appends these bytes as TLS records. An error ends the session: TLS 1.2 encrypts at most 2^24 records with the
    /// same keys.
    pub(super) fn encrypt(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let before = out.len();
        self.connection.writer().write_all(bytes)?;
        self.drain(out);
        // At that limit rustls still accepts bytes, but writes the end of the session instead of them.
        match out.len() - before >= bytes.len() {
            true => Ok(()),
            false => Err(io::Error::other("the session has encrypted as many messages as its keys may")),
        }
    }

    fn drain(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            if self.connection.write_tls(out).is_err() {
                break;
            }
        }
    }

    /// Processes bytes from the peer: tickets, alerts, and data, which is discarded.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.connection.read_tls(&mut bytes)?;
            let state = self.connection.process_new_packets().map_err(io::Error::other)?;
            if state.peer_has_closed() {
                return Err(io::Error::other("the collector closed the session"));
            }
            // Unread data would fill the buffer of rustls and hide the end of the session. The copy ends with
            // WouldBlock.
            let _ = io::copy(&mut self.connection.reader(), &mut io::sink());
        }
        Ok(())
    }

    /// Appends the end of the session.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        self.connection.send_close_notify();
        self.drain(out);
    }
}
