//! Splitting of text into tokens.

/// A token and its range of bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind<'a> {
    /// Letters, digits and underscores that do not start with a digit.
    Word(&'a str),
    /// A word that starts with a digit or a point, whether it is a valid number or not.
    Number(&'a str),
    /// A string literal, without quotes and with escapes resolved.
    Literal(Vec<u8>),
    /// Any other character.
    Mark(u8),
    End,
}

/// The text cannot be split into tokens.
#[derive(Debug)]
pub(super) struct LexError {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) message: String,
}

#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        let at = if text.starts_with(b"\xef\xbb\xbf") {
            3
        } else {
            0
        };
        Self { text, at }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_blank(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b'\t'..=b'\r' | b' ' => self.at += 1,
                b'#' => {
                    while self.peek().is_some_and(|b| b != b'\n') {
                        self.at += 1
                    }
                }
                _ => break,
            }
        }
    }

    pub(super) fn next(&mut self) -> Result<Token<'a>, LexError> {
        self.skip_blank();
        let start = self.at;
        let kind = match self.peek() {
            None => Kind::End,
            Some(b'"' | b'\'') => self.literal()?,
            Some(byte) if byte.is_ascii_digit() || byte == b'.' => Kind::Number(self.number()),
            Some(byte) if is_word(byte) => Kind::Word(self.run(is_word)),
            Some(byte) => {
                self.at += 1;
                self.mark(byte, start)?
            }
        };
        Ok(Token {
            kind,
            start,
            end: self.at,
        })
    }

    fn mark(&self, byte: u8, start: usize) -> Result<Kind<'a>, LexError> {
        if b"{}<>[]:;,-/".contains(&byte) {
            return Ok(Kind::Mark(byte));
        }
        let rest = String::from_utf8_lossy(&self.text[start..self.text.len().min(start + 4)]);
        let c = rest.chars().next().unwrap_or_default();
        let message = format!("unexpected character {c:?}");
        Err(LexError {
            start,
            end: start + c.len_utf8(),
            message,
        })
    }

    /// Takes ASCII bytes while `belongs` returns true.
    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&belongs) {
            self.at += 1;
        }
        std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default()
    }

    /// Takes everything up to the next blank or mark, including the sign of an exponent.
    fn number(&mut self) -> &'a str {
        let start = self.at;
        self.run(|b| is_word(b) || b == b'.');
        let so_far = &self.text[start..self.at];
        let hexadecimal = so_far.len() > 1 && matches!(so_far[1], b'x' | b'X');
        if !hexadecimal
            && matches!(so_far.last(), Some(b'e' | b'E'))
            && matches!(self.peek(), Some(b'+' | b'-'))
        {
            self.at += 1;
            self.run(|b| is_word(b) || b == b'.');
        }
        std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default()
    }

    fn literal(&mut self) -> Result<Kind<'a>, LexError> {
        let start = self.at;
        let quote = self.peek();
        self.at += 1;
        let mut value = Vec::new();
        loop {
            match self.peek() {
                None => {
                    let message = "this string is never closed".to_owned();
                    return Err(LexError {
                        start,
                        end: self.text.len(),
                        message,
                    });
                }
                byte if byte == quote => {
                    self.at += 1;
                    return Ok(Kind::Literal(value));
                }
                Some(b'\\') => self.escape(&mut value)?,
                Some(byte) => {
                    value.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, value: &mut Vec<u8>) -> Result<(), LexError> {
        let start = self.at;
        self.at += 1;
        let Some(byte) = self.peek() else {
            return Ok(());
        };
        self.at += 1;
        let plain = match byte {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'\\' | b'\'' | b'"' | b'?' => byte,
            b'0'..=b'7' => {
                self.at -= 1;
                self.digits(start, 8, 3)?
                    .try_into()
                    .map_err(|_| self.bad_escape(start, "is more than \\377"))?
            }
            b'x' | b'X' => self.digits(start, 16, 2)? as u8,
            b'u' => return self.code_point(start, 4, value),
            b'U' => return self.code_point(start, 8, value),
            _ => return Err(self.bad_escape(start, "is not an escape; write \\\\ for a backslash")),
        };
        value.push(plain);
        Ok(())
    }

    /// Parses one to `most` digits.
    fn digits(&mut self, start: usize, radix: u32, most: usize) -> Result<u32, LexError> {
        let mut number = 0;
        let mut count = 0;
        while count < most
            && let Some(digit) = self.peek().and_then(|b| char::from(b).to_digit(radix))
        {
            number = number * radix + digit;
            count += 1;
            self.at += 1;
        }
        if count == 0 {
            Err(self.bad_escape(start, "has no digits"))
        } else {
            Ok(number)
        }
    }

    fn code_point(
        &mut self,
        start: usize,
        most: usize,
        value: &mut Vec<u8>,
    ) -> Result<(), LexError> {
        let first = self.at;
        let number = self.digits(start, 16, most)?;
        let c = char::from_u32(number).filter(|_| self.at - first == most);
        let c = c.ok_or_else(|| self.bad_escape(start, "is not a Unicode character"))?;
        value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn bad_escape(&self, start: usize, what: &str) -> LexError {
        let escape = String::from_utf8_lossy(&self.text[start..self.at]);
        LexError {
            start,
            end: self.at,
            message: format!("{escape} {what}"),
        }
    }
}
