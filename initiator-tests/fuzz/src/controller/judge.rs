//! What a queue may ask for on behalf of a command, and how a command may end.
//!
//! Nothing here looks into the queue: a command is judged by its own bytes, by the namespaces that
//! there were, and by what was done for it.

use super::ask_io::extent;
use super::conn::Conn;
use super::sent::{MAX_TRANSFER, Sent, direction};
use nvme_spec_types::fabrics::ConnectData;
use nvme_spec_types::identify::IDENTIFY_SIZE;
use nvme_spec_types::log::GetLogPage;
use nvme_spec_types::nvm::{
    BlockCommand, BlockFlags, Copy, CopyRange, DatasetManagement, DsmAttributes, DsmRange, NSID_ALL,
};
use nvme_spec_types::{
    AdminOpcode, Command, Completion, Fuse, IoOpcode, Psdt, Status, StatusCode, StatusType,
};
use nvmf::Slot;
use nvmf::queue::{Io, IoKind};
use nvmf::view::{NamespaceView, SubsystemView};
use std::ops::Range;
use std::sync::Arc;

/// What operations on disks fail with here.
pub(super) const DISK_FAILURES: [StatusCode; 3] =
    [StatusCode::WRITE_FAULT, StatusCode::UNRECOVERED_READ_ERROR, StatusCode::NAMESPACE_NOT_READY];

/// Whether nothing is wrong with an I/O command, as far as its host can know.
pub(super) fn is_sound(conn: &Conn, sent: &Sent) -> bool {
    let command = &sent.command;
    let Some(namespace) = namespace(conn, command.nsid()) else { return false };
    let conflict = conn.unanswered().any(|other| other.command.cid() == command.cid());
    if command.psdt() != Psdt::Sgl || command.fuse() != Fuse::Normal || conflict {
        return false;
    }
    let (first, len) = extent(command, namespace.lba_shift);
    let end = u128::from(namespace.block_count) << namespace.lba_shift;
    let inside = first + u128::from(len) <= end;
    let flags = BlockCommand::from_command(command).flags.bits();
    let plain = flags & !BlockFlags::FORCE_UNIT_ACCESS.bits() == 0;
    match command.io_opcode() {
        IoOpcode::FLUSH => true,
        IoOpcode::VERIFY => inside && plain,
        IoOpcode::WRITE_ZEROES => inside && plain && !namespace.read_only,
        IoOpcode::READ | IoOpcode::WRITE | IoOpcode::COMPARE => {
            let writes = command.io_opcode() == IoOpcode::WRITE;
            inside
                && plain
                && len <= MAX_TRANSFER.into()
                && !(writes && namespace.read_only)
                && sent.describes(len, command.io_opcode().direction())
        }
        _ => false,
    }
}

fn namespace(conn: &Conn, nsid: u32) -> Option<Arc<NamespaceView>> {
    conn.view()?.namespaces.iter().find(|ns| ns.nsid == nsid).cloned()
}

/// The source ranges of a Copy, where they are on the disk, and where they go.
fn copied(conn: &Conn, sent: &Sent) -> Option<(Vec<Range<u128>>, Range<u128>)> {
    let copy = Copy::from_command(&sent.command);
    let shift = namespace(conn, sent.command.nsid())?.lba_shift;
    let bytes = sent.data(copy.data_len()? as u64);
    let (mut sources, mut total) = (Vec::new(), 0);
    for bytes in bytes.chunks_exact(CopyRange::size(copy.format)?) {
        let range = CopyRange::parse(copy.format, bytes).ok()??;
        let first = u128::from(range.slba) << shift;
        let len = u128::from(range.nlb.count()) << shift;
        sources.push(first..first + len);
        total += len;
    }
    let to = u128::from(copy.sdlba) << shift;
    Some((sources, to..to + total))
}

/// The ranges of a Dataset Management that are to be deallocated.
fn deallocated(conn: &Conn, sent: &Sent) -> Vec<Range<u128>> {
    let dsm = DatasetManagement::from_command(&sent.command);
    let Some(namespace) = namespace(conn, sent.command.nsid()) else { return Vec::new() };
    if !dsm.attributes.contains(DsmAttributes::DEALLOCATE) {
        return Vec::new();
    }
    let data = sent.data(dsm.data_len() as u64);
    let ranges = data.chunks_exact(DsmRange::SIZE).filter_map(|bytes| DsmRange::parse(bytes).ok());
    ranges
        .filter(|range| range.nlb > 0)
        .map(|range| {
            let first = u128::from(range.slba) << namespace.lba_shift;
            first..first + (u128::from(range.nlb) << namespace.lba_shift)
        })
        .collect()
}

