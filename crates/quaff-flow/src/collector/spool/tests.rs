use super::*;
use crate::export::Carried;

fn open(folder: &Path, name: &str, bytes_max: u64) -> Spool {
    Spool::open(folder, name, Version::Ipfix, bytes_max).unwrap()
}

fn message(n: u32) -> Message {
    let carried = Carried { records: n.into(), packets: 2, bytes: 3 };
    Message { bytes: vec![n as u8; 1000 + n as usize % 300], units: n, carried, has_templates: false }
}

/// A message of IPFIX with a set of templates, whose one record has this byte.
fn template(byte: u8) -> Message {
    let bytes = [&[0; 16][..], &[0, 2, 0, 8, byte, byte, byte, byte]].concat();
    Message { bytes, has_templates: true, ..Message::default() }
}

fn none() -> Vec<Message> {
    Vec::new()
}

fn popped(spool: &mut Spool, count: usize) -> Vec<Message> {
    std::iter::from_fn(|| spool.pop().unwrap()).take(count).map(|(message, _)| message).collect()
}

/// Takes all messages, and acknowledges each.
fn all(spool: &mut Spool) -> Vec<Message> {
    let messages = popped(spool, usize::MAX);
    messages.iter().for_each(|_| spool.acknowledge().unwrap());
    messages
}

fn closed(spool: Spool) {
    assert!(matches!(spool.close(&[], &none), (0, None)));
}

fn files(folder: &Path) -> usize {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| !name.to_str().unwrap().ends_with(".lock")).count()
}

#[test]
fn messages_come_back_in_order_over_segments() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), "tcp://[::1]:4739", 1 << 30);
    assert!(spool.is_drained());
    let messages: Vec<Message> = (0..9000).map(message).collect();
    for message in &messages {
        assert!(spool.push(message, &|| vec![template(1)]).unwrap());
    }
    assert!(files(folder.path()) > 2 && !spool.is_drained());
    assert!(all(&mut spool) == messages);
    assert!(spool.is_drained() && files(folder.path()) == 0 && spool.bytes == 0);
}

#[test]
fn a_later_run_finds_what_was_not_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), "one", 1 << 30);
    (0..100).for_each(|n| assert!(spool.push(&message(n), &|| vec![template(1)]).unwrap()));
    assert_eq!(popped(&mut spool, 5), (0..5).map(message).collect::<Vec<_>>());
    spool.acknowledge().unwrap();
    spool.acknowledge().unwrap();
    spool.push(&message(100), &|| vec![template(1)]).unwrap();
    closed(spool);
    assert_eq!(all(&mut open(folder.path(), "other", 1 << 30)), []);
    let mut again = open(folder.path(), "one", 1 << 30);
    let (first, head) = again.pop().unwrap().unwrap();
    assert_eq!((first, &head.messages[..], head.is_earlier), (message(2), &[template(1)][..], true));
    assert_eq!(popped(&mut again, 98), (3..=100).map(message).collect::<Vec<_>>());
}

/// A kill is the end without `close`: each message that was not acknowledged is there, in order.
#[test]
fn a_killed_run_loses_nothing_that_was_not_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), "one", 1 << 30);
    (0..6000).for_each(|n| assert!(spool.push(&message(n), &none).unwrap()));
    assert_eq!(popped(&mut spool, 6000).len(), 6000);
    (0..10).for_each(|_| spool.acknowledge().unwrap());
    drop(spool);
    let mut again = open(folder.path(), "one", 1 << 30);
    assert_eq!(all(&mut again), (0..6000).map(message).collect::<Vec<_>>());
}

/// A collector that is a little too slow: messages come back from the segment that is being written.
#[test]
fn one_segment_serves_many_messages() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), "one", 1 << 30);
    let templates = std::cell::Cell::new(0);
    for n in 0..50 {
        let announced = || {
            templates.set(templates.get() + 1);
            vec![template(1)]
        };
        spool.push(&message(n), &announced).unwrap();
        assert_eq!(popped(&mut spool, 9), [message(n)]);
        assert!(spool.is_drained());
        // The message before has arrived; this one is on its way.
        if n > 0 {
            spool.acknowledge().unwrap();
        }
    }
    assert_eq!((templates.get(), files(folder.path())), (1, 1));
    spool.acknowledge().unwrap();
    assert_eq!(files(folder.path()), 0);
}

/// The limit is one of the files on disk, with their templates, until they are removed.
#[test]
fn a_full_spool_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), "one", 5000);
    let push = |spool: &mut Spool, n| spool.push(&message(n), &|| vec![template(1)]).unwrap();
    assert_eq!((0..10).filter(|n| push(&mut spool, *n)).count(), 4);
    let on_disk = || -> u64 {
        let entries = fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
        let segments = entries.filter(|entry| entry.path().extension().unwrap() == "spool");
        segments.map(|entry| entry.metadata().unwrap().len()).sum()
    };
    assert!(on_disk() <= 5000 && on_disk() == spool.bytes);
    assert_eq!(popped(&mut spool, 9).len(), 4);
    assert!(!push(&mut spool, 1), "popped is not yet acknowledged");
    (0..4).for_each(|_| spool.acknowledge().unwrap());
    assert_eq!(on_disk(), 0);
    assert!(push(&mut spool, 1));
}

