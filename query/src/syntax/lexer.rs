//! Splits text into tokens, as SQLite does, and tokens into statements.

use crate::error::SqlError;

/// The largest text in bytes, as in SQLite.
const MAX_TEXT: usize = 1 << 24;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// White space and comments.
    Space,
    /// A word without quotes: a keyword, a name or a number.
    Word,
    /// A name in `"`, `` ` `` or brackets.
    Quoted,
    /// A text in `'`.
    Text,
    /// A parameter: `$name`.
    Parameter,
    /// An operator or punctuation.
    Symbol,
}

/// A part of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    /// The text as written.
    pub(crate) text: String,
    /// The offset in the text of the statement. Tokens of a macro's body have the offset of the
    /// call.
    pub(crate) at: usize,
}

impl Token {
    pub(crate) fn new(kind: Kind, text: impl Into<String>, at: usize) -> Self {
        let text = text.into();
        Self { kind, text, at }
    }

    /// Returns true if the token is this symbol.
    pub(crate) fn is(&self, symbol: &str) -> bool {
        self.kind == Kind::Symbol && self.text == symbol
    }

    /// Returns true if the token is this word. Ignores case.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    pub(crate) fn is_space(&self) -> bool {
        self.kind == Kind::Space
    }

    /// Returns the text of a name, without quotes.
    pub(crate) fn name(&self) -> Option<String> {
        match self.kind {
            Kind::Word => Some(self.text.clone()),
            Kind::Quoted | Kind::Text => Some(unquoted(&self.text)),
            _ => None,
        }
    }
}

/// Returns the content of a text in quotes.
pub(crate) fn unquoted(text: &str) -> String {
    let mut chars = text.chars();
    let (Some(open), Some(close)) = (chars.next(), chars.next_back()) else {
        return String::new();
    };
    let inner = chars.as_str();
    match open {
        '[' => inner.to_owned(),
        _ => inner.replace(&format!("{close}{close}"), &close.to_string()),
    }
}

/// Returns a name in quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn starts_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

/// Returns the length of the token at the start of a text, which is not empty.
fn measure(text: &str) -> Result<(Kind, usize), &'static str> {
    let until = |inner: &str, end: &str| inner.find(end).map(|at| at + end.len());
    let first = text.chars().next().unwrap_or(' ');
    let while_ = |accept: &dyn Fn(char) -> bool| text.find(|c| !accept(c)).unwrap_or(text.len());
    // As in upstream, so that queries copied from web pages work.
    let blank = |c: char| c.is_ascii_whitespace() || c == '\u{a0}';
    if blank(first) {
        return Ok((Kind::Space, while_(&blank)));
    }
    if text.starts_with("--") {
        return Ok((Kind::Space, until(text, "\n").unwrap_or(text.len())));
    }
    if let Some(inner) = text.strip_prefix("/*") {
        return Ok((
            Kind::Space,
            until(inner, "*/").map_or(text.len(), |n| n + 2),
        ));
    }
    if first == '[' {
        let end = until(text, "]").ok_or("this bracket is not closed")?;
        return Ok((Kind::Quoted, end));
    }
    if matches!(first, '\'' | '"' | '`') {
        let mut at = 1;
        loop {
            let next = text[at..].find(first).ok_or("this quote is not closed")?;
            at += next + 1;
            if !text[at..].starts_with(first) {
                let kind = if first == '\'' {
                    Kind::Text
                } else {
                    Kind::Quoted
                };
                return Ok((kind, at));
            }
            at += 1;
        }
    }
    if matches!(first, '$' | '@' | ':') && text[1..].starts_with(starts_word) {
        let end = text[1..]
            .find(|c| !starts_word(c))
            .map_or(text.len(), |n| n + 1);
        return Ok((Kind::Parameter, end));
    }
    if first.is_ascii_digit()
        || (first == '.' && text[1..].starts_with(|c: char| c.is_ascii_digit()))
    {
        return Ok((Kind::Word, number(text)));
    }
    if starts_word(first) {
        // A blob: x'00'.
        if matches!(first, 'x' | 'X') && text[1..].starts_with('\'') {
            let end = until(&text[2..], "'").ok_or("this quote is not closed")?;
            return Ok((Kind::Word, end + 2));
        }
        return Ok((Kind::Word, while_(&|c| starts_word(c) || c == '$')));
    }
    const LONG: [&str; 10] = ["->>", "->", "||", "<=", "<>", "<<", ">=", ">>", "==", "!="];
    let long = LONG.iter().find(|symbol| text.starts_with(**symbol));
    Ok((
        Kind::Symbol,
        long.map_or(first.len_utf8(), |symbol| symbol.len()),
    ))
}

/// Returns the length of a number with everything that belongs to it.
fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let exponent = matches!(bytes[at], b'+' | b'-')
            && at > 0
            && matches!(bytes[at - 1], b'e' | b'E')
            && !text.starts_with("0x")
            && !text.starts_with("0X");
        if !bytes[at].is_ascii_alphanumeric() && !matches!(bytes[at], b'.' | b'_') && !exponent {
            break;
        }
        at += 1;
    }
    at
}

/// Splits a text into tokens, including white space and comments.
pub(crate) fn tokenize(sql: &str) -> Result<Vec<Token>, SqlError> {
    if sql.len() > MAX_TEXT {
        return Err(SqlError::new("The text has more than 16 MiB."));
    }
    let (mut tokens, mut at) = (Vec::new(), 0);
    while at < sql.len() {
        let (kind, len) = measure(&sql[at..])
            .map_err(|message| SqlError::at(at, format!("Syntax error: {message}.")))?;
        let text = match kind {
            // Comments are not part of the meaning.
            Kind::Space if sql[at..].starts_with("--") => "\n",
            Kind::Space => " ",
            _ => &sql[at..at + len],
        };
        tokens.push(Token::new(kind, text, at));
        at += len;
    }
    Ok(tokens)
}

