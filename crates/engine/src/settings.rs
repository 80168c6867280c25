//! What holds for the whole process, from its first set-up on.

use std::sync::OnceLock;

use ferretto_client::ExhaustedPolicy;

/// What the first set-up decides; later ones change nothing of it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the writers of track events do when memory is full.
    pub track_event_policy: ExhaustedPolicy,
    /// Whether configs may say otherwise.
    pub track_event_policy_by_config: bool,
    /// The number of the process's track, instead of one made from its number and start time.
    pub process_uuid: Option<u64>,
    /// Whether readers must keep the tracks of threads apart from those that the kernel's events make.
    pub separate_tracks: bool,
    /// At most one instance of every data source at a time.
    pub single_instances: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            track_event_policy: ExhaustedPolicy::Drop,
            track_event_policy_by_config: false,
            process_uuid: None,
            separate_tracks: false,
            single_instances: false,
        }
    }
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Decides, unless it has been decided. Returns whether it was not.
pub fn settle(settings: Settings) -> bool {
    SETTINGS.set(settings).is_ok()
}

/// What was decided, or what is usual.
pub fn settings() -> Settings {
    SETTINGS.get().cloned().unwrap_or_default()
}
