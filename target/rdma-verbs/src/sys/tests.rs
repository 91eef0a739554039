//! The layouts this crate relies on, against the C headers of rdma-core 44 on x86-64 and arm64.

use super::{CAddr, cm_result, from_c_addr, not_null, verbs_result};
use rdma_sys::*;
use std::mem::{offset_of, size_of};
use std::net::SocketAddr;

#[test]
fn sizes_equal_those_of_the_c_headers() {
    let sizes = [
        ("ibv_wc", size_of::<ibv_wc>(), 48),
        ("ibv_send_wr", size_of::<ibv_send_wr>(), 128),
        ("ibv_recv_wr", size_of::<ibv_recv_wr>(), 32),
        ("ibv_sge", size_of::<ibv_sge>(), 16),
        ("ibv_device_attr", size_of::<ibv_device_attr>(), 232),
        ("ibv_context", size_of::<ibv_context>(), 328),
        ("ibv_qp", size_of::<ibv_qp>(), 160),
        ("ibv_cq", size_of::<ibv_cq>(), 128),
        ("ibv_srq", size_of::<ibv_srq>(), 128),
        ("ibv_mr", size_of::<ibv_mr>(), 48),
        ("ibv_mw", size_of::<ibv_mw>(), 32),
        ("ibv_qp_init_attr", size_of::<ibv_qp_init_attr>(), 64),
        ("ibv_srq_init_attr", size_of::<ibv_srq_init_attr>(), 24),
        ("ibv_qp_attr", size_of::<ibv_qp_attr>(), 144),
        ("ibv_async_event", size_of::<ibv_async_event>(), 16),
        ("ibv_device", size_of::<ibv_device>(), 664),
        ("ibv_comp_channel", size_of::<ibv_comp_channel>(), 16),
        ("rdma_cm_id", size_of::<rdma_cm_id>(), 416),
        ("rdma_cm_event", size_of::<rdma_cm_event>(), 80),
        ("rdma_conn_param", size_of::<rdma_conn_param>(), 24),
        ("rdma_event_channel", size_of::<rdma_event_channel>(), 4),
        ("rdma_route", size_of::<rdma_route>(), 312),
        ("rdma_addr", size_of::<rdma_addr>(), 296),
    ];
    for (name, here, in_c) in sizes {
        assert_eq!(here, in_c, "size of {name}");
    }
}

#[test]
fn offsets_equal_those_of_the_c_headers() {
    assert_eq!(offset_of!(ibv_wc, imm_data_invalidated_rkey_union), 24);
    assert_eq!(offset_of!(ibv_wc, qp_num), 28);
    assert_eq!(offset_of!(ibv_wc, wc_flags), 36);
    assert_eq!(offset_of!(ibv_send_wr, opcode), 28);
    assert_eq!(offset_of!(ibv_send_wr, imm_data_invalidated_rkey_union), 36);
    assert_eq!(offset_of!(ibv_send_wr, wr), 40);
    assert_eq!(offset_of!(ibv_send_wr, bind_mw_tso_union), 80);
    assert_eq!(offset_of!(rdma_cm_event, param), 24);
    assert_eq!(offset_of!(rdma_cm_id, qp), 24);
    assert_eq!(offset_of!(rdma_cm_id, route), 32);
    assert_eq!(offset_of!(rdma_cm_id, event), 352);
    assert_eq!(offset_of!(ibv_context, ops), 8);
    assert_eq!(offset_of!(ibv_context, async_fd), 268);
    assert_eq!(offset_of!(ibv_async_event, event_type), 8);
    assert_eq!(offset_of!(ibv_qp, qp_num), 52);
    assert_eq!(offset_of!(ibv_device_attr, max_srq), 212);
    assert_eq!(offset_of!(ibv_device_attr, max_qp_rd_atom), 144);
}

#[test]
fn addresses_survive_the_way_through_c() {
    for text in ["10.1.2.3:4420", "0.0.0.0:0", "[::]:4420", "[2001:db8::1]:8009", "[fe80::1%3]:1"] {
        let addr: SocketAddr = text.parse().unwrap();
        assert_eq!(from_c_addr(&CAddr::new(addr).0), addr, "{text}");
    }
}

#[test]
fn failed_calls_become_errors() {
    assert!(not_null(Some(std::ptr::null_mut::<u8>())).is_err());
    assert!(not_null(None::<*mut u8>).is_err());
    assert!(cm_result(-1).is_err());
    assert_eq!(verbs_result(libc::ENOMEM).unwrap_err().raw_os_error(), Some(libc::ENOMEM));
    assert_eq!(verbs_result(-libc::EINVAL).unwrap_err().raw_os_error(), Some(libc::EINVAL));
}
