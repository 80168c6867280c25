//! The interactive shell.

use std::path::PathBuf;
use std::time::Instant;

use ferretto_output::printable;
use ferretto_query::Engine;
use ferretto_query::output::Format;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use super::{lines, print_results, terminal_width};

const HELP: &str = "\
A statement ends with a semicolon and may have several lines.
.tables [PATTERN]   tables and views
.schema TABLE       columns of a table
.modules            modules for INCLUDE PERFETTO MODULE
.format FORMAT      table, csv, json or ndjson
.timing             turn the duration after each query on or off
.read FILE          run the SQL of a file
.quit               leave; so does Ctrl-D
Ctrl-C cancels a running query. Tab completes names.";

/// Words to complete besides names.
const WORDS: &[&str] = &[
    ".tables",
    ".schema",
    ".modules",
    ".format",
    ".timing",
    ".read",
    ".quit",
    ".help",
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "LIMIT",
    "JOIN",
    "LEFT JOIN",
    "USING",
    "INCLUDE PERFETTO MODULE",
    "CREATE PERFETTO TABLE",
    "CREATE PERFETTO VIEW",
];

const TABLES: &str = "SELECT name FROM sqlite_schema
WHERE type IN ('table', 'view') AND name NOT GLOB '[_]*' AND sql NOT LIKE '%USING __perfetto%'
ORDER BY name";

/// The words to complete.
struct Words(Vec<String>);

impl Helper for Words {}

impl Highlighter for Words {}

impl Hinter for Words {
    type Hint = String;
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input().trim();
        let whole = text.is_empty() || text.starts_with('.') || text.ends_with(';');
        Ok(if whole {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..position];
        let is_end = |c: char| !(c.is_alphanumeric() || c == '_' || c == '.');
        let start = before.rfind(is_end).map_or(0, |at| {
            at + before[at..].chars().next().map_or(1, char::len_utf8)
        });
        // After the name of a table and a dot, only the column is completed.
        let start = match before[start..].rfind('.') {
            Some(dot) if start + dot > 0 => start + dot + 1,
            _ => start,
        };
        let word = before[start..].to_lowercase();
        let found = self
            .0
            .iter()
            .filter(|known| known.to_lowercase().starts_with(&word));
        Ok((start, found.cloned().collect()))
    }
}

fn history() -> Option<PathBuf> {
    let folder = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")))?
        .join("ferretto");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("query_history"))
}

/// Returns the columns of a table.
fn columns(engine: &mut Engine, table: &str) -> Result<Vec<String>, String> {
    let table = table.replace('\'', "''");
    lines(
        engine,
        &format!("SELECT name FROM pragma_table_info('{table}')"),
    )
}

/// Returns the columns of a table with the type of their values. Columns have no declared type, so
/// some rows are read.
fn schema(engine: &mut Engine, table: &str) -> Result<Vec<String>, String> {
    let columns = columns(engine, table)?;
    if columns.is_empty() {
        return Err(format!("There is no table '{table}'."));
    }
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let kinds: Vec<String> = columns
        .iter()
        .map(|name| {
            let kind = format!("max(nullif(typeof({}), 'null'))", quoted(name));
            format!("ifnull({kind}, 'value')")
        })
        .collect();
    let rows = format!("(SELECT * FROM {} LIMIT 100)", quoted(table));
    let sql = format!("SELECT {} FROM {rows}", kinds.join(" || ' ' || "));
    let kinds = lines(engine, &sql)?.concat();
    let lines = columns.iter().zip(kinds.split(' '));
    Ok(lines
        .map(|(name, kind)| format!("{name:<28} {kind}"))
        .collect())
}

fn words(engine: &mut Engine) -> Vec<String> {
    let mut words: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
    for table in lines(engine, TABLES).unwrap_or_default() {
        words.extend(columns(engine, &table).unwrap_or_default());
        words.push(table);
    }
    words.extend(engine.module_names().map(str::to_owned));
    words.sort_unstable();
    words.dedup();
    words
}

