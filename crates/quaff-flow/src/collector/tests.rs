//! Tests sinks with collectors in this process: all records arrive, or are counted, over each transport.

use super::*;
use crate::export::samples::{START_NS, biflow, record};
use crate::export::{Carried, Encoder, EncoderPlan, Names, Scene, Template, Version};
use crate::record::FlowSink;
use netflow_parser::NetflowPacket;
use netflow_parser::variable_versions::ipfix::FlowSetBody;
use quaff_os::Stop;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

mod ends;
mod spools;

const TEMPLATE: &str = "%IN_BYTES %IPV4_SRC_ADDR %L4_SRC_PORT %IN_PKTS";
/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Records with these numbers; the number is their count of bytes.
fn numbered(range: std::ops::Range<u64>) -> Arc<Vec<FlowRecord>> {
    let one = |number: u64| {
        let mut one = record(1);
        one.forward.bytes = number;
        one
    };
    Arc::new(range.map(one).collect())
}

fn encoder(template: &str) -> EncoderPlan {
    let template = Template::parse(template).unwrap();
    EncoderPlan { template, boot_ns: START_NS - 1_000_000_000, ..EncoderPlan::new(Version::Ipfix) }
}

fn collector(scheme: &str, address: SocketAddr) -> CollectorPlan {
    let url = format!("{scheme}://{address}").parse().unwrap();
    let mut plan = CollectorPlan::new(url, encoder(TEMPLATE));
    plan.reconnect = Duration::from_millis(50);
    plan.linger = Duration::from_millis(20);
    plan
}

fn sinks(plans: Vec<CollectorPlan>, pressure: Pressure) -> Sinks {
    let plans = plans.into_iter().map(|plan| SinkPlan::Collector(Box::new(plan))).collect();
    start(plans, plan(pressure)).unwrap()
}

/// Opens sinks, and starts them at [`START_NS`].
fn start(sinks: Vec<SinkPlan>, plan: SinksPlan) -> Result<Sinks> {
    OpenSinks::open(sinks, plan)?.start(InputStart { now_ns: START_NS, boot_ns: None })
}

fn plan(pressure: Pressure) -> SinksPlan {
    let is_prompt = matches!(pressure, Pressure::Drop);
    SinksPlan { pressure, is_round_robin: false, queue_records: 100_000, is_prompt }
}

fn waiting() -> Pressure {
    Pressure::Wait(Stop::default())
}

/// Splits a stream into messages, and the bytes of an incomplete one.
fn split(mut bytes: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut messages = Vec::new();
    while bytes.len() >= 4 {
        let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        if bytes.len() < length {
            break;
        }
        messages.push(&bytes[..length]);
        bytes = &bytes[length..];
    }
    (messages, bytes)
}

/// Decodes a session; returns the numbers of its records. Checks sequence numbers and templates.
fn numbers<'a>(messages: impl IntoIterator<Item = &'a [u8]>) -> Vec<u64> {
    let (mut parser, mut numbers, mut sequence) = (crate::export::roundtrip::parser(), Vec::new(), 0);
    for message in messages {
        let result = parser.parse_bytes(message);
        assert!(result.error.is_none(), "{:?}", result.error);
        for packet in result.packets {
            let NetflowPacket::IPFix(packet) = packet else { panic!("{packet:?}") };
            assert_eq!(packet.header.sequence_number, sequence, "after {} records", numbers.len());
            for set in packet.flowsets {
                match set.body {
                    FlowSetBody::Data(data) => {
                        sequence += data.fields.len() as u32;
                        let number = |value| match value {
                            netflow_parser::FieldValue::DataNumber(number) => number.as_u64().unwrap(),
                            other => panic!("{other:?}"),
                        };
                        numbers.extend(data.fields.into_iter().map(|fields| number(fields[0].1.clone())));
                    }
                    FlowSetBody::OptionsData(data) => sequence += data.fields.len() as u32,
                    FlowSetBody::NoTemplate(_) => panic!("data without a template"),
                    _ => {}
                }
            }
        }
    }
    numbers
}

/// Asserts that every record of a run is counted once.
#[track_caller]
fn assert_accounted(report: &SinkReport, records: u64) {
    let sent = report.sent.records - report.from_earlier.records;
    let kept = report.unsuited.records + report.left_in_spool().records;
    assert_eq!(sent + report.missed.total().records + kept, records, "{report:#?}");
}

/// Runs a function that must end within [`PATIENCE`].
fn in_time<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(run()));
    is_done.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} does not end"))
}

