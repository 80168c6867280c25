//! The rows of all tables of a trace.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use ferretto_tables::{StringPool, Table, Trace, Value as Cell};
use serde_json::{Value, json};

/// The number of rows shown for each table that differs.
const MAX_SHOWN: usize = 8;
/// Statistics that only ours have.
const STATS_OF_OURS: [&str; 2] = ["sched_switches", "sched_switches_missing"];

/// Statistics of the import itself.
const TIMES: [&str; 3] = [
    "guess_trace_type_duration_ns",
    "parse_trace_duration_ns",
    "clock_sync_cache_miss",
];

type Row = Vec<Value>;

/// The rows of a table.
#[derive(Debug, Default)]
struct TableRows {
    columns: Vec<String>,
    rows: Vec<Row>,
}

/// The rows of all tables that have any.
#[derive(Debug, Default)]
pub(crate) struct Rows(BTreeMap<String, TableRows>);

impl Rows {
    /// Returns the rows of our tables.
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut rows = Self::default();
        for table in trace.tables().all() {
            let spec = table.spec();
            let columns = spec.columns.iter().map(|column| column.name.to_owned());
            let values = (0..table.rows()).map(|row| row_of(table, row, trace.strings()));
            rows.add(spec.name, columns.collect(), values.collect());
        }
        rows.resolve_sets();
        rows
    }

    /// Adds a table. After the last one, [`Self::resolve_sets`] makes them comparable.
    pub(crate) fn add(&mut self, name: &str, columns: Vec<String>, rows: Vec<Row>) {
        if !rows.is_empty() {
            self.0.insert(name.to_owned(), TableRows { columns, rows });
        }
    }

    /// Replaces ids of argument sets by their content, and removes rows and columns that are not
    /// compared.
    pub(crate) fn resolve_sets(&mut self) {
        let sets = self.0.remove("args").map(sets_of).unwrap_or_default();
        for (name, table) in &mut self.0 {
            for (index, column) in table.columns.iter().enumerate() {
                if column.ends_with("arg_set_id") {
                    for row in &mut table.rows {
                        if let Some(id) = row[index].as_i64() {
                            row[index] = sets.get(&id).cloned().unwrap_or_default();
                        }
                    }
                }
            }
            match name.as_str() {
                "stats" => table.keep_values(),
                "cpu" => {
                    let cpu = table.index("cpu");
                    table.rows.retain(|row| !row[cpu].is_null());
                }
                _ => {}
            }
        }
        self.0.retain(|_, table| !table.rows.is_empty());
    }

    /// Parses the output of [`Self::to_string`].
    pub(crate) fn parse(text: &str) -> Self {
        let mut rows = Self::default();
        for part in text.split("\n\n").filter(|part| !part.trim().is_empty()) {
            let mut lines = part.lines();
            let mut words = lines.next().expect("a head").split(' ');
            let name = words.next().expect("a name");
            let parse = |line| serde_json::from_str(line).expect("a row");
            let table = TableRows {
                columns: words.map(str::to_owned).collect(),
                rows: lines.map(parse).collect(),
            };
            rows.0.insert(name.to_owned(), table);
        }
        rows
    }

    /// Returns the differences to `ours` of each table that has any. Ignores columns that only ours
    /// have.
    pub(crate) fn differences(&self, ours: &Self) -> Vec<(String, Vec<String>)> {
        let empty = TableRows::default();
        let mut all = Vec::new();
        for (name, table) in &self.0 {
            let found = table.differences(ours.0.get(name).unwrap_or(&empty));
            if !found.is_empty() {
                all.push((name.clone(), found));
            }
        }
        let more = ours
            .0
            .iter()
            .filter(|(name, _)| !self.0.contains_key(*name));
        for (name, table) in more.filter(|(name, _)| !ONLY_OURS.contains(&name.as_str())) {
            all.push((
                name.clone(),
                vec![format!("{} rows more", table.rows.len())],
            ));
        }
        all
    }
}

/// Tables that upstream creates in SQL.
const ONLY_OURS: [&str; 1] = ["linux_interrupt_mapping"];

