//! Who is served next: users take turns, and so do the connections of each, by the work they cause.
//!
//! Work is measured in nanoseconds. Whoever had the least of it is served next, and one for whom there was nothing to do
//! begins where the others are, so that nobody saves up. So all that the clients of one user cause delays
//! another's by the piece of work under way, however many they are.
//!
//! A user may also have an allowance ([`CpuAllowance`]): whoever exceeds it is not served for a while.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use ferretto_service::ClientId;

use crate::admission::Origin;
use crate::options::CpuAllowance;

/// A piece of work that took longer is followed by a smaller one ...
const LONG: u64 = 500_000;
/// ... and one that took less by a larger one.
const SHORT: u64 = 100_000;
/// The bytes that make a piece of work, at most and at least.
const LARGEST_PIECE: usize = 32 * 1024;
const SMALLEST_PIECE: usize = 1024;
/// How much work a user who is held back may cause when that ends.
const SLICE: u64 = 20_000_000;

/// Keys in the order of what each has had.
#[derive(Debug)]
struct Line<K> {
    waiting: BinaryHeap<Reverse<(u64, u64, K)>>,
    /// What the last one that was taken had had.
    now: u64,
    /// Counts up, so that equals are taken in the order they came in.
    order: u64,
}

impl<K: Ord> Default for Line<K> {
    fn default() -> Self {
        Self {
            waiting: BinaryHeap::new(),
            now: 0,
            order: 0,
        }
    }
}

impl<K: Ord> Line<K> {
    /// Puts one in that has had so much, and returns what it counts as.
    fn put(&mut self, had: u64, key: K) -> u64 {
        let had = had.max(self.now);
        self.order += 1;
        self.waiting.push(Reverse((had, self.order, key)));
        had
    }

    fn take(&mut self) -> Option<K> {
        let Reverse((had, _, key)) = self.waiting.pop()?;
        self.now = had;
        Some(key)
    }
}

/// The place of a connection among those of its user.
#[derive(Debug, Default)]
pub(crate) struct Place {
    waits: bool,
    /// The work it has had, counted from where others were when it came.
    had: u64,
    /// What it was of since its user exceeds the allowance, in nanoseconds.
    excess: u64,
    /// Which excess that was.
    epoch: u64,
}

#[derive(Debug, Default)]
struct User {
    line: Line<ClientId>,
    had: u64,
    /// In the line of users, or being served.
    queued: bool,
    /// Bytes to be read from its connections at a time.
    piece: usize,
    /// Work that is not taken off the balance yet.
    unsettled: u64,
    account: Account,
    held_until: Option<u64>,
}

/// What a user may still use.
#[derive(Debug, Default)]
struct Account {
    /// Nanoseconds; negative if it had more than it may.
    balance: i64,
    /// When it was true.
    at: u64,
    /// Since when the user has used all it may, with no rest to speak of.
    excess_since: Option<u64>,
    /// Counts these times.
    epoch: u64,
}

impl Account {
    fn full(allowance: &CpuAllowance, now: u64) -> Self {
        Self {
            balance: allowance.burst as i64,
            at: now,
            excess_since: None,
            epoch: 0,
        }
    }

    /// Credits the time that has passed.
    fn refill(&mut self, allowance: &CpuAllowance, now: u64) {
        let passed = now.saturating_sub(self.at);
        let earned = passed / 100 * allowance.percent;
        let full = allowance.burst as i64;
        self.balance = self.balance.saturating_add_unsigned(earned).min(full);
        self.at = now;
        if self.balance >= full / 2 {
            self.excess_since = None;
        }
    }
}

/// What to do about a user who exceeds the allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    /// It is held back from now on.
    Begins {
        /// Who.
        origin: Origin,
    },
    /// It was held back for so long that the connection with the most work has to go.
    Lasts {
        /// Who.
        origin: Origin,
        /// Which excess it is, see [`Place::excess`].
        epoch: u64,
    },
}

/// All connections with something to read.
#[derive(Debug)]
pub(crate) struct Schedule {
    allowance: Option<CpuAllowance>,
    users: BTreeMap<Origin, User>,
    line: Line<Origin>,
    /// How many users are held back.
    held: usize,
    waiting: usize,
    unsettled: u64,
}

