use super::*;
use crate::{Backing, BackingSpec, Ring, RingConfig};
use region::{Pages, Region};
use std::sync::Arc;

const DISK: BackingId = BackingId(3);
const MS: Duration = Duration::from_millis(1);

/// A RAM disk, whose operations end at once, with faults.
fn rig(seed: u64, faults: Faults) -> Faulty<Ring> {
    let region = Arc::new(Region::map(1 << 20, Pages::Normal).unwrap());
    let mut io = Faulty::new(Ring::new(RingConfig::default(), region).unwrap(), seed);
    io.add(DISK, Backing::open(&BackingSpec::ram(1 << 20)).unwrap());
    io.set(DISK, faults);
    io
}

fn request(op: IoOp, offset: u64, len: u32, tag: u64) -> IoRequest {
    let buffer = if op == IoOp::Flush { Span::default() } else { Span::new(0, len) };
    IoRequest { backing: DISK, op, offset, len: len.into(), buffer, tag }
}

fn poll(io: &mut Faulty<Ring>, now: Duration) -> Vec<(u64, Result<(), IoError>)> {
    let mut out = Vec::new();
    io.flush(now);
    assert_eq!(io.poll(now, &mut out), out.len());
    out.iter().map(|done| (done.tag, done.result)).collect()
}

fn rule(class: Class, when: When) -> ErrorRule {
    ErrorRule { class, when, error: IoError::ReadFault, torn: false }
}

#[test]
fn without_faults_operations_pass_with_their_tags() {
    let mut io = rig(1, Faults::default());
    io.submit(MS, request(IoOp::Read, 0, 512, 77));
    io.submit(MS, request(IoOp::Read, 1 << 20, 512, 78));
    assert_eq!(poll(&mut io, MS), [(77, Ok(())), (78, Err(IoError::OutOfRange))]);
    assert_eq!(io.in_flight(), 0);
}

#[test]
fn a_delay_is_kept_and_announced() {
    let mut io = rig(1, Faults { delay: 5 * MS, ..Default::default() });
    io.submit(MS, request(IoOp::Read, 0, 512, 1));
    assert_eq!(poll(&mut io, 5 * MS), []);
    assert_eq!(io.timeout(), Some(6 * MS));
    assert_eq!(io.in_flight(), 1);
    assert_eq!(poll(&mut io, 6 * MS), [(1, Ok(()))]);
    assert_eq!((io.timeout(), io.in_flight()), (None, 0));
}

#[test]
fn jitter_reorders_the_same_way_for_one_seed() {
    let order = |seed| {
        let mut io = rig(seed, Faults { jitter: 10 * MS, ..Default::default() });
        (0..50).for_each(|tag| io.submit(MS, request(IoOp::Read, 0, 512, tag)));
        poll(&mut io, 11 * MS).iter().map(|done| done.0).collect::<Vec<_>>()
    };
    let sorted: Vec<u64> = (0..50).collect();
    assert_eq!(order(7).len(), 50);
    assert_eq!(order(7), order(7));
    assert_ne!(order(7), order(8));
    assert_ne!(order(7), sorted);
}

#[test]
fn every_nth_fails_within_its_class_only() {
    let third = When::EveryNth(NonZeroU32::new(3).unwrap());
    let mut io = rig(1, Faults { rules: vec![rule(Class::Reads, third)], ..Default::default() });
    for tag in 0..6 {
        io.submit(MS, request(IoOp::Read, 0, 512, tag));
        io.submit(MS, request(IoOp::Write { fua: false }, 0, 512, 100 + tag));
    }
    let failed: Vec<u64> =
        poll(&mut io, MS).iter().filter(|done| done.1.is_err()).map(|done| done.0).collect();
    assert_eq!(failed, [2, 5]);
}

#[test]
fn a_bad_range_fails_what_touches_it() {
    let when = When::Range { offset: 4096, len: 512 };
    let mut io = rig(1, Faults { rules: vec![rule(Class::All, when)], ..Default::default() });
    for (tag, offset, len) in [(1, 0, 4096), (2, 0, 8192), (3, 4096, 512), (4, 4608, 512)] {
        io.submit(MS, request(IoOp::Read, offset, len, tag));
    }
    io.submit(MS, request(IoOp::Flush, 0, 0, 5));
    let mut failed: Vec<u64> =
        poll(&mut io, MS).iter().filter(|done| done.1.is_err()).map(|done| done.0).collect();
    failed.sort_unstable();
    assert_eq!(failed, [2, 3]);
}

#[test]
fn chance_fails_about_one_in_n() {
    let one_in = When::OneIn(NonZeroU32::new(10).unwrap());
    let mut io = rig(5, Faults { rules: vec![rule(Class::All, one_in)], ..Default::default() });
    (0..1000).for_each(|tag| io.submit(MS, request(IoOp::Read, 0, 512, tag)));
    let failed = poll(&mut io, MS).iter().filter(|done| done.1.is_err()).count();
    assert!((50..200).contains(&failed), "{failed}");
}

#[test]
fn a_torn_write_leaves_its_first_half_and_any_other_failure_nothing() {
    let when = When::Range { offset: 0, len: 1 << 20 };
    for (torn, expected) in [(true, 7), (false, 0)] {
        let mut faults = Faults { rules: vec![rule(Class::Writes, when)], ..Default::default() };
        faults.rules[0].torn = torn;
        let mut io = rig(1, faults);
        let region = Arc::clone(io.inner().region());
        region.fill(Span::new(0, 16384), 7);
        io.submit(MS, request(IoOp::Write { fua: false }, 0, 16384, 1));
        assert_eq!(poll(&mut io, MS), [(1, Err(IoError::ReadFault))]);
        io.submit(MS, request(IoOp::Read, 0, 16384, 2));
        assert_eq!(poll(&mut io, MS), [(2, Ok(()))]);
        let mut got = vec![1; 16384];
        region.read(Span::new(0, 16384), &mut got);
        assert!(got[..8192].iter().all(|byte| *byte == expected));
        assert!(got[8192..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_stuck_backing_does_nothing_until_it_is_released() {
    let mut io = rig(1, Faults::default());
    io.stick(DISK);
    let region = Arc::clone(io.inner().region());
    region.fill(Span::new(0, 512), 7);
    io.submit(MS, request(IoOp::Read, 0, 512, 1));
    io.submit(MS, request(IoOp::Flush, 0, 0, 2));
    assert_eq!(poll(&mut io, 1000 * MS), []);
    assert_eq!((io.in_flight(), io.timeout()), (2, None));
    let mut byte = [0];
    region.read(Span::new(0, 1), &mut byte);
    assert_eq!(byte, [7], "the buffer is untouched");
    io.release(1000 * MS, DISK);
    assert_eq!(poll(&mut io, 1000 * MS), [(1, Ok(())), (2, Ok(()))]);
    assert_eq!(io.in_flight(), 0);
}
