use super::*;
use crate::psn::Psn;
use crate::wire::cm::Message;
use rdma::ConnId;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const TARGET: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Two machines and the time; messages are moved by hand.
struct Pair {
    now: Duration,
    host: Machine,
    target: Machine,
}

impl Pair {
    fn new() -> Pair {
        let (host, target) = (Machine::new([1; 32]), Machine::new([2; 32]));
        Pair { now: ms(1000), host, target }
    }

    fn open(&mut self, qpn: u32) -> ConnId {
        let open = ActiveOpen {
            local: HOST,
            to: SocketAddr::new(TARGET, 4420),
            qpn,
            starting_psn: Psn::new(7),
            mtu_code: 5,
            traffic_class: 0,
            responder_resources: 16,
            initiator_depth: 0,
            private_data: b"request".to_vec(),
        };
        let conn = self.host.open(&open);
        assert!(self.host.connect(self.now, conn, &open));
        conn
    }

    fn hand_to_target(&mut self, message: Datagram) {
        self.target.on_mad(self.now, message.to, message.from, message.mad, |at| at.port() == 4420);
    }

    fn hand_to_host(&mut self, message: Datagram) {
        self.host.on_mad(self.now, message.to, message.from, message.mad, |_| false);
    }

    /// Moves everything that is on its way.
    fn deliver(&mut self) {
        loop {
            if let Some(message) = self.host.poll_transmit() {
                self.hand_to_target(message);
            } else if let Some(message) = self.target.poll_transmit() {
                self.hand_to_host(message);
            } else {
                return;
            }
        }
    }

    fn request(&mut self) -> ConnId {
        match self.target.poll_event() {
            Some(Event::Request { conn, req, .. }) => {
                assert_eq!(req.private_data[..7], *b"request");
                conn
            }
            other => panic!("{other:?}"),
        }
    }

    fn accept(&mut self, conn: ConnId) {
        let reply = Reply {
            qpn: 0x301,
            starting_psn: Psn::new(9),
            responder_resources: 0,
            initiator_depth: 16,
            rnr_retry: 7,
            private_data: b"accept".to_vec(),
        };
        assert!(self.target.accept(self.now, conn, reply));
    }

    fn connected(&mut self) -> (ConnId, ConnId) {
        let ours = self.open(0x201);
        self.deliver();
        let theirs = self.request();
        self.accept(theirs);
        self.deliver();
        let event = self.host.poll_event();
        assert!(matches!(event, Some(Event::Accepted { conn, ref rep })
            if conn == ours && rep.qpn == 0x301 && rep.private_data[..6] == *b"accept"));
        assert_eq!(self.target.poll_event(), Some(Event::Established(theirs)));
        (ours, theirs)
    }

    /// Lets time pass in steps, delivering nothing.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += ms(10);
            self.host.on_time(self.now);
            self.target.on_time(self.now);
        }
    }
}

#[test]
fn connects_and_disconnects() {
    let mut p = Pair::new();
    let (ours, theirs) = p.connected();
    p.host.disconnect(p.now, ours);
    p.deliver();
    assert!(matches!(p.target.poll_event(), Some(Event::Ended { conn, .. }) if conn == theirs));
    assert_eq!(p.host.poll_event(), None);
    p.pass(ms(11_000));
    assert_eq!((p.host.len(), p.target.len()), (0, 0));
}

#[test]
fn every_lost_message_is_repeated() {
    let mut p = Pair::new();
    p.open(0x201);
    p.host.poll_transmit().expect("the request, lost");
    p.pass(ms(150));
    p.deliver(); // its repeat
    let theirs = p.request();
    p.accept(theirs);
    p.target.poll_transmit().expect("the reply, lost");
    p.pass(ms(150));
    let again = p.target.poll_transmit().expect("the reply again");
    p.hand_to_host(again);
    p.host.poll_transmit().expect("the RTU, lost");
    p.pass(ms(300));
    p.deliver(); // the reply once more, and the RTU to it
    assert!(matches!(p.host.poll_event(), Some(Event::Accepted { .. })));
    assert_eq!(p.target.poll_event(), Some(Event::Established(theirs)));
    assert_eq!(p.host.poll_event(), None);
}

#[test]
fn a_repeated_request_is_one_connection_and_gets_the_same_reply() {
    let mut p = Pair::new();
    p.open(0x201);
    let request = p.host.poll_transmit().unwrap();
    p.hand_to_target(request.clone());
    p.hand_to_target(request.clone());
    let theirs = p.request();
    assert_eq!(p.target.poll_event(), None);
    p.accept(theirs);
    let first = p.target.poll_transmit().unwrap();
    p.hand_to_target(request);
    assert_eq!(p.target.poll_transmit(), Some(first));
}

