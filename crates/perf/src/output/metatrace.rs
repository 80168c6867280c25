//! Recordings of what the profiler does itself.

use ferretto_client::{InstanceId, ProducerHandle};
use ferretto_metatrace::Collector;
use ferretto_shm::TraceWriter;

use crate::barrier::SourceKey;

/// Recordings of what the profiler does itself.
#[derive(Debug)]
pub(crate) struct Metatraces {
    collector: Collector<SourceKey>,
    /// Those that are to end once no data source is about to.
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

    /// Nothing if it is not one of these.
    pub(super) fn flush(&mut self, key: SourceKey) {
        self.collector.flush(&key);
    }

    /// Ends with the next write, see [`stop_ending`](Self::stop_ending).
    pub(super) fn end(&mut self, key: SourceKey, instance: InstanceId) {
        self.ending.push((key, instance));
    }

    /// Ends all at once.
    pub(super) fn finish(&mut self) {
        self.collector.finish();
    }

    /// Stops the data sources that are ending. They waited until no other is about to end, so as to
    /// tell of it.
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
