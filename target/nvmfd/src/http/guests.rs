//! Who is connected to a listener, and who has to leave so that others can come.
//!
//! # Contract
//! A guest is let in at once, whoever sits there already. Where there is no seat left, the guest of
//! the peer with the most seats leaves who came first of those that are owed nothing: that have not
//! said what they want, or have got their answer and do not take it. So seats that are merely held
//! keep nobody out, and a request that is being answered is never broken off. Every stage but the
//! two whose length is bounded elsewhere (being answered, and a stream of events) ends by itself.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Seats of a listener.
const SEATS: usize = 128;
/// Seats of one peer.
const SEATS_OF_A_PEER: usize = 96;
/// How long a guest may take to say what it wants, and wait for its turn: longer than a head, a body
/// and the turn may.
const SAY_WITHIN: Duration = Duration::from_secs(16);
/// How long a guest may take to hear its answer.
const HEAR_WITHIN: Duration = Duration::from_secs(10);

/// Where a guest comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// A process of this machine.
    Process(i32),
    /// A user of this machine, of whose process nothing is known.
    User(u32),
    Address(IpAddr),
}

/// How far a guest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Has not said all of what it wants.
    Asking,
    /// Is being answered, or hears events.
    Served,
    /// Has its answer to hear.
    Hearing,
    /// Must go.
    Dismissed,
}

/// All guests of a listener.
#[derive(Debug, Clone, Default)]
pub(super) struct Guests(Arc<Mutex<Seats>>);

/// The seats that are taken, by number.
#[derive(Debug, Default)]
struct Seats {
    /// No number is given twice: who was sent away gives up its own only.
    next: u64,
    /// By rising number, which is the order in which they came.
    taken: BTreeMap<u64, (Peer, watch::Sender<Stage>)>,
}

/// A guest's seat, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    number: u64,
    guests: Guests,
    stage: watch::Receiver<Stage>,
}

/// For a guest to be told how far it is.
#[derive(Debug, Clone)]
pub(super) struct Progress(watch::Sender<Stage>);

impl Guests {
    /// Gives a guest a seat. None where all are taken by guests that are being answered.
    pub(super) fn admit(&self, peer: Peer) -> Option<(Seat, Progress)> {
        let mut seats = self.lock();
        let of_peer = seats.taken.values().filter(|(other, _)| *other == peer).count();
        if of_peer >= SEATS_OF_A_PEER {
            dismiss_first(&mut seats, peer)?;
        } else if seats.taken.len() >= SEATS {
            let most = busiest(&seats)?;
            dismiss_first(&mut seats, most)?;
        }
        let number = seats.next;
        seats.next += 1;
        let (sender, stage) = watch::channel(Stage::Asking);
        seats.taken.insert(number, (peer, sender.clone()));
        Some((Seat { number, guests: self.clone(), stage }, Progress(sender)))
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_owed_nothing(stage: &watch::Sender<Stage>) -> bool {
    matches!(*stage.borrow(), Stage::Asking | Stage::Hearing)
}

/// The peer with the most guests that may be sent away.
fn busiest(seats: &Seats) -> Option<Peer> {
    let mut counts: BTreeMap<Peer, usize> = BTreeMap::new();
    for (peer, _) in seats.taken.values().filter(|(_, stage)| is_owed_nothing(stage)) {
        *counts.entry(*peer).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(peer, _)| peer)
}

/// Sends the first guest of that peer away that may be; its seat is free at once.
fn dismiss_first(seats: &mut Seats, peer: Peer) -> Option<()> {
    let meant = seats.taken.iter().find(|(_, (of, stage))| *of == peer && is_owed_nothing(stage));
    let number = *meant?.0;
    let (_, stage) = seats.taken.remove(&number)?;
    stage.send_replace(Stage::Dismissed);
    Some(())
}

impl Seat {
    /// Returns when the guest must go.
    pub(super) async fn dismissed(&mut self) {
        loop {
            let stage = *self.stage.borrow_and_update();
            let limit = match stage {
                Stage::Dismissed => return,
                Stage::Asking => Some(SAY_WITHIN),
                Stage::Hearing => Some(HEAR_WITHIN),
                Stage::Served => None,
            };
            let changed = self.stage.changed();
            match limit {
                Some(limit) => match tokio::time::timeout(limit, changed).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) | Err(_) => return,
                },
                None if changed.await.is_err() => return,
                None => {}
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.guests.lock().taken.remove(&self.number);
    }
}

impl Progress {
    /// It has said what it wants.
    pub(super) fn asked(&self) {
        self.advance(Stage::Served);
    }

    /// It has its answer to hear.
    pub(super) fn answered(&self) {
        self.advance(Stage::Hearing);
    }

    /// Who was sent away stays so.
    fn advance(&self, to: Stage) {
        self.0.send_if_modified(|stage| {
            let goes_on = *stage != Stage::Dismissed;
            if goes_on {
                *stage = to;
            }
            goes_on
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const A: Peer = Peer::Process(1);
    const B: Peer = Peer::Process(2);

    fn must_go(seat: &mut Seat) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let mut context = Context::from_waker(Waker::noop());
        matches!(pin!(seat.dismissed()).poll(&mut context), Poll::Ready(()))
    }

    #[test]
    fn whoever_holds_most_seats_gives_up_the_first_that_is_owed_nothing() {
        let guests = Guests::default();
        let (mut other, _asking) = guests.admit(B).unwrap();
        let mut seats: Vec<_> = (0..SEATS_OF_A_PEER).map(|_| guests.admit(A).unwrap()).collect();
        seats[0].1.asked();
        // Of one peer too many: its own second goes, since its first is being answered.
        let _more = guests.admit(A).unwrap();
        assert!(!must_go(&mut seats[0].0) && must_go(&mut seats[1].0));
        // All are taken: the peer with the most of them has to give one up, and not the newcomer.
        let rest: Vec<_> = (0..40).map(|n| guests.admit(Peer::User(n)).unwrap()).collect();
        assert_eq!(guests.lock().taken.len(), SEATS);
        assert!(must_go(&mut seats[2].0) && !must_go(&mut other));
        drop((rest, seats, other));
        assert_eq!(guests.lock().taken.len(), 1, "seats are given back");
    }

    #[test]
    fn who_was_sent_away_takes_no_seat_along() {
        let guests = Guests::default();
        let seats: Vec<_> = (0..SEATS_OF_A_PEER).map(|_| guests.admit(A).unwrap()).collect();
        seats[..SEATS_OF_A_PEER - 1].iter().for_each(|(_, progress)| progress.asked());
        // The last goes, and its seat is dropped when another has come.
        let _newcomer = guests.admit(A).unwrap();
        drop(seats);
        assert_eq!(guests.lock().taken.len(), 1);
    }

    #[test]
    fn who_is_being_answered_stays_and_who_does_not_hear_its_answer_goes() {
        let guests = Guests::default();
        let mut seats: Vec<_> =
            (0..SEATS as u32).map(|n| guests.admit(Peer::User(n)).unwrap()).collect();
        seats.iter().for_each(|(_, progress)| progress.asked());
        assert!(guests.admit(A).is_none());
        seats[5].1.answered();
        assert!(guests.admit(A).is_some());
        assert!(must_go(&mut seats[5].0) && !must_go(&mut seats[4].0));
    }
}