/// A loopback port that refuses connections until it is opened, or another socket of the test listens there. Until
/// then, the kernel assigns it to no other socket. Its connections buffer only few unread bytes.
fn closed_port() -> (TcpListener, SocketAddr) {
    use nix::sys::socket::{
        AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt,
    };
    use std::os::fd::AsRawFd;
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    setsockopt(&fd, sockopt::RcvBuf, &(32 << 10)).unwrap();
    setsockopt(&fd, sockopt::ReuseAddr, &true).unwrap();
    bind(fd.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    let port = TcpListener::from(fd);
    let address = port.local_addr().unwrap();
    (port, address)
}

fn open_port(port: &TcpListener) {
    nix::sys::socket::listen(port, nix::sys::socket::Backlog::new(16).unwrap()).unwrap();
}

#[test]
fn a_collector_on_udp_receives_every_record() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut sinks = sinks(vec![collector("udp", socket.local_addr().unwrap())], waiting());
    let (mut datagrams, mut bytes) = (Vec::new(), [0; 65536]);
    for batch in 0..20 {
        sinks.send(&numbered(batch * 100..batch * 100 + 100), START_NS);
        while sinks.counters()[0].queued > 0 {
            std::thread::yield_now();
        }
        socket.set_nonblocking(true).unwrap();
        while let Ok(length) = socket.recv(&mut bytes) {
            datagrams.push(bytes[..length].to_vec());
        }
    }
    let report = sinks.stop(PATIENCE).remove(0);
    socket.set_nonblocking(false).unwrap();
    while let Ok(length) = socket.recv(&mut bytes) {
        datagrams.push(bytes[..length].to_vec());
    }
    assert_eq!(numbers(datagrams.iter().map(Vec::as_slice)), (0..2000).collect::<Vec<_>>());
    assert!(datagrams.iter().all(|datagram| datagram.len() <= 1472));
    assert_accounted(&report, 2000);
    // Two announcements before the first record.
    assert!(report.templates >= 2 && report.is_up, "{report:?}");
}

#[test]
fn templates_are_repeated_over_udp() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut plan = collector("udp", socket.local_addr().unwrap());
    plan.refresh = TemplateRefresh { every: Duration::from_millis(30), messages: 0, copies: 1 };
    let sinks = sinks(vec![plan], Pressure::Drop);
    let has_templates = |message: &[u8]| u16::from_be_bytes([message[16], message[17]]) == 2;
    let (mut seen, mut bytes) = (0, [0; 65536]);
    while seen < 3 {
        let length = socket.recv(&mut bytes).unwrap();
        seen += usize::from(has_templates(&bytes[..length]));
    }
    drop(sinks);
}

/// Reads a connection until its end, or until `enough` holds.
fn read_session(mut stream: TcpStream, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let (mut all, mut bytes) = (Vec::new(), [0; 65536]);
    while !enough(&all) {
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(length) => all.extend(&bytes[..length]),
        }
    }
    all
}

#[test]
fn a_collector_on_tcp_receives_every_record_in_one_session() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || read_session(listener.accept().unwrap().0, |_| false));
    let mut sinks = sinks(vec![collector("tcp", address)], waiting());
    for batch in 0..50 {
        sinks.send(&numbered(batch * 1000..batch * 1000 + 1000), START_NS);
    }
    let report = sinks.stop(PATIENCE).remove(0);
    let stream = thread.join().unwrap();
    let (messages, rest) = split(&stream);
    assert!(rest.is_empty());
    assert_eq!(numbers(messages), (0..50_000).collect::<Vec<_>>());
    assert_accounted(&report, 50_000);
    assert_eq!(report.reconnects, 0);
}

