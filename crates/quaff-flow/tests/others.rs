//! Decoders of other programs: nfcapd, nfacctd and tshark read the same records from v5, v9 and IPFIX. Skipped if they
//! are not installed.

use quaff_flow::collector::{CollectorPlan, InputStart, OpenSinks, Pressure, SinkPlan, SinksPlan};
use quaff_flow::export::{
    DEFAULT_IPFIX, DEFAULT_V9, Encoder, EncoderPlan, Scene, Session, Template, Version,
};
use quaff_flow::record::{Direction, EndReason, FlowRecord, InitiatorRule, RecordKey};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// 2026-11-23 08:14:05 UTC, ns since 1970.
const START_NS: u64 = 1_795_421_645_000_000_000;
const VERSIONS: [Version; 3] = [Version::V5, Version::V9, Version::Ipfix];

/// A flow as a decoder prints it: ends, protocol, packets, bytes, start and end in ms.
type Row = (String, String, u16, u16, u8, u64, u64, u64, u64);

/// Flows of TCP, UDP and ICMP, some with an answer; every tenth is of IPv6 if `with_ipv6` is true.
fn records(with_ipv6: bool) -> Vec<FlowRecord> {
    let one = |n: u64| {
        let is_ipv6 = with_ipv6 && n % 10 == 9;
        let address = |host: u16| match is_ipv6 {
            true => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host)),
            false => IpAddr::V4(Ipv4Addr::from(u32::from(host) + 0x0a00_0000)),
        };
        let (protocol, ports) = match n % 3 {
            0 => (6, (40_000 + n as u16, 443)),
            1 => (17, (50_000 + n as u16, 53)),
            _ => (1, (0, 0)),
        };
        let first_ns = START_NS + n * 10_000_000;
        let direction = |packets: u64| Direction {
            packets,
            bytes: packets * (40 + n),
            first_ns,
            last_ns: first_ns + n * 1_000_000,
            tcp_flags: if protocol == 6 { 0x1b } else { 0 },
            tos: 0,
            ttl_min: 60,
            ttl_max: 64,
        };
        let is_answered = n.is_multiple_of(2) && protocol != 1;
        FlowRecord {
            key: RecordKey {
                source: address(n as u16 + 1),
                destination: address(n as u16 + 1000),
                source_port: ports.0,
                destination_port: ports.1,
                protocol: if is_ipv6 && protocol == 1 { 58 } else { protocol },
                icmp_type_code: if protocol == 1 { 0x0800 } else { 0 },
                vlan: 0,
                inner_vlan: 0,
                mpls_label: 0,
                interface: 0,
                tos: 0,
                tunnel: 0,
            },
            forward: direction(n % 7 + 1),
            reverse: if is_answered { direction(n % 5 + 1) } else { Direction::default() },
            initiator: InitiatorRule::First,
            end_reason: EndReason::Idle,
            is_continued: false,
            extras: None,
        }
    };
    (0..300).map(one).collect()
}

/// The flows that a decoder must print: one for each direction.
fn expected(records: &[FlowRecord]) -> Vec<Row> {
    let mut rows = Vec::new();
    for record in records {
        let key = &record.key;
        let icmp = matches!(key.protocol, 1 | 58);
        let port = if icmp { key.icmp_type_code } else { key.destination_port };
        let ends = [
            (key.source, key.destination, key.source_port, port, &record.forward),
            (key.destination, key.source, key.destination_port, key.source_port, &record.reverse),
        ];
        for (source, destination, source_port, destination_port, direction) in ends {
            if direction.packets > 0 {
                let (first_ms, last_ms) = (direction.first_ns / 1_000_000, direction.last_ns / 1_000_000);
                rows.push((
                    source.to_string(),
                    destination.to_string(),
                    source_port,
                    destination_port,
                    key.protocol,
                    direction.packets,
                    direction.bytes,
                    first_ms,
                    last_ms,
                ));
            }
        }
    }
    rows.sort();
    rows
}

fn encoder_plan(version: Version) -> EncoderPlan {
    // nfcapd reads the ICMP type and code from the destination port in NetFlow v5, otherwise from this field.
    let default = if version == Version::V9 { DEFAULT_V9 } else { DEFAULT_IPFIX };
    let template = Template::parse(&format!("{default} %ICMP_TYPE")).unwrap();
    EncoderPlan { boot_ns: START_NS - 60_000_000_000, bytes_max: 1400, template, ..EncoderPlan::new(version) }
}

