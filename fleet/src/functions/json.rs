//! Functions of JSON. Extracted values are texts, since a column has one type.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Float64Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use serde_json::Value;

use super::{ArrayFunction, integers, is_text, reals, texts};

pub(super) fn functions() -> Vec<ArrayFunction> {
    use DataType::{Int64, Utf8};
    vec![
        ArrayFunction::new("json", 1..=1, Utf8, |args, _| {
            each(&texts(&args[0])?, |value| Some(value.to_string()))
        }),
        ArrayFunction::new("json_valid", 1..=1, Int64, |args, _| {
            let valid = |text: &str| i64::from(serde_json::from_str::<Value>(text).is_ok());
            let texts = texts(&args[0])?;
            Ok(Arc::new(
                texts.iter().map(|t| t.map(valid)).collect::<Int64Array>(),
            ))
        }),
        ArrayFunction::new("json_quote", 1..=1, Utf8, |args, rows| {
            let quoted = members(&args[0])?;
            Ok(Arc::new(StringArray::from_iter_values(
                (0..rows).map(|row| quoted[row].clone()),
            )))
        }),
        ArrayFunction::new("json_type", 1..=2, Utf8, |args, rows| {
            at_path(args, rows, |value| Some(kind(value).to_owned()))
        }),
        ArrayFunction::new("json_array_length", 1..=2, Int64, |args, rows| {
            let lengths = at_path(args, rows, |value| {
                Some(value.as_array().map_or(0, Vec::len).to_string())
            })?;
            Ok(Arc::new(integers(&lengths)?))
        }),
        ArrayFunction::new("json_extract", 2..=2, Utf8, |args, rows| {
            at_path(args, rows, plain)
        }),
        // The operators `->` and `->>`.
        ArrayFunction::new("__json_part", 2..=2, Utf8, |args, rows| {
            at_path(args, rows, |value| Some(value.to_string()))
        }),
        ArrayFunction::new("__json_value", 2..=2, Utf8, |args, rows| {
            at_path(args, rows, plain)
        }),
        ArrayFunction::new("json_array", 0..=usize::MAX, Utf8, |args, rows| {
            let columns = args.iter().map(members).collect::<Result<Vec<_>>>()?;
            let array = |row: usize| {
                let items: Vec<&str> = columns.iter().map(|c| c[row].as_str()).collect();
                format!("[{}]", items.join(","))
            };
            Ok(Arc::new(StringArray::from_iter_values(
                (0..rows).map(array),
            )))
        }),
        ArrayFunction::new("json_object", 0..=usize::MAX, Utf8, object),
    ]
}

/// Computes `json_object(key, value, …)`.
fn object(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    if !args.len().is_multiple_of(2) {
        return exec_err!(
            "json_object takes pairs of keys and values, so an even number of arguments."
        );
    }
    let pairs = args
        .chunks_exact(2)
        .map(|pair| Ok((texts(&pair[0])?, members(&pair[1])?)))
        .collect::<Result<Vec<_>>>()?;
    let mut objects = Vec::with_capacity(rows);
    for row in 0..rows {
        let mut items = Vec::with_capacity(pairs.len());
        for (keys, values) in &pairs {
            if keys.is_null(row) {
                return exec_err!("json_object: keys must not be NULL.");
            }
            items.push(format!("{}:{}", Value::from(keys.value(row)), values[row]));
        }
        objects.push(format!("{{{}}}", items.join(",")));
    }
    Ok(Arc::new(StringArray::from(objects)))
}

/// Converts the values of a column to JSON.
fn members(array: &ArrayRef) -> Result<Vec<String>> {
    let null = || "null".to_owned();
    let kind = array.data_type();
    Ok(if is_text(kind) {
        let quote = |text: &str| Value::from(text).to_string();
        let texts = texts(array)?;
        texts.iter().map(|t| t.map_or_else(null, quote)).collect()
    } else if kind.is_floating() {
        let values: Float64Array = reals(array)?;
        let number = |v: f64| Value::from(v).to_string();
        values.iter().map(|v| v.map_or_else(null, number)).collect()
    } else if kind.is_binary() {
        return exec_err!("JSON cannot contain blobs.");
    } else {
        let values = integers(array)?;
        values
            .iter()
            .map(|v| v.map_or_else(null, |v| v.to_string()))
            .collect()
    })
}

fn parse(text: &str) -> Result<Value> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(_) => exec_err!("malformed JSON"),
    }
}

fn each(texts: &StringArray, make: impl Fn(&Value) -> Option<String>) -> Result<ArrayRef> {
    let mut made = Vec::with_capacity(texts.len());
    for text in texts {
        made.push(match text {
            Some(text) => make(&parse(text)?),
            None => None,
        });
    }
    Ok(Arc::new(StringArray::from(made)))
}

/// Converts the value at the path of the second argument; without a second argument, the whole
/// document.
fn at_path(
    args: &[ArrayRef],
    rows: usize,
    make: impl Fn(&Value) -> Option<String>,
) -> Result<ArrayRef> {
    let documents = texts(&args[0])?;
    let paths = args.get(1).map(texts).transpose()?;
    let mut made = Vec::with_capacity(rows);
    for row in 0..rows {
        let path = match &paths {
            Some(paths) if paths.is_null(row) => None,
            Some(paths) => Some(paths.value(row)),
            None => Some("$"),
        };
        made.push(match path.filter(|_| documents.is_valid(row)) {
            Some(path) => find(&parse(documents.value(row))?, path)?.and_then(&make),
            None => None,
        });
    }
    Ok(Arc::new(StringArray::from(made)))
}

/// Returns the value at a path such as `$.a[0]`, or a name or an index alone.
fn find<'a>(value: &'a Value, path: &str) -> Result<Option<&'a Value>> {
    let Some(mut rest) = path.strip_prefix('$') else {
        return Ok(match path.parse::<usize>() {
            Ok(position) => value.get(position),
            Err(_) => value.get(path),
        });
    };
    let mut at = Some(value);
    while !rest.is_empty() {
        let bad = || format!("JSON path error near '{path}'");
        if let Some(after) = rest.strip_prefix('.') {
            let (name, end) = match after.strip_prefix('"') {
                Some(quoted) => match quoted.find('"') {
                    Some(end) => (&quoted[..end], &quoted[end + 1..]),
                    None => return exec_err!("{}", bad()),
                },
                None => {
                    let end = after.find(['.', '[']).unwrap_or(after.len());
                    after.split_at(end)
                }
            };
            at = at.and_then(|value| value.get(name));
            rest = end;
        } else if let Some((index, after)) =
            rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        {
            let items = at.and_then(Value::as_array);
            let position = match index.strip_prefix("#-") {
                Some(back) => back
                    .parse::<usize>()
                    .ok()
                    .and_then(|back| items.and_then(|items| items.len().checked_sub(back))),
                None => index.parse().ok(),
            };
            at = items.and_then(|items| items.get(position?));
            rest = after;
        } else {
            return exec_err!("{}", bad());
        }
    }
    Ok(at)
}

/// Converts a value to SQL: NULL, or a text without quotes.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bool(value) => Some(u8::from(*value).to_string()),
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Number(number) if number.is_f64() => "real",
        Value::Number(_) => "integer",
        Value::String(_) => "text",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
