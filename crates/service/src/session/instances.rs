//! The data source instances of a session: their setup, start and stop.

use std::sync::Arc;

use ferretto_proto::get_async_command_response::{
    SetupDataSource, StartDataSource, StopDataSource,
};
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor, data_source_config};

use super::config::stop_timeout_ms;
use super::instance::{Instance, InstanceState};
use super::{Session, SessionState};
use crate::context::Context;
use crate::ids::{BufferId, InstanceKey, ProducerId};
use crate::matching::Pattern;
use crate::producer::Producer;

impl Session {
    /// Sets up a newly registered data source, if the config asks for it.
    pub(crate) fn offer(
        &mut self,
        cx: &mut Context,
        producer: ProducerId,
        descriptor: &DataSourceDescriptor,
    ) {
        if !matches!(self.state, SessionState::Configured | SessionState::Started)
            || self.is_retiring()
        {
            return;
        }
        let name = descriptor.name.as_deref().unwrap_or_default();
        for source in self.source_names.get(name).cloned().unwrap_or_default() {
            let key = self.set_up_instance(cx, source, producer, descriptor);
            if let Some(key) = key.filter(|_| self.state == SessionState::Started) {
                self.start_instance(cx, key);
            }
        }
    }

    /// Ends a producer's instances of data sources with this name.
    pub(crate) fn withdraw(&mut self, cx: &mut Context, producer: ProducerId, name: &[u8]) {
        self.remove_instances(cx, producer, |instance| instance.name() == name);
    }

    /// Ends all instances of a producer.
    pub(crate) fn remove_producer(&mut self, cx: &mut Context, producer: ProducerId) {
        self.remove_instances(cx, producer, |_| true);
    }

    fn remove_instances(
        &mut self,
        cx: &mut Context,
        producer: ProducerId,
        chosen: impl Fn(&Instance) -> bool,
    ) {
        let of_producer = self.instances.of_producer(producer);
        let chosen = of_producer.filter(|(_, instance)| chosen(instance));
        let keys: Vec<InstanceKey> = chosen.map(|(key, _)| *key).collect();
        if keys.is_empty() {
            return;
        }
        for key in keys {
            self.stop_instance(cx, key, true);
            self.instances.remove(&key);
            if let Some(consumer) = cx.consumers.observer(self.owner.client) {
                consumer.note_instance_gone(key);
            }
        }
        self.finish_if_all_stopped(cx);
        self.check_all_started(cx);
    }

    /// Sets up every registered data source that the config asks for.
    pub(crate) fn set_up_all_sources(&mut self, cx: &mut Context) {
        for source in 0..self.config.data_sources.len() {
            self.set_up_source(cx, source, false);
        }
    }

    /// Sets up one data source of the config with each matching registration; with `only_new`, only
    /// with producers that take no part yet.
    pub(super) fn set_up_source(
        &mut self,
        cx: &mut Context,
        source: usize,
        only_new: bool,
    ) -> Vec<InstanceKey> {
        let takes_part = |producer| self.instances.of_producer(producer).next().is_some();
        let config = &self.config.data_sources[source].config;
        let with_program = config.protovm_config.as_option().is_some();
        let offers = cx
            .registry
            .offers(config.name.as_deref().unwrap_or_default());
        let offers: Vec<(ProducerId, DataSourceDescriptor)> = offers
            .filter(|offer| !only_new || !takes_part(offer.producer))
            .map(|offer| (offer.producer, needed_of(&offer.descriptor, with_program)))
            .collect();
        offers
            .iter()
            .filter_map(|(producer, flags)| self.set_up_instance(cx, source, *producer, flags))
            .collect()
    }

