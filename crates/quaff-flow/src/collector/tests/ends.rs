//! Abnormal ends: readers that block, threads that panic, peers that never finish.

use super::*;

fn zeek(name: &str, out: Box<dyn Write + Send>) -> SinkPlan {
    SinkPlan::File {
        target: Target::Writer(name.to_owned(), out),
        kind: FileKind::Zeek,
        scene: Scene::default(),
    }
}

#[test]
fn a_file_whose_reader_stands_still_ends_with_its_deadline() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut sinks = start(vec![zeek("pipe", Box::new(writer))], plan(Pressure::Drop)).unwrap();
    for batch in 0..4 {
        sinks.send(&numbered(batch * 5000..batch * 5000 + 5000), START_NS);
    }
    let report = in_time("stop", move || sinks.stop(Duration::from_millis(100))).remove(0);
    assert_accounted(&report, 20_000);
    assert!(report.missed.at_end.records > 0 && report.failure.is_some(), "{report:?}");
    drop(reader);
}

/// A defect of a sink costs only its own records.
#[test]
fn a_sink_that_panics_stops_neither_the_meter_nor_others() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            panic!("a defect for this test")
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conn.log");
    let whole =
        SinkPlan::File { target: Target::Path(path.clone()), kind: FileKind::Zeek, scene: Scene::default() };
    let plan = SinksPlan { queue_records: 1000, ..plan(waiting()) };
    let mut sinks = start(vec![zeek("broken", Box::new(Broken)), whole], plan).unwrap();
    let reports = in_time("send", move || {
        for batch in 0..20 {
            sinks.send(&numbered(batch * 1000..batch * 1000 + 1000), START_NS);
        }
        sinks.stop(PATIENCE)
    });
    assert_accounted(&reports[0], 20_000);
    assert!(reports[0].failure.as_ref().is_some_and(|failure| failure.contains("panicked")), "{reports:?}");
    assert_eq!(reports[1].sent.records, 20_000);
}

/// A collector with a wrong port, while files are read: the other sinks continue after a while.
#[test]
fn a_collector_that_is_away_does_not_stop_the_reading_of_files() {
    let (_port, address) = closed_port();
    let mut away = collector("tcp", address);
    away.connect_timeout = Duration::from_millis(50);
    away.encoder = encoder("%IN_BYTES %quaffFirstPayload");
    // A few records of 4 KB fill the memory of a sink, and 1,000 fill its queue.
    let mut long = record(1);
    let mut extras = crate::record::Extras::default();
    extras.forward.payload = vec![7; 4000];
    long.extras = Some(Box::new(extras));
    let batch = Arc::new(vec![long; 1000]);
    let report = in_time("send", move || {
        let sink = vec![SinkPlan::Collector(Box::new(away))];
        let mut sinks = start(sink, SinksPlan { queue_records: 1000, ..plan(waiting()) }).unwrap();
        for _ in 0..8 {
            sinks.send(&batch, START_NS);
        }
        sinks.stop(Duration::from_millis(100)).remove(0)
    });
    assert_accounted(&report, 8000);
    assert!(report.missed.away.records > 0 && report.failure.is_some(), "{report:?}");
}