#[test]
fn damage_ends_a_segment_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), "one", 1 << 30);
    (0..10).for_each(|n| assert!(spool.push(&message(n), &none).unwrap()));
    closed(spool);
    let path = folder.path().join("one-10000000.spool");
    let mut bytes = fs::read(&path).unwrap();
    bytes[5000] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let mut spool = open(folder.path(), "one", 1 << 30);
    let found = all(&mut spool);
    assert_eq!(found, (0..4).map(message).collect::<Vec<_>>());
    assert!(spool.damaged_bytes > 5000, "{}", spool.damaged_bytes);
    let aside = folder.path().join("one-10000000.damaged");
    assert_eq!((files(folder.path()), spool.bytes, &spool.damaged[..]), (1, 0, &[aside.clone()][..]));
    assert!(fs::read(aside).unwrap() == bytes);
}

/// Half of a segment, garbage, and nothing: each is noticed, kept aside, and costs no other segment.
#[test]
fn damage_of_every_kind_is_kept_aside() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), "one", 1 << 30);
    (0..30_000).for_each(|n| assert!(spool.push(&message(n), &none).unwrap()));
    let count = spool.segments.len();
    assert!(count > 5, "{count}");
    closed(spool);
    let path = |number: usize| folder.path().join(format!("one-{:08}.spool", 10_000_000 + number));
    let whole = fs::metadata(path(0)).unwrap().len();
    File::options().write(true).open(path(0)).unwrap().set_len(whole / 2).unwrap();
    fs::write(path(1), vec![0xa5; 5000]).unwrap();
    fs::write(path(2), "").unwrap();
    fs::write(path(3), vec![0; 5000]).unwrap();
    fs::write(folder.path().join("one-10000001.damaged"), "of an earlier run").unwrap();
    let mut spool = open(folder.path(), "one", 1 << 30);
    let found = all(&mut spool);
    assert!(found.len() > 3000 && found.last() == Some(&message(29_999)), "{}", found.len());
    let kinds = ["10000000.damaged", "10000001.damaged1", "10000002.damaged", "10000003.damaged"];
    let aside: Vec<_> = kinds.iter().map(|kind| folder.path().join(format!("one-{kind}"))).collect();
    assert_eq!((&spool.damaged, files(folder.path())), (&aside, 5));
    assert!(spool.damaged_bytes >= 10_000);
    closed(spool);
    let mut again = open(folder.path(), "one", 1 << 30);
    assert_eq!((all(&mut again), again.damaged_bytes, again.damaged.len()), (vec![], 0, 0));
}

/// A sparse segment as long as the limit, the last number, a lock that is held: of another user.
#[test]
fn files_of_another_user_fill_and_stop_no_spool() {
    use std::os::unix::fs::{PermissionsExt, chown};
    if !nix::unistd::geteuid().is_root() {
        return quaff_os::testing::skip("files_of_another_user_fill_and_stop_no_spool", "not root");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let names = ["one-10000000.spool", "one-99999999.spool", "one-10000001.part", "one.lock"];
    let planted = names.map(|name| {
        let file = File::create(folder.path().join(name)).unwrap();
        file.set_len(1 << 40).unwrap();
        chown(folder.path().join(name), Some(65_534), None).unwrap();
        file.try_lock().unwrap();
        file
    });
    let mut spool = open(folder.path(), "one", 1 << 20);
    (0..9).for_each(|n| assert!(spool.push(&message(n), &none).unwrap()));
    assert_eq!(popped(&mut spool, 99).len(), 9);
    spool.acknowledge().unwrap();
    closed(spool);
    let mut again = open(folder.path(), "one", 1 << 20);
    assert_eq!(all(&mut again), (1..9).map(message).collect::<Vec<_>>());
    assert_eq!((again.damaged_bytes, planted.len()), (0, 4));
}

/// Cut between two frames, each frame that is left is whole: the length that the segment records shows it.
#[test]
fn a_segment_that_was_cut_between_two_messages_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), "one", 1 << 30);
    (0..10).for_each(|n| assert!(spool.push(&message(n), &none).unwrap()));
    closed(spool);
    let path = folder.path().join("one-10000000.spool");
    let frames: usize = (0..6).map(|n| FRAME_HEADER + message(n).bytes.len()).sum();
    File::options().write(true).open(&path).unwrap().set_len((BEGINNING + frames) as u64).unwrap();
    // A run that ends in between rewrites it, and it still lacks them.
    let mut first = open(folder.path(), "one", 1 << 30);
    assert_eq!(popped(&mut first, 2).len(), 2);
    first.acknowledge().unwrap();
    closed(first);
    let mut spool = open(folder.path(), "one", 1 << 30);
    assert_eq!(all(&mut spool), (1..6).map(message).collect::<Vec<_>>());
    let lacking: usize = (6..10).map(|n| FRAME_HEADER + message(n).bytes.len()).sum();
    assert_eq!((spool.damaged_bytes, spool.open_segments), (lacking as u64, 0));
    assert_eq!(spool.damaged, [folder.path().join("one-10000000.damaged")]);
    for length in [0, 3, 8, 12, BEGINNING as u64] {
        let mut spool = open(folder.path(), "two", 1 << 30);
        assert!(spool.push(&message(1), &none).unwrap());
        closed(spool);
        let path = folder.path().join("two-10000000.spool");
        File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        let mut spool = open(folder.path(), "two", 1 << 30);
        assert_eq!((all(&mut spool), spool.damaged.len()), (vec![], 1), "{length}");
        fs::remove_file(&spool.damaged[0]).unwrap();
    }
}

