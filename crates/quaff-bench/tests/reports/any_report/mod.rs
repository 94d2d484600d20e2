//! The checks that the reports of a bench and of a service test share.

mod browser;

use browser::{browser, dump, look, name};
use quaff_bench::report::{Reported, read, write};
use serde_json::Value;
use std::fmt::Debug;
use std::fs;
use std::path::Path;

pub(crate) use browser::Seen;

/// The beginning of each script that runs inside of a page, and tells the frame around it what it found.
const PROBE_BEGIN: &str = r##"
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
  const box = (part) => part.getBoundingClientRect();
  const all = (parts) => [...document.querySelectorAll(parts)];
  const first = all("h1, .folds th, .folds td").filter((part) => box(part).height > 0);
  say("first-figures", first.length);
  say("first-beyond-the-edge-px", Math.max(...first.map((part) => box(part).right)) - innerWidth);
  const names = pictures.flatMap((svg) => [...svg.querySelectorAll(".name")]);
  say("names-cut", names.filter((name) => name.textContent.endsWith("…")).length);
  const crosses = (name) => {
    const { left, right, top, bottom } = box(name);
    const lines = [...name.closest("svg").querySelectorAll(".base, .grid")].map(box);
    return lines.some((line) => line.left < right && line.right > left && line.top < bottom - 2 && line.bottom > top + 2);
  };
  say("names-on-an-axis", names.filter(crosses).length);
  const widths = all("main > section > .table, main > section > .pics, figure.full").map((part) => box(part).width);
  say("widths-apart-px", Math.max(...widths) - Math.min(...widths));
  const hidden = ({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1;
  const shown = (part) => getComputedStyle(part).visibility === "visible";
  const tables = all("main > section > .table").map((table) =>
    [table.querySelector(".scroll"), table.querySelector(".hint span:last-child")]);
  const wide = tables.filter(([scroll]) => hidden(scroll));
  say("wide-tables", wide.length);
  say("wrong-hints", tables.filter(([scroll, hint]) => hidden(scroll) !== shown(hint)).length);
  wide.forEach(([scroll]) => { scroll.scrollLeft = scroll.scrollWidth; });
  const hoverAt = (element, x, y) => {
    const at = { clientX: x, clientY: y };
    element.dispatchEvent(new PointerEvent("pointermove", { ...at, bubbles: true, pointerType: "mouse" }));
    return text();
  };
  const hover = (mark) => {
    mark.scrollIntoView({ block: "center", behavior: "instant" });
    const { x, y, width, height } = box(mark);
    return hoverAt(mark, x + width / 2, y + height / 2);
  };
  const holding = (part) => pictures.find((svg) => svg.querySelector(part));
"##;

/// The end of each: the keys in `focused`, which the middle names, and both themes.
const PROBE_END: &str = r##"
  focused.focus();
  const press = (key) => focused.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
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
  setTimeout(() => {
    say("hints-at-the-end", wide.filter(([, hint]) => shown(hint)).length);
    say("done", 1);
  }, 200);
}, 200));
"##;

/// Writes a folder, with more than that number of files, and reads the result from it.
pub(crate) fn has_all_of_it<R: Reported + Debug + PartialEq>(report: &R, more_than: usize) {
    let dir = tempfile::tempdir().unwrap();
    let out = std::env::var("QUAFF_SAMPLE_OUT").map_or(dir.path().join("out"), Into::into);
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("figure-99-of-an-earlier-report.svg"), "").unwrap();
    let files = write(report, &out).unwrap();
    let names: Vec<String> = files.iter().map(|file| name(file)).collect();
    assert_eq!(names[..3], ["result.json", "report.md", "report.html"]);
    assert!(names.len() > more_than, "{names:?}");
    let mut there: Vec<String> =
        fs::read_dir(&out).unwrap().map(|entry| name(&entry.unwrap().path())).collect();
    there.retain(|name| names.contains(name) || name.starts_with("figure-"));
    assert_eq!(there.len(), names.len(), "{there:?}");
    assert_eq!(&read::<R>(&out).unwrap(), report);
    let paper = fs::read_to_string(out.join("report.md")).unwrap();
    for picture in names.iter().filter(|name| name.ends_with(".svg")) {
        assert!(paper.contains(&format!("]({picture})")), "{picture} is not in report.md");
    }
}

