//! Chooses flow records: by an expression with the words of tcpdump and nfdump, and by a span of time.
//!
//! | module | contents |
//! |---|---|
//! | `parse` | the text of an expression, to a tree |
//! | `tree` | the tree: tests, and their combinations |
//! | `test` | one test of a record |

mod parse;
mod test;
#[cfg(test)]
mod tests;
mod tree;

use crate::record::FlowRecord;
use std::str::FromStr;
use test::Test;
use tree::Node;

/// An expression on flow records, such as `host 192.168.1.7 and port 443`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    text: String,
    tree: Node,
}

impl FromStr for Expression {
    type Err = String;

    /// Parses an expression; the error names the word that does not fit, and what was expected there.
    fn from_str(text: &str) -> Result<Self, String> {
        parse::tree(text).map(|tree| Self { text: text.trim().to_owned(), tree })
    }
}

impl Expression {
    /// The expression as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether a record matches.
    pub fn holds(&self, record: &FlowRecord) -> bool {
        self.tree.holds(record)
    }

    /// Returns whether it asks for the application or the server of a flow, which a meter recognizes only on request.
    pub fn needs_applications(&self) -> bool {
        self.tree.has(|test| matches!(test, Test::Application(_) | Test::Server(_)))
    }
}

/// The records that are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    pub expression: Option<Expression>,
    /// Records with a packet at this time or later, ns since 1970.
    pub from_ns: Option<u64>,
    /// Records with a packet before this time, ns since 1970.
    pub to_ns: Option<u64>,
}

impl Choice {
    /// Returns whether a record is wanted.
    pub fn wants(&self, record: &FlowRecord) -> bool {
        self.from_ns.is_none_or(|from_ns| record.last_ns() >= from_ns)
            && self.to_ns.is_none_or(|to_ns| record.first_ns() < to_ns)
            && self.expression.as_ref().is_none_or(|expression| expression.holds(record))
    }
}
