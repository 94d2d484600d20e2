//! The figures in the README and in `docs/`: each example with printed output is run as it stands on its page, and what
//! it prints is compared with the page. A block that can be neither run nor compared is in a list, with the reason.

mod compare;
mod page;
mod run;

use crate::support::QUAFF;
use page::Block;
use std::process::Command;

/// Pages whose examples are run; a page has a test below.
const RUN: [&str; 12] = [
    "README.md",
    "docs/capture.md",
    "docs/flows.md",
    "docs/generate.md",
    "docs/info.md",
    "docs/merge.md",
    "docs/pipe.md",
    "docs/replay.md",
    "docs/split.md",
    "docs/streams.md",
    "docs/tap.md",
    "docs/verify.md",
];

const CODE: &str = "is text that a user writes, and no output";
const DRAWING: &str = "is a drawing or a path";

/// Blocks with digits that no command prints here: the page, the beginning of the first line, and the reason.
const OTHERS: [(&str, &str, &str); 22] = [
    (
        "README.md",
        "                    buffer ",
        "is measured on the machine that the page names; `demo` compares its labels",
    ),
    ("docs/bench.md", "name = ", CODE),
    (
        "docs/doctor.md",
        "warning: the receive ring of eth0 holds",
        "needs such a card; `doctor/rules/tests.rs` has it",
    ),
    ("docs/flow-export.md", "%IPV4_SRC_ADDR ", CODE),
    ("docs/flows.md", "DIR/dt=", DRAWING),
    ("docs/flows.md", "SELECT ", CODE),
    (
        "docs/interfaces.md",
        "$ quaff interfaces",
        "has the interfaces of one machine; its heading is compared below",
    ),
    ("docs/interfaces.md", "$ quaff interfaces --json", "has the interfaces of one machine"),
    ("docs/nprobe.md", "03/Jan/2014", "is what another program printed"),
    (
        "docs/output.md",
        "  3 columns left out:",
        "is a line of a terminal; the tests of `terminal_table.rs` have it",
    ),
    ("docs/rivals.md", "name = ", CODE),
    ("docs/scripts.md", "-- ports.lua", CODE),
    ("docs/scripts.md", "-- sniff.lua", CODE),
    ("docs/scripts.md", "-- ping-of-death.lua", CODE),
    ("docs/streams.md", "out/000012-", DRAWING),
    (
        "docs/streams.md",
        "client 10.0.0.1:4711 → server",
        "shows made lines; those of captures are compared with tshark's by `streams_tls`",
    ),
    ("docs/streams.md", "cut -f 2 out/objects.tsv", "reads the table of such a folder"),
    ("docs/streams.md", "streams/010.000.000.001.", DRAWING),
    ("docs/streams.md", "streams/010.000.000.002.", DRAWING),
    ("docs/tap.md", "   switch ─── eth0 ══ kernel", DRAWING),
    ("docs/tap.md", "   switch ─── eth0 ══ XDP", DRAWING),
    (
        "docs/verify.md",
        "$ sudo quaff verify -i eth0",
        "needs a network with losses; the page names the machine",
    ),
];

/// The place of a block in the list: that of the longest beginning.
fn other(page: &str, block: &Block) -> Option<usize> {
    let places = OTHERS.iter().enumerate();
    let of_block = places.filter(|(_, (of, start, _))| *of == page && block.lines[0].starts_with(start));
    of_block.max_by_key(|(_, (_, start, _))| start.len()).map(|(at, _)| at)
}

#[test]
fn each_block_with_figures_is_run_or_in_the_list() {
    let (mut faults, mut used) = (Vec::new(), vec![false; OTHERS.len()]);
    for name in page::pages() {
        for block in page::blocks(&page::text(&name)) {
            if let Some(at) = other(&name, &block) {
                used[at] = true;
            } else if block.is_example() {
                let is_run = RUN.contains(&name.as_str());
                faults.extend((!is_run).then(|| format!("{name}, line {}: no test runs it", block.line)));
            } else if !block.is_typed() && block.has_figures() {
                faults.push(format!("{name}, line {}: no command prints it: {}", block.line, block.lines[0]));
            }
        }
    }
    let unused = OTHERS.iter().zip(used).filter(|(_, used)| !used);
    faults.extend(unused.map(|((page, start, _), _)| format!("{page} has no block {start}")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The columns on the page are those of the list.
#[test]
fn the_list_of_interfaces_has_the_columns_of_its_page() {
    let page = page::text("docs/interfaces.md");
    let blocks = page::blocks(&page);
    let [step, ..] = &blocks[0].steps()[..] else { panic!("no example") };
    let done = Command::new(QUAFF).arg("interfaces").output().expect("quaff runs");
    let printed = String::from_utf8_lossy(&done.stdout);
    let heading = |line: &str| compare::masked(line, compare::Input::Files);
    assert_eq!(printed.lines().next().map(heading), step.printed.first().map(|line| heading(line)));
}

/// A test for each page, so that pages run beside each other.
macro_rules! pages {
    ($($name:ident: $page:literal,)*) => {
        $(#[test]
        fn $name() {
            assert!(RUN.contains(&$page));
            run::run_page($page, |block| other($page, block).is_some());
        })*

        #[test]
        fn each_page_has_a_test() {
            assert_eq!(RUN.len(), [$($page),*].len());
        }
    };
}

pages! {
    readme: "README.md",
    capture: "docs/capture.md",
    flows: "docs/flows.md",
    generate: "docs/generate.md",
    info: "docs/info.md",
    merge: "docs/merge.md",
    pipe: "docs/pipe.md",
    replay: "docs/replay.md",
    split: "docs/split.md",
    streams: "docs/streams.md",
    tap: "docs/tap.md",
    verify: "docs/verify.md",
}
