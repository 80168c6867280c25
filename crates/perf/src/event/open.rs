//! Opening of the events of one CPU.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use perf_event_open_sys::bindings::perf_event_attr;
use rustix::io::Errno;

use super::OpenError;
use super::attr::{self, Variant};
use super::pace::Pace;
use super::permission::{self, Wanted};
use super::reader::{Group, Paced, Parts, Reader};
use crate::config::{Clock, Event, Interval, Kernel, Plan, Sampling};
use crate::ring::{MapError, Mapping, RecordReader, syscall};

/// The tasks to observe on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// All tasks.
    Cpu(u32),
    /// Some threads, and all threads and processes that they start from now on.
    Tasks {
        /// The CPU.
        cpu: u32,
        /// The threads. Ended ones are skipped.
        tids: &'a [i32],
        /// Set to count only after the task executes a program.
        on_exec: bool,
        /// Set to count only in user space, which needs no privileges.
        user_only: bool,
    },
}

impl Target<'_> {
    fn cpu(self) -> u32 {
        match self {
            Self::Cpu(cpu) | Self::Tasks { cpu, .. } => cpu,
        }
    }

    fn variant(self) -> Variant {
        match self {
            Self::Cpu(_) => Variant::default(),
            Self::Tasks {
                on_exec, user_only, ..
            } => Variant {
                tasks: true,
                on_exec,
                user_only,
                ..Variant::default()
            },
        }
    }
}

/// Opens the events of a plan on one CPU, disabled. `ring_pages` is the size of the ring, if there
/// is one: a power of two.
///
/// # Errors
///
/// See [`OpenError`].
pub fn open(
    plan: &Plan,
    kernel: &Kernel,
    target: Target<'_>,
    ring_pages: u32,
) -> Result<Reader, OpenError> {
    let mut opening = Opening {
        plan,
        kernel,
        target,
        variant: target.variant(),
        opened: 0,
    };
    opening.open(ring_pages)
}

struct Opening<'a> {
    plan: &'a Plan,
    kernel: &'a Kernel,
    target: Target<'a>,
    variant: Variant,
    /// The number of open descriptors.
    opened: usize,
}

