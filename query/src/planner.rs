//! Operators between values of different types, as SQLite has them.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr,
};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Operator, ScalarUDF, cast, lit, when,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::functions::is_text;

/// Plans operators by the types of their operands.
#[derive(Debug)]
pub(crate) struct SqlitePlanner {
    truth: Arc<ScalarUDF>,
    numeric: Arc<ScalarUDF>,
    text: Arc<ScalarUDF>,
    real: Arc<ScalarUDF>,
    glob: Arc<ScalarUDF>,
    regexp: Arc<ScalarUDF>,
}

impl SqlitePlanner {
    /// Returns a planner that uses these functions.
    pub(crate) fn new(functions: &[ScalarUDF]) -> Self {
        let find = |name: &str| {
            let found = functions.iter().find(|f| f.name() == name);
            Arc::new(
                found
                    .unwrap_or_else(|| panic!("no function {name}"))
                    .clone(),
            )
        };
        Self {
            truth: find("__truth"),
            numeric: find("__numeric"),
            text: find("__text"),
            real: find("__cast_real"),
            glob: find("glob"),
            regexp: find("regexp"),
        }
    }

    /// Returns the operand as a number: integers stay, texts count by their start.
    fn number(&self, expr: Expr, data_type: &DataType) -> Expr {
        match data_type {
            DataType::Boolean => cast(expr, DataType::Int64),
            t if is_text(t) => self.real.call(vec![expr]),
            DataType::Null => cast(expr, DataType::Int64),
            t if t.is_integer() && *t != DataType::Int64 => cast(expr, DataType::Int64),
            _ => expr,
        }
    }

    fn as_text(&self, expr: Expr, data_type: &DataType) -> Expr {
        if is_text(data_type) {
            expr
        } else {
            self.text.call(vec![expr])
        }
    }

    fn truthy(&self, expr: Expr, data_type: &DataType) -> Expr {
        if *data_type == DataType::Boolean {
            expr
        } else {
            self.truth.call(vec![expr])
        }
    }

    /// Compares a text with a number: the column's type decides, else a text is the larger.
    fn compare(&self, operator: Operator, left: Expr, right: Expr, text_left: bool) -> Expr {
        let column = |e: &Expr| {
            matches!(
                e.clone().unalias(),
                Expr::Column(_) | Expr::OuterReferenceColumn(..)
            )
        };
        let (text, number) = if text_left {
            (&left, &right)
        } else {
            (&right, &left)
        };
        if column(text) && !column(number) {
            let number = self.text.call(vec![number.clone()]);
            let (l, r) = if text_left {
                (left, number)
            } else {
                (number, right)
            };
            return binary(l, operator, r);
        }
        if column(number) {
            let text = self.numeric.call(vec![text.clone()]);
            let (l, r) = if text_left {
                (text, right)
            } else {
                (left, text)
            };
            return binary(l, operator, r);
        }
        let result = match operator {
            Operator::Eq => false,
            Operator::NotEq => true,
            Operator::Lt | Operator::LtEq => !text_left,
            _ => text_left,
        };
        let null = left.is_null().or(right.is_null());
        let nothing = Expr::Literal(ScalarValue::Boolean(None), None);
        match when(null, nothing).otherwise(lit(result)) {
            Ok(expr) => expr,
            Err(_) => lit(result),
        }
    }
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// Returns true for a literal number other than 0, which needs no check before a division.
fn not_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(v)), _) => *v != 0,
        Expr::Literal(ScalarValue::Float64(Some(v)), _) => *v != 0.0,
        Expr::Negative(inner) => not_zero(inner),
        Expr::Cast(inner) => not_zero(&inner.expr),
        _ => false,
    }
}

impl ExprPlanner for SqlitePlanner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as B;
        let types = expr
            .left
            .get_type(schema)
            .and_then(|l| Ok((l, expr.right.get_type(schema)?)));
        let Ok((lt, rt)) = types else {
            return Ok(PlannerResult::Original(expr));
        };
        let RawBinaryExpr { op, left, right } = expr;
        let planned = match op {
            B::And | B::Or => {
                let operator = if op == B::And {
                    Operator::And
                } else {
                    Operator::Or
                };
                binary(self.truthy(left, &lt), operator, self.truthy(right, &rt))
            }
            B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo
                if !lt.is_temporal() && !rt.is_temporal() =>
            {
                let mut left = self.number(left, &lt);
                let mut right = self.number(right, &rt);
                let operator = match op {
                    B::Plus => Operator::Plus,
                    B::Minus => Operator::Minus,
                    B::Multiply => Operator::Multiply,
                    B::Divide => Operator::Divide,
                    _ => Operator::Modulo,
                };
                if op == B::Modulo {
                    left = cast(left, DataType::Int64);
                    right = cast(right, DataType::Int64);
                }
                if matches!(op, B::Divide | B::Modulo) && !not_zero(&right) {
                    // A division by 0 is NULL.
                    let zero = binary(right.clone(), Operator::NotEq, lit(0i64));
                    right = when(zero, right).end()?;
                }
                binary(left, operator, right)
            }
            B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq => {
                let operator = match op {
                    B::Eq => Operator::Eq,
                    B::NotEq => Operator::NotEq,
                    B::Lt => Operator::Lt,
                    B::LtEq => Operator::LtEq,
                    B::Gt => Operator::Gt,
                    _ => Operator::GtEq,
                };
                let (text_left, text_right) = (is_text(&lt), is_text(&rt));
                let number = |t: &DataType| t.is_numeric() || *t == DataType::Boolean;
                if text_left && number(&rt) || text_right && number(&lt) {
                    let left = if lt == DataType::Boolean {
                        self.number(left, &lt)
                    } else {
                        left
                    };
                    let right = if rt == DataType::Boolean {
                        self.number(right, &rt)
                    } else {
                        right
                    };
                    self.compare(operator, left, right, text_left)
                } else if (lt == DataType::Boolean) != (rt == DataType::Boolean) {
                    binary(self.number(left, &lt), operator, self.number(right, &rt))
                } else {
                    binary(left, operator, right)
                }
            }
            B::StringConcat => binary(
                self.as_text(left, &lt),
                Operator::StringConcat,
                self.as_text(right, &rt),
            ),
            B::BitwiseAnd | B::BitwiseOr => {
                let operator = if op == B::BitwiseAnd {
                    Operator::BitwiseAnd
                } else {
                    Operator::BitwiseOr
                };
                let left = cast(self.number(left, &lt), DataType::Int64);
                binary(
                    left,
                    operator,
                    cast(self.number(right, &rt), DataType::Int64),
                )
            }
            B::Match => self.glob.call(vec![right, left]),
            B::Regexp => self.regexp.call(vec![right, left]),
            op => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        };
        Ok(PlannerResult::Planned(planned))
    }

    fn plan_aggregate(&self, expr: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        // The types of arguments are not known here; see `NumericAggregates`.
        Ok(PlannerResult::Original(expr))
    }
}
