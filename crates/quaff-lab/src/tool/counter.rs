//! A number in the output of a tool: packets that it reports as lost or captured.

use serde::Deserialize;
use serde_json::Value;

/// The place of the number in the output.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// The last number directly before this text.
    Before(String),
    /// As [`Before`](Self::Before); 0 if the text does not occur.
    BeforeOrNone(String),
    /// The last number directly after this text.
    After(String),
    /// The sum of these fields of the first JSON object.
    Json(Vec<String>),
}

impl Counter {
    /// The number; `None` where the output does not have it.
    pub fn read(&self, output: &str) -> Option<u64> {
        match self {
            Self::Before(text) => before(output, text),
            Self::BeforeOrNone(text) if output.contains(text.as_str()) => before(output, text),
            Self::BeforeOrNone(_) => Some(0),
            Self::After(text) => {
                let after = output[output.rfind(text.as_str())? + text.len()..].trim_start();
                let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
                after[..end].parse().ok()
            }
            Self::Json(fields) => {
                let object = output.lines().find_map(|line| serde_json::from_str::<Value>(line).ok())?;
                fields.iter().map(|field| object.get(field)?.as_u64()).sum()
            }
        }
    }
}

fn before(output: &str, text: &str) -> Option<u64> {
    let before = output[..output.rfind(text)?].trim_end();
    let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    before[before.len() - digits..].parse().ok()
}
