//! Packets that came to another core's socket: handed over in memory.
//!
//! The kernel may join packets of one length from one address and port into one message, and
//! steers the whole of it by its first packet. A peer whose queue pairs share a source port, as all
//! of our kind do and some of others may, has packets for several cores joined like that. Whoever
//! receives such a message keeps what is its own, and hands the rest over here.
//!
//! # Contract
//! Every socket of a group has a [`Seat`]. Packets go in with [`Seat::hand_over`], already found
//! undamaged, and come out with [`Seat::collect`]. A queue takes no more than [`QUEUE`] packets of
//! [`MAX_PACKET`] bytes: what is too much is lost, as in a socket's buffer. Where nothing is handed
//! over, a turn costs its thread one look at a flag that nobody writes to.
//!
//! # The bell
//! Whoever raises the flag rings once, perhaps a moment later; while it is up nobody else does. The
//! socket's thread lowers it before it reads, and counts the rings that it is owed for that: it
//! silences them when it looks the next time, so that none is left over to wake it forever. It
//! never silences the bell without a look at the flag after that: a flag that is up when it sleeps
//! still has its ring to come.

use crate::batch::MAX_PACKET;
use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering, fence};

/// Most packets that wait for one socket: what one connection may have on the way to it.
pub(crate) const QUEUE: usize = 512;

#[derive(Debug)]
struct Packet {
    from: IpAddr,
    marked: bool,
    bytes: Box<[u8]>,
}

/// What waits for one socket of the group.
#[derive(Debug)]
struct Place {
    sender: Sender<Packet>,
    receiver: Receiver<Packet>,
    /// Whether something was handed over since the socket's thread last looked.
    flag: AtomicBool,
    bell: OwnedFd,
    /// How often the flag was lowered, less the rings that were silenced. Only the socket's thread
    /// touches it; below zero for a moment when a ring was heard before the flag was seen.
    owed: AtomicI64,
}

impl Place {
    /// Raises the flag. Whether it was down, so that the caller has to ring.
    fn raise(&self) -> bool {
        !self.flag.load(Ordering::Relaxed) && !self.flag.swap(true, Ordering::Relaxed)
    }

