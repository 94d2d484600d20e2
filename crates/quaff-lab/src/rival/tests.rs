//! What the tools really print, and what becomes of the places in their arguments.

use super::*;

fn of(name: &str) -> Rival {
    let all = shipped(Path::new("/opt/quaff"));
    all.into_iter().find(|rival| rival.name == name).expect("it is shipped")
}

fn line(name: &str, buffer_mib: Option<u64>, filter: Option<&str>) -> String {
    let rival = of(name);
    let places = Places { interface: "rx0", dir: Path::new("/data/7"), buffer_mib, filter };
    let (program, args) = rival.command_line(&rival.program, &places);
    let words: Vec<_> = [program].into_iter().chain(args).map(|word| word.into_string()).collect();
    words.into_iter().collect::<Result<Vec<_>, _>>().expect("UTF-8").join(" ")
}

#[test]
fn places_are_filled() {
    assert_eq!(
        line("quaff", Some(256), Some("udp")),
        "/opt/quaff capture -i rx0 -w /data/7/capture --json --ring 192M --buffer 64M -f udp"
    );
    assert_eq!(line("quaff", None, None), "/opt/quaff capture -i rx0 -w /data/7/capture --json");
    assert_eq!(
        line("tcpdump", Some(256), Some("udp port 9")),
        "tcpdump -i rx0 -s0 -n -Z root -w /data/7/capture -B 262144 udp port 9"
    );
    assert_eq!(line("dumpcap", Some(256), None), "dumpcap -i rx0 -q -w /data/7/capture -B 256");
    assert_eq!(
        line("netsniff-ng", Some(256), None),
        "netsniff-ng --in rx0 --out /data/7/capture -s --ring-size 256MiB"
    );
    assert!(line("stenographer", Some(256), None).ends_with(" --blocks=256"));
    assert_eq!(line("gulp", Some(256), None), "gulp -i rx0 -o /data/7 -n capture -r 256");
}

#[test]
fn no_place_is_left_open() {
    for rival in shipped(Path::new("/opt/quaff")) {
        let line = line(rival.name, Some(64), Some("ip"));
        assert!(!line.contains(['{', '}']), "{line}");
    }
}

#[test]
fn buffers_are_told_as_they_are_given() {
    assert_eq!(of("quaff").buffer_words(256), "--ring 192M --buffer 64M");
    assert_eq!(of("tcpdump").buffer_words(256), "-B 262144");
}

#[test]
fn versions_are_found_in_what_is_said() {
    for (said, version) in [
        ("quaff 0.1.0\n", Some("0.1.0")),
        (
            "tcpdump version 4.99.3\nlibpcap version 1.10.3 (with TPACKET_V3)\nOpenSSL 3.0.19 27 Jan 2026\n",
            Some("4.99.3"),
        ),
        ("Dumpcap (Wireshark) 4.0.17 (Git v4.0.17 packaged as 4.0.17-0+deb12u3).\n", Some("4.0.17")),
        ("\nnetsniff-ng 0.6.8 (Flutternozzle), Git id: (none)\nthe packet sniffing beast\n", Some("0.6.8")),
        ("1.0.1-2+b8", Some("1.0.1-2+b8")),
        ("", None),
        ("unknown option 7", None),
    ] {
        assert_eq!(version_in(said), version, "{said}");
    }
}

#[test]
fn tcpdump_counts() {
    let said = "tcpdump: listening on rx0, link-type EN10MB (Ethernet), snapshot length 262144 bytes
990535 packets captured
1000000 packets received by filter
9465 packets dropped by kernel
";
    assert_eq!(of("tcpdump").drops.read(said), Some(9465));
}

#[test]
fn dumpcap_counts() {
    let said = "Capturing on 'rx0'
File: f.pcap
Packets captured: 2078718
Packets received/dropped on interface 'rx0': 2078718/921282 (pcap:921282/dumpcap:0/flushed:0/ps_ifdrop:0) (69.3%)
";
    assert_eq!(of("dumpcap").drops.read(said), Some(921_282));
}

#[test]
fn netsniff_counts() {
    let said = "Cannot set system socket memory in /proc/sys/net/core/rmem_max: Permission denied
Running! Hang up with ^C!

      813949  packets incoming (186051 unread on exit)
      813949  packets passed filter
      186051  packets failed filter (out of space)
     18.6051% packet droprate
           6  sec, 418292 usec in total
";
    assert_eq!(of("netsniff-ng").drops.read(said), Some(186_051));
}

#[test]
fn stenographer_counts() {
    let said = "\
2026-11-20T10:06:06.842525Z T:e281c6 [stenotype.cc:537] Thread 0 stats: MB=300 secs=4.223 MBps=71.0395 packets=198300 blocks=300 polls=3 drops=0 drop%=0
2026-11-20T10:06:07.218519Z T:e281c6 [stenotype.cc:537] Thread 0 stats: MB=400 secs=4.599 MBps=86.9754 packets=264400 blocks=400 polls=3 drops=14440 drop%=5.1786
";
    assert_eq!(of("stenographer").drops.read(said), Some(14_440));
}

#[test]
fn gulp_counts() {
    let said = "\n2841520 packets captured\n2841520 packets received by filter
158480 packets dropped by kernel
ring buffer use: 100.0% of 256 MB
";
    assert_eq!(of("gulp").drops.read(said), Some(158_480));
}

#[test]
fn our_own_losses_are_summed() {
    let said = r#"{"offered":1000,"received":900,"nic_dropped":1,"kernel_dropped":20,"lost":300,"lost_in_buffer":300}"#;
    assert_eq!(of("quaff").drops.read(said), Some(321));
    assert_eq!(of("quaff").drops.read(r#"{"nic_dropped":1,"lost":300}"#), None);
}

#[test]
fn words_without_the_number_give_none() {
    let before = Counter::Before("packets dropped by kernel");
    for said in
        ["", "packets dropped by kernel", "é packets dropped by kernel", "many packets dropped by kernel"]
    {
        assert_eq!(before.read(said), None, "{said}");
    }
    assert_eq!(Counter::After("drops=").read("drops=x"), None);
    assert_eq!(Counter::After("drops=").read("drops="), None);
}

#[test]
fn what_is_not_installed_is_not_found() {
    let absent = Rival { program: "no-such-capturer-here".into(), ..of("tcpdump") };
    assert_eq!(absent.find(), None);
    assert_eq!(Rival { program: "/no/such/capturer".into(), ..absent }.find(), None);
    assert!(Rival { program: "sh".into(), ..of("tcpdump") }.find().is_some());
}
