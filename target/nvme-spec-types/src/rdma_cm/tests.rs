use super::*;

#[test]
fn the_admin_request_of_linux_asks_for_32_by_32() {
    // From a capture of Linux 6.1: RECFMT 0, QID 0, HRQSIZE 32, HSQSIZE 31.
    let mut bytes = [0; 32];
    bytes[4] = 0x20;
    bytes[6] = 0x1f;
    let request = CmRequest::parse_or_status(&bytes).unwrap();
    assert_eq!((request.qid, request.hrqsize, request.hsqsize.count()), (0, 32, 32));
    assert_eq!(request.to_bytes(), bytes);
}

#[test]
fn private_data_that_is_short_or_of_another_format_has_its_status() {
    assert_eq!(
        CmRequest::parse_or_status(&[0; 31]),
        Err(CmRejectStatus::INVALID_PRIVATE_DATA_LENGTH)
    );
    let mut bytes = [0; 56];
    bytes[0] = 1;
    assert_eq!(CmRequest::parse_or_status(&bytes), Err(CmRejectStatus::INVALID_RECFMT));
    bytes[0] = 0;
    bytes[8] = 0x34;
    bytes[9] = 0x12;
    // A request comes with the connection manager's padding behind it.
    assert_eq!(CmRequest::parse_or_status(&bytes).unwrap().cntlid, 0x1234);
}

#[test]
fn an_accept_holds_the_receive_queue_size_at_byte_2() {
    let accept = CmAccept { recfmt: RECFMT, crqsize: 32 };
    assert_eq!(accept.to_bytes()[..4], [0, 0, 0x20, 0]);
    assert_eq!(CmAccept::parse(&accept.to_bytes()), Ok(accept));
}

#[test]
fn a_reject_is_four_bytes() {
    let reject = CmReject { recfmt: RECFMT, sts: CmRejectStatus::NO_RESOURCES };
    assert_eq!(reject.to_bytes(), [0, 0, 6, 0]);
    assert_eq!(CmReject::parse(&[0, 0, 6, 0]), Ok(reject));
}
