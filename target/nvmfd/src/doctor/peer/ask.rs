//! The asking side: connects, measures, and keeps what came of it.

use super::end::{DATA_LEN, End, Event, MAX_DEPTH};
use super::message::{self, Answer, Ask, Task, Verdict};
use super::times::Spread;
use super::way::{self, Heard, Knock, Way};
use super::{ANSWERING_PORT, Act, Place, with_provider};
use crate::config::Provider;
use nvme_spec_types::rdma_cm::{CmAccept, CmReject, CmRejectStatus, NVME_RDMA_PORT};
use rdma::{
    Access, CmError, CmEvent, ConnectParams, Connector, HostDevice, Now, RemoteAddr, WcStatus,
};
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long connecting may take: a network that loses packets repeats a request meanwhile.
const CONNECT_WITHIN: Duration = Duration::from_secs(6);
/// How much longer than what is asked for an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Bytes of an operation whose time is measured.
pub(super) const SMALL: u32 = 8;
/// Bytes of an operation whose bandwidth is measured.
pub(super) const LARGE: u32 = DATA_LEN / MAX_DEPTH;
/// Times that are measured.
const COUNT: u32 = 1000;
/// How long measuring them may take.
const SMALL_FOR: Duration = Duration::from_secs(1);

/// All that came of a test.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) peer: IpAddr,
    pub(super) way: Result<Way, String>,
    /// What was tried, in order; the last one decides.
    pub(super) tries: Vec<Try>,
    /// What the network said without RDMA.
    pub(super) heard: Heard,
    pub(super) measured: Option<Result<Measured, Trouble>>,
}

/// An attempt to connect.
#[derive(Debug)]
pub(super) struct Try {
    pub(super) at: SocketAddr,
    pub(super) result: Result<Connected, Trouble>,
}

/// Who accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Connected {
    pub(super) to: Listening,
    pub(super) time: Duration,
}

/// Who listens at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listening {
    Doctor,
    /// An NVMe target, with so many entries of an admin queue.
    Target {
        entries: u16,
    },
    Other,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The provider cannot be used: why, and what to do.
    Provider(String),
    /// No request could be sent.
    NotSent(String),
    /// Somebody said no.
    Refused { reason: String, busy: bool, target: Option<CmRejectStatus> },
    /// Nobody answered.
    Silence,
    /// The connection came up and ended.
    Lost(String),
    /// Bytes did not arrive as they were sent.
    WrongData(&'static str),
    /// The peer does not keep to what was agreed.
    Misunderstood,
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Measured {
    /// A message there and an answer back.
    pub(super) send: Spread,
    pub(super) read: Direction,
    pub(super) write: Direction,
    /// Packets that this machine sent, where the provider sees them.
    pub(super) packets_sent: u64,
    /// Those of them that were sent again.
    pub(super) packets_resent: u64,
}

/// RDMA READ or WRITE, by the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Direction {
    /// Operations of [`SMALL`] bytes, one at a time.
    pub(super) small: u64,
    /// How long they took.
    pub(super) latency: Spread,
    /// Operations of [`LARGE`] bytes, several at a time.
    pub(super) large: u64,
    /// What they moved.
    pub(super) bytes_per_s: u64,
}

impl Outcome {
    pub(super) fn measured(&self) -> Option<&Measured> {
        self.measured.as_ref().and_then(|measured| measured.as_ref().ok())
    }

    /// What decides: the last attempt.
    pub(super) fn last(&self) -> Option<&Try> {
        self.tries.last()
    }
}

/// Asks, and measures each bandwidth for `time`.
pub(super) fn outcome(place: Place, provider: Provider, time: Duration) -> Outcome {
    let peer = place.at(0).ip();
    let way = way::to(peer, provider).map_err(|error| error.to_string());
    let mut outcome =
        Outcome { peer, way, tries: Vec::new(), heard: Heard::Nothing, measured: None };
    let Ok(way) = outcome.way.clone() else { return outcome };
    let knock = Knock::at(peer);
    // A port that was given is the only one.
    let ports = match place.port() {
        Some(port) => vec![port],
        None => vec![ANSWERING_PORT, NVME_RDMA_PORT],
    };
    for port in ports {
        let at = place.at(port);
        let asked = with_provider(&way.by, Asking { at, time });
        let (result, measured) = asked.unwrap_or_else(|why| (Err(Trouble::Provider(why)), None));
        outcome.measured = measured;
        let refused = matches!(result, Err(Trouble::Refused { busy: false, .. }));
        outcome.tries.push(Try { at, result });
        if !refused {
            break;
        }
    }
    outcome.heard = knock.heard();
    outcome
}

struct Asking {
    at: SocketAddr,
    time: Duration,
}

impl Act for Asking {
    type Output = (Result<Connected, Trouble>, Option<Result<Measured, Trouble>>);

    fn act<M, D>(self, end: End<M, D>) -> Self::Output
    where
        M: Connector<Endpoint = D::Endpoint>,
        D: HostDevice,
    {
        let Asking { at, time } = self;
        let mut asker = Asker { end, seed: std::process::id() };
        let connected = asker.connect(at);
        let measured = match &connected {
            Ok(Connected { to: Listening::Doctor, .. }) => Some(asker.measure(time)),
            _ => None,
        };
        asker.end.close();
        (connected, measured)
    }
}

struct Asker<M, D> {
    end: End<M, D>,
    seed: u32,
}

