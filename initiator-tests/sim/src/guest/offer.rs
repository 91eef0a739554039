//! A namespace as it is offered, through the changes of the configuration.
//!
//! A change is made at one moment and is in force on every core only at a later one. Between the
//! two, a command may meet either state, and one that takes long may meet several.

/// A moment: the number of an event of a run.
pub type Moment = u64;

/// How a namespace is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Whether it is there.
    pub present: bool,
    /// Its size in blocks.
    pub blocks: u64,
    /// Whether writes are refused.
    pub read_only: bool,
}

impl Offer {
    /// Whether a command on blocks up to `end` is carried out.
    pub fn takes(&self, end: u64, writes: bool) -> bool {
        self.present && end <= self.blocks && !(writes && self.read_only)
    }
}

#[derive(Debug)]
struct Term {
    offer: Offer,
    made: Moment,
    /// When a later one was in force everywhere.
    over: Option<Moment>,
}

/// The offers of one namespace, in the order in which they were made.
#[derive(Debug)]
pub struct Offers(Vec<Term>);

impl Offers {
    /// What is offered at the start.
    pub fn new(offer: Offer) -> Offers {
        Offers(vec![Term { offer, made: 0, over: None }])
    }

    /// What was offered last.
    pub fn now(&self) -> Offer {
        self.0[self.0.len() - 1].offer
    }

    /// All that a command may have met which was issued then and ends now.
    pub fn since(&self, issued: Moment) -> impl Iterator<Item = Offer> + '_ {
        let over = move |term: &&Term| term.over.is_none_or(|over| over >= issued);
        self.0.iter().filter(over).map(|term| term.offer)
    }

    /// Whether anything was changed between these moments.
    pub fn changed(&self, after: Moment, before: Moment) -> bool {
        self.0.iter().any(|term| term.made > after && term.made < before)
    }

    /// Offers something else. The number is for [`settle`](Self::settle).
    pub fn change(&mut self, now: Moment, offer: Offer) -> usize {
        self.0.push(Term { offer, made: now, over: None });
        self.0.len() - 1
    }

    /// The change of that number is in force everywhere.
    pub fn settle(&mut self, now: Moment, number: usize) {
        for term in &mut self.0[..number] {
            term.over.get_or_insert(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_meet_what_was_not_over_when_it_was_issued() {
        let offer = |blocks| Offer { present: true, blocks, read_only: false };
        let mut offers = Offers::new(offer(1));
        let met = |offers: &Offers, issued| {
            offers.since(issued).map(|offer| offer.blocks).collect::<Vec<_>>()
        };
        let change = offers.change(10, offer(2));
        assert_eq!(met(&offers, 20), [1, 2]);
        offers.settle(30, change);
        assert_eq!(met(&offers, 20), [1, 2]);
        assert_eq!(met(&offers, 31), [2]);
        assert!(offers.changed(9, 11) && !offers.changed(10, 20));
        assert_eq!(offers.now(), offer(2));
    }
}