/// Reads and runs statements and commands until the end of the input.
pub(super) fn run(engine: &mut Engine) -> Result<(), String> {
    let unusable = |error: &dyn std::fmt::Display| format!("cannot use the terminal: {error}");
    let mut editor: Editor<Words, DefaultHistory> =
        Editor::new().map_err(|error| unusable(&error))?;
    editor.set_helper(Some(Words(words(engine))));
    let history = history();
    if let Some(path) = &history {
        // The first time, there is no history.
        let _ = editor.load_history(path);
    }
    // Ctrl-C cancels the running query.
    let mut signals = Signals::new([SIGINT]).map_err(|error| unusable(&error))?;
    let (handle, interrupt) = (signals.handle(), engine.interrupt());
    let thread = std::thread::Builder::new().spawn(move || {
        for _ in signals.forever() {
            interrupt.interrupt();
        }
    });
    let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
    let result = read(engine, &mut editor);
    handle.close();
    // The thread only waits for signals.
    let _ = thread.join();
    if let Some(path) = &history {
        // The shell works without a history, too.
        let _ = editor.save_history(path);
    }
    result
}

fn read(engine: &mut Engine, editor: &mut Editor<Words, DefaultHistory>) -> Result<(), String> {
    let (mut format, mut timing) = (Format::Table, true);
    println!("SQL over the trace. .help lists commands, .tables the tables.");
    loop {
        let line = match editor.readline("> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(format!("cannot read the terminal: {error}")),
        };
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        // The shell works without a history, too.
        let _ = editor.add_history_entry(text);
        let Some(command) = text.strip_prefix('.') else {
            print_query(engine, text, format, timing);
            continue;
        };
        let mut words = command.trim_end_matches(';').split_whitespace();
        match (words.next().unwrap_or_default(), words.next()) {
            ("quit" | "q" | "exit", _) => return Ok(()),
            ("help", _) => println!("{HELP}"),
            ("timing", _) => {
                timing = !timing;
                println!("timing is {}", if timing { "on" } else { "off" });
            }
            ("format", Some(name)) => match Format::named(name) {
                Some(named) => format = named,
                None => println!("'{name}' is not a format: use table, csv, json or ndjson."),
            },
            ("read", Some(path)) => match std::fs::read_to_string(path) {
                Ok(sql) => print_query(engine, &sql, format, timing),
                Err(error) => println!("cannot read {path}: {error}"),
            },
            (name, argument) => print_line(&describe(engine, name, argument)),
        }
    }
}

/// Returns the output of a command that lists names.
fn describe(engine: &mut Engine, name: &str, argument: Option<&str>) -> String {
    let listed = match (name, argument) {
        ("tables", pattern) => lines(engine, TABLES).map(|mut names| {
            names.retain(|name| name.contains(pattern.unwrap_or_default()));
            names
        }),
        ("schema", Some(table)) => schema(engine, table),
        ("schema", None) => Err(".schema takes the name of a table".to_owned()),
        ("modules", _) => Ok(engine.module_names().map(str::to_owned).collect()),
        _ => Err(format!("There is no command '.{name}'. .help lists them.")),
    };
    listed.map_or_else(|message| message, |names| names.join("\n"))
}

/// Prints a text in which names of the trace cannot control the terminal.
fn print_line(text: &str) {
    println!("{}", printable(text));
}

/// Runs SQL and prints the results, until Ctrl-C.
fn print_query(engine: &mut Engine, sql: &str, format: Format, timing: bool) {
    let started = Instant::now();
    match print_results(engine, sql, format, terminal_width()) {
        Err(message) => print_line(&message),
        Ok(()) if timing => println!("{:.3} ms", started.elapsed().as_secs_f64() * 1000.0),
        Ok(()) => {}
    }
}
