//! User-defined functions that call themselves. Each combination of arguments is computed once in a
//! query, in batches.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock, Weak};

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;

/// The largest depth of calls, which the stack of a thread can hold.
const MAX_DEPTH: usize = 200;

/// A function that calls itself.
#[derive(Debug)]
pub(crate) struct Recursive {
    name: String,
    /// The arguments with their types.
    arguments: SchemaRef,
    returns: DataType,
    body: OnceLock<Arc<dyn PhysicalExpr>>,
}

impl Recursive {
    /// Returns a function without its body, which is planned with [`Recursive::inner`].
    pub(crate) fn new(name: String, arguments: SchemaRef, returns: DataType) -> Arc<Self> {
        Arc::new(Self {
            name,
            arguments,
            returns,
            body: OnceLock::new(),
        })
    }

    /// Sets the body, an expression of the arguments.
    pub(crate) fn define(&self, body: Arc<dyn PhysicalExpr>) {
        // The body is set once, after it was planned.
        let _ = self.body.set(body);
    }

    /// Returns the function for calls in its own body.
    pub(crate) fn inner(self: &Arc<Self>) -> ScalarUDF {
        self.udf(Handle::Inner(Arc::downgrade(self)))
    }

    /// Returns the function for calls in queries.
    pub(crate) fn outer(self: &Arc<Self>) -> ScalarUDF {
        self.udf(Handle::Outer(self.clone()))
    }

    fn udf(&self, handle: Handle) -> ScalarUDF {
        let signature = match self.arguments.fields().len() {
            0 => Signature::nullary(Volatility::Immutable),
            count => Signature::any(count, Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(Call {
            name: self.name.clone(),
            returns: self.returns.clone(),
            signature,
            handle,
        })
    }

    /// Computes the function for rows of arguments.
    fn evaluate(self: &Arc<Self>, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let mut keys = Vec::with_capacity(rows);
        for row in 0..rows {
            let values = arguments
                .iter()
                .map(|array| ScalarValue::try_from_array(array, row));
            keys.push(values.collect::<Result<Vec<_>>>()?);
        }
        let running = Running::enter(self)?;
        let mut missing: HashMap<&Vec<ScalarValue>, usize> = HashMap::new();
        for (row, key) in keys.iter().enumerate() {
            if !running.knows(key) {
                missing.entry(key).or_insert(row);
            }
        }
        let mut missing: Vec<usize> = missing.into_values().collect();
        missing.sort_unstable();
        if !missing.is_empty() {
            let picked = missing
                .iter()
                .map(|row| u32::try_from(*row).unwrap_or(u32::MAX));
            let picked = UInt32Array::from_iter_values(picked);
            let columns = arguments
                .iter()
                .map(|array| take(array, &picked, None))
                .collect::<std::result::Result<Vec<_>, _>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(missing.len()));
            let batch =
                RecordBatch::try_new_with_options(self.arguments.clone(), columns, &options)?;
            let Some(body) = self.body.get() else {
                return exec_err!("The function calls itself with the same arguments.");
            };
            let values = body.evaluate(&batch)?.into_array(missing.len())?;
            let values = cast(&values, &self.returns)?;
            for (index, row) in missing.into_iter().enumerate() {
                let value = ScalarValue::try_from_array(&values, index)?;
                running.remember(keys[row].clone(), value);
            }
        }
        let values: Vec<ScalarValue> = keys.iter().filter_map(|key| running.result(key)).collect();
        ScalarValue::iter_to_array(values)
    }
}

/// The calls of a function in progress, and their results.
#[derive(Default)]
struct Calls {
    depth: usize,
    results: HashMap<Vec<ScalarValue>, ScalarValue>,
}

thread_local! {
    /// The calls in progress of this thread, by function.
    static CALLS: RefCell<HashMap<usize, Calls>> = RefCell::default();
}

/// A call in progress. The results are dropped with the outermost one.
struct Running(usize);

impl Running {
    fn enter(function: &Arc<Recursive>) -> Result<Self> {
        let key = Arc::as_ptr(function) as usize;
        let running = Self(key);
        let depth = running.with(|calls| {
            calls.depth += 1;
            calls.depth
        });
        if depth > MAX_DEPTH {
            return exec_err!(
                "The function calls itself more than {MAX_DEPTH} times: use WITH RECURSIVE."
            );
        }
        Ok(running)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Calls) -> T) -> T {
        CALLS.with_borrow_mut(|all| act(all.entry(self.0).or_default()))
    }

    fn knows(&self, key: &Vec<ScalarValue>) -> bool {
        self.with(|calls| calls.results.contains_key(key))
    }

    fn result(&self, key: &Vec<ScalarValue>) -> Option<ScalarValue> {
        self.with(|calls| calls.results.get(key).cloned())
    }

    fn remember(&self, key: Vec<ScalarValue>, value: ScalarValue) {
        self.with(|calls| calls.results.insert(key, value));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let depth = self.with(|calls| {
            calls.depth -= 1;
            calls.depth
        });
        if depth == 0 {
            CALLS.with_borrow_mut(|all| all.remove(&self.0));
        }
    }
}

/// A reference to the function. Its own body must not keep it alive.
enum Handle {
    Outer(Arc<Recursive>),
    Inner(Weak<Recursive>),
}

/// The function as DataFusion calls it.
struct Call {
    name: String,
    returns: DataType,
    signature: Signature,
    handle: Handle,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Call {
    fn address(&self) -> *const Recursive {
        match &self.handle {
            Handle::Outer(function) => Arc::as_ptr(function),
            Handle::Inner(function) => function.as_ptr(),
        }
    }
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && std::ptr::eq(self.address(), other.address())
    }
}

impl Eq for Call {}

impl Hash for Call {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Call {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let function = match &self.handle {
            Handle::Outer(function) => Some(function.clone()),
            Handle::Inner(function) => function.upgrade(),
        };
        let Some(function) = function else {
            return exec_err!("The function '{}' was replaced.", self.name);
        };
        let is_constant = args
            .args
            .iter()
            .all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        if args.number_rows == 0 {
            // A branch of a CASE without rows, where the recursion ends.
            let empty = datafusion::arrow::array::new_empty_array(&self.returns);
            return Ok(ColumnarValue::Array(empty));
        }
        let mut arguments = Vec::with_capacity(args.args.len());
        for (argument, field) in args.args.into_iter().zip(function.arguments.fields()) {
            arguments.push(cast(&argument.into_array(rows)?, field.data_type())?);
        }
        let values = function.evaluate(&arguments, rows)?;
        Ok(if is_constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)
        } else {
            ColumnarValue::Array(values)
        })
    }
}
