//! The page, which is built from `viewer/`.

use std::io::{self, Write};

use crate::base64::Base64;

/// The page, including script and style.
pub(crate) const PAGE: &str = include_str!("../page/index.html");

/// The line of the page that is replaced by frames.
const MARKER: &str = "<!-- ferretto:data -->";
const CLOSE: &str = "</script>\n";

/// The class of the embedded frames in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A compressed part of an export.
    Frame,
    /// An uncompressed part of the first picture.
    First,
}

impl Class {
    fn open(self, name: &str) -> String {
        let class = match self {
            Self::Frame => "ferretto-frame",
            Self::First => "ferretto-first",
        };
        format!("<script type=\"text/plain\" class=\"{class}\" data-kind=\"{name}\">")
    }
}

/// Returns the size of a page with these frames.
pub(crate) fn size<B: AsRef<[u8]>>(class: Class, frames: &[(&str, B)]) -> usize {
    let frames = frames.iter().map(|(name, bytes)| {
        class.open(name).len() + bytes.as_ref().len().div_ceil(3) * 4 + CLOSE.len()
    });
    PAGE.len() - MARKER.len() + frames.sum::<usize>()
}

/// Writes a page with these frames.
pub(crate) fn write(
    class: Class,
    frames: &[(&str, impl AsRef<[u8]>)],
    out: &mut impl Write,
) -> io::Result<()> {
    let (before, behind) = PAGE.split_once(MARKER).unwrap_or((PAGE, ""));
    out.write_all(before.as_bytes())?;
    for (name, bytes) in frames {
        out.write_all(class.open(name).as_bytes())?;
        Base64(bytes.as_ref()).write(out)?;
        out.write_all(CLOSE.as_bytes())?;
    }
    out.write_all(behind.as_bytes())
}
