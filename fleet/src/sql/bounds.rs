//! Bounds of the size of statements, as in SQLite. Without them, a statement could use up the
//! memory or the stack before it is refused.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Expr, Query, Visit, Visitor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::walk;
use crate::error::SqlError;

/// The largest number of tokens of a statement after the expansion of macros.
pub(super) const MAX_TOKENS: usize = 1 << 20;
/// The largest number of operators of an expression, which may be nested.
const MAX_OPERATORS: usize = 1000;
/// The largest number of queries joined by UNION, EXCEPT and INTERSECT.
const MAX_COMPOUND: usize = 500;
/// The largest number of tables of a FROM.
const MAX_JOINED: usize = 64;
/// The largest number of expressions in the expanded bodies of functions.
const MAX_INLINED: usize = 1 << 18;
/// The largest number of relations that a query reads, with those of its views.
const MAX_RELATIONS: usize = 1000;
/// The largest number of columns of a result.
const MAX_COLUMNS: usize = 2000;

/// The clause of a query that is being read.
#[derive(Default, Clone, Copy, PartialEq)]
enum Clause {
    #[default]
    Other,
    From,
}

/// The counts within one pair of parentheses.
#[derive(Default)]
struct Level {
    clause: Clause,
    operators: usize,
    queries: usize,
    joined: usize,
}

impl Level {
    fn word(&mut self, word: &Word) {
        match word.keyword {
            Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => {
                self.queries += 1;
                self.enter(Clause::Other);
            }
            Keyword::FROM => {
                self.joined = 0;
                self.enter(Clause::From);
            }
            Keyword::JOIN => {
                self.joined += 1;
                self.operators = 0;
            }
            Keyword::SELECT
            | Keyword::WHERE
            | Keyword::GROUP
            | Keyword::ORDER
            | Keyword::HAVING => {
                self.enter(Clause::Other);
            }
            Keyword::ON | Keyword::USING => self.operators = 0,
            Keyword::AND
            | Keyword::OR
            | Keyword::NOT
            | Keyword::IS
            | Keyword::NOTNULL
            | Keyword::LIKE
            | Keyword::REGEXP
            | Keyword::MATCH
            | Keyword::BETWEEN
            | Keyword::IN
            | Keyword::COLLATE => self.operators += 1,
            _ => {
                let operators = ["GLOB", "ISNULL"];
                let is_operator = |name: &&str| word.value.eq_ignore_ascii_case(name);
                self.operators += operators.iter().filter(|o| is_operator(o)).count();
            }
        }
    }

    fn enter(&mut self, clause: Clause) {
        self.clause = clause;
        self.operators = 0;
    }

    fn comma(&mut self) {
        self.operators = 0;
        self.joined += usize::from(self.clause == Clause::From);
    }

    /// Returns the message if a bound is exceeded.
    fn excess(&self) -> Option<String> {
        if self.operators > MAX_OPERATORS {
            Some(format!(
                "The expression is too large: it may have {MAX_OPERATORS} operators. \
                 List values after IN, or read them from a table."
            ))
        } else if self.queries > MAX_COMPOUND {
            Some(format!(
                "More than {MAX_COMPOUND} queries are joined by UNION."
            ))
        } else if self.joined >= MAX_JOINED {
            Some(format!("More than {MAX_JOINED} tables are joined."))
        } else {
            None
        }
    }
}

/// Checks a statement before it is parsed.
///
/// # Errors
///
/// Fails if an expression has too many operators, or too many queries or tables are joined.
pub fn check(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => {
                // A bracket is an operator, too, as in `a[0][0]`.
                level.operators += usize::from(token.token == Token::LBracket);
                outer.push(std::mem::take(&mut level));
            }
            Token::RParen | Token::RBracket => level = outer.pop().unwrap_or_default(),
            Token::Comma => level.comma(),
            Token::SemiColon => level = Level::default(),
            Token::Word(word) if word.quote_style.is_none() => level.word(word),
            Token::Word(_)
            | Token::Number(..)
            | Token::Char(_)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Period
            | Token::Whitespace(_)
            | Token::EOF => {}
            // All other tokens are operators.
            _ => level.operators += 1,
        }
        if let Some(message) = level.excess() {
            return Err(SqlError::at(token.span.start, message));
        }
    }
    Ok(())
}

/// Checks the number of tables that a statement reads, with repetitions of the queries of its
/// `WITH`, before it is planned.
///
/// # Errors
///
/// Fails if it reads too many tables.
pub fn check_repeats<T: Visit>(statement: &T) -> Result<(), SqlError> {
    struct Repeats;
    impl Visitor for Repeats {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let mut sizes = HashMap::new();
            let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
            for cte in ctes {
                let size = relations_of(&*cte.query, &sizes);
                if size > MAX_RELATIONS {
                    return ControlFlow::Break(());
                }
                sizes.insert(cte.alias.name.value.to_ascii_lowercase(), size);
            }
            if relations_of(&*query.body, &sizes) > MAX_RELATIONS {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    }
    match walk::read(statement, &mut Repeats) {
        ControlFlow::Break(()) => Err(too_many_relations()),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Returns the number of tables that a query reads. A relation in `sizes` counts as that many.
fn relations_of<T: Visit>(query: &T, sizes: &HashMap<String, usize>) -> usize {
    let mut count = 0;
    let _ = walk::relations(query, |relation| {
        let name = relation.to_string().to_ascii_lowercase();
        count += sizes.get(name.trim_matches('"')).copied().unwrap_or(1);
        ControlFlow::Continue(())
    });
    count
}

fn too_many_relations() -> SqlError {
    SqlError::new(format!(
        "The query reads more than {MAX_RELATIONS} tables, with those in its views. \
         Replace a view by a table with CREATE PERFETTO TABLE."
    ))
}

/// Checks the numbers of tables and columns of a planned query.
///
/// # Errors
///
/// Fails if it reads too many tables, or has too many columns.
pub fn check_plan(plan: &LogicalPlan) -> Result<(), SqlError> {
    if plan.schema().fields().len() > MAX_COLUMNS {
        return Err(SqlError::new(format!(
            "The query has more than {MAX_COLUMNS} columns."
        )));
    }
    let mut relations = 0;
    plan.apply_with_subqueries(|node| {
        relations += usize::from(node.inputs().is_empty());
        Ok(if relations > MAX_RELATIONS {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    if relations > MAX_RELATIONS {
        Err(too_many_relations())
    } else {
        Ok(())
    }
}

/// The budget for expanded bodies of functions in one statement. Functions that call others twice
/// could otherwise expand to any size.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Budget {
    /// Returns the budget of a statement.
    pub(super) fn new() -> Self {
        Self(MAX_INLINED)
    }

    /// Charges the body of a function with this number of expressions.
    pub(super) fn charge(&mut self, name: &str, parts: usize) -> Result<(), SqlError> {
        self.0 = self.0.checked_sub(parts).ok_or_else(|| {
            SqlError::new(format!(
                "The query is too large after its functions are expanded, such as '{name}'."
            ))
        })?;
        Ok(())
    }
}

/// Returns the number of expressions within an expression.
pub(super) fn size_of(expr: &Expr) -> usize {
    let mut size = 0;
    let _ = walk::expressions(expr, |_| {
        size += 1;
        ControlFlow::Continue(())
    });
    size
}
