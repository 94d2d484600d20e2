//! The tasks of `docs/daily.md`: the commands are read from the page and run as they stand there, those of the usual
//! tool and those of quaff on the same packets, and the results are compared.
//!
//! Nothing on this machine is changed: interfaces are of namespaces that the test makes, programs that get
//! capabilities are copies, and ssh and wireshark have stand-ins.

mod live;
mod offline;
mod page;
mod place;
mod streams;

/// A task without a test, or a test without a task, would let the page and the program drift apart.
#[test]
fn each_task_of_the_page_has_a_test() {
    let tests = [include_str!("live.rs"), include_str!("offline.rs"), include_str!("streams.rs")].concat();
    let titles = page::titles();
    assert_eq!(titles.len(), 33, "{titles:?}");
    for title in &titles {
        assert!(!page::pairs(title).is_empty(), "'{title}' has no commands");
        assert_eq!(tests.matches(&format!("\"{title}\"")).count(), 1, "tests of '{title}'");
    }
    for (number, title) in titles.iter().enumerate() {
        let link = page::anchor(number + 1, title);
        assert!(page::text().contains(&format!("](#{link})")), "the list at the top lacks #{link}");
    }
}