fn is_installed(program: &str, argument: &str) -> bool {
    let found = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok()
}

/// Ends a process that the test started.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_true() {
        assert!(Instant::now() < end, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The address of nfcapd: a loopback address that no other process uses, and a port that the kernel assigns to no
/// socket.
fn place() -> SocketAddr {
    let [_, a, b, c] = std::process::id().to_be_bytes();
    (Ipv4Addr::new(127, a | 128, b, c), 22055).into()
}

/// The line of nfcapd's UDP socket in /proc.
fn socket_line(place: SocketAddr) -> Option<String> {
    let SocketAddr::V4(place) = place else { return None };
    // The kernel prints the address as a number in native byte order.
    let address = u32::from_ne_bytes(place.ip().octets());
    let sockets = std::fs::read_to_string("/proc/net/udp").unwrap_or_default();
    let start = format!("{address:08X}:{:04X}", place.port());
    sockets.lines().find(|line| line.split_whitespace().nth(1) == Some(&start)).map(str::to_owned)
}

/// True if no bytes are queued in nfcapd's socket.
fn is_drained(place: SocketAddr) -> bool {
    socket_line(place)
        .is_none_or(|line| line.split_whitespace().nth(4).is_some_and(|queues| queues.ends_with(":00000000")))
}

/// Starts nfcapd, calls `send` to send to it, and returns the flows that it stored.
fn nfcapd_rows(folder: &Path, send: impl FnOnce(SocketAddr)) -> Vec<Row> {
    let place = place();
    let mut command = Command::new("nfcapd");
    command.arg("-w").arg(folder).args([
        "-b",
        &place.ip().to_string(),
        "-t",
        "3600",
        "-B",
        "8000000",
        "-p",
        &place.port().to_string(),
    ]);
    let mut nfcapd = Ended(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until("the start of nfcapd", || socket_line(place).is_some());
    send(place);
    wait_until("the end of nfcapd's work", || is_drained(place));
    std::thread::sleep(Duration::from_millis(200));
    let pid = nfcapd.0.id().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    nfcapd.0.wait().unwrap();
    let output = Command::new("nfdump")
        .args(["-q", "-o", "pipe", "-R"])
        .arg(folder)
        .env("TZ", "UTC")
        .output()
        .unwrap();
    parse_pipe(&String::from_utf8_lossy(&output.stdout))
}

/// Parses flows in nfdump's pipe format: family, first and last in ms, protocol, source in four words, port,
/// destination in four words, port, two AS numbers, two interfaces, flags, ToS, packets, bytes.
fn parse_pipe(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.contains('|')) {
        let fields: Vec<u64> = line.split('|').map(|field| field.trim().parse().unwrap()).collect();
        let address = |at: usize| {
            let words: Vec<u128> = fields[at..at + 4].iter().map(|word| u128::from(*word)).collect();
            match words[..] {
                [0, 0, 0, low] => IpAddr::V4(Ipv4Addr::from_bits(low as u32)),
                _ => IpAddr::V6(Ipv6Addr::from_bits(words.iter().fold(0, |bits, word| bits << 32 | word))),
            }
        };
        rows.push((
            address(4).to_string(),
            address(9).to_string(),
            fields[8] as u16,
            fields[13] as u16,
            fields[3] as u8,
            fields[20],
            fields[21],
            fields[1],
            fields[2],
        ));
    }
    rows.sort();
    rows
}

fn send(version: Version, place: SocketAddr, records: Vec<FlowRecord>) {
    let url = format!("udp://{place}").parse().unwrap();
    let plan = CollectorPlan::new(url, encoder_plan(version));
    let sinks_plan = SinksPlan {
        pressure: Pressure::Drop,
        is_round_robin: false,
        queue_records: 100_000,
        is_prompt: true,
    };
    let sinks = OpenSinks::open(vec![SinkPlan::Collector(Box::new(plan))], sinks_plan).unwrap();
    let mut sinks = sinks.start(InputStart { now_ns: START_NS, boot_ns: None }).unwrap();
    sinks.send(&Arc::new(records), START_NS + 10_000_000_000);
    let report = sinks.stop(Duration::from_secs(30)).remove(0);
    assert_eq!(report.missed.total().records, 0, "{report:?}");
}

#[test]
fn nfcapd_stores_the_same_flows_of_each_version() {
    if !is_installed("nfcapd", "-V") || !is_installed("nfdump", "-V") {
        return quaff_os::testing::skip("nfcapd", "nfcapd is not installed");
    }
    for version in VERSIONS {
        let records = records(version != Version::V5);
        let folder = tempfile::tempdir().unwrap();
        let rows = nfcapd_rows(folder.path(), |place| send(version, place, records.clone()));
        let expected = expected(&records);
        assert_eq!(rows.len(), expected.len(), "{version:?}");
        for (row, expected) in rows.iter().zip(&expected) {
            assert_eq!(row, expected, "{version:?}");
        }
    }
}

/// A capture of messages as datagrams to port 2055, all at `START_NS`.
fn capture(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    for message in messages {
        use quaff_testpackets::{ethernet, ipv4, udp};
        let [source, destination] = [Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2)];
        let frame = ethernet(&[], 0x0800, &ipv4(source, destination, 17, &[], &udp(40_000, 2055, message)));
        let seconds = (START_NS / 1_000_000_000) as u32;
        for word in [seconds, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

fn sealed(plan: EncoderPlan, records: &[FlowRecord]) -> Vec<Vec<u8>> {
    let mut session = Session::new(plan.version);
    let mut encoder = Encoder::new(plan, Scene::default()).unwrap();
    let now_ns = START_NS + 10_000_000_000;
    let mut messages = encoder.announce(now_ns);
    for record in records {
        encoder.push(record, now_ns);
    }
    encoder.flush(now_ns);
    messages.extend(std::iter::from_fn(|| encoder.pop()));
    let seal = |mut message| {
        session.seal(&mut message);
        message.bytes
    };
    messages.into_iter().map(seal).collect()
}

/// All values of some fields in tshark's dissection, and its warnings.
fn tshark_fields(capture: &[u8], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("messages.pcap");
    std::fs::write(&path, capture).unwrap();
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(&path).args([
        "-d",
        "udp.port==2055,cflow",
        "-T",
        "fields",
        "-E",
        "aggregator=;",
    ]);
    for field in fields.iter().chain(&["_ws.expert.message", "_ws.malformed"]) {
        command.args(["-e", field]);
    }
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut values = vec![Vec::new(); fields.len() + 2];
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        for (column, text) in line.split('\t').enumerate() {
            values[column].extend(text.split(';').filter(|value| !value.is_empty()).map(str::to_owned));
        }
    }
    Some(values)
}

/// The flows of a decoder that does not interpret ports: ICMP type and code have a field of their own in NetFlow v9 and
/// IPFIX, and the port is 0.
fn expected_as_sent(version: Version, records: &[FlowRecord]) -> Vec<Row> {
    let mut rows = expected(records);
    for row in rows.iter_mut().filter(|row| version != Version::V5 && matches!(row.4, 1 | 58)) {
        row.3 = 0;
    }
    rows.sort();
    rows
}

/// Compares whole rows: ends, ports, protocol and counts, for both families.
#[test]
fn tshark_decodes_the_same_flows_of_each_version() {
    if !is_installed("tshark", "-v") {
        return quaff_os::testing::skip("tshark", "tshark is not installed");
    }
    let (six, four): (Vec<_>, Vec<_>) =
        records(true).into_iter().partition(|record| record.key.source.is_ipv6());
    for version in VERSIONS {
        for (records, ends) in
            [(&four, ["cflow.srcaddr", "cflow.dstaddr"]), (&six, ["cflow.srcaddrv6", "cflow.dstaddrv6"])]
        {
            if version == Version::V5 && ends[0].ends_with("v6") {
                continue;
            }
            let rest = ["cflow.srcport", "cflow.dstport", "cflow.protocol", "cflow.packets", "cflow.octets"];
            let fields: Vec<&str> = ends.into_iter().chain(rest).collect();
            let capture = capture(&sealed(encoder_plan(version), records));
            let Some(values) = tshark_fields(&capture, &fields) else { return };
            let [.., complaints, damage] = &values[..] else { panic!("{values:?}") };
            assert!(complaints.is_empty() && damage.is_empty(), "{version:?}: complaints of tshark");
            let flows = values[0].len();
            let mut rows: Vec<Vec<&str>> =
                (0..flows).map(|at| values[..7].iter().map(|column| column[at].as_str()).collect()).collect();
            rows.sort();
            let row = |row: &Row| {
                let numbers = [row.2.into(), row.3.into(), u64::from(row.4), row.5, row.6];
                [row.0.clone(), row.1.clone()].into_iter().chain(numbers.map(|number| number.to_string()))
            };
            let mut expected: Vec<Vec<String>> =
                expected_as_sent(version, records).iter().map(|flow| row(flow).collect()).collect();
            expected.sort();
            assert_eq!(rows, expected, "{version:?}");
        }
    }
}

/// The flows that nfacctd of pmacct finds in a capture of messages. It exits at the end of the capture.
fn nfacctd_rows(capture: &[u8]) -> Vec<Row> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("messages.pcap"), capture).unwrap();
    let settings = format!(
        "plugins: print\ndaemonize: false\nprint_output: csv\nprint_refresh_time: 3600\n\
         timestamps_since_epoch: true\npcap_savefile: {}\nprint_output_file: {}\n\
         aggregate: src_host, dst_host, src_port, dst_port, proto, timestamp_start, timestamp_end\n",
        path("messages.pcap").display(),
        path("flows.csv").display()
    );
    std::fs::write(path("settings"), settings).unwrap();
    let mut command = Command::new("nfacctd");
    let output = command.arg("-f").arg(path("settings")).output().unwrap();
    let text = std::fs::read_to_string(path("flows.csv"));
    let text = text.unwrap_or_else(|_| panic!("no flows: {}", String::from_utf8_lossy(&output.stdout)));
    let ms = |text: &str| -> u64 { text.replace('.', "").parse::<u64>().unwrap() / 1000 };
    let protocol = |name: &str| match name {
        "icmp" => 1,
        "tcp" => 6,
        "udp" => 17,
        "ipv6-icmp" => 58,
        other => panic!("protocol {other}"),
    };
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| -> u64 { fields[at].parse().unwrap_or_else(|_| panic!("{line}")) };
        rows.push((
            fields[0].to_owned(),
            fields[1].to_owned(),
            number(2) as u16,
            number(3) as u16,
            protocol(fields[4]),
            number(7),
            number(8),
            ms(fields[5]),
            ms(fields[6]),
        ));
    }
    rows.sort();
    rows
}

