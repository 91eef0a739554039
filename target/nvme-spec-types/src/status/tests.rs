use super::*;
use std::collections::HashMap;
use std::string::ToString;

#[test]
fn the_wire_field_is_laid_out_above_the_phase_tag() {
    // SC 82h at bit 1, SCT 1 at bit 9, CRD at bit 12, M at bit 14, DNR at bit 15.
    assert_eq!(StatusCode::CONNECT_INVALID_PARAMETERS.with_dnr().to_wire(), 0x8304);
    let all = Status { code: StatusCode::new(7, 0xff), crd: 3, more: true, dnr: true };
    assert_eq!(all.to_wire(), 0xfffe);
    assert_eq!(Status { crd: 2, ..Status::SUCCESS }.to_wire(), 0x2000);
    assert_eq!(Status { more: true, ..Status::SUCCESS }.to_wire(), 0x4000);
}

#[test]
fn every_wire_value_survives_but_for_the_phase_tag() {
    for field in 0..=u16::MAX {
        assert_eq!(Status::from_wire(field).to_wire(), field & !1);
    }
}

#[test]
fn only_shared_command_specific_numbers_have_two_constants() {
    let mut seen = HashMap::new();
    for code in codes::ALL {
        *seen.entry(code.raw()).or_insert(0) += 1;
    }
    let mut shared: std::vec::Vec<u16> =
        seen.into_iter().filter(|&(_, n)| n > 1).map(|(raw, _)| raw).collect();
    shared.sort_unstable();
    assert_eq!(shared, [0x180, 0x181, 0x182, 0x183, 0x185]);
}

#[test]
fn unknown_codes_are_shown_with_their_type() {
    assert_eq!(StatusCode::new(7, 0x42).to_string(), "vendor specific status 0x42");
    assert_eq!(
        StatusCode::LBA_OUT_OF_RANGE.with_dnr().to_string(),
        "LBA out of range, do not retry"
    );
}
