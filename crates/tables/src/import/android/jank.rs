//! The reasons why a frame of Android was late or not shown.

/// A frame with no such reason.
pub(super) const NONE: u32 = 1;
const SF_SCHEDULING: u32 = 2;
const PREDICTION_ERROR: u32 = 4;
const DISPLAY_HAL: u32 = 8;
const SF_CPU_DEADLINE_MISSED: u32 = 16;
const SF_GPU_DEADLINE_MISSED: u32 = 32;
const APP_DEADLINE_MISSED: u32 = 64;
const BUFFER_STUFFING: u32 = 128;
const UNKNOWN: u32 = 256;
const SF_STUFFING: u32 = 512;
const DROPPED: u32 = 1024;
const NON_ANIMATING: u32 = 2048;
const APP_RESYNCED_JITTER: u32 = 4096;
const DISPLAY_NOT_ON: u32 = 8192;
const DISPLAY_MODE_CHANGE: u32 = 16384;
const DISPLAY_POWER_MODE_CHANGE: u32 = 32768;

/// The reasons with their names, in the order in which they are named.
const NAMES: [(u32, &str); 15] = [
    (SF_SCHEDULING, "SurfaceFlinger Scheduling"),
    (PREDICTION_ERROR, "Prediction Error"),
    (DISPLAY_HAL, "Display HAL"),
    (SF_CPU_DEADLINE_MISSED, "SurfaceFlinger CPU Deadline Missed"),
    (SF_GPU_DEADLINE_MISSED, "SurfaceFlinger GPU Deadline Missed"),
    (APP_DEADLINE_MISSED, "App Deadline Missed"),
    (APP_RESYNCED_JITTER, "App Resynced Jitter"),
    (BUFFER_STUFFING, "Buffer Stuffing"),
    (UNKNOWN, "Unknown Jank"),
    (SF_STUFFING, "SurfaceFlinger Stuffing"),
    (DROPPED, "Dropped Frame"),
    (NON_ANIMATING, "Non Animating"),
    (DISPLAY_NOT_ON, "Display not ON"),
    (DISPLAY_MODE_CHANGE, "ModeChange in progress"),
    (DISPLAY_POWER_MODE_CHANGE, "PowerModeChange in progress"),
];

/// The reasons in SurfaceFlinger.
const OF_DISPLAY: u32 = SF_SCHEDULING
    | PREDICTION_ERROR
    | DISPLAY_HAL
    | SF_CPU_DEADLINE_MISSED
    | SF_GPU_DEADLINE_MISSED;
/// The reasons in the application.
const OF_SURFACE: u32 = APP_DEADLINE_MISSED | APP_RESYNCED_JITTER | UNKNOWN;

/// The kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    /// Of SurfaceFlinger.
    Display,
    /// Of an application.
    Surface,
}

/// Returns the names of a set of reasons.
pub(super) fn types(set: u32) -> String {
    match set {
        0 => "Unspecified".to_owned(),
        NONE => "None".to_owned(),
        set => {
            let of_set = NAMES.iter().filter(|(bit, _)| set & bit != 0);
            let names: Vec<&str> = of_set.map(|(_, name)| *name).collect();
            names.join(", ")
        }
    }
}

/// Returns whose fault a set of reasons is.
pub(super) fn tag(layer: Layer, set: u32, is_dropped: bool) -> &'static str {
    let is_of = |reasons: u32| set & reasons != 0;
    match (layer, set) {
        (_, 0) => "Unspecified",
        (_, NON_ANIMATING | DISPLAY_NOT_ON) if layer == Layer::Display || !is_dropped => {
            "Non-perceivable Jank"
        }
        (Layer::Display, _) if is_of(OF_DISPLAY) => "Self Jank",
        (Layer::Surface, _) if is_of(OF_SURFACE) => "Self Jank",
        (Layer::Surface, _) if is_of(OF_DISPLAY) => "Other Jank",
        (Layer::Surface, BUFFER_STUFFING) => "Buffer Stuffing",
        (_, SF_STUFFING) => "SurfaceFlinger Stuffing",
        (Layer::Display, DROPPED) => "Dropped Frame",
        (Layer::Surface, _) if is_dropped => "Dropped Frame",
        (_, DISPLAY_POWER_MODE_CHANGE) => "Non-perceivable Jank",
        _ => "No Jank",
    }
}