/// Writes a report, and the one that is read from it: their files are the same.
pub(crate) fn gives_the_same_bytes<R: Reported>(report: &R) {
    let [one, other] = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let files = write(report, one.path()).unwrap();
    write(&read::<R>(one.path()).unwrap(), other.path()).unwrap();
    for file in files {
        let again = fs::read(other.path().join(name(&file))).unwrap();
        assert!(fs::read(&file).unwrap() == again, "{} differs", file.display());
    }
}

/// Files that are no result, or a later one, are refused with their names; wrong fields with their lines. `wrong` is
/// the JSON pointer of a number in the body.
pub(crate) fn refuses_what_is_no_result<R: Reported + Debug>(report: &R, wrong: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("result.json");
    let refused = |path: &Path| read::<R>(path).unwrap_err().to_string();
    assert!(refused(dir.path()).contains("result.json"));
    fs::write(&file, "{\"format\":").unwrap();
    assert!(refused(&file).contains(&format!("not a result of a {}", R::KIND)));
    let mut later = serde_json::to_value(report).unwrap();
    later["format"] = 99.into();
    fs::write(&file, serde_json::to_vec(&later).unwrap()).unwrap();
    assert!(refused(&file).contains("format 99"));
    for place in [wrong, "/seconds", "/plan/runs"] {
        let mut value = serde_json::to_value(report).unwrap();
        *value.pointer_mut(place).unwrap() = "many".into();
        let text = serde_json::to_string_pretty(&value).unwrap();
        fs::write(&file, &text).unwrap();
        let line = text.lines().position(|line| line.contains("\"many\"")).unwrap() + 1;
        let message = refused(&file);
        assert!(message.contains(&format!("line {line} ")), "{place} is in line {line}: {message}");
    }
    let mut value = serde_json::to_value(report).unwrap();
    value.as_object_mut().unwrap().remove("machine");
    fs::write(&file, serde_json::to_vec(&value).unwrap()).unwrap();
    assert!(refused(&file).contains("`machine`"));
}

/// Text of others, as wicked as it can be.
pub(crate) const EVIL: &str = "x</title></style><script>alert(1)</script><img src=x onerror='alert(2)'>\u{1b}]52;c;eA==\u{7}![y](http://z)";

/// Replaces all texts by [`EVIL`], but for fields of these names, whose texts need to be of a certain kind.
pub(crate) fn spoil(value: &mut Value, kinds: &[&str]) {
    match value {
        Value::String(words) => *words = EVIL.into(),
        Value::Array(all) => all.iter_mut().for_each(|value| spoil(value, kinds)),
        Value::Object(all) => {
            all.iter_mut()
                .filter(|(name, _)| !kinds.contains(&name.as_str()))
                .for_each(|(_, value)| spoil(value, kinds));
        }
        _ => {}
    }
}

/// The files of a report of [`EVIL`] texts have neither its markup nor its control characters.
pub(crate) fn has_text_for_evil<R: Reported>(evil: &R) {
    let dir = tempfile::tempdir().unwrap();
    for file in &write(evil, dir.path()).unwrap()[1..] {
        let text = fs::read_to_string(file).unwrap();
        let markdown = file.extension().is_some_and(|extension| extension == "md");
        for (place, _) in text.match_indices("<script>").chain(text.match_indices("<img")) {
            let is_escaped = markdown && text[..place].ends_with('\\');
            let is_code = markdown && text[..place].rsplit("\n## ").next().unwrap().contains("```");
            assert!(is_escaped || is_code, "{}: {}", file.display(), &text[place..place + 40]);
        }
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{}", file.display());
    }
    let again = serde_json::to_value(read::<R>(dir.path()).unwrap()).unwrap();
    let note = again["notes"][0].as_str().unwrap();
    assert!(note.contains("script") && !note.contains('\u{1b}'), "{note}");
}

