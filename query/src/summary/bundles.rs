//! Bundles of metrics: the rows of one query, with a value for each metric.

use std::collections::HashSet;

use ferretto_proto::fields::{trace_metric_v2_bundle as b, trace_metric_v2_spec as m};
use ferretto_wire::{Encoder, encode};
use rusqlite::types::ValueRef;

use super::message::Message;
use super::metrics::Metric;
use super::rows::each_row;
use super::{MAX_SUMMARY, too_large};
use crate::engine::Engine;
use crate::error::SqlError;

/// Metrics with the same query and dimensions.
pub(super) struct Bundle<'a> {
    id: String,
    metrics: Vec<&'a Metric>,
    dimensions: Vec<Column>,
    interned: Vec<Interned<'a>>,
}

/// The type of a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    /// That of the value.
    Any,
    Text,
    Int,
    Double,
    Bool,
}

/// A column of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    name: String,
    kind: Type,
}

impl Column {
    /// Returns the column of a message with a name and a type.
    fn of(message: Message<'_>) -> Result<Self, SqlError> {
        use m::dimension_spec as d;

        let name = message.text(d::NAME).unwrap_or_default();
        let kind = match message.int(d::TYPE) {
            Some(1) => Type::Text,
            Some(2) => Type::Int,
            Some(3) => Type::Double,
            Some(4) => Type::Bool,
            _ => {
                return Err(SqlError::new(format!(
                    "The dimension '{name}' has no type."
                )));
            }
        };
        Ok(Self { name, kind })
    }

    fn index(&self, names: &[String]) -> Result<usize, SqlError> {
        let index = names.iter().position(|name| *name == self.name);
        index.ok_or_else(|| {
            let name = &self.name;
            SqlError::new(format!("The query has no column '{name}'."))
        })
    }

    /// Returns the encoded message `Dimension` of a value.
    fn dimension(&self, value: ValueRef<'_>) -> Result<Vec<u8>, SqlError> {
        use b::row::dimension as d;

        let wrong = |wanted: &str| {
            let (name, kind) = (&self.name, value.data_type());
            let text = format!("The dimension '{name}' has a value of type {kind}, not {wanted}.");
            Err(SqlError::new(text))
        };
        let mut bytes = Vec::new();
        let mut out = Encoder::new(&mut bytes);
        match (self.kind, value) {
            (_, ValueRef::Null) => out.bytes(d::NULL_VALUE, &[]),
            (Type::Any | Type::Text, ValueRef::Text(text)) => {
                out.string(d::STRING_VALUE, &String::from_utf8_lossy(text));
            }
            (Type::Any | Type::Int, ValueRef::Integer(value)) => out.int(d::INT64_VALUE, value),
            (Type::Any | Type::Double, ValueRef::Real(value)) => out.double(d::DOUBLE_VALUE, value),
            (Type::Bool, ValueRef::Integer(value @ 0..=1)) => out.bool(d::BOOL_VALUE, value == 1),
            (Type::Any, _) => return wrong("a text or a number"),
            (Type::Text, _) => return wrong("STRING"),
            (Type::Int, _) => return wrong("INT64"),
            (Type::Double, _) => return wrong("DOUBLE"),
            (Type::Bool, _) => return wrong("BOOLEAN (0 or 1)"),
        }
        Ok(bytes)
    }
}

/// Further columns of a dimension.
struct Interned<'a> {
    key: Column,
    data: Vec<Column>,
    sql: &'a str,
}

/// Returns the bundles of metrics, in the order of their first metrics.
///
/// # Errors
///
/// Fails if metrics of one bundle are not alike.
pub(super) fn of(metrics: &[Metric]) -> Result<Vec<Bundle<'_>>, SqlError> {
    let mut all: Vec<Bundle<'_>> = Vec::new();
    for metric in metrics {
        let bundle = Bundle::of(metric).map_err(|error| located("metric", &metric.id, &error))?;
        match all.iter_mut().find(|other| other.id == bundle.id) {
            None => all.push(bundle),
            Some(other) => other.add(metric, &bundle)?,
        }
    }
    Ok(all)
}

fn located(kind: &str, id: &str, error: &SqlError) -> SqlError {
    SqlError::new(format!("The {kind} '{id}': {}", error.message))
}

impl<'a> Bundle<'a> {
    fn of(metric: &'a Metric) -> Result<Self, SqlError> {
        let spec = Message(&metric.spec);
        let plain = spec.texts(m::DIMENSIONS);
        let typed = spec.messages(m::DIMENSIONS_SPECS);
        if !plain.is_empty() && !typed.is_empty() {
            return Err(SqlError::new(
                "It has both dimensions and dimensions_specs: use one of them.",
            ));
        }
        let plain = plain.into_iter().map(|name| {
            Ok(Column {
                name,
                kind: Type::Any,
            })
        });
        let typed = typed.into_iter().map(Column::of);
        let dimensions = plain.chain(typed).collect::<Result<Vec<_>, _>>()?;
        let interned = interned(spec, metric, &dimensions)?;
        Ok(Self {
            id: spec
                .filled(m::BUNDLE_ID)
                .unwrap_or_else(|| metric.id.clone()),
            metrics: vec![metric],
            dimensions,
            interned,
        })
    }