/// Judges an operation on a disk that a queue asks for: it is of the command's kind, within the
/// command's blocks, and within a namespace that the queue knows.
pub(super) fn judge_io(conn: &Conn, slot: Slot, io: &Io) {
    let sent = conn.command(slot);
    let command = &sent.command;
    let wrong = |what: &str| panic!("{what}: {io:?} for {command:?}");
    if !conn.on_io_queue() || command.fabrics_type().is_some() {
        let asked = &conn.slots[usize::from(slot.0)].progress.asked_to_flush;
        let good = io.kind == IoKind::Flush && asked.contains(&io.backing);
        return if !good {
            wrong("an operation for an admin command")
        };
    }
    let Some(view) = conn.view() else { return wrong("an operation without namespaces") };
    let Some(found) = view.namespaces.iter().find(|ns| ns.backing == io.backing) else {
        return wrong("an operation on no namespace");
    };
    let whole_list = command.nsid() == NSID_ALL && command.io_opcode() == IoOpcode::FLUSH;
    let from_elsewhere = command.io_opcode() == IoOpcode::COPY && io.kind == IoKind::Read;
    if found.nsid != command.nsid() && !whole_list && !from_elsewhere {
        wrong("an operation on another namespace");
    }
    let limited = |view: &SubsystemView| {
        let host = conn.queue.binding().map_or("", |binding| &binding.hostnqn);
        // A Copy waits by the limit of where it goes, and is charged for where it comes from.
        let named =
            view.namespaces.iter().any(|ns| ns.nsid == command.nsid() && ns.limit.is_some());
        named || view.host_limits.contains_key(host)
    };
    let admitted = conn.slots[usize::from(slot.0)].progress.admitted;
    let known = sent.arrived_in == Some(view.generation);
    if known && limited(&view) && !admitted && !whole_list {
        wrong("an operation that no limit let pass");
    }
    if io.kind == IoKind::Flush {
        return;
    }
    let range = u128::from(io.offset)..u128::from(io.offset) + u128::from(io.len);
    if io.len == 0 || range.end > u128::from(found.block_count) << found.lba_shift {
        wrong("an operation beyond the namespace");
    }
    if found.read_only && io.kind != IoKind::Read {
        wrong("an operation that changes what may not be changed");
    }
    let durable = match io.kind {
        IoKind::Write { fua } | IoKind::WriteZeroes { fua, .. } => fua,
        _ => true,
    };
    let through = conn.queue.binding().is_some_and(|b| b.settings.write_through());
    let asked = match command.io_opcode() {
        IoOpcode::COPY => Copy::from_command(command).flags,
        _ => BlockCommand::from_command(command).flags,
    };
    if !durable && (through || asked.contains(BlockFlags::FORCE_UNIT_ACCESS)) {
        wrong("a write that is not durable and must be");
    }
    let (first, len) = extent(command, found.lba_shift);
    let own = first..first + u128::from(len);
    let within = |outer: &Range<u128>| outer.start <= range.start && range.end <= outer.end;
    let pair = command.fuse() == Fuse::Second;
    let good = match (command.io_opcode(), io.kind) {
        (IoOpcode::READ | IoOpcode::COMPARE, IoKind::Read)
        | (IoOpcode::WRITE, IoKind::Write { .. })
        | (IoOpcode::WRITE_ZEROES, IoKind::WriteZeroes { .. }) => range == own,
        (IoOpcode::WRITE, IoKind::Read) => pair && range == own,
        (IoOpcode::VERIFY, IoKind::Read) => within(&own),
        (IoOpcode::DATASET_MANAGEMENT, IoKind::Deallocate) => {
            deallocated(conn, sent).contains(&range)
        }
        (IoOpcode::COPY, kind) => copied(conn, sent).is_some_and(|(sources, to)| match kind {
            IoKind::Read => sources.iter().any(within),
            IoKind::Write { .. } => within(&to),
            _ => false,
        }),
        _ => false,
    };
    if !good {
        wrong("an operation that the command does not ask for");
    }
}

