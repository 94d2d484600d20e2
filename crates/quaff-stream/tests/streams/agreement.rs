//! Begin, reset and end of a connection by what both ends acknowledge: one packet alone changes nothing.

use crate::observer::Random;
use crate::tracker::{ACK, FIN, RST, Run, SECOND, SYN, Seen};
use quaff_stream::tracker::TrackPlan;
use quaff_stream::{EndReason, GapCause};

fn run() -> Run {
    Run::new(TrackPlan::default())
}

/// The texts of the only connection, which lacks nothing.
#[track_caller]
fn texts(run: Run) -> [String; 2] {
    let all = run.finish();
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].causes, [], "{all:?}");
    all.into_iter().next().map(|seen| seen.text).unwrap_or_default()
}

fn both(client: &str, server: &str) -> [String; 2] {
    [client.to_owned(), server.to_owned()]
}

/// A host that remembers an older connection answers a SYN with an acknowledgment of that one, and is reset for it (RFC
/// 9293, 3.10.7.3).
#[test]
fn a_challenge_before_the_answer_changes_nothing() {
    for stray in [1_116_180_385, 200, 9_000_000] {
        let mut run = run();
        run.client(SYN, 100, 0, "");
        run.server(ACK, 777, stray, "");
        run.client(RST, stray, 0, "");
        run.client(SYN, 100, 0, "");
        run.server(SYN | ACK, 900, 101, "");
        run.client(ACK, 101, 901, "GET");
        run.server(ACK, 901, 104, "200");
        run.client(FIN | ACK, 104, 904, "");
        run.server(FIN | ACK, 904, 105, "");
        run.client(ACK, 105, 905, "");
        assert_eq!(texts(run), both("GET", "200"), "{stray}");
    }
}

#[test]
fn of_several_answers_the_one_that_the_client_acknowledges_counts() {
    let numbers = [900u32, 16_500_000, 1_000_000_900, 5_000];
    for taken in numbers {
        for others in [&numbers[..2], &numbers[1..3], &numbers[..1], &numbers[2..]] {
            for is_last in [false, true] {
                let mut run = run();
                run.client(SYN, 100, 0, "");
                let strays = others.iter().filter(|other| **other != taken).take(1);
                let answers: Vec<u32> = match is_last {
                    true => strays.copied().chain([taken]).collect(),
                    false => [taken].into_iter().chain(strays.copied()).collect(),
                };
                answers.iter().for_each(|number| run.server(SYN | ACK, *number, 101, ""));
                run.client(ACK, 101, taken + 1, "");
                run.client(ACK, 101, taken + 1, "GET");
                run.server(ACK, taken + 1, 104, "200 OK");
                run.client(ACK, 104, taken + 7, "");
                // One more, too late.
                run.server(SYN | ACK, 33_000, 101, "");
                run.server(ACK, taken + 7, 104, "!");
                assert_eq!(texts(run), both("GET", "200 OK!"), "{answers:?} {taken}");
            }
        }
    }
}

#[test]
fn of_several_syns_the_one_that_is_answered_counts() {
    for (first, second, answered) in
        [(100, 9_000_000, 100), (100, 9_000_000, 9_000_000), (70_000, 100, 70_000)]
    {
        let mut run = run();
        run.client(SYN, first, 0, "");
        run.client(SYN, second, 0, "");
        run.server(SYN | ACK, 900, answered + 1, "");
        run.client(ACK, answered + 1, 901, "GET");
        run.server(ACK, 901, answered + 4, "200");
        assert_eq!(texts(run), both("GET", "200"), "{answered}");
    }
}

#[test]
fn an_answer_to_what_was_not_sent_is_none() {
    let mut run = run();
    run.client(SYN, 100, 0, "");
    run.server(SYN | ACK, 5000, 70_000_000, "");
    run.server(SYN | ACK, 900, 101, "");
    run.client(ACK, 101, 901, "GET");
    run.server(ACK, 901, 104, "200");
    assert_eq!(texts(run), both("GET", "200"));
}

