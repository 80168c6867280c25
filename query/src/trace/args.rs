//! `extract_arg` and its relatives.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

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

/// Says which type holds all values of a key of arguments.
pub(crate) trait KeyTypes: fmt::Debug + Send + Sync {
    /// Returns the type, or nothing if the key is not known.
    fn data_type(&self, key: &str) -> Option<DataType>;
}

/// The types of the values that each key has anywhere in the trace, a bit each.
#[derive(Debug)]
pub(super) struct Keys {
    trace: Arc<Trace>,
    kinds: OnceLock<HashMap<StringId, u8>>,
}

const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 4;

impl Keys {
    pub(super) fn new(trace: &Arc<Trace>) -> Self {
        Self {
            trace: trace.clone(),
            kinds: OnceLock::new(),
        }
    }

    fn kinds(&self, key: &str) -> u8 {
        let Some(key) = self.trace.strings().find(key) else {
            return 0;
        };
        let kinds = self.kinds.get_or_init(|| {
            let mut kinds: HashMap<StringId, u8> = HashMap::new();
            let args = &self.trace.tables().args;
            let mut row = 0;
            while row < args.len() {
                let mut count = 0;
                for arg in args.set(row) {
                    count += 1;
                    *kinds.entry(arg.key).or_default() |= match arg.value {
                        ArgValue::Null => 0,
                        ArgValue::Real(_) => REAL,
                        ArgValue::Text(_) | ArgValue::Json(_) => TEXT,
                        _ => INTEGER,
                    };
                }
                row += count.max(1);
            }
            kinds
        });
        kinds.get(&key).copied().unwrap_or(0)
    }
}

impl KeyTypes for Keys {
    fn data_type(&self, key: &str) -> Option<DataType> {
        match self.kinds(key) {
            0 => None,
            INTEGER => Some(DataType::Int64),
            kinds if kinds & TEXT != 0 => Some(DataType::Utf8),
            _ => Some(DataType::Float64),
        }
    }
}

/// `extract_arg(arg_set_id, key)`: of the type that the key's values have in this trace.
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

/// Reads values of keys in sets; a key is looked up when it is another than that of the row before.
struct Values<'a> {
    trace: &'a Trace,
    sets: Int64Array,
    keys: StringArray,
    last: Option<(usize, Option<StringId>)>,
}

impl<'a> Values<'a> {
    fn new(trace: &'a Trace, sets: &ArrayRef, keys: &ArrayRef) -> Result<Self> {
        Ok(Self {
            trace,
            sets: integers(sets)?,
            keys: texts(keys)?,
            last: None,
        })
    }

    /// Returns the value of a row.
    fn get(&mut self, row: usize) -> Option<ArgValue> {
        if self.sets.is_null(row) || self.keys.is_null(row) {
            return None;
        }
        let key = self.keys.value(row);
        let id = match self.last {
            Some((known, id)) if self.keys.value(known) == key => id,
            _ => self.trace.strings().find(key),
        };
        self.last = Some((row, id));
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
        let arrays: Vec<ArrayRef> = args
            .args
            .into_iter()
            .map(|a| a.into_array(rows))
            .collect::<Result<_>>()?;
        let trace = &self.trace;
        let mut values = Values::new(trace, &arrays[0], &arrays[1])?;
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
    // Sets are numbered over the rows of all tables.
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
