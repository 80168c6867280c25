//! Makes the names of columns unique.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Expr, Ident, Select, VisitMut, VisitorMut};

use super::build::take;
use super::walk;

/// Renames columns with the name of an earlier one, as SQLite does in subqueries.
pub(super) fn unique_names(items: &mut [ast::SelectItem]) {
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

/// Renames plain columns beside a `*`, since the `*` may contain the same columns.
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
    let _ = walk::change(node, &mut Renamer);
}
