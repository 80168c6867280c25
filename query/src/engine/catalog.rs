//! Tables about the library and the tables of a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::types::Value;
use rusqlite::{Connection, Result};

use crate::limits::Limits;
use crate::output::json_text;
use crate::relations::{Stored, StoredRows};
use crate::sqlite::{Callee, Relations, owned};
use crate::syntax::lexer::{Token, closing, quoted, split, tokenize};

const OBJECT: [&str; 13] = [
    "package",
    "module",
    "name",
    "qualified_name",
    "object_type",
    "exposed",
    "short_description",
    "summary",
    "description",
    "return_type",
    "return_description",
    "args",
    "cols",
];

/// A name with its type and the comment before it.
struct Field {
    name: String,
    kind: String,
    comment: String,
}

/// An object that a module defines.
struct Object {
    kind: &'static str,
    name: String,
    comment: String,
    returns: String,
    arguments: Vec<Field>,
    columns: Vec<Field>,
}

/// Returns the text of the comments in tokens.
fn comments(source: &str, tokens: &[Token], past: usize) -> String {
    let mut lines = Vec::new();
    for (index, token) in tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| token.is_space())
    {
        let end = tokens.get(index + 1).map_or(past, |next| next.at);
        let comment = source.get(token.at..end).unwrap_or_default();
        lines.extend(comment.lines().filter_map(|line| line.strip_prefix("--")));
    }
    let lines: Vec<&str> = lines.into_iter().map(str::trim).collect();
    lines.join(" ").trim().to_owned()
}

/// Returns a type that clients know. The Perfetto UI opens no trace if it finds another one.
fn shown_type(name: &str, kind: String) -> String {
    let shown = match kind.to_ascii_uppercase().as_str() {
        // Clients know this type only with the column that it joins.
        "JOINID" => "LONG",
        "PROTO" => "BYTES",
        "ANY" => type_by_name(name),
        _ => return kind,
    };
    shown.to_owned()
}

/// Returns the type that columns and arguments of a name have, as upstream's names show it.
fn type_by_name(name: &str) -> &'static str {
    let last = name.rsplit('_').next().unwrap_or_default();
    match last.to_ascii_lowercase().as_str() {
        "ts" => "TIMESTAMP",
        "dur" => "DURATION",
        "id" if name.ends_with("arg_set_id") => "ARGSETID",
        "id" | "count" | "depth" | "size" | "pid" | "tid" | "upid" | "utid" | "uid" | "ucpu"
        | "cpu" => "LONG",
        _ => "STRING",
    }
}

/// Returns the fields between parentheses.
fn fields(source: &str, tokens: &[Token]) -> Vec<Field> {
    let (mut fields, mut depth, mut start) = (Vec::new(), 0, 0);
    for at in 0..=tokens.len() {
        let token = tokens.get(at);
        depth += i32::from(token.is_some_and(|token| token.is("(")));
        depth -= i32::from(token.is_some_and(|token| token.is(")")));
        if token.is_some_and(|token| depth > 0 || !token.is(",")) {
            continue;
        }
        let part = &tokens[start..at];
        start = at + 1;
        let first = part.iter().position(|token| !token.is_space());
        let Some((first, name)) = first.and_then(|first| Some((first, part[first].name()?))) else {
            continue;
        };
        let kind: String = part[first + 1..]
            .iter()
            .filter(|token| !token.is_space())
            .map(|token| token.text.as_str())
            .collect();
        fields.push(Field {
            kind: shown_type(&name, kind),
            name,
            comment: comments(source, &part[..first], part[first].at),
        });
    }
    fields
}

/// Returns the object that a statement defines.
fn object(source: &str, tokens: &[Token]) -> Option<Object> {
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|at| !tokens[*at].is_space())
        .collect();
    let mut words = solid.iter().copied().peekable();
    let start = *words.peek()?;
    let mut next = |word: &str| words.next_if(|at| tokens[*at].is_word(word)).is_some();
    if !next("CREATE") {
        return None;
    }
    if next("OR") {
        next("REPLACE");
    }
    if !next("PERFETTO") {
        return None;
    }
    const KINDS: [&str; 4] = ["TABLE", "VIEW", "FUNCTION", "MACRO"];
    let mut kind = KINDS.into_iter().find(|kind| next(kind))?;
    let name = tokens[words.next()?].name()?;
    let mut list = |open: usize| {
        let close = closing(tokens, open)?;
        while words.next_if(|at| *at <= close).is_some() {}
        Some(fields(source, &tokens[open + 1..close]))
    };
    let at_list = solid
        .iter()
        .copied()
        .find(|at| *at > start && tokens[*at].is("("));
    let at_as = solid.iter().copied().find(|at| tokens[*at].is_word("AS"));
    let has_list = at_list.filter(|open| at_as.is_none_or(|at| *open < at));
    let first = has_list.and_then(&mut list).unwrap_or_default();
    let (mut arguments, mut columns, mut returns) = (Vec::new(), Vec::new(), String::new());
    if matches!(kind, "TABLE" | "VIEW") {
        columns = first;
    } else {
        arguments = first;
        let rest = words.collect::<Vec<_>>();
        let rest: Vec<usize> = rest.into_iter().skip(1).collect();
        let result = *rest.first()?;
        if kind == "FUNCTION" && tokens[result].is_word("TABLE") {
            let open = *rest.get(1)?;
            columns = fields(source, &tokens[open + 1..closing(tokens, open)?]);
            kind = "TABLE_FUNCTION";
            returns = "TABLE".to_owned();
        } else {
            let until = rest
                .iter()
                .take_while(|at| !tokens[**at].is_word("AS") && !tokens[**at].is_word("DELEGATES"));
            returns = until.map(|at| tokens[*at].text.as_str()).collect();
        }
    }
    Some(Object {
        kind,
        name,
        comment: comments(source, &tokens[..start], tokens[start].at),
        returns,
        arguments,
        columns,
    })
}

