//! The spool of a collector over several runs and connections: nothing is lost, and all of it is decoded with the
//! templates that it was made with.

use super::super::segment::{BEGINNING, FRAME_HEADER};
use super::*;
use std::path::Path;

fn spooling(address: SocketAddr, folder: &Path) -> CollectorPlan {
    let mut plan = collector("tcp", address);
    plan.spool = Some(SpoolPlan { folder: folder.to_owned(), bytes_max: 1 << 30 });
    plan
}

/// A run whose collector is away: all of its records are spooled.
fn spool_run(plan: CollectorPlan, range: std::ops::Range<u64>) {
    let mut run = sinks(vec![plan], waiting());
    let records = range.end - range.start;
    for start in range.clone().step_by(10_000) {
        run.send(&numbered(start..range.end.min(start + 10_000)), START_NS);
    }
    let report = run.stop(PATIENCE).remove(0);
    assert_eq!((report.spooled.records, report.left_in_spool().records), (records, records), "{report:?}");
}

/// A run without records of its own delivers what is in the spool; returns the stream of its last session.
fn delivered(plan: CollectorPlan, port: &TcpListener) -> (SinkReport, Vec<u8>) {
    open_port(port);
    let port = port.try_clone().unwrap();
    let thread = std::thread::spawn(move || read_session(port.accept().unwrap().0, |_| false));
    let report = sinks(vec![plan], waiting()).stop(PATIENCE).remove(0);
    (report, thread.join().unwrap())
}

/// Templates of a session are not redefined without a withdrawal (RFC 7011, 8.1).
fn assert_withdrawn(messages: &[&[u8]]) {
    let word = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let mut known = std::collections::BTreeSet::new();
    for message in messages {
        let mut rest = &message[16..];
        while rest.len() >= 4 {
            let (set, length) = (word(rest, 0), usize::from(word(rest, 2)));
            let mut records = &rest[4..length];
            while set == 2 && records.len() >= 4 {
                let (id, fields) = (word(records, 0), word(records, 2));
                records = &records[4..];
                if fields == 0 {
                    known.clear();
                } else {
                    assert!(known.insert(id), "template {id} is defined again");
                }
                for _ in 0..fields {
                    records = &records[if word(records, 0) & 0x8000 == 0 { 4 } else { 8 }..];
                }
            }
            rest = &rest[length..];
        }
    }
}

/// The connection ends while the records of an earlier run are on their way: the next session has their templates too.
#[test]
fn a_spool_of_other_templates_survives_a_reconnect() {
    let folder = tempfile::tempdir().unwrap();
    let (port, address) = closed_port();
    let plan = spooling(address, folder.path());
    spool_run(CollectorPlan { encoder: encoder("%IN_BYTES %PROTOCOL"), ..plan.clone() }, 0..100_000);

    open_port(&port);
    let thread = std::thread::spawn(move || {
        // With bytes unread the end of the first one is a reset.
        drop(read_session(port.accept().unwrap().0, |bytes| bytes.len() > 300_000));
        read_session(port.accept().unwrap().0, |_| false)
    });
    let mut run = sinks(vec![plan], Pressure::Drop);
    while run.counters()[0].reconnects == 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    run.send(&numbered(100_000..100_100), START_NS);
    let report = run.stop(PATIENCE).remove(0);
    let stream = thread.join().unwrap();
    let (messages, rest) = split(&stream);
    assert!(rest.is_empty());
    assert_withdrawn(&messages);
    let second = numbers(messages);
    let first = 100_100 - second.len() as u64;
    assert!(first < 90_000, "{first} records in the first session");
    assert_eq!(second, (first..100_100).collect::<Vec<_>>());
    assert_eq!((report.sent.records, report.from_earlier.records), (100_100, 100_000));
    assert_accounted(&report, 100);
    assert_eq!(segments(folder.path()), 0);
}

/// A collector that accepts and never reads: what its kernel did not acknowledge stays on disk, and is all that a later
/// run sends.
#[test]
fn a_segment_stays_until_it_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (port, address) = closed_port();
    let plan = spooling(address, folder.path());
    spool_run(plan.clone(), 0..50_000);

    open_port(&port);
    let run = sinks(vec![plan.clone()], Pressure::Drop);
    let held = port.accept().unwrap();
    while run.counters()[0].sent.records == 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    // Time for messages to leave, which a spool that forgets too early needs to be seen.
    std::thread::sleep(Duration::from_millis(300));
    assert!(segments(folder.path()) > 0, "a kill would lose what is on its way");
    let report = run.stop(Duration::from_millis(100)).remove(0);
    assert!((1..50_000).contains(&report.sent.records), "{report:?}");
    assert_accounted(&report, 0);
    drop(held);

    let (report_later, stream) = delivered(plan, &port);
    assert_eq!(numbers(split(&stream).0), (report.sent.records..50_000).collect::<Vec<_>>());
    assert_eq!(report_later.from_earlier.records, 50_000 - report.sent.records);
    assert_eq!(segments(folder.path()), 0);
}

