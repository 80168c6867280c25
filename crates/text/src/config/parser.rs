//! Parsing of tokens to an encoded message.

use std::collections::{BTreeMap, HashMap};

use crate::schema::{FieldType, Kind, MessageId, Schema};
use ferretto_wire::{Encoder, decode_varint};

use super::diagnostic::{ConfigError, Diagnostic};
use super::lexer::{Kind as Lexeme, LexError, Lexer, Token};
use super::number::{self, Number};
use super::{Parsed, Unknown, suggest};

/// The maximum nesting, as in protobuf.
const MAX_DEPTH: usize = 100;

/// The maximum number of collected errors.
const MAX_ERRORS: usize = 100;

/// Parsing cannot continue; the error has been recorded.
struct Stop;

type Step<T> = Result<T, Stop>;

struct Parser<'a> {
    schema: &'a Schema<'a>,
    root: MessageId,
    name: &'a str,
    text: &'a [u8],
    unknown: Unknown,
    lexer: Lexer<'a>,
    /// The current token.
    token: Token<'a>,
    depth: usize,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

pub(super) fn parse(
    schema: &Schema<'_>,
    root: MessageId,
    name: &str,
    text: &[u8],
    unknown: Unknown,
) -> Result<Parsed, ConfigError> {
    let mut parser = Parser {
        schema,
        root,
        name,
        text,
        unknown,
        lexer: Lexer::new(text),
        token: Token {
            kind: Lexeme::End,
            start: 0,
            end: 0,
        },
        depth: 0,
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    let mut bytes = Vec::new();
    // After a stop, the error is in the list.
    let _ = parser.config(&mut bytes);
    if parser.errors.is_empty() {
        Ok(Parsed {
            bytes,
            warnings: parser.warnings,
        })
    } else {
        parser
            .errors
            .sort_by_key(|error| (error.line, error.column));
        Err(ConfigError::Text(parser.errors))
    }
}

/// A field name and its position.
#[derive(Clone, Copy)]
struct Key<'a> {
    name: &'a str,
    start: usize,
    end: usize,
}

/// The end of the current message.
#[derive(Clone, Copy)]
enum Closer {
    End,
    /// The closing mark, the position of the opening one, and the field.
    Mark(u8, usize),
}

/// The fields of a message so far.
#[derive(Default)]
struct Given {
    /// The first position of each field.
    starts: HashMap<u32, usize>,
    /// The values of packed fields, which are written as one byte string.
    packed: BTreeMap<u32, Vec<u8>>,
}

impl<'a> Parser<'a> {
    fn config(&mut self, out: &mut Vec<u8>) -> Step<()> {
        self.advance()?;
        self.message(self.root, Closer::End, out)
    }

    fn error(&mut self, start: usize, end: usize, message: String) -> Step<()> {
        self.errors
            .push(Diagnostic::new(self.name, self.text, start, end, message));
        if self.errors.len() < MAX_ERRORS {
            Ok(())
        } else {
            Err(Stop)
        }
    }

    fn stop(&mut self, start: usize, end: usize, message: String) -> Stop {
        self.errors
            .push(Diagnostic::new(self.name, self.text, start, end, message));
        Stop
    }

    fn stop_here(&mut self, message: String) -> Stop {
        self.stop(self.token.start, self.token.end, message)
    }

