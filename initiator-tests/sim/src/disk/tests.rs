use super::*;

const T0: Duration = Duration::ZERO;
const LATER: Duration = Duration::from_secs(60);

fn setup(volatile_cache: bool, change: impl FnOnce(&mut DiskConfig)) -> (Disks, SimIo) {
    let mut config = DiskConfig { latency: (1_000, 100_000), slow: 0, stuck: 0, fault: 0, busy: 0 };
    change(&mut config);
    let disks = Disks::new(config, Rng::new(1));
    let disk = disks.add(Geometry {
        capacity: 1 << 20,
        block_size: 512,
        optimal_io: 4096,
        atomic_write: 0,
        volatile_cache,
        discard: true,
        discard_zeroes: true,
        read_only: false,
    });
    let region = Arc::new(Region::map(1 << 20, region::Pages::Normal).unwrap());
    let mut io = SimIo::new(disks.clone(), region);
    io.add(BackingId(0), disk);
    (disks, io)
}

fn request(op: IoOp, offset: u64, len: u64, at: u32) -> IoRequest {
    let buffer = Span::new(at, if len < 1 << 20 { len as u32 } else { 0 });
    IoRequest { backing: BackingId(0), op, offset, len, buffer, tag: u64::from(at) }
}

fn run(io: &mut SimIo, requests: &[IoRequest]) -> Vec<IoDone> {
    for &r in requests {
        io.submit(T0, r);
    }
    io.flush(T0);
    let mut out = Vec::new();
    io.poll(LATER, &mut out);
    assert_eq!(io.in_flight(), 0);
    out
}

#[test]
fn what_is_written_is_read_and_buffers_are_worthless_in_between() {
    let (disks, mut io) = setup(false, |_| {});
    io.region.fill(Span::new(0, 512), 7);
    run(&mut io, &[request(IoOp::Write { fua: false }, 1024, 512, 0)]);
    io.submit(T0, request(IoOp::Read, 1024, 512, 4096));
    io.flush(T0);
    let mut byte = [0];
    io.region.read(Span::new(4096, 1), &mut byte);
    assert_eq!(byte, [0xdd]);
    io.poll(LATER, &mut Vec::new());
    io.region.read(Span::new(4096, 1), &mut byte);
    assert_eq!(byte, [7]);
    assert_eq!(disks.violation(), None);
}

#[test]
fn operations_end_out_of_order() {
    let (_, mut io) = setup(false, |_| {});
    let reads: Vec<_> = (0..16).map(|n| request(IoOp::Read, 0, 512, n * 4096)).collect();
    let tags: Vec<u64> = run(&mut io, &reads).iter().map(|done| done.tag).collect();
    assert_eq!(tags.len(), 16);
    assert!(!tags.is_sorted());
}

#[test]
fn a_power_cut_takes_back_what_was_not_made_durable() {
    let (disks, mut io) = setup(true, |_| {});
    io.region.fill(Span::new(0, 8192), 1);
    run(&mut io, &[request(IoOp::Write { fua: false }, 0, 8192, 0)]);
    run(&mut io, &[request(IoOp::Flush, 0, 0, 0)]);
    io.region.fill(Span::new(0, 8192), 2);
    run(&mut io, &[request(IoOp::Write { fua: false }, 0, 4096, 0)]);
    run(&mut io, &[request(IoOp::Write { fua: true }, 4096, 4096, 4096)]);
    disks.cut_power();
    let seen: Vec<u8> = (0..16).map(|lba| disks.block(DiskId(0), lba, 512)[0]).collect();
    assert!(seen[..8].contains(&1) && seen[..8].contains(&2), "{seen:?}");
    assert_eq!(seen[8..], [2; 8]);
}

#[test]
fn misuse_of_the_seam_is_a_violation() {
    for bad in [
        request(IoOp::Read, 100, 512, 0),
        request(IoOp::Read, 0, 512, 512),
        request(IoOp::Write { fua: false }, (1 << 20) - 512, 1024, 0),
        IoRequest { backing: BackingId(9), ..request(IoOp::Read, 0, 512, 0) },
    ] {
        let (disks, mut io) = setup(false, |_| {});
        assert!(run(&mut io, &[bad])[0].result.is_err());
        assert!(disks.violation().is_some(), "{bad:?}");
    }
}

#[test]
fn faults_come_when_asked_for() {
    let (_, mut io) = setup(false, |config| config.fault = 10_000);
    let done = run(&mut io, &[request(IoOp::Read, 0, 512, 0)]);
    assert_eq!(done[0].result, Err(IoError::ReadFault));
    let (_, mut io) = setup(false, |config| config.stuck = 10_000);
    io.submit(T0, request(IoOp::Read, 0, 512, 0));
    io.flush(T0);
    assert_eq!(io.poll(Duration::from_secs(9), &mut Vec::new()), 0);
}