impl Schedule {
    pub(crate) fn new(allowance: Option<CpuAllowance>) -> Self {
        Self {
            allowance,
            users: BTreeMap::new(),
            line: Line::default(),
            held: 0,
            waiting: 0,
            unsettled: 0,
        }
    }

    /// Has a connection served when it is its turn.
    pub(crate) fn line_up(&mut self, origin: Origin, id: ClientId, place: &mut Place) {
        if std::mem::replace(&mut place.waits, true) {
            return;
        }
        self.waiting += 1;
        let user = self.users.entry(origin).or_default();
        place.had = user.line.put(place.had, id);
        if !user.queued && user.held_until.is_none() {
            user.queued = true;
            user.had = self.line.put(user.had, origin);
        }
    }

    /// Returns true if anyone can be served.
    pub(crate) fn has_work(&self) -> bool {
        !self.line.waiting.is_empty()
    }

    /// How many connections wait, with those of users who are held back.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes the next connection, of which [`served`](Self::served) must tell what became, and how many bytes to read
    /// from it. It may be gone.
    pub(crate) fn next(&mut self) -> Option<(Origin, ClientId, usize)> {
        while let Some(origin) = self.line.take() {
            let Some(user) = self.users.get_mut(&origin) else {
                continue;
            };
            if user.had > self.line.now {
                // It was charged for other things meanwhile.
                user.had = self.line.put(user.had, origin);
                continue;
            }
            if let Some(id) = user.line.take() {
                self.waiting -= 1;
                return Some((origin, id, user.piece()));
            }
            user.queued = false;
        }
        None
    }

    /// Counts what serving a connection took. `place` is that of the connection, unless it is gone; `more` says that it
    /// has more to do.
    pub(crate) fn served(
        &mut self,
        (origin, id): (Origin, ClientId),
        place: Option<&mut Place>,
        work: u64,
        more: bool,
    ) {
        self.charge(origin, work);
        let Some(user) = self.users.get_mut(&origin) else {
            return;
        };
        user.adapt(work);
        if let Some(place) = place {
            place.waits = more;
            place.had = place.had.saturating_add(work);
            if place.epoch != user.account.epoch {
                (place.epoch, place.excess) = (user.account.epoch, 0);
            }
            place.excess += work;
            if more {
                self.waiting += 1;
                place.had = user.line.put(place.had, id);
            }
        }
        user.queued = !user.line.waiting.is_empty() && user.held_until.is_none();
        if user.queued {
            user.had = self.line.put(user.had, origin);
        }
    }

    /// Counts work that was done for a user besides.
    pub(crate) fn charge(&mut self, origin: Origin, work: u64) {
        let user = self.users.entry(origin).or_default();
        user.had = user.had.max(self.line.now).saturating_add(work);
        user.unsettled += work;
        self.unsettled += work;
    }

    /// The work that was counted since the last [`settle`](Self::settle).
    pub(crate) fn unsettled(&self) -> u64 {
        self.unsettled
    }

    /// Takes what users had off what they may have. `cpu` is the CPU time since the last call, which is less
    /// than the time that was counted if other programs ran meanwhile, and more if there was work besides. Returns how
    /// much of it was nobody's. `now` is `CLOCK_MONOTONIC`.
    pub(crate) fn settle(&mut self, now: u64, cpu: u64, mut tell: impl FnMut(Excess)) -> u64 {
        let counted = std::mem::take(&mut self.unsettled);
        // What goes on between pieces of work is no more than these.
        let shared = cpu.min(counted.saturating_mul(2));
        let Some(allowance) = &self.allowance else {
            self.users.retain(|_, user| {
                user.unsettled = 0;
                user.queued || user.had > self.line.now
            });
            return cpu - shared;
        };
        for (origin, user) in &mut self.users {
            let part = std::mem::take(&mut user.unsettled);
            if part == 0 {
                continue;
            }
            if user.account.at == 0 {
                user.account = Account::full(allowance, now);
            }
            let part = u128::from(shared) * u128::from(part) / u128::from(counted);
            let account = &mut user.account;
            account.refill(allowance, now);
            account.balance = account.balance.saturating_sub_unsigned(part as u64);
            if account.balance >= 0 {
                continue;
            }
            match account.excess_since {
                None => {
                    account.excess_since = Some(now);
                    account.epoch += 1;
                    tell(Excess::Begins { origin: *origin });
                }
                Some(since) if now.saturating_sub(since) >= allowance.patience => {
                    let (origin, epoch) = (*origin, account.epoch);
                    account.excess_since = Some(now);
                    account.epoch += 1;
                    tell(Excess::Lasts { origin, epoch });
                }
                Some(_) => {}
            }
            let missing = account.balance.unsigned_abs() + SLICE.min(allowance.burst / 4);
            let pause = missing.saturating_mul(100) / allowance.percent.max(1);
            self.held += usize::from(user.held_until.is_none());
            user.held_until = Some(now.saturating_add(pause));
            if std::mem::replace(&mut user.queued, false) {
                self.line
                    .waiting
                    .retain(|Reverse((_, _, key))| key != origin);
            }
        }
        self.forget(now);
        cpu - shared
    }

