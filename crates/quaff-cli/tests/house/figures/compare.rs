//! The comparison of what a page says that a command prints with what it prints. Counts are compared to the unit. What
//! depends on the machine or on the clock is masked on both sides: rates and times of a run, points in time, the
//! writing to a disk. `…` in a page stands for any text, and in a line of its own for any lines.

/// Beginnings of lines all of whose figures are measured.
const MEASURED: [&str; 12] = [
    "read ",
    "time ",
    "pace ",
    "late ",
    "burst ",
    "peak use:",
    "the ring was full",
    "busiest ",
    "timing ",
    "written by ",
    "capturing",
    "in ",
];
/// Lines that are printed only where a figure is not 0, and one of tcpdump.
const OPTIONAL: [&str; 4] = ["burst ", "starved ", "memory was not ready ", "reading from file "];
/// Lines that are indented further continue the line before, which a page wraps.
const CONTINUED: usize = 12;
const TIMES: [&str; 4] = ["s", "ms", "µs", "ns"];
const RATES: [&str; 10] = ["b/s", "kb/s", "Mb/s", "Gb/s", "pps", "kpps", "Mpps", "KiB/s", "MiB/s", "GiB/s"];
/// Of reading and writing, wherever they are printed.
const SPEEDS: [&str; 3] = ["KiB/s", "MiB/s", "GiB/s"];
const SIZES: [&str; 6] = ["B", "KiB", "MiB", "GiB", "files", "removed"];
/// Words of a parenthesis that says how a file is written.
const WRITING: [&str; 3] = ["O_DIRECT", "io_uring", "(write"];

/// The input of an example: files, or packets that arrive while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    Files,
    Live,
}

/// Compares; an error has both sides.
pub(crate) fn compare(page: &[String], printed: &str, input: Input) -> Result<(), String> {
    let lines: Vec<String> = printed.lines().map(str::to_owned).collect();
    let [of_page, of_run] = [page, &lines[..]].map(|lines| prepared(lines, input));
    if are_alike(&of_page, &of_run) {
        return Ok(());
    }
    let different = of_page.iter().find(|line| !of_run.iter().any(|other| is_alike(line, other)));
    Err(format!("the page has\n{}\nand not\n{printed}\nfirst different: {different:?}", page.join("\n")))
}

fn prepared(lines: &[String], input: Input) -> Vec<String> {
    // JSON is one line, which pages wrap.
    if lines.first().is_some_and(|line| line.starts_with('{')) {
        return vec![lines.concat()];
    }
    let mut joined: Vec<String> = Vec::new();
    for line in lines {
        let is_continued = line.starts_with(&" ".repeat(CONTINUED));
        match joined.last_mut().filter(|_| is_continued) {
            Some(last) => *last += line,
            None => joined.push(line.clone()),
        }
    }
    let masked = joined.iter().map(|line| masked(line, input));
    masked.filter(|line| !line.is_empty() && !OPTIONAL.iter().any(|start| line.starts_with(start))).collect()
}

fn are_alike(page: &[String], run: &[String]) -> bool {
    match page.split_first() {
        None => run.is_empty(),
        Some((line, rest)) if line == "…" => (0..=run.len()).any(|from| are_alike(rest, &run[from..])),
        Some((line, rest)) => {
            run.split_first().is_some_and(|(first, others)| is_alike(line, first) && are_alike(rest, others))
        }
    }
}

/// Compares a line, in which `…` stands for any text.
fn is_alike(page: &str, run: &str) -> bool {
    match page.split_once('…') {
        None => page == run,
        Some((start, rest)) => run.strip_prefix(start).is_some_and(|left| {
            left.char_indices().map(|(at, _)| at).chain([left.len()]).any(|at| is_alike(rest, &left[at..]))
        }),
    }
}

