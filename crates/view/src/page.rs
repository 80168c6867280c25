//! The page, which is built from `viewer/`.

/// The whole page, with script and style inside.
pub(crate) const PAGE: &str = include_str!("../page/index.html");
