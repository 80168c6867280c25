//! Data sources of a session: which producers take part, and how far each has come.

use std::sync::Arc;

use ferretto_proto::get_async_command_response::{
    SetupDataSource, StartDataSource, StopDataSource,
};
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor, data_source_config};

use super::{Session, State};
use crate::limits::{BufferId, InstanceId, ProducerId, SessionId};
use crate::matching::Pattern;
use crate::producer::Producer;
use crate::quota::User;
use crate::registry::Ignored;
use crate::service::Service;

/// How far one data source instance has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstanceState {
    Configured,
    /// Told to start; the producer said it will confirm.
    Starting,
    Started,
    /// Told to stop; the producer said it will confirm.
    Stopping,
    Stopped,
}

/// A data source of one producer, taking part in one session. What the descriptor said when it was
/// set up stays in force.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) producer_name: Arc<[u8]>,
    pub(crate) state: InstanceState,
    /// As sent to the producer.
    pub(crate) config: Arc<DataSourceConfig>,
    notifies_start: bool,
    notifies_stop: bool,
    pub(crate) clears_state: bool,
    pub(crate) no_flush: bool,
}

impl Instance {
    pub(crate) fn name(&self) -> &[u8] {
        self.config.name.as_deref().unwrap_or_default()
    }
}

/// Names one instance.
pub(crate) type Key = (ProducerId, InstanceId);

impl Service {
    /// RegisterDataSource: running sessions that ask for it get it at once.
    pub(crate) fn register_data_source(
        &mut self,
        producer: ProducerId,
        descriptor: Option<DataSourceDescriptor>,
    ) -> Result<(), Ignored> {
        let descriptor = descriptor.unwrap_or_default();
        let name = descriptor.name.clone().unwrap_or_default();
        let peer = self.producers.get(&producer).map(|producer| &producer.peer);
        let user = User::of(peer.ok_or(Ignored::Unknown)?);
        self.registry.register(producer, user, descriptor.clone())?;
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in sessions {
            for source in self.sources_named(id, &name) {
                let key = self.set_up_instance(id, source, producer, &descriptor);
                let started = self
                    .sessions
                    .get(&id)
                    .is_some_and(|s| s.state == State::Started);
                if let Some(key) = key.filter(|_| started) {
                    self.start_instance(id, key);
                }
            }
        }
        Ok(())
    }

    /// UnregisterDataSource: its instances stop and go.
    pub(crate) fn unregister_data_source(&mut self, producer: ProducerId, name: &[u8]) {
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in sessions {
            self.remove_instances(id, producer, |instance| instance.name() == name);
        }
        self.registry.unregister(producer, name);
    }

    /// Everything the producer takes part in ends without it.
    pub(crate) fn remove_instances_of(&mut self, producer: ProducerId) {
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in sessions {
            self.remove_instances(id, producer, |_| true);
        }
    }

