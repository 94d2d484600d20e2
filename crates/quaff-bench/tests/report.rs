//! The report of a bench: files that say the same as the result, and a page that a browser draws.
//!
//! `QUAFF_SAMPLE_OUT=DIR cargo test -p quaff-bench --test report` leaves the sample's report in DIR, to be looked at.

mod browser;

use browser::{browser, dump, look, name};
use quaff_bench::bench::result::Report;
use quaff_bench::report;
use quaff_testkit::sample_report;
use std::fs;
use std::path::Path;

#[test]
fn a_folder_has_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let out = std::env::var("QUAFF_SAMPLE_OUT").map_or(dir.path().join("out"), Into::into);
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("figure-99-of-an-earlier-report.svg"), "").unwrap();
    let files = report::write(&sample_report(), &out).unwrap();
    let names: Vec<String> = files.iter().map(|file| name(file)).collect();
    assert_eq!(names[..3], ["result.json", "report.md", "report.html"]);
    assert!(names.len() > 10, "{names:?}");
    let mut there: Vec<String> =
        fs::read_dir(&out).unwrap().map(|entry| name(&entry.unwrap().path())).collect();
    there.retain(|name| names.contains(name) || name.starts_with("figure-"));
    assert_eq!(there.len(), names.len(), "{there:?}");
    assert_eq!(report::read::<Report>(&out).unwrap(), sample_report());
    let paper = fs::read_to_string(out.join("report.md")).unwrap();
    for picture in names.iter().filter(|name| name.ends_with(".svg")) {
        assert!(paper.contains(&format!("]({picture})")), "{picture} is not in report.md");
    }
}

#[test]
fn the_same_result_gives_the_same_bytes() {
    let [one, other] = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let files = report::write(&sample_report(), one.path()).unwrap();
    report::write(&report::read::<Report>(one.path()).unwrap(), other.path()).unwrap();
    for file in files {
        let again = fs::read(other.path().join(name(&file))).unwrap();
        assert!(fs::read(&file).unwrap() == again, "{} differs", file.display());
    }
}

#[test]
fn what_is_no_result_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("result.json");
    assert!(report::read::<Report>(dir.path()).unwrap_err().to_string().contains("result.json"));
    fs::write(&file, "{\"format\":").unwrap();
    assert!(report::read::<Report>(&file).unwrap_err().to_string().contains("no result of a bench"));
    let later = Report { format: 99, ..sample_report() };
    fs::write(&file, serde_json::to_vec(&later).unwrap()).unwrap();
    assert!(report::read::<Report>(&file).unwrap_err().to_string().contains("format 99"));
}

#[test]
fn a_bench_that_was_interrupted_at_once_has_a_report_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut empty = sample_report();
    (empty.cases, empty.searches, empty.bursts, empty.calibration) = (vec![], vec![], vec![], vec![]);
    empty.interrupted = true;
    let files = report::write(&empty, dir.path()).unwrap();
    assert_eq!(files.len(), 3, "a picture of nothing: {files:?}");
    assert!(fs::read_to_string(&files[1]).unwrap().contains("It was interrupted"));
}

const EVIL: &str = "x</title></style><script>alert(1)</script><img src=x onerror='alert(2)'>\u{1b}]52;c;eA==\u{7}![y](http://z)";

/// The sample with [`EVIL`] wherever there are words that need not be of a certain kind.
fn evil_report() -> Report {
    const KINDS: [&str; 8] =
        ["limited_by", "setting", "bed", "sweeps", "finds", "content", "begun", "format"];
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
    let mut value = serde_json::to_value(sample_report()).unwrap();
    // Of two with one name, half stay what they are, so that there are several of everything.
    for part in ["plan", "command", "rivals", "calibration", "searches", "bursts", "notes"] {
        spoil(&mut value[part]);
    }
    value["cases"].as_array_mut().unwrap().iter_mut().step_by(2).for_each(spoil);
    value["machine"] = serde_json::json!({ EVIL: EVIL, "cpu": EVIL });
    let mut report: Report = serde_json::from_value(value).unwrap();
    report.cases[0].notes = vec![EVIL.into()];
    report.cases[0].runs[0].failed = Some(EVIL.into());
    report.cases[0].interface = Some(EVIL.into());
    report
}

