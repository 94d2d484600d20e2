//! The commands of a page, run as a user types them: in one folder, in their order, those with interfaces of a lab in
//! its namespaces.

use super::compare::{Input, compare};
use super::page::{Block, Step, blocks, text};
use crate::support::{PATIENCE, QUAFF, bpf_lab, folder, line, tool};
use quaff_lab::{Lab, LabPlan, Layout};
use quaff_os::Netns;
use quaff_testkit as testing;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Programs beside quaff that examples may use; without one of them, the examples with it are skipped.
const TOOLS: [&str; 3] = ["jq", "tcpdump", "sha256sum"];

/// Captures of the folder of captures, with the names that pages give them.
const CAPTURES: [(&str, &str); 3] = [
    ("protocols/netflix.pcap", "netflix.pcap"),
    ("protocols/instagram.pcap", "instagram.pcap"),
    ("protocols/anyconnect-vpn.pcap", "vpn.pcap"),
];

struct Place {
    test: String,
    dir: TempDir,
    /// Of a lab whose ends are joined, and of one with two ports between them.
    labs: [Option<Lab>; 2],
}

/// Runs all examples of a page but `others`, and compares. Returns without one if it has to skip.
pub(crate) fn run_page(page: &str, is_other: impl Fn(&Block) -> bool) {
    let text = text(page);
    let mut place = Place { test: format!("figures of {page}"), dir: folder(), labs: [None, None] };
    std::fs::create_dir(place.dir.path().join("bin")).expect("a folder");
    symlink(QUAFF, place.dir.path().join("bin/quaff")).expect("a link");
    std::fs::create_dir(place.dir.path().join("work")).expect("a folder");
    let mut faults = Vec::new();
    for block in blocks(&text).iter().filter(|block| block.is_example() && !is_other(block)) {
        if !place.is_ready(block) {
            continue;
        }
        for step in block.steps() {
            let (printed, input) = place.run(&step, block);
            if let Err(fault) = compare(&step.printed, &printed, input) {
                faults.push(format!("{page}, line {}: $ {}\n{fault}", block.line, step.command));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

fn uses(command: &str, words: &[&str]) -> bool {
    let is_word = |c: char| !c.is_alphanumeric() && c != '.';
    command.split(is_word).any(|word| words.contains(&word))
}

impl Place {
    /// Has the lab, the programs and the captures that a block needs; `false` after a skip.
    fn is_ready(&mut self, block: &Block) -> bool {
        let (ends, ports) = (&["rx0", "tx0"], &["a0", "b0"]);
        for step in block.steps() {
            let command = &step.command;
            if TOOLS.iter().any(|name| uses(command, &[name]) && tool(&self.test, name).is_none()) {
                return false;
            }
            let plans = [(uses(command, ends), Layout::Pair), (uses(command, ports), Layout::Apart)];
            for (at, (is_used, layout)) in plans.into_iter().enumerate() {
                if is_used && self.labs[at].is_none() {
                    let plan = LabPlan { layout, ..LabPlan::default() };
                    self.labs[at] = bpf_lab(&self.test, &plan);
                    if self.labs[at].is_none() {
                        return false;
                    }
                }
            }
            let is_there =
                |(path, name): &(&str, &str)| !uses(command, &[name]) || self.has_capture(path, name);
            if !CAPTURES.iter().all(is_there) {
                return false;
            }
        }
        true
    }

    /// A capture of the folder of captures, under the name that the page gives it; `false` after a skip: made captures
    /// have none of the real ones.
    fn has_capture(&self, path: &str, name: &str) -> bool {
        let to = self.dir.path().join("work").join(name);
        to.exists() || testing::capture(&self.test, path).is_some_and(|from| symlink(from, &to).is_ok())
    }

    /// The namespace of the interfaces in a command.
    fn netns(&self, command: &str) -> Option<&Netns> {
        let [joined, apart] = [&self.labs[0], &self.labs[1]];
        match command {
            _ if uses(command, &[line::A, line::B]) => apart.as_ref().and_then(|lab| lab.mid.as_ref()),
            _ if uses(command, &["rx0"]) => joined.as_ref().map(|lab| &lab.rx),
            _ if uses(command, &["tx0"]) => apart.as_ref().or(joined.as_ref()).map(|lab| &lab.tx),
            _ => None,
        }
    }

    fn shell(&self, command: &str) -> Command {
        let netns = self.netns(command);
        let mut shell =
            netns.map_or_else(|| Ok(Command::new("sh")), |netns| netns.command("sh")).expect("a command");
        let path = std::env::var("PATH").unwrap_or_default();
        shell.args(["-c", &format!("exec 2>&1\n{command}")]).current_dir(self.dir.path().join("work"));
        shell.env("PATH", format!("{}:{path}", self.dir.path().join("bin").display()));
        shell.env("TZ", "UTC").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        shell
    }

    /// Runs a command, and what sends to it once it captures; returns what it prints.
    fn run(&self, step: &Step, block: &Block) -> (String, Input) {
        let is_live = self.netns(&step.command).is_some();
        let input = if is_live { Input::Live } else { Input::Files };
        let captures = is_live && (step.command.contains(" -i ") || step.command.starts_with("quaff tap"));
        let mut running = Printing::start(&mut self.shell(&step.command), &self.dir.path().join("printed"));
        if captures
            && !step.command.contains("--dry-run")
            && let Some(sender) = block.sender()
        {
            running.wait_for("capturing\n");
            let sent = self.shell(&sender).output().expect("a shell");
            assert!(sent.status.success(), "{sender}: {}", String::from_utf8_lossy(&sent.stdout));
        }
        (running.finish(), input)
    }
}

/// A command that prints into a file.
struct Printing {
    child: Child,
    path: PathBuf,
}

impl Printing {
    fn start(command: &mut Command, path: &Path) -> Self {
        let file = File::create(path).expect("a file");
        let child = command.stdout(file).spawn().expect("a shell");
        Self { child, path: path.to_owned() }
    }

    fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.path).expect("a file")).into_owned()
    }

    /// Waits for words, or for the end.
    fn wait_for(&mut self, words: &str) {
        let begun = Instant::now();
        while !self.printed().contains(words) && self.child.try_wait().expect("it is ours").is_none() {
            assert!(begun.elapsed() < PATIENCE, "{words}: {}", self.printed());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn finish(mut self) -> String {
        self.child.wait().expect("it is ours");
        self.printed()
    }
}
