//! The answering side: one asker at a time, whose questions are bounded.

use super::end::{DATA_LEN, End, Event, MAX_DEPTH};
use super::message::{self, Answer, Ask, Task, Verdict};
use super::times::Spread;
use super::{Act, Choice};
use rdma::{AcceptParams, CmEvent, ConnectRequest, Connector, HostDevice, Now, RemoteAddr, SendOp};
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

/// How long an asker may say nothing.
const SILENCE: Duration = Duration::from_secs(20);
/// How long one question may keep us at work, whatever it says.
const LONGEST: Duration = Duration::from_secs(30);
/// Operations whose times are kept.
const MAX_TIMES: usize = 1 << 20;

/// Answers at an address until the process is ended, or cannot.
pub(super) struct Answering<'a> {
    pub(super) address: SocketAddr,
    pub(super) choice: &'a Choice,
}

/// Why a conversation or a listener is over.
struct Over(String);

impl Act for Answering<'_> {
    /// Why it cannot go on.
    type Output = String;

    fn act<M, D>(self, end: End<M, D>) -> String
    where
        M: Connector<Endpoint = D::Endpoint>,
        D: HostDevice,
    {
        let Answering { address, choice } = self;
        let mut server = Server { end };
        let Over(why) = server.run(address, choice);
        why
    }
}

struct Server<M, D> {
    end: End<M, D>,
}

