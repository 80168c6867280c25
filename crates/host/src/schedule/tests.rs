//! The schedule with virtual time.

use ferretto_service::ClientId;

use super::{Excess, Meter, Schedule, Turn};
use crate::options::CpuAllowance;
use crate::origin::Origin;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const MALLORY: Origin = Origin::User(666);
const ALICE: Origin = Origin::User(1000);

/// A service whose only work is that of connections, with virtual time.
struct World {
    schedule: Schedule,
    meter: Meter,
    now: u64,
    /// The CPU time of the service.
    cpu: u64,
    /// The time for which other programs have the CPU during the next piece of work.
    stolen: u64,
    /// The user, the turn and the time of a piece of work of each connection.
    clients: Vec<(Origin, Turn, u64)>,
    /// The work done for each connection.
    had: Vec<u64>,
    excesses: Vec<Excess>,
}

impl World {
    fn new(allowance: Option<CpuAllowance>) -> Self {
        Self {
            schedule: Schedule::new(allowance),
            meter: Meter::default(),
            now: SECOND,
            cpu: 0,
            stolen: 0,
            clients: Vec::new(),
            had: Vec::new(),
            excesses: Vec::new(),
        }
    }

    fn connect(&mut self, origin: Origin, piece: u64) -> usize {
        self.clients.push((origin, Turn::default(), piece));
        self.had.push(0);
        self.clients.len() - 1
    }

    /// Makes a connection readable.
    fn wake(&mut self, client: usize) {
        let (origin, turn, _) = &mut self.clients[client];
        let id = ClientId(client as u64);
        self.schedule.line_up(*origin, id, turn);
    }

    /// Does the next piece of work; the connection has `more` afterwards. Returns the index of the
    /// connection.
    fn serve(&mut self, more: bool) -> Option<usize> {
        self.schedule.release(self.now);
        let (origin, id, _) = self.schedule.next()?;
        let client = id.0 as usize;
        let (_, turn, piece) = &mut self.clients[client];
        self.meter.begin(self.now);
        self.now += *piece + std::mem::take(&mut self.stolen);
        self.cpu += *piece;
        let work = self.meter.lap(self.now, || self.cpu);
        self.had[client] += *piece;
        let whom = (origin, id);
        self.schedule.served(whom, Some(turn), work, more);
        Some(client)
    }