/// The first segment captured is not the first one that the receiver lacks.
#[test]
fn the_other_end_names_a_lower_start_than_the_first_segment() {
    for is_early in [false, true] {
        let mut run = run();
        if is_early {
            run.client(ACK, 500, 1001, "");
        }
        run.server(ACK, 1004, 500, "def");
        run.client(ACK, 500, 1001, "");
        run.server(ACK, 1007, 500, "ghi");
        run.client(ACK, 500, 1001, "");
        run.server(ACK, 1001, 500, "abc");
        run.client(ACK, 500, 1010, "");
        assert_eq!(texts(run), both("", "abcdefghi"), "{is_early}");
    }
}

/// Bytes that are missing there may have passed before the capture began.
#[test]
fn bytes_before_the_first_segment_are_no_gap_and_later_ones_are() {
    let mut run = run();
    run.client(ACK, 500, 1001, "");
    run.server(ACK, 1004, 500, "def");
    run.client(ACK, 500, 1007, "");
    run.server(ACK, 1009, 500, "k");
    run.client(ACK, 500, 1010, "");
    let all = run.finish();
    assert_eq!((all[0].text[1].as_str(), &all[0].causes[..]), ("def??k", &[GapCause::Acknowledged][..]));
    // Of one direction alone nothing is awaited for longer than a second.
    let mut run = self::run();
    run.server(ACK, 1004, 500, "def");
    run.now_ns += 2 * SECOND;
    run.server(ACK, 1007, 500, "ghi");
    assert_eq!(run.tracker.streams().delivered_bytes, 6);
    assert_eq!(texts(run), both("", "defghi"));
}

fn ended(seen: &Seen) -> [Option<EndReason>; 2] {
    seen.ends
}

/// As with the MD5 option: the capture cannot see why.
#[test]
fn a_reset_whose_later_bytes_are_acknowledged_was_ignored() {
    for is_from_client in [true, false] {
        let mut run = run();
        run.open(100, 900);
        run.client(ACK, 101, 901, "GET");
        run.server(ACK, 901, 104, "");
        match is_from_client {
            true => run.client(RST | ACK, 104, 901, ""),
            false => run.server(RST | ACK, 901, 104, ""),
        }
        run.client(ACK, 104, 901, " /");
        run.server(ACK, 901, 106, "200");
        run.client(FIN | ACK, 106, 904, "");
        run.server(FIN | ACK, 904, 107, "");
        let all = run.finish();
        assert_eq!((all.len(), &all[0].text), (1, &both("GET /", "200")));
        assert_eq!(ended(&all[0]), [Some(EndReason::Fin); 2]);
    }
}

#[test]
fn a_reset_ends_the_connection_if_nothing_after_it_is_acknowledged() {
    let mut run = run();
    run.open(100, 900);
    run.client(ACK, 101, 901, "GET");
    run.server(ACK, 901, 104, "20");
    run.client(RST | ACK, 104, 903, "");
    // In flight, and not taken.
    run.server(ACK, 903, 104, "0");
    run.server(FIN | ACK, 904, 104, "");
    run.now_ns += 70 * SECOND;
    run.client(SYN, 100, 0, "");
    assert_eq!(run.tracker.streams().after_end_bytes, 1);
    let all = run.finish();
    assert_eq!((all.len(), &all[0].text), (2, &both("GET", "20")));
    assert_eq!(ended(&all[0]), [Some(EndReason::Reset); 2]);
}

#[test]
fn a_reset_of_another_connection_before_the_first_segment_changes_nothing() {
    let mut run = run();
    run.server(RST | ACK, 5, 6, "");
    run.client(ACK, 101, 901, "GET");
    run.server(ACK, 901, 104, "200");
    assert_eq!(texts(run), both("GET", "200"));
}