impl<M, D> Server<M, D>
where
    M: Connector<Endpoint = D::Endpoint>,
    D: HostDevice,
{
    fn run(&mut self, address: SocketAddr, choice: &Choice) -> Over {
        let now = self.end.now();
        if let Err(error) = self.end.manager().listen(now, address) {
            return Over(error.to_string());
        }
        loop {
            let until = self.end.now() + SILENCE;
            match self.end.next(until) {
                Some(Event::Cm(CmEvent::ListenerUp { .. })) => {
                    tell(&format!("answering at {address}, by {choice}; end it with Ctrl-C"));
                }
                Some(Event::Cm(CmEvent::ListenerDown { reason, .. })) => {
                    return Over(format!("cannot answer at {address}: {reason}"));
                }
                Some(Event::Cm(CmEvent::Request(request))) => {
                    let peer = request.peer.ip();
                    let Over(why) = self.converse(&request);
                    tell(&format!("{peer}: {why}"));
                    if !self.end.close() {
                        return Over("the device gave work requests back too late".to_owned());
                    }
                }
                _ => {}
            }
        }
    }

    /// One asker, from its request to its end. The connection is left to be closed.
    fn converse(&mut self, request: &ConnectRequest) -> Over {
        if !message::is_greeting(&request.private_data) {
            let now = self.end.now();
            self.end.manager().reject(now, request.conn, &[]);
            return Over("asked for something else than a doctor".to_owned());
        }
        match self.accept(request) {
            Ok(()) => {}
            Err(error) => {
                let now = self.end.now();
                self.end.manager().reject(now, request.conn, &[]);
                return Over(format!("cannot be answered: {error}"));
            }
        }
        let mut answered = 0;
        loop {
            let until = self.end.now() + SILENCE;
            let result = match self.next(until) {
                Ok(Some(Event::Message(bytes))) => match Ask::parse(&bytes) {
                    Some(ask) => self.answer(&ask),
                    None => Err(Over("said what is no question".to_owned())),
                },
                Ok(Some(_)) => Ok(()),
                Ok(None) => Err(Over("said nothing for too long".to_owned())),
                Err(Over(why)) => return Over(format!("{answered} questions answered; {why}")),
            };
            match result {
                Ok(()) => answered += 1,
                Err(over) => return over,
            }
        }
    }

    fn accept(&mut self, request: &ConnectRequest) -> Result<(), rdma::CmError> {
        self.end.prepare(request.conn)?;
        let params = AcceptParams {
            private_data: message::accept_data(),
            initiator_depth: request.responder_resources.min(MAX_DEPTH as u8),
            responder_resources: 0,
            rnr_retry: 7,
        };
        let now = self.end.now();
        self.end.manager().accept(now, request.conn, &params)
    }

    /// The next thing that happens to the conversation; others who come meanwhile are sent away.
    fn next(&mut self, until: Now) -> Result<Option<Event>, Over> {
        loop {
            return match self.end.next(until) {
                Some(Event::Cm(CmEvent::Request(other))) => {
                    let now = self.end.now();
                    self.end.manager().reject(now, other.conn, &message::busy_data());
                    continue;
                }
                Some(Event::Cm(CmEvent::Disconnected { conn, reason }))
                    if self.end.is_ours(conn) =>
                {
                    Err(Over(format!("the connection ended: {reason}")))
                }
                Some(Event::Cm(CmEvent::ListenerDown { reason, .. })) => Err(Over(reason)),
                Some(Event::Cm(_)) => continue,
                Some(Event::Failed(status)) => Err(Over(format!("a work request: {status:?}"))),
                other => Ok(other),
            };
        }
    }

    fn answer(&mut self, ask: &Ask) -> Result<(), Over> {
        let answer = if ask.task == Task::Echo {
            Answer { verdict: Verdict::Done, count: 1, elapsed_ns: 0, spread: Spread::default() }
        } else if within_bounds(ask) {
            self.carry_out(ask)?
        } else {
            let spread = Spread::default();
            Answer { verdict: Verdict::OutOfBounds, count: 0, elapsed_ns: 0, spread }
        };
        self.end.send(&answer.to_bytes());
        Ok(())
    }

    /// Reads or writes the asker's memory, as often and for as long as was asked.
    fn carry_out(&mut self, ask: &Ask) -> Result<Answer, Over> {
        let reads = ask.task == Task::Read;
        let depth = if reads { ask.depth.min(self.end.max_reads()) } else { ask.depth };
        let depth = depth.min(ask.count);
        let span = End::<M, D>::data(0, ask.size * depth);
        let expected = message::pattern(ask.seed, ask.size * depth);
        if reads {
            self.end.region().fill(span, 0);
        } else {
            self.end.region().write(span, &expected);
        }
        let begin = self.end.now();
        let stop_at = begin + Duration::from_millis(u64::from(ask.millis)).min(LONGEST);
        // A peer that does not answer at all is found out by the transport.
        let give_up_at = stop_at + LONGEST;
        let mut times = Vec::new();
        let mut begun = [Now::ZERO; MAX_DEPTH as usize];
        let (mut started, mut done) = (0, 0);
        let mut free: Vec<u32> = (0..depth).collect();
        let mut last = begin;
        loop {
            // Each place is used once at least: what is in all of them is looked at in the end.
            while let Some(slot) =
                free.pop_if(|_| started < depth || (started < ask.count && last < stop_at))
            {
                let offset = slot * ask.size;
                let addr = ask.memory.addr.wrapping_add(u64::from(offset));
                let remote = RemoteAddr { addr, rkey: ask.memory.rkey };
                let op = if reads { SendOp::Read { remote } } else { SendOp::Write { remote } };
                begun[slot as usize] = self.end.now();
                self.end.begin(slot, op, End::<M, D>::data(offset, ask.size));
                started += 1;
            }
            if done == started {
                break;
            }
            match self.next(give_up_at)? {
                Some(Event::Carried { slot }) => {
                    last = self.end.now();
                    if times.len() < MAX_TIMES {
                        times.push((last - begun[slot as usize]).as_nanos() as u64);
                    }
                    done += 1;
                    free.push(slot);
                }
                Some(Event::Message(_)) => return Err(Over("spoke out of turn".to_owned())),
                Some(_) => {}
                None => return Err(Over("its memory does not answer".to_owned())),
            }
        }
        let mut found = vec![0; expected.len()];
        self.end.region().read(span, &mut found);
        let verdict = if found == expected { Verdict::Done } else { Verdict::WrongData };
        let elapsed_ns = (last - begin).as_nanos() as u64;
        Ok(Answer { verdict, count: u64::from(done), elapsed_ns, spread: Spread::of(times) })
    }
}

fn within_bounds(ask: &Ask) -> bool {
    let all = u64::from(ask.size) * u64::from(ask.depth);
    ask.size > 0
        && all <= u64::from(DATA_LEN)
        && (1..=MAX_DEPTH).contains(&ask.depth)
        && ask.count > 0
}

fn tell(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
