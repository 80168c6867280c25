//! Hostile clients.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use ferretto_heap::ring::{Mapping, Writer};
use ferretto_heap::wire::record;
use ferretto_testing::Random;

use crate::ring_client::{self, OWN, free, granted, malloc, offer, write};
use crate::world::{World, end, every, with_program};

fn hello(world: &World, byte: u8, files: &[&str]) -> UnixStream {
    ring_client::hello(&world.socket(), byte, files).expect("it listens")
}

#[test]
fn heap_020_only_the_processs_own_files_are_accepted() {
    let world = World::new();
    let consumer = world.begin(&every(1));
    for files in [
        &["/proc/self/maps", "/dev/null"][..],
        &["/proc/self/mem", "/proc/self/maps"],
        &["/proc/1/maps", "/proc/self/mem"],
        &["/proc/self/maps"],
        &[],
    ] {
        // The maps of other processes may be unreadable for this user.
        if files.iter().all(|file| File::open(file).is_ok()) {
            assert!(granted(&hello(&world, b'x', files)).is_none(), "{files:?}");
        }
    }
    assert!(granted(&hello(&world, b'x', &OWN)).is_some());
    end(consumer);
}

#[test]
fn heap_018_corrupt_rings_are_reported_and_affect_no_other_client() {
    with_program(|world| {
        let consumer = world.begin(&every(1));
        let mut stream = hello(&world, b'x', &OWN);
        let ring = granted(&stream).expect("a session");
        let mapping = Mapping::new(ring.as_raw_fd()).expect("a ring");
        let base = mapping.range().0 as *mut u64;
        let writer = Writer::new(mapping);
        assert!(!writer.is_extended(), "the client did not request it");
        write(&writer, &[7; 400]);
        write(&writer, &[0; 3]);
        write(&writer, &malloc(1, 4, &[0xa5; 5000]));
        // SAFETY: the second word of the ring's page, which is mapped by the writer.
        unsafe { base.add(2).write_volatile(u64::MAX) };
        rustix::io::write(&stream, b"x").expect("it listens");
        // The profiler hangs up.
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
        world.run(&["leak", "10"]);
        let recorded = end(consumer);
        let own = recorded.last(std::process::id(), "");
        assert!(own.is_corrupt);
        let other = recorded.dumps().iter().find(|dump| dump.pid != own.pid);
        let other = other.expect("the other program");
        assert!(!other.is_corrupt);
        assert_eq!(recorded.sums(other, "leaked").allocated, 3000);
    });
}

#[test]
fn heap_027_registers_of_an_unknown_machine_are_reported() {
    let world = World::new();
    let consumer = world.begin(&every(1));
    let stream = hello(&world, b'x', &OWN);
    let ring = granted(&stream).expect("a session");
    let writer = Writer::new(Mapping::new(ring.as_raw_fd()).expect("a ring"));
    write(&writer, &malloc(1, 0, &[]));
    drop((stream, writer));
    let recorded = end(consumer);
    let dump = recorded.last(std::process::id(), "");
    assert_eq!(dump.rows().len(), 1);
    let interned = recorded.packets.iter().map(|packet| &packet.interned_data);
    let mut names = interned.flat_map(|interned| &interned.function_names);
    assert!(names.any(|name| name.str.as_deref() == Some(b"ERROR READING REGISTERS")));
    let packets = crate::packets::profile_packets(&recorded.packets);
    let dumps = packets.iter().flat_map(|packet| &packet.process_dumps);
    let errors = dumps.filter_map(|dump| dump.stats.unwinding_errors);
    assert_eq!(errors.max(), Some(1));
}

#[test]
fn heap_018_false_stacks_do_not_stop_the_profiler() {
    with_program(|world| {
        let consumer = world.begin(&every(1));
        let stream = hello(&world, b'f', &OWN);
        let ring = granted(&stream).expect("a session");
        let writer = Writer::new(Mapping::new(ring.as_raw_fd()).expect("a ring"));
        assert!(writer.is_extended());
        let mut random = Random(0x1234_5678_9abc_def1);
        let own = std::ptr::from_ref(&random) as u64;
        for sequence in 1..1500 {
            let length = random.next() % 3000;
            let stack: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            let mut bytes = malloc(sequence, 4, &stack);
            // Registers: arbitrary values, addresses of this process, the ends of the address
            // space.
            for register in 5..39 {
                let value = match random.next() % 4 {
                    0 => random.next(),
                    1 => own.wrapping_add(random.next() % 65536),
                    2 => own_function as *const () as u64 + random.next() % 64,
                    _ => u64::MAX - random.next() % 16,
                };
                bytes[8 + register * 8..][..8].copy_from_slice(&value.to_ne_bytes());
            }
            bytes[8 + 320..][..8].copy_from_slice(&(1_u64 | 4 << 32).to_ne_bytes());
            if random.next().is_multiple_of(2) && length >= 8 {
                // A chain of frame pointers, with cycles.
                bytes[..8].copy_from_slice(&record::MALLOC_WITH_CHAIN.to_ne_bytes());
                let count = random.next() % (length / 8);
                bytes[8 + 328..][..8].copy_from_slice(&count.to_ne_bytes());
            }
            while writer.free() < bytes.len() as u64 + 64 {
                rustix::io::write(&stream, b"x").expect("it listens");
                std::thread::yield_now();
            }
            write(&writer, &bytes);
        }
        world.run(&["leak", "10"]);
        drop((stream, writer));
        let recorded = end(consumer);
        let own = recorded.last(std::process::id(), "");
        let samples: u64 = own
            .rows()
            .iter()
            .map(|(_, row)| row.allocated.samples)
            .sum();
        assert_eq!(samples, 1499, "each sample is counted");
        let other = recorded.dumps().iter().find(|dump| dump.pid != own.pid);
        let other = other.expect("the other program");
        assert_eq!(recorded.sums(other, "leaked").allocated, 3000);
    });
}

