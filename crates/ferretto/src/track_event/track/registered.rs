//! Descriptions of tracks that hold for all threads and can be changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ferretto_engine::lock;
use ferretto_engine::{Process, Thread};
use ferretto_shm::fork::PerProcess;

use super::{CounterTrack, Marker, StateTrack, Track, describe};
use crate::track_event::thread;

/// By number. Those of the parent of a forked process belong to other tracks.
static DESCRIPTIONS: PerProcess<Mutex<HashMap<u64, Arc<[u8]>>>> = PerProcess::new();

/// The description registered for a track, an encoded TrackDescriptor, if there is one.
pub(in crate::track_event) fn description(uuid: u64) -> Option<Arc<[u8]>> {
    lock(DESCRIPTIONS.get()?).get(&uuid).cloned()
}

fn register(track: &Track<'_>, marker: Marker<'_>) {
    let (process, thread) = (Process::current(), Thread::current());
    let description: Arc<[u8]> =
        ferretto_wire::encode(|out| describe(out, track, marker, process, &thread)).into();
    let uuid = track.uuid();
    let descriptions = DESCRIPTIONS.get_or_init(Mutex::default);
    lock(descriptions).insert(uuid, Arc::clone(&description));
    thread::describe_again(uuid, &description);
}

fn unregister(track: &Track<'_>) {
    if let Some(descriptions) = DESCRIPTIONS.get() {
        lock(descriptions).remove(&track.uuid());
    }
}

impl Track<'_> {
    /// Has every recording describe the track as this value does, whatever values events are given; also when it is
    /// used only as the parent of others.
    ///
    /// It can be called again with another description. Recordings that this thread has told of the track are told
    /// anew at once; other threads' events bring the new description once their recording starts anew.
    pub fn register(&self) {
        register(self, Marker::Slices);
    }

    /// Takes [`Track::register`] back. What recordings were told stays.
    pub fn unregister(&self) {
        unregister(self);
    }
}

impl CounterTrack<'_> {
    /// As [`Track::register`].
    pub fn register(&self) {
        register(&self.track, Marker::Counter(self));
    }

    /// As [`Track::unregister`].
    pub fn unregister(&self) {
        unregister(&self.track);
    }
}

impl StateTrack<'_> {
    /// As [`Track::register`].
    pub fn register(&self) {
        register(&self.track, Marker::State);
    }

    /// As [`Track::unregister`].
    pub fn unregister(&self) {
        unregister(&self.track);
    }
}
