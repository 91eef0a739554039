//! What fuzzing found stays found.

use fuzz::{TARGETS, corpus, run};
use std::time::Duration;

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
    };
    let found = run::fuzz(&target, Duration::from_secs(20), 1);
    let _ = std::fs::remove_file(corpus::path(target.name));
    assert_eq!(found.unwrap().broken, Some(vec![0xff, 0xff]));
}