fn own_function() {}

#[test]
fn heap_017_a_flooding_client_does_not_block_others() {
    with_program(|world| {
        let consumer = world.begin(&every(1));
        let stream = hello(&world, b'f', &OWN);
        let ring = granted(&stream).expect("a session");
        let writer = Writer::new(Mapping::new(ring.as_raw_fd()).expect("a ring"));
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let bytes = malloc(1, 0, &[]);
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let written = writer.write(bytes.len(), |to| {
                        // SAFETY: `to` has space for as many bytes.
                        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
                    });
                    if written.is_err() {
                        let _ = rustix::io::write(&stream, b"x");
                    }
                }
            });
            world.run(&["leak", "500"]);
            let recorded = end(consumer);
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            let own = std::process::id() as i32;
            let other = recorded.dumps().iter().find(|dump| dump.pid != own);
            let other = other.expect("the other program");
            assert_eq!(recorded.sums(other, "leaked").allocated, 150_000);
            assert_eq!(recorded.sums(other, "passing").live(), 0);
        });
    });
}

#[test]
fn heap_018_a_client_that_is_gone_cannot_keep_the_profiler_busy() {
    with_program(|world| {
        let consumer = world.begin(&every(1));
        let stream = hello(&world, b'f', &OWN);
        let ring = granted(&stream).expect("a session");
        let writer = Writer::new(Mapping::new(ring.as_raw_fd()).expect("a ring"));
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let changed = record::MAPS_CHANGED.to_ne_bytes();
        while offer(&writer, &stream, &changed) {}
        rustix::net::shutdown(&stream, rustix::net::Shutdown::Both).expect("a socket");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        offer(&writer, &stream, &changed);
                    }
                });
            }
            world.run(&["leak", "10"]);
            let recorded = end(consumer);
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            let own = std::process::id() as i32;
            let other = recorded.dumps().iter().find(|dump| dump.pid != own);
            let other = other.expect("the other program");
            assert_eq!(recorded.sums(other, "leaked").allocated, 3000);
        });
    });
}

#[test]
fn heap_018_a_client_with_too_many_waiting_operations_is_ended() {
    with_program(|world| {
        let consumer = world.begin(&every(1));
        let mut stream = hello(&world, b'x', &OWN);
        let ring = granted(&stream).expect("a session");
        let writer = Writer::new(Mapping::new(ring.as_raw_fd()).expect("a ring"));
        stream.set_nonblocking(true).expect("a socket");
        // Those with odd numbers never come.
        let mut frees = (1..).map(|number: u64| free(2 * number, 16));
        let mut bytes = frees.next().expect("endless");
        let is_ended = |stream: &mut UnixStream| matches!(stream.read(&mut [0]), Ok(0));
        for count in 0_u32.. {
            if offer(&writer, &stream, &bytes) {
                bytes = frees.next().expect("endless");
            } else if is_ended(&mut stream) {
                break;
            }
            assert!(count < 100_000_000, "it is not ended");
        }
        world.run(&["leak", "10"]);
        let recorded = end(consumer);
        let own = recorded.last(std::process::id(), "");
        assert!(own.hit_guardrail, "{own:?}");
        let other = recorded.dumps().iter().find(|dump| dump.pid != own.pid);
        let other = other.expect("the other program");
        assert_eq!(recorded.sums(other, "leaked").allocated, 3000);
    });
}

#[test]
fn a_control_page_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give a file to another user");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("heapprofd.sock");
    let page = folder.path().join("heapprofd.sock.page");
    std::fs::write(&page, [0; 4096]).expect("a file");
    std::os::unix::fs::chown(&page, Some(65534), Some(65534)).expect("root");
    let options = ferretto_heapprofd::Options {
        socket: Some(socket),
        ..ferretto_heapprofd::Options::default()
    };
    let error = ferretto_heapprofd::Profiler::new(options).expect_err("it is refused");
    assert!(
        format!("{error}").contains("belongs to another user"),
        "{error}"
    );
}

#[test]
fn a_control_page_with_another_name_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let private = folder.path().join("private");
    std::fs::write(&private, "a secret").expect("a file");
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&private, mode).expect("its owner may");
    let socket = folder.path().join("heapprofd.sock");
    std::fs::hard_link(&private, folder.path().join("heapprofd.sock.page")).expect("a link");
    let options = ferretto_heapprofd::Options {
        socket: Some(socket),
        ..ferretto_heapprofd::Options::default()
    };
    let error = ferretto_heapprofd::Profiler::new(options).expect_err("it is refused");
    assert!(format!("{error}").contains("with other names"), "{error}");
    let found = std::fs::metadata(&private).expect("it is there");
    assert_eq!(
        (found.len(), found.permissions().mode() & 0o777),
        (8, 0o600)
    );
}
