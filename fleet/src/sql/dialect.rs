//! SQLite's grammar for the parser, with further operators.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, Precedence, SQLiteDialect};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// The SQL dialect of traces: SQLite's, with `GLOB`, `REGEXP` and `IS` between any values.
///
/// `GLOB` is parsed as [`BinaryOperator::Match`], which is otherwise unused.
#[derive(Debug)]
pub struct TraceDialect;

/// The operators that the parser does not support.
#[derive(Clone, Copy)]
enum Infix {
    Match(bool),
    Regexp(bool),
    Is(bool),
}

fn word(token: &Token) -> Option<&str> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(&word.value),
        _ => None,
    }
}

fn is_word(token: &Token, name: &str) -> bool {
    word(token).is_some_and(|w| w.eq_ignore_ascii_case(name))
}

/// Returns the next operator and the number of its words.
fn next_infix(parser: &Parser) -> Option<(Infix, usize)> {
    let first = parser.peek_token();
    let first = word(&first.token)?.to_ascii_uppercase();
    let second = || parser.peek_nth_token(1).token;
    match first.as_str() {
        "GLOB" => Some((Infix::Match(false), 1)),
        "REGEXP" => Some((Infix::Regexp(false), 1)),
        "NOT" if is_word(&second(), "GLOB") => Some((Infix::Match(true), 2)),
        "NOT" if is_word(&second(), "REGEXP") => Some((Infix::Regexp(true), 2)),
        "IS" => {
            let negated = is_word(&second(), "NOT");
            let operand = parser.peek_nth_token(if negated { 2 } else { 1 }).token;
            let known = ["NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT", "NORMALIZED"];
            if known.iter().any(|name| is_word(&operand, name)) {
                return None;
            }
            Some((Infix::Is(negated), if negated { 2 } else { 1 }))
        }
        _ => None,
    }
}

impl Dialect for TraceDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<SQLiteDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        SQLiteDialect {}.is_delimited_identifier_start(ch)
    }

    fn identifier_quote_style(&self, _identifier: &str) -> Option<char> {
        Some('"')
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        SQLiteDialect {}.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        SQLiteDialect {}.is_identifier_part(ch)
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_in_empty_list(&self) -> bool {
        true
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }

    fn supports_cross_join_constraint(&self) -> bool {
        true
    }

    fn supports_limit_comma(&self) -> bool {
        true
    }

    fn supports_dollar_placeholder(&self) -> bool {
        true
    }

    fn supports_notnull_operator(&self) -> bool {
        true
    }

    fn supports_comma_separated_trim(&self) -> bool {
        true
    }

    fn supports_window_clause_named_window_reference(&self) -> bool {
        true
    }

    fn supports_window_function_null_treatment_arg(&self) -> bool {
        true
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        next_infix(parser).map(|(infix, _)| {
            Ok(match infix {
                Infix::Is(_) => self.prec_value(Precedence::Is),
                Infix::Match(_) | Infix::Regexp(_) => self.prec_value(Precedence::Like),
            })
        })
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let (infix, words) = next_infix(parser)?;
        for _ in 0..words {
            parser.next_token();
        }
        let right = match parser.parse_subexpr(precedence) {
            Ok(right) => Box::new(right),
            Err(error) => return Some(Err(error)),
        };
        let left = Box::new(expr.clone());
        let binary = |op| Expr::BinaryOp {
            left: left.clone(),
            op,
            right: right.clone(),
        };
        let (expr, negated) = match infix {
            Infix::Match(negated) => (binary(BinaryOperator::Match), negated),
            Infix::Regexp(negated) => (binary(BinaryOperator::Regexp), negated),
            Infix::Is(false) => return Some(Ok(Expr::IsNotDistinctFrom(left, right))),
            Infix::Is(true) => return Some(Ok(Expr::IsDistinctFrom(left, right))),
        };
        Some(Ok(if negated {
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: Box::new(Expr::Nested(Box::new(expr))),
            }
        } else {
            expr
        }))
    }

    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        // `interval` is not reserved.
        kw != Keyword::INTERVAL && SQLiteDialect {}.is_reserved_for_identifier(kw)
    }
}