/// Half of a segment and garbage: the rest arrives, and the report names what does not.
#[test]
fn a_damaged_segment_is_reported_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (port, address) = closed_port();
    let plan = spooling(address, folder.path());
    spool_run(plan.clone(), 0..50_000);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "spool"));
    paths.sort();
    let half = std::fs::metadata(&paths[0]).unwrap().len() / 2;
    std::fs::File::options().write(true).open(&paths[0]).unwrap().set_len(half).unwrap();
    let garbage = paths[0].to_string_lossy().replace("-10000000.", "-09999999.");
    std::fs::write(&garbage, [0x5a; 999]).unwrap();
    let (report, stream) = delivered(plan, &port);
    let found = numbers(split(&stream).0);
    assert!((1000..50_000).contains(&found.len()), "{}", found.len());
    assert!(report.spool_damaged_bytes > 999, "{report:?}");
    let aside = |path: &str| path.replace(".spool", ".damaged");
    assert_eq!(report.spool_damaged_files, [aside(&garbage), aside(&paths[0].to_string_lossy())]);
    assert!(report.spool_damaged_files.iter().all(|path| Path::new(path).is_file()));
}

/// The last half of a segment, and all that is left decodes: the report still has the loss.
#[test]
fn a_segment_that_was_cut_between_two_messages_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (port, address) = closed_port();
    let plan = spooling(address, folder.path());
    spool_run(plan.clone(), 0..1000);
    let entries = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let path = entries.into_iter().find(|path| path.extension().is_some_and(|end| end == "spool")).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let frame_bytes =
        |at: usize| FRAME_HEADER + u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
    let mut last = BEGINNING;
    while last + frame_bytes(last) < bytes.len() {
        last += frame_bytes(last);
    }
    std::fs::write(&path, &bytes[..last]).unwrap();
    let (report, stream) = delivered(plan, &port);
    let found = numbers(split(&stream).0);
    assert!((1..1000).contains(&found.len()), "{}", found.len());
    assert_eq!(report.spool_damaged_bytes, (bytes.len() - last) as u64, "{report:?}");
    assert_eq!(report.spool_damaged_files.len(), 1);
}

/// Messages of NetFlow v9 have another header: a run of IPFIX leaves them to one of v9.
#[test]
fn a_spool_of_v9_is_not_sent_as_ipfix() {
    let folder = tempfile::tempdir().unwrap();
    let (port, address) = closed_port();
    let plan = spooling(address, folder.path());
    let v9 = EncoderPlan { boot_ns: START_NS - 1_000_000_000, ..EncoderPlan::new(Version::V9) };
    let v9 = CollectorPlan { encoder: v9, ..plan.clone() };
    spool_run(v9.clone(), 0..500);

    let (_, stream) = delivered(plan, &port);
    assert!(numbers(split(&stream).0).is_empty());
    assert_eq!(segments(folder.path()), 1);
    let (report, stream) = delivered(v9, &port);
    assert_eq!((report.from_earlier.records, segments(folder.path())), (500, 0));
    assert_eq!(stream[..2], [0, 9]);
}

/// Two earlier runs with templates of their own, and a third one: each is decoded, and numbers are withdrawn between
/// them.
#[test]
fn each_run_is_delivered_with_its_own_templates() {
    let folder = tempfile::tempdir().unwrap();
    let (port, address) = closed_port();
    let plan = spooling(address, folder.path());
    let with = |template| CollectorPlan { encoder: encoder(template), ..plan.clone() };
    spool_run(with("%IN_BYTES %PROTOCOL"), 0..300);
    spool_run(with("%IN_BYTES %L4_SRC_PORT %L4_DST_PORT"), 300..600);
    spool_run(plan.clone(), 600..900);
    let (report, stream) = delivered(plan, &port);
    let messages = split(&stream).0;
    assert_withdrawn(&messages);
    assert_eq!(numbers(messages), (0..900).collect::<Vec<_>>());
    assert_eq!(report.from_earlier.records, 900);
}

/// The same template at a later start, with another time of the start in its options, needs no other templates.
#[test]
fn the_same_templates_are_not_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let (port, address) = closed_port();
    let plan = spooling(address, folder.path());
    spool_run(plan.clone(), 0..300);
    let later = EncoderPlan { boot_ns: START_NS - 5_000_000_000, ..plan.encoder.clone() };
    let (report, stream) = delivered(CollectorPlan { encoder: later, ..plan }, &port);
    assert_eq!(numbers(split(&stream).0), (0..300).collect::<Vec<_>>());
    // One announcement, whose templates fit one message.
    assert_eq!(report.templates, 1, "{report:?}");
}

/// Two exporters with one spool would remove each other's messages.
#[test]
fn a_second_exporter_with_the_same_spool_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_port, address) = closed_port();
    let first = sinks(vec![spooling(address, folder.path())], waiting());
    let second = SinkPlan::Collector(Box::new(spooling(address, folder.path())));
    let error = start(vec![second], plan(waiting())).unwrap_err().to_string();
    assert!(
        error.contains("open the spool in") && error.contains("use a folder for each exporter"),
        "{error}"
    );
    drop(first);
}

/// A collector that was away is not flooded when it is back.
#[test]
fn a_spool_leaves_at_the_rate() {
    let folder = tempfile::tempdir().unwrap();
    let (port, address) = closed_port();
    let mut plan = spooling(address, folder.path());
    plan.encoder.bytes_max = 1400;
    spool_run(plan.clone(), 0..1000);
    plan.rate.records_per_s = 2000;
    let start = Instant::now();
    let (_, stream) = delivered(plan, &port);
    assert_eq!(numbers(split(&stream).0).len(), 1000);
    // 1,000 records of 2,000 a second, without a burst and the last message.
    assert!(start.elapsed() >= Duration::from_millis(400), "{:?}", start.elapsed());
}
