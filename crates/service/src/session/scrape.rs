//! Collecting what producers have written but not committed, and the steps that wait for it.

use super::Session;
use super::steps::{AfterFlush, AfterScrape};
use crate::context::Context;
use crate::scrapes::Purpose;

/// The steps of a session that wait for the end of a scrape.
#[derive(Debug, Default)]
pub(super) struct Scraping {
    /// The steps after the current one.
    current: Vec<AfterScrape>,
    /// The steps that came during the current one, and need another.
    next: Vec<AfterScrape>,
    /// Set once nobody will read the data.
    abandoned: bool,
}

impl Scraping {
    fn steps(&self) -> impl Iterator<Item = &AfterScrape> {
        self.current.iter().chain(&self.next)
    }

    /// Returns the number of flushes among the steps.
    pub(super) fn flushes(&self) -> usize {
        let is_flush = |step: &&AfterScrape| matches!(step, AfterScrape::Flush { .. });
        self.steps().filter(is_flush).count()
    }

    /// Returns true if the session ends after a scrape.
    pub(super) fn stops(&self) -> bool {
        self.steps().any(|step| matches!(step, AfterScrape::Stop))
    }
}

impl Session {
    /// Scrapes the memory of all producers of the session, then continues with `step`: at once if
    /// there is little to do, else in a later event.
    pub(super) fn scrape(&mut self, cx: &mut Context, step: AfterScrape) {
        if self.scraping.abandoned {
            return self.after_scrape(cx, step);
        }
        if !self.scraping.current.is_empty() {
            return self.scraping.next.push(step);
        }
        self.begin_scrape(cx, vec![step]);
    }

    fn begin_scrape(&mut self, cx: &mut Context, steps: Vec<AfterScrape>) {
        if !cx.scrape(Purpose::Session(self.id), self.buffers.clone()) {
            self.scraping.current = steps;
            return;
        }
        for step in steps {
            self.after_scrape(cx, step);
        }
    }

    /// Continues at the end of a scrape that took several events.
    pub(crate) fn scraped(&mut self, cx: &mut Context) {
        let done = std::mem::take(&mut self.scraping.current);
        let mut next = std::mem::take(&mut self.scraping.next);
        for step in done {
            self.after_scrape(cx, step);
        }
        if self.scraping.current.is_empty() && !next.is_empty() {
            self.begin_scrape(cx, next);
        } else {
            // The scrape that has just begun is theirs, too.
            next.append(&mut self.scraping.current);
            self.scraping.current = next;
        }
    }

    fn after_scrape(&mut self, cx: &mut Context, step: AfterScrape) {
        match step {
            AfterScrape::Flush { then, success } => self.flush_scraped(cx, then, success),
            AfterScrape::Stop => self.stop_scraped(cx),
        }
    }

    /// Fails the flushes that wait for a scrape, since the session is freed. If nobody will read
    /// its data, scraping ends, too.
    pub(super) fn fail_scraped_flushes(&mut self, cx: &mut Context) {
        let mut failed = Vec::new();
        let scraping = &mut self.scraping;
        for step in scraping.current.iter_mut().chain(&mut scraping.next) {
            if let AfterScrape::Flush { then, .. } = step {
                failed.push(std::mem::replace(then, AfterFlush::Nothing));
            }
        }
        for then in failed {
            self.fail_flush(cx, then);
        }
        if self.writes_into_file() {
            return;
        }
        cx.scrapes.cancel(self.id);
        let abandoned = Scraping {
            abandoned: true,
            ..Scraping::default()
        };
        if std::mem::replace(&mut self.scraping, abandoned).stops() {
            self.stop_scraped(cx);
        }
    }
}
