//! Suggestions for an unknown interface name.

/// "did you mean eth0 or eth1?", or the list of all names when none is similar.
pub(super) fn advice(wanted: &str, names: &[String]) -> String {
    let mut similar: Vec<_> = names
        .iter()
        .filter_map(|name| distance_if_similar(wanted, name).map(|distance| (distance, name.as_str())))
        .collect();
    similar.sort();
    similar.truncate(4);
    match similar.as_slice() {
        [] if names.is_empty() => "this network namespace has no interfaces".into(),
        [] => format!("existing interfaces: {}", joined(names.iter().map(String::as_str), "and")),
        similar => format!("did you mean {}?", joined(similar.iter().map(|(_, name)| *name), "or")),
    }
}

fn distance_if_similar(wanted: &str, name: &str) -> Option<usize> {
    let (wanted, name) = (wanted.to_lowercase(), name.to_lowercase());
    let distance = edits(wanted.as_bytes(), name.as_bytes());
    let begins = wanted.len() >= 2 && (name.starts_with(&wanted) || wanted.starts_with(&name));
    let few = distance <= if wanted.len() <= 3 { 1 } else { 2 };
    (begins || few).then_some(distance)
}

/// The Levenshtein distance, computed row by row.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let swap = corner + usize::from(left != right);
            corner = row[j + 1];
            row[j + 1] = swap.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

fn joined<'a>(names: impl Iterator<Item = &'a str>, last: &str) -> String {
    let names: Vec<_> = names.collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => (*only).to_owned(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advised(wanted: &str, names: &[&str]) -> String {
        advice(wanted, &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn similar_names_most_similar_first() {
        let names = ["lo", "eth0", "eth1", "enp3s0", "wlan0"];
        assert_eq!(advised("eth2", &names), "did you mean eth0 or eth1?");
        assert_eq!(advised("eht0", &names), "did you mean eth0?");
        assert_eq!(advised("ETH0", &names), "did you mean eth0 or eth1?");
        assert_eq!(advised("enp3", &names), "did you mean enp3s0?");
    }

    #[test]
    fn all_names_when_none_is_similar() {
        assert_eq!(advised("bond7", &["lo", "eth0", "wlan0"]), "existing interfaces: lo, eth0 and wlan0");
        assert_eq!(advised("bond7", &[]), "this network namespace has no interfaces");
    }

    #[test]
    fn distances() {
        assert_eq!(edits(b"", b"abc"), 3);
        assert_eq!(edits(b"kitten", b"sitting"), 3);
        assert_eq!(edits(b"same", b"same"), 0);
    }
}
