//! The sources of queries: what follows FROM.

use ferretto_proto::fields::perfetto_sql_structured_query as q;

use super::super::message::Message;
use super::clauses::{is_plain, literal, names};
use super::{Generator, missing};
use crate::error::SqlError;
use crate::syntax::lexer::{Kind, Token, quoted, split, text, tokenize, trim};

type Sql = Result<String, SqlError>;

impl Generator<'_> {
    /// Returns the source of a query: a name, or a SELECT in parentheses.
    pub(super) fn source(&mut self, query: Message<'_>) -> Sql {
        type Source<'a> = fn(&mut Generator<'a>, Message<'_>) -> Sql;
        let sources: [(u32, Source<'_>); 13] = [
            (q::TABLE, Self::table),
            (q::EXPERIMENTAL_TIME_RANGE, |_, message| time_range(message)),
            (q::SIMPLE_SLICES, Self::simple_slices),
            (q::INTERVAL_INTERSECT, Self::interval_intersect),
            (
                q::EXPERIMENTAL_FILTER_TO_INTERVALS,
                Self::filter_to_intervals,
            ),
            (q::EXPERIMENTAL_JOIN, Self::join),
            (q::EXPERIMENTAL_UNION, Self::union),
            (q::EXPERIMENTAL_ADD_COLUMNS, Self::add_columns),
            (q::EXPERIMENTAL_CREATE_SLICES, Self::create_slices),
            (q::EXPERIMENTAL_COUNTER_INTERVALS, Self::counter_intervals),
            (q::EXPERIMENTAL_FILTER_IN, Self::filter_in),
            (q::SQL, Self::sql),
            (q::INNER_QUERY, Self::nested),
        ];
        for (field, source) in sources {
            if let Some(message) = query.message(field) {
                return source(self, message);
            }
        }
        match query.text(q::INNER_QUERY_ID) {
            Some(id) => self.reference(&id),
            None => Err(SqlError::new(
                "A query has no source: it needs a field such as 'table', 'sql' or 'inner_query'.",
            )),
        }
    }

    /// Returns the name of a query in a field of a source.
    fn inner(&mut self, message: Message<'_>, number: u32, source: &str, field: &str) -> Sql {
        match message.message(number) {
            Some(query) if !query.0.is_empty() => self.nested(query),
            _ => Err(missing(source, field)),
        }
    }

    fn include(&mut self, module: &str) {
        self.modules.insert(module.to_owned());
    }

    fn table(&mut self, table: Message<'_>) -> Sql {
        self.modules.extend(table.filled(q::table::MODULE_NAME));
        let name = table.filled(q::table::TABLE_NAME);
        name.ok_or_else(|| missing("table", "table_name"))
    }

    fn simple_slices(&mut self, slices: Message<'_>) -> Sql {
        use q::simple_slices as s;

        self.include("slices.with_context");
        let globs = [
            ("name", s::SLICE_NAME_GLOB),
            ("thread_name", s::THREAD_NAME_GLOB),
            ("process_name", s::PROCESS_NAME_GLOB),
            ("track_name", s::TRACK_NAME_GLOB),
        ];
        let conditions: Vec<String> = globs
            .iter()
            .filter_map(|(column, number)| {
                let glob = slices.text(*number)?;
                Some(format!("{column} GLOB {}", literal(&glob)))
            })
            .collect();
        let mut sql = "(SELECT id, ts, dur, name AS slice_name, thread_name, process_name, \
                       track_name FROM thread_or_process_slice"
            .to_owned();
        if !conditions.is_empty() {
            sql += &format!(" WHERE {}", conditions.join(" AND "));
        }
        Ok(sql + ")")
    }

    /// Returns the last statement of a text as the source. Those before it are preambles.
    fn sql(&mut self, message: Message<'_>) -> Sql {
        use q::sql as s;

        let source = message.filled(s::SQL);
        let source = source.ok_or_else(|| missing("sql", "sql"))?;
        let mut statements = split(tokenize(&source)?);
        let Some(mut select) = statements.pop() else {
            return Err(SqlError::new("The text of 'sql' has no statement."));
        };
        if let Some(preamble) = message.filled(s::PREAMBLE) {
            if !statements.is_empty() {
                return Err(SqlError::new(
                    "A source has a 'preamble' and several statements in 'sql': put all of them \
                     into 'sql'.",
                ));
            }
            self.preambles.push(preamble);
        }
        let before: Vec<_> = statements.iter().map(|it| text(trim(it))).collect();
        if !before.is_empty() {
            self.preambles.push(before.join(";\n"));
        }
        for dependency in message.messages(s::DEPENDENCIES) {
            use s::dependency as d;

            let alias = dependency.filled(d::ALIAS);
            let alias = alias.ok_or_else(|| missing("A dependency of 'sql'", "alias"))?;
            let name = self.inner(dependency, d::QUERY, "A dependency of 'sql'", "query")?;
            substitute(&mut select, &alias, &name);
        }
        let columns = message.texts(s::COLUMN_NAMES);
        let columns = if columns.is_empty() {
            "*".to_owned()
        } else {
            columns.join(", ")
        };
        Ok(format!(
            "(SELECT {columns} FROM (\n{}\n))",
            text(trim(&select))
        ))
    }

    fn interval_intersect(&mut self, message: Message<'_>) -> Sql {
        use q::interval_intersect as i;

        let others = message.messages(i::INTERVAL_INTERSECT);
        if others.is_empty() {
            return Err(missing("interval_intersect", "interval_intersect"));
        }
        let partitions = partitions(message.texts(i::PARTITION_COLUMNS))?;
        self.include("intervals.intersect");
        let mut tables = vec![self.inner(message, i::BASE, "interval_intersect", "base")?];
        for other in others {
            tables.push(self.nested(other)?);
        }
        let mut columns = vec!["ii.ts".to_owned(), "ii.dur".to_owned()];
        columns.extend(partitions.iter().map(|column| format!("ii.{column}")));
        let mut joins = String::new();
        for (at, table) in tables.iter().enumerate() {
            columns.push(format!(
                "q{at}.id AS id_{at}, q{at}.ts AS ts_{at}, q{at}.dur AS dur_{at}, q{at}.*"
            ));
            joins += &format!("\nJOIN {table} AS q{at} ON ii.id_{at} = q{at}.id");
        }
        Ok(format!(
            "(SELECT {} FROM _interval_intersect!(({}), ({})) AS ii{joins})",
            columns.join(", "),
            tables.join(", "),
            partitions.join(", ")
        ))
    }

    fn filter_to_intervals(&mut self, message: Message<'_>) -> Sql {
        use q::experimental_filter_to_intervals as f;

        const NAME: &str = "experimental_filter_to_intervals";
        let partitions = partitions(message.texts(f::PARTITION_COLUMNS))?;
        self.include("intervals.intersect");
        self.include("intervals.overlap");
        let base = self.inner(message, f::BASE, NAME, "base")?;
        let intervals = self.inner(message, f::INTERVALS, NAME, "intervals")?;
        let columns = partitions.join(", ");
        // Intervals that overlap are one, so that a row is in the result once for each stretch.
        let (merged, list) = if partitions.is_empty() {
            (
                format!("interval_merge_overlapping!({intervals}, 0)"),
                String::new(),
            )
        } else {
            (
                format!("interval_merge_overlapping_partitioned!({intervals}, ({columns}))"),
                format!(", {columns}"),
            )
        };
        let merged =
            format!("SELECT row_number() OVER (ORDER BY ts) AS id, ts, dur{list} FROM {merged}");
        let name = self.fresh("sq_merged_", None);
        self.parts.push((name.clone(), merged));
        let is_clipped = message.bool(f::CLIP_TO_INTERVALS).unwrap_or(true);
        let wanted = message.texts(f::SELECT_COLUMNS);
        let is = |column: &str, name: &str| column.eq_ignore_ascii_case(name);
        let mut selected = Vec::new();
        if is_clipped {
            selected.extend(["ii.ts".to_owned(), "ii.dur".to_owned()]);
        }
        for column in &wanted {
            if !is_clipped || !is(column, "ts") && !is(column, "dur") {
                selected.push(format!("b.{column}"));
            }
        }
        for name in wanted.iter().filter(|_| is_clipped) {
            if is(name, "ts") || is(name, "dur") {
                let name = name.to_ascii_lowercase();
                selected.push(format!("b.{name} AS original_{name}"));
            }
        }
        if wanted.is_empty() {
            selected.push("b.*".to_owned());
        }
        Ok(format!(
            "(SELECT {} FROM _interval_intersect!(({base}, {name}), ({columns})) AS ii\nJOIN \
             {base} AS b ON ii.id_0 = b.id)",
            selected.join(", ")
        ))
    }

    fn join(&mut self, message: Message<'_>) -> Sql {
        use q::experimental_join as j;

        const NAME: &str = "experimental_join";
        let kind = match message.int(j::TYPE).unwrap_or_default() {
            0 => "INNER",
            1 => "LEFT",
            _ => return Err(missing(NAME, "type")),
        };
        let left = self.inner(message, j::LEFT_QUERY, NAME, "left_query")?;
        let right = self.inner(message, j::RIGHT_QUERY, NAME, "right_query")?;
        let condition = Condition::of(
            message.message(j::EQUALITY_COLUMNS),
            message.message(j::FREEFORM_CONDITION),
        )?;
        let (left_alias, right_alias, condition) = match condition {
            Condition::Columns(a, b) => {
                let condition = format!("{left}.{a} = {right}.{b}");
                (left.clone(), right.clone(), condition)
            }
            Condition::Free(a, b, sql) => (a, b, sql),
        };
        Ok(format!(
            "(SELECT * FROM {left} AS {left_alias} {kind} JOIN {right} AS {right_alias} ON \
             {condition})"
        ))
    }

    fn union(&mut self, message: Message<'_>) -> Sql {
        use q::experimental_union as u;

        let queries = message.messages(u::QUERIES);
        if queries.len() < 2 {
            return Err(SqlError::new(
                "experimental_union needs at least two queries.",
            ));
        }
        let lists = queries
            .iter()
            .map(|it| names(&it.messages(q::SELECT_COLUMNS)));
        let lists: Vec<_> = lists.collect();
        let known: Vec<_> = lists
            .iter()
            .flatten()
            .filter(|list| !list.is_empty())
            .collect();
        let sorted = |list: &[String]| {
            let mut list = list.to_vec();
            list.sort();
            list
        };
        let first = known
            .first()
            .map(|list| list.as_slice())
            .unwrap_or_default();
        if known.iter().any(|list| sorted(list) != sorted(first)) {
            return Err(SqlError::new(
                "The queries of experimental_union select different columns.",
            ));
        }
        // The columns of the first query come in its order from all of them.
        let columns = if known.len() == queries.len() {
            first
                .iter()
                .map(|name| quoted(name))
                .collect::<Vec<_>>()
                .join(", ")
        } else {
            "*".to_owned()
        };
        let word = if message.bool(u::USE_UNION_ALL).unwrap_or(false) {
            "\nUNION ALL\n"
        } else {
            "\nUNION\n"
        };
        let mut parts = Vec::new();
        for query in queries {
            parts.push(format!("SELECT {columns} FROM {}", self.nested(query)?));
        }
        Ok(format!("({})", parts.join(word)))
    }

    fn add_columns(&mut self, message: Message<'_>) -> Sql {
        use q::experimental_add_columns as c;

        const NAME: &str = "experimental_add_columns";
        let core = self.inner(message, c::CORE_QUERY, NAME, "core_query")?;
        let input = self.inner(message, c::INPUT_QUERY, NAME, "input_query")?;
        let condition = Condition::of(
            message.message(c::EQUALITY_COLUMNS),
            message.message(c::FREEFORM_CONDITION),
        )?;
        let mut columns = vec!["core.*".to_owned()];
        for column in message.messages(c::INPUT_COLUMNS) {
            let name = column.filled(q::select_column::COLUMN_NAME_OR_EXPRESSION);
            let name = name.or_else(|| column.filled(q::select_column::COLUMN_NAME));
            let name =
                name.ok_or_else(|| missing("An input column", "column_name_or_expression"))?;
            columns.push(match column.filled(q::select_column::ALIAS) {
                Some(alias) if is_plain(&alias) => format!("input.{name} AS {alias}"),
                Some(alias) => format!("input.{name} AS {}", quoted(&alias)),
                None => format!("input.{name}"),
            });
        }
        if columns.len() == 1 {
            return Err(missing(NAME, "input_columns"));
        }
        let condition = match condition {
            Condition::Columns(left, right) => format!("core.{left} = input.{right}"),
            Condition::Free(left, right, sql) if left == "core" && right == "input" => sql,
            Condition::Free(..) => {
                return Err(SqlError::new(
                    "The aliases of experimental_add_columns are 'core' and 'input'.",
                ));
            }
        };
        Ok(format!(
            "(SELECT {} FROM {core} AS core LEFT JOIN {input} AS input ON {condition})",
            columns.join(", ")
        ))
    }

    fn create_slices(&mut self, message: Message<'_>) -> Sql {
        use q::experimental_create_slices as c;

        const NAME: &str = "experimental_create_slices";
        self.include("intervals.create_intervals");
        let column = |number| message.filled(number).unwrap_or_else(|| "ts".to_owned());
        let starts = self.inner(message, c::STARTS_QUERY, NAME, "starts_query")?;
        let ends = self.inner(message, c::ENDS_QUERY, NAME, "ends_query")?;
        Ok(format!(
            "(SELECT * FROM _interval_create!((SELECT {} AS ts FROM {starts}), (SELECT {} AS ts \
             FROM {ends})))",
            column(c::STARTS_TS_COLUMN),
            column(c::ENDS_TS_COLUMN)
        ))
    }

    fn counter_intervals(&mut self, message: Message<'_>) -> Sql {
        use q::experimental_counter_intervals as c;

        self.include("counters.intervals");
        let name = "experimental_counter_intervals";
        let input = self.inner(message, c::INPUT_QUERY, name, "input_query")?;
        Ok(format!(
            "(SELECT * FROM counter_leading_intervals!({input}))"
        ))
    }

    fn filter_in(&mut self, message: Message<'_>) -> Sql {
        use q::experimental_filter_in as f;

        const NAME: &str = "experimental_filter_in";
        let column = |number, field| message.filled(number).ok_or_else(|| missing(NAME, field));
        let (left, right) = (
            column(f::BASE_COLUMN, "base_column")?,
            column(f::MATCH_COLUMN, "match_column")?,
        );
        let base = self.inner(message, f::BASE, NAME, "base")?;
        let values = self.inner(message, f::MATCH_VALUES, NAME, "match_values")?;
        Ok(format!(
            "(SELECT base.* FROM {base} AS base WHERE base.{left} IN (SELECT {right} FROM {values}))"
        ))
    }
}