    /// Creates an instance and sets it up in the producer, unless the config excludes this
    /// producer.
    fn set_up_instance(
        &mut self,
        cx: &mut Context,
        source: usize,
        producer_id: ProducerId,
        descriptor: &DataSourceDescriptor,
    ) -> Option<InstanceKey> {
        let producer = cx.producers.get(producer_id)?;
        if !cx.producers.may_record(producer.peer().uid)
            || !self.wants_machine(source, producer, &cx.options.machine_name)
            || !self.wants_producer(source, producer.name())
        {
            return None;
        }
        let buffer = *self.buffers.get(self.sources.get(source)?.buffer)?;
        let config = self.instance_config(source, buffer)?;
        let setup = SetupDataSource {
            config: (*config).clone().into(),
            ..Default::default()
        };
        let instance = Instance::new(producer.name(), config, descriptor);
        let config_kb = self.memory_wanted_kb(producer.name());
        self.senders.insert(producer_id, producer.identity());
        let key = (producer_id, cx.ids.next_instance());
        self.instances.insert(key, instance);
        self.notify_observer(cx, key);
        self.set_up_vm(cx, key, buffer, descriptor);
        cx.producers
            .provide_memory(&mut cx.commands, producer_id, config_kb);
        cx.producers.allow(producer_id, buffer);
        let new_instance_id = Some(key.1);
        cx.command_producer(
            producer_id,
            SetupDataSource {
                new_instance_id,
                ..setup
            },
        );
        Some(key)
    }

    pub(super) fn start_instance(&mut self, cx: &mut Context, key: InstanceKey) {
        let Some(instance) = self.instances.get(&key) else {
            return;
        };
        let start = StartDataSource {
            new_instance_id: Some(key.1),
            config: instance.config().clone().into(),
            ..Default::default()
        };
        let state = instance.state_on_start();
        self.instances.note_start(key, cx.now.boottime);
        self.set_instance_state(cx, key, state);
        cx.command_producer(key.0, start);
    }

    /// Tells the producer to stop. With `immediate`, its confirmation is not awaited.
    pub(super) fn stop_instance(&mut self, cx: &mut Context, key: InstanceKey, immediate: bool) {
        let Some(instance) = self.instances.get(&key) else {
            return;
        };
        let before = instance.state();
        if before == InstanceState::Stopped {
            return;
        }
        self.set_instance_state(cx, key, instance.state_on_stop(immediate));
        if before != InstanceState::Stopping {
            let stop = StopDataSource {
                instance_id: Some(key.1),
                ..Default::default()
            };
            cx.command_producer(key.0, stop);
        }
    }

    pub(super) fn set_instance_state(
        &mut self,
        cx: &mut Context,
        key: InstanceKey,
        state: InstanceState,
    ) {
        if self.instances.set_state(key, state).is_some() {
            self.notify_observer(cx, key);
        }
    }

    /// Notifies the session's observer of an instance's new state.
    fn notify_observer(&self, cx: &mut Context, key: InstanceKey) {
        let instance = self.instances.get(&key);
        let consumer = cx.consumers.observer(self.owner.client);
        if let (Some(consumer), Some(instance)) = (consumer, instance)
            && let Some(change) = instance.observed(key)
        {
            consumer.note_instance(change, false);
        }
    }

    /// Notifies a new observer of the state of each instance, and of the start of all if that has
    /// already happened.
    pub(crate) fn report_current_state(&mut self, cx: &mut Context) {
        self.check_all_started(cx);
        let Some(consumer) = cx.consumers.observer(self.owner.client) else {
            return;
        };
        for (key, instance) in self.instances.iter() {
            if let Some(change) = instance.observed(*key) {
                consumer.note_instance(change, true);
            }
        }
        if self.all_started {
            consumer.note_all_started();
        }
    }

    /// Handles NotifyDataSourceStarted, which producers also send without having promised to.
    pub(crate) fn start_acked(&mut self, cx: &mut Context, key: InstanceKey) {
        if self.state == SessionState::Started && self.is_in(key, InstanceState::Starting) {
            self.set_instance_state(cx, key, InstanceState::Started);
            self.check_all_started(cx);
        }
    }

