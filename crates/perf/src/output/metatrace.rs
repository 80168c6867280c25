//! Metatraces: recordings of the profiler itself.

use ferretto_client::{InstanceId, ProducerHandle};
use ferretto_metatrace::Collector;
use ferretto_shm::TraceWriter;

use crate::barrier::SourceKey;

/// The instances that record the profiler itself.
#[derive(Debug)]
pub(crate) struct Metatraces {
    collector: Collector<SourceKey>,
    /// The instances that end once no other data source is ending.
    ending: Vec<(SourceKey, InstanceId)>,
}

impl Metatraces {
    pub(crate) fn new(collector: Collector<SourceKey>) -> Self {
        Self {
            collector,
            ending: Vec::new(),
        }
    }

    pub(super) fn start(&mut self, key: SourceKey, writer: TraceWriter) {
        self.collector.start(key, writer);
    }

    pub(super) fn collect(&mut self) {
        self.collector.collect();
    }

    /// Flushes an instance. Does nothing for other instances.
    pub(super) fn flush(&mut self, key: SourceKey) {
        self.collector.flush(&key);
    }

    /// Marks an instance to end with the next write, see [`stop_ending`](Self::stop_ending).
    pub(super) fn end(&mut self, key: SourceKey, instance: InstanceId) {
        self.ending.push((key, instance));
    }

    /// Ends all instances.
    pub(super) fn finish(&mut self) {
        self.collector.finish();
    }

    /// Stops the ending instances. They have waited for other ending data sources, in order to
    /// record these.
    pub(super) fn stop_ending(&mut self, handle: &ProducerHandle) {
        for (key, instance) in self.ending.drain(..) {
            self.collector.stop(&key);
            handle.notify_stopped(instance);
        }
    }

    pub(super) fn recorder(&self) -> &ferretto_metatrace::Recorder {
        self.collector.recorder()
    }
}
