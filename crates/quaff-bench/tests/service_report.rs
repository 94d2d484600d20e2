//! The report of a service test: files that say the same as the result, and a page that a browser draws.
//!
//! `QUAFF_SAMPLE_OUT=DIR cargo test -p quaff-bench --test service_report` leaves the sample's report in DIR, to be
//! looked at.

mod browser;

use browser::{browser, dump, look, name};
use quaff_bench::report::{read, write};
use quaff_bench::service::result::{Report, Results};
use quaff_testkit::sample_service_report;
use std::fs;

#[test]
fn a_folder_has_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let out = std::env::var("QUAFF_SAMPLE_OUT").map_or(dir.path().join("out"), Into::into);
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("figure-99-of-an-earlier-report.svg"), "").unwrap();
    let files = write(&sample_service_report(), &out).unwrap();
    let names: Vec<String> = files.iter().map(|file| name(file)).collect();
    assert_eq!(names[..3], ["result.json", "report.md", "report.html"]);
    assert!(names.len() > 15, "{names:?}");
    let mut there: Vec<String> =
        fs::read_dir(&out).unwrap().map(|entry| name(&entry.unwrap().path())).collect();
    there.retain(|name| names.contains(name) || name.starts_with("figure-"));
    assert_eq!(there.len(), names.len(), "{there:?}");
    assert_eq!(read::<Report>(&out).unwrap(), sample_service_report());
    let paper = fs::read_to_string(out.join("report.md")).unwrap();
    for picture in names.iter().filter(|name| name.ends_with(".svg")) {
        assert!(paper.contains(&format!("]({picture})")), "{picture} is not in report.md");
    }
}

#[test]
fn the_same_result_gives_the_same_bytes() {
    let [one, other] = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let files = write(&sample_service_report(), one.path()).unwrap();
    write(&read::<Report>(one.path()).unwrap(), other.path()).unwrap();
    for file in files {
        let again = fs::read(other.path().join(name(&file))).unwrap();
        assert!(fs::read(&file).unwrap() == again, "{} differs", file.display());
    }
}

#[test]
fn what_is_no_result_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("result.json");
    assert!(read::<Report>(dir.path()).unwrap_err().to_string().contains("result.json"));
    fs::write(&file, "{\"format\":").unwrap();
    assert!(read::<Report>(&file).unwrap_err().to_string().contains("no result of a service test"));
    quaff_bench::report::write(&quaff_testkit::sample_report(), dir.path()).unwrap();
    assert!(
        read::<Report>(&file).unwrap_err().to_string().contains("no result of a service test"),
        "a bench's"
    );
    let later = Report { format: 99, ..sample_service_report() };
    fs::write(&file, serde_json::to_vec(&later).unwrap()).unwrap();
    assert!(read::<Report>(&file).unwrap_err().to_string().contains("format 99"));
}

/// A report in which nothing was measured yet.
fn empty() -> Report {
    Report { interrupted: true, body: Results::default(), ..sample_service_report() }
}

#[test]
fn a_test_that_was_interrupted_at_once_has_a_report_too() {
    let dir = tempfile::tempdir().unwrap();
    let files = write(&empty(), dir.path()).unwrap();
    assert_eq!(files.len(), 3, "a picture of nothing: {files:?}");
    let paper = fs::read_to_string(&files[1]).unwrap();
    assert!(paper.contains("It was interrupted") && paper.contains("nothing was judged"), "{paper}");
}

#[test]
fn figures_that_are_missing_are_dashes() {
    let dir = tempfile::tempdir().unwrap();
    let mut report = sample_service_report();
    for line in &mut report.performance {
        line.figures = Default::default();
        line.checks.clear();
        line.seconds.iter_mut().for_each(|second| *second = Default::default());
    }
    for found in &mut report.throughput {
        (found.pps, found.upper_pps) = (None, None);
        found.trials.clear();
    }
    for found in &mut report.latency {
        (found.all.histogram, found.all.quantiles, found.null_ms) = (vec![], vec![], None);
        found.tagged_ms.clear();
    }
    report.back_to_back.iter_mut().for_each(|found| found.frames.clear());
    report.recovery.iter_mut().for_each(|found| found.seconds.clear());
    report.configuration.iter_mut().for_each(|step| step.figures = Default::default());
    report.plan.services.iter_mut().for_each(|service| service.sizes.clear());
    for file in write(&report, dir.path()).unwrap() {
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            !text.contains("NaN") && !text.contains("inf,") && !text.contains("inf\""),
            "{}",
            file.display()
        );
    }
}

