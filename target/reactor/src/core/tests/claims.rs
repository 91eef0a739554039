//! Fused pairs and what they keep from the disk.

use super::*;
use crate::mail::{ClaimId, Range};
use nvme_spec_types::Fuse;

const ID: ClaimId = ClaimId { core: CoreIndex(1), number: 1 };
/// A claim of a pair on another core.
const THEIRS: ClaimId = ClaimId { core: CoreIndex(2), number: 7 };

/// Bytes of the blocks from 16 on, which all commands here are about.
fn range(blocks: u64) -> Range {
    Range { backing: BackingRef(BACKING.0), start: 16 * 512, end: (16 + blocks) * 512 }
}

fn in_capsule(opcode: IoOpcode, cid: u16, fuse: Fuse) -> Command {
    let mut command = blocks(opcode, cid, 1, SglDescriptor::InCapsule { offset: 0, len: 512 });
    command.set_fuse(fuse);
    command
}

impl Rig {
    /// Brings a pair of one block as far as its question for the blocks.
    fn pair(&mut self) {
        self.capsule(&in_capsule(IoOpcode::COMPARE, 1, Fuse::First), &[16; 512]);
        self.capsule(&in_capsule(IoOpcode::WRITE, 2, Fuse::Second), &[99; 512]);
        assert!(matches!(self.told()[..], [ToControl::Claim(ID, asked)] if asked == range(1)));
        assert_eq!(self.core.io().requests.len(), 0);
    }

    fn requests(&self) -> Vec<backing::IoOp> {
        self.core.io().requests.iter().map(|request| request.op).collect()
    }

    fn is_quiet(&mut self, id: ClaimId) -> bool {
        matches!(self.told()[..], [ToControl::Quiet(quiet)] if quiet == id)
    }
}

const READ: backing::IoOp = backing::IoOp::Read;
const WRITE: backing::IoOp = backing::IoOp::Write { fua: false };

#[test]
fn a_granted_pair_reads_and_writes_and_lets_go() {
    let mut rig = Rig::serving(LIMITS);
    rig.pair();
    rig.tell(ToCore::Claim(ID, range(1)));
    assert!(rig.is_quiet(ID));
    rig.tell(ToCore::Granted(ID));
    assert_eq!(rig.requests(), [READ]);
    rig.io_done();
    assert_eq!(rig.requests(), [WRITE]);
    assert_eq!(rig.bytes(rig.core.io().requests[0].buffer), [99; 512]);
    let posted = rig.io_done();
    assert!(matches!(rig.told()[..], [ToControl::Unclaim(ID)]));
    let cids: Vec<u16> = posted.iter().map(|(_, wr)| rig.completion(wr).cid).collect();
    assert_eq!(cids, [1, 2]);
    rig.sends_done();
    assert_eq!(rig.core.stats().transfer_bytes, 0);
}

#[test]
fn the_data_of_a_pair_is_pulled_side_by_side() {
    let mut rig = Rig::serving(LIMITS);
    let mut compare = blocks(IoOpcode::COMPARE, 1, 1, keyed(0x1000, 512));
    compare.set_fuse(Fuse::First);
    let mut write = blocks(IoOpcode::WRITE, 2, 1, keyed(0x2000, 512));
    write.set_fuse(Fuse::Second);
    assert_eq!(rig.capsule(&compare, &[]), []);
    let first = rig.capsule(&write, &[]);
    let second = rig.sends_done();
    let [(_, to_write)] = first[..] else { panic!("{first:?}") };
    let [(_, to_compare)] = second[..] else { panic!("{second:?}") };
    assert!(is_read(&to_write) && is_read(&to_compare));
    assert_eq!(to_compare.local.offset(), to_write.local.offset() + 512);
    rig.sends_done();
    assert!(matches!(rig.told()[..], [ToControl::Claim(..)]));
}

#[test]
fn a_core_is_quiet_when_what_was_under_way_has_ended() {
    let mut rig = Rig::serving(LIMITS);
    rig.capsule(&read(1, 512), &[]);
    rig.capsule(&read(2, 4096), &[]);
    rig.tell(ToCore::Claim(THEIRS, range(1)));
    rig.io_done();
    assert_eq!(rig.told().len(), 0);
    rig.io_done();
    assert!(rig.is_quiet(THEIRS));
}

