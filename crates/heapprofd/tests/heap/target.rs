//! A Rust program that uses our allocator if compiled with it.

#[cfg(carries_client)]
#[global_allocator]
static ALLOCATOR: ferretto_heap::Allocator = ferretto_heap::Allocator::new();

#[inline(never)]
fn leaked() {
    std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(1000)));
    std::mem::forget(std::hint::black_box(Box::new([0_u64; 50])));
}

#[inline(never)]
fn passing() -> usize {
    let mut text = String::new();
    for number in 0..100 {
        text.push_str(&number.to_string());
    }
    let zeros = vec![0_u8; 5000];
    std::hint::black_box(&zeros);
    text.len()
}

fn main() {
    let threads: Vec<_> = (0..4)
        .map(|_| std::thread::spawn(|| (0..50).map(|_| passing()).sum::<usize>()))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    (0..10).for_each(|_| leaked());
}
