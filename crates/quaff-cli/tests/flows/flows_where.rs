//! `quaff flows report --where` beside nfdump: expressions are drawn from the records, and both choose the same ones.

use crate::made::{Made, UDP};
use crate::support::draw::Draw;
use crate::support::{PATIENCE, QUAFF, folder, tool};
use quaff_testkit::test_name;
use quaff_testpackets as build;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FLOWS: u64 = 300;
const EXPRESSIONS: usize = 200;
/// IANA protocol number.
const GRE: u8 = 47;
const SERVICES: [u16; 4] = [53, 80, 443, 8080];

fn client(n: u64) -> Ipv4Addr {
    Ipv4Addr::new(10, (n % 3) as u8, 0, 1 + (n % 40) as u8)
}

fn server(n: u64) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, 1 + (n % 7) as u8)
}

fn client_port(n: u64) -> u16 {
    40_000 + (n * 7) as u16
}

fn service(n: u64) -> u16 {
    SERVICES[(n % 4) as usize]
}

/// Flows of UDP and of GRE that last up to 1.9 s. None is answered: nfcapd makes two records of a conversation.
fn conversations(dir: &Path) -> PathBuf {
    let mut made = Made::default();
    for n in 0..FLOWS {
        let (here, there) = (client(n), server(n));
        for step in 0..1 + n % 20 {
            let ms = n * 5 + step * 100;
            let packet = |from, to, ports: [u16; 2]| match n % 5 {
                0 => build::ipv4(from, to, GRE, &[], &[0, 0, 0x88, 0xb5, 1, 2, 3, 4]),
                _ => build::ipv4(from, to, UDP, &[], &build::udp(ports[0], ports[1], &[0; 100])),
            };
            let ports = [client_port(n), service(n)];
            made.ip(ms, &packet(here, there, ports));
        }
    }
    made.packets.sort_by_key(|(time_ns, _)| *time_ns);
    made.write(dir, "talk.pcap")
}

/// One test that some of the records meet.
fn drawn_test(draw: &mut Draw) -> String {
    let n = draw.between(0, FLOWS - 1);
    let side = draw.one_of(&["", "src ", "dst "]);
    let address = if draw.between(0, 1) == 0 { client(n) } else { server(n) };
    let port = if draw.between(0, 1) == 0 { client_port(n) } else { service(n) };
    match draw.between(0, 6) {
        0 => format!("{side}host {address}"),
        1 => format!("{side}ip {address}"),
        2 => format!("{side}net 10.{}.0.0/16", n % 3),
        3 => format!("{side}port {port}"),
        4 => format!("{side}port {} {port}", draw.one_of(&["<", ">"])),
        5 => format!("proto {}", draw.one_of(&["udp", "gre", "tcp"])),
        _ => format!("duration {} {}", draw.one_of(&["<", ">"]), draw.between(0, 19) * 100 + 50),
    }
}

fn drawn(draw: &mut Draw) -> String {
    let mut parts: Vec<_> = (0..draw.between(1, 3)).map(|_| drawn_test(draw)).collect();
    for part in &mut parts {
        if draw.between(0, 3) == 0 {
            *part = format!("not ({part})");
        }
    }
    let joined = parts.join(draw.one_of(&[" and ", " or "]));
    if draw.between(0, 4) == 0 { format!("({joined}) and {}", drawn_test(draw)) } else { joined }
}

/// A process that the test ends, whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The address of nfcapd: a loopback address that no other process uses, and a port that the kernel assigns to no
/// socket.
fn place() -> SocketAddrV4 {
    let [_, a, b, c] = std::process::id().to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(127, a | 128, b, c), 22056)
}

/// Bytes that wait in the UDP socket at a place; `None` without one.
fn waiting(place: SocketAddrV4) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/net/udp").expect("the kernel's sockets");
    // The kernel prints the address as a number in native byte order.
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(place.ip().octets()), place.port());
    let line = table.lines().find(|line| line.split_whitespace().nth(1) == Some(&local))?;
    let queues = line.split_whitespace().nth(4)?;
    u64::from_str_radix(queues.split_once(':')?.1, 16).ok()
}

