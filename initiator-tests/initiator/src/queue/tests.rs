use super::*;
use nvme_spec_types::Status;

fn queue(entries: u16, pace: Pace) -> HostQueue<u32> {
    HostQueue::new(QueueShape { qid: 1, entries, in_capsule: 4096, pace })
}

fn response(cid: u16, sqhd: u16) -> [u8; 16] {
    let mut completion = Completion::new(cid, Status::SUCCESS);
    completion.sqhd = sqhd;
    completion.to_bytes()
}

#[test]
fn a_command_ends_when_it_is_both_sent_and_answered() {
    let mut q = queue(4, Pace::Head);
    let a = q.begin(10, vec![]).unwrap();
    let b = q.begin(11, vec![]).unwrap();
    assert_eq!(q.on_sent(HostQueue::<u32>::slot_of(a)), None);
    assert_eq!(q.on_response(&response(a, 1), None).unwrap().unwrap().tag, 10);
    assert_eq!(q.on_response(&response(b, 2), None).unwrap(), None);
    assert_eq!(q.outstanding(), 1);
    assert_eq!(q.on_sent(HostQueue::<u32>::slot_of(b)).unwrap().tag, 11);
    assert_eq!(q.outstanding(), 0);
}

#[test]
fn a_second_response_is_a_violation_before_and_after_the_command_ended() {
    let mut q = queue(4, Pace::Head);
    let a = q.begin(1, vec![]).unwrap();
    q.on_response(&response(a, 1), None).unwrap();
    assert_eq!(q.on_response(&response(a, 1), None), Err(Violation::Duplicate(a)));
    q.on_sent(HostQueue::<u32>::slot_of(a));
    assert_eq!(q.on_response(&response(a, 1), None), Err(Violation::UnknownCid(a)));
}

#[test]
fn a_late_duplicate_does_not_end_the_next_command_of_its_slot() {
    let mut q = queue(2, Pace::Entries);
    let (a, b) = (q.begin(1, vec![]).unwrap(), q.begin(2, vec![]).unwrap());
    for (cid, head) in [(a, 1), (b, 0)] {
        q.on_sent(HostQueue::<u32>::slot_of(cid));
        q.on_response(&response(cid, head), None).unwrap().unwrap();
    }
    let again = q.begin(3, vec![]).unwrap();
    assert_eq!(HostQueue::<u32>::slot_of(again), HostQueue::<u32>::slot_of(a));
    assert_eq!(q.on_response(&response(a, 1), None), Err(Violation::UnknownCid(a)));
}

#[test]
fn a_queue_paced_by_heads_keeps_one_entry_free() {
    let mut q = queue(4, Pace::Head);
    let first = q.begin(0, vec![]).unwrap();
    q.begin(1, vec![]).unwrap();
    q.begin(2, vec![]).unwrap();
    assert!(!q.has_room());
    // All three were consumed, though only one is answered: identifiers are the limit then.
    q.on_response(&response(first, 3), None).unwrap();
    assert!(q.has_room());
    q.begin(3, vec![]).unwrap();
    assert!(!q.has_room());
}

#[test]
fn a_queue_paced_by_entries_fills_them_all() {
    let mut q = queue(4, Pace::Entries);
    assert_eq!((0..5).filter(|&n| q.begin(n, vec![]).is_some()).count(), 4);
}

#[test]
fn heads_that_go_back_or_run_ahead_are_violations() {
    let mut q = queue(8, Pace::Head);
    let cids: Vec<u16> = (0..4).map(|n| q.begin(n, vec![]).unwrap()).collect();
    let head = |r: Result<_, _>| matches!(r, Err(Violation::Head { .. }));
    assert!(head(q.on_response(&response(cids[0], 5), None)), "runs ahead");
    assert!(head(q.on_response(&response(cids[0], 8), None)), "no such entry");
    q.on_response(&response(cids[2], 3), None).unwrap();
    assert!(head(q.on_response(&response(cids[1], 2), None)), "goes back");
    q.on_response(&response(cids[1], 4), None).unwrap();
}

#[test]
fn heads_wrap_at_the_number_of_entries() {
    let mut q = queue(3, Pace::Head);
    for n in 0..10u32 {
        let cid = q.begin(n, vec![]).unwrap();
        q.on_sent(HostQueue::<u32>::slot_of(cid));
        assert!(q.on_response(&response(cid, ((n + 1) % 3) as u16), None).unwrap().is_some());
    }
}

#[test]
fn only_keys_the_command_asked_for_may_be_invalidated() {
    let mut q = queue(4, Pace::Head);
    let a = q.begin(0, vec![7]).unwrap();
    assert_eq!(
        q.on_response(&response(a, 1), Some(8)),
        Err(Violation::Invalidated { rkey: 8, cid: a })
    );
    q.on_response(&response(a, 1), Some(7)).unwrap();
}

#[test]
fn a_response_of_another_length_is_a_violation() {
    let mut q = queue(4, Pace::Head);
    let a = q.begin(0, vec![]).unwrap();
    assert_eq!(q.on_response(&response(a, 1)[..15], None), Err(Violation::Length(15)));
}

#[test]
fn draining_gives_back_every_command_in_the_order_sent() {
    let mut q = queue(4, Pace::Entries);
    for n in 0..3 {
        q.begin(n, vec![]).unwrap();
    }
    assert_eq!(q.drain(), [0, 1, 2]);
    assert_eq!(q.outstanding(), 0);
}