/// The collector disconnects while messages are in transit, and is back after a while: unacknowledged and spooled
/// messages arrive, in sessions that begin with templates.
#[test]
fn a_collector_that_was_away_receives_all_from_the_spool() {
    let folder = tempfile::tempdir().unwrap();
    let (_port, address) = closed_port();
    let listener = TcpListener::bind(address).unwrap();
    let mut plan = collector("tcp", address);
    plan.spool = Some(SpoolPlan { folder: folder.path().to_owned(), bytes_max: 1 << 30 });
    let mut sinks = sinks(vec![plan], Pressure::Drop);
    sinks.send(&numbered(0..1000), START_NS);
    let first = listener.accept().unwrap().0;
    let first = read_session(first, |bytes| split(bytes).0.len() >= 2);
    drop(listener);
    for batch in 1..40 {
        sinks.send(&numbered(batch * 1000..batch * 1000 + 1000), START_NS);
        std::thread::sleep(Duration::from_millis(5));
    }
    let begun = Instant::now();
    while sinks.counters()[0].spooled.records == 0 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", sinks.counters());
        std::thread::sleep(Duration::from_millis(2));
    }
    let listener = TcpListener::bind(address).unwrap();
    let thread = std::thread::spawn(move || read_session(listener.accept().unwrap().0, |_| false));
    while !sinks.counters()[0].is_up {
        std::thread::sleep(Duration::from_millis(2));
    }
    let report = sinks.stop(PATIENCE).remove(0);
    let second = thread.join().unwrap();
    let mut received = numbers(split(&first).0);
    let later = numbers(split(&second).0);
    assert!(later.is_sorted(), "messages keep their order");
    received.extend(later);
    received.sort_unstable();
    received.dedup();
    assert_eq!(received, (0..40_000).collect::<Vec<_>>());
    assert!(report.reconnects == 1 && report.from_spool == report.spooled, "{report:?}");
    assert_eq!(report.from_earlier, FlowSum::default());
    assert_eq!(segments(folder.path()), 0);
}

/// A run without a collector leaves its records in the spool; a run with another template delivers them with their own
/// template.
#[test]
fn a_later_run_delivers_the_spool_with_its_own_templates() {
    let folder = tempfile::tempdir().unwrap();
    let (port, address) = closed_port();
    let spool = Some(SpoolPlan { folder: folder.path().to_owned(), bytes_max: 1 << 30 });
    let mut away = collector("tcp", address);
    away.spool = spool.clone();
    away.encoder = encoder("%IN_BYTES %PROTOCOL");
    let mut run = sinks(vec![away], Pressure::Drop);
    run.send(&numbered(0..500), START_NS);
    let report = run.stop(PATIENCE).remove(0);
    assert_eq!(report.spooled.records, 500);
    assert_accounted(&report, 500);

    open_port(&port);
    let thread = std::thread::spawn(move || read_session(port.accept().unwrap().0, |_| false));
    let mut back = collector("tcp", address);
    back.spool = spool;
    let mut run = sinks(vec![back], Pressure::Drop);
    run.send(&numbered(500..1000), START_NS);
    let report = run.stop(PATIENCE).remove(0);
    let stream = thread.join().unwrap();
    assert_eq!(numbers(split(&stream).0), (0..1000).collect::<Vec<_>>());
    assert_eq!(
        (report.sent.records, report.from_earlier.records, report.transport.is_some()),
        (1000, 500, true)
    );
    assert_accounted(&report, 500);
}

/// The segments in the folder of a spool.
fn segments(folder: &std::path::Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|kind| kind == "spool")).count()
}

#[test]
fn without_a_spool_what_does_not_fit_is_counted_and_nothing_waits() {
    let (_port, address) = closed_port();
    let mut sinks = sinks(vec![collector("tcp", address)], Pressure::Drop);
    let batch = numbered(0..20_000);
    for _ in 0..60 {
        sinks.send(&batch, START_NS);
        std::thread::sleep(Duration::from_millis(2));
    }
    let report = sinks.stop(Duration::from_millis(200)).remove(0);
    assert_accounted(&report, 60 * 20_000);
    assert!(report.sent.records == 0 && report.failure.is_some(), "{report:?}");
}

/// A collector that accepts and never reads: the meter is not delayed, and each record is counted once.
#[test]
fn a_slow_collector_never_stops_the_meter() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sinks = sinks(vec![collector("tcp", listener.local_addr().unwrap())], Pressure::Drop);
    let held = listener.accept().unwrap();
    let batch = numbered(0..20_000);
    let mut slowest = Duration::ZERO;
    for _ in 0..200 {
        let start = Instant::now();
        sinks.send(&batch, START_NS);
        slowest = slowest.max(start.elapsed());
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = sinks.stop(Duration::from_millis(100)).remove(0);
    drop(held);
    assert_accounted(&report, 200 * 20_000);
    assert!(report.missed.total().records > 0, "{report:?}");
    // A coarse check, not a measurement: the queue's lock is held for a push.
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
}

