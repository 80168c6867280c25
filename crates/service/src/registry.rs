//! The data sources producers offer.

use std::collections::BTreeMap;

use ferretto_proto::DataSourceDescriptor;

use crate::limits::{MAX_DATA_SOURCES_PER_PRODUCER, ProducerId};

/// Why a registration was ignored. Producers are not told: the reply is always a success.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ignored {
    EmptyName,
    IdInUse,
    TooMany,
    Unknown,
}

/// One offer of one producer.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) producer: ProducerId,
    pub(crate) descriptor: DataSourceDescriptor,
}

/// All offers, by data source name. Equal names keep the order of registration.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    by_name: BTreeMap<Vec<u8>, Vec<Registration>>,
    /// Names and ids of each producer, in order of registration.
    by_producer: BTreeMap<ProducerId, Vec<(Vec<u8>, u64)>>,
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
        if id != 0 && own.iter().any(|(_, other)| *other == id) {
            return Err(Ignored::IdInUse);
        }
        if own.len() >= MAX_DATA_SOURCES_PER_PRODUCER {
            return Err(Ignored::TooMany);
        }
        own.push((name.clone(), id));
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
        let id = offers.remove(position).descriptor.id.unwrap_or(0);
        if offers.is_empty() {
            self.by_name.remove(name);
        }
        self.count -= 1;
        if let Some(own) = self.by_producer.get_mut(&producer) {
            if let Some(position) = own.iter().position(|(n, i)| n == name && *i == id) {
                own.remove(position);
            }
            if own.is_empty() {
                self.by_producer.remove(&producer);
            }
        }
    }

    /// Names of what the producer offers, in order of registration.
    pub(crate) fn names_of(&self, producer: ProducerId) -> Vec<Vec<u8>> {
        let own = self
            .by_producer
            .get(&producer)
            .map(Vec::as_slice)
            .unwrap_or_default();
        own.iter().map(|(name, _)| name.clone()).collect()
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
