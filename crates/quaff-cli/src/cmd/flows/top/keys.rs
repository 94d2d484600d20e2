//! Keys of a terminal: what the bytes mean that it sends for them (ECMA-48, xterm). Nothing is read here.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    /// A letter with the control key.
    Control(char),
    Enter,
    Tab,
    BackTab,
    Backspace,
    Escape,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

/// Sequences after the escape character.
const SEQUENCES: [(&str, Key); 15] = [
    ("[A", Key::Up),
    ("[B", Key::Down),
    ("[C", Key::Right),
    ("[D", Key::Left),
    ("OA", Key::Up),
    ("OB", Key::Down),
    ("OC", Key::Right),
    ("OD", Key::Left),
    ("[H", Key::Home),
    ("[F", Key::End),
    ("[1~", Key::Home),
    ("[4~", Key::End),
    ("[5~", Key::PageUp),
    ("[6~", Key::PageDown),
    ("[Z", Key::BackTab),
];

/// The keys in bytes that were read at once. Sequences that are not known, and bytes that are not UTF-8, are skipped.
pub(super) fn keys(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let (mut rest, mut keys) = (text.as_ref(), Vec::new());
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        if first == '\x1b' {
            rest = sequence(rest, &mut keys);
            continue;
        }
        keys.extend(match first {
            '\r' | '\n' => Some(Key::Enter),
            '\t' => Some(Key::Tab),
            '\x08' | '\x7f' => Some(Key::Backspace),
            '\x01'..='\x1a' => Some(Key::Control(char::from(first as u8 | 0x60))),
            char::REPLACEMENT_CHARACTER => None,
            other => (!other.is_control()).then_some(Key::Char(other)),
        });
    }
    keys
}

/// Adds the key of a sequence, and returns what follows it.
fn sequence<'a>(rest: &'a str, keys: &mut Vec<Key>) -> &'a str {
    if let Some((known, key)) = SEQUENCES.iter().find(|(known, _)| rest.starts_with(known)) {
        keys.push(*key);
        return &rest[known.len()..];
    }
    match rest.strip_prefix('[') {
        // Parameters and a final byte (ECMA-48, 5.4).
        Some(unknown) => {
            let end = unknown.find(|byte: char| ('@'..='~').contains(&byte));
            end.map_or("", |end| &unknown[end + 1..])
        }
        None => {
            keys.push(Key::Escape);
            rest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_keys() {
        assert_eq!(keys(b"q/\r\x7f"), [Key::Char('q'), Key::Char('/'), Key::Enter, Key::Backspace]);
        assert_eq!(keys(b"\x1b[A\x1b[6~\x1bOB"), [Key::Up, Key::PageDown, Key::Down]);
        assert_eq!(keys(b"\x1b[Z\t\x03\x1a"), [Key::BackTab, Key::Tab, Key::Control('c'), Key::Control('z')]);
        assert_eq!(keys("\x1bµ".as_bytes()), [Key::Escape, Key::Char('µ')]);
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
    }

    #[test]
    fn unknown_sequences_are_skipped() {
        assert_eq!(keys(b"\x1b[1;5Aq"), [Key::Char('q')]);
        assert_eq!(keys(b"\x1b[<0;1;1M\xff\x00q"), [Key::Char('q')]);
        assert_eq!(keys(b"\x1b[12"), []);
    }
}