impl<M, D> Asker<M, D>
where
    M: Connector<Endpoint = D::Endpoint>,
    D: HostDevice,
{
    fn connect(&mut self, at: SocketAddr) -> Result<Connected, Trouble> {
        let not_sent = |error: CmError| Trouble::NotSent(error.to_string());
        let conn = self.end.open(at).map_err(not_sent)?;
        let params = ConnectParams {
            private_data: message::request_data(),
            initiator_depth: 0,
            responder_resources: MAX_DEPTH as u8,
        };
        let begin = self.end.now();
        self.end.manager().connect(begin, conn, &params).map_err(not_sent)?;
        let deadline = begin + CONNECT_WITHIN;
        loop {
            match self.end.next(deadline) {
                None => return Err(Trouble::Silence),
                Some(Event::Cm(CmEvent::Connected { conn: of, private_data, .. }))
                    if of == conn =>
                {
                    let to = listening(&private_data);
                    return Ok(Connected { to, time: self.end.now() - begin });
                }
                Some(Event::Cm(CmEvent::Refused { reason, private_data, .. })) => {
                    let busy = message::is_busy(&private_data);
                    let target = CmReject::parse(&private_data)
                        .ok()
                        .filter(|reject| !busy && reject.recfmt == 0 && reject.sts.0 != 0);
                    let target = target.map(|reject| reject.sts);
                    return Err(Trouble::Refused { reason, busy, target });
                }
                Some(Event::Cm(CmEvent::Disconnected { reason, .. })) => {
                    return Err(Trouble::Lost(reason));
                }
                // Receives may come back before the refusal is told.
                Some(_) => {}
            }
        }
    }

    fn measure(&mut self, time: Duration) -> Result<Measured, Trouble> {
        let send = self.echoes()?;
        let read = self.direction(Task::Read, time)?;
        let write = self.direction(Task::Write, time)?;
        let (packets_sent, packets_resent) = self.end.packets();
        Ok(Measured { send, read, write, packets_sent, packets_resent })
    }

    fn echoes(&mut self) -> Result<Spread, Trouble> {
        let stop_at = self.end.now() + SMALL_FOR;
        let mut times = Vec::new();
        while times.len() < COUNT as usize && self.end.now() < stop_at {
            let begin = self.end.now();
            let memory = RemoteAddr { addr: 0, rkey: 0 };
            let ask =
                Ask { task: Task::Echo, size: 0, depth: 0, count: 0, millis: 0, memory, seed: 0 };
            self.exchange(&ask)?;
            times.push((self.end.now() - begin).as_nanos() as u64);
        }
        Ok(Spread::of(times))
    }

    fn direction(&mut self, task: Task, time: Duration) -> Result<Direction, Trouble> {
        let small = self.task(task, SMALL, 1, COUNT, SMALL_FOR)?;
        let large = self.task(task, LARGE, MAX_DEPTH, u32::MAX, time)?;
        let bytes = u128::from(large.count) * u128::from(LARGE);
        let bytes_per_s = bytes * 1_000_000_000 / u128::from(large.elapsed_ns.max(1));
        Ok(Direction {
            small: small.count,
            latency: small.spread,
            large: large.count,
            bytes_per_s: u64::try_from(bytes_per_s).unwrap_or(u64::MAX),
        })
    }

    /// Has the peer read or write memory of ours, and looks whether it did.
    fn task(
        &mut self,
        task: Task,
        size: u32,
        depth: u32,
        count: u32,
        time: Duration,
    ) -> Result<Answer, Trouble> {
        self.seed = self.seed.wrapping_add(1);
        let span = End::<M, D>::data(0, size * depth);
        let expected = message::pattern(self.seed, size * depth);
        let access = if task == Task::Read {
            self.end.region().write(span, &expected);
            Access::RemoteRead
        } else {
            self.end.region().fill(span, 0);
            Access::RemoteWrite
        };
        let Some(memory) = self.end.expose(span, access) else {
            return Err(Trouble::NotSent("the device has no key left to open memory".to_owned()));
        };
        let millis = time.as_millis() as u32;
        let ask = Ask { task, size, depth, count, millis, memory, seed: self.seed };
        let answer = self.exchange(&ask)?;
        self.end.unexpose(memory.rkey);
        let mut found = vec![0; expected.len()];
        self.end.region().read(span, &mut found);
        match answer.verdict {
            Verdict::Done if found == expected => Ok(answer),
            Verdict::Done => Err(Trouble::WrongData("WRITE")),
            Verdict::WrongData => Err(Trouble::WrongData("READ")),
            Verdict::OutOfBounds => Err(Trouble::Misunderstood),
        }
    }

    fn exchange(&mut self, ask: &Ask) -> Result<Answer, Trouble> {
        self.end.send(&ask.to_bytes());
        let time = Duration::from_millis(u64::from(ask.millis));
        let deadline: Now = self.end.now() + time + ANSWER_WITHIN;
        loop {
            match self.end.next(deadline) {
                None => return Err(Trouble::Lost("no answer to a question".to_owned())),
                Some(Event::Message(bytes)) => {
                    return Answer::parse(&bytes).ok_or(Trouble::Misunderstood);
                }
                Some(Event::Failed(status)) => return Err(Trouble::Lost(failure(status))),
                Some(Event::Cm(CmEvent::Disconnected { reason, .. })) => {
                    return Err(Trouble::Lost(reason));
                }
                Some(_) => {}
            }
        }
    }
}

/// Who accepts with such private data.
fn listening(private_data: &[u8]) -> Listening {
    if message::is_accept(private_data) {
        return Listening::Doctor;
    }
    match CmAccept::parse(private_data) {
        Ok(accept) if accept.recfmt == 0 && accept.crqsize > 0 => {
            Listening::Target { entries: accept.crqsize }
        }
        _ => Listening::Other,
    }
}

fn failure(status: WcStatus) -> String {
    match status {
        WcStatus::RetryExceeded => "the peer acknowledges nothing any more".to_owned(),
        WcStatus::Flushed => "the connection failed".to_owned(),
        other => format!("a work request failed: {other:?}"),
    }
}
