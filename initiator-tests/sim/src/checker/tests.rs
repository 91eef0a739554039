use super::*;

fn checker(volatile: bool) -> Checker {
    let mut c = Checker::new();
    c.add_disk(8, volatile);
    c
}

/// What the write of `stamp` put into block 0.
fn content(stamp: Stamp) -> Content {
    Content::new(stamp, 0, 0)
}

/// What a read issued now may see in block 0.
fn seen(c: &mut Checker) -> Vec<Stamp> {
    seen_in(c, 0)
}

/// What a read issued now may see in a block, of what was written to block 0.
fn seen_in(c: &mut Checker, lba: u64) -> Vec<Stamp> {
    c.begin(u64::MAX);
    let seen = (0..10).filter(|&s| c.may_read(u64::MAX, 0, lba, content(s))).collect();
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
    assert!(c.may_read(100, 0, 0, content(0)) && c.may_read(100, 0, 0, content(1)));
    assert_eq!(seen(&mut c), [1]);
    assert!(!c.must_read(100, 0, 0, content(1)) && !c.must_read(100, 0, 0, content(0)));
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

/// A copy of block 0 to a block of the same disk.
fn copy(c: &mut Checker, token: u64, to: u64) {
    c.copy(token, 0, to, &[Run { disk: 0, first: 0, count: 1 }], false);
}

#[test]
fn a_copy_that_succeeded_leaves_what_its_source_held() {
    let mut c = checker(false);
    write(&mut c, 1);
    c.write_ended(1, Ending::Success);
    copy(&mut c, 2, 5);
    assert_eq!(seen_in(&mut c, 5), [0, 1], "while it is under way");
    c.write_ended(2, Ending::Success);
    assert_eq!(seen_in(&mut c, 5), [1]);
    write(&mut c, 3);
    c.write_ended(3, Ending::Success);
    assert_eq!(seen_in(&mut c, 5), [1], "the source has nothing to do with it any more");
    assert_eq!((c.copies_to(0, 5), c.copies_to(0, 0)), (1, 0));
}

#[test]
fn a_copy_that_failed_leaves_each_block_old_or_new() {
    let mut c = checker(false);
    write(&mut c, 1);
    c.write_ended(1, Ending::Success);
    copy(&mut c, 2, 5);
    c.write_ended(2, Ending::Failure);
    assert_eq!(seen_in(&mut c, 5), [0, 1]);
    copy(&mut c, 3, 6);
    c.write_ended(3, Ending::Refused);
    assert_eq!(seen_in(&mut c, 6), [0]);
}

#[test]
fn what_is_written_to_its_source_meanwhile_may_be_copied_on_through_others() {
    let mut c = checker(false);
    copy(&mut c, 1, 5);
    c.copy(2, 0, 6, &[Run { disk: 0, first: 5, count: 1 }], false);
    write(&mut c, 3);
    c.write_ended(3, Ending::Success);
    c.write_ended(2, Ending::Success);
    c.write_ended(1, Ending::Success);
    assert_eq!((seen_in(&mut c, 5), seen_in(&mut c, 6)), (vec![0, 3], vec![0, 3]));
    write(&mut c, 4);
    assert_eq!(seen_in(&mut c, 5), [0, 3], "it came too late");
}

#[test]
fn a_copy_takes_its_sources_one_after_the_other() {
    let mut c = checker(false);
    c.write(1, 0, &[(0, 2)], 1, false, false);
    c.write_ended(1, Ending::Success);
    let sources = [Run { disk: 0, first: 1, count: 1 }, Run { disk: 0, first: 0, count: 2 }];
    c.copy(2, 0, 4, &sources, false);
    c.write_ended(2, Ending::Success);
    c.begin(9);
    for (lba, home) in [(4, 1), (5, 0), (6, 1)] {
        assert!(c.must_read(9, 0, lba, Content::new(1, 0, home)), "block {lba}");
        assert_eq!(c.guess(0, lba), Content::new(1, 0, home));
    }
}

/// Block 0 holds 1; a pair that replaces it by 3 is issued, and then another write, 4.
fn pair_and_write(c: &mut Checker) {
    write(c, 1);
    c.write_ended(1, Ending::Success);
    c.begin(2);
    write(c, 3);
    write(c, 4);
}

fn pair_ended(c: &mut Checker) {
    c.compared(2, 3, 0, 0, content(1));
    c.end(2);
    c.write_ended(3, Ending::Success);
}

#[test]
fn a_write_at_the_time_of_a_pair_comes_after_it() {
    let mut c = checker(false);
    pair_and_write(&mut c);
    pair_ended(&mut c);
    assert_eq!(seen(&mut c), [3, 4]);
    c.write_ended(4, Ending::Success);
    assert_eq!(seen(&mut c), [4], "in between it would have been lost");
    let mut c = checker(false);
    pair_and_write(&mut c);
    c.write_ended(4, Ending::Success);
    pair_ended(&mut c);
    assert_eq!(seen(&mut c), [4], "whichever is answered first");
}

#[test]
fn a_write_that_may_not_have_happened_tells_nothing_of_a_pair() {
    for ending in [Ending::Failure, Ending::Unknown] {
        let mut c = checker(false);
        pair_and_write(&mut c);
        c.write_ended(4, ending);
        pair_ended(&mut c);
        assert_eq!(seen(&mut c), [3, 4], "{ending:?}");
    }
}

#[test]
fn what_a_pair_found_orders_nothing_where_it_could_have_come_twice() {
    let mut c = checker(false);
    write(&mut c, 1);
    c.write_ended(1, Ending::Success);
    copy(&mut c, 5, 1);
    c.write_ended(5, Ending::Success);
    // It comes back.
    c.begin(2);
    c.copy(6, 0, 0, &[Run { disk: 0, first: 1, count: 1 }], false);
    write(&mut c, 3);
    write(&mut c, 4);
    c.write_ended(4, Ending::Success);
    c.write_ended(6, Ending::Success);
    pair_ended(&mut c);
    assert_eq!(seen(&mut c), [1, 3, 4]);
}

#[test]
fn a_pair_while_its_disk_is_under_two_backings_orders_nothing() {
    // The move is over before the pair ends, or not, or before the pair begins, but not the write.
    let nothing: fn(&mut Checker) = |_| {};
    let begins: fn(&mut Checker) = |c| c.moves(0);
    let ends: fn(&mut Checker) = |c| c.moved(0);
    let steps = [[begins, ends, nothing], [begins, nothing, ends], [nothing, begins, ends]];
    for (case, [before, between, after]) in steps.into_iter().enumerate() {
        let mut c = checker(false);
        before(&mut c);
        pair_and_write(&mut c);
        between(&mut c);
        c.write_ended(4, Ending::Success);
        pair_ended(&mut c);
        after(&mut c);
        assert_eq!(seen(&mut c), [3, 4], "case {case}");
    }
    let mut c = checker(false);
    write(&mut c, 1);
    c.write_ended(1, Ending::Success);
    c.moves(0);
    write(&mut c, 4);
    c.moved(0);
    c.begin(2);
    write(&mut c, 3);
    c.write_ended(4, Ending::Success);
    pair_ended(&mut c);
    assert_eq!(seen(&mut c), [3, 4], "the write went to the backing that was left");
    c.begin(2);
    assert!(c.stayed_since(2, 0));
}