const EVIL: &str = "x</title></style><script>alert(1)</script><img src=x onerror='alert(2)'>\u{1b}]52;c;eA==\u{7}![y](http://z)";

/// The sample with [`EVIL`] wherever there are words that need not be of a certain kind.
fn evil_report() -> Report {
    const KINDS: [&str; 6] = ["path", "ways", "way", "tests", "begun", "format"];
    fn spoil(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(words) => *words = EVIL.into(),
            serde_json::Value::Array(all) => all.iter_mut().for_each(spoil),
            serde_json::Value::Object(all) => {
                all.iter_mut()
                    .filter(|(name, _)| !KINDS.contains(&name.as_str()))
                    .for_each(|(_, value)| spoil(value));
            }
            _ => {}
        }
    }
    let mut value = serde_json::to_value(sample_service_report()).unwrap();
    spoil(&mut value);
    value["machine"] = serde_json::json!({ EVIL: EVIL, "cpu": EVIL });
    serde_json::from_value(value).unwrap()
}

#[test]
fn what_others_say_of_themselves_is_text() {
    let dir = tempfile::tempdir().unwrap();
    for file in &write(&evil_report(), dir.path()).unwrap()[1..] {
        let text = fs::read_to_string(file).unwrap();
        let markdown = file.extension().is_some_and(|extension| extension == "md");
        for (place, _) in text.match_indices("<script>").chain(text.match_indices("<img")) {
            let is_escaped = markdown && text[..place].ends_with('\\');
            let is_code = markdown && text[..place].rsplit("\n## ").next().unwrap().contains("```");
            assert!(is_escaped || is_code, "{}: {}", file.display(), &text[place..place + 40]);
        }
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{}", file.display());
    }
    let again: Report = read(dir.path()).unwrap();
    assert!(!again.notes[0].contains('\u{1b}'), "{}", again.notes[0]);
}

#[test]
fn the_page_asks_nothing_of_a_network_and_its_fragments_are_there_once() {
    let dir = tempfile::tempdir().unwrap();
    write(&sample_service_report(), dir.path()).unwrap();
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains(" style=\"") && !page.contains(" onclick"), "the policy refuses these");
    for way in ["src=", "url(", "@import", "fetch(", "href=\"http"] {
        assert!(!page.contains(way), "{way}");
    }
    for link in page.split("href=\"#").skip(1) {
        let id = link.split('"').next().unwrap();
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    assert!(page.len() < 4_000_000, "{} bytes", page.len());
}

#[test]
fn a_browser_runs_nothing_of_what_others_say() {
    const TEST: &str = "a_browser_runs_nothing_of_what_others_say";
    let Some(browser) = browser(TEST) else { return };
    let dir = tempfile::tempdir().unwrap();
    write(&evil_report(), dir.path()).unwrap();
    let (dom, log) = dump(&browser, &dir.path().join("report.html"), dir.path());
    assert!(!log.contains("CONSOLE"), "{log}");
    for (part, most) in [("<script", 1), ("<style", 1), ("<img", 0)] {
        assert_eq!(dom.matches(part).count(), most, "{part}");
    }
}

