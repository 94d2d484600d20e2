//! `quaff streams -i IF --script FILE`: scripts see every packet of an interface, rows reach their files while it runs,
//! and a script that never returns, allocates without end, fails at each packet, or is slow costs itself only.

use crate::support::{PATIENCE, interrupt, lab_bench};
use quaff_lab::ChildProcess;
use std::time::{Duration, Instant};

const GOOD: &str = r#"
    local flows = list("flows", {"client", "packets"})
    local seen = 0
    on("packet", {}, function(packet) seen = seen + 1 end)
    on("flow_start", {}, function(flow) if flow.id == 1 then alert("first", {key = flow.key}) save(flow) end end)
    on("flow_end", {}, function(flow) flows:add{flow.client, flow.packets} end)
    on("data", {}, function(flow, data) flow.state.bytes = (flow.state.bytes or 0) + #data.bytes end)
    on("timer", {every = "100ms"}, function(now) print(seen) end)
"#;

#[test]
fn scripts_see_every_packet_of_an_interface() {
    let bench = lab_bench!(64 << 20);
    let script = |name: &str, text: &str| {
        let path = bench.path(name);
        std::fs::write(&path, text).expect("a script");
        path
    };
    let good = script("good.lua", GOOD);
    let bad = script("bad.lua", "on('packet', {}, function(p)\n  while true do end\nend)");
    let (out, time) = (bench.path("out"), ["--script-time", "20ms"]);
    let args = ["streams", "-i", "rx0", "-f", "tcp", "--script", &bad, &good, "--out", &out, "--json"];
    let mut running = ChildProcess::start(bench.quaff(&[&args[..], &time].concat())).expect("quaff runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    bench.generate("--tcp talk --size 300 --flows 9 --pps 5k --count 10k");
    // Rows leave the lane while it runs.
    let begun = Instant::now();
    let alerts = std::path::Path::new(&out).join("good-alerts.jsonl");
    while std::fs::metadata(&alerts).map_or(0, |of| of.len()) == 0 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(std::fs::read_to_string(&alerts).expect("rows").contains("\"text\":\"first\""));
    let ended = interrupt(running);
    let sums = &ended.json;
    assert_eq!((&sums["packets"], &sums["kernel_dropped"]), (&10_000.into(), &0.into()), "{sums}");
    let [bad, good] = [&sums["scripts"][0], &sums["scripts"][1]];
    assert_eq!((&bad["stopped"], &bad["dropped"]), (&"time".into(), &9_999.into()), "{sums}");
    assert!(bad["stopped_by"].as_str().unwrap_or_default().starts_with("bad.lua:2: "), "{sums}");
    assert_eq!(
        (&good["stopped"], &good["errors"], &good["dropped"]),
        (&().into(), &0.into(), &0.into()),
        "{sums}"
    );
    assert_eq!((ended.code, &sums["verdict"]), (1, &"unknown".into()), "a script was stopped: {sums}");
    let rows = std::fs::read_to_string(format!("{out}/good-flows.jsonl")).expect("rows");
    let packets = rows.lines().map(|line| {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        row["packets"].as_u64().expect("a number")
    });
    assert_eq!(
        (rows.lines().count() as u64, packets.sum::<u64>()),
        (sums["flows"].as_u64().unwrap_or(0), 10_000)
    );
    assert_eq!(
        (&sums["saved_packets"], &good["saved"]),
        (&16.into(), &1.into()),
        "the first connection: {sums}"
    );
}

/// A ring of 8 MiB, and scripts that would take the lane from it for ever.
#[test]
fn bad_scripts_cost_the_capture_no_packet() {
    const PACKETS: u64 = 200_000;
    let bench = lab_bench!(64 << 20);
    let script = |name: &str, text: &str| {
        let path = bench.path(name);
        std::fs::write(&path, format!("on('packet', {{}}, function(p)\n  {text}\nend)")).expect("a script");
        path
    };
    let scripts = [
        script("loops.lua", "while true do end"),
        script("allocates.lua", "local t = {} while true do t[#t + 1] = {} end"),
        script("throws.lua", "error('mine')"),
        script("slow.lua", "for i = 1, 10000 do end"),
        script("good.lua", "seen = (seen or 0) + 1"),
    ];
    let mut args = vec!["streams", "-i", "rx0", "-f", "udp", "--ring", "8M", "--json", "--out"];
    let out = bench.path("out");
    args.extend([out.as_str(), "--script"]);
    args.extend(scripts.iter().map(String::as_str));
    let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    bench.generate(&format!("--size 100 --pps 40k --count {PACKETS}"));
    let ended = interrupt(running);
    let sums = &ended.json;
    assert_eq!((&sums["packets"], &sums["kernel_dropped"]), (&PACKETS.into(), &0.into()), "{sums}");
    let of = |at: usize, field: &str| sums["scripts"][at][field].clone();
    let number = |at: usize, field: &str| of(at, field).as_u64().unwrap_or(0);
    // The time that all memory takes depends on the machine.
    let stopped =
        [("time", "loops.lua:2: "), ("time or memory", "allocates.lua:"), ("errors", "throws.lua:2: ")];
    for (at, (parts, begin)) in stopped.into_iter().enumerate() {
        let part = of(at, "stopped");
        assert!(part.as_str().is_some_and(|part| parts.contains(part)), "{sums}");
        assert!(of(at, "stopped_by").as_str().unwrap_or_default().starts_with(begin), "{sums}");
    }
    assert_eq!((number(2, "errors"), number(2, "dropped")), (100, PACKETS - 100), "{sums}");
    // Its calls need more than all the time that there is.
    assert!(of(3, "stopped").is_null() && number(3, "skipped") > 0, "{sums}");
    for at in 0..5 {
        let events = number(at, "calls") + number(at, "skipped") + number(at, "dropped");
        assert_eq!(events, PACKETS, "{sums}");
    }
    // It needs little time; a busy machine may take its core from it in a call, which counts.
    let (slow, good) = (number(3, "skipped"), number(4, "skipped"));
    assert!(of(4, "stopped").is_null() && 4 * good < slow, "{sums}");
    assert_eq!(ended.code, 1, "{sums}");
}
