use super::super::tests::*;
use super::*;
use nvme_spec_types::ZeroBased;

fn request(qid: u16, hsqsize: u16, hrqsize: u16, cntlid: u16) -> [u8; 32] {
    let hsqsize = ZeroBased::<u16>::from_raw(hsqsize);
    CmRequest { recfmt: 0, qid, hrqsize, hsqsize, cntlid }.to_bytes()
}

fn admit(qid: u16, hsqsize: u16, hrqsize: u16, cntlid: u16) -> Result<Admission, CmRejectStatus> {
    let mut bench = Bench::new();
    assert_eq!(bench.ready().1, 1);
    let data = request(qid, hsqsize, hrqsize, cntlid);
    bench.target.admit(&data).map_err(|reason| reason.status())
}

#[test]
fn the_admin_queue_that_linux_asks_for_is_admitted() {
    let admission = admit(0, 31, 32, 0).unwrap();
    let expected = Admission { qid: 0, sq_entries: 32, host_receives: 32, cntlid: 0xffff };
    assert_eq!(admission, expected);
    let bench = Bench::new();
    let mut accept = [0; 32];
    accept[2] = 32;
    assert_eq!(bench.target.accept_private_data(&admission), accept);
}

#[test]
fn an_io_queue_of_the_largest_size_is_admitted() {
    let expected = Admission { qid: 4, sq_entries: 128, host_receives: 128, cntlid: 1 };
    assert_eq!(admit(4, 127, 128, 1), Ok(expected));
}

#[test]
fn private_data_that_is_short_or_of_another_format_is_rejected() {
    let target = Bench::new().target;
    let mut data = request(0, 31, 32, 0);
    let reason = target.admit(&data[..31]).unwrap_err();
    assert_eq!(reason.private_data(), [0, 0, 1, 0]);
    assert_eq!(target.admit(&[]).unwrap_err(), reason);
    data[0] = 1;
    assert_eq!(target.admit(&data).unwrap_err().status(), CmRejectStatus::INVALID_RECFMT);
}

#[test]
fn longer_private_data_is_admitted() {
    let target = Bench::new().target;
    let data = [&request(0, 31, 32, 0)[..], &[0xff; 24]].concat();
    assert!(target.admit(&data).is_ok());
}

#[test]
fn a_queue_id_beyond_the_most_queues_is_rejected() {
    assert!(admit(4, 127, 128, 1).is_ok());
    assert_eq!(admit(5, 127, 128, 1), Err(CmRejectStatus::INVALID_QID));
}

#[test]
fn a_queue_of_one_entry_or_too_many_is_rejected() {
    assert!(admit(0, 1, 32, 0).is_ok());
    assert_eq!(admit(0, 0, 32, 0), Err(CmRejectStatus::INVALID_HSQSIZE));
    assert_eq!(admit(0, 32, 32, 0), Err(CmRejectStatus::INVALID_HSQSIZE));
    assert_eq!(admit(1, 128, 129, 1), Err(CmRejectStatus::INVALID_HSQSIZE));
    assert_eq!(admit(1, u16::MAX, 129, 1), Err(CmRejectStatus::INVALID_HSQSIZE));
}

#[test]
fn a_host_without_receives_is_rejected() {
    assert_eq!(admit(0, 31, 0, 0), Err(CmRejectStatus::INVALID_HRQSIZE));
}

#[test]
fn an_io_queue_need_not_say_its_controller_but_may_not_say_one_that_is_not_there() {
    for unsaid in [0, 0xffff] {
        assert_eq!(admit(1, 127, 128, unsaid).unwrap().cntlid, 0xffff);
    }
    for wrong in [2, 0xffef, 0xfff0, 0xfffe] {
        assert_eq!(admit(1, 127, 128, wrong), Err(CmRejectStatus::INVALID_CNTLID), "{wrong:#x}");
    }
}
