//! A target that crashes in every way on purpose: the driver's tests run it. It is not part of a run.

use crate::guard::{self, Edge};
use crate::mutate;
use crate::target::{Outcome, Seed, Target};

/// The target; its first seed is accepted, the others crash.
pub(super) const SELF_TEST: Target = Target { name: "self_test", run, seeds, mutate: mutate::bytes };

fn seeds() -> Vec<Seed> {
    let seed = |name: &str| Seed { name: name.to_owned(), bytes: name.as_bytes().to_vec() };
    ["accepted", "panic", "abort", "memory", "below", "above", "hang"].into_iter().map(seed).collect()
}

fn run(bytes: &[u8]) -> Outcome {
    match bytes {
        b"panic" => assert!(bytes.is_empty(), "a panic on purpose"),
        b"abort" => std::process::abort(),
        b"memory" => drop(std::hint::black_box(vec![1u8; 64 << 30])),
        b"below" => {
            guard::read_outside(Edge::Start);
        }
        b"above" => {
            guard::read_outside(Edge::End);
        }
        b"hang" => loop {
            std::thread::yield_now();
        },
        _ => {}
    }
    Outcome::Accepted
}
