//! Aggregate functions that concatenate texts: `group_concat`, `string_agg`, `json_group_array` and
//! `json_group_object`. SQLite's own read on after the longest text, although their result is an
//! error then.

use std::collections::VecDeque;
use std::ffi::c_uint;
use std::sync::{Arc, Weak};

use rusqlite::functions::{Aggregate, Context, FunctionFlags, SubType, WindowAggregate};
use rusqlite::limits::Limit;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, Result, ffi};

use crate::limits::{Charge, Limits};
use crate::sqlite::Callee;

/// The subtype of texts that are JSON.
const JSON: c_uint = b'J' as c_uint;

/// The form of a concatenation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Texts that are not NULL, with a separator before each but the first.
    Text,
    /// An array of values.
    Array,
    /// An object of keys that are not NULL, and values.
    Object,
}

struct Concat {
    form: Form,
    /// The largest number of bytes.
    most: usize,
    limits: Limits,
    /// For texts of values that are SQLite's own.
    callee: Weak<Callee>,
}

/// The texts of a group or a window.
#[derive(Debug)]
struct Texts {
    bytes: Vec<u8>,
    /// The beginning of the first text that is still in the window.
    first: usize,
    /// The number of texts.
    count: u64,
    /// The lengths of the separators before all texts but the first, each with the number of times
    /// that it follows.
    separators: VecDeque<(usize, u64)>,
    charge: Charge,
}

impl Concat {
    /// Appends the result of a function of SQLite.
    fn append_result(&self, sql: &str, value: ValueRef<'_>, bytes: &mut Vec<u8>) -> Result<()> {
        let callee = self.callee.upgrade().ok_or(Error::InvalidQuery)?;
        let mut function = callee.prepare(sql)?;
        let text: String = function.query_row([crate::sqlite::owned(value)], |row| row.get(0))?;
        bytes.extend(text.as_bytes());
        Ok(())
    }

    /// Appends a value as text.
    fn append(&self, value: ValueRef<'_>, bytes: &mut Vec<u8>) -> Result<()> {
        match value {
            ValueRef::Null => {}
            ValueRef::Text(text) | ValueRef::Blob(text) => bytes.extend(text),
            ValueRef::Integer(number) => bytes.extend(number.to_string().as_bytes()),
            ValueRef::Real(_) => self.append_result("SELECT CAST(?1 AS TEXT)", value, bytes)?,
        }
        Ok(())
    }

    /// Appends a value as JSON.
    fn append_json(&self, value: ValueRef<'_>, bytes: &mut Vec<u8>) -> Result<()> {
        let is_plain = |text: &[u8]| {
            let is_special = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\' | 127..);
            !text.iter().any(is_special)
        };
        match value {
            ValueRef::Null => bytes.extend(b"null"),
            ValueRef::Integer(number) => bytes.extend(number.to_string().as_bytes()),
            ValueRef::Text(text) if is_plain(text) => {
                bytes.push(b'"');
                bytes.extend(text);
                bytes.push(b'"');
            }
            _ => self.append_result("SELECT json_quote(?1)", value, bytes)?,
        }
        Ok(())
    }

    /// Appends the text of a row, without a separator.
    fn append_row(&self, context: &Context<'_>, bytes: &mut Vec<u8>) -> Result<()> {
        if self.form == Form::Text {
            return self.append(context.get_raw(0), bytes);
        }
        let last = context.len() - 1;
        if self.form == Form::Object {
            let mut key = Vec::new();
            self.append(context.get_raw(0), &mut key)?;
            self.append_json(ValueRef::Text(&key), bytes)?;
            bytes.push(b':');
        }
        match context.get_raw(last) {
            ValueRef::Text(json) if context.get_subtype(last) == JSON => bytes.extend(json),
            value => self.append_json(value, bytes)?,
        }
        Ok(())
    }

    /// Appends the separator before the text of a row.
    fn append_separator(&self, context: &Context<'_>, bytes: &mut Vec<u8>) -> Result<()> {
        if self.form == Form::Text && context.len() > 1 {
            return self.append(context.get_raw(1), bytes);
        }
        bytes.push(b',');
        Ok(())
    }

