//! The data sources producers offer.

use std::collections::BTreeMap;

use ferretto_proto::{DataSourceDescriptor, Message};

use crate::limits::{MAX_DATA_SOURCES_PER_PRODUCER, MAX_DESCRIPTOR_BYTES, MAX_NAME, ProducerId};

/// Why a registration was ignored. Producers are not told: the reply is always a success.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ignored {
    EmptyName,
    IdInUse,
    /// One of the bounds that keep a producer from filling the memory.
    TooMuch,
    Unknown,
}

/// One offer of one producer.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) producer: ProducerId,
    pub(crate) descriptor: DataSourceDescriptor,
}

/// What one producer holds.
#[derive(Debug, Default)]
struct Own {
    /// Names and ids, in order of registration.
    offers: Vec<(Vec<u8>, u64)>,
    /// Size of the descriptors.
    bytes: usize,
}

/// All offers, by data source name. Equal names keep the order of registration.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    by_name: BTreeMap<Vec<u8>, Vec<Registration>>,
    by_producer: BTreeMap<ProducerId, Own>,
    count: usize,
}

impl Registry {
    /// Adds an offer.
    pub(crate) fn register(
        &mut self,
        producer: ProducerId,
        descriptor: DataSourceDescriptor,
    ) -> Result<(), Ignored> {
        let name = descriptor.name.clone().unwrap_or_default();
        let id = descriptor.id.unwrap_or(0);
        if name.is_empty() {
            return Err(Ignored::EmptyName);
        }
        let own = self.by_producer.entry(producer).or_default();
        if id != 0 && own.offers.iter().any(|(_, other)| *other == id) {
            return Err(Ignored::IdInUse);
        }
        let bytes = own.bytes + descriptor.encoded_len() as usize;
        if own.offers.len() >= MAX_DATA_SOURCES_PER_PRODUCER
            || name.len() > MAX_NAME
            || bytes > MAX_DESCRIPTOR_BYTES
        {
            return Err(Ignored::TooMuch);
        }
        own.bytes = bytes;
        own.offers.push((name.clone(), id));
        self.by_name.entry(name).or_default().push(Registration {
            producer,
            descriptor,
        });
        self.count += 1;
        Ok(())
    }

    /// Replaces the descriptor of the offer with the same name and (non-zero) id.
    pub(crate) fn update(
        &mut self,
        producer: ProducerId,
        descriptor: DataSourceDescriptor,
    ) -> Result<(), Ignored> {
        let id = descriptor.id.unwrap_or(0);
        let name = descriptor.name.as_deref().unwrap_or_default();
        let offers = self
            .by_name
            .get_mut(name)
            .map(Vec::as_mut_slice)
            .unwrap_or_default();
        let offer = offers
            .iter_mut()
            .find(|o| id != 0 && o.producer == producer && o.descriptor.id == Some(id))
            .ok_or(Ignored::Unknown)?;
        let own = self.by_producer.entry(producer).or_default();
        let bytes =
            own.bytes - offer.descriptor.encoded_len() as usize + descriptor.encoded_len() as usize;
        if bytes > MAX_DESCRIPTOR_BYTES {
            return Err(Ignored::TooMuch);
        }
        own.bytes = bytes;
        offer.descriptor = descriptor;
        Ok(())
    }

    /// Removes the producer's first offer of this name, if any.
    pub(crate) fn unregister(&mut self, producer: ProducerId, name: &[u8]) {
        let Some(offers) = self.by_name.get_mut(name) else {
            return;
        };
        let Some(position) = offers.iter().position(|o| o.producer == producer) else {
            return;
        };
        let removed = offers.remove(position).descriptor;
        if offers.is_empty() {
            self.by_name.remove(name);
        }
        self.count -= 1;
        let id = removed.id.unwrap_or(0);
        let Some(own) = self.by_producer.get_mut(&producer) else {
            return;
        };
        own.bytes -= removed.encoded_len() as usize;
        if let Some(position) = own.offers.iter().position(|(n, i)| n == name && *i == id) {
            own.offers.remove(position);
        }
        if own.offers.is_empty() {
            self.by_producer.remove(&producer);
        }
    }

    /// Names of what the producer offers, in order of registration.
    pub(crate) fn names_of(&self, producer: ProducerId) -> Vec<Vec<u8>> {
        let own = self.by_producer.get(&producer);
        let offers = own.map(|own| own.offers.as_slice()).unwrap_or_default();
        offers.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Offers of exactly this name, oldest first.
    pub(crate) fn offers(&self, name: &[u8]) -> &[Registration] {
        self.by_name
            .get(name)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// All offers, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Registration> {
        self.by_name.values().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            registry.register(1, descriptor("", 1)),
            Err(Ignored::EmptyName)
        );
        assert_eq!(registry.register(1, descriptor("a", 7)), Ok(()));
        assert_eq!(
            registry.register(1, descriptor("b", 7)),
            Err(Ignored::IdInUse)
        );
        assert_eq!(registry.register(2, descriptor("a", 7)), Ok(()));
        assert_eq!(registry.register(1, descriptor("a", 0)), Ok(()));
        assert_eq!(registry.register(1, descriptor("a", 0)), Ok(()));
        let producers: Vec<_> = registry.offers(b"a").iter().map(|o| o.producer).collect();
        assert_eq!(producers, [1, 2, 1, 1]);
        registry.unregister(1, b"a");
        let ids: Vec<_> = registry
            .offers(b"a")
            .iter()
            .map(|o| o.descriptor.id)
            .collect();
        assert_eq!(ids, [Some(7), Some(0), Some(0)]);
        registry.unregister(1, b"unknown");
        assert_eq!(registry.len(), 3);
        assert_eq!(registry.names_of(1).len(), 2);
    }

    #[test]
    fn service_007_update_rules() {
        let mut registry = Registry::default();
        registry.register(1, descriptor("a", 7)).unwrap();
        registry.register(1, descriptor("z", 0)).unwrap();
        let updated = |name, id| DataSourceDescriptor {
            no_flush: Some(true),
            ..descriptor(name, id)
        };
        assert_eq!(registry.update(1, updated("a", 0)), Err(Ignored::Unknown));
        assert_eq!(registry.update(1, updated("z", 0)), Err(Ignored::Unknown));
        assert_eq!(registry.update(1, updated("b", 7)), Err(Ignored::Unknown));
        assert_eq!(registry.update(2, updated("a", 7)), Err(Ignored::Unknown));
        assert_eq!(registry.offers(b"a")[0].descriptor.no_flush, None);
        assert_eq!(registry.update(1, updated("a", 7)), Ok(()));
        assert_eq!(registry.offers(b"a")[0].descriptor.no_flush, Some(true));
    }
}