/// Splits tokens at semicolons. Empty statements are left out. The statements of a trigger belong
/// to it: it ends with `; END;`, as for SQLite.
pub(crate) fn split(tokens: Vec<Token>) -> Vec<Vec<Token>> {
    let mut statements = vec![Vec::new()];
    for token in tokens {
        let Some(last) = statements.last_mut() else {
            break;
        };
        if token.is(";") && (!begins_trigger(last) || ends_trigger(last)) {
            statements.push(Vec::new());
        } else {
            last.push(token);
        }
    }
    statements.retain(|tokens| !tokens.iter().all(Token::is_space));
    statements
}

/// Returns the first statement after an offset, and the offset at which the next one begins; `None`
/// if there is no statement.
///
/// # Errors
///
/// Fails if the offset is not one of a character, or the rest cannot be split into tokens.
pub(crate) fn statement_after(sql: &str, offset: usize) -> Result<Option<(&str, usize)>, SqlError> {
    let Some(rest) = sql.get(offset..) else {
        return Err(SqlError::new(format!(
            "The offset {offset} is not in the text, which has {} bytes.",
            sql.len()
        )));
    };
    let statements = split(tokenize(rest)?);
    let [first, others @ ..] = statements.as_slice() else {
        return Ok(None);
    };
    let start = |tokens: &[Token]| trim(tokens).first().map_or(rest.len(), |token| token.at);
    let next = others.first().map_or(rest.len(), |tokens| start(tokens));
    Ok(Some((&rest[start(first)..next], offset + next)))
}

/// Returns true for the start of `CREATE TRIGGER`.
fn begins_trigger(tokens: &[Token]) -> bool {
    let mut words = tokens.iter().filter(|token| !token.is_space()).peekable();
    for word in ["EXPLAIN", "QUERY", "PLAN"] {
        words.next_if(|token| token.is_word(word));
    }
    let is_created = words.next_if(|token| token.is_word("CREATE")).is_some();
    words.next_if(|token| token.is_word("TEMP") || token.is_word("TEMPORARY"));
    is_created && words.next().is_some_and(|token| token.is_word("TRIGGER"))
}

fn ends_trigger(tokens: &[Token]) -> bool {
    let mut solid = tokens.iter().rev().filter(|token| !token.is_space());
    solid.next().is_some_and(|token| token.is_word("END"))
        && solid.next().is_some_and(|token| token.is(";"))
}

/// Returns the tokens without white space at both ends.
pub(crate) fn trim(tokens: &[Token]) -> &[Token] {
    let start = tokens.iter().position(|t| !t.is_space());
    let end = tokens.iter().rposition(|t| !t.is_space());
    match (start, end) {
        (Some(start), Some(end)) => &tokens[start..=end],
        _ => &[],
    }
}

/// Returns the tokens as text.
pub(crate) fn text(tokens: &[Token]) -> String {
    tokens.iter().map(|t| t.text.as_str()).collect()
}

/// Returns the index of the parenthesis that closes the one at `open`.
pub(crate) fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        if token.is("(") {
            depth += 1;
        } else if token.is(")") {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(index);
            }
        }
    }
    None
}

/// Splits tokens at commas outside of parentheses. Only white space has no parts.
pub(crate) fn split_commas(tokens: &[Token]) -> Vec<&[Token]> {
    if trim(tokens).is_empty() {
        return Vec::new();
    }
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (index, token) in tokens.iter().enumerate() {
        if token.is("(") {
            depth += 1;
        } else if token.is(")") {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && token.is(",") {
            parts.push(trim(&tokens[start..index]));
            start = index + 1;
        }
    }
    parts.push(trim(&tokens[start..]));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(sql: &str) -> Vec<String> {
        let tokens = tokenize(sql).expect("tokens");
        let solid = tokens.into_iter().filter(|t| !t.is_space());
        solid.map(|t| t.text).collect()
    }

    #[test]
    fn tokens_are_those_of_sqlite() {
        assert_eq!(words("a!=b"), ["a", "!=", "b"]);
        assert_eq!(
            words("m!(1e-5,.5)"),
            ["m", "!", "(", "1e-5", ",", ".5", ")"]
        );
        assert_eq!(words("0x1e-1"), ["0x1e", "-", "1"]);
        assert_eq!(
            words("'it''s' \"a\"\"b\" [c d] x'00'"),
            ["'it''s'", "\"a\"\"b\"", "[c d]", "x'00'"]
        );
        assert_eq!(
            words("a -- ; no\n/* ; */ $b ->> 'c'"),
            ["a", "$b", "->>", "'c'"]
        );
        assert_eq!(words("a/* open"), ["a"]);
        assert_eq!(tokenize("x 'a").expect_err("open").offset, Some(2));
    }

    #[test]
    fn statements_end_at_semicolons() {
        let statements = split(tokenize("a; ';' ;; -- x\n b").expect("tokens"));
        let texts: Vec<_> = statements.iter().map(|s| text(trim(s))).collect();
        assert_eq!(texts, ["a", "';'", "b"]);
        let trigger = "CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN \
            UPDATE b SET x = CASE WHEN 1 THEN 2 END; DELETE FROM c; END";
        let statements = split(tokenize(&format!("{trigger}; SELECT 1")).expect("tokens"));
        let texts: Vec<_> = statements.iter().map(|s| text(trim(s))).collect();
        assert_eq!(texts, [trigger, "SELECT 1"]);
    }
}
