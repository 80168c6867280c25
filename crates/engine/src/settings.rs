//! Settings of the whole process, made by its first setup.

use std::sync::OnceLock;

use ferretto_client::ExhaustedPolicy;

/// The settings of the process, made by its first setup.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The policy of track events' writers when memory is full.
    pub track_event_policy: ExhaustedPolicy,
    /// Set if configs may choose another policy.
    pub track_event_policy_by_config: bool,
    /// The uuid of the process's track, instead of one computed from its pid and start time.
    pub process_uuid: Option<u64>,
    /// Set if readers must distinguish the tracks of threads from those of the kernel's events.
    pub separate_tracks: bool,
    /// Set if each data source has at most one instance at a time.
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

/// Makes the settings, unless they were made before. Returns true if this call made them.
pub fn decide_settings(settings: Settings) -> bool {
    SETTINGS.set(settings).is_ok()
}

/// Returns the settings, or the defaults before they are made.
pub fn settings() -> Settings {
    SETTINGS.get().cloned().unwrap_or_default()
}
