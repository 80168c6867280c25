//! Source lines with their cost and, if the file is at hand, their text.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use ferretto_elf::open_regular;
use serde_json::{Value, json};

use super::cost::Cost;

/// The largest source file that is read.
const MAX_SOURCE: u64 = 4 << 20;
/// The most lines between two lines of a function that are shown with them.
const MAX_GAP: u32 = 30;

/// The source lines of a function, by file and number.
#[derive(Debug, Default)]
pub(super) struct Sources(BTreeMap<String, BTreeMap<u32, Cost>>);

impl Sources {
    pub(super) fn add(&mut self, file: &str, number: u32, cost: Cost) {
        let lines = self.0.entry(file.to_owned()).or_default();
        let line = lines.entry(number).or_default();
        line.own += cost.own;
        line.all += cost.all;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the lines as JSON, the files with the highest costs first, and adds sentences about
    /// files that are not here or have changed since `built`, the time of the program that names
    /// them. Without it, only the trace names them, and they are not read: it may name any file.
    pub(super) fn json(&self, built: Option<SystemTime>, missing: &mut Vec<String>) -> Vec<Value> {
        let cost = |lines: &BTreeMap<u32, Cost>| lines.values().map(|cost| cost.all).sum::<f64>();
        let mut files: Vec<_> = self.0.iter().collect();
        files.sort_by(|a, b| cost(b.1).total_cmp(&cost(a.1)));
        let mut rows = Vec::new();
        let mut absent = Vec::new();
        for (file, lines) in files {
            let texts = match built.map(|built| (built, read(Path::new(file)))) {
                None => Vec::new(),
                Some((built, Ok((texts, changed)))) => {
                    if changed > built {
                        missing.push(format!(
                            "{file} has changed since the program was built: its lines may be others."
                        ));
                    }
                    texts
                }
                Some((_, Err(_))) => {
                    absent.push(file.as_str());
                    Vec::new()
                }
            };
            for (number, cost) in with_gaps(lines, texts.len()) {
                let text = texts.get(number as usize - 1);
                rows.push(json!([file, number, text, cost.own, cost.all]));
            }
        }
        match absent[..] {
            [] => {}
            [file] => missing.push(format!("The source {file} is not here.")),
            [file, ..] => missing.push(format!(
                "{} source files are not here, such as {file}.",
                absent.len()
            )),
        }
        rows
    }
}

/// Returns the lines with those between them, if the file has text for them.
fn with_gaps(lines: &BTreeMap<u32, Cost>, texts: usize) -> Vec<(u32, Cost)> {
    let mut all: Vec<(u32, Cost)> = Vec::new();
    for (number, cost) in lines {
        if let Some((last, _)) = all.last().copied()
            && texts > 0
            && number - last <= MAX_GAP
        {
            all.extend((last + 1..*number).map(|between| (between, Cost::default())));
        }
        all.push((*number, *cost));
    }
    all
}

/// Reads the lines of a source file, and the time of its last change.
fn read(path: &Path) -> io::Result<(Vec<String>, SystemTime)> {
    if !path.is_absolute() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = open_regular(path)?;
    let changed = file.metadata()?.modified()?;
    let mut bytes = Vec::new();
    file.take(MAX_SOURCE).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok((text.lines().map(str::to_owned).collect(), changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_only_the_trace_names_are_not_read() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let mut sources = Sources::default();
        sources.add(file, 1, Cost::default());
        let text = |built| sources.json(built, &mut Vec::new())[0][2].clone();
        assert_eq!(text(Some(SystemTime::now())), "[package]");
        assert_eq!(text(None), Value::Null);
    }
}
