//! The data sources that producers have registered.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use ferretto_proto::{DataSourceDescriptor, Message};

use crate::ids::ProducerId;
use crate::limits::MAX_NAME;
use crate::quota::{Quotas, User};

/// The reason why a registration was ignored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ignored {
    /// As in upstream, the reply is a success for this reason and the next two.
    EmptyName,
    IdInUse,
    Unknown,
    Refused(Refused),
}

ferretto_wire::error_text! {
    Ignored {
        Self::EmptyName => "a data source needs a name",
        Self::IdInUse => "there is a data source with this id already",
        Self::Unknown => "there is no such data source",
        Self::Refused(error) => "{error}",
    }
    from { Refused(Refused) }
}

/// The error of a registration that exceeds a quota.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Name(usize),
    Producer(usize),
    User(usize),
    ProducerBytes(usize),
    UserBytes(usize),
}

ferretto_wire::error_text! {
    Refused {
        Self::Name(length) => "names of data sources may have {MAX_NAME} bytes, this one has {length}",
        Self::Producer(limit) => "one producer may offer {limit} data sources",
        Self::User(limit) => "all producers of one user may offer {limit} data sources",
        Self::ProducerBytes(limit) => "data source descriptors of one producer may have {limit} bytes",
        Self::UserBytes(limit) =>
            "data source descriptors of all producers of one user may have {limit} bytes",
    }
}

/// A data source that a producer registered.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) producer: ProducerId,
    pub(crate) descriptor: DataSourceDescriptor,
}

/// The id of a registration. Ids count up, which orders registrations of one name.
type OfferId = u64;

/// The position of a registration: by name, then in the order of registration.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfferPosition {
    name: Arc<[u8]>,
    /// The id, from 1.
    id: OfferId,
}

/// The registrations of one producer.
#[derive(Debug, Default)]
struct ProducerOffers {
    offers: BTreeSet<(Arc<[u8]>, OfferId)>,
    /// The registrations by the ids that the producer chose, if any.
    ids: BTreeMap<u64, OfferId>,
    held: Held,
    user: Option<User>,
}

/// A number of registrations, and their size.
#[derive(Debug, Default, Clone, Copy)]
struct Held {
    offers: usize,
    /// The size of the descriptors.
    bytes: usize,
}

impl Held {
    fn with(self, bytes: usize) -> Self {
        Self {
            offers: self.offers + 1,
            bytes: self.bytes + bytes,
        }
    }

    fn without(self, other: Self) -> Self {
        Self {
            offers: self.offers - other.offers,
            bytes: self.bytes - other.bytes,
        }
    }
}

/// All registrations, by data source name. Equal names keep the order of registration.
///
/// All operations take logarithmic time in the number of registrations.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    by_name: BTreeMap<Arc<[u8]>, BTreeMap<OfferId, Registration>>,
    by_producer: BTreeMap<ProducerId, ProducerOffers>,
    by_user: BTreeMap<User, Held>,
    quotas: Quotas,
    count: usize,
    last: OfferId,
}

impl Registry {
    pub(crate) fn new(quotas: Quotas) -> Self {
        Self {
            quotas,
            ..Self::default()
        }
    }

    /// Registers a data source of a producer of this user.
    pub(crate) fn register(
        &mut self,
        producer: ProducerId,
        user: User,
        descriptor: DataSourceDescriptor,
    ) -> Result<(), Ignored> {
        let name = descriptor.name.as_deref().unwrap_or_default();
        let id = descriptor.id.unwrap_or(0);
        if name.is_empty() {
            return Err(Ignored::EmptyName);
        }
        let own = self.by_producer.get(&producer);
        if own.is_some_and(|own| own.ids.contains_key(&id)) {
            return Err(Ignored::IdInUse);
        }
        if name.len() > MAX_NAME {
            return Err(Refused::Name(name.len()).into());
        }
        let bytes = descriptor.encoded_len() as usize;
        let of_producer = own.map(|own| own.held).unwrap_or_default().with(bytes);
        let of_user = self.by_user.get(&user).copied().unwrap_or_default();
        let of_user = of_user.with(bytes);
        self.quotas.check(of_producer, of_user)?;
        self.by_user.insert(user, of_user);
        let own = self.by_producer.entry(producer).or_default();
        own.held = of_producer;
        own.user = Some(user);
        let known = self.by_name.get_key_value(name);
        let name = known.map_or_else(|| Arc::from(name), |(name, _)| Arc::clone(name));
        self.last += 1;
        own.offers.insert((Arc::clone(&name), self.last));
        if id != 0 {
            own.ids.insert(id, self.last);
        }
        let offer = Registration {
            producer,
            descriptor,
        };
        self.by_name
            .entry(name)
            .or_default()
            .insert(self.last, offer);
        self.count += 1;
        Ok(())
    }