#[test]
fn collectors_in_turn_share_the_records_and_replace_each_other() {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let threads = listeners
        .map(|listener| std::thread::spawn(move || read_session(listener.accept().unwrap().0, |_| false)));
    let plans = addresses.map(|address| SinkPlan::Collector(Box::new(collector("tcp", address))));
    let mut plans: Vec<SinkPlan> = plans.into();
    let (_port, gone) = closed_port();
    plans.push(SinkPlan::Collector(Box::new(collector("tcp", gone))));
    let mut sinks = start(plans, SinksPlan { is_round_robin: true, ..plan(Pressure::Drop) }).unwrap();
    while !sinks.counters()[..2].iter().all(|report| report.is_up) {
        std::thread::sleep(Duration::from_millis(2));
    }
    for batch in 0..20 {
        sinks.send(&numbered(batch * 10..batch * 10 + 10), START_NS);
    }
    let reports = sinks.stop(PATIENCE);
    assert_eq!([0, 1, 2].map(|at: usize| reports[at].sent.records), [100, 100, 0]);
    let mut all: Vec<u64> =
        threads.into_iter().flat_map(|thread| numbers(split(&thread.join().unwrap()).0)).collect();
    all.sort_unstable();
    assert_eq!(all, (0..200).collect::<Vec<_>>());
}

#[test]
fn each_kind_of_file_has_every_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let file =
        |name: &str, kind| SinkPlan::File { target: Target::Path(path(name)), kind, scene: Scene::default() };
    let template = Template::default_text;
    let plans = vec![
        file("json", FileKind::Json { names: Names::Ipfix, template: template() }),
        file("csv", FileKind::Csv { names: Names::Nprobe, template: template(), separator: b'|' }),
        file("zeek", FileKind::Zeek),
        file("ipfix", FileKind::Ipfix(Box::new(encoder(TEMPLATE)))),
    ];
    let mut sinks = start(plans, plan(waiting())).unwrap();
    for _ in 0..10 {
        sinks.send(&Arc::new(vec![biflow(1); 100]), START_NS);
    }
    let reports = sinks.stop(PATIENCE);
    let lines = |name: &str| std::fs::read_to_string(path(name)).unwrap().lines().count();
    assert_eq!([lines("json"), lines("csv"), lines("zeek")], [1000, 1001, 1008]);
    let file = std::fs::read(path("ipfix")).unwrap();
    assert_eq!(numbers(split(&file).0).len(), 2000);
    for (report, records) in reports.iter().zip([1000, 1000, 1000, 2000]) {
        assert_accounted(report, records);
        assert_eq!((report.sent.packets, report.bytes > 0), (8000, true), "{}", report.name);
    }
}

#[test]
fn a_file_that_cannot_be_written_is_counted() {
    let file = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let target = Target::Writer("full".to_owned(), Box::new(file));
    let kind = FileKind::Zeek;
    let sink = SinkPlan::File { target, kind, scene: Scene::default() };
    let mut sinks = start(vec![sink], plan(waiting())).unwrap();
    sinks.send(&numbered(0..100), START_NS);
    let report = sinks.stop(PATIENCE).remove(0);
    assert_eq!((report.missed.errors.records, report.sent.records), (100, 0));
    assert!(report.failure.as_ref().is_some_and(|failure| failure.contains("No space left")), "{report:?}");
}

#[test]
fn vectors_return_to_the_meter() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sinks = sinks(vec![collector("udp", socket.local_addr().unwrap())], Pressure::Drop);
    let batch = numbered(0..10);
    sinks.send(&batch, START_NS);
    sinks.stop(PATIENCE);
    assert_eq!(Arc::into_inner(batch).map(|records| records.len()), Some(10));
}

/// Makes certificates with openssl; `None` if that is not installed.
fn certificates(folder: &std::path::Path) -> Option<()> {
    let script = r#"
        set -e
        cd "$1"
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' > ext
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.pem -days 2 \
            -subj '/CN=test CA' -addext basicConstraints=critical,CA:TRUE
        for who in server client; do
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout $who.key -out $who.csr -subj /CN=$who
            openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out $who.pem -days 2 -extfile ext
        done"#;
    let output = std::process::Command::new("bash").args(["-c", script, "bash"]).arg(folder).output().ok()?;
    output.status.success().then_some(())
}

/// A collector over TLS that requires a certificate of the exporter.
fn tls_server(folder: &std::path::Path) -> rustls::ServerConfig {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let read = |name: &str| -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_file_iter(folder.join(name)).unwrap().map(Result::unwrap).collect()
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(read("ca.pem").remove(0)).unwrap();
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let builder =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_client_cert_verifier(verifier.build().unwrap());
    builder
        .with_single_cert(
            read("server.pem"),
            PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap(),
        )
        .unwrap()
}