fn json(fields: &[Field]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|field| {
            let [name, kind, comment] =
                [&field.name, &field.kind, &field.comment].map(|text| json_text(text));
            format!("{{\"name\":{name},\"type\":{kind},\"description\":{comment}}}")
        })
        .collect();
    format!("[{}]", fields.join(","))
}

/// Returns the rows of all objects of modules.
fn objects(modules: &BTreeMap<String, String>, limits: &Limits) -> Result<StoredRows> {
    let mut out = StoredRows::new(OBJECT.len(), limits);
    for (module, sql) in modules {
        let package = module.split('.').next().unwrap_or_default();
        let mut add = |object: &Object| {
            let qualified = match object.kind {
                "MODULE" => module.clone(),
                _ => format!("{module}.{}", object.name),
            };
            let is_exposed = !object.name.starts_with('_');
            let shown = if is_exposed { "public" } else { "internal" };
            let list = |title: &str, fields: &[Field]| -> String {
                let parts = fields.iter();
                let parts: Vec<_> = parts.map(|f| format!("{} ({})", f.name, f.kind)).collect();
                if parts.is_empty() {
                    String::new()
                } else {
                    format!("\n{title}: {}", parts.join(", "))
                }
            };
            let aliases = qualified.replace(['.', '_'], " ");
            let returns = match object.returns.as_str() {
                "" => String::new(),
                returns => format!("\nReturns: {returns}"),
            };
            let summary = format!(
                "{qualified}\nKind: {shown} {}\n{}{}{}{returns}\nSearch aliases: {aliases}",
                object.kind,
                object.comment,
                list("Arguments", &object.arguments),
                list("Columns", &object.columns),
            );
            let sentence = object.comment.split_inclusive(". ").next();
            let short = sentence.unwrap_or_default().trim();
            let texts = [package, module, &object.name, &qualified, object.kind];
            out.extend(texts.map(|text| Value::Text(text.to_owned())))?;
            out.push(i64::from(is_exposed))?;
            let texts = [short, &summary, &object.comment, &object.returns, ""];
            out.extend(texts.map(|text| Value::Text(text.to_owned())))?;
            out.push(json(&object.arguments))?;
            out.push(json(&object.columns))
        };
        add(&Object {
            kind: "MODULE",
            name: module.clone(),
            comment: String::new(),
            returns: String::new(),
            arguments: Vec::new(),
            columns: Vec::new(),
        })?;
        let statements = split(tokenize(sql).unwrap_or_default());
        for object in statements.iter().filter_map(|tokens| object(sql, tokens)) {
            add(&object)?;
        }
    }
    Ok(out)
}

/// Registers `__intrinsic_stdlib_objects`, the objects of the library.
pub(super) fn register_objects(
    connection: &Connection,
    relations: &Relations,
    modules: &BTreeMap<String, String>,
    limits: &Limits,
) -> Result<()> {
    let (modules, limits) = (modules.clone(), limits.clone());
    let relation = Stored::new(OBJECT.map(str::to_owned).to_vec(), Vec::new(), move |_| {
        objects(&modules, &limits).map(Arc::new)
    });
    relations.register(connection, "__intrinsic_stdlib_objects", relation)
}

/// The types and orders of columns that `perfetto_table_info` knows, as upstream names them.
const BY_ID: i64 = 0;
const SORTED: i64 = 2;
const UNSORTED: i64 = 3;

/// A summary of the values of a column.
struct Values {
    count: i64,
    nulls: i64,
    kind: &'static str,
    is_id: bool,
    is_sorted: bool,
    last: Option<i64>,
}