    /// Replaces the descriptor of the registration with the same name and (non-zero) id.
    pub(crate) fn update(
        &mut self,
        producer: ProducerId,
        descriptor: DataSourceDescriptor,
    ) -> Result<(), Ignored> {
        let id = descriptor.id.unwrap_or(0);
        let name = descriptor.name.as_deref().unwrap_or_default();
        let own = self.by_producer.get_mut(&producer);
        let own = own.ok_or(Ignored::Unknown)?;
        let id = own.ids.get(&id).ok_or(Ignored::Unknown)?;
        let offers = self.by_name.get_mut(name).ok_or(Ignored::Unknown)?;
        let offer = offers.get_mut(id).ok_or(Ignored::Unknown)?;
        let old = Held {
            offers: 1,
            bytes: offer.descriptor.encoded_len() as usize,
        };
        let bytes = descriptor.encoded_len() as usize;
        let of_producer = own.held.without(old).with(bytes);
        let of_user = own.user.and_then(|user| self.by_user.get_mut(&user));
        let of_user = of_user.ok_or(Ignored::Unknown)?;
        let wanted = of_user.without(old).with(bytes);
        self.quotas.check(of_producer, wanted)?;
        own.held = of_producer;
        *of_user = wanted;
        offer.descriptor = descriptor;
        Ok(())
    }

    /// Removes the producer's first registration of this name, if any.
    pub(crate) fn unregister(&mut self, producer: ProducerId, name: &[u8]) {
        let Some((name, _)) = self.by_name.get_key_value(name) else {
            return;
        };
        let name = Arc::clone(name);
        let Some(own) = self.by_producer.get_mut(&producer) else {
            return;
        };
        let mut from_name = own.offers.range((Arc::clone(&name), 0)..);
        let Some((_, id)) = from_name.next().filter(|(first, _)| *first == name) else {
            return;
        };
        let id = *id;
        own.offers.remove(&(Arc::clone(&name), id));
        if let Some(removed) = self.take(&name, id) {
            self.forget(producer, &removed);
        }
    }

    /// Returns true if the producer has registered data sources.
    pub(crate) fn has_offers_of(&self, producer: ProducerId) -> bool {
        let own = self.by_producer.get(&producer);
        own.is_some_and(|own| !own.offers.is_empty())
    }

    /// Removes all registrations of a producer.
    pub(crate) fn remove_producer(&mut self, producer: ProducerId) {
        let Some(own) = self.by_producer.remove(&producer) else {
            return;
        };
        for (name, id) in own.offers {
            self.take(&name, id);
        }
        self.give_back(own.user, own.held);
    }

    fn give_back(&mut self, user: Option<User>, given: Held) {
        let Some(user) = user else { return };
        let Some(held) = self.by_user.get_mut(&user) else {
            return;
        };
        *held = held.without(given);
        if held.offers == 0 {
            self.by_user.remove(&user);
        }
    }

    fn take(&mut self, name: &[u8], id: OfferId) -> Option<DataSourceDescriptor> {
        let offers = self.by_name.get_mut(name)?;
        let removed = offers.remove(&id)?;
        if offers.is_empty() {
            self.by_name.remove(name);
        }
        self.count -= 1;
        Some(removed.descriptor)
    }

    /// Removes a registration from the producer's counts and ids.
    fn forget(&mut self, producer: ProducerId, removed: &DataSourceDescriptor) {
        let Some(own) = self.by_producer.get_mut(&producer) else {
            return;
        };
        let given = Held {
            offers: 1,
            bytes: removed.encoded_len() as usize,
        };
        own.held = own.held.without(given);
        own.ids.remove(&removed.id.unwrap_or(0));
        let user = own.user;
        if own.offers.is_empty() {
            self.by_producer.remove(&producer);
        }
        self.give_back(user, given);
    }

