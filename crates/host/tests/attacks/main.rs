//! Attacks on a service from processes of other users, beside an honest producer and an honest
//! consumer.
//!
//! Each attack is a test with a file of its own, which the list below names. The service must
//! survive, serve the honest clients in time, and release memory. The measurements are printed
//! (`cargo test -p ferretto-host --test attacks -- --nocapture`). Attacks are short, unless
//! `ATTACK_MS` sets the duration of each.
//!
//! If the tests run as root, the attackers are other users, and the service is root's.

#[path = "../it/common/mod.rs"]
mod common;
mod frame;
mod honest;
mod service;

/// Declares the file and the test of each attack, and the table by which its process finds it.
macro_rules! attacks {
    ($($name:ident)*) => {
        $(mod $name;)*

        const ATTACKS: &[(&str, &frame::Attack)] = &[$((stringify!($name), &$name::ATTACK)),*];

        mod attack {
            $(
                #[test]
                fn $name() {
                    super::frame::run(stringify!($name), &super::$name::ATTACK);
                }
            )*
        }
    };
}

attacks! {
    deep_ids
    descriptors
    expensive_configs
    filled_memory
    flapping_sources
    floods
    lingering
    replayed_chunks
    sparse_memory
    unfinished_frames
    vanishing_memory
}

/// The service, in a process of its own.
#[test]
fn service_main() {
    service::main();
}

/// An attacker, in a process of its own.
#[test]
fn attacker_main() {
    frame::attacker_main();
}
