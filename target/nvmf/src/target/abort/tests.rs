use super::super::tests::*;
use super::*;
use nvme_spec_types::AdminOpcode;

fn abort(sqid: u16, cid: u16) -> Command {
    let mut command = admin_command(AdminOpcode::ABORT, 77);
    command.set_cdw10(u32::from(sqid) | u32::from(cid) << 16);
    command
}

/// The aborts that cores were asked for; forgets the other actions.
fn asked(bench: &mut Bench) -> Vec<(QueueKey, u16, AbortToken)> {
    let asked = |action| match action {
        TargetAction::Abort { queue, cid, token } => Some((queue, cid, token)),
        _ => None,
    };
    bench.out.drain(..).filter_map(asked).collect()
}

#[test]
fn aborting_a_held_event_request_ends_it() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    let slot = bench.feed(admin, &admin_command(AdminOpcode::ASYNC_EVENT_REQUEST, 5), &[]);
    assert_eq!(bench.run(admin, &abort(0, 5), &[]), Outcome::ok());
    let held = bench.answer(admin, slot).unwrap();
    assert_eq!(held, Outcome::error(StatusCode::ABORT_REQUESTED.into()));
    assert_eq!(bench.run(admin, &abort(0, 5), &[]), Outcome::result(1));
}

#[test]
fn aborting_what_is_not_there_says_that_nothing_was_aborted() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    assert_eq!(bench.run(admin, &abort(3, 5), &[]), Outcome::result(1));
    assert_eq!(bench.run(admin, &abort(0xffff, 5), &[]), Outcome::result(1));
}

#[test]
fn aborting_an_io_command_is_answered_as_its_core_says() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.ready();
    let io = bench.io_queue(cntlid, 2).unwrap();
    for (stopped, result) in [(true, 0), (false, 1)] {
        let slot = bench.feed(admin, &abort(2, 0xbeef), &[]);
        assert_eq!(bench.answer(admin, slot), None);
        let [(queue, cid, token)] = asked(&mut bench)[..] else { panic!() };
        assert_eq!((queue, cid), (io, 0xbeef));
        bench.target.on_abort_done(bench.now, token, stopped, &mut bench.out);
        assert_eq!(bench.answer(admin, slot), Some(Outcome::result(result)));
        bench.target.on_abort_done(bench.now, token, stopped, &mut bench.out);
        assert!(bench.out.is_empty());
    }
}

#[test]
fn a_fifth_outstanding_abort_is_over_the_limit() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.ready();
    bench.io_queue(cntlid, 1).unwrap();
    for cid in 0..4 {
        bench.feed(admin, &abort(1, cid), &[]);
    }
    let tokens = asked(&mut bench);
    let outcome = bench.run(admin, &abort(1, 9), &[]);
    assert_eq!(outcome.status.code, StatusCode::ABORT_COMMAND_LIMIT_EXCEEDED);
    assert!(!outcome.status.dnr);
    bench.target.on_abort_done(bench.now, tokens[0].2, true, &mut bench.out);
    let slot = bench.feed(admin, &abort(1, 9), &[]);
    assert_eq!(bench.answer(admin, slot), None);
}

#[test]
fn an_abort_ends_with_the_queue_it_is_aimed_at() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.ready();
    let io = bench.io_queue(cntlid, 1).unwrap();
    let slot = bench.feed(admin, &abort(1, 1), &[]);
    let token = asked(&mut bench)[0].2;
    bench.target.on_queue_closed(bench.now, io, &mut bench.out);
    assert_eq!(bench.answer(admin, slot), Some(Outcome::result(1)));
    bench.target.on_abort_done(bench.now, token, true, &mut bench.out);
    assert!(bench.out.is_empty());
}

#[test]
fn an_abort_is_forgotten_with_its_controller() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.ready();
    bench.io_queue(cntlid, 1).unwrap();
    bench.feed(admin, &abort(1, 1), &[]);
    let token = asked(&mut bench)[0].2;
    bench.target.on_queue_closed(bench.now, admin, &mut bench.out);
    assert!(matches!(bench.out[..], [TargetAction::Close { .. }]), "{:?}", bench.out);
    bench.out.clear();
    bench.target.on_abort_done(bench.now, token, true, &mut bench.out);
    assert!(bench.out.is_empty());
}