    fn ring(&self) {
        // It only fails when the counter is full, and then the thread wakes anyway.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Silences the bell where it was rung for a flag that was lowered. Look at the flag after this.
    fn silence(&self) {
        let owed = self.owed.load(Ordering::Relaxed);
        if owed == 0 {
            return;
        }
        let mut count = [0; 8];
        let rung = match rustix::io::read(&self.bell, &mut count) {
            Ok(_) => i64::from_ne_bytes(count),
            Err(_) => 0, // whoever raised the flag has not rung yet
        };
        self.owed.store(owed - rung, Ordering::Relaxed);
    }

    /// Lowers the flag, and tells whether it was up.
    fn lower(&self) -> bool {
        if !self.flag.load(Ordering::Relaxed) || !self.flag.swap(false, Ordering::Relaxed) {
            return false;
        }
        self.owed.store(self.owed.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        true
    }
}

/// The place of one socket in its group.
#[derive(Debug)]
pub(crate) struct Seat {
    places: Arc<[Place]>,
    own: u8,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handed {
    Over,
    /// It is lost: the other socket's thread does not keep up, or the packet is too long.
    Lost,
    /// The group has no such place.
    NoPlace,
}

/// The seats of a group of `count` sockets.
///
/// # Errors
/// When the system gives no eventfd.
pub(crate) fn seats(count: u8) -> io::Result<Vec<Seat>> {
    let place = |_| -> io::Result<Place> {
        let (sender, receiver) = bounded(QUEUE);
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let (flag, owed) = (AtomicBool::new(false), AtomicI64::new(0));
        Ok(Place { sender, receiver, flag, bell, owed })
    };
    let places: Arc<[Place]> = (0..count).map(place).collect::<io::Result<_>>()?;
    Ok((0..count).map(|own| Seat { places: places.clone(), own }).collect())
}

impl Seat {
    /// Which socket of the group this is: see [`crate::socket::steered_to`].
    pub(crate) fn own(&self) -> u8 {
        self.own
    }

    /// Gives a packet to the socket at place `to`. `marked`: it met congestion.
    pub(crate) fn hand_over(&self, to: u8, from: IpAddr, marked: bool, bytes: &[u8]) -> Handed {
        let Some(place) = self.places.get(usize::from(to)) else { return Handed::NoPlace };
        if bytes.len() > MAX_PACKET || place.sender.is_full() {
            return Handed::Lost;
        }
        if place.sender.try_send(Packet { from, marked, bytes: bytes.into() }).is_err() {
            return Handed::Lost;
        }
        // Pairs with the fence in `collect`: either the flag is seen lowered here, or the packet is
        // seen there.
        fence(Ordering::SeqCst);
        if place.raise() {
            place.ring();
        }
        Handed::Over
    }

    /// Takes what was handed over to this socket.
    pub(crate) fn collect(&self, mut take: impl FnMut(IpAddr, bool, &[u8])) {
        let place = &self.places[usize::from(self.own)];
        place.silence();
        if !place.lower() {
            return;
        }
        fence(Ordering::SeqCst);
        // What was there when the flag was lowered: for what came since it is up again.
        for packet in place.receiver.try_iter().take(QUEUE) {
            take(packet.from, packet.marked, &packet.bytes);
        }
    }

    /// What becomes readable when something is handed over to this socket.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.places[usize::from(self.own)].bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::net::Ipv4Addr;

    const FROM: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    /// Whether a thread that sleeps on this, after a last look, would wake.
    fn wakes(seat: &Seat) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(seat.bell(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }

    fn collected(seat: &Seat) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        seat.collect(|from, _, bytes| {
            assert_eq!(from, FROM);
            all.push(bytes.to_vec());
        });
        all
    }

    #[test]
    fn what_is_handed_over_wakes_its_thread_once_and_comes_in_order() {
        let seats = seats(3).unwrap();
        assert!(collected(&seats[2]).is_empty() && !wakes(&seats[2]));
        for (seat, byte) in seats.iter().zip(0..) {
            assert_eq!(seat.hand_over(2, FROM, false, &[byte; 20]), Handed::Over);
        }
        assert!(wakes(&seats[2]) && !wakes(&seats[1]));
        assert_eq!(collected(&seats[2]), [[0; 20], [1; 20], [2; 20]]);
        assert!(collected(&seats[2]).is_empty() && !wakes(&seats[2]));
    }

    #[test]
    fn a_packet_that_is_read_with_the_one_before_it_leaves_no_ring_behind() {
        let seats = seats(2).unwrap();
        let send = |byte| seats[0].hand_over(1, FROM, false, &[byte]);
        assert_eq!(send(1), Handed::Over);
        let mut all = Vec::new();
        seats[1].collect(|_, _, bytes| {
            all.extend_from_slice(bytes);
            if bytes == [1] {
                assert_eq!(send(2), Handed::Over); // it rings, and is read at once
            }
        });
        assert_eq!(all, [1, 2]);
        assert!(wakes(&seats[1]));
        assert!(collected(&seats[1]).is_empty() && collected(&seats[1]).is_empty());
        assert!(!wakes(&seats[1]));
        assert_eq!(send(3), Handed::Over);
        assert!(wakes(&seats[1]), "the flag was left up, and nobody rang");
    }

    #[test]
    fn a_ring_that_comes_late_is_silenced_and_hides_no_other() {
        let seats = seats(2).unwrap();
        let place = &seats[0].places[1];
        let push = |byte| {
            let packet = Packet { from: FROM, marked: false, bytes: Box::new([byte]) };
            place.sender.try_send(packet).unwrap();
        };
        push(1);
        assert!(place.raise());
        assert_eq!(collected(&seats[1]), [[1]]); // before the ring
        push(2);
        assert!(place.raise());
        place.ring(); // of either
        assert!(wakes(&seats[1]));
        assert_eq!(collected(&seats[1]), [[2]]);
        assert!(!wakes(&seats[1]));
        place.ring(); // of the other
        assert!(wakes(&seats[1]));
        assert!(collected(&seats[1]).is_empty() && !wakes(&seats[1]));
        assert_eq!(seats[0].hand_over(1, FROM, false, &[3]), Handed::Over);
        assert!(wakes(&seats[1]), "the flag was left up, and nobody rang");
    }

    #[test]
    fn a_queue_is_bounded_and_takes_more_when_it_was_read() {
        let seats = seats(2).unwrap();
        let send = |len| seats[0].hand_over(1, FROM, true, &vec![7; len]);
        assert_eq!(send(MAX_PACKET + 1), Handed::Lost);
        for _ in 0..QUEUE {
            assert_eq!(send(20), Handed::Over);
        }
        assert_eq!(send(20), Handed::Lost);
        assert_eq!(collected(&seats[1]).len(), QUEUE);
        assert_eq!(send(20), Handed::Over);
        assert_eq!(collected(&seats[1]).len(), 1);
        assert_eq!(seats[0].hand_over(2, FROM, false, &[0; 20]), Handed::NoPlace);
    }

    #[test]
    fn a_sleeping_thread_misses_nothing_of_what_two_others_hand_over() {
        let seats = seats(3).unwrap();
        const EACH: u32 = 20_000;
        let missed = AtomicBool::new(false);
        let mut left = 2 * EACH;
        std::thread::scope(|scope| {
            for seat in &seats[..2] {
                let missed = &missed;
                scope.spawn(move || {
                    for n in 0..EACH {
                        while seat.hand_over(2, FROM, false, &n.to_ne_bytes()) != Handed::Over {
                            if missed.load(Ordering::Relaxed) {
                                return;
                            }
                            std::thread::yield_now();
                        }
                    }
                });
            }
            while left > 0 && !missed.load(Ordering::Relaxed) {
                let mut fds = [PollFd::from_borrowed_fd(seats[2].bell(), PollFlags::IN)];
                let woken = poll(&mut fds, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })).unwrap();
                missed.store(woken == 0, Ordering::Relaxed);
                seats[2].collect(|_, _, _| left -= 1);
            }
        });
        assert!(!missed.into_inner(), "packets waited, and nobody rang");
        // All have rung by now: a look or two, and the bell is silent.
        assert!(collected(&seats[2]).is_empty() && collected(&seats[2]).is_empty());
        assert!(!wakes(&seats[2]));
    }
}
