//! What a step's result leads to, without a kernel: results that a healthy machine never gives.
//! And what older kernels or tighter limits give: rings without the newer abilities.

use super::setup::Level;
use super::slot::{Allocation, Slot, Step};
use super::steps::{advance, first};
use super::*;
use crate::BackingSpec;
use crate::nvme::{Limits, NvmeStore};
use region::{Pages, Span};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const LEN: u64 = 65536;

struct Case {
    backing: Arc<Backing>,
    slot: Slot,
    stats: RingStats,
    _folder: tempfile::TempDir,
}

fn case(op: IoOp) -> Case {
    let folder = tempfile::tempdir().unwrap();
    let spec = BackingSpec::sized_file(folder.path().join("file"), 1 << 20);
    let backing = Backing::open(&spec).unwrap();
    let request = IoRequest {
        backing: BackingId(0),
        op,
        offset: 0,
        len: LEN,
        buffer: Span::new(0, LEN as u32),
        tag: 1,
    };
    let step = first(&backing, op).unwrap();
    let slot = Slot { request, entry: 0, step, done: 0, plain: false, tries: 0 };
    Case { backing, slot, stats: RingStats::default(), _folder: folder }
}

impl Case {
    fn result(&mut self, result: i32) -> Option<Result<(), IoError>> {
        advance(&mut self.slot, &self.backing, result, &mut self.stats)
    }
}

#[test]
fn a_short_transfer_is_continued_at_a_whole_unit() {
    for op in [IoOp::Read, IoOp::Write { fua: true }] {
        let mut case = case(op);
        assert_eq!(case.result(20_000), None);
        let Store::File(store) = &case.backing.store else { panic!() };
        let unit = u64::from(store.progress_unit);
        assert_eq!(case.slot.done, 20_000 / unit * unit);
        assert_eq!(case.stats.continued, 1);
        assert_eq!(case.result((LEN - case.slot.done) as i32), Some(Ok(())));
    }
}

#[test]
fn a_read_that_gives_nothing_has_met_the_end() {
    let mut case = case(IoOp::Read);
    assert_eq!(case.result(4096), None);
    assert_eq!(case.result(0), Some(Err(IoError::ReadFault)));
}

#[test]
fn a_write_that_takes_nothing_is_tried_again_with_a_bound() {
    let mut case = case(IoOp::Write { fua: false });
    let tries = (1..).find(|_| case.result(0).is_some()).unwrap();
    assert_eq!(tries, 17);
    assert_eq!(case.result(0), Some(Err(IoError::WriteFault)));
}

#[test]
fn an_interruption_is_tried_again_and_progress_starts_the_count_anew() {
    let mut case = case(IoOp::Read);
    for _ in 0..16 {
        assert_eq!(case.result(-libc::EAGAIN), None);
    }
    assert_eq!(case.result(4096), None);
    for _ in 0..16 {
        assert_eq!(case.result(-libc::EINTR), None);
    }
    assert_eq!(case.result(-libc::EINTR), Some(Err(IoError::Busy)));
    assert_eq!(case.stats.retried, 32);
}

#[test]
fn errors_have_their_meaning() {
    let table = [
        (libc::EIO, IoError::ReadFault, IoError::WriteFault),
        (libc::ENODATA, IoError::ReadFault, IoError::WriteFault),
        (libc::ENOSPC, IoError::NoSpace, IoError::NoSpace),
        (libc::EDQUOT, IoError::NoSpace, IoError::NoSpace),
        (libc::EROFS, IoError::ReadOnly, IoError::ReadOnly),
        (libc::ENODEV, IoError::Gone, IoError::Gone),
        (libc::ENXIO, IoError::Gone, IoError::Gone),
        (libc::ETIMEDOUT, IoError::TimedOut, IoError::TimedOut),
        (libc::ENOMEM, IoError::Busy, IoError::Busy),
        (libc::EINVAL, IoError::Other(libc::EINVAL), IoError::Other(libc::EINVAL)),
    ];
    for (errno, reading, writing) in table {
        assert_eq!(case(IoOp::Read).result(-errno), Some(Err(reading)));
        assert_eq!(case(IoOp::Write { fua: false }).result(-errno), Some(Err(writing)));
        assert_eq!(case(IoOp::Flush).result(-errno), Some(Err(writing)));
    }
}