#[test]
fn a_peer_that_never_answers_is_given_up() {
    let mut p = Pair::new();
    let ours = p.open(0x201);
    let start = p.now;
    p.pass(ms(20_000));
    assert!(matches!(p.host.poll_event(), Some(Event::Refused { conn, .. }) if conn == ours));
    assert!(p.now > start + ms(10_000));
    let mut p = Pair::new();
    p.open(0x201);
    p.deliver();
    let theirs = p.request();
    p.accept(theirs);
    p.pass(ms(20_000));
    assert!(matches!(p.target.poll_event(), Some(Event::Ended { conn, .. }) if conn == theirs));
}

#[test]
fn a_reject_reaches_the_host_and_its_repeat_is_answered_alike() {
    let mut p = Pair::new();
    let ours = p.open(0x201);
    let request = p.host.poll_transmit().unwrap();
    p.hand_to_target(request.clone());
    let theirs = p.request();
    p.target.reject(p.now, theirs, &[0, 0, 6, 0]);
    p.target.poll_transmit().expect("the reject, lost");
    p.hand_to_target(request);
    p.deliver();
    match p.host.poll_event() {
        Some(Event::Refused { conn, private_data, .. }) => {
            assert_eq!((conn, &private_data[..4]), (ours, &[0, 0, 6, 0][..]));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nobody_listens_and_a_flood_are_refused_within_bounds() {
    let mut p = Pair::new();
    p.open(0x201);
    let request = p.host.poll_transmit().unwrap();
    p.target.on_mad(p.now, TARGET, HOST, request.mad.clone(), |_| false);
    assert!(matches!(p.target.poll_transmit().unwrap().mad.message, Message::Rej(_)));
    assert_eq!(p.target.len(), 0);
    let Message::Req(req) = request.mad.message.clone() else { unreachable!() };
    for i in 0..MAX_HALF_OPEN as u32 + 50 {
        let mut req = req.clone();
        (req.local_comm_id, req.qpn) = (i + 1, i + 1);
        let mad = crate::wire::cm::Mad { transaction: 1, message: Message::Req(req) };
        let from = IpAddr::from([10, 1, 0, (i % 8) as u8]);
        p.target.on_mad(p.now, TARGET, from, mad, |_| true);
    }
    assert_eq!(p.target.len(), MAX_HALF_OPEN);
}

#[test]
fn a_host_that_began_anew_replaces_its_old_connection() {
    let mut p = Pair::new();
    let (_, old) = p.connected();
    // The host was reset: the same queue pair number and GUID, another connection.
    p.host = Machine::new([1; 32]);
    p.host.open(&ActiveOpen {
        local: HOST,
        to: SocketAddr::new(TARGET, 1),
        qpn: 0,
        starting_psn: Psn::new(0),
        mtu_code: 1,
        traffic_class: 0,
        responder_resources: 0,
        initiator_depth: 0,
        private_data: Vec::new(),
    });
    p.open(0x201);
    p.deliver();
    assert!(matches!(p.target.poll_event(), Some(Event::Ended { conn, .. }) if conn == old));
    let new = p.request();
    p.accept(new);
    p.deliver();
    assert_eq!(p.target.poll_event(), Some(Event::Established(new)));
}

#[test]
fn messages_from_the_wrong_address_or_with_wrong_ids_do_nothing() {
    let mut p = Pair::new();
    let (ours, _) = p.connected();
    p.host.disconnect(p.now, ours);
    let goodbye = p.host.poll_transmit().unwrap();
    let stranger: IpAddr = "10.0.0.9".parse().unwrap();
    p.target.on_mad(p.now, TARGET, stranger, goodbye.mad.clone(), |_| true);
    assert_eq!(p.target.poll_event(), None);
    let Message::Dreq { local_comm_id, remote_comm_id, qpn } = goodbye.mad.message else {
        unreachable!()
    };
    for (a, b, qpn) in [
        (local_comm_id ^ 1, remote_comm_id, qpn),
        (local_comm_id, remote_comm_id ^ 1, qpn),
        (local_comm_id, remote_comm_id, qpn ^ 1),
    ] {
        let message = Message::Dreq { local_comm_id: a, remote_comm_id: b, qpn };
        let mad = crate::wire::cm::Mad { transaction: 5, message };
        p.target.on_mad(p.now, TARGET, HOST, mad, |_| true);
        assert_eq!(p.target.poll_event(), None);
    }
    p.hand_to_target(goodbye);
    assert!(matches!(p.target.poll_event(), Some(Event::Ended { .. })));
}

#[test]
fn a_disconnect_of_a_forgotten_connection_is_answered() {
    let mut p = Pair::new();
    let (ours, _) = p.connected();
    p.target = Machine::new([3; 32]);
    p.host.disconnect(p.now, ours);
    p.deliver();
    p.pass(ms(50));
    assert_eq!(p.host.poll_transmit(), None, "not repeated");
}

#[test]
fn more_time_is_given_when_asked_for() {
    let mut p = Pair::new();
    let ours = p.open(0x201);
    let request = p.host.poll_transmit().unwrap();
    let Message::Req(req) = &request.mad.message else { unreachable!() };
    // About 4.3 s for the answer to the request.
    let message = Message::Mra {
        local_comm_id: 77,
        remote_comm_id: req.local_comm_id,
        answered: crate::wire::cm::Answered::Req,
        timeout: 20,
    };
    let mad = crate::wire::cm::Mad { transaction: request.mad.transaction, message };
    p.host.on_mad(p.now, HOST, TARGET, mad, |_| false);
    p.pass(ms(4000));
    assert_eq!(p.host.poll_transmit(), None);
    p.pass(ms(500));
    assert!(p.host.poll_transmit().is_some());
    p.host.disconnect(p.now, ours);
    p.pass(ms(11_000));
    assert_eq!(p.host.len(), 0);
}

/// A request as a peer sends it, to be changed and sent again.
fn request_of(p: &mut Pair) -> crate::wire::cm::Req {
    p.open(0x201);
    match p.host.poll_transmit().unwrap().mad.message {
        Message::Req(req) => *req,
        other => panic!("{other:?}"),
    }
}

fn flood(p: &mut Pair, req: &crate::wire::cm::Req, from: IpAddr, ids: std::ops::Range<u32>) {
    for i in ids {
        let mut req = req.clone();
        (req.local_comm_id, req.qpn) = (i, i);
        let mad = crate::wire::cm::Mad { transaction: 1, message: Message::Req(Box::new(req)) };
        p.target.on_mad(p.now, TARGET, from, mad, |_| true);
    }
}

#[test]
fn one_host_that_floods_leaves_room_for_another() {
    let mut p = Pair::new();
    let req = request_of(&mut p);
    flood(&mut p, &req, HOST, 1..MAX_HALF_OPEN as u32 + 50);
    p.target.audit();
    assert_eq!(p.target.len(), MAX_HALF_OPEN_OF_PEER);
    let other: IpAddr = "10.0.0.3".parse().unwrap();
    flood(&mut p, &req, other, 1..2);
    assert_eq!(p.target.len(), MAX_HALF_OPEN_OF_PEER + 1);
}

#[test]
fn requests_that_nobody_decides_are_refused_and_forgotten() {
    let mut p = Pair::new();
    let req = request_of(&mut p);
    flood(&mut p, &req, HOST, 1..201);
    while p.target.poll_transmit().is_some() {}
    while let Some(event) = p.target.poll_event() {
        assert!(matches!(event, Event::Request { .. }));
    }
    p.pass(ms(20_100));
    let ended = std::iter::from_fn(|| p.target.poll_event());
    assert_eq!(ended.filter(|event| matches!(event, Event::Ended { .. })).count(), 200);
    let refused = std::iter::from_fn(|| p.target.poll_transmit());
    assert!(refused.take(200).all(|out| matches!(out.mad.message, Message::Rej(_))));
    p.target.audit();
    p.pass(ms(10_000));
    assert_eq!((p.target.len(), p.target.timeout()), (0, None));
}

#[test]
fn a_flood_that_is_rejected_is_remembered_within_bounds() {
    let mut p = Pair::new();
    let req = request_of(&mut p);
    for round in 0..40 {
        flood(&mut p, &req, HOST, 1 + round * 500..501 + round * 500);
        while let Some(Event::Request { conn, .. }) = p.target.poll_event() {
            p.target.reject(p.now, conn, &[]);
        }
        while p.target.poll_transmit().is_some() {}
    }
    p.target.audit();
    assert_eq!(p.target.len(), MAX_REMEMBERED);
    p.pass(ms(11_000));
    assert_eq!(p.target.len(), 0);
}

#[test]
fn the_passive_side_may_disconnect_too() {
    let mut p = Pair::new();
    let (ours, theirs) = p.connected();
    p.target.disconnect(p.now, theirs);
    p.deliver();
    assert!(matches!(p.host.poll_event(), Some(Event::Ended { conn, .. }) if conn == ours));
    p.pass(ms(11_000));
    assert_eq!((p.host.len(), p.target.len()), (0, 0));
}

#[test]
fn a_queue_pair_number_given_only_with_the_request_is_known_to_a_disconnect() {
    let mut p = Pair::new();
    let mut open = ActiveOpen {
        local: HOST,
        to: SocketAddr::new(TARGET, 4420),
        qpn: 0,
        starting_psn: Psn::new(7),
        mtu_code: 5,
        traffic_class: 0,
        responder_resources: 16,
        initiator_depth: 0,
        private_data: b"request".to_vec(),
    };
    let ours = p.host.open(&open);
    open.qpn = 0x201;
    assert!(p.host.connect(p.now, ours, &open));
    p.deliver();
    let theirs = p.request();
    p.accept(theirs);
    p.deliver();
    p.host.poll_event().expect("accepted");
    p.target.disconnect(p.now, theirs);
    p.deliver();
    assert!(matches!(p.host.poll_event(), Some(Event::Ended { conn, .. }) if conn == ours));
}

#[test]
fn a_peer_cannot_put_off_its_answer_for_ever() {
    let mut p = Pair::new();
    p.open(0x201);
    p.deliver();
    let theirs = p.request();
    p.accept(theirs);
    let Message::Rep(rep) = p.target.poll_transmit().unwrap().mad.message else { unreachable!() };
    let message = Message::Mra {
        local_comm_id: rep.remote_comm_id,
        remote_comm_id: rep.local_comm_id,
        answered: crate::wire::cm::Answered::Rep,
        timeout: 31,
    };
    let mad = crate::wire::cm::Mad { transaction: 1, message };
    for _ in 0..30 {
        p.target.on_mad(p.now, TARGET, HOST, mad.clone(), |_| true);
        p.pass(ms(10_000));
    }
    assert!(matches!(p.target.poll_event(), Some(Event::Ended { conn, .. }) if conn == theirs));
    assert_eq!(p.target.len(), 0);
}

#[test]
fn what_we_gave_up_is_not_confirmed_but_refused() {
    let mut p = Pair::new();
    let ours = p.open(0x201);
    let request = p.host.poll_transmit().unwrap();
    p.hand_to_target(request.clone());
    let theirs = p.request();
    p.host.disconnect(p.now, ours);
    p.accept(theirs);
    p.deliver(); // the reply, to which the host says no
    assert!(matches!(p.target.poll_event(), Some(Event::Ended { conn, .. }) if conn == theirs));
    // And the target says no to a late repeat of the request.
    p.hand_to_target(request);
    let answer = p.target.poll_transmit().unwrap();
    assert!(matches!(answer.mad.message, Message::Rej(_)), "{answer:?}");
}

#[test]
fn a_reply_to_a_request_that_was_not_sent_is_ignored() {
    let mut p = Pair::new();
    let (ours, _) = p.connected();
    let _ = ours;
    // A connection that is opened and not connected has an id that a peer may guess.
    let id = p.host.open(&ActiveOpen {
        local: HOST,
        to: SocketAddr::new(TARGET, 4420),
        qpn: 0,
        starting_psn: Psn::new(0),
        mtu_code: 1,
        traffic_class: 0,
        responder_resources: 0,
        initiator_depth: 0,
        private_data: Vec::new(),
    });
    let guessed = p.host.comm_id(id);
    let rep = crate::wire::cm::Rep {
        local_comm_id: 5,
        remote_comm_id: guessed,
        qpn: 9,
        starting_psn: Psn::new(0),
        responder_resources: 0,
        initiator_depth: 0,
        rnr_retry: 0,
        ca_guid: 1,
        private_data: [0; 196],
    };
    let mad = crate::wire::cm::Mad { transaction: 1, message: Message::Rep(Box::new(rep)) };
    p.host.on_mad(p.now, HOST, TARGET, mad, |_| false);
    assert_eq!((p.host.poll_event(), p.host.poll_transmit()), (None, None));
    p.host.abandon(id);
    p.host.audit();
}

#[test]
fn an_abandoned_connection_is_forgotten_and_the_peer_told() {
    let mut p = Pair::new();
    let (ours, theirs) = p.connected();
    p.host.abandon(ours);
    assert_eq!(p.host.len(), 0);
    p.deliver();
    assert!(matches!(p.target.poll_event(), Some(Event::Ended { conn, .. }) if conn == theirs));
    p.host.audit();
    p.target.audit();
}

#[test]
fn a_request_for_more_time_does_not_wake_what_has_ended() {
    let mut p = Pair::new();
    p.open(0x201);
    p.deliver();
    let theirs = p.request();
    p.accept(theirs);
    let Message::Rep(rep) = p.target.poll_transmit().unwrap().mad.message else { unreachable!() };
    p.pass(ms(12_000));
    assert!(matches!(p.target.poll_event(), Some(Event::Ended { .. })));
    while p.target.poll_transmit().is_some() {}
    let message = Message::Mra {
        local_comm_id: rep.remote_comm_id,
        remote_comm_id: rep.local_comm_id,
        answered: crate::wire::cm::Answered::Rep,
        timeout: 1,
    };
    let mad = crate::wire::cm::Mad { transaction: 1, message };
    p.target.on_mad(p.now, TARGET, HOST, mad, |_| true);
    p.target.audit();
    p.pass(ms(10_000));
    assert_eq!((p.target.len(), p.target.poll_transmit()), (0, None));
}
