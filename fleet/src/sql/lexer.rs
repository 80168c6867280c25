//! Splits text into tokens, and tokens into statements.

use datafusion::sql::sqlparser::tokenizer::{
    Location, Span, Token, TokenWithSpan, Tokenizer, Whitespace, Word,
};

use super::dialect::TraceDialect;
use crate::error::SqlError;

/// Splits the text into tokens, including white space and comments.
pub fn tokenize(sql: &str) -> Result<Vec<TokenWithSpan>, SqlError> {
    // As in upstream, so that queries copied from web pages work.
    let sql = sql.replace('\u{a0}', " ");
    Tokenizer::new(&TraceDialect, &sql)
        .tokenize_with_location()
        .map_err(|error| SqlError::at(error.location, error.message))
}

/// Splits tokens at semicolons. Empty statements are left out.
pub fn split(tokens: Vec<TokenWithSpan>) -> Vec<Vec<TokenWithSpan>> {
    let mut statements = Vec::new();
    let mut current = Vec::new();
    for token in tokens {
        if token.token == Token::SemiColon {
            statements.push(std::mem::take(&mut current));
        } else {
            current.push(token);
        }
    }
    statements.push(current);
    statements.retain(|tokens| !solid(tokens).is_empty());
    statements
}

/// Returns the tokens without white space and comments.
pub fn solid(tokens: &[TokenWithSpan]) -> Vec<&TokenWithSpan> {
    tokens
        .iter()
        .filter(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF))
        .collect()
}

/// Returns the tokens without white space at both ends.
pub fn trim(tokens: &[TokenWithSpan]) -> &[TokenWithSpan] {
    let blank = |t: &TokenWithSpan| matches!(t.token, Token::Whitespace(_));
    let start = tokens
        .iter()
        .position(|t| !blank(t))
        .unwrap_or(tokens.len());
    let end = tokens
        .iter()
        .rposition(|t| !blank(t))
        .map_or(start, |i| i + 1);
    &tokens[start..end]
}

/// Returns the tokens as text, with comments as white space.
pub fn text(tokens: &[TokenWithSpan]) -> String {
    tokens
        .iter()
        .map(|t| match &t.token {
            // Comments are not part of the meaning.
            Token::Whitespace(Whitespace::SingleLineComment { .. }) => "\n".to_owned(),
            Token::Whitespace(Whitespace::MultiLineComment(_)) => " ".to_owned(),
            token => token.to_string(),
        })
        .collect()
}

/// Returns the index of the parenthesis that closes the one at `open`.
pub fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits tokens at commas outside of parentheses. Only white space has no parts.
pub fn split_commas(tokens: &[TokenWithSpan]) -> Vec<&[TokenWithSpan]> {
    if solid(tokens).is_empty() {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (index, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => {
                parts.push(trim(&tokens[start..index]));
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(trim(&tokens[start..]));
    parts
}

/// Returns an unquoted word as a token.
pub fn word_token(text: &str, span: Span) -> TokenWithSpan {
    TokenWithSpan::new(Token::make_word(text, None), span)
}

/// Returns the text of a name, with or without quotes.
pub fn name_of(token: &TokenWithSpan) -> Option<&str> {
    match &token.token {
        Token::Word(Word { value, .. }) => Some(value),
        _ => None,
    }
}

/// Returns true if the token is this word without quotes. Ignores case.
pub fn is_word(token: &TokenWithSpan, name: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
}

/// Returns the location of the first token that is not white space or a comment.
pub fn start_of(tokens: &[TokenWithSpan]) -> Location {
    solid(tokens)
        .first()
        .map_or(Location::empty(), |t| t.span.start)
}