/// A killed run has recorded no length, and earlier versions never did.
#[test]
fn an_open_segment_is_unknown_and_an_old_one_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut killed = open(folder.path(), "one", 1 << 30);
    (0..9).for_each(|n| assert!(killed.push(&message(n), &none).unwrap()));
    assert_eq!(popped(&mut killed, 3).len(), 3);
    assert_eq!(killed.open_segments, 0, "its own segment");
    drop(killed);
    let mut again = open(folder.path(), "one", 1 << 30);
    assert_eq!(all(&mut again), (0..9).map(message).collect::<Vec<_>>());
    assert_eq!((again.open_segments, again.damaged_bytes, files(folder.path())), (1, 0, 0));

    let mut old = b"quaffsp1".to_vec();
    (0..9).for_each(|n| append_frame(&mut old, &message(n)));
    fs::write(folder.path().join("two-10000000.spool"), old).unwrap();
    let mut spool = open(folder.path(), "two", 1 << 30);
    assert_eq!(all(&mut spool), (0..9).map(message).collect::<Vec<_>>());
    assert_eq!((spool.open_segments, spool.damaged_bytes, files(folder.path())), (0, 0, 0));
}

/// Two exporters with one spool would send and remove each other's messages.
#[test]
fn a_spool_has_one_exporter() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), "one", 1 << 30);
    let error = Spool::open(folder.path(), "one", Version::Ipfix, 1 << 30).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    assert!(error.to_string().contains(&format!("process {} has", std::process::id())), "{error}");
    open(folder.path(), "other", 1 << 30);
    drop(spool);
    open(folder.path(), "one", 1 << 30);
}

/// In a folder that others may write to, a link in the place of a file leads nowhere, and a planted number ends no
/// run.
#[test]
fn files_of_others_in_the_folder_do_no_harm() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, "of another user").unwrap();
    for name in ["one-10000000.part", "one-10000001.spool"] {
        symlink(&victim, folder.path().join(name)).unwrap();
    }
    for number in ["4294967295", "99999999999", "1"] {
        fs::write(folder.path().join(format!("one-{number}.spool")), "").unwrap();
    }
    let mut spool = open(folder.path(), "one", 1 << 30);
    (0..9).for_each(|n| assert!(spool.push(&message(n), &none).unwrap()));
    assert_eq!(popped(&mut spool, 99).len(), 9);
    spool.acknowledge().unwrap();
    closed(spool);
    assert_eq!(fs::read(&victim).unwrap(), b"of another user");
    let kept = fs::metadata(folder.path().join("one-10000000.spool")).unwrap();
    assert_eq!(kept.mode() & 0o777 & !0o640, 0);
    let left = all(&mut open(folder.path(), "one", 1 << 30));
    assert_eq!(left, (1..9).map(message).collect::<Vec<_>>());
}

/// Messages that were on their way when the run ended are older than what the spool has.
#[test]
fn messages_on_their_way_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), "one", 1 << 30);
    (5..9).for_each(|n| assert!(spool.push(&message(n), &none).unwrap()));
    let unsent: Vec<Message> = (0..5).map(message).collect();
    assert!(matches!(spool.close(&unsent, &none), (5, None)));
    assert_eq!(all(&mut open(folder.path(), "one", 1 << 30)), (0..9).map(message).collect::<Vec<_>>());
}

/// The same templates at another time, in another message, with other options.
#[test]
fn templates_are_compared_without_their_surroundings() {
    let set = |byte: u8| [0, 2, 0, 8, byte, byte, byte, byte];
    let data = [1, 0, 0, 6, 9, 9];
    let of = |parts: &[&[u8]]| {
        let mut message = vec![7; 16];
        parts.iter().for_each(|part| message.extend(*part));
        template_records(&message, Version::Ipfix)
    };
    assert_eq!(of(&[&set(1), &data, &set(2)]), of(&[&set(1), &set(2), &data, &data]));
    assert_ne!(of(&[&set(1)]), of(&[&set(2)]));
    for broken in [&[0, 2, 0, 3, 1][..], &[0, 2, 0, 200, 1], &[0, 2, 0]] {
        assert!(of(&[broken]).is_empty());
    }
}
