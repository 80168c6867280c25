//! Descriptions of tracks that hold for all threads and can be changed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::{CounterTrack, Marker, StateTrack, Track, describe};
use crate::engine::lock;
use crate::track_event::identity::{Process, Thread};
use crate::track_event::thread;

static DESCRIPTIONS: Mutex<Option<HashMap<u64, Arc<[u8]>>>> = Mutex::new(None);

/// Whether there may be any.
static ARE_THERE: AtomicBool = AtomicBool::new(false);

/// The description registered for a track, an encoded TrackDescriptor, if there is one.
pub(in crate::track_event) fn description(uuid: u64) -> Option<Arc<[u8]>> {
    if !ARE_THERE.load(Ordering::Acquire) {
        return None;
    }
    lock(&DESCRIPTIONS).as_ref()?.get(&uuid).cloned()
}

fn register(track: &Track<'_>, marker: Marker<'_>) {
    let (process, thread) = (Process::current(), Thread::current());
    let description: Arc<[u8]> =
        ferretto_wire::encode(|out| describe(out, track, marker, process, &thread)).into();
    let uuid = track.uuid();
    lock(&DESCRIPTIONS)
        .get_or_insert_default()
        .insert(uuid, Arc::clone(&description));
    ARE_THERE.store(true, Ordering::Release);
    thread::describe_again(uuid, &description);
}

fn unregister(track: &Track<'_>) {
    if let Some(known) = lock(&DESCRIPTIONS).as_mut() {
        known.remove(&track.uuid());
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