/// The time of the whole handshake is limited, for a peer that sends a byte now and then.
#[test]
fn a_handshake_that_never_ends_is_abandoned() {
    let folder = tempfile::tempdir().unwrap();
    if certificates(folder.path()).is_none() {
        return quaff_os::testing::skip("tls", "openssl is not installed");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut plan = collector("tls", address);
    plan.connect_timeout = Duration::from_millis(300);
    plan.reconnect = Duration::from_secs(3600);
    plan.tls.ca = Some(folder.path().join("ca.pem"));
    let mut sinks = sinks(vec![plan], Pressure::Drop);
    sinks.send(&numbered(0..10), START_NS);
    // A record of 16 KiB, byte by byte, until the client closes.
    let is_over = in_time("the handshake", move || {
        let mut stream = listener.accept().unwrap().0;
        let header = [0x16, 3, 3, 0x40, 0];
        header.into_iter().chain(std::iter::repeat(0)).any(|byte| {
            std::thread::sleep(Duration::from_millis(20));
            stream.write_all(&[byte]).is_err()
        })
    });
    assert!(is_over);
    let report = in_time("stop", move || sinks.stop(Duration::from_millis(100))).remove(0);
    assert_eq!(report.missed.at_end.records, 10);
    assert!(report.failure.is_some(), "{report:?}");
}

/// TLS 1.2 encrypts a limited number of records with the same keys, here 8. rustls accepts further ones, but sends
/// none.
#[test]
fn a_message_that_tls_does_not_encrypt_is_an_error() {
    use rustls::crypto::{CipherSuiteCommon, CryptoProvider, ring};
    use rustls::{SupportedCipherSuite, Tls12CipherSuite};
    let folder = tempfile::tempdir().unwrap();
    if certificates(folder.path()).is_none() {
        return quaff_os::testing::skip("tls", "openssl is not installed");
    }
    let SupportedCipherSuite::Tls12(suite) = ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
    else {
        panic!("a suite of TLS 1.2")
    };
    let common = CipherSuiteCommon {
        suite: suite.common.suite,
        hash_provider: suite.common.hash_provider,
        confidentiality_limit: 8,
    };
    let limited: &'static Tls12CipherSuite = Box::leak(Box::new(Tls12CipherSuite {
        common,
        prf_provider: suite.prf_provider,
        kx: suite.kx,
        sign: suite.sign,
        aead_alg: suite.aead_alg,
    }));
    let provider = CryptoProvider {
        cipher_suites: vec![SupportedCipherSuite::Tls12(limited)],
        ..ring::default_provider()
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = Arc::new(tls_server(folder.path()));
    let thread = std::thread::spawn(move || {
        let mut connection = rustls::ServerConnection::new(server).unwrap();
        connection.complete_io(&mut listener.accept().unwrap().0).is_ok()
    });
    let path = |name: &str| Some(folder.path().join(name));
    let plan = TlsPlan {
        ca: path("ca.pem"),
        certificate: path("client.pem"),
        key: path("client.key"),
        server_name: None,
    };
    let client = tls::TlsClient::with_provider(&plan, "127.0.0.1", provider).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let mut tls = client.handshake(&mut stream, Instant::now() + PATIENCE).unwrap();
    assert!(thread.join().unwrap());
    let mut out = Vec::new();
    let encrypted = (0..20).take_while(|_| tls.encrypt(&[7; 1000], &mut out).is_ok()).count();
    assert!((1..8).contains(&encrypted), "{encrypted}");
    assert!(tls.encrypt(&[7; 1000], &mut out).is_err());
}

/// A named pipe is opened without waiting for its reader, once, and writes wait for room.
#[test]
fn writes_to_a_named_pipe_wait() {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use std::os::unix::fs::OpenOptionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut reader = std::fs::File::options();
    let reader = reader.read(true).custom_flags(nix::libc::O_NONBLOCK).open(&path).unwrap();
    let pipe = start::open_pipe(&path, &Pressure::Drop).unwrap();
    let flags = OFlag::from_bits_retain(fcntl(&pipe, FcntlArg::F_GETFL).unwrap());
    assert!(!flags.contains(OFlag::O_NONBLOCK), "{flags:?}");
    drop(reader);
}

/// Two runs that write one file would make it unreadable.
#[test]
fn a_file_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.json");
    let target = || Target::Path(path.clone());
    let sink = || SinkPlan::File { target: target(), kind: FileKind::Zeek, scene: Scene::default() };
    let first = start(vec![sink()], plan(waiting())).unwrap();
    let error = start(vec![sink()], plan(waiting())).unwrap_err().to_string();
    assert!(error.contains("another export is writing it"), "{error}");
    first.stop(PATIENCE);
    assert!(start(vec![sink()], plan(waiting())).is_ok());
}

/// The newest ledger is exported; older ones use no room in a queue.
#[test]
fn the_newest_ledger_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.ipfix");
    let kind = FileKind::Ipfix(Box::new(encoder(TEMPLATE)));
    let sink = SinkPlan::File { target: Target::Path(path.clone()), kind, scene: Scene::default() };
    let mut sinks = start(vec![sink], plan(waiting())).unwrap();
    sinks.send(&numbered(0..10), START_NS);
    let marks = [0x1122_3344_5566_7788_u64, 0x0102_0304_0506_0708];
    for mark in marks {
        let mut ledger = FlowLedger::default();
        ledger.seen.packets = mark;
        sinks.ledger(&ledger, START_NS);
    }
    sinks.stop(PATIENCE);
    let file = std::fs::read(&path).unwrap();
    let has = |mark: u64| file.windows(8).any(|bytes| bytes == mark.to_be_bytes());
    assert_eq!(marks.map(has), [false, true]);
}

/// A run whose lanes could not be started leaves its files unchanged.
#[test]
fn a_file_is_emptied_when_the_run_has_begun_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conn.log");
    std::fs::write(&path, "of yesterday, and longer than the header of an empty file by far. ".repeat(20))
        .unwrap();
    let start = || {
        let target = Target::Path(path.clone());
        let sink = SinkPlan::File { target, kind: FileKind::Zeek, scene: Scene::default() };
        start(vec![sink], plan(Pressure::Drop)).unwrap()
    };
    drop(start());
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("of yesterday"));
    start().stop(PATIENCE);
    assert!(!std::fs::read_to_string(&path).unwrap().contains("yesterday"));
}
