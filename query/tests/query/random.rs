//! Random statements over tables of the trace give the rows that SQLite gives for its own tables.

use crate::common::{Random, Session};

/// The tables, and some of their columns.
const TABLES: [(&str, &[&str]); 6] = [
    (
        "slice",
        &[
            "id",
            "ts",
            "dur",
            "track_id",
            "depth",
            "parent_id",
            "name",
            "arg_set_id",
        ],
    ),
    ("track", &["id", "name", "parent_id", "type", "machine_id"]),
    (
        "thread",
        &["id", "utid", "tid", "name", "upid", "is_main_thread"],
    ),
    ("process", &["id", "upid", "pid", "name", "parent_upid"]),
    ("counter", &["id", "ts", "track_id", "value"]),
    (
        "args",
        &["id", "arg_set_id", "flat_key", "int_value", "string_value"],
    ),
];

const LITERALS: [&str; 16] = [
    "0",
    "1",
    "2",
    "-1",
    "1010",
    "1010.5",
    "'inner'",
    "'1'",
    "''",
    "NULL",
    "x'31'",
    "1e300",
    "9223372036854775807",
    "'i%'",
    "'*e*'",
    "2.0",
];

/// A table of a statement: its alias and columns.
type Source = (&'static str, &'static [&'static str]);

struct Generator<'a> {
    random: &'a mut Random,
}

impl Generator<'_> {
    fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    fn column(&mut self, sources: &[Source]) -> String {
        let (alias, columns) = sources[self.below(sources.len() as u64) as usize];
        let column = self.random.of(columns);
        format!("{alias}.{column}")
    }

    fn value(&mut self, sources: &[Source], depth: u32) -> String {
        let below = |own: &mut Self| own.value(sources, depth - 1);
        match self.below(if depth == 0 { 3 } else { 14 }) {
            0 => self.random.of(&LITERALS).to_owned(),
            1 | 2 => self.column(sources),
            3..=5 => {
                let op = self
                    .random
                    .of(&["+", "-", "*", "/", "%", "||", "&", "|", "<<", ">>"]);
                format!("({} {op} {})", below(self), below(self))
            }
            6 => format!("coalesce({}, {})", below(self), below(self)),
            7 => {
                let name = self
                    .random
                    .of(&["typeof", "length", "abs", "lower", "hex", "quote"]);
                match name {
                    // The absolute value of the smallest integer is an error.
                    "abs" => format!("abs(coalesce({} / 2, 0))", below(self)),
                    name => format!("{name}({})", below(self)),
                }
            }
            8 => format!(
                "CAST({} AS {})",
                below(self),
                self.random.of(&["INT", "TEXT", "REAL"])
            ),
            9 => {
                let when = self.condition(sources, depth - 1);
                format!(
                    "CASE WHEN {when} THEN {} ELSE {} END",
                    below(self),
                    below(self)
                )
            }
            10 => format!("({})", self.condition(sources, depth - 1)),
            11 => {
                let (name, columns) = TABLES[self.below(6) as usize];
                let (inner, outer) = (self.random.of(columns), self.column(sources));
                let wanted = self.random.of(columns);
                let of = self.random.of(&["max", "min", "count", "group_concat"]);
                format!("(SELECT {of}(q.{wanted}) FROM T_{name} q WHERE q.{inner} = {outer})")
            }
            _ => format!("substr({}, {}, 3)", below(self), self.below(4)),
        }
    }

    fn condition(&mut self, sources: &[Source], depth: u32) -> String {
        let value = |own: &mut Self| own.value(sources, depth.saturating_sub(1));
        match self.below(if depth == 0 { 6 } else { 10 }) {
            0..=2 => {
                let op = self
                    .random
                    .of(&["=", "<", "<=", ">", ">=", "<>", "IS", "IS NOT"]);
                format!("{} {op} {}", self.column(sources), value(self))
            }
            3 => format!("{} {}", value(self), self.random.of(&["ISNULL", "NOTNULL"])),
            4 => {
                let not = self.random.of(&["", "NOT "]);
                format!(
                    "{} {not}BETWEEN {} AND {}",
                    self.column(sources),
                    value(self),
                    value(self)
                )
            }
            5 => {
                let not = self.random.of(&["", "NOT "]);
                format!(
                    "{} {not}IN ({}, {})",
                    self.column(sources),
                    value(self),
                    value(self)
                )
            }
            6 => {
                let op = self.random.of(&["LIKE", "GLOB", "NOT LIKE"]);
                format!(
                    "{} {op} {}",
                    value(self),
                    self.random.of(&["'i%'", "'*e*'", "'inner'"])
                )
            }
            7 => {
                let (name, columns) = TABLES[self.below(6) as usize];
                let not = self.random.of(&["", "NOT "]);
                let (inner, outer) = (self.random.of(columns), self.column(sources));
                format!("{outer} {not}IN (SELECT q.{inner} FROM T_{name} q)")
            }
            8 => {
                let (name, columns) = TABLES[self.below(6) as usize];
                let (inner, outer) = (self.random.of(columns), self.column(sources));
                format!("EXISTS (SELECT 1 FROM T_{name} q WHERE q.{inner} < {outer})")
            }
            _ => {
                let op = self.random.of(&["AND", "OR"]);
                let (a, b) = (
                    self.condition(sources, depth - 1),
                    self.condition(sources, depth - 1),
                );
                format!("({a}) {op} ({b})")
            }
        }
    }

    /// Returns a statement; tables have the prefix `T_`. Its rows have an order that is the same
    /// for equal rows.
    fn statement(&mut self) -> String {
        const ALIASES: [&str; 3] = ["a", "b", "c"];
        let (name, columns) = TABLES[self.below(6) as usize];
        let mut sources: Vec<Source> = vec![("a", columns)];
        let mut from = format!("T_{name} a");
        for alias in ALIASES.iter().skip(1).take(self.below(3) as usize) {
            let (name, columns) = TABLES[self.below(6) as usize];
            let on = format!(
                "{} = {alias}.{}",
                self.column(&sources),
                self.random.of(columns)
            );
            sources.push((alias, columns));
            let join = self.random.of(&["JOIN", "LEFT JOIN", "CROSS JOIN"]);
            let more = match self.below(4) {
                0 => format!(" AND {}", self.condition(&sources, 1)),
                _ => String::new(),
            };
            from += &format!(" {join} T_{name} {alias} ON {on}{more}");
        }
        let mut filter = String::new();
        if self.below(4) > 0 {
            filter = format!(" WHERE {}", self.condition(&sources, 2));
        }
        match self.below(4) {
            0 => {
                let key = self.value(&sources, 1);
                let of = self.value(&sources, 1);
                let function = self.random.of(&["count", "total", "max", "min"]);
                format!(
                    "SELECT {key} AS k, {function}({of}) AS v, count(*) AS n FROM {from}{filter} \
                     GROUP BY {key} HAVING count(*) > {} ORDER BY k, v, n",
                    self.below(3)
                )
            }
            1 => {
                let (by, of) = (self.column(&sources), self.column(&sources));
                let order: Vec<String> = sources.iter().map(|(a, _)| format!("{a}.id")).collect();
                let order = order.join(", ");
                let function = self.random.of(&["lag", "first_value", "count", "max"]);
                format!(
                    "SELECT a.id AS x, {function}({of}) OVER (PARTITION BY {by} ORDER BY {order}) AS y \
                     FROM {from}{filter} ORDER BY {order}, y"
                )
            }
            2 => {
                let op = self
                    .random
                    .of(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]);
                let (one, two) = (self.value(&sources, 1), self.value(&sources, 1));
                format!(
                    "SELECT {one} AS x FROM {from}{filter} {op} SELECT {two} FROM {from} ORDER BY x"
                )
            }
            _ => {
                let distinct = self.random.of(&["", "DISTINCT "]);
                let values: Vec<String> = (0..3)
                    .map(|n| format!("{} AS v{n}", self.value(&sources, 2)))
                    .collect();
                let limit = match self.below(3) {
                    0 => format!(" LIMIT {} OFFSET {}", self.below(9), self.below(3)),
                    _ => String::new(),
                };
                format!(
                    "SELECT {distinct}{} FROM {from}{filter} ORDER BY v0, v1, v2{limit}",
                    values.join(", ")
                )
            }
        }
    }
}

