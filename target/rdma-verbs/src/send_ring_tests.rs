//! The ring without a card: who is told what, in which order.

use super::SendRing;
use rdma::{RemoteAddr, SendOp, SendWr, WcStatus, WrId};
use rdma_sys::ibv_send_wr;
use region::{Pages, Region, Span};
use std::ptr::null_mut;

fn region() -> Region {
    Region::map(4096, Pages::Normal).unwrap()
}

fn wr(id: u64, signaled: bool) -> SendWr {
    let remote = RemoteAddr { addr: 0, rkey: 1 };
    let op = if signaled { SendOp::Send } else { SendOp::Write { remote } };
    SendWr { wr_id: WrId(id), op, local: Span::new(0, 16), signaled }
}

fn stage(ring: &mut SendRing, region: &Region, id: u64, signaled: bool) {
    ring.stage(&wr(id, signaled), region, 7, true, false, u64::from);
}

/// Walks the chain as a card would: the `wr_id` of each.
fn chain(mut first: *mut ibv_send_wr) -> Vec<u64> {
    let mut ids = Vec::new();
    while !first.is_null() {
        // SAFETY: the ring just linked it.
        unsafe {
            ids.push((*first).wr_id);
            first = (*first).next;
        }
    }
    ids
}

fn flushed(ring: &mut SendRing, abandon: bool) -> Vec<u64> {
    let mut told = Vec::new();
    ring.flush_local(abandon, |id, _| told.push(id.0));
    told
}

/// A completion of the card: whom the caller is told of then.
fn complete(ring: &mut SendRing, seq: u32) -> Vec<u64> {
    ring.complete(seq, WcStatus::Success);
    std::iter::from_fn(|| ring.next_done()).map(|(id, _)| id.0).collect()
}

#[test]
fn a_chain_keeps_posting_order_across_the_ring_s_end() {
    let region = region();
    let mut ring = SendRing::new(4, 0);
    for round in 0..5u32 {
        for i in 0..3u64 {
            stage(&mut ring, &region, i, true);
        }
        let mut seen = Vec::new();
        assert!(ring.hand_over(|first| {
            seen = chain(first);
            null_mut()
        }));
        let base = u64::from(round) * 3;
        assert_eq!(seen, [base, base + 1, base + 2]);
        for i in 0..3u32 {
            assert_eq!(complete(&mut ring, round * 3 + i), [u64::from(i)]);
        }
        assert_eq!(ring.len(), 0);
    }
}

#[test]
fn a_signaled_completion_retires_the_unsignaled_before_it() {
    let region = region();
    let mut ring = SendRing::new(4, 0);
    stage(&mut ring, &region, 10, false);
    stage(&mut ring, &region, 11, false);
    stage(&mut ring, &region, 12, true);
    assert!(ring.hand_over(|_| null_mut()));
    assert_eq!(complete(&mut ring, 2), [12]);
    assert_eq!(ring.room(), 4);
    assert_eq!(complete(&mut ring, 1), [], "a late completion of a retired one is dropped");
}

#[test]
fn a_send_that_completes_before_an_earlier_read_is_told_after_it() {
    let region = region();
    let mut ring = SendRing::new(8, 0);
    for (id, signaled) in [(10, true), (11, false), (12, true)] {
        stage(&mut ring, &region, id, signaled);
    }
    assert!(ring.hand_over(|_| null_mut()));
    assert_eq!(complete(&mut ring, 2), []);
    assert_eq!(ring.len(), 3);
    assert_eq!(complete(&mut ring, 0), [10, 12]);
    assert_eq!(ring.len(), 0);
}

#[test]
fn completions_that_only_we_asked_for_are_not_told() {
    let region = region();
    let mut ring = SendRing::new(8, 0);
    ring.stage(&wr(10, false), &region, 7, true, true, u64::from);
    ring.stage(&wr(11, true), &region, 7, true, true, u64::from);
    assert!(ring.hand_over(|first| {
        // SAFETY: the ring just linked it.
        let flags = unsafe { (*first).send_flags };
        assert_eq!(flags, rdma_sys::ibv_send_flags::IBV_SEND_SIGNALED.0);
        null_mut()
    }));
    assert_eq!(complete(&mut ring, 0), []);
    assert_eq!(complete(&mut ring, 1), [11]);
    assert_eq!(ring.len(), 0);
}

#[test]
fn abandoning_tells_how_those_ended_that_were_held_back() {
    let region = region();
    let mut ring = SendRing::new(8, 0);
    stage(&mut ring, &region, 10, true);
    stage(&mut ring, &region, 11, true);
    assert!(ring.hand_over(|_| null_mut()));
    assert_eq!(complete(&mut ring, 1), []);
    let mut told = Vec::new();
    ring.flush_local(true, |id, status| told.push((id.0, status)));
    assert_eq!(told, [(10, WcStatus::Flushed), (11, WcStatus::Success)]);
}

#[test]
fn what_was_refused_completes_after_what_the_card_owes() {
    let region = region();
    let mut ring = SendRing::new(8, 0);
    for i in 0..4 {
        stage(&mut ring, &region, i, true);
    }
    // The card takes two and refuses the third.
    assert!(!ring.hand_over(|first| {
        // SAFETY: a chain of four.
        unsafe { (*(*first).next).next }
    }));
    assert!(flushed(&mut ring, false).is_empty(), "the card still owes two");
    assert_eq!(complete(&mut ring, 0), [0]);
    assert!(flushed(&mut ring, false).is_empty(), "the card still owes one");
    assert_eq!(complete(&mut ring, 1), [1]);
    assert_eq!(flushed(&mut ring, false), [2, 3]);
    assert_eq!(ring.len(), 0);
}

#[test]
fn an_unsignaled_one_with_the_card_does_not_hold_up_the_flush() {
    let region = region();
    let mut ring = SendRing::new(8, 0);
    stage(&mut ring, &region, 0, false);
    assert!(ring.hand_over(|_| null_mut()));
    stage(&mut ring, &region, 1, true);
    assert_eq!(flushed(&mut ring, false), [1]);
}

#[test]
fn abandoning_tells_all_that_a_completion_was_promised_for() {
    let region = region();
    let mut ring = SendRing::new(8, 0);
    stage(&mut ring, &region, 0, false);
    stage(&mut ring, &region, 1, true);
    assert!(ring.hand_over(|_| null_mut()));
    stage(&mut ring, &region, 2, true);
    assert_eq!(flushed(&mut ring, true), [1, 2]);
    assert_eq!(flushed(&mut ring, true), [0u64; 0]);
    assert_eq!(complete(&mut ring, 1), [], "told once");
}

#[test]
fn a_short_send_is_copied_when_posted() {
    let region = region();
    region.write(Span::new(0, 16), &[1; 16]);
    let mut ring = SendRing::new(2, 64);
    stage(&mut ring, &region, 0, true);
    region.write(Span::new(0, 16), &[2; 16]);
    let mut sent = [0u8; 16];
    assert!(ring.hand_over(|first| {
        // SAFETY: one segment of 16 bytes, which the ring owns.
        unsafe {
            let sge = &*(*first).sg_list;
            std::ptr::copy_nonoverlapping(sge.addr as *const u8, sent.as_mut_ptr(), 16);
        }
        null_mut()
    }));
    assert_eq!(sent, [1; 16]);
}

#[test]
#[should_panic(expected = "more sends posted")]
fn posting_past_the_limit_is_our_own_bug() {
    let region = region();
    let mut ring = SendRing::new(2, 0);
    for i in 0..3 {
        stage(&mut ring, &region, i, true);
    }
}
