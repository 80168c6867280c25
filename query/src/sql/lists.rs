//! Lists of tables in parentheses after `FROM`, which the parser does not support: their commas are
//! cross joins.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::lexer::{closing, is_word, word_token};

/// Replaces the commas between tables in parentheses.
pub fn join_lists(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let solid = |from: usize| {
        let blank = |t: &&TokenWithSpan| matches!(t.token, Token::Whitespace(_));
        from + tokens[from..].iter().take_while(blank).count()
    };
    let mut commas = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let open = solid(index + 1);
        let starts = is_word(token, "FROM") || is_word(token, "JOIN");
        if !starts || tokens.get(open).is_none_or(|t| t.token != Token::LParen) {
            continue;
        }
        let (Some(close), Some(first)) = (closing(&tokens, open), tokens.get(solid(open + 1)))
        else {
            continue;
        };
        if ["SELECT", "WITH", "VALUES"]
            .iter()
            .any(|word| is_word(first, word))
        {
            continue;
        }
        let mut depth = 0usize;
        for (inner, token) in tokens.iter().enumerate().take(close).skip(open + 1) {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                Token::Comma if depth == 0 => commas.push(inner),
                _ => {}
            }
        }
    }
    if commas.is_empty() {
        return tokens;
    }
    let mut joined = Vec::with_capacity(tokens.len() + 4 * commas.len());
    for (index, token) in tokens.into_iter().enumerate() {
        if commas.contains(&index) {
            let blank = || TokenWithSpan::new(Token::Whitespace(Whitespace::Space), token.span);
            let word = |text| word_token(text, token.span);
            joined.extend([blank(), word("CROSS"), blank(), word("JOIN"), blank()]);
        } else {
            joined.push(token);
        }
    }
    joined
}