/// Judges a completion and the data that goes before it.
pub(super) fn judge_response(
    conn: &Conn,
    slot: Slot,
    completion: &Completion,
    push: u32,
    invalidate: Option<u32>,
) {
    let sent = conn.command(slot);
    let command = &sent.command;
    let status = completion.status;
    assert!(!sent.answered, "answered twice: {command:?}");
    assert_eq!(completion.cid, command.cid(), "another command's id");
    assert!(!conn.held.contains(&conn.token(slot)), "answered before its receive came back");
    if let Some(key) = invalidate {
        assert!(sent.invalidates(key), "key {key:#x} is not to be invalidated");
    }
    let kept = &conn.slots[usize::from(slot.0)];
    assert!(!kept.waits && kept.ios == 0 && !kept.busy, "answered while something is under way");
    let reads =
        direction(conn.on_io_queue(), command) == nvme_spec_types::DataDirection::ControllerToHost;
    assert!(push == 0 || reads && status.is_success(), "data with {status:?} of {command:?}");
    if push > 0 {
        sent.push(conn.queue.segments(slot), push);
    }
    judge_status(conn, slot, sent, status);
    if status.is_success() {
        judge_success(conn, slot, sent, push);
    } else if let Some(generation) = sent.sound_in {
        let same = conn.view().is_some_and(|view| view.generation == generation);
        let aborted = status.code == StatusCode::ABORT_REQUESTED;
        let differs = status.code == StatusCode::COMPARE_FAILURE;
        let failed = !kept.progress.failed.is_empty();
        assert!(!same || aborted || differs || failed, "{status:?} of a sound {command:?}");
    }
    if let Some(binding) = conn.queue.binding() {
        let (head, entries) = (completion.sqhd, binding.sq_entries);
        match binding.flow_control {
            true => {
                assert!(head < entries, "queue head {head} of {entries}");
                let next = conn.head.map(|last| (last + 1) % entries);
                assert!(next.is_none_or(|next| next == head), "queue head {head}, not {next:?}");
            }
            false => assert_eq!(head, u16::MAX, "a queue head without flow control"),
        }
    }
}

/// Judges that a command may end with a status.
fn judge_status(conn: &Conn, slot: Slot, sent: &Sent, status: Status) {
    let command = &sent.command;
    let progress = &conn.slots[usize::from(slot.0)].progress;
    assert_eq!(status.crd, 0, "a retry delay that nobody announced");
    if status.is_success() {
        assert!(!status.dnr && !status.more, "success with {status:?}");
        return;
    }
    let of_disk = |progress: &super::conn::Progress| progress.failed.contains(&status.code);
    let first = conn.firsts.values().any(|first| *first == conn.token(slot));
    let good = match status.code {
        StatusCode::ABORT_REQUESTED => {
            let held = command.admin_opcode() == AdminOpcode::ASYNC_EVENT_REQUEST;
            !conn.on_io_queue() && held || conn.aborted.contains(&command.cid())
        }
        StatusCode::COMPARE_FAILURE => {
            command.io_opcode() == IoOpcode::COMPARE && conn.on_io_queue()
        }
        StatusCode::ABORTED_FAILED_FUSED | StatusCode::ABORTED_MISSING_FUSED => {
            conn.on_io_queue() && matches!(command.fuse(), Fuse::First | Fuse::Second)
        }
        code if DISK_FAILURES.contains(&code) => of_disk(progress) || first,
        // Something that the target cannot do must have a better name.
        StatusCode::INTERNAL_ERROR => false,
        StatusCode::LBA_OUT_OF_RANGE | StatusCode::NAMESPACE_WRITE_PROTECTED => {
            conn.on_io_queue() && command.fabrics_type().is_none()
        }
        code if code.sct() == StatusType::GENERIC => code.name().is_some(),
        code if code.sct() == StatusType::COMMAND_SPECIFIC => is_of(conn, command, code),
        _ => false,
    };
    assert!(good, "{status:?} is no end of {command:?}");
}