    /// Runs for `time` with all connections always readable. Returns the time in which none could
    /// be served.
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
            self.deduct();
        }
        idle
    }

    fn deduct(&mut self) {
        let work = self.schedule.undeducted();
        let excesses = &mut self.excesses;
        let own = self
            .schedule
            .deduct(self.now, work, |excess| excesses.push(excess));
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
fn another_user_waits_only_for_the_current_piece_of_work() {
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
fn a_user_pays_nothing_for_the_time_of_other_programs() {
    let mut world = World::new(None);
    let busy = 8;
    for user in 0..busy {
        for _ in 0..10 {
            let client = world.connect(Origin::User(user), MS / 20);
            world.wake(client);
        }
    }
    let honest = world.connect(ALICE, MS / 20);
    for _ in 0..100 {
        world.stolen = 12 * MS;
        world.wake(honest);
        while world.serve(true) != Some(honest) {}
        // Each other user is served about once before, and not for 12 ms.
        let served = (0..2 * busy).any(|_| world.serve(true) == Some(honest));
        assert!(served);
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
fn the_connections_of_one_user_share_by_work() {
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
fn idle_users_save_up_no_time() {
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
fn other_work_for_a_user_counts() {
    let mut world = World::new(None);
    let (one, other) = (world.connect(MALLORY, MS), world.connect(ALICE, MS));
    world.wake(one);
    world.wake(other);
    // For example, the work of creating and closing connections.
    world.schedule.charge(MALLORY, 100 * MS);
    for _ in 0..100 {
        assert_eq!(world.serve(true), Some(other));
    }
    let both = [world.serve(true), world.serve(true)];
    assert!(both.contains(&Some(one)), "{both:?}");
}

#[test]
fn pieces_begin_small_and_follow_the_time_that_they_take() {
    let mut world = World::new(None);
    let client = world.connect(MALLORY, 10 * MS);
    world.wake(client);
    let mut sizes = Vec::new();
    for work in [10 * MS; 3].into_iter().chain([MS / 100; 6]) {
        let (origin, id, size) = world.schedule.next().unwrap();
        sizes.push(size / 1024);
        let turn = &mut world.clients[client].1;
        world.schedule.served((origin, id), Some(turn), work, true);
    }
    assert_eq!(sizes, [4, 2, 1, 1, 2, 4, 8, 16, 32]);
}

#[test]
fn a_user_who_exceeds_the_allowance_is_throttled_and_others_are_not() {
    let mut world = World::new(Some(CpuAllowance::default()));
    let busy = world.connect(MALLORY, MS);
    world.wake(busy);
    // The burst allows a whole CPU for a minute.
    assert_eq!(world.run(59 * SECOND), 0);
    assert_eq!(world.excesses, []);
    world.run(2 * SECOND);
    assert_eq!(world.excesses, [Excess::Begins { origin: MALLORY }]);
    let idle = world.run(100 * SECOND);
    assert!(idle.abs_diff(20 * SECOND) < 50 * MS, "{idle}");
    // Half of the work is for another user, and the other half is within the allowance.
    let honest = world.connect(ALICE, MS);
    world.wake(honest);
    let before = world.had[busy];
    assert_eq!(world.run(50 * SECOND), 0);
    let had = world.had[busy] - before;
    assert!(had.abs_diff(25 * SECOND) < 50 * MS, "{had}");
    assert_eq!(world.excesses.len(), 1);
}

#[test]
fn a_user_throttled_for_long_loses_the_connection_with_the_most_work() {
    let mut world = World::new(Some(CpuAllowance::default()));
    let (busy, other) = (world.connect(MALLORY, MS), world.connect(MALLORY, MS));
    world.wake(other);
    world.run(20 * SECOND);
    while world.serve(false).is_some() {}
    world.now += 60 * SECOND;
    world.wake(busy);
    world.run(61 * SECOND);
    assert_eq!(world.excesses.len(), 1);
    // The other connection has little work.
    world.wake(other);
    world.now += SECOND;
    while world.serve(false) != Some(other) {
        world.wake(busy);
    }
    world.wake(busy);
    world.run(597 * SECOND);
    assert_eq!(world.excesses.len(), 1);
    while world.excesses.len() == 1 {
        world.run(MS);
    }
    let [_, Excess::Lasts { origin, epoch }] = world.excesses[..] else {
        panic!("{:?}", world.excesses);
    };
    assert_eq!(origin, MALLORY);
    let excess = |client: usize| world.clients[client].1.excess(epoch);
    assert!(excess(busy) > 100 * SECOND);
    assert_eq!(excess(other), MS);
    // The same happens again to the remaining ones.
    world.run(595 * SECOND);
    assert_eq!(world.excesses.len(), 2);
    world.run(10 * SECOND);
    assert_eq!(world.excesses.len(), 3);
}

#[test]
fn idle_time_is_credited_and_the_user_then_forgotten() {
    let mut world = World::new(Some(CpuAllowance::default()));
    let busy = world.connect(MALLORY, MS);
    world.wake(busy);
    world.run(100 * SECOND);
    assert_eq!(world.excesses.len(), 1);
    while world.schedule.has_work() || world.schedule.next_release().is_some() {
        world.now += SECOND;
        world.serve(false);
    }
    world.now += 60 * SECOND;
    world.wake(busy);
    assert_eq!(world.run(59 * SECOND), 0);
    assert_eq!(world.excesses.len(), 1);
    while world.serve(false).is_some() {}
    world.now += 60 * SECOND;
    let other = world.connect(ALICE, MS);
    world.wake(other);
    world.run(SECOND);
    assert_eq!(world.schedule.users.len(), 1);
}

#[test]
fn time_of_other_programs_and_unrelated_work_belongs_to_no_user() {
    let mut world = World::new(Some(CpuAllowance::default()));
    let client = world.connect(ALICE, 100 * SECOND);
    world.wake(client);
    world.serve(true);
    // Only a tenth of that time was spent in this process.
    let never = |excess| panic!("{excess:?}");
    assert_eq!(world.schedule.deduct(world.now, 10 * SECOND, never), 0);
    world.clients[client].2 = SECOND;
    world.serve(true);
    assert_eq!(
        world.schedule.deduct(world.now, 5 * SECOND, never),
        3 * SECOND
    );
    assert_eq!(world.schedule.deduct(world.now, SECOND, never), SECOND);
}
