//! Programs of ProtoVM and the patches they are run on.

use ferretto_protovm::{Outcome, Program, Vm};
use ferretto_wire::Fields;

/// A program (field 1), the state it begins with (2) and any number of patches (3), of one size of
/// memory (4).
pub fn protovm(data: &[u8]) {
    let fields = || Fields::new(data).map_while(Result::ok);
    let bytes = |number| {
        let found = fields().filter(move |field| field.number == number);
        found.filter_map(|field| field.as_bytes())
    };
    let Ok(program) = Program::parse(bytes(1).next().unwrap_or_default()) else {
        return;
    };
    let size = fields().find(|field| field.number == 4);
    let limit = size.and_then(|field| field.as_u64()).unwrap_or(4096) % 65_536;
    let mut vm = Vm::with_state(program.clone(), limit, bytes(2).next().unwrap_or_default());
    for patch in bytes(3) {
        let mut twin = vm.clone();
        let outcome = vm.apply(patch);
        assert_eq!(twin.apply(patch), outcome);
        if let Outcome::Aborted(abort) = outcome {
            assert!(!abort.to_string().is_empty());
            assert!(abort.path().count() <= ferretto_protovm::MAX_DEPTH);
        }
        let state = vm.state();
        assert_eq!(twin.state(), state);
        let program_size = program.as_bytes().len() as u64;
        assert!(vm.memory_usage() <= limit + program_size);
        // Of the numbers no more than the entries that are counted, of the rest no more than the
        // bytes; and the lengths.
        assert!(state.len() as u64 <= 2 * limit + 16);
        let other = Vm::with_state(program.clone(), limit, &state);
        let expected = if state.len() as u64 <= limit {
            &state[..]
        } else {
            &[]
        };
        assert_eq!(other.state(), expected);
    }
}
