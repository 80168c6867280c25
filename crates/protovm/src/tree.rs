//! The state: a message that is decoded only as far as programs have entered it.

use ferretto_wire::Encoder;

use crate::abort::Reason;
use crate::account::{Account, ENTRY};
use crate::source::{Scalar, Source, fields};

/// A node of the state.
#[derive(Clone, Debug, Default)]
pub(crate) enum Node {
    /// A created but unset node, which is not encoded.
    #[default]
    Empty,
    Scalar(Scalar),
    /// A string, or a message that has not been entered yet.
    Bytes(Box<[u8]>),
    /// A message, by field number.
    Message(Map),
    /// The elements of a repeated field by index. Elements after a deleted one keep their index.
    Indexed(Map),
    /// The elements of a repeated field by the number in their key field.
    Keyed(Map),
}

/// Nodes sorted by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map(Vec<(u64, Node)>);

impl Map {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the position of a key, or the position where it can be inserted.
    pub(crate) fn find(&self, key: u64) -> Result<usize, usize> {
        match self.0.last() {
            // Most keys are appended in order.
            Some((last, _)) if *last < key => Err(self.0.len()),
            _ => self.0.binary_search_by_key(&key, |(key, _)| *key),
        }
    }

    pub(crate) fn at(&mut self, position: usize) -> &mut Node {
        &mut self.0[position].1
    }

    pub(crate) fn nodes_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.0.iter_mut().map(|(_, node)| node)
    }

    /// Inserts a new entry, at a position from [`find`](Self::find).
    pub(crate) fn insert(
        &mut self,
        position: usize,
        key: u64,
        node: Node,
        account: &mut Account,
    ) -> Result<(), Reason> {
        // Moving this many entries takes one step.
        account.step((self.0.len() - position) as u64 / 32)?;
        account.charge(ENTRY + node.cost())?;
        self.0.insert(position, (key, node));
        Ok(())
    }

    /// Appends a new entry.
    pub(crate) fn push(&mut self, node: Node, account: &mut Account) -> Result<(), Reason> {
        let key = self.0.len() as u64;
        match self.find(key) {
            Err(position) => self.insert(position, key, node, account),
            // The index after a deleted element can be in use. As in upstream, the new element
            // is then lost.
            Ok(_) => Ok(()),
        }
    }

    pub(crate) fn remove(&mut self, position: usize, account: &mut Account) {
        let (_, node) = self.0.remove(position);
        account.release(ENTRY + node.cost());
        // Memory that is no longer accounted must not be kept.
        if self.0.len() < self.0.capacity() / 4 {
            self.0.shrink_to(self.0.len() * 2);
        }
    }

    /// Returns the position of a key. Creates its node if necessary.
    pub(crate) fn find_or_insert(
        &mut self,
        key: u64,
        account: &mut Account,
    ) -> Result<usize, Reason> {
        match self.find(key) {
            Ok(position) => Ok(position),
            Err(position) => {
                self.insert(position, key, Node::Empty, account)?;
                Ok(position)
            }
        }
    }

    fn cost(&self) -> u64 {
        self.0.iter().map(|(_, node)| ENTRY + node.cost()).sum()
    }
}

impl Node {
    /// Returns the accounted bytes of the content.
    pub(crate) fn cost(&self) -> u64 {
        match self {
            Self::Empty | Self::Scalar(_) => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Message(map) | Self::Indexed(map) | Self::Keyed(map) => map.cost(),
        }
    }

    pub(crate) fn of(value: Source<'_>) -> Self {
        match value {
            Source::Scalar(scalar) => Self::Scalar(scalar),
            Source::Bytes(bytes) => Self::Bytes(bytes.into()),
        }
    }

    pub(crate) fn clear(&mut self, account: &mut Account) {
        account.release(std::mem::take(self).cost());
    }

    /// Replaces the node by a value of the patch.
    pub(crate) fn set(&mut self, value: Source<'_>, account: &mut Account) -> Result<(), Reason> {
        let fits = match value {
            Source::Scalar(_) => matches!(self, Self::Empty | Self::Scalar(_)),
            Source::Bytes(_) => matches!(self, Self::Empty | Self::Bytes(_) | Self::Message(_)),
        };
        if !fits {
            return Err(Reason::Incompatible);
        }
        if let Source::Bytes(bytes) = value {
            account.step(bytes.len() as u64 / 64)?;
            // Both values exist for a moment.
            account.charge(bytes.len() as u64)?;
        }
        account.release(self.cost());
        *self = Self::of(value);
        Ok(())
    }

    /// Decodes a message one level deep. A malformed field is dropped, with all following ones.
    pub(crate) fn message(&mut self, account: &mut Account) -> Result<&mut Map, Reason> {
        match self {
            Self::Empty => *self = Self::Message(Map::default()),
            Self::Bytes(bytes) => {
                let used = account.used();
                match decode_fields(bytes, account) {
                    Ok(map) => {
                        account.release(bytes.len() as u64);
                        *self = Self::Message(map);
                    }
                    Err(reason) => {
                        account.release(account.used().saturating_sub(used));
                        return Err(reason);
                    }
                }
            }
            _ => {}
        }
        match self {
            Self::Message(map) => Ok(map),
            Self::Scalar(_) => Err(Reason::NumberForMessage),
            _ => Err(Reason::Incompatible),
        }
    }

