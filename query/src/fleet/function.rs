//! Functions that read one trace, in plans over many.

use std::hash::{Hash, Hasher};

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// Stands for a function of the trace whose rows are read. It is never called: where rows are
/// still those of one trace, the trace's own function takes its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TraceFunction {
    function: ScalarUDF,
    signature: Signature,
}

impl TraceFunction {
    pub(super) fn new(function: ScalarUDF) -> Self {
        let mut signature = function.signature().clone();
        // So that nobody computes it before there is a trace.
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

/// Says why a function cannot be called where rows of several traces meet.
pub(super) fn refusal(name: &str) -> String {
    format!(
        "The function '{name}' reads one trace, and here rows of several meet. Call it in the \
         SELECT or WHERE that reads the table, or in a view: CREATE PERFETTO VIEW is evaluated \
         for each trace."
    )
}

/// Returns the name if the expression calls such a function itself.
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

/// Returns the name of such a function somewhere in an expression.
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
