use super::*;

const STEPS: u64 = 1_500;

fn first_failure(seeds: std::ops::Range<u64>, fault: Fault) -> Option<String> {
    // A planted fault may well end in an assertion of the code under test.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let failure = seeds.into_iter().find_map(|seed| {
        let world = || World::new(seed, Some(fault), false).run(STEPS);
        match std::panic::catch_unwind(world) {
            Ok(result) => result.err(),
            Err(_) => Some("an assertion".to_owned()),
        }
    });
    std::panic::set_hook(hook);
    failure
}

#[test]
fn a_few_seeds_pass() {
    for seed in 0..8 {
        let report = World::new(seed, None, false).run(STEPS);
        assert!(report.is_ok(), "seed {seed}: {report:?}");
    }
}

#[test]
fn a_seed_runs_the_same_way_twice() {
    let run = |seed| World::new(seed, None, false).run(STEPS).unwrap();
    let (first, second) = (run(11), run(11));
    assert_eq!(first, second);
    assert_ne!(first, run(12));
}

#[test]
fn every_planted_fault_is_found() {
    for &(name, fault) in Fault::ALL {
        assert!(first_failure(0..60, fault).is_some(), "{name} went unnoticed");
    }
}