    fn advance(&mut self) -> Step<Token<'a>> {
        match self.lexer.next() {
            Ok(next) => Ok(std::mem::replace(&mut self.token, next)),
            Err(LexError {
                start,
                end,
                message,
            }) => Err(self.stop(start, end, message)),
        }
    }

    fn at(&self, mark: u8) -> bool {
        self.token.kind == Lexeme::Mark(mark)
    }

    fn take(&mut self, mark: u8) -> Step<bool> {
        let here = self.at(mark);
        if here {
            self.advance()?;
        }
        Ok(here)
    }

    /// Parses fields up to and including `closer`.
    fn message(&mut self, id: MessageId, closer: Closer, out: &mut Vec<u8>) -> Step<()> {
        let mut given = Given::default();
        self.fields(id, closer, &mut given, out)?;
        for (number, values) in given.packed {
            Encoder::new(out).bytes(number, &values);
        }
        Ok(())
    }

    fn fields(
        &mut self,
        id: MessageId,
        closer: Closer,
        given: &mut Given,
        out: &mut Vec<u8>,
    ) -> Step<()> {
        loop {
            match (&self.token.kind, closer) {
                (Lexeme::End, Closer::End) => return Ok(()),
                (Lexeme::End, Closer::Mark(_, open)) => {
                    return Err(self.stop(open, open + 1, "this is never closed".to_owned()));
                }
                (Lexeme::Mark(mark), Closer::Mark(close, _)) if *mark == close => {
                    self.advance()?;
                    return Ok(());
                }
                (Lexeme::Mark(b'}' | b'>'), _) => {
                    return Err(self.stop_here("nothing is open that this could close".to_owned()));
                }
                (Lexeme::Mark(b'['), _) => self.extension()?,
                (Lexeme::Word(name), _) => {
                    let key = Key {
                        name,
                        start: self.token.start,
                        end: self.token.end,
                    };
                    self.advance()?;
                    self.field(id, key, given, out)?;
                }
                _ => {
                    let found = self.describe();
                    return Err(self.stop_here(format!("expected a field name, found {found}")));
                }
            }
            if self.at(b';') || self.at(b',') {
                self.advance()?;
            }
        }
    }

    fn field(
        &mut self,
        id: MessageId,
        key: Key<'a>,
        given: &mut Given,
        out: &mut Vec<u8>,
    ) -> Step<()> {
        let colon = self.take(b':')?;
        // Upstream's parser ignores a second colon.
        let _ = colon && self.take(b':')?;
        let schema = self.schema;
        let message = schema.message(id);
        let Some(field) = message.field_named(key.name) else {
            if self.unknown == Unknown::Refuse {
                let hint = suggest::field(schema, self.root, id, key.name);
                let text = format!("no field {:?} in {}{hint}", key.name, message.name);
                self.error(key.start, key.end, text)?;
            }
            return self.skip_value();
        };
        if let Some(first) = given.starts.insert(field.number, key.start)
            && !field.repeated
        {
            let first = Diagnostic::new(self.name, self.text, first, first, String::new());
            let text = format!(
                "{:?} is given a second time; the first is in line {}",
                key.name, first.line
            );
            self.error(key.start, key.end, text)?;
        }
        let out = if field.packed {
            given.packed.entry(field.number).or_default()
        } else {
            out
        };
        if self.at(b'[') {
            self.list(field, key, out)
        } else {
            self.value(field, key, out)
        }
    }

    /// Parses `[a, b]`.
    fn list(&mut self, field: &FieldType<'_>, key: Key<'a>, out: &mut Vec<u8>) -> Step<()> {
        if !field.repeated {
            let text = format!("{:?} takes one value, not a list", key.name);
            self.error(self.token.start, self.token.end, text)?;
            return self.skip_value();
        }
        let open = self.token.start;
        self.advance()?;
        if self.take(b']')? {
            return Ok(());
        }
        loop {
            self.value(field, key, out)?;
            if self.take(b']')? {
                return Ok(());
            }
            if self.token.kind == Lexeme::End {
                return Err(self.stop(open, open + 1, "this is never closed".to_owned()));
            }
            if !self.take(b',')? {
                let found = self.describe();
                return Err(self.stop_here(format!("expected , or ] in a list, found {found}")));
            }
        }
    }

    fn value(&mut self, field: &FieldType<'_>, key: Key<'a>, out: &mut Vec<u8>) -> Step<()> {
        match (field.kind, &self.token.kind) {
            (Kind::Message(id), Lexeme::Mark(b'{' | b'<')) => self.nested(id, field, out),
            (Kind::String | Kind::Bytes, Lexeme::Literal(_)) => {
                let value = self.string()?;
                Encoder::new(out).bytes(field.number, &value);
                Ok(())
            }
            (Kind::Message(_) | Kind::String | Kind::Bytes, _) => self.mismatch(field, key),
            (_, Lexeme::Mark(b'-') | Lexeme::Number(_) | Lexeme::Word(_)) => {
                self.scalar(field, key, out)
            }
            _ => self.mismatch(field, key),
        }
    }

    fn nested(&mut self, id: MessageId, field: &FieldType<'_>, out: &mut Vec<u8>) -> Step<()> {
        let close = if self.at(b'{') { b'}' } else { b'>' };
        let open = self.token.start;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.stop_here(format!("nested more than {MAX_DEPTH} deep")));
        }
        self.advance()?;
        let mut inner = Vec::new();
        self.message(id, Closer::Mark(close, open), &mut inner)?;
        self.depth -= 1;
        Encoder::new(out).bytes(field.number, &inner);
        Ok(())
    }

    /// Parses adjacent string literals and joins them.
    fn string(&mut self) -> Step<Vec<u8>> {
        let mut value = Vec::new();
        while let Lexeme::Literal(part) = &self.token.kind {
            value.extend_from_slice(part);
            self.advance()?;
        }
        Ok(value)
    }

    /// Parses a number, a boolean or an enum value.
    fn scalar(&mut self, field: &FieldType<'_>, key: Key<'a>, out: &mut Vec<u8>) -> Step<()> {
        let before = self.token.clone();
        let negative = self.take(b'-')?;
        let bits = match self.token.kind {
            Lexeme::Word(word) => self.word_bits(field, word, negative)?,
            Lexeme::Number(text) => match number::read(text) {
                Some(number) => self.number_bits(field, number, negative)?,
                None => return self.bad_number(field, text),
            },
            _ => None,
        };
        let Some(bits) = bits else {
            self.token = match self.token.kind {
                // Points at the minus sign, which is already consumed.
                Lexeme::Word(_) | Lexeme::Number(_) => Token {
                    start: before.start,
                    ..self.token.clone()
                },
                _ => {
                    return Err(self.stop(
                        before.start,
                        before.end,
                        "expected a number after this".to_owned(),
                    ));
                }
            };
            return self.mismatch(field, key);
        };
        self.advance()?;
        if let Some(bits) = bits {
            if field.packed {
                encode_packed(out, field, bits)
            } else {
                encode(out, field, bits)
            }
        }
        Ok(())
    }

    /// Returns the bits for a word: `None` if it does not fit the type, `Some(None)` if it is to be
    /// dropped.
    fn word_bits(
        &mut self,
        field: &FieldType<'_>,
        word: &str,
        negative: bool,
    ) -> Step<Option<Option<u64>>> {
        let bits = match field.kind {
            Kind::Bool if !negative => match word {
                "true" | "True" | "t" => Some(1),
                "false" | "False" | "f" => Some(0),
                _ => None,
            },
            Kind::Enum(id) if !negative => {
                let enumeration = self.schema.enumeration(id);
                match enumeration.number_of(word) {
                    Some(number) => Some(i64::from(number) as u64),
                    None if self.unknown == Unknown::Drop => return Ok(Some(None)),
                    None => {
                        let hint = suggest::value(enumeration, word);
                        let text = format!(
                            "no value {word} in {}, the type of {:?}{hint}",
                            enumeration.name, field.name
                        );
                        self.error(self.token.start, self.token.end, text)?;
                        return Ok(Some(None));
                    }
                }
            }
            Kind::Double | Kind::Float => {
                let value = match word.to_ascii_lowercase().as_str() {
                    "inf" | "infinity" => Some(f64::INFINITY),
                    "nan" => Some(f64::NAN),
                    _ => None,
                };
                value.map(|v| number::float_value_bits(field.kind, if negative { -v } else { v }))
            }
            _ => None,
        };
        Ok(bits.map(Some))
    }

    fn number_bits(
        &mut self,
        field: &FieldType<'_>,
        number: Number,
        negative: bool,
    ) -> Step<Option<Option<u64>>> {
        match field.kind {
            Kind::Double | Kind::Float => {
                Ok(Some(Some(number::float_bits(field.kind, number, negative))))
            }
            Kind::Bool => match number {
                Number::Integer(bit @ (0 | 1)) if !negative => Ok(Some(Some(bit))),
                _ => Ok(None),
            },
            kind => {
                let Some(fitted) = number::integer_bits(kind, number, negative) else {
                    return Ok(None);
                };
                if let Some(warning) = fitted.warning {
                    let Token { start, end, .. } = self.token;
                    let text = format!("{:?}: {warning}", field.name);
                    self.warnings
                        .push(Diagnostic::new(self.name, self.text, start, end, text));
                }
                Ok(Some(Some(fitted.bits)))
            }
        }
    }

    fn bad_number(&mut self, field: &FieldType<'_>, text: &str) -> Step<()> {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let message = if text.bytes().all(|b| b.is_ascii_digit()) {
            format!("{text} is more than any field can hold")
        } else if digits > 0 && is_unit(&text[digits..]) {
            format!(
                "{text} is not a number; {:?} takes no unit, write {}",
                field.name,
                &text[..digits]
            )
        } else {
            format!("{text} is not a number")
        };
        self.error(self.token.start, self.token.end, message)?;
        self.advance().map(drop)
    }

    /// Reports a value that does not fit the field's type.
    fn mismatch(&mut self, field: &FieldType<'_>, key: Key<'a>) -> Step<()> {
        if matches!(
            self.token.kind,
            Lexeme::End | Lexeme::Mark(b'}' | b'>' | b']' | b';' | b',')
        ) {
            let message = format!("{:?} has no value; it {}", key.name, self.wanted(field));
            return Err(self.stop(key.start, key.end, message));
        }
        let message = format!(
            "{:?} {}, found {}",
            key.name,
            self.wanted(field),
            self.describe()
        );
        self.error(self.token.start, self.token.end, message)?;
        match self.token.kind {
            // Cannot start any value, so its end cannot be found.
            Lexeme::Mark(b':' | b'/') => Err(Stop),
            _ => self.skip_value(),
        }
    }

    fn wanted(&self, field: &FieldType<'_>) -> String {
        match field.kind {
            Kind::Message(id) => {
                let name = self.schema.message(id).name;
                format!("takes a {name}, written as {} {{ ... }}", field.name)
            }
            Kind::String | Kind::Bytes => "takes a string in quotes".to_owned(),
            Kind::Bool => "takes true or false".to_owned(),
            Kind::Enum(id) => {
                let enumeration = self.schema.enumeration(id);
                let example = enumeration.values.last().map_or("", |(name, _)| *name);
                format!("takes a name of {}, such as {example}", enumeration.name)
            }
            Kind::Double | Kind::Float => "takes a number".to_owned(),
            _ => "takes an integer".to_owned(),
        }
    }

    /// Returns a description of the next token for a message.
    fn describe(&self) -> String {
        match &self.token.kind {
            Lexeme::End => "the end of the text".to_owned(),
            Lexeme::Literal(_) => "a string".to_owned(),
            _ => String::from_utf8_lossy(&self.text[self.token.start..self.token.end]).into_owned(),
        }
    }

    /// Parses `[name]` in place of a field name.
    fn extension(&mut self) -> Step<()> {
        let start = self.token.start;
        self.advance()?;
        while !self.at(b']') {
            match self.token.kind {
                Lexeme::Word(_) | Lexeme::Number(_) | Lexeme::Mark(b'/' | b'-') => {
                    self.advance()?
                }
                _ => {
                    return Err(self.stop(
                        start,
                        start + 1,
                        "expected the name of an extension and ]".to_owned(),
                    ));
                }
            };
        }
        let end = self.token.end;
        let name = String::from_utf8_lossy(&self.text[start + 1..end - 1])
            .trim()
            .to_owned();
        self.advance()?;
        if self.unknown == Unknown::Refuse {
            self.error(
                start,
                end,
                format!("no extension {name:?}: there are none in configs"),
            )?;
        }
        self.take(b':')?;
        self.skip_value()
    }

    /// Skips a value of any type.
    fn skip_value(&mut self) -> Step<()> {
        match self.token.kind {
            Lexeme::Literal(_) => self.string().map(drop),
            Lexeme::Mark(b'{' | b'<' | b'[') => self.skip_brackets(),
            Lexeme::Mark(b'-') => {
                self.advance()?;
                self.advance().map(drop)
            }
            Lexeme::Word(_) | Lexeme::Number(_) => self.advance().map(drop),
            _ => {
                let found = self.describe();
                Err(self.stop_here(format!("expected a value, found {found}")))
            }
        }
    }

    fn skip_brackets(&mut self) -> Step<()> {
        let mut open = Vec::new();
        loop {
            let at = self.token.start;
            match self.token.kind {
                Lexeme::Mark(b'{') => open.push((b'}', at)),
                Lexeme::Mark(b'<') => open.push((b'>', at)),
                Lexeme::Mark(b'[') => open.push((b']', at)),
                Lexeme::Mark(mark @ (b'}' | b'>' | b']')) => match open.pop() {
                    Some((close, _)) if close == mark => {}
                    _ => {
                        return Err(
                            self.stop_here("nothing is open that this could close".to_owned())
                        );
                    }
                },
                Lexeme::End => {
                    let at = open.last().map_or(at, |(_, at)| *at);
                    return Err(self.stop(at, at + 1, "this is never closed".to_owned()));
                }
                _ => {}
            }
            self.advance()?;
            if open.is_empty() {
                return Ok(());
            }
        }
    }
}

/// Appends a packed value.
fn encode_packed(out: &mut Vec<u8>, field: &FieldType<'_>, bits: u64) {
    let mut alone = Vec::new();
    encode(&mut alone, field, bits);
    let tag = decode_varint(&alone).map_or(0, |(_, length)| length);
    out.extend_from_slice(&alone[tag..]);
}

fn encode(out: &mut Vec<u8>, field: &FieldType<'_>, bits: u64) {
    let mut out = Encoder::new(out);
    match field.kind {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => out.fixed64(field.number, bits),
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => out.fixed32(field.number, bits as u32),
        Kind::Sint32 | Kind::Sint64 => out.sint(field.number, bits as i64),
        _ => out.varint(field.number, bits),
    }
}

/// Returns true if the text after digits looks like a unit, such as `ms`.
fn is_unit(rest: &str) -> bool {
    !rest.starts_with(['x', 'X']) && rest.bytes().all(|b| b.is_ascii_alphabetic())
}