    /// Forgets users of whom there is nothing to remember.
    fn forget(&mut self, now: u64) {
        let Some(allowance) = &self.allowance else {
            return;
        };
        let settled = self.line.now;
        self.users.retain(|_, user| {
            if user.queued || user.held_until.is_some() || user.had > settled {
                return true;
            }
            if !user.line.waiting.is_empty() {
                return true;
            }
            user.account.refill(allowance, now);
            user.account.balance < allowance.burst as i64
        });
    }

    /// Serves users again whose time has come.
    pub(crate) fn release(&mut self, now: u64) {
        if self.held == 0 {
            return;
        }
        for (origin, user) in &mut self.users {
            if user.held_until.is_none_or(|until| until > now) {
                continue;
            }
            user.held_until = None;
            self.held -= 1;
            if !user.line.waiting.is_empty() {
                user.queued = true;
                user.had = self.line.put(user.had, *origin);
            }
        }
    }

    /// When [`release`](Self::release) has something to do, in `CLOCK_MONOTONIC`.
    pub(crate) fn next_release(&self) -> Option<u64> {
        if self.held == 0 {
            return None;
        }
        let waiting = self.users.values().filter(|u| !u.line.waiting.is_empty());
        waiting.filter_map(|user| user.held_until).min()
    }
}

impl User {
    fn piece(&self) -> usize {
        match self.piece {
            0 => LARGEST_PIECE,
            piece => piece,
        }
    }

    /// Makes the next piece smaller or larger, after one that took so long.
    fn adapt(&mut self, work: u64) {
        if work > LONG {
            self.piece = (self.piece() / 2).max(SMALLEST_PIECE);
        } else if work < SHORT {
            self.piece = (self.piece() * 2).min(LARGEST_PIECE);
        }
    }
}

