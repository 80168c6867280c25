//! The interactive shell.

use std::borrow::Cow;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use ferretto_fleet::engine::Engine;
use ferretto_fleet::output::Format;
use ferretto_output::printable;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper};

use super::{print_results, standard_output, terminal_width};

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

const COMMANDS: &[&str] = &[
    ".tables", ".schema", ".modules", ".format", ".timing", ".read", ".quit", ".help",
];

/// Keywords to complete.
const KEYWORDS: &[&str] = &[
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

/// The words to complete.
struct Words(Vec<String>);

impl Helper for Words {}

impl Highlighter for Words {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Borrowed(prompt)
    }
}

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
        let start = before
            .rfind(|c: char| {
                !(c.is_alphanumeric() || c == '_' || (c == '.' && position == line.len()))
            })
            .map_or(0, |at| {
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
            .filter(|w| w.to_lowercase().starts_with(&word))
            .cloned();
        Ok((start, found.collect()))
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

async fn words(engine: &mut Engine) -> Vec<String> {
    let mut words: Vec<String> = COMMANDS
        .iter()
        .chain(KEYWORDS)
        .map(|w| (*w).to_owned())
        .collect();
    for table in engine.table_names() {
        if let Ok(schema) = engine.columns(&table).await {
            words.extend(schema.fields().iter().map(|f| f.name().clone()));
        }
        words.push(table);
    }
    words.extend(engine.module_names().map(str::to_owned));
    words.sort_unstable();
    words.dedup();
    words
}

/// Reads and runs statements and commands until the end of the input.
pub(super) async fn run(engine: &mut Engine) -> Result<(), String> {
    let mut editor: Editor<Words, DefaultHistory> =
        Editor::new().map_err(|e| format!("cannot use the terminal: {e}"))?;
    editor.set_helper(Some(Words(words(engine).await)));
    let history = history();
    if let Some(path) = &history {
        // The first time, there is no history.
        let _ = editor.load_history(path);
    }
    let mut format = Format::Table;
    let mut timing = true;
    println!("SQL over the trace. .help lists commands, .tables the tables.");
    loop {
        let line = match editor.readline("> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(format!("cannot read the terminal: {error}")),
        };
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        // The shell works without a history, too.
        let _ = editor.add_history_entry(text);
        if let Some(command) = text.strip_prefix('.') {
            let mut words = command.trim_end_matches(';').split_whitespace();
            let name = words.next().unwrap_or_default();
            let argument = words.next();
            match (name, argument) {
                ("quit" | "q" | "exit", _) => break,
                ("help", _) => println!("{HELP}"),
                ("timing", _) => {
                    timing = !timing;
                    println!("timing is {}", if timing { "on" } else { "off" });
                }
                ("format", Some(name)) => match name {
                    "table" => format = Format::Table,
                    "csv" => format = Format::Csv,
                    "json" => format = Format::Json,
                    "ndjson" => format = Format::Ndjson,
                    _ => println!(
                        "'{name}' is not a format for a terminal: use table, csv, json or ndjson."
                    ),
                },
                ("read", Some(path)) => match std::fs::read_to_string(path) {
                    Ok(sql) => print_query(engine, &sql, format, timing).await,
                    Err(error) => println!("cannot read {path}: {error}"),
                },
                _ => println!("{}", printable(&describe(engine, name, argument).await)),
            }
        } else {
            print_query(engine, text, format, timing).await;
        }
    }
    if let Some(path) = &history {
        let _ = editor.save_history(path);
    }
    Ok(())
}

/// Returns the output of a command that lists names.
pub(super) async fn describe(engine: &mut Engine, name: &str, argument: Option<&str>) -> String {
    match (name, argument) {
        ("tables", pattern) => {
            let pattern = pattern.unwrap_or_default();
            let names = engine.table_names();
            let names: Vec<&str> = names
                .iter()
                .map(String::as_str)
                .filter(|n| n.contains(pattern))
                .collect();
            names.join("\n")
        }
        ("schema", Some(table)) => match engine.columns(table).await {
            Ok(schema) => {
                let lines: Vec<String> = schema
                    .fields()
                    .iter()
                    .map(|f| format!("{:<28} {}", f.name(), type_name(f.data_type())))
                    .collect();
                lines.join("\n")
            }
            Err(error) => error.message,
        },
        ("schema", None) => ".schema takes the name of a table".to_owned(),
        ("modules", _) => engine.module_names().collect::<Vec<_>>().join("\n"),
        _ => format!("There is no command '.{name}'. .help lists them."),
    }
}

fn type_name(data_type: &impl std::fmt::Display) -> &'static str {
    let name = data_type.to_string();
    if name.starts_with("Utf8") {
        "text"
    } else if name.starts_with("Float") {
        "real"
    } else if name.starts_with("Int") || name.starts_with("UInt") || name == "Boolean" {
        "integer"
    } else {
        "value"
    }
}

/// Runs SQL and prints the results, until Ctrl-C.
async fn print_query(engine: &mut Engine, sql: &str, format: Format, timing: bool) {
    let started = Instant::now();
    let mut out = standard_output();
    let done = tokio::select! {
        done = print_results(engine, sql, format, terminal_width(), &mut out) => Some(done),
        _ = tokio::signal::ctrl_c() => None,
    };
    let _ = out.flush();
    match done {
        None => println!("cancelled"),
        Some(Err(error)) => println!("{}", printable(&error.render(sql))),
        Some(Ok(())) if timing => {
            println!("{:.3} ms", started.elapsed().as_secs_f64() * 1000.0);
        }
        Some(Ok(())) => {}
    }
}
