//! The tree of an expression: tests, and their combinations.

use super::test::Test;
use crate::record::FlowRecord;

/// A test, or a combination of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Test(Test),
}

impl Node {
    pub(super) fn holds(&self, record: &FlowRecord) -> bool {
        match self {
            Self::All(nodes) => nodes.iter().all(|node| node.holds(record)),
            Self::Any(nodes) => nodes.iter().any(|node| node.holds(record)),
            Self::Not(node) => !node.holds(record),
            Self::Test(test) => test.holds(record),
        }
    }

    pub(super) fn has(&self, wanted: fn(&Test) -> bool) -> bool {
        match self {
            Self::All(nodes) | Self::Any(nodes) => nodes.iter().any(|node| node.has(wanted)),
            Self::Not(node) => node.has(wanted),
            Self::Test(test) => wanted(test),
        }
    }
}