impl Place {
    /// Returns the work it had during this excess of its user.
    pub(crate) fn excess(&self, epoch: u64) -> u64 {
        if self.epoch == epoch { self.excess } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1000 * MS;
    const MALLORY: Origin = Origin::User(666);
    const ALICE: Origin = Origin::User(1000);

    /// A service that does nothing but what connections cause, in a time of its own.
    struct World {
        schedule: Schedule,
        now: u64,
        /// Of each connection: its user, its place, how long a piece of its work takes.
        clients: Vec<(Origin, Place, u64)>,
        /// What was done for each.
        had: Vec<u64>,
        told: Vec<Excess>,
    }

    impl World {
        fn new(allowance: Option<CpuAllowance>) -> Self {
            Self {
                schedule: Schedule::new(allowance),
                now: SECOND,
                clients: Vec::new(),
                had: Vec::new(),
                told: Vec::new(),
            }
        }

        fn connect(&mut self, origin: Origin, piece: u64) -> usize {
            self.clients.push((origin, Place::default(), piece));
            self.had.push(0);
            self.clients.len() - 1
        }

        /// Something comes from a connection.
        fn wake(&mut self, client: usize) {
            let (origin, place, _) = &mut self.clients[client];
            let id = ClientId(client as u64);
            self.schedule.line_up(*origin, id, place);
        }

        /// Does the next piece of work; the connection has `more` afterwards. Returns which it was.
        fn serve(&mut self, more: bool) -> Option<usize> {
            self.schedule.release(self.now);
            let (origin, id, _) = self.schedule.next()?;
            let client = id.0 as usize;
            let (_, place, piece) = &mut self.clients[client];
            self.now += *piece;
            self.had[client] += *piece;
            let whom = (origin, id);
            self.schedule.served(whom, Some(place), *piece, more);
            Some(client)
        }

        /// Everyone always has more, for so long. Returns how much time there was for none.
        fn run(&mut self, time: u64) -> u64 {
            let end = self.now + time;
            let mut idle = 0;
            while self.now < end {
                if self.serve(true).is_none() {
                    let next = self.schedule.next_release().unwrap();
                    assert!(next > self.now);
                    idle += next.min(end) - self.now;
                    self.now = next.min(end);
                }
                self.settle();
            }
            idle
        }

        fn settle(&mut self) {
            let work = self.schedule.unsettled();
            let told = &mut self.told;
            let own = self
                .schedule
                .settle(self.now, work, |excess| told.push(excess));
            assert_eq!(own, 0);
        }

        fn had_by(&self, origin: Origin) -> u64 {
            let all = self.clients.iter().zip(&self.had);
            all.filter(|((of, _, _), _)| *of == origin)
                .map(|(_, had)| had)
                .sum()
        }
    }

    #[test]
    fn another_user_waits_for_the_piece_of_work_under_way_and_no_more() {
        let mut world = World::new(None);
        for _ in 0..400 {
            let client = world.connect(MALLORY, 10 * MS);
            world.wake(client);
        }
        let honest = world.connect(ALICE, MS / 100);
        for _ in 0..1000 {
            assert!(world.serve(true) < Some(honest));
            world.wake(honest);
            assert_eq!(world.serve(false), Some(honest));
        }
    }

    #[test]
    fn a_hundred_busy_users_cost_another_a_hundredth_each() {
        let mut world = World::new(None);
        for user in 0..100 {
            for _ in 0..10 {
                let client = world.connect(Origin::User(user), MS);
                world.wake(client);
            }
        }
        let honest = world.connect(ALICE, MS);
        world.wake(honest);
        world.run(101 * 50 * MS);
        let had = world.had_by(ALICE);
        assert!((49 * MS..=51 * MS).contains(&had), "{had}");
    }

    #[test]
    fn users_share_by_work_and_not_by_connections_or_turns() {
        let mut world = World::new(None);
        for _ in 0..400 {
            let client = world.connect(MALLORY, 10 * MS);
            world.wake(client);
        }
        let honest = world.connect(ALICE, MS / 10);
        world.wake(honest);
        world.run(10 * SECOND);
        let (mallory, alice) = (world.had_by(MALLORY), world.had_by(ALICE));
        assert!(mallory.abs_diff(alice) <= 20 * MS, "{mallory} {alice}");
    }

    #[test]
    fn so_do_the_connections_of_one_user() {
        let mut world = World::new(None);
        for piece in [1, 2, 5, 10, 20] {
            let client = world.connect(ALICE, piece * MS);
            world.wake(client);
        }
        world.run(10 * SECOND);
        for had in &world.had {
            assert!(had.abs_diff(2 * SECOND) <= 40 * MS, "{:?}", world.had);
        }
    }

    #[test]
    fn who_was_idle_has_saved_nothing_up() {
        let mut world = World::new(None);
        let late = world.connect(MALLORY, MS);
        let early = world.connect(ALICE, MS);
        world.wake(late);
        world.serve(false);
        world.wake(early);
        world.run(100 * SECOND);
        world.wake(late);
        let before = world.had[early];
        world.run(SECOND);
        let had = world.had[early] - before;
        assert!(had.abs_diff(SECOND / 2) <= 2 * MS, "{had}");
    }

    #[test]
    fn work_besides_counts_too() {
        let mut world = World::new(None);
        let (one, other) = (world.connect(MALLORY, MS), world.connect(ALICE, MS));
        world.wake(one);
        world.wake(other);
        // Of connections it makes and ends, for example.
        world.schedule.charge(MALLORY, 100 * MS);
        for _ in 0..100 {
            assert_eq!(world.serve(true), Some(other));
        }
        let both = [world.serve(true), world.serve(true)];
        assert!(both.contains(&Some(one)), "{both:?}");
    }

    #[test]
    fn pieces_become_smaller_while_they_take_long() {
        let mut world = World::new(None);
        let client = world.connect(MALLORY, 10 * MS);
        world.wake(client);
        let mut sizes = Vec::new();
        for work in [10 * MS; 6].into_iter().chain([MS / 100; 6]) {
            let (origin, id, size) = world.schedule.next().unwrap();
            sizes.push(size / 1024);
            let place = &mut world.clients[client].1;
            world.schedule.served((origin, id), Some(place), work, true);
        }
        assert_eq!(sizes, [32, 16, 8, 4, 2, 1, 1, 2, 4, 8, 16, 32]);
    }

    #[test]
    fn who_exceeds_the_allowance_is_held_back_to_it_and_others_are_not() {
        let mut world = World::new(Some(CpuAllowance::default()));
        let busy = world.connect(MALLORY, MS);
        world.wake(busy);
        // The burst lets it have a whole CPU for a minute.
        assert_eq!(world.run(59 * SECOND), 0);
        assert_eq!(world.told, []);
        world.run(2 * SECOND);
        assert_eq!(world.told, [Excess::Begins { origin: MALLORY }]);
        let idle = world.run(100 * SECOND);
        assert!(idle.abs_diff(20 * SECOND) < 50 * MS, "{idle}");
        // Half of what is done is for another, and the other half is within the allowance.
        let honest = world.connect(ALICE, MS);
        world.wake(honest);
        let before = world.had[busy];
        assert_eq!(world.run(50 * SECOND), 0);
        let had = world.had[busy] - before;
        assert!(had.abs_diff(25 * SECOND) < 50 * MS, "{had}");
        assert_eq!(world.told.len(), 1);
    }

    #[test]
    fn who_is_held_back_for_long_loses_what_it_uses_most_for() {
        let mut world = World::new(Some(CpuAllowance::default()));
        let (busy, other) = (world.connect(MALLORY, MS), world.connect(MALLORY, MS));
        world.wake(other);
        world.run(20 * SECOND);
        while world.serve(false).is_some() {}
        world.now += 60 * SECOND;
        world.wake(busy);
        world.run(61 * SECOND);
        assert_eq!(world.told.len(), 1);
        // The other has a little to do, too.
        world.wake(other);
        world.now += SECOND;
        while world.serve(false) != Some(other) {
            world.wake(busy);
        }
        world.wake(busy);
        world.run(597 * SECOND);
        assert_eq!(world.told.len(), 1);
        while world.told.len() == 1 {
            world.run(MS);
        }
        let [_, Excess::Lasts { origin, epoch }] = world.told[..] else {
            panic!("{:?}", world.told);
        };
        assert_eq!(origin, MALLORY);
        let excess = |client: usize| world.clients[client].1.excess(epoch);
        assert!(excess(busy) > 100 * SECOND);
        assert_eq!(excess(other), MS);
        // It is the same again for those that are left.
        world.run(595 * SECOND);
        assert_eq!(world.told.len(), 2);
        world.run(10 * SECOND);
        assert_eq!(world.told.len(), 3);
    }

    #[test]
    fn rest_is_credited_and_then_the_user_forgotten() {
        let mut world = World::new(Some(CpuAllowance::default()));
        let busy = world.connect(MALLORY, MS);
        world.wake(busy);
        world.run(100 * SECOND);
        assert_eq!(world.told.len(), 1);
        while world.schedule.has_work() || world.schedule.next_release().is_some() {
            world.now += SECOND;
            world.serve(false);
        }
        world.now += 60 * SECOND;
        world.wake(busy);
        assert_eq!(world.run(59 * SECOND), 0);
        assert_eq!(world.told.len(), 1);
        while world.serve(false).is_some() {}
        world.now += 60 * SECOND;
        let other = world.connect(ALICE, MS);
        world.wake(other);
        world.run(SECOND);
        assert_eq!(world.schedule.users.len(), 1);
    }

    #[test]
    fn time_that_other_programs_took_is_nobodys_work_and_work_besides_is_not_either() {
        let mut world = World::new(Some(CpuAllowance::default()));
        let client = world.connect(ALICE, 100 * SECOND);
        world.wake(client);
        world.serve(true);
        // Only a tenth of that time was spent here.
        let never = |excess| panic!("{excess:?}");
        assert_eq!(world.schedule.settle(world.now, 10 * SECOND, never), 0);
        world.clients[client].2 = SECOND;
        world.serve(true);
        assert_eq!(
            world.schedule.settle(world.now, 5 * SECOND, never),
            3 * SECOND
        );
        assert_eq!(world.schedule.settle(world.now, SECOND, never), SECOND);
    }
}