/// Replaces the parameter `$alias` or `${alias}` by a name.
fn substitute(tokens: &mut [Token], alias: &str, name: &str) {
    for at in 0..tokens.len() {
        let count = match &tokens[at..] {
            [one, ..] if one.kind == Kind::Parameter && one.text.get(1..) == Some(alias) => 1,
            [dollar, open, word, close, ..]
                if dollar.is("$") && open.is("{") && word.text == alias && close.is("}") =>
            {
                4
            }
            _ => continue,
        };
        for token in &mut tokens[at..at + count] {
            token.text.clear();
        }
        name.clone_into(&mut tokens[at].text);
    }
}

fn time_range(message: Message<'_>) -> Sql {
    use q::experimental_time_range as t;

    let is_dynamic = match message.int(t::MODE) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(missing("experimental_time_range", "mode")),
    };
    let value = |number, field, default: &str| match message.int(number) {
        Some(value) => Ok(value.to_string()),
        None if is_dynamic => Ok(default.to_owned()),
        None => Err(missing("experimental_time_range", field)),
    };
    let ts = value(t::TS, "ts", "trace_start()")?;
    let dur = value(t::DUR, "dur", "trace_dur()")?;
    Ok(format!("(SELECT 0 AS id, {ts} AS ts, {dur} AS dur)"))
}

