//! Scalar functions of SQLite and of traces.

mod bounded;
mod core;
mod json;
mod layout;
mod math;
mod pattern;
mod printf;
mod recursive;
mod series;
mod text;
mod time;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub use core::to_text;
pub(crate) use layout::internal_layout;
pub(crate) use recursive::Recursive;
pub(crate) use text::base64;
pub use time::Clocks;

type Body = Arc<dyn Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync>;
/// A body for a constant text as first argument and an array as second.
type WithText = Arc<dyn Fn(&str, &ArrayRef) -> Result<ArrayRef> + Send + Sync>;
type Typing = Arc<dyn Fn(&[DataType]) -> DataType + Send + Sync>;

/// A function over arrays.
#[derive(Clone)]
pub struct ArrayFunction {
    name: String,
    signature: Signature,
    arity: RangeInclusive<usize>,
    typing: Typing,
    body: Body,
    with_text: Option<WithText>,
    /// True if the function returns arguments of the result's type unchanged.
    identity: bool,
}

impl fmt::Debug for ArrayFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayFunction")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl PartialEq for ArrayFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.body, &other.body)
    }
}

impl Eq for ArrayFunction {}

impl Hash for ArrayFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ArrayFunction {
    /// Returns a function whose result has one type.
    pub fn new(
        name: &str,
        arity: RangeInclusive<usize>,
        returns: DataType,
        body: impl Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Self {
        Self::typed(name, arity, move |_| returns.clone(), body)
    }

    /// Returns a function whose result type depends on the types of the arguments.
    pub fn typed(
        name: &str,
        arity: RangeInclusive<usize>,
        typing: impl Fn(&[DataType]) -> DataType + Send + Sync + 'static,
        body: impl Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Self {
        let signature = if *arity.end() == 0 {
            Signature::nullary(Volatility::Immutable)
        } else {
            Signature::variadic_any(Volatility::Immutable)
        };
        Self {
            name: name.to_owned(),
            signature,
            arity,
            typing: Arc::new(typing),
            body: Arc::new(body),
            with_text: None,
            identity: false,
        }
    }

    /// Adds a faster body for calls with a constant text as first argument.
    fn with_text(
        mut self,
        body: impl Fn(&str, &ArrayRef) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Self {
        self.with_text = Some(Arc::new(body));
        self
    }

    /// Lets the planner remove calls whose argument has the result's type.
    fn identity(mut self) -> Self {
        self.identity = true;
        self
    }

    /// Marks the function as volatile: each call returns another result.
    fn volatile(mut self) -> Self {
        self.signature.volatility = Volatility::Volatile;
        self
    }

    /// Converts the function to DataFusion's form.
    pub fn udf(self) -> ScalarUDF {
        ScalarUDF::new_from_impl(self)
    }
}

impl ScalarUDFImpl for ArrayFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if !self.arity.contains(&types.len()) {
            let name = self.name.trim_start_matches("__");
            let (low, high) = (self.arity.start(), self.arity.end());
            let expected = match (low, high) {
                (a, b) if a == b => a.to_string(),
                (a, &usize::MAX) => format!("at least {a}"),
                (a, b) => format!("{a} to {b}"),
            };
            return plan_err!(
                "The function '{name}' takes {expected} arguments, not {}.",
                types.len()
            );
        }
        Ok((self.typing)(types))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let (Some(body), [ColumnarValue::Scalar(first), ColumnarValue::Array(second)]) =
            (&self.with_text, args.args.as_slice())
            && let Some(Some(text)) = first.try_as_str()
        {
            return Ok(ColumnarValue::Array(body(text, second)?));
        }
        let constant = args
            .args
            .iter()
            .all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let arrays: Vec<ArrayRef> = args
            .args
            .into_iter()
            .map(|a| a.into_array(rows))
            .collect::<Result<_>>()?;
        let result = (self.body)(&arrays, rows)?;
        if constant && self.signature.volatility == Volatility::Immutable {
            let value = datafusion::common::ScalarValue::try_from_array(&result, 0)?;
            return Ok(ColumnarValue::Scalar(value));
        }
        Ok(ColumnarValue::Array(result))
    }

    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if self.identity && args.len() == 1 {
            let given = info.get_data_type(&args[0])?;
            if given == (self.typing)(std::slice::from_ref(&given)) {
                return Ok(ExprSimplifyResult::Simplified(args.remove(0)));
            }
        }
        Ok(ExprSimplifyResult::Original(args))
    }
}

/// Returns all functions that do not read a trace.
pub fn all() -> Vec<ScalarUDF> {
    core::functions()
        .into_iter()
        .chain(json::functions())
        .chain(math::functions())
        .chain(series::functions())
        .chain(text::functions())
        .chain(pattern::functions())
        .chain(time::functions())
        .chain(printf::functions())
        .map(ArrayFunction::udf)
        .collect()
}

/// Returns true for all types of texts.
pub fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, value) => is_text(value),
        _ => false,
    }
}

/// Converts the array to texts.
pub fn texts(array: &ArrayRef) -> Result<StringArray> {
    let array = to_text(array)?;
    Ok(array
        .as_any()
        .downcast_ref::<StringArray>()
        .cloned()
        .unwrap_or_else(|| StringArray::new_null(array.len())))
}

/// Converts the array to integers. Texts that are not integers become NULL.
pub fn integers(array: &ArrayRef) -> Result<datafusion::arrow::array::Int64Array> {
    use datafusion::arrow::array::AsArray;
    let array = cast(array, &DataType::Int64)?;
    Ok(array
        .as_primitive::<datafusion::arrow::datatypes::Int64Type>()
        .clone())
}

/// Converts the array to integers. Fails for other types than integers.
pub fn only_integers(
    function: &str,
    array: &ArrayRef,
) -> Result<datafusion::arrow::array::Int64Array> {
    match array.data_type() {
        t if t.is_integer() || *t == DataType::Null || *t == DataType::Boolean => integers(array),
        t => exec_err!(
            "The function '{function}' takes integers, not {}.",
            type_word(t)
        ),
    }
}

/// Converts the array to reals. Texts that are not numbers become NULL.
pub fn reals(array: &ArrayRef) -> Result<datafusion::arrow::array::Float64Array> {
    use datafusion::arrow::array::AsArray;
    let array = cast(array, &DataType::Float64)?;
    Ok(array
        .as_primitive::<datafusion::arrow::datatypes::Float64Type>()
        .clone())
}

/// Returns SQLite's name of a type.
pub fn type_word(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Null => "null",
        t if t.is_integer() || *t == DataType::Boolean => "integer",
        t if t.is_floating() || t.is_decimal() => "real",
        t if is_text(t) => "text",
        _ => "blob",
    }
}
