//! `extract_arg`, and other functions that read arguments.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Float64Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use ferretto_tables::schema::ArgValue;
use ferretto_tables::{StringId, TableSet, Trace};

use crate::functions::{ArrayFunction, integers, texts};

/// The types of keys of arguments.
pub(crate) trait KeyTypes: fmt::Debug + Send + Sync {
    /// Returns the type that can represent all values of a key; `None` if the key is unknown.
    fn data_type(&self, key: &str) -> Option<DataType>;
}

/// The types of keys in one trace.
#[derive(Debug)]
pub(super) struct Keys(Arc<Trace>);

impl Keys {
    pub(super) fn new(trace: &Arc<Trace>) -> Self {
        Self(trace.clone())
    }
}

impl KeyTypes for Keys {
    fn data_type(&self, key: &str) -> Option<DataType> {
        let types = self.0.tables().args.types(self.0.strings().find(key)?);
        if types.has_text() {
            Some(DataType::Utf8)
        } else if types.has_real() {
            Some(DataType::Float64)
        } else {
            types.has_integer().then_some(DataType::Int64)
        }
    }
}

/// The function `extract_arg(arg_set_id, key)`. Its type is that of the key's values in this trace.
#[derive(Debug)]
struct ExtractArg {
    trace: Arc<Trace>,
    keys: Arc<dyn KeyTypes>,
    signature: Signature,
}

impl PartialEq for ExtractArg {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.trace, &other.trace)
    }
}

impl Eq for ExtractArg {}

impl Hash for ExtractArg {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// The keys to look up.
enum LookupKeys {
    One(Option<StringId>),
    /// A key for each row, and the last row with the id of its key.
    Each(StringArray, Option<(usize, Option<StringId>)>),
}

/// Reads the values of keys in argument sets.
struct Values<'a> {
    trace: &'a Trace,
    sets: Int64Array,
    keys: LookupKeys,
}

impl<'a> Values<'a> {
    fn new(trace: &'a Trace, sets: &ArrayRef, keys: &ArrayRef) -> Result<Self> {
        Ok(Self {
            trace,
            sets: integers(sets)?,
            keys: LookupKeys::Each(texts(keys)?, None),
        })
    }

    fn of_one(trace: &'a Trace, sets: &ArrayRef, key: Option<&str>) -> Result<Self> {
        Ok(Self {
            trace,
            sets: integers(sets)?,
            keys: LookupKeys::One(key.and_then(|key| trace.strings().find(key))),
        })
    }

    /// Returns the value of a row.
    fn get(&mut self, row: usize) -> Option<ArgValue> {
        if self.sets.is_null(row) {
            return None;
        }
        let id = match &mut self.keys {
            LookupKeys::One(id) => *id,
            LookupKeys::Each(keys, _) if keys.is_null(row) => None,
            LookupKeys::Each(keys, last) => {
                let key = keys.value(row);
                let id = match *last {
                    Some((known, id)) if keys.value(known) == key => id,
                    _ => self.trace.strings().find(key),
                };
                *last = Some((row, id));
                id
            }
        };
        let set = u32::try_from(self.sets.value(row)).ok()?;
        self.trace.tables().args.get(set, id?)
    }
}

impl ScalarUDFImpl for ExtractArg {
    fn name(&self) -> &'static str {
        "extract_arg"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if args.arg_fields.len() != 2 {
            return plan_err!(
                "The function 'extract_arg' takes 2 arguments, not {}.",
                args.arg_fields.len()
            );
        }
        let data_type = match args.scalar_arguments[1] {
            Some(
                ScalarValue::Utf8(Some(key))
                | ScalarValue::LargeUtf8(Some(key))
                | ScalarValue::Utf8View(Some(key)),
            ) => self.keys.data_type(key).unwrap_or(DataType::Utf8),
            _ => DataType::Utf8,
        };
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let returns = args.return_type().clone();
        let rows = args.number_rows;
        let trace = &self.trace;
        let sets = args.args[0].to_array(rows)?;
        let mut values = match &args.args[1] {
            ColumnarValue::Scalar(key) if key.try_as_str().is_some() => {
                Values::of_one(trace, &sets, key.try_as_str().flatten())?
            }
            keys => Values::new(trace, &sets, &keys.to_array(rows)?)?,
        };
        let mut at = |row: usize| values.get(row);
        let text = |value: ArgValue| match value {
            ArgValue::Text(id) | ArgValue::Json(id) => Some(trace.strings().text(id).to_owned()),
            ArgValue::Real(v) => Some(format!("{v:?}")),
            other => other.as_int().map(|v| v.to_string()),
        };
        let real = |value: ArgValue| match value {
            ArgValue::Real(v) => Some(v),
            other => other.as_int().map(|v| v as f64),
        };
        let rows = 0..rows;
        Ok(ColumnarValue::Array(match returns {
            DataType::Int64 => Arc::new(
                rows.map(|r| at(r).and_then(ArgValue::as_int))
                    .collect::<Int64Array>(),
            ),
            DataType::Float64 => {
                Arc::new(rows.map(|r| at(r).and_then(real)).collect::<Float64Array>())
            }
            _ => Arc::new(rows.map(|r| at(r).and_then(text)).collect::<StringArray>()),
        }))
    }
}

/// Returns the tables that a function reads, if it is one of these.
pub(super) fn needs(name: &str) -> Option<TableSet> {
    // Ids of argument sets are assigned over the rows of all tables.
    matches!(name, "extract_arg" | "__arg_int").then_some(TableSet::ALL)
}

/// Returns the functions that read arguments of a trace.
pub(super) fn functions(trace: &Arc<Trace>, types: Option<Arc<dyn KeyTypes>>) -> Vec<ScalarUDF> {
    let extract = ExtractArg {
        trace: trace.clone(),
        keys: types.unwrap_or_else(|| Arc::new(Keys::new(trace))),
        signature: Signature::variadic_any(Volatility::Immutable),
    };
    let trace = trace.clone();
    let integer = ArrayFunction::new("__arg_int", 2..=2, DataType::Int64, move |args, rows| {
        let mut values = Values::new(&trace, &args[0], &args[1])?;
        let at = |row: usize| values.get(row).and_then(ArgValue::as_int);
        Ok(Arc::new((0..rows).map(at).collect::<Int64Array>()))
    });
    vec![ScalarUDF::new_from_impl(extract), integer.udf()]
}