/// Returns the partition columns, after checks.
fn partitions(columns: Vec<String>) -> Result<Vec<String>, SqlError> {
    for (at, column) in columns.iter().enumerate() {
        let is = |other: &str| column.eq_ignore_ascii_case(other);
        if column.is_empty() {
            return Err(SqlError::new("A partition column has no name."));
        }
        if ["id", "ts", "dur"].into_iter().any(is) {
            return Err(SqlError::new(format!(
                "'{column}' cannot be a partition column."
            )));
        }
        if columns[..at].iter().any(|earlier| is(earlier)) {
            return Err(SqlError::new(format!(
                "The partition column '{column}' is given twice."
            )));
        }
    }
    Ok(columns)
}

/// The condition of a join.
enum Condition {
    /// Columns of both sides that are equal.
    Columns(String, String),
    /// SQL, after the names of both sides in it.
    Free(String, String, String),
}

impl Condition {
    fn of(equal: Option<Message<'_>>, free: Option<Message<'_>>) -> Result<Self, SqlError> {
        use q::experimental_join::{equality_columns as e, freeform_condition as f};

        let text = |message: Message<'_>, number, source, field| {
            message.filled(number).ok_or_else(|| missing(source, field))
        };
        if let Some(equal) = equal {
            let side = |number, field| text(equal, number, "equality_columns", field);
            return Ok(Self::Columns(
                side(e::LEFT_COLUMN, "left_column")?,
                side(e::RIGHT_COLUMN, "right_column")?,
            ));
        }
        let Some(free) = free else {
            return Err(missing(
                "A join",
                "equality_columns' or 'freeform_condition",
            ));
        };
        let part = |number, field| text(free, number, "freeform_condition", field);
        Ok(Self::Free(
            part(f::LEFT_QUERY_ALIAS, "left_query_alias")?,
            part(f::RIGHT_QUERY_ALIAS, "right_query_alias")?,
            part(f::SQL_EXPRESSION, "sql_expression")?,
        ))
    }
}