    /// Returns the registrations of exactly this name, oldest first.
    pub(crate) fn offers(&self, name: &[u8]) -> impl Iterator<Item = &Registration> {
        self.by_name
            .get(name)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Returns all registrations after this position, or all, by name.
    pub(crate) fn after(
        &self,
        position: Option<OfferPosition>,
    ) -> impl Iterator<Item = (OfferPosition, &Registration)> {
        let OfferPosition { name, id } = position.unwrap_or_default();
        let names = self.by_name.range(Arc::clone(&name)..);
        names.flat_map(move |(other, offers)| {
            let known = if *other == name { id } else { 0 };
            let new = offers.range((Excluded(known), Unbounded));
            new.map(|(id, offer)| {
                let position = OfferPosition {
                    name: Arc::clone(other),
                    id: *id,
                };
                (position, offer)
            })
        })
    }

    /// Returns the size of all descriptors.
    pub(crate) fn bytes(&self) -> u64 {
        self.by_user.values().map(|held| held.bytes as u64).sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

impl Quotas {
    fn check(&self, of_producer: Held, of_user: Held) -> Result<(), Refused> {
        if of_producer.offers > self.data_sources_per_producer {
            Err(Refused::Producer(self.data_sources_per_producer))
        } else if of_user.offers > self.data_sources_per_user {
            Err(Refused::User(self.data_sources_per_user))
        } else if of_producer.bytes > self.descriptor_bytes_per_producer {
            Err(Refused::ProducerBytes(self.descriptor_bytes_per_producer))
        } else if of_user.bytes > self.descriptor_bytes_per_user {
            Err(Refused::UserBytes(self.descriptor_bytes_per_user))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Peer;

    fn user() -> User {
        User::of(&Peer::default())
    }

    fn descriptor(name: &str, id: u64) -> DataSourceDescriptor {
        DataSourceDescriptor {
            name: Some(name.into()),
            id: Some(id),
            ..DataSourceDescriptor::default()
        }
    }

    #[test]
    fn service_006_registration_rules() {
        let mut registry = Registry::default();
        assert_eq!(
            registry.register(1, user(), descriptor("", 1)),
            Err(Ignored::EmptyName)
        );
        assert_eq!(registry.register(1, user(), descriptor("a", 7)), Ok(()));
        assert_eq!(
            registry.register(1, user(), descriptor("b", 7)),
            Err(Ignored::IdInUse)
        );
        assert_eq!(registry.register(2, user(), descriptor("a", 7)), Ok(()));
        assert_eq!(registry.register(1, user(), descriptor("a", 0)), Ok(()));
        assert_eq!(registry.register(1, user(), descriptor("a", 0)), Ok(()));
        let producers: Vec<_> = registry.offers(b"a").map(|o| o.producer).collect();
        assert_eq!(producers, [1, 2, 1, 1]);
        registry.unregister(1, b"a");
        let ids: Vec<_> = registry.offers(b"a").map(|o| o.descriptor.id).collect();
        assert_eq!(ids, [Some(7), Some(0), Some(0)]);
        registry.unregister(1, b"unknown");
        assert_eq!(registry.len(), 3);
        registry.remove_producer(1);
        let left = registry.after(None).map(|(_, offer)| offer.producer);
        assert_eq!(left.collect::<Vec<_>>(), [2]);
        registry.remove_producer(2);
        assert_eq!(registry.len(), 0);
    }

    #[test]
    fn service_007_update_rules() {
        let mut registry = Registry::default();
        registry.register(1, user(), descriptor("a", 7)).unwrap();
        registry.register(1, user(), descriptor("z", 0)).unwrap();
        let updated = |name, id| DataSourceDescriptor {
            no_flush: Some(true),
            ..descriptor(name, id)
        };
        assert_eq!(registry.update(1, updated("a", 0)), Err(Ignored::Unknown));
        assert_eq!(registry.update(1, updated("z", 0)), Err(Ignored::Unknown));
        assert_eq!(registry.update(1, updated("b", 7)), Err(Ignored::Unknown));
        assert_eq!(registry.update(2, updated("a", 7)), Err(Ignored::Unknown));
        assert_eq!(
            registry.offers(b"a").next().unwrap().descriptor.no_flush,
            None
        );
        assert_eq!(registry.update(1, updated("a", 7)), Ok(()));
        assert_eq!(
            registry.offers(b"a").next().unwrap().descriptor.no_flush,
            Some(true)
        );
    }
}
