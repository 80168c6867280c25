//! Writing JSON.

use std::fmt::{Display, Write as _};

use ferretto_text::terminal::controls;

/// The version of the answers. It grows when a field is removed or changes its meaning.
const VERSION: u32 = 1;

/// A JSON text under construction. Members and elements are given by the closures.
#[derive(Default)]
pub(crate) struct Json(String);

/// Returns an answer of a command as one line: an object whose first member is the version.
/// `docs/schema` describes the answers.
pub(crate) fn answer(members: impl FnOnce(&mut Members<'_>)) -> String {
    let mut json = Json::default();
    json.object(|all| {
        all.add("version", VERSION);
        members(all);
    });
    json.into_line()
}

impl Json {
    /// Returns the text, as one line.
    pub(crate) fn into_line(mut self) -> String {
        self.0.push('\n');
        self.0
    }

    /// Returns the text so far.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Removes the text, so that its memory is used again.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, digits: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{digits}");
    }

    pub(crate) fn string(&mut self, text: &str) {
        self.0.push('"');
        let is_plain = |byte: u8| (b' '..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
        let plain = text.bytes().position(|byte| !is_plain(byte));
        let (plain, rest) = text.split_at(plain.unwrap_or(text.len()));
        self.0.push_str(plain);
        for c in rest.chars() {
            match c {
                '"' => self.0.push_str("\\\""),
                '\\' => self.0.push_str("\\\\"),
                '\n' => self.0.push_str("\\n"),
                // Writing to a string cannot fail.
                c if controls(c) => drop(write!(self.0, "\\u{:04x}", u32::from(c))),
                c => self.0.push(c),
            }
        }
        self.0.push('"');
    }

    pub(crate) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        self.0.push('[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.0.push(',');
            }
            each(self, item);
        }
        self.0.push(']');
    }

    pub(crate) fn object(&mut self, members: impl FnOnce(&mut Members<'_>)) {
        self.0.push('{');
        members(&mut Members {
            json: self,
            is_first: true,
        });
        self.0.push('}');
    }
}

/// A value that can be written as JSON.
pub(crate) trait Value {
    /// Writes the value.
    fn write(&self, json: &mut Json);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            fn write(&self, json: &mut Json) {
                // Writing to a string cannot fail.
                let _ = write!(json.0, "{self}");
            }
        }
    )*};
}

numbers!(i32, i64, u32, u64, usize);

/// JSON has only finite numbers.
impl Value for f64 {
    fn write(&self, json: &mut Json) {
        let finite = if self.is_finite() { *self } else { 0.0 };
        // Writing to a string cannot fail.
        let _ = write!(json.0, "{finite}");
    }
}

impl Value for bool {
    fn write(&self, json: &mut Json) {
        json.0.push_str(if *self { "true" } else { "false" });
    }
}

impl Value for str {
    fn write(&self, json: &mut Json) {
        json.string(self);
    }
}

impl<T: Value + ?Sized> Value for &T {
    fn write(&self, json: &mut Json) {
        (**self).write(json);
    }
}

impl Value for String {
    fn write(&self, json: &mut Json) {
        json.string(self);
    }
}

impl<T: Value> Value for Option<T> {
    fn write(&self, json: &mut Json) {
        match self {
            Some(value) => value.write(json),
            None => json.0.push_str("null"),
        }
    }
}

/// The members of an object.
pub(crate) struct Members<'a> {
    json: &'a mut Json,
    is_first: bool,
}

impl Members<'_> {
    pub(crate) fn name(&mut self, name: &str) -> &mut Json {
        if !std::mem::take(&mut self.is_first) {
            self.json.0.push(',');
        }
        self.json.string(name);
        self.json.0.push(':');
        self.json
    }

    pub(crate) fn add(&mut self, name: &str, value: impl Value) {
        value.write(self.name(name));
    }

    /// Adds a list of objects.
    pub(crate) fn objects<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut members: impl FnMut(&mut Members<'_>, T),
    ) {
        let object = |json: &mut Json, item| json.object(|all| members(all, item));
        self.name(name).list(items, object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let mut json = Json::default();
        json.string("a\"b\\c\nd\u{1b}\u{9b}\u{202e}é");
        assert_eq!(json.0, "\"a\\\"b\\\\c\\nd\\u001b\\u009b\\u202eé\"");
    }

    #[test]
    fn members_and_elements_are_separated() {
        let mut json = Json::default();
        json.object(|members| {
            members.name("a").list([1, 2], |json, n| n.write(json));
            members.add("b", None::<u32>);
            members.name("c").object(|_| {});
        });
        assert_eq!(json.0, "{\"a\":[1,2],\"b\":null,\"c\":{}}");
    }
}