impl Values {
    fn add(&mut self, value: &Value) {
        let (is_null, number) = match value {
            Value::Null => (true, None),
            Value::Integer(number) => (false, Some(*number)),
            Value::Real(_) => {
                self.kind = "double";
                (false, None)
            }
            Value::Text(_) | Value::Blob(_) => {
                self.kind = "string";
                (false, None)
            }
        };
        self.nulls += i64::from(is_null);
        self.is_id &= number == Some(self.count);
        self.is_sorted &= number.is_some_and(|number| self.last.is_none_or(|last| last <= number));
        if let Some(number) = number {
            self.kind = match self.kind {
                "uint32" if u32::try_from(number).is_ok() => "uint32",
                "uint32" | "int32" if i32::try_from(number).is_ok() => "int32",
                "uint32" | "int32" => "int64",
                other => other,
            };
            self.last = Some(number);
        }
        self.count += 1;
    }

    fn described(&self) -> (&'static str, i64) {
        match (self.is_id && self.kind == "uint32", self.is_sorted) {
            (true, _) => ("id", BY_ID),
            (false, true) => (self.kind, SORTED),
            (false, false) => (self.kind, UNSORTED),
        }
    }
}

/// Returns rows `id, table_name, name, col_type, nullable, sorted` of a table.
fn table_info(callee: &Callee, table: &str, limits: &Limits) -> Result<StoredRows> {
    let mut statement = callee.prepare(&format!("SELECT * FROM {}", quoted(table)))?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let new = || Values {
        count: 0,
        nulls: 0,
        kind: "uint32",
        is_id: true,
        is_sorted: true,
        last: None,
    };
    let mut columns: Vec<Values> = names.iter().map(|_| new()).collect();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        for (index, column) in columns.iter_mut().enumerate() {
            column.add(&owned(row.get_ref(index)?));
        }
    }
    let mut out = StoredRows::new(6, limits);
    let mut add = |name: &str, kind: &str, nulls: i64, sorted: i64| {
        out.push(out.len() as i64)?;
        out.extend([table, name, kind].map(|text| Value::Text(text.to_owned())))?;
        out.extend([i64::from(nulls > 0), sorted].map(Value::Integer))
    };
    for (name, column) in names.iter().zip(&columns) {
        let (kind, sorted) = column.described();
        add(name, kind, column.nulls, sorted)?;
    }
    add("_auto_id", "id", 0, BY_ID)?;
    Ok(out)
}

/// Registers `perfetto_table_info(table)`, the columns of a table.
pub(super) fn register_table_info(
    connection: &Connection,
    relations: &Relations,
    callee: &std::sync::Weak<Callee>,
    limits: &Limits,
) -> Result<()> {
    let columns = ["id", "table_name", "name", "col_type", "nullable", "sorted"];
    let (callee, limits) = (callee.clone(), limits.clone());
    let relation = Stored::new(
        columns.map(str::to_owned).to_vec(),
        vec!["in_table".to_owned()],
        move |arguments| {
            let (Some(Value::Text(table)), Some(callee)) = (arguments.first(), callee.upgrade())
            else {
                return Err(crate::objects::failure(
                    "perfetto_table_info takes the name of a table",
                ));
            };
            limits
                .nested("perfetto_table_info", || {
                    table_info(&callee, table, &limits)
                })
                .map(Arc::new)
        },
    );
    relations.register(connection, "perfetto_table_info", relation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_their_types_and_comments() {
        let sql = "-- A table.\nCREATE PERFETTO TABLE t(\n-- The id.\nid JOINID(slice.id), b JOINID, start_ts ANY, \
                   text ANY) AS SELECT 1 AS id, (2) AS b, 3 AS start_ts, 4 AS text;\n-- Adds.\n-- Two.\nCREATE PERFETTO FUNCTION f(a LONG) \
                   RETURNS TABLE(x STRING) AS SELECT 1 AS x; CREATE PERFETTO MACRO _m() RETURNS Expr AS 1;";
        let modules = BTreeMap::from([("a.b".to_owned(), sql.to_owned())]);
        let rows = objects(&modules, &Limits::default()).expect("rows");
        let text = |row: usize, column: usize| match &rows.row(row)[column] {
            Value::Text(text) => text.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!((rows.len(), text(0, 4)), (4, "MODULE".to_owned()));
        assert_eq!(text(1, 8), "A table.");
        assert_eq!(
            text(1, 12),
            r#"[{"name":"id","type":"JOINID(slice.id)","description":"The id."},{"name":"b","type":"LONG","description":""},{"name":"start_ts","type":"TIMESTAMP","description":""},{"name":"text","type":"STRING","description":""}]"#
        );
        assert_eq!(
            (text(2, 4), text(2, 8)),
            ("TABLE_FUNCTION".to_owned(), "Adds. Two.".to_owned())
        );
        assert_eq!(
            text(2, 11),
            r#"[{"name":"a","type":"LONG","description":""}]"#
        );
        assert_eq!(
            (text(3, 3), text(3, 9)),
            ("a.b._m".to_owned(), "Expr".to_owned())
        );
    }
}
