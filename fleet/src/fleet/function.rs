//! Functions that read one trace, in plans over many traces.

use std::hash::{Hash, Hasher};

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// A placeholder for a function that reads the trace. It is never called: binding a plan to a trace
/// replaces it by the function of that trace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TraceFunction {
    function: ScalarUDF,
    signature: Signature,
}

impl TraceFunction {
    pub(super) fn new(function: ScalarUDF) -> Self {
        let mut signature = function.signature().clone();
        // The optimizer must not evaluate it before there is a trace.
        signature.volatility = Volatility::Volatile;
        Self {
            function,
            signature,
        }
    }
}

impl Hash for TraceFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name().hash(state);
    }
}

impl ScalarUDFImpl for TraceFunction {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.function.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.function.return_field_from_args(args)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{}", refusal(self.name()))
    }
}

/// Returns the error for a call on rows of several traces.
pub(super) fn refusal(name: &str) -> String {
    format!(
        "The function '{name}' reads one trace, but the rows here are of several. Call it in the \
         SELECT or WHERE that reads the table, or in a view: CREATE PERFETTO VIEW is evaluated \
         for each trace."
    )
}

/// Returns the name of the function if the expression is a call of a [`TraceFunction`].
pub(super) fn called(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::ScalarFunction(call)
            if (call.func.inner().as_ref() as &dyn std::any::Any).is::<TraceFunction>() =>
        {
            Some(call.func.name())
        }
        _ => None,
    }
}

/// Returns the name of the first [`TraceFunction`] that is called in an expression.
pub(super) fn within(expr: &Expr) -> Option<String> {
    let mut found = None;
    let looked = expr.apply(|e| {
        if let Some(name) = called(e) {
            found = Some(name.to_owned());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    looked.ok().and(found)
}
