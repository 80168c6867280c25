//! Bytecode compiled to tables, which hold the action for each field of each message.

use super::words;

/// Fields below this number are looked up by index, the others by binary search.
const DIRECT_FIELDS: u32 = 128;

/// The number of lower bits of a word with the operation. The upper bits are the field number.
const OPCODE_BITS: u32 = 3;

mod opcode {
    pub(super) const END_OF_MESSAGE: u32 = 0;
    pub(super) const SIMPLE: u32 = 1;
    pub(super) const SIMPLE_RANGE: u32 = 2;
    pub(super) const NESTED: u32 = 3;
    pub(super) const STRING: u32 = 4;
    pub(super) const TYPED_STRING: u32 = 5;
}

/// The action for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Rule {
    /// The field is removed.
    #[default]
    Drop,
    /// The field is copied unchanged.
    Copy,
    /// The field is a message, filtered as the message of this number.
    Nested(u32),
    /// The field is a string of this semantic type, to which the string rules apply.
    String(u16),
}

/// Consecutive fields of one message with the same rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    /// The field number after the range.
    end: u32,
    rule: Rule,
}

/// The start of the tables of a message.
#[derive(Debug, Clone, Copy, Default)]
struct Message {
    direct: usize,
    ranges: usize,
}

/// A compiled filter.
#[derive(Debug, Clone, Default)]
pub(super) struct Program {
    /// One entry for each message, and one for the end of the last.
    messages: Vec<Message>,
    /// By message, then by field number from 0.
    direct: Vec<Rule>,
    /// By message, sorted and without overlaps.
    ranges: Vec<Range>,
    root: u32,
}

impl Program {
    /// Compiles bytecode with an overlay, which may be empty. `None` if either is invalid.
    pub(super) fn load(code: &[u8], overlay: &[u8]) -> Option<Self> {
        let words = words::decode(code)?;
        let overlay = match overlay {
            [] => Vec::new(),
            overlay => decode_overlay(overlay)?,
        };
        Compiler::new(&words, &overlay).compile()
    }

    /// Returns the message that filtering starts with.
    pub(super) fn root(&self) -> u32 {
        self.root
    }

    pub(super) fn set_root(&mut self, message: u32) {
        self.root = message;
    }

    /// Returns the tables of a message.
    pub(super) fn fields(&self, message: u32) -> FieldRules<'_> {
        let message = message as usize;
        let begin = self.messages.get(message).copied().unwrap_or_default();
        let end = self.messages.get(message + 1).copied().unwrap_or(begin);
        FieldRules {
            direct: self
                .direct
                .get(begin.direct..end.direct)
                .unwrap_or_default(),
            ranges: self
                .ranges
                .get(begin.ranges..end.ranges)
                .unwrap_or_default(),
        }
    }

    /// Returns the action for a field of a message.
    pub(super) fn rule(&self, message: u32, field: u32) -> Rule {
        self.fields(message).rule(field)
    }

    fn message_count(&self) -> usize {
        self.messages.len()
    }
}

/// The actions for the fields of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldRules<'a> {
    direct: &'a [Rule],
    ranges: &'a [Range],
}

impl FieldRules<'_> {
    #[inline]
    pub(super) fn rule(&self, field: u32) -> Rule {
        if field < DIRECT_FIELDS {
            return self.direct.get(field as usize).copied().unwrap_or_default();
        }
        let index = self.ranges.partition_point(|range| range.end <= field);
        match self.ranges.get(index) {
            Some(range) if range.first <= field => range.rule,
            _ => Rule::Drop,
        }
    }
}

/// A field that an overlay adds or gives another rule.
#[derive(Debug, Clone, Copy)]
struct OverlayField {
    message: u32,
    field: u32,
    rule: Rule,
}

/// Decodes an overlay, which has three words per field, sorted by message and field.
fn decode_overlay(bytes: &[u8]) -> Option<Vec<OverlayField>> {
    let words = words::decode(bytes)?;
    let (triplets, []) = words.as_chunks::<3>() else {
        return None;
    };
    let mut fields: Vec<OverlayField> = Vec::with_capacity(triplets.len());
    for &[message, word, argument] in triplets {
        let field = word >> OPCODE_BITS;
        let rule = match opcode_of(word) {
            opcode::SIMPLE => Rule::Copy,
            opcode::STRING => Rule::String(0),
            opcode::TYPED_STRING => Rule::String(argument as u16),
            _ => return None,
        };
        let sorted = fields
            .last()
            .is_none_or(|last| (last.message, last.field) < (message, field));
        if field == 0 || !sorted {
            return None;
        }
        fields.push(OverlayField {
            message,
            field,
            rule,
        });
    }
    Some(fields)
}

