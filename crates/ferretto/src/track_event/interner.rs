//! Numbers for strings that occur again and again.

use ferretto_proto::fields::interned_data as field;
use ferretto_wire::Encoder;

/// The dictionaries of one sequence.
#[derive(Debug, Default)]
pub(super) struct Interner {
    categories: Table,
    names: Table,
    arguments: Table,
    types: Table,
    /// Entries not written yet: fields of an InternedData message.
    pending: Vec<u8>,
}

impl Interner {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.categories.clear();
        self.names.clear();
        self.arguments.clear();
        self.types.clear();
        self.pending.clear();
    }

    pub(super) fn category(&mut self, text: &'static str) -> u64 {
        self.categories
            .number(field::EVENT_CATEGORIES, text, &mut self.pending)
    }

    pub(super) fn name(&mut self, text: &'static str) -> u64 {
        self.names
            .number(field::EVENT_NAMES, text, &mut self.pending)
    }

    pub(super) fn argument(&mut self, text: &'static str) -> u64 {
        self.arguments
            .number(field::DEBUG_ANNOTATION_NAMES, text, &mut self.pending)
    }

    /// The full name of a protobuf type.
    pub(super) fn type_name(&mut self, text: &'static str) -> u64 {
        let field = field::DEBUG_ANNOTATION_VALUE_TYPE_NAMES;
        self.types.number(field, text, &mut self.pending)
    }

    /// The fields of the InternedData message that has to go with the present packet; empty if none has to.
    pub(super) fn pending(&self) -> &[u8] {
        &self.pending
    }

    pub(super) fn written(&mut self) {
        self.pending.clear();
    }
}

/// One dictionary: open addressing, keyed by where the text is. The same text in two places has two numbers, which
/// does no harm and saves looking at it.
#[derive(Debug, Default)]
struct Table {
    /// Address and length of the text, and its number, 0 for an empty place. The size is a power of two.
    places: Vec<(usize, usize, u64)>,
    used: u64,
}

impl Table {
    fn clear(&mut self) {
        self.places.fill((0, 0, 0));
        self.used = 0;
    }

    #[inline]
    fn number(&mut self, field: u32, text: &'static str, pending: &mut Vec<u8>) -> u64 {
        let key = (text.as_ptr() as usize, text.len());
        if let Some(mask) = self.places.len().checked_sub(1) {
            let mut at = slot(key) & mask;
            loop {
                match self.places[at] {
                    (_, _, 0) => break,
                    (address, length, number) if (address, length) == key => return number,
                    _ => at = (at + 1) & mask,
                }
            }
        }
        self.add(field, key, text, pending)
    }

    #[cold]
    fn add(
        &mut self,
        field: u32,
        key: (usize, usize),
        text: &'static str,
        pending: &mut Vec<u8>,
    ) -> u64 {
        if self.used as usize * 2 >= self.places.len() {
            self.grow();
        }
        self.used += 1;
        self.insert((key.0, key.1, self.used));
        Encoder::new(pending).nested(field, |entry| {
            entry.varint(1, self.used);
            entry.string(2, text);
        });
        self.used
    }

    fn grow(&mut self) {
        let size = (self.places.len() * 2).max(32);
        let old = std::mem::replace(&mut self.places, vec![(0, 0, 0); size]);
        for place in old.into_iter().filter(|place| place.2 != 0) {
            self.insert(place);
        }
    }

    fn insert(&mut self, place: (usize, usize, u64)) {
        let mask = self.places.len() - 1;
        let mut at = slot((place.0, place.1)) & mask;
        while self.places[at].2 != 0 {
            at = (at + 1) & mask;
        }
        self.places[at] = place;
    }
}

/// Where the search for a key begins, before masking.
#[inline]
fn slot((address, length): (usize, usize)) -> usize {
    let mixed = (address ^ length.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize);
    mixed >> (usize::BITS / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_defined_once_and_keeps_its_number() {
        let texts: Vec<&'static str> = (0..500)
            .map(|index| &*format!("text {index}").leak())
            .collect();
        let mut interner = Interner::default();
        for round in 0..3 {
            for (text, number) in texts.iter().zip(1..) {
                assert_eq!(interner.name(text), number);
            }
            let defined = ferretto_wire::Fields::new(interner.pending()).count();
            assert_eq!(defined, if round == 0 { 500 } else { 0 });
            interner.written();
        }
        interner.clear();
        assert_eq!(interner.name(texts[7]), 1);
        assert_eq!(interner.category(texts[7]), 1, "dictionaries count apart");
    }
}
