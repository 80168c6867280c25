//! SQLite's habits, rewritten for an engine with static types.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Query, Select, SetExpr,
    TableFactor, UnaryOperator, Value, VisitMut, VisitorMut, visit_expressions,
    visit_expressions_mut, visit_relations,
};

use super::bare;
use super::statement::{Argument, Returns};
use crate::error::SqlError;

/// A function that a statement defined.
#[derive(Debug, Clone)]
pub struct UserFunction {
    /// The arguments.
    pub arguments: Vec<Argument>,
    /// The result.
    pub returns: Returns,
    /// The query, rewritten, with the arguments as placeholders.
    pub body: Box<Query>,
}

impl UserFunction {
    /// Returns the one expression of a body that selects from no table.
    pub fn expression(&self) -> Option<&Expr> {
        let SetExpr::Select(select) = self.body.body.as_ref() else {
            return None;
        };
        let plain = select.from.is_empty()
            && select.selection.is_none()
            && select.having.is_none()
            && select.distinct.is_none()
            && self.body.with.is_none()
            && self.body.limit_clause.is_none();
        match select.projection.as_slice() {
            [ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }]
                if plain && !bare::has_aggregate(expr) =>
            {
                Some(expr)
            }
            _ => None,
        }
    }

    /// Returns the body with the arguments in place of the placeholders.
    pub fn bind(&self, values: &[Expr]) -> Box<Query> {
        let mut body = self.body.clone();
        // The body's tables get names that the arguments' columns cannot mean.
        let _ = body.visit(&mut Apart);
        self.substitute(&mut body, values);
        body
    }

    fn substitute<T: VisitMut>(&self, node: &mut T, values: &[Expr]) {
        let _ = visit_expressions_mut(node, |expr| {
            if let Some(name) = placeholder(expr)
                && let Some(index) = self
                    .arguments
                    .iter()
                    .position(|a| name.eq_ignore_ascii_case(&a.name))
            {
                *expr = Expr::Nested(Box::new(values[index].clone()));
            }
            ControlFlow::<()>::Continue(())
        });
    }
}

/// Gives all tables of a body other names.
struct Apart;

impl Apart {
    const PREFIX: &str = "__in_";

    fn rename(name: &mut Ident) {
        if !name.value.starts_with(Self::PREFIX) {
            *name = Ident::with_quote(
                '"',
                format!("{}{}", Self::PREFIX, name.value.to_ascii_lowercase()),
            );
        }
    }
}

impl VisitorMut for Apart {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, alias, .. } => {
                let own = name.0.last().and_then(|part| part.as_ident()).cloned();
                let alias = alias.get_or_insert_with(|| alias_of(own.unwrap_or(Ident::new(""))));
                Self::rename(&mut alias.name);
            }
            TableFactor::Derived {
                alias: Some(alias), ..
            }
            | TableFactor::Function {
                alias: Some(alias), ..
            } => Self::rename(&mut alias.name),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let ast::SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                _,
            ) = item
                && let Some(ast::ObjectNamePart::Identifier(first)) = name.0.first_mut()
            {
                Self::rename(first);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(names) = expr
            && let Some(first) = names.first_mut()
        {
            Self::rename(first);
        }
        ControlFlow::Continue(())
    }
}

/// Makes a query of any number of rows one of exactly one row, as the engine wants of a query that
/// depends on the row around it.
fn first_row(query: &mut Query) {
    use ast::{GroupByExpr, OrderByKind, SelectItem as Item};
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let groups =
        !matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
    let [Item::UnnamedExpr(expr) | Item::ExprWithAlias { expr, .. }] =
        select.projection.as_mut_slice()
    else {
        return;
    };
    if groups || select.distinct.is_some() || bare::has_aggregate(expr) {
        return;
    }
    let order = query.order_by.take().and_then(|order| match order.kind {
        OrderByKind::Expressions(terms) => terms.into_iter().next(),
        OrderByKind::All(_) => None,
    });
    query.limit_clause = None;
    *expr = match order {
        Some(term) => ordered(
            "first_value",
            expr,
            &term.expr,
            term.options.asc.unwrap_or(true),
        ),
        None => function("first_value", vec![take(expr)]),
    };
}