fn opcode_of(word: u32) -> u32 {
    word & ((1 << OPCODE_BITS) - 1)
}

/// Merges bytecode and overlay.
struct Compiler<'a> {
    words: std::slice::Iter<'a, u32>,
    overlay: std::iter::Peekable<std::slice::Iter<'a, OverlayField>>,
    program: Program,
    /// The start of the tables of the message being compiled.
    begin: Message,
    /// The highest message number in use.
    highest: Option<u32>,
}

impl<'a> Compiler<'a> {
    fn new(words: &'a [u32], overlay: &'a [OverlayField]) -> Self {
        Self {
            words: words.iter(),
            overlay: overlay.iter().peekable(),
            program: Program::default(),
            begin: Message::default(),
            highest: None,
        }
    }

    fn compile(mut self) -> Option<Program> {
        let mut complete = true;
        while let Some(&word) = self.words.next() {
            complete = opcode_of(word) == opcode::END_OF_MESSAGE;
            self.instruction(word)?;
        }
        let in_range = |message| (message as usize) < self.program.message_count();
        if !complete || self.overlay.next().is_some() || !self.highest.is_none_or(in_range) {
            return None;
        }
        self.program.messages.push(self.begin);
        Some(self.program)
    }

    fn instruction(&mut self, word: u32) -> Option<()> {
        let field = word >> OPCODE_BITS;
        let opcode = opcode_of(word);
        if opcode == opcode::END_OF_MESSAGE {
            return self.end_message();
        }
        if field == 0 {
            return None;
        }
        let rule = match opcode {
            opcode::SIMPLE => Rule::Copy,
            opcode::STRING => Rule::String(0),
            opcode::TYPED_STRING => Rule::String(*self.words.next()? as u16),
            opcode::NESTED => {
                let message = *self.words.next()?;
                self.highest = self.highest.max(Some(message));
                Rule::Nested(message)
            }
            opcode::SIMPLE_RANGE => {
                let length = *self.words.next()?;
                // A range beyond the largest field number allows no field.
                let end = field.checked_add(length).unwrap_or(field);
                self.add_range(field, end);
                return Some(());
            }
            _ => return None,
        };
        let replaced = self.take_overlay(field);
        self.add(field, replaced.unwrap_or(rule));
        Some(())
    }

    /// Adds the overlay's entries below this field. Returns its entry for the field itself.
    fn take_overlay(&mut self, field: u32) -> Option<Rule> {
        let message = self.program.message_count() as u64;
        while let Some(&&entry) = self.overlay.peek() {
            if u64::from(entry.message) != message || entry.field > field {
                return None;
            }
            self.overlay.next();
            if entry.field == field {
                return Some(entry.rule);
            }
            self.add(entry.field, entry.rule);
        }
        None
    }

    fn add(&mut self, field: u32, rule: Rule) {
        if field >= DIRECT_FIELDS {
            let end = field.saturating_add(1);
            self.program.ranges.push(Range {
                first: field,
                end,
                rule,
            });
            return;
        }
        let index = self.begin.direct + field as usize;
        let direct = &mut self.program.direct;
        if direct.len() <= index {
            direct.resize(index + 1, Rule::Drop);
        }
        if let Some(slot) = direct.get_mut(index) {
            *slot = rule;
        }
    }

    /// Allows the fields from `first` up to `end`. A range may span both tables.
    fn add_range(&mut self, first: u32, end: u32) {
        for field in first..end.min(DIRECT_FIELDS) {
            self.add(field, Rule::Copy);
        }
        let first = first.max(DIRECT_FIELDS);
        if first < end {
            let rule = Rule::Copy;
            self.program.ranges.push(Range { first, end, rule });
        }
    }

    fn end_message(&mut self) -> Option<()> {
        // The largest field number.
        let last = u32::MAX >> OPCODE_BITS;
        if let Some(rule) = self.take_overlay(last) {
            self.add(last, rule);
        }
        let ranges = self.program.ranges.get(self.begin.ranges..)?;
        if ranges.windows(2).any(|pair| match pair {
            [before, after] => after.first < before.end,
            _ => false,
        }) {
            return None;
        }
        self.program.messages.push(self.begin);
        self.begin = Message {
            direct: self.program.direct.len(),
            ranges: self.program.ranges.len(),
        };
        Some(())
    }
}

#[cfg(test)]
mod tests;
