//! The values of TOML that rules use, with their lines: texts, numbers, lists of texts, and lists
//! of tables.

use std::ops::Range;

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Number(f64),
    Texts(Vec<String>),
}

/// A table: its name, the line with which it begins, and its keys with their lines.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) keys: Vec<(String, Value, usize)>,
}

/// Parses a text. The first table has the keys before any other.
pub(crate) fn parse(text: &str) -> Result<Vec<Table>, String> {
    let line = |span: Range<usize>| {
        let before = &text.as_bytes()[..span.start.min(text.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    };
    let all = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(1, line);
        format!("line {at}: {}", error.message().replace('\n', ", "))
    })?;
    let mut first = Table::default();
    let mut tables = Vec::new();
    for (key, value) in all.get_ref() {
        let name: &str = key.get_ref();
        let of_key = || format!("line {}", line(key.span()));
        match value.get_ref() {
            DeValue::Array(items)
                if items
                    .iter()
                    .any(|item| matches!(item.get_ref(), DeValue::Table(_))) =>
            {
                for item in items {
                    let DeValue::Table(keys) = item.get_ref() else {
                        return Err(format!("{}: expected [[{name}]]", of_key()));
                    };
                    let mut table = Table {
                        name: name.to_owned(),
                        line: line(item.span()),
                        keys: Vec::new(),
                    };
                    add_keys(keys, &line, &mut table)?;
                    tables.push(table);
                }
            }
            DeValue::Table(_) => return Err(format!("{}: expected [[rule]]", of_key())),
            value => {
                let line = line(key.span());
                first
                    .keys
                    .push((name.to_owned(), simple(value, line)?, line));
            }
        }
    }
    tables.insert(0, first);
    Ok(tables)
}

fn add_keys(
    keys: &DeTable<'_>,
    line: &dyn Fn(Range<usize>) -> usize,
    table: &mut Table,
) -> Result<(), String> {
    for (key, value) in keys {
        let at = line(key.span());
        let value = simple(value.get_ref(), at)?;
        table.keys.push((key.get_ref().to_string(), value, at));
    }
    // The keys of a table are not in their order.
    table.keys.sort_by_key(|(_, _, line)| *line);
    Ok(())
}

/// Returns a value that rules may have.
fn simple(value: &DeValue<'_>, line: usize) -> Result<Value, String> {
    let error = || format!("line {line}: expected a text in quotes, a number, or a list of texts");
    let number = |text: &str| match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Value::Number(number)),
        _ => Err(error()),
    };
    match value {
        DeValue::String(text) => Ok(Value::Text(text.to_string())),
        DeValue::Integer(integer) if integer.radix() == 10 => number(integer.as_str()),
        DeValue::Float(float) => number(float.as_str()),
        DeValue::Array(items) => {
            let text = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
                DeValue::String(text) => Ok(text.to_string()),
                _ => Err(error()),
            };
            items
                .iter()
                .map(text)
                .collect::<Result<_, _>>()
                .map(Value::Texts)
        }
        _ => Err(error()),
    }
}

/// Returns a text in quotes.
pub(crate) fn quoted(text: &str) -> String {
    ::toml::Value::from(text).to_string()
}
