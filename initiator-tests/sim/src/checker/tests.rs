use super::*;

fn checker(volatile: bool) -> Checker {
    let mut c = Checker::new();
    c.add_disk(8, volatile);
    c
}

/// What a read issued now may see in block 0.
fn seen(c: &mut Checker) -> Vec<Stamp> {
    c.begin(u64::MAX);
    let seen = (0..10).filter(|&s| c.may_read(u64::MAX, 0, 0, s)).collect();
    c.end(u64::MAX);
    seen
}

fn write(c: &mut Checker, token: u64) {
    c.write(token, 0, &[(0, 1)], token, false, false);
}

#[test]
fn a_write_that_succeeded_is_what_is_read() {
    let mut c = checker(false);
    write(&mut c, 1);
    assert_eq!(seen(&mut c), [0, 1], "while it is under way");
    c.write_ended(1, Ending::Success);
    assert_eq!(seen(&mut c), [1]);
}

#[test]
fn a_failed_write_leaves_both_values_and_a_later_one_settles_it() {
    let mut c = checker(false);
    write(&mut c, 1);
    c.write_ended(1, Ending::Failure);
    assert_eq!(seen(&mut c), [0, 1]);
    write(&mut c, 2);
    c.write_ended(2, Ending::Success);
    assert_eq!(seen(&mut c), [2]);
}

#[test]
fn a_write_that_was_refused_leaves_nothing() {
    let mut c = checker(true);
    write(&mut c, 1);
    c.write_ended(1, Ending::Refused);
    assert_eq!(seen(&mut c), [0]);
    c.power_was_cut();
    assert_eq!(seen(&mut c), [0]);
}

#[test]
fn of_two_writes_at_once_either_may_come_last() {
    let mut c = checker(false);
    write(&mut c, 1);
    write(&mut c, 2);
    c.write_ended(1, Ending::Success);
    assert_eq!(seen(&mut c), [1, 2]);
    c.write_ended(2, Ending::Success);
    assert_eq!(seen(&mut c), [1, 2]);
    write(&mut c, 3);
    c.write_ended(3, Ending::Success);
    assert_eq!(seen(&mut c), [3]);
}

#[test]
fn a_write_of_a_lost_connection_may_happen_until_it_is_over() {
    let mut c = checker(false);
    write(&mut c, 1);
    c.write_ended(1, Ending::Unknown);
    write(&mut c, 2);
    c.write_ended(2, Ending::Success);
    assert_eq!(seen(&mut c), [1, 2]);
    c.orphans_are_over();
    assert_eq!(seen(&mut c), [1, 2]);
    write(&mut c, 3);
    c.write_ended(3, Ending::Success);
    assert_eq!(seen(&mut c), [3]);
}

#[test]
fn a_read_may_see_what_was_overwritten_after_it_began() {
    let mut c = checker(false);
    c.begin(100);
    write(&mut c, 1);
    c.write_ended(1, Ending::Success);
    assert!(c.may_read(100, 0, 0, 0) && c.may_read(100, 0, 0, 1));
    assert_eq!(seen(&mut c), [1]);
    assert!(!c.must_read(100, 0, 0, 1) && !c.must_read(100, 0, 0, 0));
}

#[test]
fn a_power_cut_brings_back_what_was_not_flushed() {
    let mut c = checker(true);
    for token in 1..=2 {
        write(&mut c, token);
        c.write_ended(token, Ending::Success);
    }
    c.begin(50);
    write(&mut c, 3);
    c.write_ended(3, Ending::Success);
    c.flushed(50, &[0]);
    assert_eq!(seen(&mut c), [3]);
    c.power_was_cut();
    assert_eq!(seen(&mut c), [2, 3], "the flush began before the last write");
}

#[test]
fn a_write_with_unit_access_does_not_go_away_in_a_power_cut() {
    let mut c = checker(true);
    write(&mut c, 1);
    c.write_ended(1, Ending::Success);
    c.write(2, 0, &[(0, 1)], 2, true, false);
    c.write_ended(2, Ending::Success);
    c.power_was_cut();
    assert_eq!(seen(&mut c), [2]);
}

#[test]
fn a_deallocated_block_holds_what_it_held_or_zeroes() {
    let mut c = checker(false);
    write(&mut c, 1);
    c.write_ended(1, Ending::Success);
    c.write(2, 0, &[(0, 1)], 0, false, true);
    c.write_ended(2, Ending::Success);
    assert_eq!(seen(&mut c), [0, 1]);
}

#[test]
fn a_durable_write_that_ends_late_does_not_hide_what_was_flushed_meanwhile() {
    let mut c = checker(true);
    // The durable write is carried out first; its answer is long on the way.
    c.write(9, 0, &[(0, 1)], 9, true, false);
    write(&mut c, 1);
    c.write_ended(1, Ending::Success);
    write(&mut c, 2);
    c.write_ended(2, Ending::Success);
    c.write_ended(9, Ending::Success);
    c.power_was_cut();
    assert_eq!(seen(&mut c), [1, 2, 9], "a flush may have caught 1 before 2 came");
}
