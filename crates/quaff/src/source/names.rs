//! Names of interfaces as users write them: one name, a pattern such as `eth*`, or `any`.
//!
//! A pattern is a pattern, even where an interface has it as its name: otherwise whoever names an interface `any` or
//! `eth*` would turn a capture of all into one of this interface. Where both readings differ, the name is refused; a
//! bracket makes one character of it a literal: `[a]ny`, `eth[*]`. This module opens nothing.

use crate::{Error, Result};
use nix::libc;
use quaff_os::rtnl::{Link, Rtnl};
use quaff_wire::linktype;
use quaff_wire::printable::quote;

/// All interfaces that are up.
const ANY: &str = "any";
/// Interfaces that patterns may stand for: each has a ring and a thread.
const INTERFACES_MAX: usize = 128;

/// The interfaces that `names` stand for, each once, in the order of the names and of the kernel. A name that is no
/// pattern stays as it is, whether an interface has it or not.
pub fn interfaces_named(names: &[String]) -> Result<Vec<String>> {
    if !names.iter().any(|name| is_pattern(name)) {
        return Ok(names.to_vec());
    }
    expand(names, &Rtnl::open()?.links()?, false)
}

/// The same for a run that waits for interfaces: there may be none yet.
pub fn interfaces_now(names: &[String]) -> Result<Vec<String>> {
    let links = Rtnl::open()?.links()?;
    let is_there = |name: &&String| is_pattern(name) || is_name_of(name, &links);
    expand(&names.iter().filter(is_there).cloned().collect::<Vec<_>>(), &links, true)
}

/// Returns whether one of the names stands for an interface that has come.
pub(super) fn stand_for(names: &[String], link: &Link) -> bool {
    // The loopback interface of a namespace is there from the start.
    let is_loopback = link.arphrd == libc::ARPHRD_LOOPBACK;
    let is_wanted =
        |name: &String| if is_pattern(name) { stands_for(name, link) } else { link.name == *name };
    !is_loopback && names.iter().any(is_wanted)
}

fn expand(names: &[String], links: &[Link], may_be_none: bool) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        let of_name: Vec<_> = match is_pattern(name) {
            false => vec![name.clone()],
            true => {
                let named = links.iter().filter(|link| stands_for(name, link));
                named.map(|link| link.name.clone()).collect()
            }
        };
        if is_pattern(name) && is_name_of(name, links) && of_name != [name.as_str()] {
            return Err(ambiguous(name));
        }
        if of_name.is_empty() && !may_be_none {
            let known: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
            let known = known.join(", ");
            return Err(Error::Plan(format!(
                "no interface that can be captured is named {name}; there are {known}"
            )));
        }
        found.extend(of_name.into_iter().filter(|name| !found.contains(name)).collect::<Vec<_>>());
    }
    match found.len() {
        0..=INTERFACES_MAX => Ok(found),
        count => Err(Error::Plan(format!(
            "{} stands for {count} interfaces, and each needs a ring and a thread: at most {INTERFACES_MAX}",
            names.join(" ")
        ))),
    }
}

fn is_name_of(name: &str, links: &[Link]) -> bool {
    links.iter().any(|link| link.name == name)
}

/// The error for a pattern that is the name of an interface too, and stands for others.
fn ambiguous(name: &str) -> Error {
    let all = if name == ANY { Some("*".to_owned()) } else { as_pattern(name) };
    let what = if name == ANY { "all, up or not" } else { "all that match" };
    let all = all.map_or_else(String::new, |all| format!(", or {} for {what}", quote(&all)));
    Error::Plan(format!(
        "an interface is named {name}, which is also a pattern for others: write {} for this one alone{all}",
        quote(&literal(name)),
    ))
}

/// A pattern for the interface with this name alone: each character that has a meaning is in brackets.
pub fn literal(name: &str) -> String {
    if name == ANY {
        return "[a]ny".to_owned();
    }
    let one = |char| if "*?[".contains(char) { format!("[{char}]") } else { String::from(char) };
    name.chars().map(one).collect()
}

