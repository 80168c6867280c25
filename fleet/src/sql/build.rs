//! Constructors for parts of syntax trees.

use datafusion::sql::sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    Ident, ObjectName,
};

/// Returns a call of a function.
pub(super) fn function(name: &str, arguments: Vec<Expr>) -> Expr {
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

/// Takes an expression and leaves a placeholder, which has to be replaced.
pub(super) fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Identifier(Ident::new("")))
}

/// Returns a call of an aggregate over ordered values.
pub(super) fn ordered(name: &str, value: &Expr, by: &Expr, ascending: bool) -> Expr {
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

/// Returns an alias of a table.
pub(super) fn alias_of(name: Ident) -> ast::TableAlias {
    ast::TableAlias {
        explicit: true,
        name,
        columns: Vec::new(),
        at: None,
    }
}

/// Wraps each argument of a call in a function.
pub(super) fn wrap_arguments(list: &mut FunctionArgumentList, by: &str) {
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
            *expr = function(by, vec![take(expr)]);
        }
    }
}