#[test]
fn a_collector_on_tls_receives_every_record() {
    let folder = tempfile::tempdir().unwrap();
    if certificates(folder.path()).is_none() {
        return quaff_os::testing::skip("tls", "openssl is not installed");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Arc::new(tls_server(folder.path()));
    let thread = std::thread::spawn(move || {
        let connection = rustls::ServerConnection::new(server).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, listener.accept().unwrap().0);
        let mut all = Vec::new();
        stream.read_to_end(&mut all).map(|_| all)
    });
    let url = format!("tls://localhost:{port}").parse().unwrap();
    let path = |name: &str| Some(folder.path().join(name));
    let mut plan = collector("tcp", SocketAddr::from(([127, 0, 0, 1], port)));
    plan.url = url;
    plan.tls = TlsPlan {
        ca: path("ca.pem"),
        certificate: path("client.pem"),
        key: path("client.key"),
        server_name: None,
    };
    let mut sinks = sinks(vec![plan], waiting());
    for batch in 0..20 {
        sinks.send(&numbered(batch * 1000..batch * 1000 + 1000), START_NS);
    }
    let report = sinks.stop(PATIENCE).remove(0);
    let stream = thread.join().unwrap().expect("the session ends with close_notify");
    assert_eq!(numbers(split(&stream).0), (0..20_000).collect::<Vec<_>>());
    assert_accounted(&report, 20_000);
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    if folders.iter().any(|folder| certificates(folder.path()).is_none()) {
        return quaff_os::testing::skip("tls", "openssl is not installed");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Arc::new(tls_server(folders[0].path()));
    let thread = std::thread::spawn(move || {
        let mut connection = rustls::ServerConnection::new(server).unwrap();
        connection.complete_io(&mut listener.accept().unwrap().0).is_err()
    });
    let mut plan = collector("tcp", SocketAddr::from(([127, 0, 0, 1], port)));
    plan.url = format!("tls://localhost:{port}").parse().unwrap();
    plan.reconnect = Duration::from_secs(3600);
    plan.tls.ca = Some(folders[1].path().join("ca.pem"));
    let mut sinks = sinks(vec![plan], Pressure::Drop);
    sinks.send(&numbered(0..10), START_NS);
    assert!(thread.join().unwrap());
    let report = sinks.stop(Duration::from_millis(500)).remove(0);
    assert!(report.failure.as_ref().is_some_and(|failure| failure.contains("certificate")), "{report:?}");
    assert_eq!(report.missed.at_end.records, 10);
}

/// Records for which a queue had no room are a hole in the sequence numbers, which a collector notices.
#[test]
fn missed_records_are_a_hole_in_the_sequence() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let collector = SinkPlan::Collector(Box::new(collector("udp", socket.local_addr().unwrap())));
    let mut sinks = start(vec![collector], plan(Pressure::Drop)).unwrap();
    sinks.sinks[0].shared.lost.fetch_add(1000, Ordering::Relaxed);
    sinks.send(&numbered(0..1), START_NS);
    sinks.stop(PATIENCE);
    let (mut bytes, mut last) = ([0; 65536], 0);
    while last < 1000 {
        socket.recv(&mut bytes).expect("a message after the hole");
        last = u32::from_be_bytes(bytes[8..12].try_into().unwrap());
    }
}

/// Encoding and sending agree on the number of records of a conversation with a template without reverse fields.
#[test]
fn records_on_the_wire_are_counted() {
    let mut encoder = Encoder::new(encoder(TEMPLATE), Scene::default()).unwrap();
    encoder.push(&biflow(1), START_NS);
    encoder.flush(START_NS);
    assert_eq!(encoder.pop().unwrap().carried, Carried { records: 2, packets: 8, bytes: 1200 });
}

#[test]
fn a_sink_in_memory_gets_the_records_themselves() {
    let taken = Arc::new(std::sync::Mutex::new(Vec::new()));
    struct Taker(Arc<std::sync::Mutex<Vec<FlowRecord>>>);
    impl FlowSink for Taker {
        fn take(&mut self, records: &[FlowRecord]) {
            self.0.lock().unwrap().extend_from_slice(records);
        }
    }
    let memory = SinkPlan::Memory { name: "sums".to_owned(), sink: Box::new(Taker(taken.clone())) };
    let mut sinks = start(vec![memory], plan(waiting())).unwrap();
    let all = numbered(0..1000);
    sinks.send(&all, START_NS);
    sinks.ledger(&FlowLedger::default(), START_NS);
    let report = sinks.stop(PATIENCE).remove(0);
    assert_eq!((report.sent.records, report.kind, report.is_up), (1000, "memory", true));
    assert_accounted(&report, 1000);
    assert_eq!(*taken.lock().unwrap(), *all);
}