impl TableRows {
    fn index(&self, column: &str) -> usize {
        let index = self.columns.iter().position(|name| name == column);
        index.unwrap_or_else(|| panic!("no column {column}"))
    }

    /// Keeps values that are not zero, sorted by name and without descriptions.
    fn keep_values(&mut self) {
        let kept = ["name", "idx", "severity", "source", "value", "machine_id"];
        let indices = kept.map(|name| self.index(name));
        let pick = |row: &Row| indices.map(|index| row[index].clone()).to_vec();
        self.rows = self.rows.iter().map(pick).collect();
        self.columns = kept.map(str::to_owned).to_vec();
        self.rows.retain(|row| {
            let is_left_out = TIMES
                .iter()
                .chain(&STATS_OF_OURS)
                .any(|name| row[0] == *name);
            row[4] != 0 && !is_left_out
        });
        self.rows.sort_by_cached_key(|row| format!("{row:?}"));
    }

    fn differences(&self, ours: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.rows.len() != ours.rows.len() {
            let (theirs, ours) = (self.rows.len(), ours.rows.len());
            found.push(format!("{theirs} rows upstream, {ours} ours"));
        }
        for (number, (theirs, our)) in self.rows.iter().zip(&ours.rows).enumerate() {
            for (column, theirs) in self.columns.iter().zip(theirs) {
                let our = ours
                    .columns
                    .iter()
                    .position(|name| name == column)
                    .map(|at| &our[at]);
                if !our.is_some_and(|our| is_same(theirs, our)) {
                    let our = our.unwrap_or(&Value::Null);
                    found.push(format!(
                        "row {number}: {column}: {theirs} upstream, {our} ours"
                    ));
                }
            }
        }
        let both = self.rows.len().min(ours.rows.len());
        found.extend(
            self.rows[both..]
                .iter()
                .map(|row| format!("missing: {row:?}")),
        );
        found.extend(
            ours.rows[both..]
                .iter()
                .map(|row| format!("too many: {row:?}")),
        );
        found.truncate(MAX_SHOWN);
        found
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, table)) in self.0.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            writeln!(f, "{name} {}", table.columns.join(" "))?;
            for row in &table.rows {
                writeln!(f, "{}", json!(row))?;
            }
        }
        Ok(())
    }
}

fn row_of(table: &dyn Table, row: usize, strings: &StringPool) -> Row {
    let indices = 0..table.spec().columns.len();
    let values = indices.map(|index| table.column(index).expect("a column").get(row));
    let show = |cell| match cell {
        Cell::Null => Value::Null,
        Cell::Int(number) => json!(number),
        Cell::Real(number) => json!(number),
        Cell::Text(text) => json!(strings.text(text)),
    };
    values.map(show).collect()
}

/// Returns each argument set as an array of keys and values.
fn sets_of(args: TableRows) -> HashMap<i64, Value> {
    let set = args.index("arg_set_id");
    let names = [
        "key",
        "value_type",
        "int_value",
        "string_value",
        "real_value",
    ];
    let names = names.map(|column| args.index(column));
    let mut sets: HashMap<i64, Vec<Value>> = HashMap::new();
    for row in &args.rows {
        let id = row[set].as_i64().expect("the number of a set");
        let argument = names.iter().map(|index| row[*index].clone());
        let argument = argument.filter(|value| !value.is_null());
        sets.entry(id).or_default().push(argument.collect());
    }
    let sets = sets.into_iter();
    sets.map(|(id, set)| (id, Value::Array(set))).collect()
}

/// Returns true if two values are equal, numbers within the rounding of their text.
fn is_same(theirs: &Value, ours: &Value) -> bool {
    match (theirs, ours) {
        (Value::Array(theirs), Value::Array(ours)) => {
            theirs.len() == ours.len()
                && theirs
                    .iter()
                    .zip(ours)
                    .all(|(theirs, ours)| is_same(theirs, ours))
        }
        (Value::Number(theirs), Value::Number(ours)) if theirs.is_f64() || ours.is_f64() => {
            let [theirs, ours] = [theirs, ours].map(|number| number.as_f64().unwrap_or(f64::NAN));
            (theirs - ours).abs() <= 1e-12 * theirs.abs()
        }
        (theirs, ours) => theirs == ours,
    }
}