#[test]
fn what_is_elsewhere_neither_waits_nor_is_waited_for() {
    let mut rig = Rig::serving(LIMITS);
    rig.capsule(&read(1, 512), &[]);
    let elsewhere = Range { start: 17 * 512, end: 18 * 512, ..range(1) };
    rig.tell(ToCore::Claim(THEIRS, elsewhere));
    assert!(rig.is_quiet(THEIRS));
    rig.capsule(&read(2, 512), &[]);
    assert_eq!(rig.requests(), [READ, READ]);
    assert_eq!(rig.core.stats().claim_waits, 0);
}

#[test]
fn what_touches_a_claimed_block_waits_for_its_end_in_order() {
    let mut rig = Rig::serving(LIMITS);
    rig.tell(ToCore::Claim(THEIRS, range(1)));
    rig.told();
    rig.capsule(&read(1, 4096), &[]);
    rig.capsule(&in_capsule(IoOpcode::WRITE, 2, Fuse::Normal), &[1; 512]);
    assert_eq!((rig.requests().len(), rig.core.stats().claim_waits), (0, 2));
    rig.tell(ToCore::Unclaim(THEIRS));
    assert_eq!(rig.requests(), [READ, WRITE]);
}

#[test]
fn what_two_claims_cover_waits_for_both() {
    let mut rig = Rig::serving(LIMITS);
    let second = ClaimId { number: 8, ..THEIRS };
    rig.tell(ToCore::Claim(THEIRS, range(1)));
    rig.tell(ToCore::Claim(second, Range { start: 17 * 512, ..range(2) }));
    rig.capsule(&read(1, 4096), &[]);
    rig.tell(ToCore::Unclaim(THEIRS));
    assert_eq!(rig.requests(), []);
    rig.tell(ToCore::Unclaim(second));
    assert_eq!(rig.requests(), [READ]);
}

#[test]
fn a_closing_queue_gives_up_its_claim_and_what_was_held_back() {
    let mut rig = Rig::serving(LIMITS);
    rig.pair();
    rig.tell(ToCore::Claim(THEIRS, range(1)));
    rig.capsule(&read(5, 512), &[]);
    rig.told();
    rig.tell(ToCore::Close(KEY));
    assert!(matches!(rig.told()[..], [ToControl::Unclaim(ID)]));
    rig.turn();
    assert!(matches!(rig.told()[..], [ToControl::Detached { .. }]));
    assert!(rig.core.is_idle());
    assert_eq!(rig.core.stats().transfer_bytes, 0);
    // A grant that was on its way finds nobody.
    rig.tell(ToCore::Granted(ID));
    rig.tell(ToCore::Unclaim(THEIRS));
    assert_eq!(rig.requests(), []);
}

#[test]
fn a_pair_whose_disk_hangs_keeps_its_claim_past_its_connection() {
    let mut rig = Rig::serving(LIMITS);
    rig.pair();
    rig.tell(ToCore::Claim(ID, range(1)));
    rig.tell(ToCore::Granted(ID));
    rig.told();
    rig.tell(ToCore::Close(KEY));
    rig.turn();
    assert!(matches!(rig.told()[..], [ToControl::Detached { .. }]));
    rig.io_done();
    assert!(matches!(rig.told()[..], [ToControl::Unclaim(ID)]));
    assert!(rig.core.is_idle());
}

#[test]
fn a_disk_that_is_removed_stays_for_what_waits_for_a_claim() {
    let mut rig = Rig::serving(LIMITS);
    rig.tell(ToCore::Claim(THEIRS, range(1)));
    rig.capsule(&read(1, 512), &[]);
    rig.told();
    rig.tell(ToCore::RemoveBacking(BACKING));
    assert_eq!(rig.told().len(), 0);
    rig.tell(ToCore::Unclaim(THEIRS));
    assert_eq!(rig.requests(), [READ]);
    let posted = rig.io_done();
    assert!(rig.completion(&posted.last().unwrap().1).status.is_success());
    assert!(matches!(rig.told()[..], [ToControl::BackingRemoved(BACKING)]));
}
