//! The page with embedded data for its first picture, which then needs no request.

use std::borrow::Cow;

use crate::facts::Circumstances;
use crate::kept::Kept;
use crate::page::{self, Class};
use crate::sight;
use crate::view::View;
use crate::window::Window;

/// The maximum number of nodes for which the page has embedded data. With more, the page requests
/// it.
const MAX_NODES: usize = 10_000;
/// The maximum number of embedded rows.
const MAX_ROWS: usize = 16_000;
/// The maximum number of rows that are read ahead.
const MAX_SHARP_ROWS: usize = 100_000;
/// The height of the rows with embedded data in pixels: those in sight in a large window.
const HEIGHT: u32 = 1000;
/// Embedded rows are 2^`COARSE` times coarser than the pixels of a picture that is 2^`PIXELS` wide.
const COARSE: u32 = 4;
const PIXELS: u32 = 10;

impl View {
    /// Computes the first picture before it is requested, which takes some time.
    pub(crate) fn prepare(&self) {
        self.first_overview();
        self.extents();
        if self.scene().nodes().len() <= MAX_NODES {
            self.first_tiles();
        }
    }

    /// Reads what the first request will need from the index: the page asks for the same rows as in
    /// its first picture, with full resolution.
    pub(crate) fn read_ahead(&self) {
        if self.is_indexed() && self.scene().nodes().len() <= MAX_NODES {
            let nodes = self.likely_in_sight();
            self.tiles_up_to(&nodes, self.whole(0), MAX_SHARP_ROWS);
        }
    }

    /// Returns the load of the whole trace in equal steps.
    pub(crate) fn first_overview(&self) -> &[u8] {
        self.first_picture()
            .overview
            .get_or_init(|| self.overview())
    }

    /// Returns the page with the data of its first picture: the nodes, and coarse rows of those
    /// that are likely in sight, and what is kept for the user.
    pub(crate) fn page(&self, of: Circumstances<'_>, kept: Option<&Kept>) -> Vec<u8> {
        let mut frames: Vec<(&str, Cow<'_, [u8]>)> = Vec::new();
        if self.scene().nodes().len() <= MAX_NODES {
            frames.push(("trace", self.index(of).into()));
            frames.push(("tiles", self.first_tiles().into()));
        }
        if let Some(kept) = kept {
            frames.push(("kept", kept.frame().into()));
        }
        let mut page = Vec::with_capacity(page::size(Class::First, &frames));
        // Writing to memory does not fail.
        let _ = page::write(Class::First, &frames, &mut page);
        page
    }

    fn first_tiles(&self) -> &[u8] {
        self.first_picture()
            .tiles
            .get_or_init(|| self.make_first_tiles())
    }

    fn make_first_tiles(&self) -> Vec<u8> {
        self.tiles_up_to(&self.likely_in_sight(), self.whole(COARSE), MAX_ROWS)
    }

    /// Returns the nodes that are likely in sight at first, from top to bottom.
    fn likely_in_sight(&self) -> Vec<u32> {
        sight::first(self.scene().nodes(), self.trace().strings(), HEIGHT)
    }

    /// Returns the window of the whole trace, 2^`coarse` times coarser than the pixels of a
    /// picture.
    fn whole(&self, coarse: u32) -> Window {
        let length = self.duration().max(1) as u64;
        Window {
            from: 0.0,
            to: length as f64 + 1.0,
            level: ((length.ilog2() + coarse).saturating_sub(PIXELS)) as u8,
        }
    }
}