fn wait_until(what: &str, is_it: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_it() {
        assert!(Instant::now() < end, "{what} in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends the flows of a capture to nfcapd; returns the file that it writes.
fn stored_by_nfcapd(mut nfcapd: Command, capture: &Path, dir: &Path) -> PathBuf {
    let place = place();
    nfcapd
        .args(["-b", &place.ip().to_string(), "-p", &place.port().to_string(), "-t", "3600", "-w"])
        .arg(dir);
    nfcapd.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running(nfcapd.spawn().expect("nfcapd runs"));
    wait_until("nfcapd listens", || waiting(place).is_some());
    let done = Command::new(QUAFF)
        .args(["flows", "-q", "--rate", "2k", "--collector", &format!("udp://{place}"), "--read"])
        .arg(capture)
        .status()
        .expect("quaff runs");
    assert!(done.success());
    wait_until("nfcapd reads all messages", || waiting(place) == Some(0));
    // The last message may be read and not processed.
    std::thread::sleep(Duration::from_millis(200));
    let ended = Command::new("kill").args(["-TERM", &running.0.id().to_string()]).status();
    assert!(ended.expect("kill runs").success() && running.0.wait().expect("nfcapd ends").success());
    let mut files = std::fs::read_dir(dir).expect("its folder").map(|entry| entry.expect("an entry").path());
    let is_closed = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("nfcapd.2"))
    };
    files.find(is_closed).expect("the file of nfcapd")
}

#[test]
fn the_flows_that_match_are_those_of_nfdump() {
    let Some(nfcapd) = tool(test_name!(), "nfcapd") else { return };
    let Some(_) = tool(test_name!(), "nfdump") else { return };
    let dir = folder();
    let capture = conversations(dir.path());
    let stored = dir.path().join("stored");
    std::fs::create_dir(&stored).expect("a folder");
    let stored = stored_by_nfcapd(nfcapd, &capture, &stored);
    // A line for each record has its source.
    let of_nfdump = |expression: &str| {
        let done =
            Command::new("nfdump").arg("-r").arg(&stored).args(["-q", "-o", "fmt:%sa", expression]).output();
        let done = done.expect("nfdump runs");
        assert!(done.status.success(), "{expression}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout)
            .lines()
            .filter(|line| line.trim().parse::<Ipv4Addr>().is_ok())
            .count() as u64
    };
    let of_quaff = |expression: &str| {
        let done = Command::new(QUAFF)
            .args(["flows", "report", "-q", "--json", "--by", "protocol", "--where", expression])
            .arg(&capture)
            .output()
            .expect("quaff runs");
        assert!(done.status.success(), "{expression}: {}", String::from_utf8_lossy(&done.stderr));
        let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        let of = |part: &str| report[part]["records"].as_u64().expect("records");
        assert_eq!(of("total") + of("left_out"), FLOWS, "{expression}");
        of("total")
    };
    assert_eq!((of_nfdump("any"), of_quaff("not tcp")), (FLOWS, FLOWS));
    let mut draw = Draw::new();
    let mut some = 0;
    for _ in 0..EXPRESSIONS {
        let expression = drawn(&mut draw);
        let found = of_quaff(&expression);
        assert_eq!(found, of_nfdump(&expression), "{expression}");
        some += u64::from(found > 0 && found < FLOWS);
    }
    assert!(some > EXPRESSIONS as u64 / 3, "{some} of them chose a part");
}

#[test]
fn a_report_of_a_span_has_the_flows_that_were_there() {
    let dir = folder();
    let capture = conversations(dir.path());
    let report = |args: &[&str]| {
        let done = Command::new(QUAFF)
            .args(["flows", "report", "-q", "--json", "--by", "protocol"])
            .args(args)
            .arg(&capture)
            .output()
            .expect("quaff runs");
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        let json: Value = serde_json::from_slice(&done.stdout).unwrap_or(Value::Null);
        (done.status.code(), json["total"]["records"].as_u64(), text)
    };
    // Flow n begins after n * 5 ms, and has a packet each 100 ms.
    let at = |ms: u64| format!("@1700000000.{ms:03}");
    assert_eq!(report(&["--to", &at(5)]).1, Some(1));
    assert_eq!(report(&["--to", &at(6)]).1, Some(2));
    let ends_ms = |n: u64| n * 5 + (n % 20) * 100;
    let later = (0..FLOWS).filter(|n| ends_ms(*n) >= 900).count() as u64;
    assert_eq!(report(&["--from", &at(900)]).1, Some(later));
    let (code, _, words) = report(&["--from", "+1s"]);
    assert!(code == Some(2) && words.contains("no first packet"), "{words}");
    let (code, _, words) = report(&["--where", "host nowhere"]);
    assert!(code == Some(2) && words.contains("'nowhere' is no address"), "{words}");
}
