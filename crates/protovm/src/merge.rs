//! Merging a message of the patch into one of the state.

use std::collections::BTreeSet;

use crate::abort::Reason;
use crate::account::Account;
use crate::program::Merge;
use crate::source::{Source, fields};
use crate::tree::Node;

impl Node {
    /// Merges a message into this one: its fields replace those of the same number, repeated fields
    /// as a whole; all others stay. One level deep.
    pub(crate) fn merge(
        &mut self,
        message: &[u8],
        how: Merge,
        account: &mut Account,
    ) -> Result<(), Reason> {
        if !matches!(self, Self::Empty | Self::Message(_) | Self::Bytes(_)) {
            return Err(Reason::Incompatible);
        }
        if message.is_empty() {
            return Ok(());
        }
        account.step(message.len() as u64 / 64)?;
        let map = self.message(account)?;
        // Fields that already have a value from this merge, to which further values are
        // appended.
        let mut begun = BTreeSet::new();
        for field in fields(message) {
            account.step(1)?;
            let position = match map.find(field.number.into()) {
                Ok(position) => position,
                Err(position) => {
                    let node = Self::of(field.value.into());
                    map.insert(position, field.number.into(), node, account)?;
                    begun.insert(field.number);
                    continue;
                }
            };
            if how.empty_deletes && field.as_bytes().is_some_and(<[u8]>::is_empty) {
                map.remove(position, account);
                continue;
            }
            let again = !begun.insert(field.number);
            match map.at(position) {
                Self::Message(_) if how.skip_messages => {
                    begun.remove(&field.number);
                }
                Self::Keyed(_) => return Err(Reason::KeyedList),
                list @ Self::Indexed(_) => {
                    if !again {
                        list.clear(account);
                    }
                    let node = Self::of(field.value.into());
                    list.indexed(account)?.push(node, account)?;
                }
                one if again => {
                    let node = Self::of(field.value.into());
                    one.indexed(account)?.push(node, account)?;
                }
                one => one.replace(field.value.into(), account)?,
            }
        }
        Ok(())
    }

    /// Replaces the current value.
    fn replace(&mut self, value: Source<'_>, account: &mut Account) -> Result<(), Reason> {
        let node = Self::of(value);
        // Both values exist for a moment.
        account.charge(node.cost())?;
        account.release(self.cost());
        *self = node;
        Ok(())
    }
}
