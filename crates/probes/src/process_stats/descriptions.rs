//! Descriptions of tasks that are written again after the state is cleared, without `/proc`.

use std::collections::{HashMap, HashSet};

/// The number of times that the state is cleared until `/proc` is read again: what no event reports
/// may have changed, such as the user, the parent and the control group.
const MAX_AGE: u32 = 6;

/// The maximum number of tasks before an event reports the end of one. Otherwise, those that have
/// ended would remain for as long as the state is not cleared.
const MAX_UNREPORTED: usize = 4096;

/// The latest descriptions of tasks, as encoded fields of a process tree.
///
/// They are used only if the kernel's events report the ends of tasks. Without, an id may belong to
/// another task.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    by_id: HashMap<i32, Description>,
    ends_are_reported: bool,
    age: u32,
}

#[derive(Debug)]
struct Description {
    tgid: i32,
    text: Vec<u8>,
}

impl Descriptions {
    /// Returns the process of a task, and its description.
    pub(super) fn get(&self, id: i32) -> Option<(i32, &[u8])> {
        let found = self.by_id.get(&id).filter(|_| self.ends_are_reported)?;
        Some((found.tgid, &found.text))
    }

    /// Remembers a description, unless there are too many tasks whose ends may not be reported.
    pub(super) fn insert(&mut self, id: i32, tgid: i32, text: &[u8]) {
        if !self.ends_are_reported && self.by_id.len() >= MAX_UNREPORTED {
            return;
        }
        let text = text.to_vec();
        self.by_id.insert(id, Description { tgid, text });
    }

    /// Forgets a task that has changed.
    pub(super) fn remove(&mut self, id: i32) {
        self.by_id.remove(&id);
    }

    /// Forgets a task whose end an event reports.
    pub(super) fn end(&mut self, id: i32) {
        self.ends_are_reported = true;
        self.remove(id);
    }

    /// Forgets the tasks of other processes than these.
    pub(super) fn retain(&mut self, alive: &HashSet<i32>) {
        self.by_id.retain(|_, task| alive.contains(&task.tgid));
    }

    /// Notes that the state is cleared. Forgets everything from time to time.
    pub(super) fn age(&mut self) {
        self.age += 1;
        if self.age == MAX_AGE {
            self.age = 0;
            self.by_id.clear();
        }
    }
}