#[test]
fn a_durable_write_is_synced_where_the_flag_is_refused() {
    let mut case = case(IoOp::Write { fua: true });
    assert_eq!(case.slot.step, Step::Transfer { dsync: true });
    assert_eq!(case.result(-libc::EOPNOTSUPP), None);
    assert_eq!(case.slot.step, Step::Transfer { dsync: false });
    assert_eq!(case.result(LEN as i32), None, "not durable yet");
    assert_eq!(case.slot.step, Step::Sync);
    assert_eq!(case.result(-libc::EIO), Some(Err(IoError::WriteFault)));
    // Learned: the next one does not try the flag.
    let again = first(&case.backing, IoOp::Write { fua: true });
    assert_eq!(again, Some(Step::Transfer { dsync: false }));
}

#[test]
fn zeroing_falls_back_step_by_step_and_stays_durable() {
    let mut case = case(IoOp::WriteZeroes { deallocate: true, fua: true });
    assert_eq!(case.slot.step, Step::Allocate(Allocation::PunchHole));
    assert_eq!(case.result(-libc::EOPNOTSUPP), None);
    assert_eq!(case.slot.step, Step::Allocate(Allocation::ZeroRange));
    assert_eq!(case.result(-libc::EOPNOTSUPP), None);
    assert_eq!(case.slot.step, Step::WriteZeroes);
    assert_eq!(case.result(LEN as i32 / 2), None);
    assert_eq!(case.result(LEN as i32 / 2), None, "not durable yet");
    assert_eq!(case.slot.step, Step::Sync);
    assert_eq!(case.result(0), Some(Ok(())));
    let again = first(&case.backing, IoOp::WriteZeroes { deallocate: true, fua: false });
    assert_eq!(again, Some(Step::WriteZeroes));
}

#[test]
fn zeroing_without_space_is_an_error_not_a_refusal() {
    let mut case = case(IoOp::WriteZeroes { deallocate: false, fua: false });
    assert_eq!(case.slot.step, Step::Allocate(Allocation::ZeroRange));
    assert_eq!(case.result(-libc::ENOSPC), Some(Err(IoError::NoSpace)));
}

#[test]
fn deallocation_where_it_is_refused_does_nothing_unless_zeroes_were_promised() {
    let mut promised = case(IoOp::Deallocate);
    assert!(promised.backing.geometry.discard_zeroes, "tests run on a file system with holes");
    assert_eq!(promised.result(-libc::EOPNOTSUPP), None);
    assert_eq!(promised.slot.step, Step::Allocate(Allocation::ZeroRange));

    let mut case = case(IoOp::Deallocate);
    let backing = Arc::get_mut(&mut case.backing).unwrap();
    backing.geometry.discard_zeroes = false;
    assert_eq!(case.result(-libc::EOPNOTSUPP), Some(Ok(())));
    assert_eq!(first(&case.backing, IoOp::Deallocate), None, "not even tried again");
}

