//! The part of TOML that rules use: keys with texts, numbers and lists of texts, and lists of
//! tables.

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
    let mut tables = vec![Table::default()];
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("[[") {
            let name = name.split_once("]]").filter(|(_, rest)| is_end(rest));
            let Some((name, _)) = name else {
                return Err(format!("line {number}: expected [[name]]"));
            };
            tables.push(Table {
                name: name.trim().to_owned(),
                line: number,
                keys: Vec::new(),
            });
            continue;
        }
        let Some((key, rest)) = line.split_once('=') else {
            return Err(format!("line {number}: expected key = value or [[rule]]"));
        };
        let (value, rest) =
            value(rest.trim_start()).map_err(|error| format!("line {number}: {error}"))?;
        if !is_end(rest) {
            return Err(format!("line {number}: unexpected text after the value"));
        }
        let key = key.trim().to_owned();
        let table = tables.last_mut().expect("the first table");
        if table.keys.iter().any(|(known, _, _)| *known == key) {
            return Err(format!("line {number}: {key} is given twice"));
        }
        table.keys.push((key, value, number));
    }
    Ok(tables)
}

/// Returns true if only a comment follows.
fn is_end(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with('#')
}

/// Parses a value, and returns the text after it.
fn value(text: &str) -> Result<(Value, &str), String> {
    if text.starts_with(['"', '\'']) {
        let (text, rest) = string(text)?;
        return Ok((Value::Text(text), rest));
    }
    if let Some(mut rest) = text.strip_prefix('[') {
        let mut texts = Vec::new();
        loop {
            rest = rest.trim_start();
            if let Some(rest) = rest.strip_prefix(']') {
                return Ok((Value::Texts(texts), rest));
            }
            let (text, after) = string(rest)?;
            texts.push(text);
            rest = after.trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
    }
    let end = text
        .find(|c: char| c.is_whitespace() || c == '#')
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    match number.replace('_', "").parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((Value::Number(number), rest)),
        _ => Err("expected a text in quotes, a number, or a list of texts in one line".to_owned()),
    }
}

/// Parses a text in quotes.
fn string(text: &str) -> Result<(String, &str), String> {
    if let Some(rest) = text.strip_prefix('\'') {
        let end = rest.split_once('\'');
        return end
            .map(|(text, rest)| (text.to_owned(), rest))
            .ok_or_else(|| "the text has no end".to_owned());
    }
    let Some(rest) = text.strip_prefix('"') else {
        return Err("expected a text in quotes".to_owned());
    };
    let mut parsed = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((parsed, &rest[at + 1..])),
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => parsed.push('\n'),
                Some('t') => parsed.push('\t'),
                Some(c @ ('"' | '\\')) => parsed.push(c),
                _ => return Err("unknown escape; known are \\\\, \\\", \\n and \\t".to_owned()),
            },
            c => parsed.push(c),
        }
    }
    Err("the text has no end".to_owned())
}

/// Returns a text in quotes.
pub(crate) fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('\n', "\\n").replace('\t', "\\t"))
}
