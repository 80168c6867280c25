//! Ferretto against the official SDK, in every position.
