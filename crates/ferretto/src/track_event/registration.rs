//! Registering tracks: descriptions that take precedence over the values given with events.

use super::thread;
use super::track::{CounterTrack, Marker, StateTrack, Track, registered};

fn register(track: &Track<'_>, marker: Marker<'_>) {
    let (uuid, description) = registered::keep(track, marker);
    thread::describe_again(uuid, &description);
}

impl Track<'_> {
    /// Has every recording describe the track as this value does, even if events are given other
    /// values, and even if it is used only as the parent of others.
    ///
    /// It can be called again with another description. Recordings that this thread has told of the
    /// track are told anew at once; other threads' events bring the new description once their
    /// recording starts anew.
    pub fn register(&self) {
        register(self, Marker::Slices);
    }

    /// Undoes [`Track::register`]. Descriptions that recordings already have stay.
    pub fn unregister(&self) {
        registered::forget(self);
    }
}

impl CounterTrack<'_> {
    /// As [`Track::register`].
    pub fn register(&self) {
        register(&self.track, Marker::Counter(self));
    }

    /// As [`Track::unregister`].
    pub fn unregister(&self) {
        registered::forget(&self.track);
    }
}

impl StateTrack<'_> {
    /// As [`Track::register`].
    pub fn register(&self) {
        register(&self.track, Marker::State);
    }

    /// As [`Track::unregister`].
    pub fn unregister(&self) {
        registered::forget(&self.track);
    }
}
