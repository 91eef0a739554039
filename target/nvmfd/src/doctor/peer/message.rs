//! What the two sides of a test say to each other. Numbers are little endian.

use super::times::Spread;
use nvme_spec_types::ZeroBased;
use nvme_spec_types::rdma_cm::{CmRequest, RECFMT};
use rdma::RemoteAddr;

/// Bytes of a message, in both directions.
pub(super) const MESSAGE_LEN: usize = 64;

/// What both sides greet each other with, the last byte but one being the version.
const GREETING: [u8; 16] = *b"nvmfd doctor 1\0\0";
/// What another asker is told in the meantime.
const BUSY: [u8; 16] = *b"nvmfd doctor: 1\0";

/// Where the greeting stands in a request: behind what an NVMe host says.
const BEHIND: usize = 32;

/// Private data of a connection request: an NVMe host's for an admin queue, and a greeting.
pub(super) fn request_data() -> Vec<u8> {
    let request = CmRequest {
        recfmt: RECFMT,
        qid: 0,
        hrqsize: 32,
        hsqsize: ZeroBased::<u16>::saturating(32),
        cntlid: 0,
    };
    let mut data = request.to_bytes().to_vec();
    data.extend(GREETING);
    data
}

/// Whether a connection request is from a doctor.
pub(super) fn is_greeting(private_data: &[u8]) -> bool {
    private_data.get(BEHIND..BEHIND + GREETING.len()) == Some(&GREETING[..])
}

/// Private data of an accept.
pub(super) fn accept_data() -> Vec<u8> {
    GREETING.to_vec()
}

/// Whether an accept is from a doctor.
pub(super) fn is_accept(private_data: &[u8]) -> bool {
    private_data.starts_with(&GREETING)
}

/// Private data of a reject while another asks.
pub(super) fn busy_data() -> Vec<u8> {
    BUSY.to_vec()
}

/// Whether a reject is of a doctor at work.
pub(super) fn is_busy(private_data: &[u8]) -> bool {
    private_data.starts_with(&BUSY)
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// An answer, and nothing else.
    Echo,
    /// RDMA READs from the asker's memory.
    Read,
    /// RDMA WRITEs to the asker's memory.
    Write,
}

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) task: Task,
    /// Bytes of each operation.
    pub(super) size: u32,
    /// Operations outstanding at a time.
    pub(super) depth: u32,
    /// End after so many.
    pub(super) count: u32,
    /// End after so many milliseconds.
    pub(super) millis: u32,
    /// The asker's memory: `size` bytes for each of `depth` operations, one behind the other.
    pub(super) memory: RemoteAddr,
    /// What decides about the bytes that are to be found there, or to be put there.
    pub(super) seed: u32,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Done,
    /// The question is out of bounds.
    OutOfBounds,
    /// The bytes that were read are not those that the asker has.
    WrongData,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) verdict: Verdict,
    /// Operations done.
    pub(super) count: u64,
    /// From the first one's begin to the last one's end.
    pub(super) elapsed_ns: u64,
    pub(super) spread: Spread,
}

const ASK: [u8; 4] = *b"ask1";
const ANSWER: [u8; 4] = *b"ans1";

impl Ask {
    pub(super) fn to_bytes(self) -> [u8; MESSAGE_LEN] {
        let mut bytes = [0; MESSAGE_LEN];
        bytes[..4].copy_from_slice(&ASK);
        bytes[4] = self.task as u8;
        let numbers = [self.size, self.depth, self.count, self.millis, self.seed, self.memory.rkey];
        for (at, number) in numbers.into_iter().enumerate() {
            bytes[8 + at * 4..12 + at * 4].copy_from_slice(&number.to_le_bytes());
        }
        bytes[32..40].copy_from_slice(&self.memory.addr.to_le_bytes());
        bytes
    }

