//! The clauses of a SELECT: filters, columns, aggregates and order.

use ferretto_proto::fields::perfetto_sql_structured_query as q;
use q::filter as f;
use q::group_by::aggregate as a;

use super::super::message::Message;
use super::missing;
use crate::error::SqlError;
use crate::syntax::lexer::quoted;

/// Returns a text as a literal of SQL.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns true for a name that needs no quotes, unless it is a keyword.
pub(super) fn is_plain(name: &str) -> bool {
    let of = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(of)
}

/// Returns a new name of a column.
fn alias(name: &str) -> String {
    if is_plain(name) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

fn number(value: f64) -> Result<String, SqlError> {
    if value.is_finite() {
        Ok(format!("{value:?}"))
    } else {
        Err(SqlError::new(format!("{value} is not a number of SQL.")))
    }
}

/// Returns the condition that all filters hold; `None` without filters.
pub(super) fn filters(all: &[Message<'_>]) -> Result<Option<String>, SqlError> {
    let conditions: Result<Vec<_>, _> = all.iter().map(|it| filter(*it)).collect();
    let conditions = conditions?;
    Ok((!conditions.is_empty()).then(|| conditions.join(" AND ")))
}

fn filter(filter: Message<'_>) -> Result<String, SqlError> {
    let column = filter.filled(f::COLUMN_NAME);
    let column = column.ok_or_else(|| missing("A filter", "column_name"))?;
    let operator = match filter.int(f::OP) {
        Some(1) => "=",
        Some(2) => "!=",
        Some(3) => "<",
        Some(4) => "<=",
        Some(5) => ">",
        Some(6) => ">=",
        Some(7) => "GLOB",
        Some(8) => return Ok(format!("{column} IS NULL")),
        Some(9) => return Ok(format!("{column} IS NOT NULL")),
        _ => return Err(missing("A filter", "op")),
    };
    let texts = filter.texts(f::STRING_RHS);
    let doubles = filter.doubles(f::DOUBLE_RHS);
    let values: Vec<String> = if !texts.is_empty() {
        texts.iter().map(|text| literal(text)).collect()
    } else if !doubles.is_empty() {
        doubles.into_iter().map(number).collect::<Result<_, _>>()?
    } else {
        let ints = filter.ints(f::INT64_RHS);
        ints.iter().map(ToString::to_string).collect()
    };
    let all: Vec<String> = values
        .iter()
        .map(|value| format!("{column} {operator} {value}"))
        .collect();
    match all.as_slice() {
        [] => Err(missing("A filter", "string_rhs, double_rhs or int64_rhs")),
        [one] => Ok(one.clone()),
        _ => Ok(format!("({})", all.join(" OR "))),
    }
}

/// Returns the condition of a group of filters.
pub(super) fn group(message: Message<'_>, depth: usize) -> Result<String, SqlError> {
    use q::experimental_filter_group as g;

    let Some(depth) = depth.checked_sub(1) else {
        return Err(SqlError::new("Groups of filters are nested too deeply."));
    };
    let operator = match message.int(g::OP) {
        Some(1) => " AND ",
        Some(2) => " OR ",
        _ => return Err(missing("A group of filters", "op")),
    };
    let mut all = Vec::new();
    for one in message.messages(g::FILTERS) {
        all.push(filter(one)?);
    }
    for inner in message.messages(g::GROUPS) {
        all.push(format!("({})", group(inner, depth)?));
    }
    for expression in message.texts(g::SQL_EXPRESSIONS) {
        all.push(format!("({expression})"));
    }
    if all.is_empty() {
        return Err(SqlError::new("A group of filters is empty."));
    }
    Ok(all.join(operator))
}

/// A column of a result.
struct Column {
    expression: String,
    alias: Option<String>,
}

impl Column {
    fn of(message: Message<'_>) -> Result<Self, SqlError> {
        use q::select_column as s;

        let expression = message.filled(s::COLUMN_NAME_OR_EXPRESSION);
        let expression = expression.or_else(|| message.filled(s::COLUMN_NAME));
        Ok(Self {
            expression: expression
                .ok_or_else(|| missing("A selected column", "column_name_or_expression"))?,
            alias: message.filled(s::ALIAS),
        })
    }

    fn sql(&self) -> String {
        match &self.alias {
            Some(name) => format!("{} AS {}", self.expression, alias(name)),
            None => self.expression.clone(),
        }
    }
}

/// Returns the list of selected columns.
pub(super) fn columns(all: &[Message<'_>]) -> Result<String, SqlError> {
    let all: Result<Vec<_>, _> = all.iter().map(|it| Column::of(*it)).collect();
    let all: Vec<String> = all?.iter().map(Column::sql).collect();
    Ok(if all.is_empty() {
        "*".to_owned()
    } else {
        all.join(", ")
    })
}

/// Returns the names of the selected columns, if all are plain.
pub(super) fn names(all: &[Message<'_>]) -> Option<Vec<String>> {
    let names = all.iter().map(|message| {
        let column = Column::of(*message).ok()?;
        let name = column.alias.unwrap_or(column.expression);
        is_plain(&name).then_some(name)
    });
    names.collect()
}

/// Returns a SELECT with aggregates. Groups come before aggregates, as for upstream; if other
/// expressions are selected, the columns have their order.
pub(super) fn aggregated(
    group_by: Message<'_>,
    selected: &[Message<'_>],
    from: &str,
) -> Result<String, SqlError> {
    let groups = group_by.texts(q::group_by::COLUMN_NAMES);
    let mut all: Vec<Column> = groups
        .iter()
        .map(|group| Column {
            expression: group.clone(),
            alias: None,
        })
        .collect();
    for message in group_by.messages(q::group_by::AGGREGATES) {
        all.push(Column {
            expression: aggregate(message)?,
            alias: message.filled(a::RESULT_COLUMN_NAME),
        });
    }
    if all.is_empty() {
        return Err(missing("group_by", "column_names"));
    }
    let tail = if groups.is_empty() {
        String::new()
    } else {
        format!("\nGROUP BY {}", groups.join(", "))
    };
    let statement = |columns: &[Column]| {
        let columns: Vec<_> = columns.iter().map(Column::sql).collect();
        format!("SELECT {}\n{from}{tail}", columns.join(", "))
    };
    let selected: Result<Vec<_>, _> = selected.iter().map(|it| Column::of(*it)).collect();
    let selected = selected?;
    if selected.is_empty() {
        return Ok(statement(&all));
    }
    let name = |column: &Column| column.alias.clone().unwrap_or(column.expression.clone());
    let is_known = |wanted: &Column| all.iter().any(|known| name(known) == wanted.expression);
    if !selected.iter().all(is_known) {
        let columns: Vec<_> = selected.iter().map(Column::sql).collect();
        return Ok(format!(
            "SELECT {}\nFROM (\n{}\n)",
            columns.join(", "),
            statement(&all)
        ));
    }
    let mut kept = Vec::new();
    for column in all {
        let known = name(&column);
        if let Some(wanted) = selected.iter().find(|wanted| wanted.expression == known) {
            kept.push(Column {
                alias: wanted.alias.clone().or(column.alias),
                expression: column.expression,
            });
        }
    }
    Ok(statement(&kept))
}

/// Returns the expression of an aggregate.
fn aggregate(message: Message<'_>) -> Result<String, SqlError> {
    let lacks = |field: &str| missing("An aggregate", field);
    let operation = message.int(a::OP);
    let column = message.filled(a::COLUMN_NAME);
    let (function, column) = match (operation, column) {
        (Some(1), None) => return Ok("COUNT(*)".to_owned()),
        (Some(10), _) => {
            let sql = message.filled(a::CUSTOM_SQL_EXPRESSION);
            return sql.ok_or_else(|| lacks("custom_sql_expression"));
        }
        (Some(1..=9), None) => return Err(lacks("column_name")),
        (Some(operation @ 1..=9), Some(column)) => (operation, column),
        _ => return Err(lacks("op")),
    };
    Ok(match function {
        1 => format!("COUNT({column})"),
        2 => format!("SUM({column})"),
        3 => format!("MIN({column})"),
        4 => format!("MAX({column})"),
        5 => format!("AVG({column})"),
        6 => format!("PERCENTILE({column}, 50)"),
        7 => format!("SUM(CAST(({column}) * dur AS REAL)) / CAST(SUM(dur) AS REAL)"),
        8 => {
            let part = message.double(a::PERCENTILE);
            let part = number(part.ok_or_else(|| lacks("percentile"))?)?;
            format!("PERCENTILE({column}, {part})")
        }
        _ => format!("COUNT(DISTINCT {column})"),
    })
}

/// Returns the list of an ORDER BY.
pub(super) fn order(message: Message<'_>) -> Result<String, SqlError> {
    use q::order_by as o;

    let mut all = Vec::new();
    for one in message.messages(o::ORDERING_SPECS) {
        let column = one.filled(o::ordering_spec::COLUMN_NAME);
        let column = column.ok_or_else(|| missing("An ordering", "column_name"))?;
        all.push(match one.int(o::ordering_spec::DIRECTION) {
            Some(2) => format!("{column} DESC"),
            _ => column,
        });
    }
    if all.is_empty() {
        return Err(missing("order_by", "ordering_specs"));
    }
    Ok(all.join(", "))
}
