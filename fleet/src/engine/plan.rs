//! Converts tokens to plans.

use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as EngineStatement;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::Engine;
use crate::error::{Missing, SqlError, nearest};
use crate::sql::bounds;
use crate::sql::dialect::TraceDialect;
use crate::sql::inspect::relations;
use crate::sql::lists::join_lists;
use crate::sql::macros::expand;
use crate::sql::rewrite::rewrite;
use crate::sql::unique::rename_beside_stars;

impl Engine {
    /// Expands macros, and checks the bounds of statements.
    pub(super) fn expand(&self, tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>, SqlError> {
        let tokens = expand(tokens, &self.macros)?;
        bounds::check(&tokens)?;
        Ok(join_lists(normalize(tokens)))
    }

    /// Parses and rewrites a statement, and evaluates the lazy definitions that it names.
    pub(super) async fn prepare(
        &mut self,
        tokens: &[TokenWithSpan],
        stars: bool,
    ) -> Result<ast::Statement, SqlError> {
        let tokens = self.expand(tokens)?;
        let mut parser = Parser::new(&TraceDialect).with_tokens_with_locations(tokens);
        let parsed = |error: datafusion::sql::sqlparser::parser::ParserError| {
            crate::error::parser(&error.to_string())
        };
        let mut statement = parser.parse_statement().map_err(parsed)?;
        let rest = parser.peek_token();
        if rest.token != Token::EOF {
            let message = format!("Syntax error: unexpected '{}'.", rest.token);
            return Err(SqlError::at(rest.span.start, message));
        }
        bounds::check_repeats(&statement)?;
        if stars {
            rename_beside_stars(&mut statement);
        }
        rewrite(&mut statement, &self.functions)?;
        let names = relations(&statement).into_iter().collect();
        Box::pin(self.ensure(&names)).await?;
        Ok(statement)
    }

    /// Plans a query. A name in double quotes that is not a column is a text, as in SQLite.
    pub(super) async fn plan(
        &mut self,
        tokens: &[TokenWithSpan],
        context: &SessionContext,
    ) -> Result<LogicalPlan, SqlError> {
        let mut tokens = tokens.to_vec();
        let mut stars = false;
        loop {
            let statement = self
                .prepare(&tokens, stars)
                .await
                .map_err(|e| self.locate(e, &tokens))?;
            let statement = EngineStatement::Statement(Box::new(statement));
            let planned = context.state().statement_to_plan(statement).await;
            let error: SqlError = match planned {
                Ok(plan) => {
                    bounds::check_plan(&plan)?;
                    return Ok(plan);
                }
                Err(error) => error.into(),
            };
            if !stars
                && error
                    .message
                    .starts_with("Projections require unique expression names")
            {
                stars = true;
                continue;
            }
            let Some(Missing::Column(name, _)) = &error.missing else {
                return Err(self.locate(error, &tokens));
            };
            let mut replaced = false;
            for token in &mut tokens {
                if let Token::Word(word) = &token.token
                    && word.quote_style == Some('"')
                    && word.value.eq_ignore_ascii_case(name)
                {
                    token.token = Token::SingleQuotedString(word.value.clone());
                    replaced = true;
                }
            }
            if !replaced {
                return Err(self.locate(error, &tokens));
            }
        }
    }

    /// Adds the location and the nearest name to an error.
    pub(super) fn locate(&self, mut error: SqlError, tokens: &[TokenWithSpan]) -> SqlError {
        let Some(missing) = error.missing.take() else {
            return error;
        };
        let (name, near) = match &missing {
            Missing::Column(name, valid) => (
                name,
                nearest(name, valid.iter().map(String::as_str)).map(str::to_owned),
            ),
            Missing::Table(name) => {
                let names = self.table_names();
                (
                    name,
                    nearest(name, names.iter().map(String::as_str)).map(str::to_owned),
                )
            }
            Missing::Function(name) => {
                let state = self.context.state();
                let names = state
                    .scalar_functions()
                    .keys()
                    .chain(state.aggregate_functions().keys())
                    .chain(state.window_functions().keys())
                    .chain(self.functions.keys())
                    .filter(|name| !name.starts_with("__"));
                (
                    name,
                    nearest(name, names.map(String::as_str)).map(str::to_owned),
                )
            }
        };
        if let Some(near) = near {
            error.message += &format!(" Did you mean '{near}'?");
        } else if let Missing::Column(_, valid) = &missing
            && !valid.is_empty()
            && valid.len() <= 24
        {
            error.message += &format!(" The columns are {}.", valid.join(", "));
        }
        if error.location.is_none() {
            error.location = tokens
                .iter()
                .filter(|t| t.span.start.line > 0)
                .find(|t| {
                    matches!(&t.token, Token::Word(word) if word.value.eq_ignore_ascii_case(name))
                })
                .map(|t| (t.span.start.line, t.span.start.column));
        }
        error
    }
}

/// Converts quoted names to lower case, and hexadecimal numbers to decimal ones.
fn normalize(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for token in &mut tokens {
        if let Token::Word(word) = &mut token.token
            && word.quote_style.is_some()
        {
            word.value = word.value.to_ascii_lowercase();
            word.quote_style = Some('"');
        }
        // `0x1f` is a number; it is one character shorter than the blob `x'1f'`.
        if let Token::HexStringLiteral(digits) = &token.token
            && let Ok(number) = u64::from_str_radix(digits, 16)
            && token
                .span
                .end
                .column
                .saturating_sub(token.span.start.column)
                == digits.len() as u64 + 2
        {
            token.token = Token::Number(number.cast_signed().to_string(), false);
        }
    }
    tokens
}
