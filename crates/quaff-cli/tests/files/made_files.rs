//! `quaff generate -w` and `quaff replay -w`: a file's name decides its format and compression, and what is refused
//! leaves no file. No network.

use crate::support::{QUAFF, folder, tool, verify};
use quaff_file::read::CaptureFile;
use quaff_testkit::test_name;
use quaff_wire::decode::Item;
use std::path::Path;
use std::process::{Command, Output};

const GZIP: &[u8] = &[0x1F, 0x8B];
const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
const LZ4: &[u8] = &[0x04, 0x22, 0x4D, 0x18];
const PCAPNG: &[u8] = &[0x0A, 0x0D, 0x0D, 0x0A];
const PCAP_NS: &[u8] = &0xA1B2_3C4Du32.to_ne_bytes();
const PCAP_US: &[u8] = &0xA1B2_C3D4u32.to_ne_bytes();

/// A name, more arguments, and the first bytes of the file.
const CASES: [(&str, &[&str], &[u8]); 10] = [
    ("plain", &[], PCAP_NS),
    ("a.pcap", &[], PCAP_NS),
    ("a.pcapng", &[], PCAPNG),
    ("a.PCAPNG", &[], PCAPNG),
    ("a.ntar", &[], PCAPNG),
    ("b.pcapng", &["--format", "pcap-us"], PCAP_US),
    ("b.pcap", &["--format", "pcapng"], PCAPNG),
    ("a.pcapng.gz", &[], GZIP),
    ("a.pcap.zst", &[], ZSTD),
    ("a.lz4", &[], LZ4),
];

fn quaff(dir: &Path, args: &[&str]) -> Output {
    Command::new(QUAFF).args(args).current_dir(dir).output().expect("quaff runs")
}

/// The length of each packet.
fn lengths(path: &Path) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut file = CaptureFile::open(path).expect("a file");
    let mut each = |item: Item<'_>| {
        if let Item::Frame(frame) = item {
            lengths.push(frame.data.len());
        }
    };
    while file.pull(&mut each).expect("a whole file") {}
    lengths
}

#[test]
fn the_name_decides_the_format_and_the_compression() {
    let dir = folder();
    let made = ["generate", "--size", "64-1500", "--pps", "1k", "--count", "3000"];
    for (name, more, first) in CASES {
        let replayed = format!("again-{name}");
        for (args, to) in [(&made[..], name), (&["replay", name], &replayed)] {
            let done = quaff(dir.path(), &[args, &["-w", to], more].concat());
            assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
            let path = dir.path().join(to);
            let bytes = std::fs::read(&path).expect("a file");
            assert!(bytes.starts_with(first), "{to}: {:x?}", &bytes[..4]);
            let found = verify(&[&path.display().to_string()]);
            assert_eq!(
                (&found["received"], &found["complete"]),
                (&3000.into(), &true.into()),
                "{to}: {found}"
            );
        }
        assert_eq!(lengths(&dir.path().join(name)), lengths(&dir.path().join(&replayed)), "{name}");
    }
    // Payloads that count up shrink.
    let size = |name: &str| dir.path().join(name).metadata().expect("a file").len();
    assert!(size("a.pcap.zst") < size("a.pcap") / 2, "{} of {}", size("a.pcap.zst"), size("a.pcap"));
    let Some(mut capinfos) = tool(test_name!(), "capinfos") else {
        return;
    };
    for name in ["a.pcapng", "a.pcapng.gz", "a.pcap.zst"] {
        let done = capinfos.args(["-Tmrc", name]).current_dir(&dir).output().expect("capinfos runs");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success() && text.contains("3000"), "{name}: {text}");
        capinfos = Command::new(capinfos.get_program());
    }
}

/// Without an end a file would fill the disk.
#[test]
fn a_refused_file_is_not_created() {
    let dir = folder();
    assert!(quaff(dir.path(), &["generate", "-w", "IN", "--count", "5"]).status.success());
    for (args, words) in [
        (&["generate"][..], &["--count", "--duration"][..]),
        (&["generate", "--pps", "1k"], &["--count", "--duration"]),
        (&["generate", "--duration", "1s"], &["--pps", "--mbps"]),
        (&["generate", "--count", "1", "--pps", "1", "--shape", "bursts=0"], &[]),
        (&["replay", "IN", "--loop", "0"], &["--loop", "--count", "--duration"]),
        (&["replay", "IN", "--loop", "0", "--pps", "10"], &["--loop", "--count"]),
        (&["replay", "IN", "--loop", "2", "--stamp"], &["--stamp"]),
        (&["replay", "none"], &["none"]),
        (&["tcpreplay", "--loop=0", "IN"], &["loop"]),
    ] {
        let done = quaff(dir.path(), &[args, &["-w", "out.pcap"]].concat());
        let error = String::from_utf8_lossy(&done.stderr);
        let lines = error.lines().filter(|line| line.starts_with("quaff: ")).count();
        assert_eq!((done.status.code(), lines), (Some(2), 1), "{args:?}: {error}");
        assert!(words.iter().all(|word| error.contains(word)), "{args:?}: {error}");
        assert!(!dir.path().join("out.pcap").exists(), "{args:?}");
    }
}