/// Returns the rows of a statement, or its error.
fn result(session: &mut Session, sql: &str) -> Result<String, String> {
    session.csv(sql).map_err(|error| error.to_string())
}

#[test]
fn random_statements_give_the_rows_of_sqlites_own_tables() {
    let mut session = Session::new();
    for (name, _) in TABLES {
        session.rows(&format!("CREATE TABLE copy_{name} AS SELECT * FROM {name}"));
    }
    // More statements are possible: FERRETTO_RANDOM_STATEMENTS=100000.
    let wanted = std::env::var("FERRETTO_RANDOM_STATEMENTS");
    let count: usize = wanted.map_or(3000, |count| count.parse().expect("a number"));
    let mut random = Random(31);
    let (mut with_rows, mut failed) = (0, 0);
    for _ in 0..count {
        let sql = Generator {
            random: &mut random,
        }
        .statement();
        let ours = result(&mut session, &sql.replace("T_", ""));
        let theirs = result(&mut session, &sql.replace("T_", "copy_"));
        assert_eq!(ours, theirs, "{sql}");
        with_rows += usize::from(ours.as_ref().is_ok_and(|rows| rows.lines().count() > 1));
        failed += usize::from(ours.is_err());
    }
    // Almost all statements are valid, and many have rows.
    let is_usual = with_rows > count / 5 && failed < count / 30;
    assert!(is_usual, "{with_rows} {failed} of {count}");
}
