//! Sleeping and waking, more operations than room, threads, and dropping with work in flight.

mod common;

use backing::{
    Backing, BackingId, BackingSpec, BlockIo, IoError, IoOp, IoRequest, Ring, RingConfig,
};
use common::{Loop, Mount, NOW, Rig, disk_folder, finish, is_root, must};
use region::{Pages, Region, Span};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: u64 = 4 << 20;

/// Sleeps until the ring's source is readable. False if it is not within twenty seconds, or only
/// seen to be when that time is over.
fn sleep(ring: &Ring) -> bool {
    let (source, start) = (ring.wait_source().unwrap(), Instant::now());
    let mut fds = [PollFd::new(&source, PollFlags::IN)];
    let woken = poll(&mut fds, Some(&Timespec { tv_sec: 20, tv_nsec: 0 })).unwrap() == 1;
    woken && start.elapsed() < Duration::from_secs(15)
}

#[test]
fn a_sleeping_core_is_woken_by_every_kind_of_completion() {
    let folder = disk_folder();
    for buffered in [false, true] {
        let mut spec = BackingSpec::sized_file(folder.path().join("file"), SIZE);
        if buffered {
            spec = spec.buffered();
        }
        let mut rig = Rig::new(&spec);
        let zero = IoOp::WriteZeroes { deallocate: false, fua: true };
        for op in [IoOp::Write { fua: true }, IoOp::Read, IoOp::Flush, zero, IoOp::Deallocate] {
            for offset in (0..10u64).map(|i| i * 65536) {
                let span = match op {
                    IoOp::Read | IoOp::Write { .. } => Span::new(0, 65536),
                    _ => Span::default(),
                };
                rig.submit(op, offset, 65536, span);
                rig.ring.flush(NOW);
                let mut out = Vec::new();
                while rig.ring.poll(NOW, &mut out) == 0 {
                    // Late enough, every second time, for the completion to come first.
                    if offset % 131_072 == 0 {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    rig.ring.arm();
                    if rig.ring.poll(NOW, &mut out) > 0 {
                        break;
                    }
                    assert_eq!(rig.ring.timeout(), None);
                    assert!(sleep(&rig.ring), "{op:?} ended without waking");
                }
                assert_eq!(out.len(), 1);
                assert_eq!(out[0].result, Ok(()));
            }
        }
        rig.ring.arm();
        assert_eq!(rig.ring.poll(NOW, &mut Vec::new()), 0);
        let source = rig.ring.wait_source().unwrap();
        let mut fds = [PollFd::new(&source, PollFlags::IN)];
        let idle = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 20_000_000 })).unwrap();
        assert_eq!(idle, 0, "an idle ring does not wake its core");
    }
}

#[test]
fn what_ended_without_the_kernel_is_announced_as_due() {
    let mut rig = Rig::new(&BackingSpec::ram(SIZE));
    assert_eq!(rig.ring.timeout(), None);
    rig.submit(IoOp::Read, 0, 512, Span::new(0, 512));
    assert_eq!(rig.ring.timeout(), Some(NOW));
    assert_eq!(rig.finish().len(), 1);
    assert_eq!(rig.ring.timeout(), None);
}

#[test]
fn many_operations_go_down_in_one_system_call() {
    let folder = disk_folder();
    let mut rig = Rig::new(&BackingSpec::sized_file(folder.path().join("file"), SIZE));
    for i in 0..64 {
        rig.submit(IoOp::Read, i * 4096, 4096, Span::new(i as u32 * 4096, 4096));
    }
    assert_eq!(rig.ring.stats().enters, 0, "nothing goes down before the flush");
    rig.ring.flush(NOW);
    assert_eq!(rig.ring.stats().enters, 1);
    rig.ring.flush(NOW);
    assert_eq!(rig.ring.stats().enters, 1, "a flush of nothing costs nothing");
    assert_eq!(rig.finish().len(), 64);
    let before = rig.ring.stats().enters;
    (0..100).for_each(|_| _ = rig.ring.poll(NOW, &mut Vec::new()));
    assert_eq!(rig.ring.stats().enters, before, "polling costs no system call");
}

#[test]
fn more_than_fits_is_held_back_in_order_and_more_than_that_is_busy() {
    let folder = disk_folder();
    let spec = BackingSpec::sized_file(folder.path().join("file"), SIZE);
    let config = RingConfig { depth: 3, backlog: 10, ..Default::default() };
    let mut rig = Rig::with(&spec, config);
    for i in 0..20 {
        rig.submit(IoOp::Read, i * 4096, 4096, Span::new(i as u32 * 4096, 4096));
    }
    assert_eq!(rig.ring.in_flight(), 20);
    let done = rig.finish();
    assert_eq!(done.len(), 20);
    assert_eq!(done.iter().filter(|d| d.result == Err(IoError::Busy)).count(), 7);
    assert_eq!(done.iter().filter(|d| d.result == Ok(())).count(), 13);
    assert_eq!(rig.ring.stats().held_back, 10);
}

