//! Columns declared as `INTEGER PRIMARY KEY`. As in SQLite, rows inserted without a value get the
//! next number.

use datafusion::sql::sqlparser::ast::{self, ColumnOption};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::Engine;
use crate::error::SqlError;
use crate::sql::lexer::{closing, is_word, name_of, split_commas, tokenize};
use crate::sql::statement::Definition;

/// The rows of an `INSERT`.
const ROWS: &str = "__inserted";

/// Returns the column of a new table that numbers its rows.
pub(super) fn row_key(table: &ast::CreateTable) -> Option<String> {
    let column = table.columns.iter().find(|column| {
        let mut options = column.options.iter();
        column.data_type.to_string().eq_ignore_ascii_case("INTEGER")
            && options.any(|option| matches!(option.option, ColumnOption::PrimaryKey(_)))
    })?;
    Some(column.name.value.to_ascii_lowercase())
}

impl Engine {
    /// Adds the key to an `INSERT` whose list of columns does not have it. The rows are then in the
    /// table [`ROWS`].
    pub(super) async fn number_rows(
        &mut self,
        tokens: &[TokenWithSpan],
    ) -> Result<Vec<TokenWithSpan>, SqlError> {
        let at = |start: usize| {
            let mut rest = tokens.iter().enumerate().skip(start);
            rest.find(|(_, token)| !matches!(token.token, Token::Whitespace(_)))
        };
        let unchanged = || Ok(tokens.to_vec());
        let Some(into) = tokens.iter().position(|token| is_word(token, "INTO")) else {
            return unchanged();
        };
        let Some((name_at, table)) = at(into + 1).and_then(|(i, t)| Some((i, name_of(t)?))) else {
            return unchanged();
        };
        let Some(key) = self.row_keys.get(&table.to_ascii_lowercase()) else {
            return unchanged();
        };
        let Some((open, _)) = at(name_at + 1).filter(|(_, token)| token.token == Token::LParen)
        else {
            return unchanged();
        };
        let Some(close) = closing(tokens, open) else {
            return unchanged();
        };
        let columns = split_commas(&tokens[open + 1..close]);
        let named = |part: &&[TokenWithSpan]| {
            let name = part.first().and_then(name_of);
            name.is_some_and(|name| name.eq_ignore_ascii_case(key))
        };
        if columns.iter().any(named) {
            return unchanged();
        }
        let mut numbered = tokens[..close].to_vec();
        numbered.extend(tokenize(&format!(
            ", \"{key}\") SELECT *, row_number() OVER () + \
             (SELECT coalesce(max(\"{key}\"), 0) FROM \"{table}\") FROM {ROWS}"
        ))?);
        let mut body = tokenize("SELECT * FROM (")?;
        body.extend(tokens[close + 1..].iter().cloned());
        body.extend(tokenize(")")?);
        let rows = Definition {
            name: ROWS.to_owned(),
            replace: true,
            columns: Vec::new(),
            body,
        };
        self.define_table(rows).await?;
        Ok(numbered)
    }
}