/// Whether a command specific status belongs to a command.
fn is_of(conn: &Conn, command: &Command, code: StatusCode) -> bool {
    if command.fabrics_type().is_some() {
        return matches!(
            code,
            StatusCode::CONNECT_INCOMPATIBLE_FORMAT
                | StatusCode::CONNECT_CONTROLLER_BUSY
                | StatusCode::CONNECT_INVALID_PARAMETERS
                | StatusCode::CONNECT_INVALID_HOST
                | StatusCode::INVALID_QUEUE_TYPE
        );
    }
    if conn.on_io_queue() {
        return command.io_opcode() == IoOpcode::COPY
            && matches!(
                code,
                StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED
                    | StatusCode::INCOMPATIBLE_NAMESPACE_OR_FORMAT
                    | StatusCode::FAST_COPY_NOT_POSSIBLE
                    | StatusCode::OVERLAPPING_IO_RANGE
            );
    }
    match command.admin_opcode() {
        AdminOpcode::ABORT => code == StatusCode::ABORT_COMMAND_LIMIT_EXCEEDED,
        AdminOpcode::ASYNC_EVENT_REQUEST => code == StatusCode::AER_LIMIT_EXCEEDED,
        AdminOpcode::GET_LOG_PAGE => code == StatusCode::INVALID_LOG_PAGE,
        AdminOpcode::SET_FEATURES => matches!(
            code,
            StatusCode::FEATURE_NOT_SAVEABLE
                | StatusCode::FEATURE_NOT_CHANGEABLE
                | StatusCode::FEATURE_NOT_NAMESPACE_SPECIFIC
                | StatusCode::IO_COMMAND_SET_COMBINATION_REJECTED
        ),
        AdminOpcode::GET_FEATURES => code == StatusCode::FEATURE_NOT_NAMESPACE_SPECIFIC,
        AdminOpcode::IDENTIFY => matches!(
            code,
            StatusCode::INVALID_IO_COMMAND_SET
                | StatusCode::IO_COMMAND_SET_NOT_SUPPORTED
                | StatusCode::INVALID_CONTROLLER_IDENTIFIER
        ),
        _ => false,
    }
}

/// Judges that a command which succeeded has done what it is for.
fn judge_success(conn: &Conn, slot: Slot, sent: &Sent, push: u32) {
    let command = &sent.command;
    let progress = &conn.slots[usize::from(slot.0)].progress;
    let done = |what: &str, bytes: u64, of: u64| {
        assert_eq!(bytes, of, "{what} {bytes} bytes of {of}: {command:?}");
    };
    if command.fabrics_type().is_some() {
        let connect = command.fabrics_type() == Some(nvme_spec_types::FabricsType::CONNECT);
        assert!(!connect || conn.is_bound(), "a Connect that connects nothing");
        assert!(!connect || sent.described() == ConnectData::SIZE as u64);
        return;
    }
    if !conn.on_io_queue() {
        let len = match command.admin_opcode() {
            AdminOpcode::IDENTIFY => IDENTIFY_SIZE as u64,
            AdminOpcode::GET_LOG_PAGE => GetLogPage::from_command(command).data_len(),
            _ => return,
        };
        return done("sent", push.into(), len);
    }
    assert!(progress.failed.is_empty(), "success of a failure: {command:?}");
    if conn.view().map(|view| view.generation) != sent.arrived_in {
        return; // what was done was judged by the namespaces that there were
    }
    let shift = namespace(conn, command.nsid()).map_or(0, |ns| ns.lba_shift);
    let (_, len) = extent(command, shift);
    match (command.io_opcode(), command.fuse()) {
        // The second command of a pair does its work.
        (IoOpcode::COMPARE, Fuse::First) => {}
        (IoOpcode::READ, _) => {
            done("read", progress.read, len);
            done("sent", push.into(), len);
            let bytes = conn.bytes(slot, nvmf::queue::Place::Buffer(0), push);
            assert!(bytes == progress.seen, "other data than was read: {command:?}");
        }
        (IoOpcode::WRITE, _) => done("wrote", progress.written, len),
        (IoOpcode::COMPARE, _) => {
            done("read", progress.read, len);
            assert_eq!(progress.equal, Some(true), "equal, and it is not: {command:?}");
        }
        (IoOpcode::WRITE_ZEROES, _) => done("zeroed", progress.zeroed, len),
        (IoOpcode::VERIFY, _) => done("read", progress.read, len),
        (IoOpcode::COPY, _) => {
            if let Some((_, to)) = copied(conn, sent) {
                done("wrote", progress.written, (to.end - to.start) as u64);
            }
        }
        (IoOpcode::DATASET_MANAGEMENT, _) => {
            let ranges = deallocated(conn, sent);
            let total: u128 = ranges.iter().map(|range| range.end - range.start).sum();
            done("deallocated", progress.deallocated, total as u64);
        }
        (IoOpcode::FLUSH, _) => {
            let all = command.nsid() == NSID_ALL;
            let view = conn.view();
            let known = view.iter().flat_map(|view| &view.namespaces);
            let named = known.filter(|ns| all || ns.nsid == command.nsid());
            let flushed = named.map(|ns| ns.backing).all(|b| progress.flushed.contains(&b));
            assert!(flushed, "not flushed: {command:?}");
        }
        other => panic!("{other:?} is not offered and succeeded"),
    }
}