    fn remove_instances(
        &mut self,
        id: SessionId,
        producer: ProducerId,
        chosen: impl Fn(&Instance) -> bool,
    ) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let keys: Vec<Key> = session
            .instances
            .range((producer, 0)..=(producer, InstanceId::MAX))
            .filter(|(_, instance)| chosen(instance))
            .map(|(key, _)| *key)
            .collect();
        if keys.is_empty() {
            return;
        }
        for key in &keys {
            self.stop_instance(id, *key, true);
            if let Some(session) = self.sessions.get_mut(&id) {
                session.instances.remove(key);
            }
            self.notify_instance_gone(id, *key);
        }
        self.finish_if_all_stopped(id);
        self.check_all_started(id);
    }

    /// Sets up everything registered that a new session asks for.
    pub(crate) fn set_up_all_sources(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        for source in 0..session.config.data_sources.len() {
            self.set_up_source(id, source, |_, _| true);
        }
    }

    /// Sets one data source of the config up with each registered offer whose producer is `chosen`.
    pub(crate) fn set_up_source(
        &mut self,
        id: SessionId,
        source: usize,
        chosen: impl Fn(&Session, ProducerId) -> bool,
    ) -> Vec<Key> {
        let Some(session) = self.sessions.get(&id) else {
            return Vec::new();
        };
        let name = session.config.data_sources[source]
            .config
            .name
            .clone()
            .unwrap_or_default();
        let with_program = session.config.data_sources[source]
            .config
            .protovm_config
            .as_option()
            .is_some();
        let offers: Vec<(ProducerId, DataSourceDescriptor)> = self
            .registry
            .offers(&name)
            .filter(|offer| chosen(session, offer.producer))
            .map(|offer| (offer.producer, needed_of(&offer.descriptor, with_program)))
            .collect();
        offers
            .iter()
            .filter_map(|(producer, flags)| self.set_up_instance(id, source, *producer, flags))
            .collect()
    }

    /// Indices of the session's data sources of this name, if it still takes new ones.
    fn sources_named(&self, id: SessionId, name: &[u8]) -> Vec<usize> {
        let Some(session) = self.sessions.get(&id) else {
            return Vec::new();
        };
        if !matches!(session.state, State::Configured | State::Started) || session.is_retiring() {
            return Vec::new();
        }
        session.source_names.get(name).cloned().unwrap_or_default()
    }

    /// Makes an instance and tells the producer, unless the config does not mean this producer.
    fn set_up_instance(
        &mut self,
        id: SessionId,
        source: usize,
        producer_id: ProducerId,
        descriptor: &DataSourceDescriptor,
    ) -> Option<Key> {
        let producer = self.producers.get(&producer_id)?;
        let may_record = self.may_record(producer.peer.uid);
        let session = self.sessions.get_mut(&id)?;
        if !may_record
            || !session.wants_machine(source, producer, &self.options.machine_name)
            || !session.wants_producer(source, &producer.name)
        {
            return None;
        }
        let buffer = *session.buffers.get(session.sources.get(source)?.buffer)?;
        let instance = Instance {
            producer_name: Arc::clone(&producer.name),
            state: InstanceState::Configured,
            config: session.instance_config(source, id, buffer)?,
            notifies_start: descriptor.will_notify_on_start.unwrap_or(false),
            notifies_stop: descriptor.will_notify_on_stop.unwrap_or(false),
            clears_state: descriptor.handles_incremental_state_clear.unwrap_or(false),
            no_flush: descriptor.no_flush.unwrap_or(false),
        };
        let config_kb = session.memory_wanted_kb(&producer.name);
        let sender = producer.identity();
        self.last.instance += 1;
        let key = (producer_id, self.last.instance);
        let setup = SetupDataSource {
            new_instance_id: Some(key.1),
            config: (*instance.config).clone().into(),
            ..Default::default()
        };
        self.notify_instance(id, key, &instance);
        self.set_up_vm(&instance, buffer, producer_id, descriptor);
        let session = self.sessions.get_mut(&id)?;
        session.senders.insert(producer_id, sender);
        session.instances.insert(key, instance);
        self.provide_memory(producer_id, config_kb);
        self.producers.get_mut(&producer_id)?.allowed.insert(buffer);
        self.command_producer(producer_id, setup);
        Some(key)
    }

    pub(crate) fn start_instance(&mut self, id: SessionId, key: Key) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let Some(instance) = session.instances.get(&key) else {
            return;
        };
        let state = if instance.notifies_start {
            InstanceState::Starting
        } else {
            InstanceState::Started
        };
        let start = StartDataSource {
            new_instance_id: Some(key.1),
            config: (*instance.config).clone().into(),
            ..Default::default()
        };
        self.set_instance_state(id, key, state);
        self.command_producer(key.0, start);
    }

    /// Tells the producer to stop. `immediate`: its confirmation is not waited for.
    pub(crate) fn stop_instance(&mut self, id: SessionId, key: Key, immediate: bool) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let Some(instance) = session.instances.get(&key) else {
            return;
        };
        let told = matches!(
            instance.state,
            InstanceState::Stopping | InstanceState::Stopped
        );
        let state = match instance.state {
            InstanceState::Stopped => return,
            _ if immediate || !instance.notifies_stop => InstanceState::Stopped,
            _ => InstanceState::Stopping,
        };
        self.set_instance_state(id, key, state);
        if !told {
            let stop = StopDataSource {
                instance_id: Some(key.1),
                ..Default::default()
            };
            self.command_producer(key.0, stop);
        }
    }

    pub(crate) fn set_instance_state(&mut self, id: SessionId, key: Key, state: InstanceState) {
        // Out of the map meanwhile, so that the observer can be looked up.
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(mut instance) = session.instances.remove(&key) else {
            return;
        };
        if instance.state != state {
            instance.state = state;
            self.notify_instance(id, key, &instance);
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.instances.insert(key, instance);
        }
    }

    /// NotifyDataSourceStarted. Producers also send it without having promised to.
    pub(crate) fn start_acked(&mut self, producer: ProducerId, instance: InstanceId) {
        let key = (producer, instance);
        let Some(id) = self.session_of(key) else {
            return;
        };
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        if session.state == State::Started && session.is_in(key, InstanceState::Starting) {
            self.set_instance_state(id, key, InstanceState::Started);
            self.check_all_started(id);
        }
    }

    /// NotifyDataSourceStopped.
    pub(crate) fn stop_acked(&mut self, producer: ProducerId, instance: InstanceId) {
        let key = (producer, instance);
        let Some(id) = self.session_of(key) else {
            return;
        };
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        if session.is_in(key, InstanceState::Stopping) {
            self.set_instance_state(id, key, InstanceState::Stopped);
            self.finish_if_all_stopped(id);
        }
    }

    fn session_of(&self, key: Key) -> Option<SessionId> {
        let mut sessions = self.sessions.iter();
        sessions
            .find(|(_, session)| session.instances.contains_key(&key))
            .map(|(id, _)| *id)
    }
}