/// The same pattern, written in another way: a plain character is in brackets, or a `*` is doubled. `None` for a
/// pattern that begins with a set.
fn as_pattern(name: &str) -> Option<String> {
    let before_set = name.split('[').next().unwrap_or_default();
    let plain = before_set.char_indices().find(|(_, char)| char.is_ascii_alphanumeric());
    if let Some((at, char)) = plain {
        return Some(format!("{}[{char}]{}", &name[..at], &name[at + 1..]));
    }
    before_set.contains('*').then(|| name.replacen('*', "**", 1))
}

fn is_pattern(name: &str) -> bool {
    name == ANY || name.contains(['*', '?', '['])
}

fn stands_for(pattern: &str, link: &Link) -> bool {
    let is_wanted = if pattern == ANY { link.up } else { matches(pattern.as_bytes(), link.name.as_bytes()) };
    is_wanted && linktype::of_arphrd(link.arphrd).is_some()
}

/// Matches a pattern of a shell: `*` is any text, `?` one byte, `[a-c1]` one of a set, `[!a]` one outside of it.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], _) => name.is_empty(),
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|skipped| matches(rest, &name[skipped..])),
        ([b'?', rest @ ..], [_, name @ ..]) => matches(rest, name),
        ([b'[', set @ ..], [byte, others @ ..]) => match set_of(set, *byte) {
            Some((is_in, rest)) => is_in && matches(rest, others),
            None => *byte == b'[' && matches(set, others),
        },
        ([wanted, rest @ ..], [byte, name @ ..]) => wanted == byte && matches(rest, name),
        (_, []) => false,
    }
}