#[test]
fn what_others_say_of_themselves_is_text() {
    let dir = tempfile::tempdir().unwrap();
    for file in &report::write(&evil_report(), dir.path()).unwrap()[1..] {
        let text = fs::read_to_string(file).unwrap();
        let markdown = file.extension().is_some_and(|extension| extension == "md");
        for (place, _) in text.match_indices("<script>").chain(text.match_indices("<img")) {
            let is_escaped = markdown && text[..place].ends_with('\\');
            let is_code = markdown && text[..place].rsplit("\n## ").next().unwrap().contains("```");
            assert!(is_escaped || is_code, "{}: {}", file.display(), &text[place..place + 40]);
        }
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{}", file.display());
    }
    let again: Report = report::read(dir.path()).unwrap();
    assert!(!again.notes[0].contains('\u{1b}'), "{}", again.notes[0]);
}

#[test]
fn a_browser_runs_nothing_of_what_others_say() {
    const TEST: &str = "a_browser_runs_nothing_of_what_others_say";
    let Some(browser) = browser(TEST) else { return };
    let dir = tempfile::tempdir().unwrap();
    report::write(&evil_report(), dir.path()).unwrap();
    let (dom, log) = dump(&browser, &dir.path().join("report.html"), dir.path());
    assert!(!log.contains("CONSOLE"), "{log}");
    // One script, one style, and no picture but ours.
    assert_eq!(dom.matches("<script").count(), 1);
    assert_eq!(dom.matches("<style").count(), 1);
    assert_eq!(dom.matches("<img").count(), 0);
}

#[test]
fn the_page_asks_nothing_of_a_network() {
    let dir = tempfile::tempdir().unwrap();
    let page = page_in(dir.path());
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains(" style=\"") && !page.contains(" onclick"), "the policy refuses these");
    for way in ["src=", "url(", "@import", "fetch(", "href=\"http"] {
        assert!(!page.contains(way), "{way}");
    }
}

#[test]
fn every_fragment_is_on_the_page_once() {
    let dir = tempfile::tempdir().unwrap();
    let page = page_in(dir.path());
    for link in page.split("href=\"#").skip(1) {
        let id = link.split('"').next().unwrap();
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
}

#[test]
fn a_browser_draws_the_page_and_shows_values() {
    const TEST: &str = "a_browser_draws_the_page_and_shows_values";
    let Some(browser) = browser(TEST) else { return };
    for width in [400, 1600] {
        let dir = tempfile::tempdir().unwrap();
        report::write(&sample_report(), dir.path()).unwrap();
        let seen = look(&browser, dir.path(), width, PROBE);
        assert!(!seen.log.contains("CONSOLE"), "at {width} px: {}", seen.log);
        assert_eq!(seen.number("pictures"), seen.number("figures"), "{seen:?}");
        assert!(seen.number("figures") > 8.0, "{seen:?}");
        assert!(seen.number("marks-without-size") == 0.0, "{seen:?}");
        assert!(seen.number("smallest-text-px") >= 9.5, "{seen:?}");
        assert!(seen.number("beyond-the-edge-px") <= 0.0, "{seen:?}");
        let curve = seen.line("hover-curve");
        assert!(curve.contains("quaff") && curve.contains("0 % (5 runs) lost"), "{seen:?}");
        assert!(curve.contains("% of a core"), "{seen:?}");
        assert!(seen.line("hover-cell").contains("quaff"), "{seen:?}");
        assert!(seen.line("hover-bar").contains(" % "), "{seen:?}");
        assert!(seen.line("keys").contains("800 Mbit/s"), "{seen:?}");
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
  const hover = (mark) => {
    mark.scrollIntoView({ block: "center", behavior: "instant" });
    const box = mark.getBoundingClientRect();
    const at = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 };
    mark.dispatchEvent(new PointerEvent("pointermove", { ...at, bubbles: true, pointerType: "mouse" }));
    return text();
  };
  const holding = (part) => pictures.find((svg) => svg.querySelector(part));
  const curve = holding(".l");
  say("hover-curve", hover(curve.querySelector(".col .m")));
  say("hover-cell", hover(holding(".cell").querySelector(".cell rect")));
  say("hover-bar", hover(holding(".bar").querySelector(".bar")));
  curve.focus();
  const press = (key) => curve.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
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

fn page_in(dir: &Path) -> String {
    report::write(&sample_report(), dir).unwrap();
    fs::read_to_string(dir.join("report.html")).unwrap()
}