/// Writes and reads back, asleep in between, with every operation once.
fn works(mut ring: Ring, region: &Region) {
    let folder = tempfile::tempdir().unwrap();
    let spec = BackingSpec::sized_file(folder.path().join("file"), 1 << 20);
    ring.add(BackingId(0), Backing::open(&spec).unwrap());
    let (from, to) = (Span::new(0, 16384), Span::new(16384, 16384));
    region.fill(from, 7);
    let zero = IoOp::WriteZeroes { deallocate: true, fua: true };
    let plan = [(IoOp::Write { fua: true }, from), (IoOp::Read, to), (IoOp::Flush, to), (zero, to)];
    for (tag, (op, buffer)) in plan.into_iter().enumerate() {
        let (now, tag) = (Duration::ZERO, tag as u64);
        let request =
            IoRequest { backing: BackingId(0), op, offset: 4096, len: 16384, buffer, tag };
        ring.submit(now, request);
        ring.flush(now);
        let mut out = Vec::new();
        while ring.poll(now, &mut out) == 0 {
            ring.arm();
            if ring.poll(now, &mut out) > 0 {
                break;
            }
            let source = ring.wait_source().unwrap();
            let mut fds = [PollFd::new(&source, PollFlags::IN)];
            // Without deferred completions the kernel may interrupt the sleep to work.
            match poll(&mut fds, Some(&Timespec { tv_sec: 20, tv_nsec: 0 })) {
                Ok(woken) => assert_eq!(woken, 1, "{op:?} ended without waking"),
                Err(error) => assert_eq!(error, rustix::io::Errno::INTR),
            }
        }
        assert_eq!(out, [IoDone { tag, result: Ok(()) }]);
    }
    assert_eq!(region.first_difference(from, to), None);
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn every_level_of_the_kernel_works() {
    for level in [Level::Deferred, Level::Cooperative] {
        let region = Arc::new(Region::map(65536, Pages::Normal).unwrap());
        let ring = Ring::at(level, Arc::clone(&region));
        assert_eq!(ring.mode().defer_taskrun, level == Level::Deferred);
        works(ring, &region);
    }
}

#[test]
fn buffers_and_files_need_not_be_registered() {
    let region = Arc::new(Region::map(65536, Pages::Normal).unwrap());
    let mut ring = Ring::new(RingConfig::default(), Arc::clone(&region)).unwrap();
    ring.mode.fixed_buffers = false;
    ring.registrable = 0;
    works(ring, &region);
}

#[test]
fn a_ring_with_nothing_under_way_has_nothing_to_try_again() {
    let region = Arc::new(Region::map(65536, Pages::Normal).unwrap());
    let mut ring = Ring::new(RingConfig::default(), region).unwrap();
    // The kernel was short of memory once; what was to be tried again ended before the time came.
    ring.retry_at = Some(Duration::from_millis(1));
    assert_eq!(ring.poll(Duration::from_secs(1), &mut Vec::new()), 0);
    assert_eq!(ring.timeout(), None, "a core would never sleep again");
}

#[test]
fn a_buffer_across_two_registered_pieces_is_used_as_a_plain_one() {
    let mode = RingMode {
        single_issuer: true,
        defer_taskrun: true,
        fixed_buffers: true,
        fixed_files: true,
    };
    let gib = 1 << 30;
    assert_eq!(mode.fixed_buffer(Span::new(gib - 4096, 4096)), Some(0));
    assert_eq!(mode.fixed_buffer(Span::new(gib, 4096)), Some(1));
    assert_eq!(mode.fixed_buffer(Span::new(gib - 4096, 8192)), None);
}

#[test]
fn only_plain_reads_and_writes_are_looked_for() {
    let plain = Step::Transfer { dsync: false };
    assert!(plain.is_polled(IoOp::Read) && Step::Command.is_polled(IoOp::Write { fua: true }));
    assert!(!Step::Transfer { dsync: true }.is_polled(IoOp::Write { fua: true }));
    assert!(!Step::Sync.is_polled(IoOp::Flush) && !Step::Command.is_polled(IoOp::Flush));
    assert!(!Step::Command.is_polled(IoOp::Deallocate));
}

/// A slot with a read of 64 KiB by commands of 16 KiB.
fn command_case() -> (Case, NvmeStore) {
    let mut case = case(IoOp::Read);
    case.slot.step = Step::Command;
    let limits = Limits {
        block_shift: 9,
        transfer: 16 << 10,
        zeroes: 0,
        zeroes_deallocate: false,
        discard: 0,
    };
    (case, NvmeStore::of_file(tempfile::tempfile().unwrap(), limits))
}

#[test]
fn a_read_by_commands_ends_with_the_last_of_them_or_the_device_s_first_error() {
    let (mut case, store) = command_case();
    let result = |case: &mut Case, r| {
        commands::advance(&mut case.slot, &case.backing, &store, r, &mut case.stats)
    };
    for _ in 0..3 {
        assert_eq!(result(&mut case, 0), None);
    }
    assert_eq!(result(&mut case, 0), Some(Ok(())));
    case.slot.done = 0;
    assert_eq!(result(&mut case, 0x4281), Some(Err(IoError::Device(0x4281))));
    assert_eq!(result(&mut case, -libc::EIO), Some(Err(IoError::ReadFault)));
}

#[test]
fn every_command_under_way_with_a_registered_buffer_may_find_it_refused() {
    let (mut first, store) = command_case();
    let (mut second, _) = command_case();
    second.backing = Arc::clone(&first.backing);
    for case in [&mut first, &mut second] {
        let mut refused = || {
            commands::advance(&mut case.slot, &case.backing, &store, -libc::EINVAL, &mut case.stats)
        };
        assert_eq!(refused(), None, "tried again without");
        assert_eq!(refused(), Some(Err(IoError::Other(libc::EINVAL))));
    }
    assert!(first.backing.learned.no_fixed_command.is_set());
}