/// An acknowledgment of bytes that were not sent, in a hole that is filled later.
#[test]
fn an_acknowledgment_that_a_later_one_refutes_declares_nothing() {
    let mut run = run();
    run.open(100, 900);
    run.client(ACK, 104, 901, "def");
    run.server(ACK, 901, 107, "");
    run.server(ACK, 901, 101, "");
    run.now_ns += 3 * SECOND;
    run.client(ACK, 107, 901, "ghi");
    run.client(ACK, 101, 901, "abc");
    assert_eq!(texts(run), both("abcdefghi", ""));
}

/// Packets with other numbers at every place of a conversation, each alone and all together.
#[test]
fn strays_change_no_stream() {
    let (expected, steps) = conversation();
    let mut random = Random(77);
    for round in 0..2000 {
        let at = random.below(steps.len() as u64 + 1) as usize;
        let mut run = run();
        for (number, step) in steps.iter().enumerate() {
            // A single byte of a connection of which nothing else is known is one of it.
            if number > 0 && (number == at || round % 50 == 0) {
                stray(&mut run, &mut random, round, step);
            }
            let (is_client, flags, sequence, acknowledgment, text) = step;
            match is_client {
                true => run.client(*flags, *sequence, *acknowledgment, text),
                false => run.server(*flags, *sequence, *acknowledgment, text),
            }
        }
        let tally = *run.tracker.streams();
        let all = run.finish();
        let with_text: Vec<_> = all.iter().filter(|seen| seen.text != both("", "")).collect();
        assert_eq!(with_text.len(), 1, "round {round}, before {at}: {all:?}");
        assert_eq!(
            (&with_text[0].text, &with_text[0].causes[..]),
            (&expected, &[][..]),
            "round {round}, before {at}"
        );
        let unplaced = tally.after_end_bytes + tally.before_start_bytes + tally.out_of_window_bytes;
        assert_eq!(unplaced, tally.probes_refused, "round {round}, before {at}");
    }
}

type Step = (bool, u8, u32, u32, String);

fn conversation() -> ([String; 2], Vec<Step>) {
    let (mut a, mut b) = (101u32, 3_000_000_001u32);
    let mut steps = vec![
        (true, SYN, a - 1, 0, String::new()),
        (false, SYN | ACK, b - 1, a, String::new()),
        (true, ACK, a, b, String::new()),
    ];
    let mut expected = both("", "");
    for round in 0..6 {
        let (request, answer) = (format!("request {round};"), format!("the answer {round};"));
        steps.push((true, ACK, a, b, request.clone()));
        a += request.len() as u32;
        steps.push((false, ACK, b, a, answer.clone()));
        b += answer.len() as u32;
        steps.push((true, ACK, a, b, String::new()));
        expected[0].push_str(&request);
        expected[1].push_str(&answer);
    }
    steps.push((true, FIN | ACK, a, b, String::new()));
    steps.push((false, FIN | ACK, b, a + 1, String::new()));
    steps.push((true, ACK, a + 1, b + 1, String::new()));
    (expected, steps)
}

/// A SYN, SYN-ACK, RST, acknowledgment or keep-alive like a step of the conversation, one or both of whose numbers are
/// others.
fn stray(run: &mut Run, random: &mut Random, round: u64, step: &Step) {
    let [mut sequence, mut acknowledgment] = [0; 2].map(|_| random.below(1 << 32) as u32);
    match round / 6 % 3 {
        1 if round % 6 != 5 => sequence = step.2,
        2 => acknowledgment = step.3,
        _ => {}
    }
    let (flags, text) =
        [(SYN, ""), (SYN | ACK, ""), (RST, ""), (RST | ACK, ""), (ACK, ""), (ACK, "x")][(round % 6) as usize];
    let is_client = if (round / 6).is_multiple_of(3) { random.below(2) == 0 } else { step.0 };
    match is_client {
        true => run.client(flags, sequence, acknowledgment, text),
        false => run.server(flags, sequence, acknowledgment, text),
    }
}
