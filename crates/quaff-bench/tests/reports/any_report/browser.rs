//! A page in a browser: what its own script finds there, and what the browser has to say of it.

use quaff_testkit::skip;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The output of a browser for a page.
#[derive(Debug)]
pub(crate) struct Seen {
    lines: Vec<String>,
    pub(super) log: String,
}

impl Seen {
    pub(crate) fn line(&self, name: &str) -> &str {
        let begin = format!("{name}: ");
        let line = self.lines.iter().find_map(|line| line.strip_prefix(&begin));
        line.unwrap_or_else(|| panic!("the page did not say {name}: {self:?}"))
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        self.line(name).parse().unwrap()
    }
}

/// Opens `report.html` of `dir` in a frame of `width`, with `probe` in it; and each picture's file.
pub(super) fn look(browser: &Path, dir: &Path, width: u32, probe: &str) -> Seen {
    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    let nonce = page.split("nonce-").nth(1).unwrap().split('\'').next().unwrap();
    let probe = format!("<script nonce=\"{nonce}\">{probe}</script></body>");
    fs::write(dir.join("probed.html"), page.replace("</body>", &probe)).unwrap();
    let images: String = pictures(dir).iter().map(|name| format!("<img src=\"{name}\">")).collect();
    let around = format!(
        "<!doctype html><ul id=said></ul><iframe src=probed.html style=\"border:0;width:{width}px;height:900px\">\
         </iframe><div>{images}</div><script>\
         const say = (words) => {{ const li = document.createElement('li'); li.textContent = words;\
           document.getElementById('said').append(li); }};\
         addEventListener('message', (event) => say(event.data));\
         addEventListener('load', () => say('svg-files: ' +\
           [...document.images].filter((image) => image.naturalWidth > 300).length));\
         </script>"
    );
    let frame = dir.join("around.html");
    fs::write(&frame, around).unwrap();
    let (dom, log) = dump(browser, &frame, dir);
    let said = |line: &str| line.split("</li>").next().map(String::from);
    Seen { lines: dom.split("<li>").skip(1).filter_map(said).collect(), log }
}

/// The page after its scripts have run, and what the browser logged.
pub(super) fn dump(browser: &Path, page: &Path, dir: &Path) -> (String, String) {
    let (dom, log) = (dir.join("dom"), dir.join("log"));
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"])
        .args(["--window-size=1700,1000", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(fs::File::create(&dom).unwrap())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{} did not end in 120 s: {}", browser.display(), fs::read_to_string(&log).unwrap());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    (read(&dom), read(&log))
}

/// A browser, or `None` after a skip.
pub(super) fn browser(test: &str) -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let paths: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let all = names.iter().flat_map(|name| paths.iter().map(move |path| path.join(name)));
    let found = all.into_iter().find(|path| path.is_file());
    if found.is_none() {
        skip(test, "there is no chromium here");
    }
    found
}

fn pictures(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| name(&entry.unwrap().path()));
    names.filter(|name| name.ends_with(".svg")).collect()
}

/// The last part of a path.
pub(super) fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}
