//! `extract_metadata` and its variants. Their type is that of the entry in the trace.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use ferretto_tables::Trace;

use crate::functions::{integers, texts};

/// The arguments before the name: none, a machine, a trace, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Scope {
    Primary,
    Machine,
    Trace,
    Exact,
}

impl Scope {
    fn name(self) -> &'static str {
        match self {
            Self::Primary => "extract_metadata",
            Self::Machine => "extract_metadata_for_machine",
            Self::Trace => "extract_metadata_for_trace",
            Self::Exact => "extract_exact_metadata",
        }
    }

    /// Returns the number of arguments before the name.
    fn leading(self) -> usize {
        match self {
            Self::Primary => 0,
            Self::Machine | Self::Trace => 1,
            Self::Exact => 2,
        }
    }
}

#[derive(Debug)]
struct ExtractMetadata {
    trace: Arc<Trace>,
    scope: Scope,
    /// True if numbers are returned as integers. Otherwise all values are texts, since other traces
    /// may have texts of the same name.
    is_typed: bool,
    signature: Signature,
}

impl PartialEq for ExtractMetadata {
    fn eq(&self, other: &Self) -> bool {
        self.scope == other.scope && Arc::ptr_eq(&self.trace, &other.trace)
    }
}

impl Eq for ExtractMetadata {}

impl Hash for ExtractMetadata {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.scope.hash(state);
    }
}

impl ExtractMetadata {
    /// Returns the row of an entry. A machine or trace of `None` matches entries without one.
    fn find(&self, name: &str, ids: &[Option<u32>]) -> Option<u32> {
        let name = self.trace.strings().find(name)?;
        let table = &self.trace.tables().metadata;
        let matches = |row: &u32| {
            let (machine, trace) = (table.machine_id().get(*row), table.trace_id().get(*row));
            table.name().get(*row) == name
                && match self.scope {
                    // Entries of the first machine, or without a machine.
                    Scope::Primary => machine.is_none_or(|id| id == 0),
                    Scope::Machine => machine == ids[0],
                    Scope::Trace => trace == ids[0],
                    Scope::Exact => machine == ids[0] && trace == ids[1],
                }
        };
        (0..table.len()).find(matches)
    }

    /// Returns true if the value of the first entry with this name is a number.
    fn is_number(&self, name: &str) -> bool {
        let Some(name) = self.trace.strings().find(name) else {
            return false;
        };
        let table = &self.trace.tables().metadata;
        let row = (0..table.len()).find(|row| table.name().get(*row) == name);
        row.is_some_and(|row| table.int_value().get(row).is_some())
    }
}

impl ScalarUDFImpl for ExtractMetadata {
    fn name(&self) -> &'static str {
        self.scope.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let expected = self.scope.leading() + 1;
        if args.arg_fields.len() != expected {
            return plan_err!(
                "The function '{}' takes {expected} arguments, not {}.",
                self.name(),
                args.arg_fields.len()
            );
        }
        let data_type = match args.scalar_arguments[expected - 1] {
            Some(ScalarValue::Utf8(Some(name)) | ScalarValue::Utf8View(Some(name)))
                if self.is_typed && self.is_number(name) =>
            {
                DataType::Int64
            }
            _ => DataType::Utf8,
        };
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let number = *args.return_type() == DataType::Int64;
        let rows = args.number_rows;
        let arrays: Vec<ArrayRef> = args
            .args
            .into_iter()
            .map(|a| a.into_array(rows))
            .collect::<Result<_>>()?;
        let leading = self.scope.leading();
        let ids = arrays[..leading]
            .iter()
            .map(integers)
            .collect::<Result<Vec<_>>>()?;
        let names = texts(&arrays[leading])?;
        let found: Vec<Option<u32>> = (0..rows)
            .map(|row| {
                let ids: Vec<Option<u32>> = ids
                    .iter()
                    .map(|ids| {
                        let id = ids.is_valid(row).then(|| ids.value(row))?;
                        u32::try_from(id).ok()
                    })
                    .collect();
                self.find(names.is_valid(row).then(|| names.value(row))?, &ids)
            })
            .collect();
        let table = &self.trace.tables().metadata;
        let strings = self.trace.strings();
        let text = |row: u32| match strings.get(table.str_value().get(row)) {
            Some(text) => Some(text.to_owned()),
            None => table.int_value().get(row).map(|v| v.to_string()),
        };
        Ok(ColumnarValue::Array(if number {
            let values = found
                .into_iter()
                .map(|row| row.and_then(|row| table.int_value().get(row)));
            Arc::new(values.collect::<Int64Array>())
        } else {
            let values = found.into_iter().map(|row| row.and_then(text));
            Arc::new(values.collect::<StringArray>())
        }))
    }
}

const SCOPES: [Scope; 4] = [Scope::Primary, Scope::Machine, Scope::Trace, Scope::Exact];

/// Returns true if the name is that of one of these functions.
pub(super) fn reads(name: &str) -> bool {
    SCOPES.iter().any(|scope| scope.name() == name)
}

/// Returns the functions that read metadata of a trace.
pub(super) fn functions(trace: &Arc<Trace>, is_typed: bool) -> Vec<ScalarUDF> {
    SCOPES
        .into_iter()
        .map(|scope| {
            ScalarUDF::new_from_impl(ExtractMetadata {
                trace: trace.clone(),
                scope,
                is_typed,
                signature: Signature::variadic_any(Volatility::Immutable),
            })
        })
        .collect()
}