    fn is_skipped(&self, context: &Context<'_>) -> bool {
        self.form != Form::Array && context.get_raw(0) == ValueRef::Null
    }

    fn result(&self, texts: Option<&Texts>) -> (Value, SubType) {
        let texts = texts.filter(|texts| texts.count > 0);
        let bytes = texts.map_or(&[][..], |texts| &texts.bytes[texts.first..]);
        let within = |begin: &[u8], end: &[u8]| Value::Text(text([begin, bytes, end].concat()));
        match self.form {
            Form::Text if texts.is_none() => (Value::Null, None),
            Form::Text => (within(b"", b""), None),
            Form::Array => (within(b"[", b"]"), Some(JSON)),
            Form::Object => (within(b"{", b"}"), Some(JSON)),
        }
    }
}

impl Aggregate<Texts, (Value, SubType)> for Concat {
    fn init(&self, _: &mut Context<'_>) -> Result<Texts> {
        Ok(Texts {
            bytes: Vec::new(),
            first: 0,
            count: 0,
            separators: VecDeque::new(),
            charge: self.limits.charge(),
        })
    }

    fn step(&self, context: &mut Context<'_>, texts: &mut Texts) -> Result<()> {
        if self.is_skipped(context) {
            return Ok(());
        }
        let before = texts.bytes.len();
        if texts.count > 0 {
            self.append_separator(context, &mut texts.bytes)?;
            let length = texts.bytes.len() - before;
            match texts.separators.back_mut() {
                Some((last, count)) if *last == length => *count += 1,
                _ => {
                    texts.charge.grow(size_of::<(usize, u64)>() as u64)?;
                    texts.separators.push_back((length, 1));
                }
            }
        }
        self.append_row(context, &mut texts.bytes)?;
        texts.count += 1;
        texts.charge.grow((texts.bytes.len() - before) as u64)?;
        if texts.bytes.len() - texts.first > self.most {
            let error = ffi::Error::new(ffi::SQLITE_TOOBIG);
            return Err(Error::SqliteFailure(error, None));
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, texts: Option<Texts>) -> Result<(Value, SubType)> {
        Ok(self.result(texts.as_ref()))
    }
}

impl WindowAggregate<Texts, (Value, SubType)> for Concat {
    fn value(&self, texts: Option<&mut Texts>) -> Result<(Value, SubType)> {
        Ok(self.result(texts.as_deref()))
    }

    fn inverse(&self, context: &mut Context<'_>, texts: &mut Texts) -> Result<()> {
        if self.is_skipped(context) {
            return Ok(());
        }
        let mut left = Vec::new();
        self.append_row(context, &mut left)?;
        texts.first += left.len();
        texts.count -= 1;
        if let Some((length, count)) = texts.separators.front_mut() {
            texts.first += *length;
            *count -= 1;
            if *count == 0 {
                texts.separators.pop_front();
                texts.charge.shrink(size_of::<(usize, u64)>() as u64);
            }
        }
        if texts.first > texts.bytes.len() / 2 {
            texts.bytes.drain(..texts.first);
            texts.charge.shrink(texts.first as u64);
            texts.first = 0;
        }
        Ok(())
    }
}

/// Returns bytes as text. Those of blobs may be no UTF-8.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Registers the functions. The limits of the connection must be set before.
pub(crate) fn register(
    connection: &Connection,
    callee: &Arc<Callee>,
    limits: &Limits,
) -> Result<()> {
    let most = connection.limit(Limit::SQLITE_LIMIT_LENGTH)?;
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    let of_json = FunctionFlags::SQLITE_SUBTYPE | FunctionFlags::SQLITE_RESULT_SUBTYPE;
    for (name, count, form) in [
        ("group_concat", 1, Form::Text),
        ("group_concat", 2, Form::Text),
        ("string_agg", 2, Form::Text),
        ("json_group_array", 1, Form::Array),
        ("json_group_object", 2, Form::Object),
    ] {
        let function = Concat {
            form,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            limits: limits.clone(),
            callee: Arc::downgrade(callee),
        };
        let flags = match form {
            Form::Text => flags,
            Form::Array | Form::Object => flags | of_json,
        };
        connection.create_window_function(name, count, flags, function)?;
    }
    Ok(())
}
