//! Operators between values of different types, with SQLite's semantics.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr,
};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, cast, lit, when,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::functions::is_text;

/// Plans operators by the types of their operands.
#[derive(Debug, Clone)]
pub(crate) struct SqlitePlanner {
    truth: Arc<ScalarUDF>,
    numeric: Arc<ScalarUDF>,
    text: Arc<ScalarUDF>,
    real: Arc<ScalarUDF>,
    glob: Arc<ScalarUDF>,
    regexp: Arc<ScalarUDF>,
    json_part: Arc<ScalarUDF>,
    json_value: Arc<ScalarUDF>,
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
            json_part: find("__json_part"),
            json_value: find("__json_value"),
        }
    }

    /// Converts an operand to a number. Integers are unchanged; the number of a text is the one at
    /// its start.
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

    /// Returns a comparison of two values of these types.
    pub(crate) fn comparison(
        &self,
        operator: Operator,
        (left, lt): (Expr, &DataType),
        (right, rt): (Expr, &DataType),
    ) -> Expr {
        let (text_left, text_right) = (is_text(lt), is_text(rt));
        let number = |t: &DataType| t.is_numeric() || *t == DataType::Boolean;
        if text_left && number(rt) || text_right && number(lt) {
            let plain = |expr: Expr, kind: &DataType| match kind {
                DataType::Boolean => self.number(expr, kind),
                _ => expr,
            };
            self.compare(operator, plain(left, lt), plain(right, rt), text_left)
        } else if (*lt == DataType::Boolean) != (*rt == DataType::Boolean) {
            binary(self.number(left, lt), operator, self.number(right, rt))
        } else if lt.is_integer() {
            binary(left, operator, exact(right))
        } else if rt.is_integer() {
            binary(exact(left), operator, right)
        } else {
            binary(left, operator, right)
        }
    }

    /// Returns a comparison of a text with a number. If one of them is a column, the other is
    /// converted to its type; otherwise the text is larger.
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
        let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
        match when(null, unknown).otherwise(lit(result)) {
            Ok(expr) => expr,
            Err(_) => lit(result),
        }
    }
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// Converts a literal real without a fraction to an integer, so that integers which a real cannot
/// represent are compared exactly.
fn exact(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(v)), _)
            if v.fract() == 0.0 && v.abs() < i64::MAX as f64 =>
        {
            lit(v as i64)
        }
        other => other,
    }
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
        // Planned before the types are determined, so that the planner reports names of missing
        // columns.
        let call = match expr.op {
            B::Match => Some((&self.glob, true)),
            B::Regexp => Some((&self.regexp, true)),
            B::Arrow => Some((&self.json_part, false)),
            B::LongArrow => Some((&self.json_value, false)),
            _ => None,
        };
        if let Some((function, swapped)) = call {
            let operands = if swapped {
                vec![expr.right, expr.left]
            } else {
                vec![expr.left, expr.right]
            };
            return Ok(PlannerResult::Planned(function.call(operands)));
        }
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
                    // The result of a division by 0 is NULL.
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
                self.comparison(operator, (left, &lt), (right, &rt))
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
            op => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        };
        Ok(PlannerResult::Planned(planned))
    }

    fn plan_aggregate(&self, expr: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        // The types of arguments are not known here; `sql/calls.rs` wraps them instead.
        Ok(PlannerResult::Original(expr))
    }
}

/// The rule for lists and `CASE` results of mixed types, which DataFusion would convert to numbers.
#[derive(Debug)]
pub(crate) struct MixedTypes {
    planner: SqlitePlanner,
}

impl MixedTypes {
    /// Returns the rule, with the comparisons of the planner.
    pub(crate) fn new(planner: SqlitePlanner) -> Self {
        Self { planner }
    }

    fn expression(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        match expr {
            Expr::InList(list) => self.list(list, schema),
            Expr::Case(case) => Ok(self.case(case, schema)),
            other => Ok(Transformed::no(other)),
        }
    }

    /// Converts `IN` with a list to comparisons if a member does not have the type of the value.
    fn list(&self, list: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let kind = list.expr.get_type(schema)?;
        let mut mixed = false;
        for item in &list.list {
            let other = item.get_type(schema)?;
            mixed |= other != DataType::Null
                && (is_text(&kind) != is_text(&other) || kind.is_integer() != other.is_integer());
        }
        if !mixed || kind == DataType::Null {
            return Ok(Transformed::no(Expr::InList(list)));
        }
        let mut any: Option<Expr> = None;
        let mut left_out = false;
        for item in list.list {
            let other = item.get_type(schema)?;
            // A text that is not a number does not equal any number.
            if let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = &item
                && !is_text(&kind)
                && text.trim().parse::<f64>().is_err()
            {
                left_out = true;
                continue;
            }
            let value = (list.expr.as_ref().clone(), &kind);
            let equal = self.planner.comparison(Operator::Eq, value, (item, &other));
            any = Some(match any {
                Some(before) => before.or(equal),
                None => equal,
            });
        }
        let mut any = any.unwrap_or_else(|| lit(false));
        if left_out {
            let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
            any = any.or(list.expr.is_null().and(unknown));
        }
        let result = if list.negated {
            Expr::Not(Box::new(any))
        } else {
            any
        };
        Ok(Transformed::yes(result))
    }

    /// Converts all results of a `CASE` to texts if one of them is a text.
    fn case(&self, mut case: Case, schema: &DFSchema) -> Transformed<Expr> {
        let results = || {
            case.when_then_expr
                .iter()
                .map(|(_, then)| then)
                .chain(&case.else_expr)
        };
        let types: Vec<DataType> = results()
            .filter_map(|e| e.get_type(schema).ok())
            .filter(|t| *t != DataType::Null)
            .collect();
        if !types.iter().any(is_text) || types.iter().all(is_text) {
            return Transformed::no(Expr::Case(case));
        }
        let text = |e: &mut Box<Expr>| {
            let kind = e.get_type(schema).unwrap_or(DataType::Null);
            if kind != DataType::Null {
                **e = self.planner.as_text(e.as_ref().clone(), &kind);
            }
        };
        case.when_then_expr.iter_mut().for_each(|(_, e)| text(e));
        case.else_expr.iter_mut().for_each(text);
        Transformed::yes(Expr::Case(case))
    }
}

impl AnalyzerRule for MixedTypes {
    fn name(&self) -> &'static str {
        "mixed_types"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let schema = merge_schema(&plan.inputs());
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let changed = expr.transform_up(|e| self.expression(e, &schema))?;
                Ok(changed.update_data(|e| name.restore(e)))
            })?
            .map_data(LogicalPlan::recompute_schema)
        })?;
        Ok(rewritten.data)
    }
}