    /// Handles NotifyDataSourceStopped.
    pub(crate) fn stop_acked(&mut self, cx: &mut Context, key: InstanceKey) {
        if self.is_in(key, InstanceState::Stopping) {
            if let Some(acks) = cx.producers.acks(key.0) {
                acks.stopped();
            }
            self.set_instance_state(cx, key, InstanceState::Stopped);
            self.finish_if_all_stopped(cx);
        }
    }

    fn is_in(&self, key: InstanceKey, state: InstanceState) -> bool {
        self.instances
            .get(&key)
            .is_some_and(|instance| instance.state() == state)
    }

    fn wants_machine(&self, source: usize, producer: &Producer, own_machine: &str) -> bool {
        let filter = &self.config.data_sources[source].machine_name_filter;
        if filter.is_empty() {
            return self.config.trace_all_machines.unwrap_or(false) || !producer.is_remote();
        }
        let announced = producer.peer().machine_name.as_str();
        let name = if announced.is_empty() && !producer.is_remote() {
            own_machine
        } else {
            announced
        };
        let is_meant = |wanted: &Vec<u8>| {
            wanted == name.as_bytes() || (!producer.is_remote() && wanted == b"host")
        };
        filter.iter().any(is_meant)
    }

    fn wants_producer(&self, source: usize, name: &[u8]) -> bool {
        let exact = &self.config.data_sources[source].producer_name_filter;
        let patterns: &[Pattern] = &self.sources[source].patterns;
        if exact.is_empty() && patterns.is_empty() {
            return true;
        }
        exact.iter().any(|wanted| wanted == name) || patterns.iter().any(|p| p.matches(name))
    }

    /// Returns the size and page size of the shared memory that this session requests for the
    /// producer; 0 = any.
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

    /// Returns the config for producers, which is made once and shared by all instances.
    fn instance_config(
        &mut self,
        source: usize,
        buffer: BufferId,
    ) -> Option<Arc<DataSourceConfig>> {
        if let Some(made) = &self.sources.get(source)?.instance_config {
            return Some(Arc::clone(made));
        }
        let made = Arc::new(self.make_instance_config(source, buffer));
        self.sources.get_mut(source)?.instance_config = Some(Arc::clone(&made));
        Some(made)
    }

    /// Builds the config for producers. It must have no other fields: SDKs compare it with the
    /// config of their startup tracing.
    fn make_instance_config(&self, source: usize, buffer: BufferId) -> DataSourceConfig {
        let mut config = (*self.config.data_sources[source].config).clone();
        config.target_buffer = Some(buffer.into());
        config.trace_duration_ms = Some(self.config.duration_ms.unwrap_or(0));
        config.prefer_suspend_clock_for_duration = self
            .config
            .prefer_suspend_clock_for_duration
            .filter(|prefers| *prefers);
        config.stop_timeout_ms = Some(stop_timeout_ms(&self.config));
        config.enable_extra_guardrails = Some(self.config.enable_extra_guardrails.unwrap_or(false));
        config.session_initiator =
            Some(data_source_config::SessionInitiator::SESSION_INITIATOR_UNSPECIFIED);
        config.tracing_session_id = Some(self.id.get());
        config
    }
}

/// Returns the part of a descriptor that an instance needs, since the rest can be large. Without
/// `with_program`, the program is replaced by an empty one.
fn needed_of(descriptor: &DataSourceDescriptor, with_program: bool) -> DataSourceDescriptor {
    let program = descriptor.protovm_program.as_ref();
    DataSourceDescriptor {
        protovm_program: program.map(|program| {
            if with_program {
                program.clone()
            } else {
                Vec::new()
            }
        }),
        will_notify_on_start: descriptor.will_notify_on_start,
        will_notify_on_stop: descriptor.will_notify_on_stop,
        handles_incremental_state_clear: descriptor.handles_incremental_state_clear,
        no_flush: descriptor.no_flush,
        ..Default::default()
    }
}
