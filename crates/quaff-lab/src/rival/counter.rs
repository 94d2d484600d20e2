//! A number in what a tool prints: how many packets it says that it has lost.

use serde_json::Value;

/// Where in a tool's words the number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// The last number right before the words.
    Before(&'static str),
    /// The last number right behind the words.
    After(&'static str),
    /// The sum of these fields of the JSON object that it prints.
    Json(&'static [&'static str]),
}

impl Counter {
    /// The number; `None` where the words do not hold it.
    pub fn read(&self, said: &str) -> Option<u64> {
        match self {
            Self::Before(words) => {
                let before = said[..said.rfind(words)?].trim_end();
                let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
                before[before.len() - digits..].parse().ok()
            }
            Self::After(words) => {
                let behind = said[said.rfind(words)? + words.len()..].trim_start();
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
