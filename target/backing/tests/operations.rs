//! Every operation, on every medium that this machine can give, against a model in memory.

mod common;

use backing::{BackingSpec, BlockIo, BlockSize, IoError, IoOp, RingConfig};
use common::{Loop, Mount, Rig, Rng, disk_folder, is_root};
use region::Span;

const SIZE: u64 = 2 << 20;

/// Runs random operations, several at a time on disjoint ranges, and compares with a model.
fn behaves_like_memory(spec: &BackingSpec, seed: u64) -> Rig {
    let mut rig = Rig::with(spec, RingConfig { depth: 8, ..Default::default() });
    let block = u64::from(rig.backing.geometry().block_size);
    assert_eq!(rig.backing.geometry().capacity, SIZE);
    let zeroes_promised = rig.backing.geometry().discard_zeroes;
    let mut model = rig.read(0, SIZE as u32).unwrap();
    let mut rng = Rng(seed | 1);
    for round in 0..120 {
        // One operation in each eighth of the disk, all in flight together: twice the depth.
        let mut reads = Vec::new();
        for part in 0..16u64 {
            let (base, room) = (part * SIZE / 16, SIZE / 16 / block);
            let first = rng.below(room);
            let n = 1 + rng.below((room - first).min(17));
            let (offset, len) = (base + first * block, n * block);
            let span = Span::new((part * (256 << 10)) as u32, len as u32);
            let range = offset as usize..(offset + len) as usize;
            // What must be durable takes long on a real disk.
            let fua = rng.below(16) == 0;
            match rng.below(33) {
                0..=11 => {
                    let byte = rng.next() as u8;
                    rig.region.fill(span, byte);
                    model[range].fill(byte);
                    rig.submit(IoOp::Write { fua }, offset, len, span);
                }
                12..=23 => {
                    rig.region.fill(span, 0xee);
                    rig.submit(IoOp::Read, offset, len, span);
                    reads.push((range, span));
                }
                24..=27 => {
                    let deallocate = rng.below(2) == 0;
                    model[range].fill(0);
                    let op = IoOp::WriteZeroes { deallocate, fua };
                    rig.submit(op, offset, len, Span::default());
                }
                28..=31 if zeroes_promised => {
                    model[range].fill(0);
                    rig.submit(IoOp::Deallocate, offset, len, Span::default());
                }
                28..=31 => {} // what is there afterwards is not known
                _ => {
                    rig.submit(IoOp::Flush, 0, 0, Span::default());
                }
            }
        }
        for done in rig.finish() {
            assert_eq!(done.result, Ok(()), "seed {seed} round {round}");
        }
        for (range, span) in reads {
            let mut got = vec![0; span.len() as usize];
            rig.region.read(span, &mut got);
            assert!(got == model[range.clone()], "seed {seed} round {round}: {range:?} differs");
        }
    }
    assert!(rig.read(0, SIZE as u32).unwrap() == model, "seed {seed}: the whole differs");
    rig
}

#[test]
fn ram_behaves_like_memory() {
    for size in [BlockSize::B512, BlockSize::B4096] {
        behaves_like_memory(&BackingSpec::ram(SIZE).block_size(size), 1);
    }
}

#[test]
fn a_file_behaves_like_memory() {
    let folder = disk_folder();
    for (seed, size) in [(2, BlockSize::B512), (3, BlockSize::B4096)] {
        let path = folder.path().join(format!("direct{seed}"));
        let rig = behaves_like_memory(&BackingSpec::sized_file(&path, SIZE).block_size(size), seed);
        assert!(rig.ring.stats().held_back > 0, "more operations than slots were in flight");
        assert!(rig.ring.stats().dsync_writes > 0);
    }
}

#[test]
fn a_buffered_file_behaves_like_memory() {
    let folder = disk_folder();
    let path = folder.path().join("buffered");
    let spec = BackingSpec::sized_file(&path, SIZE).buffered();
    assert!(!behaves_like_memory(&spec, 4).backing.is_direct());
}

#[test]
fn a_file_in_memory_behaves_like_memory_and_zeroes_are_written_there() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("tmpfs");
    let rig = behaves_like_memory(&BackingSpec::sized_file(&path, SIZE), 5);
    assert!(rig.ring.stats().zeroes_written > 0, "tmpfs cannot zero a range by itself");
}

