use super::*;
use crate::testing::hex;
use proptest::prelude::*;

// Captured from Linux 6.1.
#[test]
fn linux_asks_for_one_queue() {
    let cmd =
        Command::parse(&hex("09400a1000000000 0000000000000000 0000000000000000 0000000000000000
         0000000000000040 07000000 00000000 0000000000000000 0000000000000000"))
        .unwrap();
    let set = SetFeatures::from_command(&cmd);
    assert_eq!((set.fid, set.save), (FeatureId::NUMBER_OF_QUEUES, false));
    let queues = NumberOfQueues::from_dword(set.cdw11);
    assert_eq!((queues.submission.count(), queues.completion.count()), (1, 1));
    assert_eq!(set.to_command(0x100a, SglDescriptor::NO_DATA), cmd);
    // The target of that session gave 128.
    assert_eq!(NumberOfQueues::from_dword(0x007f_007f).submission.count(), 128);
}

// Captured from Linux 6.1: namespace attribute and ANA change notices.
#[test]
fn linux_enables_the_events_it_handles() {
    let config = AsyncEventConfig::from_bits_retain(0x0900);
    assert_eq!(config, AsyncEventConfig::NAMESPACE_ATTRIBUTE | AsyncEventConfig::ANA_CHANGE);
    assert_eq!(AsyncEventConfig::DISCOVERY_LOG.bits(), 0x8000_0000);
    assert_eq!(AsyncEventConfig::ALLOCATED_NAMESPACE_ATTRIBUTE.bits(), 1 << 19);
}

#[test]
fn get_features_packs_the_selection_above_the_feature() {
    let get = GetFeatures {
        nsid: 1,
        fid: FeatureId::HOST_IDENTIFIER,
        sel: FeatureSelect::CAPABILITIES,
        cdw11: HOST_ID_EXTENDED,
        uuid_index: 3,
    };
    let cmd = get.to_command(5, SglDescriptor::NO_DATA);
    assert_eq!((cmd.cdw10(), cmd.cdw11(), cmd.cdw14()), (0x381, 1, 3));
    assert_eq!(GetFeatures::from_command(&cmd), get);
}

#[test]
fn saving_is_the_top_bit() {
    let mut cmd = Command::ZERO;
    cmd.set_cdw10(0x8000_0006);
    let set = SetFeatures::from_command(&cmd);
    assert_eq!((set.fid, set.save), (FeatureId::VOLATILE_WRITE_CACHE, true));
    cmd.set_cdw10(0x7fff_ff06);
    assert!(!SetFeatures::from_command(&cmd).save);
}

#[test]
fn dwords_of_features_lie_where_the_tables_put_them() {
    let threshold =
        TemperatureThreshold { kelvin: 343, sensor: 2, under: Some(true), hysteresis: 5 };
    assert_eq!(threshold.to_dword(), 5 << 22 | 1 << 20 | 2 << 16 | 343);
    let arbitration = Arbitration::from_dword(0x0403_0207);
    assert_eq!((arbitration.burst, arbitration.low.count()), (7, 3));
    assert_eq!((arbitration.medium.count(), arbitration.high.count()), (4, 5));
    assert_eq!(ErrorRecovery { time_limit_100ms: 9, dulbe: true }.to_dword(), 0x0001_0009);
    let stamp = Timestamp::from_bytes(&[1, 0, 0, 0, 0, 2, 0b11, 0xff]);
    assert_eq!(stamp.milliseconds, 0x0200_0000_0001);
    assert_eq!((stamp.may_have_stopped, stamp.origin), (true, 1));
    let behavior = HostBehavior { acre: 1, cdfe: 0xc, ..HostBehavior::default() };
    assert_eq!(behavior.to_bytes()[..6], [1, 0, 0, 0, 0xc, 0]);
}

proptest! {
    #[test]
    fn any_dword_reads_the_same_twice(dword: u32, bytes: [u8; 8]) {
        prop_assert_eq!(NumberOfQueues::from_dword(dword).to_dword(), dword);
        let t = TemperatureThreshold::from_dword(dword);
        prop_assert_eq!(TemperatureThreshold::from_dword(t.to_dword()), t);
        let a = Arbitration::from_dword(dword);
        prop_assert_eq!(Arbitration::from_dword(a.to_dword()), a);
        let e = ErrorRecovery::from_dword(dword);
        prop_assert_eq!(ErrorRecovery::from_dword(e.to_dword()), e);
        let s = Timestamp::from_bytes(&bytes);
        prop_assert_eq!(Timestamp::from_bytes(&s.to_bytes()), s);
    }
}
