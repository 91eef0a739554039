//! The table without a card.

use super::RecvTable;
use rdma::{RecvWr, WrId};
use region::{Pages, Region, Span};
use std::ptr::null_mut;

fn region() -> Region {
    Region::map(4096, Pages::Normal).unwrap()
}

fn wr(id: u64, tail: u32) -> RecvWr {
    RecvWr { wr_id: WrId(id), head: Span::new(0, 64), tail: Span::new(64, tail) }
}

#[test]
fn a_receive_has_two_segments_only_with_a_tail() {
    let region = region();
    let mut table = RecvTable::new(2);
    table.stage(wr(0, 0));
    table.stage(wr(1, 128));
    let mut segments = Vec::new();
    assert!(table.hand_over(&region, 9, u64::from, |mut first| {
        while !first.is_null() {
            // SAFETY: the table just linked it.
            unsafe {
                let lens = std::slice::from_raw_parts((*first).sg_list, (*first).num_sge as usize);
                segments.push(lens.iter().map(|s| s.length).collect::<Vec<_>>());
                first = (*first).next;
            }
        }
        null_mut()
    }));
    assert_eq!(segments, [vec![64], vec![64, 128]]);
}

#[test]
fn refused_receives_stay_staged() {
    let region = region();
    let mut table = RecvTable::new(4);
    for i in 0..3 {
        table.stage(wr(i, 0));
    }
    // SAFETY: a chain of three.
    assert!(!table.hand_over(&region, 9, u64::from, |first| unsafe { (*first).next }));
    assert_eq!(table.staged_len(), 2);
    let mut again = 0;
    assert!(table.hand_over(&region, 9, u64::from, |first| {
        // SAFETY: a chain of two.
        again = unsafe { (*first).wr_id };
        null_mut()
    }));
    assert_eq!(again, 1, "the second one comes first now");
}

#[test]
fn completions_in_any_order_free_their_entries_once() {
    let region = region();
    let mut table = RecvTable::new(3);
    for i in 0..3 {
        table.stage(wr(i, 0));
    }
    assert!(table.hand_over(&region, 9, u64::from, |_| null_mut()));
    assert_eq!(table.complete(2).map(|w| w.wr_id), Some(WrId(2)));
    assert_eq!(table.complete(2), None);
    assert_eq!(table.complete(0).map(|w| w.wr_id), Some(WrId(0)));
    assert_eq!(table.complete(77), None);
    assert_eq!(table.len(), 1);
}

#[test]
fn abandoning_gives_back_in_posting_order() {
    let region = region();
    let mut table = RecvTable::new(3);
    for i in 0..3 {
        table.stage(wr(i, 0));
    }
    assert!(table.hand_over(&region, 9, u64::from, |_| null_mut()));
    table.complete(0);
    table.stage(wr(3, 0));
    let mut told = Vec::new();
    table.flush_local(true, |w| told.push(w.wr_id.0));
    assert_eq!(told, [1, 2, 3]);
    assert_eq!(table.len(), 0);
    assert_eq!(table.staged_len(), 0);
}
