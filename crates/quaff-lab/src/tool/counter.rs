//! A number in what a tool prints: how many packets it says that it has lost, or captured.

use serde::Deserialize;
use serde_json::Value;

/// Where in a tool's words the number is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// The last number right before the words.
    Before(String),
    /// As [`Before`](Self::Before), of a tool that says nothing when it is 0.
    BeforeOrNone(String),
    /// The last number right behind the words.
    After(String),
    /// The sum of these fields of the JSON object that it prints.
    Json(Vec<String>),
}

impl Counter {
    /// The number; `None` where the words do not hold it.
    pub fn read(&self, said: &str) -> Option<u64> {
        match self {
            Self::Before(words) => before(said, words),
            Self::BeforeOrNone(words) if said.contains(words.as_str()) => before(said, words),
            Self::BeforeOrNone(_) => Some(0),
            Self::After(words) => {
                let behind = said[said.rfind(words.as_str())? + words.len()..].trim_start();
                let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
                behind[..end].parse().ok()
            }
            Self::Json(fields) => {
                let object = said.lines().find_map(|line| serde_json::from_str::<Value>(line).ok())?;
                fields.iter().map(|field| object.get(field)?.as_u64()).sum()
            }
        }
    }
}

fn before(said: &str, words: &str) -> Option<u64> {
    let before = said[..said.rfind(words)?].trim_end();
    let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    before[before.len() - digits..].parse().ok()
}
