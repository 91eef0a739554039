//! How long commands take, and which of them are told of.

use super::*;
use backing::IoError;

const MS: u64 = 1_000_000;

/// Lets time pass before the next turn, which takes a microsecond itself.
fn pass(rig: &mut Rig, ms: u64) {
    rig.now += Duration::from_millis(ms) - Duration::from_micros(1);
}

#[test]
fn a_write_is_timed_from_its_capsule_to_its_response_with_its_parts() {
    let mut rig = Rig::serving(LIMITS);
    pass(&mut rig, 1);
    rig.capsule(&write(5, 8192), &[]);
    pass(&mut rig, 2);
    rig.sends_done();
    pass(&mut rig, 3);
    rig.io_done();
    pass(&mut rig, 7);
    rig.sends_done();
    let stats = rig.core.stats();
    let of = |latency: &Latency| (latency.total(), latency.sum_ns());
    assert_eq!(of(&stats.pull_latency), (1, 2 * MS));
    assert_eq!(of(&stats.disk_latency), (1, 3 * MS));
    assert_eq!(of(&stats.command_latency), (1, 5 * MS));
    let disks: Vec<DiskStats> = rig.core.disks().collect();
    assert_eq!((disks[0].id, disks[0].in_flight, of(&disks[0].latency)), (BACKING, 0, (1, 3 * MS)));
    // The slot's next command begins anew.
    rig.capsule(&read(6, 4096), &[]);
    pass(&mut rig, 1);
    rig.io_done();
    assert_eq!(of(&rig.core.stats().command_latency), (2, 6 * MS));
}

/// Of each stage that was passed: how often, and the milliseconds in it.
fn stages(rig: &Rig) -> Vec<(Stage, u64, u64)> {
    let latency = rig.core.stats().stages;
    let all = Stage::ALL.into_iter().map(|stage| (stage, *latency.of(stage)));
    let passed = all.filter(|(_, latency)| latency.total() > 0);
    passed.map(|(stage, of)| (stage, of.total(), of.sum_ns() / MS)).collect()
}

#[test]
fn the_stages_of_a_write_add_up_to_its_time() {
    let mut rig = Rig::serving(LIMITS);
    rig.capsule(&write(5, 8192), &[]);
    pass(&mut rig, 2);
    rig.sends_done();
    pass(&mut rig, 3);
    rig.io_done();
    pass(&mut rig, 7);
    rig.sends_done();
    let expected = [
        (Stage::Received, 1, 0),
        (Stage::Buffer, 1, 0),
        (Stage::DataIn, 1, 2),
        (Stage::Disk, 1, 3),
        (Stage::DataOut, 1, 0),
        (Stage::Sent, 1, 7),
    ];
    assert_eq!(stages(&rig), expected);
}

#[test]
fn the_next_command_is_followed_after_the_connection_of_the_last_has_ended() {
    let mut rig = Rig::serving(LIMITS);
    rig.capsule(&read(1, 4096), &[]);
    rig.core.handle(rig.now, ToCore::Close(KEY), &mut rig.out);
    let free = rig.core.probe.begins(0) || (0..100).any(|_| rig.core.probe.begins(0));
    assert!(free);
    assert!(stages(&rig).iter().all(|&(stage, ..)| stage != Stage::Sent));
}

#[test]
fn the_time_on_a_disk_stays_told_when_the_disk_is_gone() {
    let mut rig = Rig::serving(LIMITS);
    rig.capsule(&read(1, 4096), &[]);
    pass(&mut rig, 3);
    rig.io_done();
    rig.core.handle(rig.now, ToCore::RemoveBacking(BACKING), &mut rig.out);
    assert_eq!(rig.core.disks().count(), 0);
    let disks = rig.core.stats().disk_latency;
    assert_eq!((disks.total(), disks.sum_ns()), (1, 3 * MS));
}

#[test]
fn one_slow_command_a_turn_is_told_and_the_others_are_counted() {
    let mut rig = Rig::serving(LIMITS);
    rig.core.slow_ns = 2 * MS;
    for cid in 1..=4 {
        rig.capsule(&read(cid, 4096), &[]);
    }
    let slow = |rig: &mut Rig, ended: usize| {
        (0..ended).for_each(|_| rig.core.io_mut().finish(Ok(())));
        rig.turn();
        let told = rig.told().into_iter().filter_map(|message| match message {
            ToControl::Slow { command, took_ns, missed, .. } => {
                Some((Command::parse(&command).unwrap().cid(), took_ns >= 2 * MS, missed))
            }
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(slow(&mut rig, 1), [], "it was fast");
    pass(&mut rig, 3);
    assert_eq!(slow(&mut rig, 2), [(2, true, 0)]);
    assert_eq!(slow(&mut rig, 1), [(4, true, 1)]);
}

#[test]
fn failures_are_counted_by_their_status() {
    let mut rig = Rig::serving(LIMITS);
    for _ in 0..2 {
        rig.capsule(&read(1, 4096), &[]);
        rig.core.io_mut().finish(Err(IoError::ReadFault));
        rig.turn();
        rig.sends_done();
    }
    let failures: Vec<(StatusCode, u64)> = rig.core.failures().collect();
    assert_eq!(failures, [(StatusCode::UNRECOVERED_READ_ERROR, 2)]);
}