    fn spec(&self) -> Message<'a> {
        Message(&self.metrics[0].spec)
    }

    /// Adds a metric, which alone is the other bundle.
    fn add(&mut self, metric: &'a Metric, other: &Self) -> Result<(), SqlError> {
        let (first, id) = (self.metrics[0], &metric.id);
        let uniqueness = |it: Message<'_>| it.int(m::DIMENSION_UNIQUENESS).unwrap_or_default();
        let bundle_id = |it: Message<'_>| it.filled(m::BUNDLE_ID);
        let checks = [
            ("dimensions", self.dimensions == other.dimensions),
            ("query", first.sql == metric.sql),
            (
                "dimension_uniqueness",
                uniqueness(self.spec()) == uniqueness(other.spec()),
            ),
            (
                "bundle_id",
                bundle_id(self.spec()) == bundle_id(other.spec()),
            ),
        ];
        if let Some((what, _)) = checks.iter().find(|(_, is_same)| !is_same) {
            return Err(SqlError::new(format!(
                "The metrics '{}' and '{id}' of the bundle '{}' have different values of {what}.",
                first.id, self.id
            )));
        }
        self.metrics.push(metric);
        Ok(())
    }

    /// Runs the query, and returns the encoded message `TraceMetricV2Bundle`.
    pub(super) fn compute(&self, engine: &mut Engine) -> Result<Vec<u8>, SqlError> {
        let kind = if self.metrics.len() == 1 {
            "metric"
        } else {
            "bundle"
        };
        let failed = |error: SqlError| located(kind, &self.id, &error);
        let mut out = encode(|bundle| {
            bundle.string(b::BUNDLE_ID, &self.id);
            for metric in &self.metrics {
                bundle.bytes(b::SPECS, &metric.spec);
            }
        });
        let keys = self.rows(engine, &mut out).map_err(failed)?;
        for interned in &self.interned {
            interned.rows(engine, &keys, &mut out).map_err(failed)?;
        }
        Ok(out)
    }

    /// Adds the rows. Returns the values of dimensions with further columns.
    fn rows(
        &self,
        engine: &mut Engine,
        out: &mut Vec<u8>,
    ) -> Result<HashSet<(String, Vec<u8>)>, SqlError> {
        let values: Vec<Column> = self
            .metrics
            .iter()
            .map(|metric| Column {
                name: Message(&metric.spec).text(m::VALUE).unwrap_or_default(),
                kind: Type::Any,
            })
            .collect();
        let is_unique = self.spec().int(m::DIMENSION_UNIQUENESS) == Some(2);
        let has_interned = |name: &str| self.interned.iter().any(|it| it.key.name == name);
        let (mut seen, mut keys) = (HashSet::new(), HashSet::new());
        let names = each_row(engine, &self.metrics[0].sql, |names, row| {
            let cell = |column: &Column| column.index(names).map(|index| row[index]);
            let cells = values.iter().map(cell).collect::<Result<Vec<_>, _>>()?;
            if cells.iter().all(|cell| matches!(cell, ValueRef::Null)) {
                return Ok(());
            }
            let mut message = Vec::new();
            for (cell, column) in cells.into_iter().zip(&values) {
                let value = value(cell, &column.name)?;
                Encoder::new(&mut message).bytes(b::row::VALUES, &value);
            }
            let start = message.len();
            for column in &self.dimensions {
                let cell = cell(column)?;
                let dimension = column.dimension(cell)?;
                Encoder::new(&mut message).bytes(b::row::DIMENSION, &dimension);
                if has_interned(&column.name) {
                    keys.insert((column.name.clone(), key(cell)?));
                }
            }
            if is_unique && !seen.insert(message[start..].to_vec()) {
                return Err(SqlError::new(
                    "Two rows have the same dimensions, but dimension_uniqueness is UNIQUE.",
                ));
            }
            Encoder::new(out).bytes(b::ROW, &message);
            if out.len() > MAX_SUMMARY {
                return Err(too_large());
            }
            Ok(())
        })?;
        // Without rows, nothing has looked for the columns yet.
        for column in self.dimensions.iter().chain(&values) {
            column.index(&names)?;
        }
        self.check_declared(&names)?;
        Ok(keys)
    }

    /// Fails if the SQL lacks a column that its source declares.
    fn check_declared(&self, names: &[String]) -> Result<(), SqlError> {
        use ferretto_proto::fields::perfetto_sql_structured_query as q;

        let Some(query) = self.spec().message(m::QUERY) else {
            return Ok(());
        };
        if query.has(q::GROUP_BY) || query.has(q::SELECT_COLUMNS) {
            return Ok(());
        }
        let declared = query
            .message(q::SQL)
            .map(|sql| sql.texts(q::sql::COLUMN_NAMES));
        match declared
            .unwrap_or_default()
            .iter()
            .find(|it| !names.contains(it))
        {
            Some(name) => Err(SqlError::new(format!("The query has no column '{name}'."))),
            None => Ok(()),
        }
    }
}

