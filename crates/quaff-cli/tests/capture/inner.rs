//! `--inner` on live traffic: the same packets and the same counts, whether the kernel decides or we.

use crate::support::{Bench, Ended, fails, interrupt, lab_bench, run, tool, verify};
use quaff_testkit::test_name;

/// The frames sent in each test: two streams in ERSPAN, one of them with a VLAN tag, and the first one without a
/// tunnel.
fn captured(bench: &Bench, file: &str, options: &[&str]) -> Ended {
    let mut args = vec!["-w", file, "--decap", "auto"];
    args.extend(options);
    let running = bench.capture(&args);
    bench.generate("--size 200 --count 3000 --pps 100000 --erspan 5 --stream 7");
    bench.generate("--size 200 --count 2000 --pps 100000 --erspan 5 --stream 9 --vlan 100");
    bench.generate("--size 200 --count 1000 --pps 100000 --stream 7");
    interrupt(running)
}

#[test]
fn kernel_and_user_space_keep_the_same_packets() {
    let bench = lab_bench!(1 << 28);
    for (expression, kept, depth) in [
        ("udp src port 7", 4000, "4"),
        ("vlan 100", 2000, "4"),
        ("vlan 100 and udp src port 7", 0, "1"),
        ("len = 200", 6000, "1"),
        ("len = 250", 0, "4"),
    ] {
        for place in [None, Some("--inner-user")] {
            let file = bench.path("inner.pcapng");
            let options = ["--inner", expression, "--decap-depth", depth].into_iter().chain(place);
            let ended = captured(&bench, &file, &options.collect::<Vec<_>>());
            let counts = ["offered", "written", "filtered", "lost"].map(|name| ended.json[name].as_u64());
            let wanted = [6000, kept, 6000 - kept, 0].map(Some);
            assert_eq!(counts, wanted, "'{expression}' {place:?}: {} {}", ended.json, ended.stderr);
            assert_eq!(ended.code, 0, "{}", ended.stderr);
            // Only packets that the kernel keeps out leave gaps that mean nothing.
            let is_noted = ended.json["notes"].to_string().contains("gaps");
            assert_eq!(
                (is_noted, &ended.json["missing_before"]),
                (place.is_none(), &0.into()),
                "{}",
                ended.json
            );
            // The frames that came out of a tunnel: what the kernel kept out never did.
            let stripped = ended.json["interfaces"][0]["decap"]["stripped"].as_u64().unwrap_or(0);
            let bare = if expression == "udp src port 7" { 1000 } else { 0 };
            match (place, expression) {
                (Some(_), _) => assert_eq!(stripped, 5000),
                (None, "len = 200") => assert_eq!(stripped, 5000),
                (None, _) => assert_eq!(stripped, kept - bare, "'{expression}': {}", ended.json),
            }
            if let Some(mut tcpdump) = tool(test_name!(), "tcpdump") {
                let listed = run(tcpdump.args(["-nn", "-r", &file, expression]));
                assert_eq!(listed.lines().count() as u64, kept, "'{expression}'");
            }
        }
    }
}

#[test]
fn an_outer_filter_has_to_hold_as_well() {
    let bench = lab_bench!(1 << 28);
    let file = bench.path("both.pcapng");
    for place in [None, Some("--inner-user")] {
        let options =
            ["-f", "ip proto gre and not vlan 3", "--inner", "udp src port 7"].into_iter().chain(place);
        let ended = captured(&bench, &file, &options.collect::<Vec<_>>());
        let counts = ["written", "filtered"].map(|name| ended.json[name].as_u64());
        assert_eq!(counts, [3000, 3000].map(Some), "{place:?}: {} {}", ended.json, ended.stderr);
        assert_eq!(verify(&[&file])["received"], 3000);
    }
}

/// CPU time that a process has used so far, s (proc_pid_stat(5): utime and stime, in 1/100 s).
#[test]
fn one_in_a_hundred_is_kept_and_the_others_are_counted() {
    const FRAMES: u64 = 100_000;
    let bench = lab_bench!(1 << 28);
    for place in [None, Some("--inner-user")] {
        let file = bench.path("one-percent.pcapng");
        // By the stamp's number.
        let options = ["-w", &file, "--decap", "erspan", "--inner", "udp[16:2] % 100 = 0"];
        let running = bench.capture(&options.into_iter().chain(place).collect::<Vec<_>>());
        bench.generate(&format!("--size 64 --count {FRAMES} --pps 100k --erspan 5"));
        let ended = interrupt(running);
        let of = |name: &str| ended.json[name].as_u64().unwrap_or(0);
        // 65,536 numbers at a time, the first of each hundred.
        let kept: u64 = (0..FRAMES).filter(|number| (number % 65_536).is_multiple_of(100)).count() as u64;
        assert_eq!((of("written"), of("filtered")), (kept, FRAMES - kept), "{}", ended.json);
        assert_eq!((ended.code, of("lost") + of("kernel_dropped")), (0, 0), "{}", ended.json);
    }
}

#[test]
fn the_place_of_each_filter_is_reported_and_errors_are_marked() {
    let bench = lab_bench!(1 << 26);
    let explained = |options: &str| {
        let mut args = vec!["capture", "-i", "rx0", "--explain"];
        args.extend(options.split('|'));
        run(&mut bench.quaff(&args))
    };
    let both = explained("--decap|auto|--inner|tcp port 80");
    assert!(both.contains("in the kernel for ERSPAN I, ERSPAN II, ERSPAN III, VXLAN"), "{both}");
    assert!(both.contains("without a nested tunnel") && both.contains("--inner-user"), "{both}");
    let gre = explained("--decap|gre|--inner|tcp port 80");
    assert!(gre.contains("after decapsulation: only ERSPAN and VXLAN"), "{gre}");
    let wireless = explained("--decap|auto|--inner|wlan addr1 2:0:0:0:0:1");
    assert!(wireless.contains("does not apply to Ethernet"), "{wireless}");
    let said = fails(&bench, &["capture", "-i", "rx0", "-w", "x", "--inner", "tcp"]);
    assert!(said.contains("needs --decap"), "{said}");
    let said = fails(
        &bench,
        &["capture", "-i", "rx0", "-w", "x", "--decap", "auto", "--inner", "tcp port 80 and prot 4"],
    );
    let (line, mark) = (said.lines().nth(1).unwrap_or_default(), said.lines().nth(2).unwrap_or_default());
    assert_eq!(line.find("prot 4"), mark.find('^'), "{said}");
}
