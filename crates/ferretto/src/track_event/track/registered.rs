//! Registered descriptions of tracks, which apply to all threads and can change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ferretto_engine::{current_process, current_thread, lock};
use ferretto_shm::fork::PerProcess;

use super::{Marker, Track, describe};

/// Descriptions by uuid. Those of a forked process's parent belong to other tracks.
static DESCRIPTIONS: PerProcess<Mutex<HashMap<u64, Arc<[u8]>>>> = PerProcess::new();

/// Returns the registered description of a track, an encoded TrackDescriptor, if there is one.
pub(in crate::track_event) fn description(uuid: u64) -> Option<Arc<[u8]>> {
    lock(DESCRIPTIONS.get()?).get(&uuid).cloned()
}

/// Registers the description of a track. Returns its uuid and the description.
pub(in crate::track_event) fn keep(track: &Track<'_>, marker: Marker<'_>) -> (u64, Arc<[u8]>) {
    let (process, thread) = (current_process(), current_thread());
    let description: Arc<[u8]> =
        ferretto_wire::encode(|out| describe(out, track, marker, process, &thread)).into();
    let uuid = track.uuid();
    let descriptions = DESCRIPTIONS.get_or_init(Mutex::default);
    lock(descriptions).insert(uuid, Arc::clone(&description));
    (uuid, description)
}

/// Removes the description of a track.
pub(in crate::track_event) fn forget(track: &Track<'_>) {
    if let Some(descriptions) = DESCRIPTIONS.get() {
        lock(descriptions).remove(&track.uuid());
    }
}