    /// `None` when it is no question of this version.
    pub(super) fn parse(bytes: &[u8]) -> Option<Ask> {
        if bytes.len() != MESSAGE_LEN || bytes[..4] != ASK {
            return None;
        }
        let task = [Task::Echo, Task::Read, Task::Write];
        let task = task.into_iter().find(|task| *task as u8 == bytes[4])?;
        let number = |at: usize| u32_at(bytes, 8 + at * 4);
        Some(Ask {
            task,
            size: number(0),
            depth: number(1),
            count: number(2),
            millis: number(3),
            seed: number(4),
            memory: RemoteAddr { addr: u64_at(bytes, 32), rkey: number(5) },
        })
    }
}

impl Answer {
    pub(super) fn to_bytes(self) -> [u8; MESSAGE_LEN] {
        let mut bytes = [0; MESSAGE_LEN];
        bytes[..4].copy_from_slice(&ANSWER);
        bytes[4] = self.verdict as u8;
        let Spread { p50_ns, p90_ns, p99_ns, max_ns } = self.spread;
        let numbers = [self.count, self.elapsed_ns, p50_ns, p90_ns, p99_ns, max_ns];
        for (at, number) in numbers.into_iter().enumerate() {
            bytes[8 + at * 8..16 + at * 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// `None` when it is no answer of this version.
    pub(super) fn parse(bytes: &[u8]) -> Option<Answer> {
        if bytes.len() != MESSAGE_LEN || bytes[..4] != ANSWER {
            return None;
        }
        let verdict = [Verdict::Done, Verdict::OutOfBounds, Verdict::WrongData];
        let verdict = verdict.into_iter().find(|verdict| *verdict as u8 == bytes[4])?;
        let number = |at: usize| u64_at(bytes, 8 + at * 8);
        let spread =
            Spread { p50_ns: number(2), p90_ns: number(3), p99_ns: number(4), max_ns: number(5) };
        Some(Answer { verdict, count: number(0), elapsed_ns: number(1), spread })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The bytes that stand for a seed: no two words of eight are alike, nor those of two seeds.
pub(super) fn pattern(seed: u32, len: u32) -> Vec<u8> {
    let word = |at: u32| {
        let word = u64::from(seed) << 32 | u64::from(at);
        word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(word).collect();
    bytes.truncate(len as usize);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_come_back_as_they_went() {
        let ask = Ask {
            task: Task::Write,
            size: 1,
            depth: 2,
            count: 3,
            millis: 4,
            memory: RemoteAddr { addr: u64::MAX - 5, rkey: 6 },
            seed: 7,
        };
        assert_eq!(Ask::parse(&ask.to_bytes()), Some(ask));
        let spread = Spread { p50_ns: 1, p90_ns: 2, p99_ns: 3, max_ns: u64::MAX };
        let answer = Answer { verdict: Verdict::WrongData, count: 8, elapsed_ns: 9, spread };
        assert_eq!(Answer::parse(&answer.to_bytes()), Some(answer));
        assert_eq!(Answer::parse(&ask.to_bytes()), None);
        assert_eq!(Ask::parse(&ask.to_bytes()[..63]), None);
        let mut unknown = ask.to_bytes();
        unknown[4] = 3;
        assert_eq!(Ask::parse(&unknown), None);
    }

    #[test]
    fn a_request_is_a_hosts_and_a_doctors() {
        let data = request_data();
        assert!(data.len() <= 56, "IP connection management takes no more");
        let request = CmRequest::parse_or_status(&data).unwrap();
        assert_eq!((request.qid, request.hrqsize, request.hsqsize.count()), (0, 32, 32));
        assert!(is_greeting(&data));
        assert!(!is_greeting(&data[..40]));
        assert!(is_accept(&accept_data()) && !is_accept(&busy_data()));
        assert!(is_busy(&busy_data()) && !is_busy(&accept_data()));
    }

    #[test]
    fn patterns_differ_by_seed_and_place() {
        let (one, other) = (pattern(1, 20), pattern(2, 20));
        assert_eq!(one.len(), 20);
        assert_ne!(one, other);
        assert_ne!(one[..8], one[8..16]);
        assert_ne!(pattern(0, 16)[..8], pattern(0, 16)[8..]);
    }
}