fn alias_of(name: Ident) -> ast::TableAlias {
    ast::TableAlias {
        explicit: true,
        name,
        columns: Vec::new(),
        at: None,
    }
}

/// Returns the name by which columns of a table are qualified.
fn label(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table {
            alias: Some(alias), ..
        }
        | TableFactor::Derived {
            alias: Some(alias), ..
        }
        | TableFactor::Function {
            alias: Some(alias), ..
        } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()).cloned(),
        _ => None,
    }
}

/// Qualifies columns in the arguments of table functions, which stand for those of the table
/// before them.
fn qualify_arguments(select: &mut Select) -> Result<(), SqlError> {
    let mut before: Vec<Option<Ident>> = Vec::new();
    let factors = select.from.iter_mut().flat_map(|table| {
        std::iter::once(&mut table.relation)
            .chain(table.joins.iter_mut().map(|join| &mut join.relation))
    });
    for factor in factors {
        if let TableFactor::Table {
            args: Some(arguments),
            name,
            ..
        } = factor
        {
            let name = name.to_string();
            let mut unclear = None;
            let _ = visit_expressions_mut(&mut arguments.args, |expr| {
                if let Expr::Subquery(_) = expr {
                    return ControlFlow::Break(());
                }
                if let Expr::Identifier(column) = expr
                    && !before.is_empty()
                {
                    match before.as_slice() {
                        [Some(table)] => {
                            *expr = Expr::CompoundIdentifier(vec![table.clone(), column.clone()]);
                        }
                        _ => unclear = Some(column.value.clone()),
                    }
                }
                ControlFlow::Continue(())
            });
            if let Some(column) = unclear {
                return Err(SqlError::new(format!(
                    "Say which table's column '{column}' is given to {name}, \
                     as in 'table.{column}'."
                )));
            }
        }
        before.push(label(factor));
    }
    Ok(())
}

/// Functions by name.
pub type Functions = HashMap<String, UserFunction>;

fn placeholder(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => Some(name.trim_start_matches('$')),
            _ => None,
        },
        _ => None,
    }
}

/// Rewrites a statement in place.
pub fn rewrite<T: VisitMut>(node: &mut T, functions: &Functions) -> Result<(), SqlError> {
    let mut rewriter = Rewriter { functions };
    match node.visit(&mut rewriter) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Gives plain columns that stand beside a `*`, which may stand for them, too, a name of their own.
pub fn rename_beside_stars<T: VisitMut>(node: &mut T) {
    struct Renamer;
    impl VisitorMut for Renamer {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            use ast::SelectItem as Item;
            let star =
                |item: &Item| matches!(item, Item::Wildcard(_) | Item::QualifiedWildcard(..));
            if !select.projection.iter().any(star) {
                return ControlFlow::Continue(());
            }
            for (index, item) in select.projection.iter_mut().enumerate() {
                let name = match item {
                    Item::UnnamedExpr(Expr::Identifier(name)) => name.value.clone(),
                    Item::UnnamedExpr(Expr::CompoundIdentifier(names)) => {
                        names.last().map(|n| n.value.clone()).unwrap_or_default()
                    }
                    _ => continue,
                };
                if let Item::UnnamedExpr(expr) = item {
                    let alias = format!("{}:{index}", name.to_ascii_lowercase());
                    *item = Item::ExprWithAlias {
                        expr: take(expr),
                        alias: Ident::with_quote('"', alias),
                    };
                }
            }
            ControlFlow::Continue(())
        }
    }
    let _ = node.visit(&mut Renamer);
}

struct Rewriter<'a> {
    functions: &'a Functions,
}

/// Returns a call of a function.
pub fn function(name: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments
                .into_iter()
                .map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)))
                .collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Identifier(Ident::new("")))
}