/// The page of a report of [`EVIL`] texts runs nothing of them.
pub(crate) fn runs_no_evil<R: Reported>(test: &str, evil: &R) {
    let Some(browser) = browser(test) else { return };
    let dir = tempfile::tempdir().unwrap();
    write(evil, dir.path()).unwrap();
    let (dom, log) = dump(&browser, &dir.path().join("report.html"), dir.path());
    assert!(!log.contains("CONSOLE"), "{log}");
    // One script, one style, and no picture but ours.
    for (part, most) in [("<script", 1), ("<style", 1), ("<img", 0)] {
        assert_eq!(dom.matches(part).count(), most, "{part}");
    }
}

/// The page asks nothing of a network, and each fragment that it links to is on it once.
pub(crate) fn is_one_page<R: Reported>(report: &R) {
    let dir = tempfile::tempdir().unwrap();
    write(report, dir.path()).unwrap();
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

/// The text of the first screen of a page: the title, the figures that matter first, the findings, the links. A row, a
/// paragraph or an item is a line.
pub(crate) fn first_screen<R: Reported>(report: &R) -> String {
    let dir = tempfile::tempdir().unwrap();
    write(report, dir.path()).unwrap();
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    let body = page.split("<body>").nth(1).unwrap().split("</section>").next().unwrap();
    let mut out = String::new();
    for part in body.split('<') {
        let (tag, text) = part.split_once('>').unwrap_or(("", part));
        match tag.split(' ').next().unwrap_or_default() {
            "p" | "h1" | "tr" | "li" | "nav" => out.push('\n'),
            "/th" | "/td" | "/a" => out += " | ",
            _ => {}
        }
        out += text.trim_matches('\n');
    }
    out.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A browser draws more than that number of figures, on narrow screens and on wide ones, cuts nothing of the first
/// figures off, and shows where a table continues. `probe` is the middle of the script, and `check` receives what it
/// found.
pub(crate) fn is_drawn<R: Reported>(
    test: &str,
    report: &R,
    more_than: f64,
    probe: &str,
    check: impl Fn(&Seen),
) {
    let Some(browser) = browser(test) else { return };
    let probe = [PROBE_BEGIN, probe, PROBE_END].concat();
    for width in [360, 400, 1400, 1600] {
        let dir = tempfile::tempdir().unwrap();
        write(report, dir.path()).unwrap();
        let seen = look(&browser, dir.path(), width, &probe);
        assert!(!seen.log.contains("CONSOLE"), "at {width} px: {}", seen.log);
        assert_eq!(seen.number("pictures"), seen.number("figures"), "{seen:?}");
        assert!(seen.number("figures") > more_than, "{seen:?}");
        assert_eq!(seen.number("marks-without-size"), 0.0, "{seen:?}");
        assert!(seen.number("smallest-text-px") >= 9.5, "{seen:?}");
        assert!(seen.number("beyond-the-edge-px") <= 0.0, "{seen:?}");
        assert!(
            seen.number("first-figures") > 10.0 && seen.number("first-beyond-the-edge-px") <= 0.0,
            "{seen:?}"
        );
        assert_eq!(
            (seen.number("names-cut"), seen.number("names-on-an-axis")),
            (0.0, 0.0),
            "at {width}: {seen:?}"
        );
        assert!(seen.number("widths-apart-px") < 1.0, "at {width}: {seen:?}");
        assert_eq!((seen.number("wrong-hints"), seen.number("hints-at-the-end")), (0.0, 0.0), "{seen:?}");
        assert!(width > 400 || seen.number("wide-tables") > 3.0, "{seen:?}");
        assert!(seen.line("after-escape").contains("hidden"), "{seen:?}");
        assert_ne!(seen.line("light"), seen.line("dark"), "{seen:?}");
        assert_eq!(seen.number("svg-files"), seen.number("figures"), "{seen:?}");
        check(&seen);
    }
}