    /// Converts a repeated field to a list with indices. A single value becomes a list of one.
    pub(crate) fn indexed(&mut self, account: &mut Account) -> Result<&mut Map, Reason> {
        match self {
            Self::Keyed(_) => return Err(Reason::KeyedList),
            Self::Empty => *self = Self::Indexed(Map::default()),
            Self::Indexed(_) => {}
            Self::Scalar(_) | Self::Bytes(_) | Self::Message(_) => {
                account.charge(ENTRY)?;
                *self = Self::Indexed(Map(vec![(0, std::mem::take(self))]));
            }
        }
        match self {
            Self::Indexed(map) => Ok(map),
            _ => Err(Reason::Incompatible),
        }
    }

    /// Converts a repeated field to a list with keys, the numbers in the field `key` of the
    /// elements. Of elements with the same key the first stays.
    pub(crate) fn keyed(&mut self, key: u32, account: &mut Account) -> Result<&mut Map, Reason> {
        match self {
            Self::Keyed(_) => {}
            Self::Scalar(_) => return Err(Reason::Incompatible),
            Self::Empty => *self = Self::Keyed(Map::default()),
            Self::Bytes(_) | Self::Message(_) => {
                let number = self.number(key)?;
                account.charge(ENTRY)?;
                *self = Self::Keyed(Map(vec![(number, std::mem::take(self))]));
            }
            Self::Indexed(elements) => {
                // All or none.
                let numbers: Result<Vec<u64>, Reason> = elements
                    .0
                    .iter()
                    .map(|(_, node)| node.number(key))
                    .collect();
                let nodes = std::mem::take(&mut elements.0).into_iter();
                let mut keyed: Vec<_> = match numbers {
                    Ok(numbers) => numbers
                        .into_iter()
                        .zip(nodes.map(|(_, node)| node))
                        .collect(),
                    Err(reason) => {
                        elements.0 = nodes.collect();
                        return Err(reason);
                    }
                };
                // A stable sort keeps the order of equal keys.
                keyed.sort_by_key(|(number, _)| *number);
                keyed.dedup_by(|next, first| {
                    let again = next.0 == first.0;
                    if again {
                        account.release(ENTRY + next.1.cost());
                    }
                    again
                });
                *self = Self::Keyed(Map(keyed));
            }
        }
        match self {
            Self::Keyed(map) => Ok(map),
            _ => Err(Reason::Incompatible),
        }
    }

    /// Returns the number in a field of a message.
    fn number(&self, field: u32) -> Result<u64, Reason> {
        let found = match self {
            Self::Bytes(bytes) => fields(bytes)
                .find(|found| found.number == field)
                .and_then(|found| found.as_u64()),
            Self::Message(map) => match map.find(field.into()).map(|at| &map.0[at].1) {
                Ok(Self::Scalar(scalar)) => Some(scalar.value()),
                _ => None,
            },
            _ => None,
        };
        found.ok_or(Reason::NoKey(field))
    }

    /// Writes the fields of a message.
    pub(crate) fn encode(&self, out: &mut Encoder<'_, Vec<u8>>) {
        match self {
            Self::Bytes(bytes) => out.raw(bytes),
            Self::Message(map) => {
                for (field, node) in &map.0 {
                    // Keys of a message are field numbers.
                    node.encode_field(*field as u32, out);
                }
            }
            _ => {}
        }
    }

    fn encode_field(&self, field: u32, out: &mut Encoder<'_, Vec<u8>>) {
        match self {
            Self::Empty => {}
            Self::Scalar(Scalar::Varint(value)) => out.varint(field, *value),
            Self::Scalar(Scalar::Fixed64(value)) => out.fixed64(field, *value),
            Self::Scalar(Scalar::Fixed32(value)) => out.fixed32(field, *value),
            Self::Bytes(bytes) => out.bytes(field, bytes),
            Self::Message(_) => out.nested(field, |message| self.encode(message)),
            Self::Indexed(map) | Self::Keyed(map) => {
                for (_, node) in &map.0 {
                    node.encode_field(field, out);
                }
            }
        }
    }
}

/// Decodes the fields of a message. On failure, the cost is not refunded.
fn decode_fields(message: &[u8], account: &mut Account) -> Result<Map, Reason> {
    let mut map = Map::default();
    for field in fields(message) {
        account.allow_entry();
        let node = Node::of(field.value.into());
        match map.find(field.number.into()) {
            Err(position) => map.insert(position, field.number.into(), node, account)?,
            Ok(position) => map.at(position).indexed(account)?.push(node, account)?,
        }
    }
    Ok(map)
}
