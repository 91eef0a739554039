//! What fuzzing found stays found.

use fuzz::{TARGETS, corpus, mutate, run};
use std::time::Duration;

/// Inputs that are made of the corpus of the controller's fuzzer.
const NEW_INPUTS: usize = 400;

#[test]
fn the_corpus_breaks_no_promise() {
    for target in &TARGETS {
        let inputs = corpus::read(target.name).unwrap();
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for input in inputs {
            let features = run::attempt(target, &input);
            assert!(features.is_some(), "{} --input {}", target.name, corpus::to_hex(&input));
        }
    }
}

#[test]
fn new_inputs_break_no_promise() {
    let target = fuzz::target("capsules").unwrap();
    let mut pool = corpus::read(target.name).unwrap();
    pool.push(Vec::new());
    let mut dice = mutate::Dice::new(7);
    for _ in 0..NEW_INPUTS {
        let (old, other) = (dice.below(pool.len()), dice.below(pool.len()));
        let (op_len, max_len) = (target.op_len, target.max_len);
        let input = mutate::change(&mut dice, &pool[old], &pool[other], op_len, max_len);
        let features = run::attempt(target, &input);
        assert!(features.is_some(), "{} --input {}", target.name, corpus::to_hex(&input));
        pool.push(input);
    }
}

#[test]
fn hexadecimal_digits_go_both_ways() {
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(corpus::from_hex(&corpus::to_hex(&bytes)).unwrap(), bytes);
    assert!(corpus::from_hex("0g").is_err() && corpus::from_hex("0").is_err());
}

#[test]
fn a_broken_promise_is_found_and_shortened() {
    let target = fuzz::Target {
        name: "does-not-exist",
        try_input: |input| {
            assert!(!input.windows(2).any(|pair| pair == [0xff, 0xff]), "two of them");
            vec![u32::from(input.contains(&0xff))]
        },
        op_len: 1,
        max_len: 64,
        summary: None,
    };
    let found = run::fuzz(&target, Duration::from_secs(20), 1);
    let _ = std::fs::remove_file(corpus::path(target.name));
    assert_eq!(found.unwrap().broken, Some(vec![0xff, 0xff]));
}
