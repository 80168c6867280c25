//! Predicates and searches on syntax trees.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Expr, Query, TableFactor, Visitor};

use super::walk;

/// Returns true if the expression reads a column.
pub fn has_column(expr: &Expr) -> bool {
    walk::expressions(expr, |e| match e {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Returns true if a query reads the table.
pub(super) fn refers_to(query: &Query, name: &str) -> bool {
    walk::relations(query, |relation| {
        if relation.to_string().eq_ignore_ascii_case(name) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .is_break()
}

/// Returns true if a query calls the function, as a scalar or a table function.
pub fn calls(query: &Query, name: &str) -> bool {
    let called = walk::expressions(query, |e| match e {
        Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case(name) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    called.is_break() || called_for_rows(query, name)
}

/// Returns true if a query calls the function after `FROM`.
fn called_for_rows(query: &Query, name: &str) -> bool {
    struct Calls<'a>(&'a str);
    impl Visitor for Calls<'_> {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            match factor {
                TableFactor::Table {
                    name,
                    args: Some(_),
                    ..
                }
                | TableFactor::Function { name, .. }
                    if name.to_string().eq_ignore_ascii_case(self.0) =>
                {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk::read(query, &mut Calls(name)).is_break()
}

/// Returns the names of all tables and table functions that a query reads.
pub fn relations<T: ast::Visit>(node: &T) -> HashSet<String> {
    let mut names = HashSet::new();
    let _ = walk::relations(node, |relation| {
        let name = relation
            .0
            .last()
            .map(ToString::to_string)
            .unwrap_or_default();
        names.insert(name.trim_matches(['"', '`']).to_ascii_lowercase());
        ControlFlow::Continue(())
    });
    names
}
