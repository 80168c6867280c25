//! Settings of the whole process, decided by its first set-up.

use std::sync::OnceLock;

use ferretto_client::ExhaustedPolicy;

/// The settings of the process: the first set-up decides.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The policy of track events' writers when memory is full.
    pub track_event_policy: ExhaustedPolicy,
    /// Set if configs may choose another policy.
    pub track_event_policy_by_config: bool,
    /// The uuid of the process's track, instead of one made from its pid and start time.
    pub process_uuid: Option<u64>,
    /// Set if readers must keep the tracks of threads apart from those that the kernel's events
    /// make.
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

/// Decides the settings unless they are decided already. Returns true if it was this call that
/// decided.
pub fn decide_settings(settings: Settings) -> bool {
    SETTINGS.set(settings).is_ok()
}

/// Returns the settings that were decided, or the usual ones.
pub fn settings() -> Settings {
    SETTINGS.get().cloned().unwrap_or_default()
}
