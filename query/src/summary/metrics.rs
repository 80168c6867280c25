//! The metrics of specifications.

use std::collections::BTreeSet;

use ferretto_proto::fields::{
    trace_metric_v2_spec as m, trace_metric_v2_template_spec as p, trace_summary_spec as s,
};
use ferretto_wire::{Encoder, encode};

use super::message::Message;
use super::structured::Generator;
use crate::error::SqlError;

/// The largest size of all metrics of templates, which repeat queries.
const MAX_EXPANDED: usize = 64 << 20;

/// A metric, and the SQL of its queries.
#[derive(Debug, Clone)]
pub(super) struct Metric {
    pub(super) id: String,
    /// The encoded message `TraceMetricV2Spec`.
    pub(super) spec: Vec<u8>,
    pub(super) sql: String,
    /// The SQL of further columns of dimensions.
    pub(super) interned: Vec<String>,
}

impl Metric {
    fn new(spec: Vec<u8>) -> Result<Self, SqlError> {
        let id = Message(&spec).filled(m::ID);
        Ok(Self {
            id: id.ok_or_else(|| SqlError::new("A metric has no id."))?,
            spec,
            sql: String::new(),
            interned: Vec::new(),
        })
    }

    /// Generates the SQL.
    pub(super) fn generate(&mut self, generator: &mut Generator<'_>) -> Result<(), SqlError> {
        let located =
            |error: SqlError| SqlError::new(format!("The metric '{}': {}", self.id, error.message));
        let spec = Message(&self.spec);
        let mut select = |message: Message<'_>, number| match message.message(number) {
            Some(query) => generator.select(query),
            None => Err(SqlError::new("It has no query.")),
        };
        self.sql = select(spec, m::QUERY).map_err(located)?;
        for interned in spec.messages(m::INTERNED_DIMENSION_SPECS) {
            let sql = select(interned, m::interned_dimension_spec::QUERY);
            self.interned.push(sql.map_err(located)?);
        }
        Ok(())
    }
}

/// Returns all metrics, and those of templates.
///
/// # Errors
///
/// Fails if a metric or template lacks an id.
pub(super) fn expanded(specs: &[Vec<u8>]) -> Result<Vec<Metric>, SqlError> {
    let mut all = Vec::new();
    for spec in specs {
        for metric in Message(spec).messages(s::METRIC_SPEC) {
            all.push(Metric::new(metric.0.to_vec())?);
        }
    }
    let mut size = 0;
    for spec in specs {
        for template in Message(spec).messages(s::METRIC_TEMPLATE_SPEC) {
            for metric in expand(template)? {
                size += metric.len();
                if size > MAX_EXPANDED {
                    return Err(SqlError::new("The metrics of templates are too large."));
                }
                all.push(Metric::new(metric)?);
            }
        }
    }
    Ok(all)
}

/// A column of a template that becomes a metric: its name, and fields that the metric gets.
struct ValueColumn {
    name: String,
    fields: Vec<u8>,
}

fn value_columns(template: Message<'_>) -> Result<Vec<ValueColumn>, SqlError> {
    use p::value_column_spec as v;

    let names = template.texts(p::VALUE_COLUMNS);
    let specs = template.messages(p::VALUE_COLUMN_SPECS);
    if !names.is_empty() && !specs.is_empty() {
        return Err(SqlError::new(
            "A template has both value_columns and value_column_specs: use one of them.",
        ));
    }
    let plain = names.into_iter().map(|name| ValueColumn {
        name,
        fields: Vec::new(),
    });
    let described = specs.into_iter().map(|spec| ValueColumn {
        name: spec.text(v::NAME).unwrap_or_default(),
        fields: encode(|metric| {
            if let Some(unit) = spec.int(v::UNIT) {
                metric.int(m::UNIT, unit);
            }
            if let Some(unit) = spec.filled(v::CUSTOM_UNIT) {
                metric.string(m::CUSTOM_UNIT, &unit);
            }
            if let Some(polarity) = spec.int(v::POLARITY) {
                metric.int(m::POLARITY, polarity);
            }
        }),
    });
    Ok(plain.chain(described).collect())
}

/// Returns the metrics of a template, encoded.
fn expand(template: Message<'_>) -> Result<Vec<Vec<u8>>, SqlError> {
    let Some(prefix) = template.filled(p::ID_PREFIX) else {
        return Err(SqlError::new("A template of metrics has no id_prefix."));
    };
    let copy = |metric: &mut Encoder<'_, Vec<u8>>, from, to| {
        for message in template.messages(from) {
            metric.bytes(to, message.0);
        }
    };
    let is_bundled = !template.bool(p::DISABLE_AUTO_BUNDLING).unwrap_or(false);
    let all = value_columns(template)?.into_iter().map(|column| {
        encode(|metric| {
            metric.string(m::ID, &format!("{prefix}_{}", column.name));
            metric.string(m::VALUE, &column.name);
            metric.raw(&column.fields);
            copy(metric, p::DIMENSIONS, m::DIMENSIONS);
            copy(metric, p::DIMENSIONS_SPECS, m::DIMENSIONS_SPECS);
            if let Some(query) = template.message(p::QUERY) {
                metric.bytes(m::QUERY, query.0);
            }
            if is_bundled {
                metric.string(m::BUNDLE_ID, &prefix);
            }
            if let Some(uniqueness) = template.int(p::DIMENSION_UNIQUENESS) {
                metric.int(m::DIMENSION_UNIQUENESS, uniqueness);
            }
            copy(
                metric,
                p::INTERNED_DIMENSION_SPECS,
                m::INTERNED_DIMENSION_SPECS,
            );
        })
    });
    Ok(all.collect())
}

/// Returns the metric with this id.
pub(super) fn named(metrics: &[Metric], id: &str) -> Result<Metric, SqlError> {
    let mut found = metrics.iter().filter(|metric| metric.id == id);
    match (found.next(), found.next()) {
        (Some(metric), None) => Ok(metric.clone()),
        (Some(_), Some(_)) => Err(duplicate(id)),
        (None, _) => Err(SqlError::new(format!("There is no metric '{id}'."))),
    }
}

fn duplicate(id: &str) -> SqlError {
    SqlError::new(format!("There are several metrics with the id '{id}'."))
}

/// Fails if two metrics have one id, or one has the id that stands for all.
pub(super) fn check_ids(metrics: &[Metric]) -> Result<(), SqlError> {
    let mut ids = BTreeSet::new();
    for metric in metrics {
        if metric.id.eq_ignore_ascii_case("all") {
            return Err(SqlError::new(
                "A metric has the id 'all', which stands for all metrics.",
            ));
        }
        if !ids.insert(&metric.id) {
            return Err(duplicate(&metric.id));
        }
    }
    Ok(())
}
