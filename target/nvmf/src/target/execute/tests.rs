use super::super::tests::*;
use super::*;
use nvme_spec_types::SglDescriptor;

fn fabrics(fctype: u8) -> Command {
    Command::fabrics(FabricsType(fctype), 1, SglDescriptor::NO_DATA)
}

#[test]
fn admin_commands_that_there_are_not_are_invalid_opcodes() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    let (discovery, _) = bench.ready_discovery(0);
    for queue in [admin, discovery] {
        for opcode in [0x00, 0x01, 0x04, 0x0d, 0x10, 0x80, 0x84, 0xc0, 0xff] {
            let outcome = bench.run(queue, &admin_command(AdminOpcode(opcode), 1), &[]);
            assert_eq!(outcome, logged(StatusCode::INVALID_OPCODE), "{opcode:#x}");
        }
        for fctype in [0x05, 0x06, 0x42] {
            let outcome = bench.run(queue, &fabrics(fctype), &[]);
            assert_eq!(outcome, logged(StatusCode::INVALID_OPCODE), "{fctype:#x}");
        }
    }
}

#[test]
fn before_enabling_commands_are_out_of_sequence() {
    let mut bench = Bench::new();
    let (admin, _) = bench.admin_to(SUBNQN, 0);
    for opcode in ADMIN_COMMANDS.iter().filter(|&&opcode| opcode != AdminOpcode::KEEP_ALIVE) {
        let outcome = bench.run(admin, &admin_command(*opcode, 1), &[]);
        assert_eq!(outcome, logged(StatusCode::COMMAND_SEQUENCE_ERROR), "{opcode}");
    }
}

#[test]
fn after_a_shutdown_commands_are_out_of_sequence_until_a_reset() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    bench.set_cc(admin, ENABLE | 1 << 14);
    for opcode in ADMIN_COMMANDS.iter().filter(|&&opcode| opcode != AdminOpcode::KEEP_ALIVE) {
        let outcome = bench.run(admin, &admin_command(*opcode, 1), &[]);
        assert_eq!(outcome, logged(StatusCode::COMMAND_SEQUENCE_ERROR), "{opcode}");
    }
    bench.set_cc(admin, 0);
    bench.set_cc(admin, ENABLE);
    let features = admin_command(AdminOpcode::GET_FEATURES, 1);
    let outcome = bench.run(admin, &features, &[]);
    assert_eq!(outcome, logged(StatusCode::INVALID_FIELD));
}

#[test]
fn disconnect_frees_the_queue_id_and_leaves_closing_to_the_queue() {
    let mut bench = Bench::new();
    let (_, cntlid) = bench.ready();
    let io = bench.io_queue(cntlid, 1).unwrap();
    assert_eq!(bench.run(io, &fabrics(0x08), &[]), Outcome::ok());
    assert!(bench.out.is_empty());
    let late = bench.run(io, &fabrics(0x08), &[]);
    assert_eq!(late, Outcome::error(StatusCode::ABORTED_SQ_DELETION.into()));
    let again = bench.io_queue(cntlid, 1).unwrap();
    bench.target.on_queue_closed(bench.now, io, &mut bench.out);
    assert!(bench.out.is_empty());
    assert!(bench.target.controllers().next().unwrap().queues.iter().any(|q| q.queue == again));
}

#[test]
fn an_admin_queue_cannot_be_disconnected_that_way() {
    let mut bench = Bench::new();
    let (admin, _) = bench.ready();
    let outcome = bench.run(admin, &fabrics(0x08), &[]);
    assert_eq!(outcome, logged(StatusCode::INVALID_QUEUE_TYPE));
}

#[test]
fn what_an_io_queue_does_not_know_is_an_invalid_opcode() {
    let mut bench = Bench::new();
    let (_, cntlid) = bench.ready();
    let io = bench.io_queue(cntlid, 1).unwrap();
    for command in [fabrics(0x00), fabrics(0x04), admin_command(AdminOpcode(0x0d), 1)] {
        assert_eq!(bench.run(io, &command, &[]), logged(StatusCode::INVALID_OPCODE));
    }
}