impl Opening<'_> {
    fn cpu(&self) -> u32 {
        self.target.cpu()
    }

    fn open(&mut self, ring_pages: u32) -> Result<Reader, OpenError> {
        let owner = match (self.target, self.plan.sampling()) {
            (Target::Tasks { .. }, Some(sampling)) => Some(self.ring_owner(sampling)?),
            _ => None,
        };
        let groups = self.groups()?;
        let mut ring = None;
        if self.plan.sampling().is_some() {
            let event = owner.as_ref().unwrap_or(&groups[0].leader);
            let mapping = self.map(event.as_fd(), ring_pages)?;
            let format = attr::format(self.plan, self.variant, self.cpu());
            ring = Some(RecordReader::new(mapping, format));
        }
        for group in &groups {
            let ring = owner.as_ref().unwrap_or(&groups[0].leader);
            let leader = owner.is_some().then_some(&group.leader);
            for event in leader
                .into_iter()
                .chain(group.paced.iter().flat_map(Paced::events))
            {
                syscall::set_output(event.as_fd(), ring.as_fd())
                    .map_err(|error| self.failed(&self.plan.timebase, error))?;
            }
        }
        Ok(Reader::new(Parts {
            cpu: self.cpu(),
            counters: self.variant.count_of_counters(self.plan),
            lacks_followers: self.variant.no_followers,
            counts_lost: ring.is_some() && !self.variant.old_kernel,
            ring,
            owner,
            groups,
            on_exec: self.variant.on_exec,
            pace: self.plan.samples_all_up_to().map(Pace::new),
        }))
    }

    fn ring_owner(&self, sampling: &Sampling) -> Result<OwnedFd, OpenError> {
        let attr = attr::ring_owner(sampling);
        let own = rustix::process::getpid().as_raw_nonzero().get();
        syscall::open(&attr, own, self.cpu() as i32, None)
            .map_err(|error| self.failed(&self.plan.timebase, error))
    }

    fn groups(&mut self) -> Result<Vec<Group>, OpenError> {
        let Target::Tasks { tids, .. } = self.target else {
            return Ok(vec![
                self.group(-1)?
                    .ok_or(OpenError::NoSuchCpu { cpu: self.cpu() })?,
            ]);
        };
        let mut groups = Vec::new();
        for &tid in tids {
            groups.extend(self.group(tid)?);
        }
        if groups.is_empty() {
            let pids = tids.to_vec();
            return Err(OpenError::NoSuchProcess { pids });
        }
        Ok(groups)
    }

    /// Opens the events of one task, or of all; `None` if the task has ended.
    fn group(&mut self, task: i32) -> Result<Option<Group>, OpenError> {
        let leader = match self.leader(task) {
            Err(Errno::SRCH) if task != -1 => return Ok(None),
            Err(error) => return Err(self.failed(&self.plan.timebase, error)),
            Ok(leader) => leader,
        };
        self.filter(&self.plan.timebase, leader.as_fd())?;
        let mut followers = Vec::new();
        let count = self.variant.count_of_counters(self.plan) - 1;
        for event in self.plan.followers.iter().take(count) {
            let attr = attr::follower(self.plan, event, self.variant);
            let follower = match self.event(&attr, task, Some(leader.as_fd())) {
                Err(Errno::SRCH) if task != -1 => return Ok(None),
                Err(error) => return Err(self.failed(event, error)),
                Ok(follower) => follower,
            };
            self.filter(event, follower.as_fd())?;
            followers.push(follower);
        }
        let paced = match self.paced(task) {
            Err(Errno::SRCH) if task != -1 => return Ok(None),
            Err(error) => return Err(self.failed(&self.plan.timebase, error)),
            Ok(paced) => paced,
        };
        if let Some(paced) = &paced {
            self.filter(&self.plan.timebase, paced.thinned.as_fd())?;
        }
        Ok(Some(Group {
            leader,
            followers,
            paced,
        }))
    }

    /// Opens the events of a plan that samples all counts only up to a rate.
    fn paced(&mut self, task: i32) -> Result<Option<Paced>, Errno> {
        let plan = self.plan;
        let (Some(_), Some(sampling)) = (plan.samples_all_up_to(), plan.sampling()) else {
            return Ok(None);
        };
        let thinned = attr::thinned(plan, sampling, self.variant);
        let tracker = attr::tracker(sampling, self.variant);
        Ok(Some(Paced {
            thinned: self.event(&thinned, task, None)?,
            tracker: self.event(&tracker, task, None)?,
        }))
    }

    /// Opens the timebase. If the kernel rejects a field, retries without what old kernels do not
    /// know.
    fn leader(&mut self, task: i32) -> Result<OwnedFd, Errno> {
        for variant in self.variant.attempts(self.plan) {
            let attr = attr::leader(self.plan, variant);
            match self.event(&attr, task, None) {
                Err(Errno::INVAL) => {}
                opened => {
                    self.variant = variant;
                    return opened;
                }
            }
        }
        Err(Errno::INVAL)
    }

    fn event(
        &mut self,
        attr: &perf_event_attr,
        task: i32,
        group: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno> {
        let event = syscall::open(attr, task, self.cpu() as i32, group)?;
        self.opened += 1;
        Ok(event)
    }

    fn filter(&self, event: &Event, fd: BorrowedFd<'_>) -> Result<(), OpenError> {
        let Some(filter) = event.filter() else {
            return Ok(());
        };
        syscall::set_filter(fd, filter).map_err(|error| OpenError::Filter {
            event: event.describe(),
            filter: filter.to_string_lossy().into_owned(),
            error,
        })
    }

    fn map(&self, event: BorrowedFd<'_>, pages: u32) -> Result<Mapping, OpenError> {
        Mapping::new(event, pages).map_err(|error| {
            let advice = match error {
                MapError::Refused(Errno::PERM) => permission::ring_advice(self.kernel),
                _ => String::new(),
            };
            OpenError::Ring {
                cpu: self.cpu(),
                pages,
                error,
                advice,
            }
        })
    }

    fn failed(&self, event: &Event, error: Errno) -> OpenError {
        let cpu = self.cpu();
        let name = event.describe();
        match error {
            Errno::ACCESS | Errno::PERM => self.not_permitted(error),
            Errno::NOENT | Errno::OPNOTSUPP if event.needs_hardware() => {
                OpenError::NoHardware { event: name }
            }
            Errno::NOENT => OpenError::NoSuchEvent { event: name, error },
            Errno::NODEV | Errno::NXIO => OpenError::NoSuchCpu { cpu },
            Errno::MFILE | Errno::NFILE => OpenError::TooManyFiles {
                event: name,
                count: self.opened,
            },
            Errno::INVAL => self.invalid(event, name),
            error => OpenError::Other {
                event: name,
                cpu,
                error,
            },
        }
    }

    fn not_permitted(&self, error: Errno) -> OpenError {
        let (what, wanted) = match self.target {
            Target::Cpu(cpu) => (format!("CPU {cpu}"), Wanted::Cpu),
            Target::Tasks { tids, .. } => (tasks(tids), Wanted::Task),
        };
        let paranoid = permission::paranoid(self.kernel);
        OpenError::NotPermitted {
            what,
            error,
            paranoid,
            advice: permission::advice(wanted, paranoid),
        }
    }

    /// Returns the error for an event that the kernel rejects, without naming the invalid field.
    fn invalid(&self, event: &Event, name: String) -> OpenError {
        let cpu = self.cpu();
        let sampling = self.plan.sampling();
        let asked = sampling.map(|sampling| sampling.interval);
        let limit = permission::sysctl(self.kernel, "perf_event_max_sample_rate");
        if let (Some(Interval::Frequency(asked)), Some(limit)) = (asked, limit)
            && asked > limit
        {
            return OpenError::RateTooHigh { asked, limit };
        }
        if !crate::cpus::online(self.kernel).contains(&cpu) {
            return OpenError::NoSuchCpu { cpu };
        }
        let clock = sampling.map(|sampling| sampling.clock);
        if let Some(clock @ (Clock::Realtime | Clock::Boottime)) = clock
            && event.r#type != Event::SOFTWARE
        {
            let clock = clock.name();
            return OpenError::Clock { event: name, clock };
        }
        OpenError::Other {
            event: name,
            cpu,
            error: Errno::INVAL,
        }
    }
}

/// Formats tasks for a message.
fn tasks(tids: &[i32]) -> String {
    const TOLD: usize = 4;
    match tids.len().checked_sub(TOLD) {
        None | Some(0) => format!("tasks {tids:?}"),
        Some(more) => format!("tasks {:?} and {more} more", &tids[..TOLD]),
    }
}