#[test]
fn a_block_device_behaves_like_memory() {
    if !is_root() {
        return;
    }
    let folder = disk_folder();
    for sector in [512, 4096] {
        let device = Loop::new(&folder.path().join(format!("loop{sector}")), SIZE, sector);
        let rig = behaves_like_memory(&BackingSpec::path(&device.path), u64::from(sector));
        let geometry = rig.backing.geometry();
        assert_eq!(geometry.block_size, sector);
        assert!(geometry.volatile_cache && geometry.discard);
    }
}

#[test]
fn a_null_disk_takes_writes_and_reads_zeroes() {
    let mut rig = Rig::new(&BackingSpec::null(SIZE));
    rig.write(0, &[7; 4096]).unwrap();
    assert_eq!(rig.read(0, 4096).unwrap(), vec![0; 4096], "never what the buffer held before");
    rig.command(IoOp::Deallocate, 0, SIZE).unwrap();
    rig.command(IoOp::WriteZeroes { deallocate: false, fua: true }, 0, SIZE).unwrap();
    assert_eq!(rig.ring.stats().enters, 0);
}

#[test]
fn what_is_not_whole_blocks_in_range_is_refused() {
    let folder = disk_folder();
    let path = folder.path().join("file");
    let specs = [
        BackingSpec::sized_file(&path, SIZE).block_size(BlockSize::B4096),
        BackingSpec::ram(SIZE).block_size(BlockSize::B4096),
        BackingSpec::null(SIZE).block_size(BlockSize::B4096),
    ];
    for spec in &specs {
        let mut rig = Rig::new(spec);
        let invalid = Err(IoError::Other(libc::EINVAL));
        assert_eq!(rig.read(512, 4096), Err(IoError::Other(libc::EINVAL)));
        assert_eq!(rig.read(0, 512), Err(IoError::Other(libc::EINVAL)));
        assert_eq!(rig.command(IoOp::Deallocate, 0, 512), invalid);
        assert_eq!(rig.run(IoOp::Read, 0, 4096, Span::new(0, 8192)), invalid, "buffer length");
        assert_eq!(rig.read(SIZE, 4096), Err(IoError::OutOfRange));
        assert_eq!(rig.write(SIZE - 4096, &[0; 8192]), Err(IoError::OutOfRange));
        assert_eq!(rig.command(IoOp::Deallocate, u64::MAX - 4095, 4096), Err(IoError::OutOfRange));
        assert_eq!(rig.read(SIZE - 4096, 4096), Ok(vec![0; 4096]));
        assert_eq!(rig.ring.in_flight(), 0);
    }
}

#[test]
fn a_misaligned_buffer_is_refused_where_the_device_would() {
    let folder = disk_folder();
    let mut rig = Rig::new(&BackingSpec::sized_file(folder.path().join("file"), SIZE));
    if rig.backing.is_direct() {
        let odd = Span::new(1, 4096);
        assert_eq!(rig.run(IoOp::Read, 0, 4096, odd), Err(IoError::Other(libc::EINVAL)));
    }
}

#[test]
fn a_read_only_backing_refuses_changes() {
    let folder = disk_folder();
    let path = folder.path().join("file");
    std::fs::write(&path, vec![3; 8192]).unwrap();
    for spec in [BackingSpec::path(&path), BackingSpec::ram(8192), BackingSpec::null(8192)] {
        let mut rig = Rig::new(&spec.read_only());
        assert_eq!(rig.write(0, &[0; 4096]), Err(IoError::ReadOnly));
        assert_eq!(rig.command(IoOp::Deallocate, 0, 4096), Err(IoError::ReadOnly));
        let zero = IoOp::WriteZeroes { deallocate: true, fua: false };
        assert_eq!(rig.command(zero, 0, 4096), Err(IoError::ReadOnly));
        assert_eq!(rig.command(IoOp::Flush, 0, 0), Ok(()));
        assert!(rig.read(0, 4096).is_ok());
    }
}

#[test]
fn reading_past_the_end_of_a_cut_file_is_an_error() {
    let folder = disk_folder();
    let path = folder.path().join("file");
    for buffered in [false, true] {
        let mut spec = BackingSpec::sized_file(&path, SIZE);
        if buffered {
            spec = spec.buffered();
        }
        let mut rig = Rig::new(&spec);
        rig.write(0, &[9; 65536]).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(4096 + 100).unwrap();
        assert_eq!(rig.read(0, 4096), Ok(vec![9; 4096]));
        assert_eq!(rig.read(0, 16384), Err(IoError::ReadFault), "ends inside");
        assert_eq!(rig.read(65536, 4096), Err(IoError::ReadFault), "ends before");
        assert_eq!(rig.backing.refresh_capacity().unwrap(), 4096);
        assert_eq!(rig.read(4096, 512), Err(IoError::OutOfRange));
        file.set_len(SIZE).unwrap();
        assert_eq!(rig.backing.refresh_capacity().unwrap(), SIZE);
        assert_eq!(rig.backing.geometry().capacity, SIZE);
        assert!(rig.read(65536, 4096).is_ok());
    }
}