/// Returns the encoded message `Value` of a value of a metric.
fn value(cell: ValueRef<'_>, column: &str) -> Result<Vec<u8>, SqlError> {
    use b::row::value as v;

    let number = match cell {
        ValueRef::Null => return Ok(encode(|value| value.bytes(v::NULL_VALUE, &[]))),
        ValueRef::Integer(value) => value as f64,
        ValueRef::Real(value) => value,
        ValueRef::Text(_) | ValueRef::Blob(_) => {
            return Err(SqlError::new(format!(
                "The column '{column}' has a value that is not a number."
            )));
        }
    };
    Ok(encode(|value| value.double(v::DOUBLE_VALUE, number)))
}

/// Returns the identity of a value.
fn key(cell: ValueRef<'_>) -> Result<Vec<u8>, SqlError> {
    let any = Column {
        name: "key".to_owned(),
        kind: Type::Any,
    };
    any.dimension(cell)
}

/// Returns the further columns of the dimensions of a metric.
fn interned<'a>(
    spec: Message<'_>,
    metric: &'a Metric,
    dimensions: &[Column],
) -> Result<Vec<Interned<'a>>, SqlError> {
    use m::interned_dimension_spec as i;

    let mut all: Vec<Interned<'a>> = Vec::new();
    let specs = spec.messages(m::INTERNED_DIMENSION_SPECS);
    for (spec, sql) in specs.into_iter().zip(&metric.interned) {
        let Some(key) = spec.message(i::KEY_COLUMN_SPEC) else {
            return Err(SqlError::new(
                "An interned dimension has no key_column_spec.",
            ));
        };
        let key = Column::of(key)?;
        let name = &key.name;
        if all.iter().any(|other| other.key.name == *name) {
            return Err(SqlError::new(format!(
                "Two interned dimensions have the key '{name}'."
            )));
        }
        if !dimensions.iter().any(|dimension| dimension.name == *name) {
            return Err(SqlError::new(format!(
                "The key '{name}' of an interned dimension is not a dimension of the metric."
            )));
        }
        let data = spec
            .messages(i::DATA_COLUMN_SPECS)
            .into_iter()
            .map(Column::of);
        let data = data.collect::<Result<Vec<_>, _>>()?;
        let names: HashSet<&str> = data.iter().map(|column| column.name.as_str()).collect();
        if names.len() < data.len() || names.contains(name.as_str()) {
            return Err(SqlError::new(format!(
                "The interned dimension with the key '{name}' has two columns of one name."
            )));
        }
        all.push(Interned { key, data, sql });
    }
    Ok(all)
}

impl Interned<'_> {
    /// Adds the rows of the keys that the rows of the metrics have.
    fn rows(
        &self,
        engine: &mut Engine,
        keys: &HashSet<(String, Vec<u8>)>,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        use b::interned_dimension_bundle as i;
        use i::interned_dimension_row as r;

        let (mut rows, mut seen) = (Vec::new(), HashSet::new());
        let name = &self.key.name;
        let names = each_row(engine, self.sql, |names, row| {
            let cell = row[self.key.index(names)?];
            let identity = (name.clone(), key(cell)?);
            if !keys.contains(&identity) {
                return Ok(());
            }
            if !seen.insert(identity) {
                return Err(SqlError::new(format!(
                    "The interned dimension with the key '{name}' has two rows for one value."
                )));
            }
            let mut message = Vec::new();
            let key = self.key.dimension(cell)?;
            Encoder::new(&mut message).bytes(r::KEY_DIMENSION_VALUE, &key);
            for column in &self.data {
                let value = column.dimension(row[column.index(names)?])?;
                Encoder::new(&mut message).bytes(r::INTERNED_DIMENSION_VALUES, &value);
            }
            Encoder::new(&mut rows).bytes(i::INTERNED_DIMENSION_ROWS, &message);
            if rows.len() > MAX_SUMMARY {
                return Err(too_large());
            }
            Ok(())
        })?;
        for column in self.data.iter().chain([&self.key]) {
            column.index(&names)?;
        }
        Encoder::new(out).bytes(b::INTERNED_DIMENSION_BUNDLES, &rows);
        Ok(())
    }
}