/// Returns whether a byte is in the set at the front of `set`, and the rest after its bracket; `None` without one.
fn set_of(set: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (is_outside, set) = match set {
        [b'!', set @ ..] => (true, set),
        set => (false, set),
    };
    // A bracket that comes first is one of the set.
    let end = 1 + set.get(1..)?.iter().position(|byte| *byte == b']')?;
    let (mut members, rest) = (&set[..end], &set[end + 1..]);
    let mut is_in = false;
    while let [first, others @ ..] = members {
        (is_in, members) = match others {
            [b'-', last, others @ ..] => (is_in || (*first..=*last).contains(&byte), others),
            others => (is_in || *first == byte, others),
        };
    }
    Some((is_in != is_outside, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, up: bool, arphrd: u16) -> Link {
        Link {
            index,
            name: name.into(),
            mac: [0; 6],
            mtu: 1500,
            arphrd,
            up,
            running: up,
            promiscuous: false,
            arp: true,
            kind: String::new(),
            master: None,
            lower: None,
            xdp_program: None,
        }
    }

    fn expanded(names: &[&str]) -> Result<Vec<String>> {
        let links = [
            link(1, "lo", true, 772),
            link(2, "eth0", true, 1),
            link(3, "eth1", false, 1),
            link(4, "ib0", true, 32),
            link(5, "odd*", true, 1),
        ];
        expand(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), &links, false)
    }

    #[test]
    fn patterns_are_those_of_a_shell() {
        let all = |pattern: &str, names: &[&str]| {
            names.iter().all(|name| matches(pattern.as_bytes(), name.as_bytes()))
        };
        assert!(all("eth*", &["eth", "eth0", "eth0.100"]) && all("e*0", &["eth0", "e0", "eno10"]));
        assert!(
            all("eth[0-2]", &["eth0", "eth2"])
                && all("eth[!3-9]", &["eth0", "ethx"])
                && all("[]a]", &["]", "a"])
        );
        assert!(all("eth?", &["eth0"]) && all("*", &["", "x"]) && all("a[b", &["a[b"]));
        for (pattern, name) in [
            ("eth*", "veth0"),
            ("eth?", "eth"),
            ("eth[0-2]", "eth3"),
            ("eth[!3-9]", "eth3"),
            ("", "x"),
            ("a[b", "ab"),
        ] {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
    }

    #[test]
    fn names_stand_for_interfaces_once_and_in_order() {
        assert_eq!(expanded(&["eth*"]).expect("two"), ["eth0", "eth1"]);
        assert_eq!(expanded(&["eth1", "eth*", "lo"]).expect("each once"), ["eth1", "eth0", "lo"]);
        // What is down, or of a kind that quaff cannot describe, is not in `any`.
        assert_eq!(expanded(&["any"]).expect("three"), ["lo", "eth0", "odd*"]);
        assert_eq!(expanded(&["odd*"]).expect("no other one matches"), ["odd*"]);
        assert_eq!(expanded(&["missing", "lo"]).expect("looked up later"), ["missing", "lo"]);
        let error = expanded(&["wlan*"]).expect_err("none").to_string();
        assert!(error.contains("wlan*") && error.contains("eth1"), "{error}");
    }

    /// Whoever may name an interface must not hide the others.
    #[test]
    fn an_interface_that_is_named_as_a_pattern_hides_no_other() {
        let of = |names: &[&str], wanted: &str| {
            let link = |(at, name): (usize, &&str)| link(at as u32 + 1, name, true, 1);
            let links: Vec<_> = names.iter().enumerate().map(link).collect();
            expand(&[wanted.to_owned()], &links, false).map_err(|error| error.to_string())
        };
        let all = ["r0", "r1", "r*", "any", "r[01]", "r?"];
        for (wanted, alone, every) in [
            ("r*", "r[*]", "'[r]*'"),
            ("any", "[a]ny", "'*'"),
            ("r?", "r[?]", "'[r]?'"),
            ("r[01]", "r[[]01]", "'[r][01]'"),
        ] {
            let refused = of(&all, wanted).expect_err("both readings differ");
            assert!(refused.contains(&format!("an interface is named {wanted}")), "{refused}");
            assert!(refused.contains(&quote(alone)) && refused.contains(every), "{refused}");
            assert_eq!(literal(wanted), alone);
            assert_eq!(of(&all, alone).as_deref(), Ok(&[wanted.to_owned()][..]));
        }
        assert_eq!(of(&all, "[r]*").unwrap(), ["r0", "r1", "r*", "r[01]", "r?"]);
        assert_eq!(of(&all, "[r][01]").unwrap(), ["r0", "r1"]);
        assert_eq!(of(&all, "*").unwrap(), all);
        // Without the other reading there is nothing to refuse.
        assert_eq!(of(&["r*"], "r*").unwrap(), ["r*"]);
        assert_eq!(of(&["any"], "any").unwrap(), ["any"]);
        // A bracket without its end is a character.
        assert_eq!(of(&["a[b", "ab"], "a[b").unwrap(), ["a[b"]);
        let comes = |name: &str| stand_for(&["any".to_owned(), "r*".to_owned()], &link(9, name, true, 1));
        assert!(comes("r*") && comes("any") && comes("x"));
    }

    #[test]
    fn an_interface_that_comes_is_wanted_by_its_name_or_a_pattern() {
        let wants = |name: &str, link: &Link| stand_for(&["lo".to_owned(), name.to_owned()], link);
        let (up, down) = (link(7, "veth1", true, 1), link(8, "veth2", false, 1));
        assert!(wants("any", &up) && !wants("any", &down), "until it is up");
        assert!(wants("veth*", &down) && wants("veth2", &down) && !wants("veth2", &up));
        assert!(!wants("any", &link(1, "lo", true, 772)) && !wants("any", &link(4, "ib0", true, 32)));
    }

    #[test]
    fn very_many_interfaces_are_refused() {
        let links: Vec<_> = (1..200).map(|index| link(index, &format!("veth{index}"), true, 1)).collect();
        let error = expand(&["veth*".to_owned()], &links, false).expect_err("too many").to_string();
        assert!(error.contains("199 interfaces") && error.contains("128"), "{error}");
    }
}
