//! Truth values.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

use super::build::{function, take};

/// Converts a condition to a truth value, unless it is one by its form. Any number other than 0 is
/// true.
pub(super) fn truth(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => return truth(inner),
        Expr::BinaryOp { op, .. } => {
            use BinaryOperator as B;
            if matches!(
                op,
                B::And | B::Or | B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq
            ) {
                return;
            }
        }
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            ..
        }
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::Between { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::Exists { .. } => return,
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => return,
        _ => {}
    }
    let inner = take(expr);
    *expr = function("__truth", vec![inner]);
}