/// The part of a descriptor an instance depends on; the rest can be large. Without the program, only that there is one is
/// known.
fn needed_of(descriptor: &DataSourceDescriptor, with_program: bool) -> DataSourceDescriptor {
    let program = descriptor.protovm_program.as_ref();
    DataSourceDescriptor {
        protovm_program: program.map(|program| match with_program {
            true => program.clone(),
            false => Vec::new(),
        }),
        will_notify_on_start: descriptor.will_notify_on_start,
        will_notify_on_stop: descriptor.will_notify_on_stop,
        handles_incremental_state_clear: descriptor.handles_incremental_state_clear,
        no_flush: descriptor.no_flush,
        ..Default::default()
    }
}

impl Session {
    fn is_in(&self, key: Key, state: InstanceState) -> bool {
        self.instances
            .get(&key)
            .is_some_and(|instance| instance.state == state)
    }

    fn wants_machine(&self, source: usize, producer: &Producer, own_machine: &str) -> bool {
        let filter = &self.config.data_sources[source].machine_name_filter;
        if filter.is_empty() {
            return self.config.trace_all_machines.unwrap_or(false) || !producer.is_remote();
        }
        let told = producer.peer.machine_name.as_str();
        let name = if told.is_empty() && !producer.is_remote() {
            own_machine
        } else {
            told
        };
        let is_meant = |wanted: &Vec<u8>| {
            wanted == name.as_bytes() || (!producer.is_remote() && wanted == b"host")
        };
        filter.iter().any(is_meant)
    }

    pub(crate) fn wants_producer(&self, source: usize, name: &[u8]) -> bool {
        let exact = &self.config.data_sources[source].producer_name_filter;
        let patterns: &[Pattern] = &self.sources[source].patterns;
        if exact.is_empty() && patterns.is_empty() {
            return true;
        }
        exact.iter().any(|wanted| wanted == name) || patterns.iter().any(|p| p.matches(name))
    }

    /// Size and page size of shared memory this session wants the producer to have, 0 = any.
    fn memory_wanted_kb(&self, producer_name: &[u8]) -> (u32, u32) {
        let mut wanted = self.config.producers.iter();
        wanted
            .find(|wanted| wanted.producer_name.as_deref().unwrap_or_default() == producer_name)
            .map_or((0, 0), |wanted| {
                (
                    wanted.shm_size_kb.unwrap_or(0),
                    wanted.page_size_kb.unwrap_or(0),
                )
            })
    }

    /// The config as producers get it, made once and shared by all instances.
    fn instance_config(
        &mut self,
        source: usize,
        id: SessionId,
        buffer: BufferId,
    ) -> Option<Arc<DataSourceConfig>> {
        if let Some(made) = &self.sources.get(source)?.instance_config {
            return Some(Arc::clone(made));
        }
        let made = Arc::new(self.make_instance_config(source, id, buffer));
        self.sources.get_mut(source)?.instance_config = Some(Arc::clone(&made));
        Some(made)
    }

    /// Nothing may be added beyond these fields: SDKs compare the config with the one they began
    /// startup tracing with.
    fn make_instance_config(
        &self,
        source: usize,
        id: SessionId,
        buffer: BufferId,
    ) -> DataSourceConfig {
        let mut config = (*self.config.data_sources[source].config).clone();
        config.target_buffer = Some(buffer.into());
        config.trace_duration_ms = Some(self.config.duration_ms.unwrap_or(0));
        config.prefer_suspend_clock_for_duration = self
            .config
            .prefer_suspend_clock_for_duration
            .filter(|prefers| *prefers);
        config.stop_timeout_ms = Some(self.stop_timeout_ms());
        config.enable_extra_guardrails = Some(self.config.enable_extra_guardrails.unwrap_or(false));
        config.session_initiator =
            Some(data_source_config::SessionInitiator::SESSION_INITIATOR_UNSPECIFIED);
        config.tracing_session_id = Some(id.get());
        config
    }
}
