//! A number in the output of a tool: packets that it reports as lost or captured.

use serde::Deserialize;
use serde_json::Value;

/// The way to locate the number in the output.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// The last number directly before this text.
    Before(String),
    /// Like [`Before`](Self::Before); 0 if the text does not occur.
    BeforeOrNone(String),
    /// The last number directly after this text.
    After(String),
    /// The sum of these fields of the first JSON object.
    Json(Vec<String>),
}

impl Counter {
    /// Reads the number; `None` if the output does not contain it.
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

/// The numbers at `paths`, such as `interfaces[].lanes[].received`, in the first JSON object of `output`; numbers of
/// several paths are summed element by element. Empty if there are none.
pub fn each(output: &str, paths: &[String]) -> Vec<u64> {
    let object = output.lines().find_map(|line| serde_json::from_str::<Value>(line).ok()).unwrap_or_default();
    let lists = paths.iter().map(|path| numbers(&object, path));
    let add =
        |sums: Vec<u64>, list: Vec<u64>| sums.iter().zip(&list).map(|(sum, number)| sum + number).collect();
    lists.reduce(add).unwrap_or_default()
}

fn numbers(object: &Value, path: &str) -> Vec<u64> {
    let mut found = vec![object];
    for step in path.split('.') {
        let name = step.trim_end_matches("[]");
        found = found.into_iter().filter_map(|value| value.get(name)).collect();
        if step.ends_with("[]") {
            found = found.into_iter().filter_map(Value::as_array).flatten().collect();
        }
    }
    found.into_iter().filter_map(Value::as_u64).collect()
}

fn before(output: &str, text: &str) -> Option<u64> {
    let before = output[..output.rfind(text)?].trim_end();
    let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    before[before.len() - digits..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packets_of_lanes_are_added_up_lane_by_lane() {
        let output = "capturing\n{\"ports\":[{\"lanes\":[{\"got\":7,\"lost\":1},{\"got\":3,\"lost\":0}]},{\"name\":\"b\"}]}\n";
        let paths = ["ports[].lanes[].got", "ports[].lanes[].lost"].map(String::from);
        assert_eq!(each(output, &paths), [8, 3]);
        assert_eq!(each(output, &paths[..1]), [7, 3]);
        assert!(each(output, &["ports[].threads[].got".into()]).is_empty());
        assert!(each("no JSON", &paths).is_empty() && each(output, &[]).is_empty());
    }
}
