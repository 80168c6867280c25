//! Tests with hand-made ring-buffer pages: layout, time, errors, bundles.

mod compact;
mod generic;
mod kprobes;
mod records;
mod support;
mod symbols;

use compact::{compact_plan, switch_record};
use ferretto_testing::Random;
use generic::generic_plan;
use support::*;

#[test]
fn the_parser_never_panics() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut random = || random.next();
    let mut plans = [compact_plan(), generic_plan(false), generic_plan(true)];
    for plan in &mut plans {
        plan.set_action(0, Action::Event(Arc::new(free_event())));
    }
    let good = PageBuilder::new(1000)
        .record(5, &switch_record("a", 1, 11))
        .long_record(5, &free_record(1))
        .time_extend(1 << 30)
        .padding(1, 16)
        .record(5, &switch_record("b", -1, 22))
        .build();
    for round in 0..3000 {
        let mut page = good.clone();
        for _ in 0..1 + random() % 8 {
            let at = random() as usize % 280;
            page[at] = random() as u8;
        }
        if round % 3 == 0 {
            page.truncate(random() as usize % 300);
        }
        let plan = &plans[round % plans.len()];
        parse_with(plan, &[page, good.clone()], &mut CpuState::default());
    }
}