/// Wraps an expression that is no condition by its shape: any number that is not 0 is true.
fn truth(expr: &mut Expr) {
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

impl VisitorMut for Rewriter<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if let Some(with) = &mut query.with
            && !with.recursive
        {
            // SQLite allows recursion without the word.
            with.recursive = with.cte_tables.iter().any(|cte| {
                let union = matches!(*cte.query.body, SetExpr::SetOperation { .. });
                union && refers_to(&cte.query, &cte.alias.name.value)
            });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        if let Err(error) = qualify_arguments(select) {
            return ControlFlow::Break(error);
        }
        unique_names(&mut select.projection);
        for condition in [&mut select.selection, &mut select.having]
            .into_iter()
            .flatten()
        {
            truth(condition);
        }
        for table in &mut select.from {
            for join in &mut table.joins {
                if let Some(condition) = join_condition(&mut join.join_operator) {
                    truth(condition);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        bare::wrap_query(query);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let (name, arguments, alias) = match factor {
            TableFactor::Table {
                name,
                args: Some(args),
                alias,
                ..
            } => (name, &args.args, alias),
            TableFactor::Function {
                name, args, alias, ..
            } => (name, &*args, alias),
            _ => return ControlFlow::Continue(()),
        };
        let key = name.to_string().to_ascii_lowercase();
        let Some(user) = self.functions.get(&key) else {
            return ControlFlow::Continue(());
        };
        let values = match positional(&key, arguments, user.arguments.len()) {
            Ok(values) => values,
            Err(error) => return ControlFlow::Break(error),
        };
        let lateral = values.iter().any(has_column);
        let alias = alias.clone().or_else(|| Some(alias_of(Ident::new(key))));
        let subquery = user.bind(&values);
        *factor = TableFactor::Derived {
            lateral,
            subquery,
            alias,
            sample: None,
        };
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Like {
                negated,
                any,
                expr: text,
                pattern,
                escape_char,
            } => {
                *expr = Expr::ILike {
                    negated: *negated,
                    any: *any,
                    expr: Box::new(function("__text", vec![take(text)])),
                    pattern: Box::new(take(pattern)),
                    escape_char: escape_char.clone(),
                };
            }
            Expr::Cast {
                expr: inner,
                data_type,
                ..
            } => {
                if let Some(name) = affinity(&data_type.to_string()) {
                    *expr = function(name, vec![take(inner)]);
                }
            }
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: inner,
            }
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner) => truth(inner),
            Expr::Case {
                operand: None,
                conditions,
                ..
            } => {
                for when in conditions {
                    truth(&mut when.condition);
                }
            }
            Expr::Collate {
                expr: inner,
                collation,
            } => {
                let name = collation.to_string();
                if name.eq_ignore_ascii_case("nocase") {
                    *expr = function("lower", vec![take(inner)]);
                } else {
                    *expr = take(inner);
                }
            }
            Expr::Substring {
                expr: text,
                substring_from,
                substring_for,
                ..
            } => {
                let mut arguments = vec![take(text)];
                arguments.extend(substring_from.take().map(|e| *e));
                arguments.extend(substring_for.take().map(|e| *e));
                *expr = function("__substr", arguments);
            }
            Expr::Function(call) => match self.call(call) {
                Ok(Some(new)) => *expr = new,
                Ok(None) => {}
                Err(error) => return ControlFlow::Break(error),
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Rewriter<'_> {
    fn call(&mut self, call: &mut Function) -> Result<Option<Expr>, SqlError> {
        let name = call.name.to_string().to_ascii_lowercase();
        let FunctionArguments::List(list) = &mut call.args else {
            return Ok(None);
        };
        let count = list.args.len();
        let plain = call.over.is_none() && call.filter.is_none();
        if let Some(user) = self.functions.get(&name) {
            if let Returns::Table(_) = user.returns {
                return Err(SqlError::new(format!(
                    "The function '{name}' returns a table: use it after FROM."
                )));
            }
            let values = positional(&name, &list.args, user.arguments.len())?;
            if let Some(body) = user.expression() {
                let mut body = body.clone();
                user.substitute(&mut body, &values);
                return Ok(Some(Expr::Nested(Box::new(body))));
            }
            let bare = |expr: &Expr| {
                visit_expressions(expr, |e| match e {
                    Expr::Identifier(name) => ControlFlow::Break(name.value.clone()),
                    _ => ControlFlow::Continue(()),
                })
                .break_value()
            };
            if let Some(column) = values.iter().find_map(bare) {
                return Err(SqlError::new(format!(
                    "Say which table's column '{column}' is given to {name}, as in 'table.{column}'."
                )));
            }
            let mut body = user.bind(&values);
            if values.iter().any(has_column) {
                first_row(&mut body);
            }
            return Ok(Some(Expr::Subquery(body)));
        }
        let rename = |call: &mut Function, to: &str| {
            call.name = ObjectName::from(vec![Ident::new(to)]);
        };
        match (name.as_str(), count) {
            ("max" | "min", 2..) if plain => rename(call, &format!("__{name}")),
            ("count", 0) => list
                .args
                .push(FunctionArg::Unnamed(FunctionArgExpr::Wildcard)),
            ("iif" | "if", 2 | 3) => {
                let mut values = positional(&name, &list.args, count)?.into_iter();
                let mut condition = values.next().expect("two or three");
                truth(&mut condition);
                let result = values.next().expect("two or three");
                return Ok(Some(Expr::Case {
                    case_token: ast::helpers::attached_token::AttachedToken::empty(),
                    end_token: ast::helpers::attached_token::AttachedToken::empty(),
                    operand: None,
                    conditions: vec![CaseWhen { condition, result }],
                    else_result: values.next().map(Box::new),
                }));
            }
            ("sum" | "avg", 1) => wrap_arguments(list, "__num"),
            ("total", 1) => {
                wrap_arguments(list, "__cast_real");
                rename(call, "sum");
                let zero = Expr::value(Value::Number("0.0".to_owned(), false));
                let sum = Expr::Function(call.clone());
                return Ok(Some(function("coalesce", vec![sum, zero])));
            }
            ("value_at_max_ts", 2) => {
                let values = positional(&name, &list.args, 2)?;
                let mut picked = ordered("last_value", &values[1], &values[0], true);
                if let Expr::Function(picked) = &mut picked {
                    picked.filter = call.filter.take();
                    picked.over = call.over.take();
                }
                return Ok(Some(picked));
            }
            ("last_non_null", 1) => {
                rename(call, "last_value");
                call.null_treatment = Some(ast::NullTreatment::IgnoreNulls);
            }
            ("group_concat", 1) => {
                rename(call, "string_agg");
                if let FunctionArguments::List(list) = &mut call.args {
                    let comma = Expr::value(Value::SingleQuotedString(",".to_owned()));
                    list.args
                        .push(FunctionArg::Unnamed(FunctionArgExpr::Expr(comma)));
                }
            }
            ("group_concat", 2) => rename(call, "string_agg"),
            ("likely" | "unlikely", 1) | ("likelihood", 2) => {
                return Ok(positional(&name, &list.args, count)?.into_iter().next());
            }
            ("length", 1) => rename(call, "__length"),
            ("substr" | "substring", 2 | 3) => rename(call, "__substr"),
            ("round", 1 | 2) => rename(call, "__round"),
            ("ifnull", 2) => rename(call, "coalesce"),
            ("hex" | "instr" | "replace" | "sign" | "unhex" | "ln" | "trim", _) => {
                rename(call, &format!("__{name}"));
            }
            _ => {}
        }
        Ok(None)
    }
}

/// Gives columns of the same name different ones, as SQLite does below the outermost query.
fn unique_names(items: &mut [ast::SelectItem]) {
    let mut seen = HashSet::new();
    for item in items {
        let name = match item {
            ast::SelectItem::UnnamedExpr(expr) => expr.to_string().to_ascii_lowercase(),
            ast::SelectItem::ExprWithAlias { alias, .. } => alias.value.to_ascii_lowercase(),
            _ => continue,
        };
        if seen.insert(name.clone()) {
            continue;
        }
        let (ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) =
            item
        else {
            continue;
        };
        let last = name.rsplit('.').next().unwrap_or(&name).to_owned();
        let alias = (1..)
            .map(|n| format!("{last}:{n}"))
            .find(|alias| seen.insert(alias.clone()));
        *item = ast::SelectItem::ExprWithAlias {
            expr: take(expr),
            alias: Ident::with_quote('"', alias.unwrap_or_default()),
        };
    }
}

fn wrap_arguments(list: &mut FunctionArgumentList, by: &str) {
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
            *expr = function(by, vec![take(expr)]);
        }
    }
}

/// Returns an aggregate of values in an order.
pub fn ordered(name: &str, value: &Expr, by: &Expr, ascending: bool) -> Expr {
    let mut call = function(name, vec![value.clone()]);
    if let Expr::Function(Function {
        args: FunctionArguments::List(list),
        ..
    }) = &mut call
    {
        list.clauses.push(ast::FunctionArgumentClause::OrderBy(vec![
            ast::OrderByExpr {
                expr: by.clone(),
                options: ast::OrderByOptions {
                    asc: Some(ascending),
                    nulls_first: Some(ascending),
                },
                with_fill: None,
            },
        ]));
    }
    call
}

/// Returns the condition of a join.
fn join_condition(operator: &mut ast::JoinOperator) -> Option<&mut Expr> {
    use ast::JoinOperator as J;
    let (J::Join(constraint)
    | J::Inner(constraint)
    | J::Left(constraint)
    | J::LeftOuter(constraint)
    | J::Right(constraint)
    | J::RightOuter(constraint)
    | J::FullOuter(constraint)
    | J::CrossJoin(constraint)) = operator
    else {
        return None;
    };
    match constraint {
        ast::JoinConstraint::On(condition) => Some(condition),
        _ => None,
    }
}

/// Returns the arguments of a call, which must be as many as wanted.
fn positional(name: &str, arguments: &[FunctionArg], wanted: usize) -> Result<Vec<Expr>, SqlError> {
    let values: Vec<Expr> = arguments
        .iter()
        .filter_map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect();
    if values.len() != wanted || arguments.len() != wanted {
        let message = format!(
            "The function '{name}' takes {wanted} arguments, not {}.",
            arguments.len()
        );
        return Err(SqlError::new(message));
    }
    Ok(values)
}

/// Returns true if the expression reads a column.
pub fn has_column(expr: &Expr) -> bool {
    visit_expressions(expr, |e| match e {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

fn refers_to(query: &Query, name: &str) -> bool {
    visit_relations(query, |relation| {
        if relation.to_string().eq_ignore_ascii_case(name) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .is_break()
}

/// Returns the function that casts as SQLite does to a type of this name.
fn affinity(data_type: &str) -> Option<&'static str> {
    let name = data_type.to_ascii_uppercase();
    let has = |part: &str| name.contains(part);
    Some(if has("INT") || name == "LONG" {
        "__cast_int"
    } else if has("CHAR") || has("CLOB") || has("TEXT") {
        "__cast_text"
    } else if has("BLOB") {
        return None;
    } else if has("REAL") || has("FLOA") || has("DOUB") {
        "__cast_real"
    } else {
        "__cast_numeric"
    })
}

/// Returns the names of all tables and table functions that a query reads.
pub fn relations<T: ast::Visit>(node: &T) -> HashSet<String> {
    let mut names = HashSet::new();
    let _ = visit_relations(node, |relation| {
        let name = relation
            .0
            .last()
            .map(ToString::to_string)
            .unwrap_or_default();
        names.insert(name.trim_matches(['"', '`']).to_ascii_lowercase());
        ControlFlow::<()>::Continue(())
    });
    names
}