/// The line with one space between words, rules of one character, and `#` for each figure that is measured.
pub(crate) fn masked(line: &str, input: Input) -> String {
    let line = without_retries(&without_writing(line));
    let words: Vec<&str> = line.split_whitespace().collect();
    let text = words.join(" ");
    let is_measured = MEASURED.iter().any(|start| text.starts_with(start))
        // It counts the packets of other senders too.
        || text.starts_with("confirmed ") && text.contains("softnet");
    let mut masked = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let unit = words.get(at + 1).map_or("", |word| word.trim_end_matches([',', ';', ')', ':']));
        let before = at.checked_sub(1).map_or("", |at| words[at]);
        let is_masked = is_figure(word)
            && (is_measured
                || before == "in" && unit == "s"
                || before == "peak"
                || before == "gzip,"
                || SPEEDS.contains(&unit)
                || input == Input::Live && [&TIMES[..], &RATES, &SIZES].concat().contains(&unit));
        match is_masked {
            true => {
                masked.push("#".to_owned());
                at += usize::from([&TIMES[..], &RATES, &SIZES, &["%"]].concat().contains(&unit));
            }
            false => masked.push(timeless(word)),
        }
        at += 1;
    }
    let masked = masked.join(" ");
    // A member in a window that the clock chose; rates that a short time does not give; "once" and "2 times".
    let ends = [
        ("busiest ", " one member,"),
        ("read ", " in "),
        ("confirmed ", "softnet"),
        ("the ring was", " full"),
    ];
    let end = ends.iter().find(|(start, _)| masked.starts_with(start)).and_then(|(_, end)| masked.find(end));
    end.map_or(masked.clone(), |end| masked[..end].to_owned())
}

/// The line without the way in which a file is written, which depends on its file system.
fn without_writing(line: &str) -> String {
    match line.split_once(" (").and_then(|(start, rest)| Some((start, rest.split_once(')')?))) {
        Some((start, (inside, rest))) if WRITING.iter().any(|word| format!("({inside}").contains(word)) => {
            format!("{start}{rest}")
        }
        _ => line.to_owned(),
    }
}

/// The line without frames that were sent again because the other end had no room for them.
fn without_retries(line: &str) -> String {
    const RETRIES: &str = " retries because the queue was full";
    let found = line.split_once(RETRIES).and_then(|(start, rest)| Some((start.rsplit_once(", ")?.0, rest)));
    found.map_or(line.to_owned(), |(start, rest)| format!("{start}{rest}"))
}

fn is_figure(word: &str) -> bool {
    let word = word.trim_start_matches(['(', '+', '-']).trim_end_matches([',', ';', ')', ':']);
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || ",.".contains(c))
}

/// The word with `d` for the digits of a point in time, and a rule as one character.
fn timeless(word: &str) -> String {
    if let Some(first) = word.chars().next().filter(|c| "═─".contains(*c))
        && word.chars().all(|c| c == first)
    {
        return first.to_string();
    }
    let digits: String = word.chars().map(|c| if c.is_ascii_digit() { 'd' } else { c }).collect();
    let is_time = ["dddd-dd-ddTdd:dd:dd", "ddddddddTdddddd", "-dddddd-dddddd."]
        .iter()
        .any(|form| digits.contains(form));
    if is_time { digits } else { word.to_owned() }
}

#[test]
fn each_count_is_compared_and_no_measured_time() {
    let alike = |page: &str, run: &str| {
        compare(&page.lines().map(str::to_owned).collect::<Vec<_>>(), run, Input::Files).is_ok()
    };
    let page = "1,000 packets in 544 KiB written in 0.0 s, none lost\n  2 files, at most 2 open at once; sorted by time";
    assert!(alike(page, page) && alike(page, &page.replace("0.0 s", "1.5 s")));
    for (figure, other) in [("1,000", "1,001"), ("544", "545"), ("2 files", "3 files"), ("2 open", "1 open")]
    {
        assert!(!alike(page, &page.replacen(figure, other, 1)), "{figure}");
    }
    assert!(!alike(page, page.lines().next().unwrap()) && !alike(page, &format!("{page}\nmore")));
    // Lines and texts that the page leaves out.
    assert!(alike("a\n…\nz 3", "a\nb 1\nc\nz 3") && !alike("a\n…\nz 3", "a\nb 1\nz 4"));
    assert!(alike("{\"a\":1,…\n\"c\":3}", "{\"a\":1,\"b\":2,\"c\":3}"));
    assert!(!alike("{\"a\":1,…\n\"c\":3}", "{\"a\":2,\"b\":2,\"c\":3}"));
    // Times of a run and of a machine.
    assert_eq!(masked("  read   106 MiB in 3.96 s: 26.8 MiB/s, 50.4 kpps", Input::Files), "read #");
    assert_eq!(masked("rx0 → all.pcapng (io_uring, O_DIRECT)", Input::Live), "rx0 → all.pcapng");
    assert_eq!(masked("first  2026-11-23T05:34:03.1Z", Input::Files), "first dddd-dd-ddTdd:dd:dd.dZ");
    assert_eq!(
        masked("backend sendmmsg, 5 retries because the queue was full (x)", Input::Live),
        "backend sendmmsg (x)"
    );
    let live = "200,000 packets in 106 MiB written in 3.0 s, none lost";
    assert_eq!(masked(live, Input::Live), "200,000 packets in # written in # none lost");
}