#[test]
fn a_browser_draws_the_page_and_shows_values() {
    const TEST: &str = "a_browser_draws_the_page_and_shows_values";
    let Some(browser) = browser(TEST) else { return };
    for width in [400, 1600] {
        let dir = tempfile::tempdir().unwrap();
        write(&sample_service_report(), dir.path()).unwrap();
        let seen = look(&browser, dir.path(), width, PROBE);
        assert!(!seen.log.contains("CONSOLE"), "at {width} px: {}", seen.log);
        assert_eq!(seen.number("pictures"), seen.number("figures"), "{seen:?}");
        assert!(seen.number("figures") > 12.0, "{seen:?}");
        assert_eq!(seen.number("marks-without-size"), 0.0, "{seen:?}");
        assert!(seen.number("smallest-text-px") >= 9.5, "{seen:?}");
        assert!(seen.number("beyond-the-edge-px") <= 0.0, "{seen:?}");
        assert_eq!(seen.line("verdict"), "✗ Failed", "{seen:?}");
        assert!(
            seen.line("hover-second").contains("seconds") || seen.line("hover-second").contains("second ")
        );
        assert!(
            seen.line("hover-second").contains("Mbit/s") && seen.line("hover-second").contains("µs"),
            "{seen:?}"
        );
        assert!(seen.line("hover-strip").contains("median"), "{seen:?}");
        assert!(seen.line("hover-bar").contains("Mbit/s"), "{seen:?}");
        assert!(seen.number("outage-width") > 20.0, "{seen:?}");
        assert!(seen.line("keys").contains("second"), "{seen:?}");
        assert!(seen.line("after-escape").contains("hidden"), "{seen:?}");
        assert_ne!(seen.line("light"), seen.line("dark"), "{seen:?}");
        assert_eq!(seen.number("svg-files"), seen.number("figures"), "{seen:?}");
    }
}

/// Runs inside of the page, and tells the frame around it what it found.
const PROBE: &str = r##"
addEventListener("load", () => setTimeout(() => {
  const say = (name, value) => parent.postMessage(name + ": " + value, "*");
  const tip = document.getElementById("tip");
  const text = () => tip.hidden ? "hidden" : tip.textContent;
  const pictures = [...document.querySelectorAll("svg.pic")].filter((svg) => svg.getBoundingClientRect().width > 0);
  say("figures", document.querySelectorAll("figure").length);
  say("pictures", pictures.filter((svg) => svg.getBoundingClientRect().height > 80).length);
  const marks = pictures.flatMap((svg) => [...svg.querySelectorAll(".m")]);
  say("marks-without-size", marks.filter((mark) => mark.getBoundingClientRect().width < 2).length);
  const sizes = pictures.flatMap((svg) => {
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    return [...svg.querySelectorAll("text")].map((words) => parseFloat(getComputedStyle(words).fontSize) * scale);
  });
  say("smallest-text-px", Math.min(...sizes));
  say("beyond-the-edge-px", document.documentElement.scrollWidth - innerWidth);
  say("verdict", document.querySelector(".verdict").textContent);
  const hoverAt = (element, x, y) => {
    const at = { clientX: x, clientY: y };
    element.dispatchEvent(new PointerEvent("pointermove", { ...at, bubbles: true, pointerType: "mouse" }));
    return text();
  };
  const hover = (mark) => {
    mark.scrollIntoView({ block: "center", behavior: "instant" });
    const box = mark.getBoundingClientRect();
    return hoverAt(mark, box.x + box.width / 2, box.y + box.height / 2);
  };
  const holding = (part) => pictures.find((svg) => svg.querySelector(part));
  const seconds = holding(".band");
  seconds.scrollIntoView({ block: "center", behavior: "instant" });
  const box = seconds.getBoundingClientRect();
  say("hover-second", hoverAt(seconds, box.x + box.width / 3, box.y + box.height / 2));
  say("hover-strip", hover(pictures.flatMap((svg) => [...svg.querySelectorAll(".q3")])[0]));
  say("hover-bar", hover(holding(".bar").querySelector(".bar")));
  say("outage-width", Math.max(...pictures.flatMap((svg) => [...svg.querySelectorAll(".gap")])
    .map((gap) => gap.getBoundingClientRect().width)));
  seconds.focus();
  const press = (key) => seconds.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  press("ArrowRight");
  press("ArrowRight");
  say("keys", document.getElementById("live").textContent);
  press("Escape");
  say("after-escape", text());
  const paper = () => getComputedStyle(document.documentElement).backgroundColor;
  document.documentElement.dataset.theme = "light";
  say("light", paper());
  document.getElementById("theme").click();
  say("dark", paper());
  say("done", 1);
}, 50));
"##;
