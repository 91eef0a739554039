use super::*;
use nvme_spec_types::{Status, StatusCode};

const T0: Duration = Duration::ZERO;

fn controller(io_queues: u16) -> Controller {
    Controller::new(ControllerConfig {
        subnqn: Nqn::new("nqn.2026-11.io.nvmfd:a").unwrap(),
        hostnqn: Nqn::new("nqn.2026-11.io.nvmfd:host").unwrap(),
        hostid: [7; 16],
        admin_entries: 32,
        io_queues,
        io_entries: 128,
        kato_ms: 1000,
        flow_control: true,
        async_events: 1,
    })
}

fn ok(dw0: u32) -> Completion {
    Completion { dw0, ..Completion::default() }
}

fn identify(cntlid: u16) -> Vec<u8> {
    let mut data = vec![0; 4096];
    data[78..80].copy_from_slice(&cntlid.to_le_bytes());
    data[514..516].copy_from_slice(&64u16.to_le_bytes());
    data[1792..1796].copy_from_slice(&260u32.to_le_bytes());
    data
}

/// Answers steps until there is nothing left to answer; returns what was not a plain exchange.
fn play(c: &mut Controller, mut todo: Vec<Step>) -> (Vec<(u16, u16)>, Vec<Step>) {
    let (mut opened, mut rest) = (Vec::new(), Vec::new());
    while !todo.is_empty() {
        let mut out = Vec::new();
        match todo.remove(0) {
            Step::Open { qid, entries, .. } => {
                opened.push((qid, entries));
                c.on_link_up(qid, &mut out);
            }
            Step::Send { purpose, .. } => {
                let (dw0, data) = match purpose {
                    Purpose::Connect(_) => (5, vec![]),
                    Purpose::Capabilities => (127, vec![]),
                    Purpose::Status => (1, vec![]),
                    Purpose::Identify => (0, identify(5)),
                    Purpose::QueueCount => (1 << 16 | 1, vec![]),
                    Purpose::NamespaceList => {
                        let mut list = vec![0; 4096];
                        list[0] = 3;
                        (0, list)
                    }
                    Purpose::Namespace(_) => {
                        let mut ns = vec![0; 4096];
                        ns[1] = 1;
                        ns[130] = 9;
                        (0, ns)
                    }
                    Purpose::AsyncEvent | Purpose::KeepAlive => continue,
                    _ => (0, vec![]),
                };
                c.on_done(T0, purpose, &ok(dw0), &data, &mut out);
            }
            other => rest.push(other),
        }
        todo.extend(out);
    }
    (opened, rest)
}

#[test]
fn a_controller_comes_into_use_with_what_the_target_grants() {
    let mut c = controller(4);
    let mut out = Vec::new();
    c.start(&mut out);
    let (opened, rest) = play(&mut c, out);
    // Two queues granted; MAXCMD of 64 is less than MQES and than what was asked for.
    assert_eq!(opened, [(0, 32), (1, 64), (2, 64)]);
    assert_eq!(rest, [Step::Live]);
    assert_eq!(c.namespaces(), [NamespaceInfo { nsid: 3, blocks: 256, lba_shift: 9 }]);
    assert_eq!(c.info().in_capsule, 4096);
}

#[test]
fn a_refused_connect_fails_with_the_status_in_words() {
    let mut c = controller(1);
    let mut out = Vec::new();
    c.start(&mut out);
    c.on_link_up(0, &mut out);
    out.clear();
    let refused = Completion::new(0, StatusCode::CONNECT_INVALID_HOST.with_dnr());
    c.on_done(T0, Purpose::Connect(0), &refused, &[], &mut out);
    assert!(matches!(&out[..], [Step::Fail(why)] if why.contains("invalid host")));
}

#[test]
fn readiness_is_asked_for_again_until_it_is_there() {
    let mut c = controller(1);
    c.phase = Phase::AwaitReady { look_again: None };
    let mut out = Vec::new();
    c.on_done(T0, Purpose::Status, &ok(0), &[], &mut out);
    c.on_time(T0, &mut out);
    assert_eq!(out, []);
    assert_eq!(c.timeout(), Some(READY_POLL));
    c.on_time(READY_POLL, &mut out);
    assert!(matches!(&out[..], [Step::Send { purpose: Purpose::Status, .. }]));
}

#[test]
fn keep_alive_goes_out_twice_per_timeout() {
    let mut c = controller(1);
    let mut out = Vec::new();
    c.start(&mut out);
    play(&mut c, out);
    let mut sent = 0;
    for ms in (0..=2000).step_by(100) {
        let mut out = Vec::new();
        c.on_time(Duration::from_millis(ms), &mut out);
        sent += out.len();
    }
    assert_eq!(sent, 4);
}

#[test]
fn an_async_event_is_reported_and_its_request_posted_again() {
    let mut c = controller(1);
    let mut out = Vec::new();
    c.start(&mut out);
    play(&mut c, std::mem::take(&mut out));
    c.on_done(T0, Purpose::AsyncEvent, &ok(0x0400_0002), &[], &mut out);
    assert_eq!(out[0], Step::Event(0x0400_0002));
    assert!(matches!(out[1], Step::Send { purpose: Purpose::AsyncEvent, .. }));
    out.clear();
    let full = Completion::new(0, Status::from(StatusCode::AER_LIMIT_EXCEEDED));
    c.on_done(T0, Purpose::AsyncEvent, &full, &[], &mut out);
    assert_eq!(out, []);
}

#[test]
fn another_controller_behind_an_io_queue_is_refused() {
    let mut c = controller(1);
    c.cntlid = 5;
    c.phase = Phase::AwaitIoQueues { to_connect: 1 };
    let mut out = Vec::new();
    c.on_done(T0, Purpose::Connect(1), &ok(6), &[], &mut out);
    assert!(matches!(&out[..], [Step::Fail(_)]));
}

#[test]
fn a_reset_goes_through_not_ready_to_the_same_queues() {
    let mut c = controller(2);
    let mut steps = Vec::new();
    c.start(&mut steps);
    assert_eq!(play(&mut c, steps).0, [(0, 32), (1, 64), (2, 64)]);
    let mut steps = Vec::new();
    c.reset(&mut steps);
    assert!(matches!(steps[..], [Step::Send { purpose: Purpose::Configure, .. }]));
    let mut steps = Vec::new();
    c.on_done(T0, Purpose::Configure, &ok(0), &[], &mut steps);
    let still_ready = 1;
    c.on_done(T0, Purpose::Status, &ok(still_ready), &[], &mut steps);
    assert!(!c.is_disabled() && c.timeout().is_some());
    steps.clear();
    c.on_done(T0, Purpose::Status, &ok(0), &[], &mut steps);
    assert_eq!(steps, [Step::Disabled]);
    assert!(c.is_disabled());
    let mut steps = Vec::new();
    c.enable_again(&mut steps);
    assert_eq!(play(&mut c, steps).0, [(1, 64), (2, 64)], "the admin queue stays");
    assert!(c.is_live() && c.io_queues() == 2);
}

#[test]
fn entries_are_kept_for_what_the_controller_asks_itself() {
    let mut c = controller(0);
    assert_eq!(c.reserve(), 2, "before it is known how many event requests there may be");
    let mut first = Vec::new();
    c.start(&mut first);
    play(&mut c, first);
    assert_eq!(c.reserve(), 3, "a Keep Alive, a property on the way out and an event request");
}