#[test]
fn nfacctd_counts_the_same_flows_of_each_version() {
    if !is_installed("nfacctd", "-V") {
        return quaff_os::testing::skip("nfacctd", "nfacctd of pmacct is not installed");
    }
    for version in VERSIONS {
        let records = records(version != Version::V5);
        let rows = nfacctd_rows(&capture(&sealed(encoder_plan(version), &records)));
        let expected = expected_as_sent(version, &records);
        assert_eq!(rows.len(), expected.len(), "{version:?}");
        for (mut row, expected) in rows.into_iter().zip(expected) {
            // It computes times of NetFlow in whole seconds before that of the header.
            let most_ms = if version == Version::Ipfix { 0 } else { 999 };
            assert!(
                row.7.abs_diff(expected.7) <= most_ms && row.8.abs_diff(expected.8) <= most_ms,
                "{row:?}"
            );
            row.7 = expected.7;
            row.8 = expected.8;
            assert_eq!(row, expected, "{version:?}");
        }
    }
}

/// Both directions are in one record: tshark recognizes the reverse elements of RFC 5103 by their enterprise.
#[test]
fn tshark_decodes_biflows_without_a_complaint() {
    if !is_installed("tshark", "-v") {
        return quaff_os::testing::skip("tshark", "tshark is not installed");
    }
    let template = "%IPV4_SRC_ADDR %IN_BYTES %OUT_BYTES %OUT_PKTS %FLOW_START_MICROSECONDS %flowEndNanoseconds \
        %reverseTcpControlBits %reverseFlowStartMilliseconds %TLS_SERVER_NAME %quaffInitiatorRule";
    let plan = EncoderPlan { template: Template::parse(template).unwrap(), ..encoder_plan(Version::Ipfix) };
    let records = records(false);
    let capture = capture(&sealed(plan, &records));
    let Some(values) = tshark_fields(&capture, &["cflow.octets", "cflow.srcaddr"]) else { return };
    assert_eq!(values[2..], [Vec::<String>::new(), Vec::new()], "complaints of tshark");
    assert_eq!(values[1].len(), records.len());
}