#[test]
fn a_full_file_system_says_no_space() {
    if !is_root() {
        return;
    }
    let folder = disk_folder();
    let mount = Mount::tmpfs(&folder.path().join("small"), "64k");
    {
        let mut rig = Rig::new(&BackingSpec::sized_file(mount.path.join("file"), SIZE));
        assert_eq!(rig.write(0, &vec![1; 256 << 10]), Err(IoError::NoSpace));
        let zero = IoOp::WriteZeroes { deallocate: false, fua: false };
        assert_eq!(rig.command(zero, 1 << 20, 256 << 10), Err(IoError::NoSpace));
        // Giving space back lets writes succeed again.
        rig.command(IoOp::Deallocate, 0, SIZE).unwrap();
        rig.write(0, &[2; 16384]).unwrap();
        assert_eq!(rig.read(0, 16384), Ok(vec![2; 16384]));
    }
}

#[test]
fn deallocating_gives_space_back() {
    use std::os::unix::fs::MetadataExt;
    let folder = disk_folder();
    let path = folder.path().join("file");
    let mut rig = Rig::new(&BackingSpec::sized_file(&path, SIZE));
    let blocks = || std::fs::metadata(&path).unwrap().blocks();
    rig.write(0, &vec![1; 1 << 20]).unwrap();
    rig.command(IoOp::Flush, 0, 0).unwrap();
    assert!(blocks() >= 2048);
    let zero = |deallocate| IoOp::WriteZeroes { deallocate, fua: true };
    rig.command(zero(false), 0, 512 << 10).unwrap();
    assert!(blocks() >= 2048, "zeroing without deallocation keeps the space");
    rig.command(zero(true), 0, 512 << 10).unwrap();
    assert!(blocks() < 1100);
    rig.command(IoOp::Deallocate, 512 << 10, 512 << 10).unwrap();
    assert!(blocks() < 100);
    assert_eq!(rig.read(0, 1 << 20).unwrap(), vec![0; 1 << 20]);
}

#[test]
fn durability_is_asked_of_the_kernel_when_the_host_asks() {
    let folder = disk_folder();
    let mut rig = Rig::new(&BackingSpec::sized_file(folder.path().join("file"), SIZE));
    rig.write_with(0, &[1; 4096], false).unwrap();
    assert_eq!((rig.ring.stats().dsync_writes, rig.ring.stats().syncs), (0, 0));
    rig.write_with(0, &[1; 4096], true).unwrap();
    let stats = rig.ring.stats();
    assert!(stats.dsync_writes == 1, "a durable write carries the flag");
    let synced = stats.syncs;
    rig.command(IoOp::WriteZeroes { deallocate: true, fua: true }, 0, 4096).unwrap();
    assert_eq!(rig.ring.stats().syncs, synced + 1, "durable zeroing ends with a sync");
    rig.command(IoOp::Flush, 0, 0).unwrap();
    assert_eq!(rig.ring.stats().syncs, synced + 2);
}

/// Flushes that a device has completed, from the block layer's statistics.
fn flushes(device: &std::path::Path) -> u64 {
    let name = device.file_name().unwrap().to_str().unwrap();
    let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    stat.split_whitespace().nth(15).unwrap().parse().unwrap()
}

#[test]
fn durability_reaches_the_device() {
    if !is_root() {
        return;
    }
    let folder = disk_folder();
    let device = Loop::new(&folder.path().join("disk"), SIZE, 512);
    let mut rig = Rig::new(&BackingSpec::path(&device.path));
    let mut seen = flushes(&device.path);
    let mut new_flushes = || {
        let before = std::mem::replace(&mut seen, flushes(&device.path));
        seen - before
    };
    rig.write_with(0, &[1; 4096], false).unwrap();
    assert_eq!(new_flushes(), 0);
    rig.write_with(0, &[2; 4096], true).unwrap();
    assert!(new_flushes() > 0, "Force Unit Access");
    rig.write_with(0, &[3; 4096], false).unwrap();
    rig.command(IoOp::Flush, 0, 0).unwrap();
    assert!(new_flushes() > 0, "Flush");
    rig.command(IoOp::WriteZeroes { deallocate: false, fua: true }, 0, 4096).unwrap();
    assert!(new_flushes() > 0, "Write Zeroes with Force Unit Access");
}
