//! Registration of tracks. A registered description overrides the values given with events.

use super::thread;
use super::track::{CounterTrack, Marker, StateTrack, Track, registered};

fn register(track: &Track<'_>, marker: Marker<'_>) {
    let (uuid, description) = registered::keep(track, marker);
    thread::describe_again(uuid, &description);
}

impl Track<'_> {
    /// Registers this description of the track. All recordings use it, even if events carry other
    /// values, and even if the track is only the parent of other tracks.
    ///
    /// A track can be registered again with another description. Recordings in which this thread
    /// has described the track get the new description at once; other threads write it when their
    /// incremental state is next cleared.
    pub fn register(&self) {
        register(self, Marker::Slices);
    }

    /// Undoes [`Track::register`]. Recordings keep the descriptions that they already have.
    pub fn unregister(&self) {
        registered::forget(self);
    }
}

impl CounterTrack<'_> {
    /// Like [`Track::register`].
    pub fn register(&self) {
        register(&self.track, Marker::Counter(self));
    }

    /// Like [`Track::unregister`].
    pub fn unregister(&self) {
        registered::forget(&self.track);
    }
}

impl StateTrack<'_> {
    /// Like [`Track::register`].
    pub fn register(&self) {
        register(&self.track, Marker::State);
    }

    /// Like [`Track::unregister`].
    pub fn unregister(&self) {
        registered::forget(&self.track);
    }
}