#[test]
fn what_waits_inside_goes_on_without_another_flush() {
    let folder = disk_folder();
    let spec = BackingSpec::sized_file(folder.path().join("file"), SIZE);
    let mut rig = Rig::with(&spec, RingConfig { depth: 1, ..Default::default() });
    for i in 0..5 {
        rig.submit(IoOp::Read, i * 4096, 4096, Span::new(i as u32 * 4096, 4096));
    }
    rig.ring.flush(NOW);
    let (mut out, start) = (Vec::new(), Instant::now());
    while out.len() < 5 {
        rig.ring.poll(NOW, &mut out);
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn several_backings_come_and_go() {
    let folder = disk_folder();
    let region = Arc::new(Region::map(1 << 20, Pages::Normal).unwrap());
    let config = RingConfig { backings: 2, ..Default::default() };
    let mut ring = Ring::new(config, Arc::clone(&region)).unwrap();
    let read = |id, tag| IoRequest {
        backing: BackingId(id),
        op: IoOp::Read,
        offset: 0,
        len: 4096,
        buffer: Span::new(tag as u32 * 4096, 4096),
        tag,
    };
    // Twice as many as have registered descriptors.
    for id in 0..4u8 {
        let path = folder.path().join(id.to_string());
        std::fs::write(&path, [id + 1; 4096]).unwrap();
        ring.add(BackingId(id.into()), Backing::open(&BackingSpec::path(path)).unwrap());
    }
    (0..4).for_each(|id| ring.submit(NOW, read(id, id.into())));
    assert!(finish(&mut ring).iter().all(|done| done.result == Ok(())));
    for id in 0..4u8 {
        let mut byte = [0];
        region.read(Span::new(u32::from(id) * 4096, 1), &mut byte);
        assert_eq!(byte, [id + 1]);
    }
    ring.remove(BackingId(1));
    ring.remove(BackingId(3));
    ring.submit(NOW, read(1, 9));
    ring.submit(NOW, read(77, 10));
    assert!(finish(&mut ring).iter().all(|done| done.result == Err(IoError::Gone)));
    // The file is free again, and its place in the table too.
    let again = Backing::open(&BackingSpec::path(folder.path().join("1"))).unwrap();
    ring.add(BackingId(5), again);
    ring.submit(NOW, read(5, 11));
    ring.submit(NOW, read(2, 12));
    assert!(finish(&mut ring).iter().all(|done| done.result == Ok(())));
}

#[test]
fn a_ring_made_on_one_thread_works_on_another() {
    let folder = disk_folder();
    let spec = BackingSpec::sized_file(folder.path().join("file"), SIZE);
    let mut rig = Rig::new(&spec);
    std::thread::spawn(move || {
        rig.write(0, &[5; 4096]).unwrap();
        assert_eq!(rig.read(0, 4096), Ok(vec![5; 4096]));
    })
    .join()
    .unwrap();
    Backing::open(&spec).unwrap();
}

#[test]
fn dropping_with_work_in_flight_waits_for_the_kernel() {
    let folder = disk_folder();
    let spec = BackingSpec::sized_file(folder.path().join("file"), SIZE);
    for round in 0..20 {
        let mut rig = Rig::new(&spec);
        let region = Arc::downgrade(&rig.region);
        for i in 0..32 {
            let span = Span::new(i as u32 * 65536, 65536);
            rig.submit(IoOp::Write { fua: round % 2 == 0 }, i * 65536, 65536, span);
        }
        rig.ring.flush(NOW);
        drop(rig);
        assert!(region.upgrade().is_none(), "nothing was leaked");
    }
}

#[test]
fn a_stuck_disk_delays_dropping_by_its_bound_only_and_keeps_the_memory() {
    if !is_root() {
        return;
    }
    let folder = disk_folder();
    let device = Loop::new(&folder.path().join("image"), 64 << 20, 512);
    must("mkfs.ext4", &["-q", device.path.to_str().unwrap()]);
    let mount = Mount::device(&device.path, &folder.path().join("mounted"));
    let spec = BackingSpec::sized_file(mount.path.join("file"), SIZE);
    let config = RingConfig { drain: Duration::from_millis(300), ..Default::default() };
    let mut rig = Rig::with(&spec, config);
    rig.write(0, &[1; 4096]).unwrap();
    // A frozen file system makes writers wait.
    must("fsfreeze", &["-f", mount.path.to_str().unwrap()]);
    let region = Arc::downgrade(&rig.region);
    rig.submit(IoOp::Write { fua: false }, 0, 4096, Span::new(0, 4096));
    rig.ring.flush(NOW);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(rig.ring.poll(NOW, &mut Vec::new()), 0);
    let start = Instant::now();
    drop(rig);
    let took = start.elapsed();
    must("fsfreeze", &["-u", mount.path.to_str().unwrap()]);
    assert!(took >= Duration::from_millis(250) && took < Duration::from_secs(2), "{took:?}");
    assert!(region.upgrade().is_some(), "the buffers stay mapped");
}
