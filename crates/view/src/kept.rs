//! The files with what the page remembers for its user: settings, keys and earlier queries.
//!
//! Browsers keep such values by the port of a server, which changes each time.

use std::fs::{self, DirBuilder, File};
use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use ferretto_http::{Head, Response};
use serde_json::{Map, Value};

use crate::frame::Frame;
use crate::replies::{bad, json_reply, not_found};

/// The names of the values. The first ones are part of the page, the last one is requested.
const NAMES: [&str; 3] = ["settings", "keys", "sql"];
const EARLY: usize = 2;
/// The maximum size of a file.
const MAX_SIZE: u64 = 512 << 10;

/// A folder with a file of JSON for each value.
#[derive(Debug)]
pub(crate) struct Kept {
    folder: PathBuf,
}

impl Kept {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Answers a request to read all values, or to replace one.
    pub(crate) fn answer(&self, head: &Head, body: &[u8]) -> Response {
        if head.method == "GET" {
            return json_reply(&self.values(&NAMES).into());
        }
        let name = head.value("name").unwrap_or_default();
        if !NAMES.contains(&name.as_str()) {
            return not_found();
        }
        if body.len() as u64 > MAX_SIZE || serde_json::from_slice::<Value>(body).is_err() {
            return bad("The value is too long, or not JSON.");
        }
        match self.write(&name, body) {
            Ok(()) => json_reply(&Value::Null),
            Err(error) => bad(&format!("It cannot be kept: {error:#}.")),
        }
    }

    /// Returns the frame with the values that the page needs at once.
    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut frame = Frame::new("kept");
        for (name, value) in self.values(&NAMES[..EARLY]) {
            frame.field(&name, value);
        }
        frame.finish()
    }

    fn values(&self, names: &[&str]) -> Map<String, Value> {
        let value = |name: &&str| ((*name).to_owned(), self.read(name).unwrap_or(Value::Null));
        names.iter().map(value).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    /// Returns a value. A damaged file has none.
    fn read(&self, name: &str) -> Option<Value> {
        let path = self.path(name);
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut text = Vec::new();
        let file = File::open(&path).ok()?;
        file.take(MAX_SIZE + 1).read_to_end(&mut text).ok()?;
        let is_whole = text.len() as u64 <= MAX_SIZE;
        serde_json::from_slice(&text).ok().filter(|_| is_whole)
    }

    fn write(&self, name: &str, value: &[u8]) -> anyhow::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        ferretto_output::write_private(&self.path(name), &[], |file| {
            file.write_all(value).map_err(Into::into)
        })
    }
}
