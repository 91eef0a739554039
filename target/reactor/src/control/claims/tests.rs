//! One question after the other, then what the cores are told.

use super::*;
use nvmf::BackingRef;
use rdma::CoreIndex;

fn id(number: u64) -> ClaimId {
    ClaimId { core: CoreIndex(1), number }
}

fn range(start: u64, end: u64) -> Range {
    Range { backing: BackingRef(3), start, end }
}

fn steps(claims: &mut Claims) -> Vec<Step> {
    std::iter::from_fn(|| claims.next_step()).collect()
}

#[test]
fn a_claim_is_granted_when_all_cores_are_quiet() {
    let mut claims = Claims::new(2);
    claims.on_ask(id(1), range(0, 512));
    assert_eq!(steps(&mut claims), [Step::Claim(id(1), range(0, 512))]);
    claims.on_quiet(id(1));
    assert_eq!(steps(&mut claims), []);
    claims.on_quiet(id(1));
    assert_eq!(steps(&mut claims), [Step::Grant(id(1))]);
    claims.on_end(id(1));
    assert_eq!(steps(&mut claims), [Step::End(id(1))]);
}

#[test]
fn claims_that_overlap_go_one_after_the_other_and_others_at_once() {
    let mut claims = Claims::new(1);
    claims.on_ask(id(1), range(0, 1024));
    claims.on_ask(id(2), range(512, 1536));
    claims.on_ask(id(3), range(1024, 2048));
    let elsewhere = Range { backing: BackingRef(4), ..range(0, 1024) };
    claims.on_ask(id(4), elsewhere);
    // The third overlaps the second, which waits: it does not overtake it.
    assert_eq!(
        steps(&mut claims),
        [Step::Claim(id(1), range(0, 1024)), Step::Claim(id(4), elsewhere)]
    );
    claims.on_end(id(1));
    assert_eq!(steps(&mut claims), [Step::End(id(1)), Step::Claim(id(2), range(512, 1536))]);
    claims.on_end(id(2));
    assert_eq!(steps(&mut claims), [Step::End(id(2)), Step::Claim(id(3), range(1024, 2048))]);
}

#[test]
fn a_claim_that_is_given_up_in_line_lets_those_behind_it_go() {
    let mut claims = Claims::new(1);
    claims.on_ask(id(1), range(0, 512));
    claims.on_ask(id(2), range(0, 1024));
    claims.on_ask(id(3), range(512, 1024));
    steps(&mut claims);
    claims.on_end(id(2));
    assert_eq!(steps(&mut claims), [Step::Claim(id(3), range(512, 1024))]);
}

#[test]
fn a_core_that_is_quiet_too_late_is_not_heard() {
    let mut claims = Claims::new(1);
    claims.on_ask(id(1), range(0, 512));
    claims.on_end(id(1));
    steps(&mut claims);
    claims.on_quiet(id(1));
    assert_eq!(steps(&mut claims), []);
}
